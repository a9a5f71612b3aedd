//! Walks the caller's stack and finds the modules that it goes through.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use whyslow_agent_wire::record::{MOST_TRAIL, SHORT_TRAIL};
use whyslow_selfwalk::{Entry, Module, Rules, SHORT, TRAILS, World};

use crate::arch::thread;
use crate::area::Area;
use crate::state::Inside;
use crate::{modules, sys};

const _: () = assert!(TRAILS == MOST_TRAIL + 1 && SHORT == SHORT_TRAIL);

static RULES: Rules = Rules::new();
/// The rules of this process. They may be used in signal handlers.
pub fn rules() -> &'static Rules {
    &RULES
}

/// The module generation of this process.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// Set in a forked child while it still uses its parent's generation.
static INHERITED: AtomicU32 = AtomicU32::new(0);

struct Process(Area);

// SAFETY: the kernel zeroes and aligns the memory, and it is handed out once.
unsafe impl World for Process {
    unsafe fn module_of(&self, address: u64) -> Option<Module<'_>> {
        // SAFETY: the caller upholds the same contract.
        unsafe { modules::find(self.0, address) }
    }

    fn memory(&self, bytes: usize) -> *mut u8 {
        sys::pages_for_good(bytes)
    }

    fn deep_memory(&self, bytes: usize) -> *mut u8 {
        sys::pages_for_good(bytes)
    }

    fn begins_near(&self, sp: u64) -> bool {
        begins_near(self.0, sp)
    }

    unsafe fn release(&self, memory: *mut u8, bytes: usize) {
        // SAFETY: `memory` returned it with this length, and the caller no longer uses it.
        unsafe { sys::unmap(memory as usize, bytes) };
    }
}

/// Whether the calling thread's stack starts this near: musl has no unwind tables for the code that calls `main` and
/// thread functions.
pub fn begins_near(area: Area, sp: u64) -> bool {
    /// Stack space that start code uses.
    const START_CODE: u64 = 256;
    /// The same plus thread-local storage, which lies between the stack and the address in `fs`.
    const THREAD_START: u64 = 1024;
    let first = area.header().stack_start.load(Relaxed);
    first.wrapping_sub(sp) < START_CODE || thread::base_by_call().wrapping_sub(sp) < THREAD_START
}

/// The caller of a shim: its registers, on the stack directly below its frame. The shim creates this, and its
/// frame outlives every use.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Caller(*const Entry);

impl Caller {
    /// The caller's return address.
    #[inline(always)]
    pub fn return_address(self) -> u64 {
        // SAFETY: the shim put it on the stack.
        unsafe { (*self.0).return_address }
    }
}

/// Writes the caller's stack for the next record. False if it is lost.
#[inline(always)]
pub fn note(inside: &mut Inside, caller: Caller) -> bool {
    let Some(area) = Area::get() else { return false };
    let (writer, walker) = inside.parts();
    loop {
        let generation = GENERATION.load(Relaxed);
        // SAFETY: a shim's caller has its registers directly below its frame.
        let walked = unsafe { walker.walk(&RULES, &Process(area), generation, caller.0) };
        // A module that this walk found for the first time may have started a new generation.
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
        // The collector does not have this stack. The next one must be written in full.
        walker.forget();
        return false;
    }
}

/// The generation for newly found modules. A forked child takes its own when it finds its first new module.
/// Otherwise modules that its parent or its siblings load at the same address would be mixed up.
pub fn generation_for_new_module(area: Area) -> u32 {
    if INHERITED.swap(0, Relaxed) != 0 {
        begin_generation(area);
    }
    GENERATION.load(Relaxed)
}

/// A module may have been unloaded.
pub fn unloaded() {
    let Some(area) = Area::get() else { return };
    INHERITED.store(0, Relaxed);
    // In this order: a walk in the new generation must not find an old rule.
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
