//! A forked child is another program: it counts nothing, and writes no file over its parent's.

#![expect(unsafe_code, reason = "handlers around fork are registered with libc")]

use std::cell::UnsafeCell;
use std::sync::{MutexGuard, Once};

use crate::profiler::{self, Phase};
use crate::watch::{Busy, with_thread};

/// What is held over a fork, so that the child finds no lock taken by a thread that it does not have.
struct Held(UnsafeCell<Option<(MutexGuard<'static, Phase>, Busy)>>);

// SAFETY: only the thread that holds the profiler's lock, for which it forks, looks inside.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

/// Has the handlers called from now on.
pub(crate) fn handle() {
    static ONCE: Once = Once::new();
    // SAFETY: the handlers live as long as the program.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child));
    });
}

extern "C" fn before() {
    let busy = Busy::stay();
    let guard = profiler::lock();
    // SAFETY: this thread holds the lock.
    unsafe { *HELD.0.get() = Some((guard, busy)) };
}

extern "C" fn in_parent() {
    // SAFETY: this thread holds the lock; what is taken out gives it back at the end of the statement.
    drop(unsafe { (*HELD.0.get()).take() });
}

extern "C" fn in_child() {
    with_thread(|thread| thread.scopes.set(std::ptr::null()));
    // SAFETY: as above.
    if let Some((mut guard, _busy)) = unsafe { (*HELD.0.get()).take() } {
        profiler::forget(&mut guard);
    }
}
