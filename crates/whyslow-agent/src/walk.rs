//! The caller's stack, and the modules that it goes through.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use whyslow_heap_wire::record::{MOST_TRAIL, SHORT_TRAIL};
use whyslow_selfwalk::{Entry, Module, Rules, SHORT, TRAILS, World};

use crate::area::Area;
use crate::state::State;
use crate::{modules, ring, sys};

const _: () = assert!(TRAILS == MOST_TRAIL + 1 && SHORT == SHORT_TRAIL);

static RULES: Rules = Rules::new();
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

    fn deep_memory(&self, bytes: usize) -> *mut u8 {
        sys::pages(bytes)
    }

    /// musl has no tables for the code that calls `main` and the functions of threads.
    fn begins_near(&self, sp: u64) -> bool {
        /// What start code takes of a stack.
        const START_CODE: u64 = 256;
        /// That, and thread-local storage, which lies between the stack and what `fs` points to.
        const THREAD_START: u64 = 1024;
        let first = self.0.header().stack_start.load(Relaxed);
        first.wrapping_sub(sp) < START_CODE || sys::fs_base().wrapping_sub(sp) < THREAD_START
    }

    fn release(&self, memory: *mut u8, bytes: usize) {
        sys::unmap(memory as usize, bytes);
    }
}

/// Makes the caller's stack the one of what is recorded next. False if that is lost.
#[inline(always)]
pub fn note(state: &State, entry: *const Entry) -> bool {
    let Some(area) = Area::get() else { return false };
    loop {
        let generation = GENERATION.load(Relaxed);
        // SAFETY: the shim made the entry of the registers that its caller had, and waits above.
        let walked = unsafe { state.walker().walk(&RULES, &Process(area), generation, entry) };
        // A module that came into this walk may have begun a new generation.
        if GENERATION.load(Relaxed) != generation {
            state.walker().forget();
            continue;
        }
        if walked.same {
            return ring::has_room(state);
        }
        if ring::stack(state, generation, &walked) {
            return true;
        }
        // The collector does not know this one: from here on it must be told everything again.
        state.walker().forget();
        return false;
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
    // In this order: who walks in the new generation must not find an old rule.
    RULES.forget();
    begin_generation(area);
}

fn begin_generation(area: Area) {
    GENERATION.store(area.header().generations.fetch_add(1, Acquire) + 1, Relaxed);
}

/// This is a forked child.
pub fn forked() {
    INHERITED.store(1, Relaxed);
}
