//! The caller's stack as a number, and the modules that it goes through.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use whyslow_heap_wire::record::NO_STACK;
use whyslow_selfwalk::{Entry, Memo, Module, Rules, Stacks, Walked, World};

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
    let walked = begin(state, entry);
    finish(state, walked)
}

#[inline(always)]
fn stacks(area: Area) -> Stacks<'static> {
    Stacks { heads: area.heads(), nodes: area.nodes(), used: &area.header().nodes_used, memo: &MEMO }
}

/// Walks the caller's stack. Its number comes from [`finish`], which must follow; in between is time for something else.
#[inline(always)]
pub fn begin(state: &State, entry: *const Entry) -> Option<Walked> {
    let area = Area::get()?;
    loop {
        let generation = GENERATION.load(Relaxed);
        // SAFETY: the shim made the entry of the registers that its caller had, and waits above.
        let walked =
            unsafe { state.walker().begin(&RULES, &stacks(area), &Process(area), generation as u16, entry) };
        // A module that came into this walk may have begun a new generation.
        if GENERATION.load(Relaxed) == generation {
            return Some(walked);
        }
        state.walker().forget();
    }
}

/// The number of the stack that was just walked.
#[inline(always)]
pub fn finish(state: &State, walked: Option<Walked>) -> u32 {
    match (walked, Area::get()) {
        (Some(walked), Some(area)) => state.walker().finish(&stacks(area), walked),
        _ => NO_STACK,
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
