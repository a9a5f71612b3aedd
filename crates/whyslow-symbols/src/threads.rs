//! Threads for work in parallel, where any may be started.

use std::error::Error as _;
use std::sync::OnceLock;

use rayon::ThreadPoolBuilder;

/// Starts the threads. If the limit of threads is reached or a sandbox permits none, the calling thread does all of
/// the work.
pub(crate) fn prepare() {
    if rayon::current_thread_index().is_some() {
        return;
    }
    static STARTED: OnceLock<bool> = OnceLock::new();
    let started = *STARTED.get_or_init(|| {
        let error = ThreadPoolBuilder::new().build_global().err();
        // An error without a cause says that the threads were started before.
        error.is_none_or(|error| error.source().is_none())
    });
    if !started {
        // Stays in place as long as the thread. The second time, the thread is already in its pool.
        std::mem::forget(ThreadPoolBuilder::new().num_threads(1).use_current_thread().build());
    }
}

/// Works with threads that end afterwards. Those of [`prepare`] stay, and what they let through of the process's signals
/// is decided by whoever starts them: a recorder keeps signals for itself.
pub(crate) fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match ThreadPoolBuilder::new().build() {
        Ok(pool) => pool.install(work),
        Err(_) => {
            prepare();
            work()
        }
    }
}
