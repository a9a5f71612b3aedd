//! Who is watching, and what each thread keeps for it.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::sys::Errno;
use crate::{profiler, scope, stack};

/// How many scopes and profilers there are. While it is 0, an allocation costs one look at this.
static WATCHERS: AtomicU32 = AtomicU32::new(0);
/// Whether any call ever came through [`crate::Alloc`].
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// What one thread keeps. It has no destructor, so that it is there for the destructors of other thread-locals.
pub(crate) struct Thread {
    /// The thread is in here already: what it allocates now is ours.
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

/// Whether an allocation has to be looked at.
#[inline(always)]
pub(crate) fn is_watched() -> bool {
    WATCHERS.load(Ordering::Relaxed) != 0
}

/// The calling thread's part.
#[inline]
pub(crate) fn with_thread<R>(work: impl FnOnce(&Thread) -> R) -> R {
    THREAD.with(work)
}

/// While this lives, what the thread allocates is not counted: it is for the counting itself.
pub(crate) struct Busy {
    was: bool,
    _errno: Errno,
    _here: PhantomData<*const ()>,
}

impl Busy {
    /// `None` when the thread is busy already, in the code that a signal handler interrupted or because it counts itself.
    pub(crate) fn enter() -> Option<Self> {
        let was = with_thread(|thread| thread.busy.replace(true));
        (!was).then(|| Self { was, _errno: Errno::keep(), _here: PhantomData })
    }

    /// Busy from here on, whether or not it was before.
    pub(crate) fn stay() -> Self {
        let was = with_thread(|thread| thread.busy.replace(true));
        Self { was, _errno: Errno::keep(), _here: PhantomData }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        with_thread(|thread| thread.busy.set(self.was));
    }
}

/// Makes every allocation be looked at while it lives.
#[derive(Debug)]
pub(crate) struct Watch(());

impl Watch {
    /// # Panics
    /// When the program's allocator is another one: then nothing would ever be counted.
    #[track_caller]
    pub(crate) fn start() -> Self {
        let _busy = Busy::stay();
        crate::fork::handle();
        WATCHERS.fetch_add(1, Ordering::Relaxed);
        let watch = Self(());
        if !INSTALLED.load(Ordering::Relaxed) {
            stack::allocate_and_free();
        }
        std::assert!(
            INSTALLED.load(Ordering::Relaxed),
            "whyslow-alloc is not this program's global allocator, so nothing can be counted. Add to it (a test file \
             in tests/ is a program of its own):\n\n    \
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

/// Says that a call came through the allocator.
#[inline]
pub(crate) fn note_installed() {
    if !INSTALLED.load(Ordering::Relaxed) {
        INSTALLED.store(true, Ordering::Relaxed);
    }
}

/// Whether somebody wants to know about this thread's allocations.
#[inline]
pub(crate) fn is_interested(thread: &Thread) -> bool {
    !thread.scopes.get().is_null() || profiler::is_running()
}

/// Does something that is counted although the thread is busy.
pub(crate) fn unbusy<R>(thread: &Thread, work: impl FnOnce() -> R) -> R {
    let was = thread.busy.replace(false);
    let result = work();
    thread.busy.set(was);
    result
}
