//! The caller's stack, and the modules that it goes through.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use whyslow_heap_wire::record::{MOST_TRAIL, SHORT_TRAIL};
use whyslow_selfwalk::{Entry, Module, Rules, SHORT, TRAILS, World};

use crate::arch::thread;
use crate::area::Area;
use crate::state::Inside;
use crate::{modules, sys};

const _: () = assert!(TRAILS == MOST_TRAIL + 1 && SHORT == SHORT_TRAIL);

static RULES: Rules = Rules::new();
/// The module generation of this process.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// Set in a forked child as long as it has its parent's generation.
static INHERITED: AtomicU32 = AtomicU32::new(0);

struct Process(Area);

// SAFETY: memory comes from the kernel, which zeroes and aligns it, and is given to nobody else.
unsafe impl World for Process {
    unsafe fn module_of(&self, address: u64) -> Option<Module<'_>> {
        // SAFETY: passed on.
        unsafe { modules::find(self.0, address) }
    }

    fn memory(&self, bytes: usize) -> *mut u8 {
        sys::pages_for_good(bytes)
    }

    fn deep_memory(&self, bytes: usize) -> *mut u8 {
        sys::pages_for_good(bytes)
    }

    /// musl has no tables for the code that calls `main` and the functions of threads.
    fn begins_near(&self, sp: u64) -> bool {
        /// What start code takes of a stack.
        const START_CODE: u64 = 256;
        /// That, and thread-local storage, which lies between the stack and what `fs` points to.
        const THREAD_START: u64 = 1024;
        let first = self.0.header().stack_start.load(Relaxed);
        first.wrapping_sub(sp) < START_CODE || thread::base_by_call().wrapping_sub(sp) < THREAD_START
    }

    unsafe fn release(&self, memory: *mut u8, bytes: usize) {
        // SAFETY: `memory` gave it with this length, and the caller is done with it.
        unsafe { sys::unmap(memory as usize, bytes) };
    }
}

/// Who called a shim: the registers that it had, on the stack directly below its frame. The shim makes it, and waits above as long as it is used.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Caller(*const Entry);

impl Caller {
    /// Where the caller goes on.
    #[inline(always)]
    pub fn return_address(self) -> u64 {
        // SAFETY: the shim's, on the stack.
        unsafe { (*self.0).return_address }
    }
}

/// Makes the caller's stack the one of what is recorded next. False if that is lost.
#[inline(always)]
pub fn note(inside: &mut Inside, caller: Caller) -> bool {
    let Some(area) = Area::get() else { return false };
    let (writer, walker) = inside.parts();
    loop {
        let generation = GENERATION.load(Relaxed);
        // SAFETY: a shim's caller has its registers directly below its frame.
        let walked = unsafe { walker.walk(&RULES, &Process(area), generation, caller.0) };
        // A module that came into this walk may have begun a new generation.
        if GENERATION.load(Relaxed) != generation {
            walker.forget();
            continue;
        }
        if walked.same {
            return writer.has_room();
        }
        if writer.stack(walker, generation, &walked) {
            return true;
        }
        // The collector does not know this one: from here on it must be told everything again.
        walker.forget();
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
