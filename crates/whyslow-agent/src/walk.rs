//! The caller's stack as a number, and the modules that it goes through.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use whyslow_heap_wire::record::NO_STACK;
use whyslow_selfwalk::{Entry, Memo, Module, Rules, Stacks, World};

use crate::area::Area;
use crate::state::State;
use crate::{modules, sys};

static RULES: Rules = Rules::new();
static MEMO: Memo = Memo::new();
/// The module generation of this process.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// Set in a forked child as long as it has its parent's generation.
static INHERITED: AtomicU32 = AtomicU32::new(0);

struct Process(Area);

impl World for Process {
    fn module_of(&self, address: u64) -> Option<Module> {
        modules::find(self.0, address)
    }

    fn memory(&self, bytes: usize) -> *mut u8 {
        sys::pages(bytes)
    }

    fn release(&self, memory: *mut u8, bytes: usize) {
        sys::unmap(memory as usize, bytes);
    }

    fn cut(&self) {
        self.0.header().cut_stacks.fetch_add(1, Relaxed);
    }
}

/// The caller's stack.
#[inline(always)]
pub fn stack(state: &State, entry: *const Entry) -> u32 {
    let Some(area) = Area::get() else { return NO_STACK };
    let stacks =
        Stacks { heads: area.heads(), nodes: area.nodes(), used: &area.header().nodes_used, memo: &MEMO };
    loop {
        let generation = GENERATION.load(Relaxed);
        // SAFETY: the shim made the entry of the registers that its caller had, and waits above.
        let stack = unsafe { state.walker().walk(&RULES, &stacks, &Process(area), generation as u16, entry) };
        // A module that came into this walk may have begun a new generation.
        if GENERATION.load(Relaxed) == generation {
            return stack;
        }
    }
}

/// The generation that modules met from now on belong to. A forked child takes its own when it meets its first new one, so
/// that what its parent and its siblings load at the same place is not mixed up.
pub fn generation_for_new_module(area: Area) -> u32 {
    if INHERITED.swap(0, Relaxed) != 0 {
        begin_generation(area);
    }
    GENERATION.load(Relaxed)
}

/// A module may have gone.
pub fn unloaded() {
    let Some(area) = Area::get() else { return };
    INHERITED.store(0, Relaxed);
    begin_generation(area);
    RULES.forget();
    MEMO.forget();
}

fn begin_generation(area: Area) {
    GENERATION.store(area.header().generations.fetch_add(1, Acquire) + 1, Relaxed);
}

/// This is a forked child.
pub fn forked() {
    INHERITED.store(1, Relaxed);
}
