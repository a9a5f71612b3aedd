//! Handles `fork`: a forked child counts nothing, and does not overwrite its parent's file.

#![expect(unsafe_code, reason = "handlers around fork are registered with libc")]

use std::cell::UnsafeCell;
use std::sync::{MutexGuard, Once};

use crate::profiler::{self, Phase};
use crate::watch::{Busy, with_thread};

/// What is held during a fork, so that the child does not find a lock held by a thread that it does not have.
struct Held(UnsafeCell<Option<(MutexGuard<'static, Phase>, Busy)>>);

// SAFETY: only the forking thread accesses it, while it holds the profiler's lock.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

/// Registers the handlers.
pub(crate) fn handle() {
    static ONCE: Once = Once::new();
    // SAFETY: the handlers live as long as the program.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child));
    });
}

extern "C" fn before() {
    let busy = Busy::force();
    let guard = profiler::lock();
    // SAFETY: this thread holds the lock.
    unsafe { *HELD.0.get() = Some((guard, busy)) };
}

extern "C" fn in_parent() {
    // SAFETY: this thread holds the lock. Dropping the value releases it.
    drop(unsafe { (*HELD.0.get()).take() });
}

extern "C" fn in_child() {
    with_thread(|thread| thread.scopes.set(std::ptr::null()));
    // SAFETY: as above.
    if let Some((mut guard, _busy)) = unsafe { (*HELD.0.get()).take() } {
        profiler::forget(&mut guard);
    }
}
