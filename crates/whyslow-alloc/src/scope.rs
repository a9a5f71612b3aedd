//! Scopes: count what one thread allocates between two points, and what other threads count for it.

#![expect(unsafe_code, reason = "a thread's scopes are a list through its own stack of guards")]

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread;

use rustc_hash::FxHashMap;

use crate::report::Row;
use crate::stack;
use crate::stats::{Counts, Stats};
use crate::watch::{Busy, Thread, Watch, with_thread};

/// An allocator event.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change {
    Made { size: u64 },
    Freed { size: u64 },
    Replaced { size: u64, new_size: u64 },
}

/// The part of a scope that its threads share.
#[derive(Debug, Default)]
struct Shared {
    counts: Counts,
    /// Allocations and bytes by stack, if requested.
    stacks: Option<Mutex<FxHashMap<u32, (u64, u64)>>>,
}

impl Shared {
    fn count_event(&self, stack: u32, change: Change) {
        let size = match change {
            Change::Made { size } => {
                self.counts.allocated(size);
                size
            }
            Change::Freed { size } => return self.counts.freed(size),
            Change::Replaced { size, new_size } => {
                self.counts.replaced(size, new_size);
                new_size
            }
        };
        if let Some(stacks) = &self.stacks {
            let mut stacks = stacks.lock().unwrap_or_else(PoisonError::into_inner);
            let (allocations, bytes) = stacks.entry(stack).or_default();
            *allocations += 1;
            *bytes += size;
        }
    }

    fn rows(&self) -> Vec<Row> {
        let Some(stacks) = &self.stacks else { return Vec::new() };
        let stacks = stacks.lock().unwrap_or_else(PoisonError::into_inner);
        stacks.iter().map(|(&stack, &(allocations, bytes))| Row { stack, allocations, bytes }).collect()
    }
}

/// One thread counting for one scope. It lies in a box that its [`Counting`] owns, in a list from the
/// innermost scope outwards.
#[derive(Debug)]
pub(crate) struct Link {
    shared: Arc<Shared>,
    outer: *const Link,
    /// An outer link is of the same scope and counts for both: a pool can give a thread work for a scope that
    /// it already counts for.
    again: bool,
}

/// The scopes of a thread, innermost first.
fn links(thread: &Thread) -> impl Iterator<Item = &Link> {
    // SAFETY: a link is in the list only while its box lives, and only on its own thread.
    let link = |at: *const Link| unsafe { at.as_ref() };
    std::iter::successors(link(thread.scopes.get()), move |inner| link(inner.outer))
}

/// Passes an event to the thread's scopes.
pub(crate) fn count_event(thread: &Thread, stack: u32, change: Change) {
    for link in links(thread).filter(|link| !link.again) {
        link.shared.count_event(stack, change);
    }
}

/// Whether a scope of this thread records stacks.
pub(crate) fn wants_stacks(thread: &Thread) -> bool {
    links(thread).any(|link| link.shared.stacks.is_some())
}

/// While this value exists, its thread's allocations count for a scope.
#[derive(Debug)]
struct Counting {
    link: *mut Link,
    _watch: Watch,
}

impl Counting {
    #[track_caller]
    fn start(shared: Arc<Shared>) -> Self {
        let watch = Watch::start();
        let _busy = Busy::force();
        with_thread(|thread| {
            let again = links(thread).any(|link| Arc::ptr_eq(&link.shared, &shared));
            let link = Box::into_raw(Box::new(Link { shared, outer: thread.scopes.get(), again }));
            thread.scopes.set(link);
            Self { link, _watch: watch }
        })
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let _busy = Busy::force();
        with_thread(|thread| {
            // SAFETY: the box belongs to this function until it returns. Other links are alive while they are
            // in the list, and only this thread uses the list.
            unsafe {
                let outer = (*self.link).outer;
                // From now on, the outermost inner link of the same scope counts.
                let mut next: *mut Link = std::ptr::null_mut();
                let mut at = thread.scopes.get().cast_mut();
                if std::ptr::eq(at, self.link) {
                    thread.scopes.set(outer);
                    at = std::ptr::null_mut();
                }
                while !at.is_null() {
                    if Arc::ptr_eq(&(*at).shared, &(*self.link).shared) {
                        next = at;
                    }
                    if std::ptr::eq((*at).outer, self.link) {
                        (*at).outer = outer;
                        break;
                    }
                    at = (*at).outer.cast_mut();
                }
                if !next.is_null() {
                    (*next).again = (*self.link).again;
                }
                drop(Box::from_raw(self.link));
            }
        });
    }
}

/// Counts what the calling thread allocates from [`Scope::new`] on.
///
/// Other threads are not counted, so tests can run in parallel. Threads can opt in: see [`Scope::spawn`] and
/// [`Scope::inherit`]. Work that a pool such as rayon's does for this thread is not counted until it enters
/// the scope. Scopes can be nested, and an allocation counts for all of them. A scope belongs to the thread
/// that created it.
///
/// ```
/// # #[global_allocator]
/// # static ALLOC: whyslow_alloc::Alloc = whyslow_alloc::Alloc::system();
/// let heap = whyslow_alloc::Scope::new();
/// let text = "a".repeat(100);
/// assert_eq!(heap.stats().allocations, 1);
/// assert_eq!(heap.stats().live_bytes, 100);
/// drop(text);
/// assert_eq!(heap.stats().live_bytes, 0);
/// assert_eq!(heap.stats().peak_bytes, 100);
/// ```
#[derive(Debug)]
#[must_use = "a scope counts until it is dropped"]
pub struct Scope {
    counting: Counting,
    _this_thread: PhantomData<*const ()>,
}

impl Scope {
    /// Starts to count.
    ///
    /// # Panics
    /// Panics if [`crate::Alloc`] is not the program's global allocator.
    #[expect(clippy::new_without_default, reason = "it starts counting; a default value would make no sense")]
    #[track_caller]
    pub fn new() -> Self {
        Self::open(None)
    }

    /// Starts to count, and records the stack of each allocation for [`Scope::assert`] and [`Scope::stacks`].
    ///
    /// # Panics
    /// Panics if [`crate::Alloc`] is not the program's global allocator.
    #[track_caller]
    pub fn with_stacks() -> Self {
        prepare_stacks();
        let _busy = Busy::force();
        Self::open(Some(Mutex::default()))
    }

    #[track_caller]
    fn open(stacks: Option<Mutex<FxHashMap<u32, (u64, u64)>>>) -> Self {
        let shared = {
            let _busy = Busy::force();
            Arc::new(Shared { counts: Counts::default(), stacks })
        };
        Self { counting: Counting::start(shared), _this_thread: PhantomData }
    }

    fn shared(&self) -> &Arc<Shared> {
        // SAFETY: the box lives as long as `counting`.
        unsafe { &(*self.counting.link).shared }
    }

    /// The counts so far.
    pub fn stats(&self) -> Stats {
        self.shared().counts.stats()
    }

    /// The stacks of the allocations so far, as text. Empty unless the scope was created by
    /// [`Scope::with_stacks`].
    pub fn stacks(&self) -> String {
        let _busy = Busy::force();
        crate::report::stacks(self.shared().rows(), false)
    }

    pub(crate) fn rows(&self) -> Vec<Row> {
        self.shared().rows()
    }

    /// Returns a handle with which another thread can count for this scope: see [`Inherit`].
    pub fn inherit(&self) -> Inherit {
        Inherit { shared: Some(Arc::clone(self.shared())) }
    }

    /// [`std::thread::spawn`] for a closure whose allocations also count for this scope.
    ///
    /// The few allocations that this thread makes to start the other one count too.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> thread::JoinHandle<T> {
        thread::spawn(self.inherit().wrap(work))
    }

    /// [`std::thread::Scope::spawn`] for a closure whose allocations also count for this scope.
    pub fn spawn_scoped<'scope, T: Send + 'scope>(
        &self,
        threads: &'scope thread::Scope<'scope, '_>,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> thread::ScopedJoinHandle<'scope, T> {
        threads.spawn(self.inherit().wrap(work))
    }
}

/// Carries a scope to another thread: one of a pool, of a runtime, or any that the scope did not start
/// itself.
///
/// ```
/// # #[global_allocator]
/// # static ALLOC: whyslow_alloc::Alloc = whyslow_alloc::Alloc::system();
/// let heap = whyslow_alloc::Scope::new();
/// let inherit = heap.inherit();
/// std::thread::spawn(move || {
///     let _counted = inherit.enter();
///     std::hint::black_box(vec![0u8; 5000]);
/// })
/// .join()
/// .unwrap();
/// assert!(heap.stats().bytes_freed >= 5000);
/// ```
///
/// With rayon, each work item enters the scope on the thread it runs on. On the scope's own thread nothing
/// counts twice: `rows.par_iter().for_each(|row| { let _counted = inherit.enter(); … })`.
#[derive(Debug, Clone)]
pub struct Inherit {
    /// `None` only while it is dropped.
    shared: Option<Arc<Shared>>,
}

impl Drop for Inherit {
    fn drop(&mut self) {
        // This may be the last owner, and its free is not the program's.
        let _busy = Busy::force();
        self.shared = None;
    }
}

impl Inherit {
    /// Makes the calling thread count for the scope until the guard is dropped.
    #[must_use = "the thread counts until the guard is dropped"]
    pub fn enter(&self) -> Entered {
        let counting = self.shared.clone().map(Counting::start);
        Entered { _counting: counting, _this_thread: PhantomData }
    }

    /// A closure that counts for the scope while it runs, on any thread.
    pub fn wrap<T>(self, work: impl FnOnce() -> T) -> impl FnOnce() -> T {
        move || {
            let _entered = self.enter();
            work()
        }
    }
}

/// The guard of [`Inherit::enter`].
#[derive(Debug)]
pub struct Entered {
    _counting: Option<Counting>,
    _this_thread: PhantomData<*const ()>,
}

/// Allocates room for stacks and learns which frames belong to the allocator.
#[track_caller]
pub(crate) fn prepare_stacks() {
    static PREPARED: Once = Once::new();
    if PREPARED.is_completed() {
        return;
    }
    // Before the `Once`, so that a program without the allocator gets the error each time.
    drop(Watch::start());
    let busy = Busy::force();
    PREPARED.call_once(|| {
        stack::prepare();
        // Open scopes do not count this.
        let open = with_thread(|thread| thread.scopes.replace(std::ptr::null()));
        let scope = Scope::open(Some(Mutex::default()));
        let outer = with_thread(|thread| crate::watch::unbusy(thread, || stack::probe(thread)));
        let rows = scope.rows();
        stack::learn_internal(rows.iter().map(|row| row.stack), outer);
        drop(scope);
        with_thread(|thread| thread.scopes.set(open));
    });
    drop(busy);
}
