//! Single waits with their details.

use rustc_hash::FxHashMap;
use whyslow_profile::{Profile, Samples, StackId, ThreadId, WaitDetail};

use super::reason::{Reason, Reasons};

/// One wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Single {
    pub(crate) thread: ThreadId,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) length_ns: u64,
    pub(crate) stack: StackId,
    pub(crate) reason: Reason,
    /// Its details, if they were recorded.
    pub(crate) detail: Option<WaitDetail>,
}

/// The waits of these rows, with their reasons and details.
pub(crate) fn singles(profile: &Profile, rows: &Samples) -> Vec<Single> {
    let details: FxHashMap<(ThreadId, u64), usize> = (0..profile.wait_details.len())
        .map(|at| ((profile.wait_details.thread[at], profile.wait_details.end_ns[at]), at))
        .collect();
    let mut reasons = Reasons::new(profile);
    let single = |row: usize| {
        let (thread, end_ns, stack) = (rows.thread[row], rows.time_ns[row], rows.stack[row]);
        let reason = reasons.of_thread(thread, stack);
        // Run-queue delay that follows a wait can end at the same time as the wait only if its length is 0.
        let detail = details.get(&(thread, end_ns)).map(|at| profile.wait_details.row(*at));
        let length_ns = rows.value[row];
        let start_ns = end_ns.saturating_sub(length_ns);
        Single { thread, start_ns, end_ns, length_ns, stack, reason, detail }
    };
    (0..rows.len()).map(single).collect()
}
