//! Counts the active scopes and profilers, and holds each thread's data for them.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::sys::Errno;
use crate::{profiler, scope, stack};

/// Number of scopes and profilers. While it is 0, an allocation costs one load of this.
static WATCHERS: AtomicU32 = AtomicU32::new(0);
/// Whether [`crate::Alloc`] was ever called.
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// One thread's data. It has no destructor, so destructors of other thread-locals can still use it.
pub(crate) struct Thread {
    /// The thread is in this crate's code: its allocations are the crate's own.
    busy: Cell<bool>,
    /// The innermost scope that counts this thread.
    pub(crate) scopes: Cell<*const scope::Link>,
    /// The walker it used last.
    pub(crate) walker: Cell<usize>,
    /// Its row in a profiler, and in which one.
    pub(crate) row: Cell<(u32, u32)>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            busy: Cell::new(false),
            scopes: Cell::new(std::ptr::null()),
            walker: Cell::new(usize::MAX),
            row: Cell::new((0, 0)),
        }
    };
}

/// Whether allocations are counted.
#[inline(always)]
pub(crate) fn is_watched() -> bool {
    WATCHERS.load(Ordering::Relaxed) != 0
}

/// Calls `work` with the calling thread's data.
#[inline]
pub(crate) fn with_thread<R>(work: impl FnOnce(&Thread) -> R) -> R {
    THREAD.with(work)
}

/// While this exists, the thread's allocations are not counted: they are for the counting itself.
pub(crate) struct Busy {
    was: bool,
    _errno: Errno,
    _here: PhantomData<*const ()>,
}

impl Busy {
    /// `None` if the thread is already busy: it is counting, or a signal handler interrupted the counting.
    pub(crate) fn enter() -> Option<Self> {
        let was = with_thread(|thread| thread.busy.replace(true));
        (!was).then(|| Self { was, _errno: Errno::keep(), _here: PhantomData })
    }

    /// Makes the thread busy, whether or not it was before.
    pub(crate) fn force() -> Self {
        let was = with_thread(|thread| thread.busy.replace(true));
        Self { was, _errno: Errno::keep(), _here: PhantomData }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        with_thread(|thread| thread.busy.set(self.was));
    }
}

/// Turns counting on while it exists.
#[derive(Debug)]
pub(crate) struct Watch(());

impl Watch {
    /// # Panics
    /// Panics if the program has another global allocator: then nothing would ever be counted.
    #[track_caller]
    pub(crate) fn start() -> Self {
        let _busy = Busy::force();
        crate::fork::handle();
        WATCHERS.fetch_add(1, Ordering::Relaxed);
        let watch = Self(());
        if !INSTALLED.load(Ordering::Relaxed) {
            stack::allocate_and_free();
        }
        std::assert!(
            INSTALLED.load(Ordering::Relaxed),
            "whyslow-alloc is not this program's global allocator, so nothing can be counted. Add these lines (to each \
             file in tests/ too, because each is a separate program):\n\n    \
             #[global_allocator]\n    \
             static ALLOC: whyslow_alloc::Alloc = whyslow_alloc::Alloc::system();\n"
        );
        watch
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        WATCHERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Notes that the allocator was called.
#[inline]
pub(crate) fn note_installed() {
    if !INSTALLED.load(Ordering::Relaxed) {
        INSTALLED.store(true, Ordering::Relaxed);
    }
}

/// Whether a scope or profiler counts this thread's allocations.
#[inline]
pub(crate) fn is_interested(thread: &Thread) -> bool {
    !thread.scopes.get().is_null() || profiler::is_running()
}

/// Runs `work` with counting on, although the thread is busy.
pub(crate) fn unbusy<R>(thread: &Thread, work: impl FnOnce() -> R) -> R {
    let was = thread.busy.replace(false);
    let result = work();
    thread.busy.set(was);
    result
}
