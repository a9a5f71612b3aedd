//! Per-thread state for counting: how many blocks each thread has allocated, and which threads have exited.

use crate::ids::ThreadRow;

/// Number of exited threads after which their entries are swept.
pub(super) const SWEEP_AFTER: usize = 64;

#[derive(Debug, Default)]
struct Thread {
    /// Number of blocks that it has allocated.
    made: u32,
    ended: bool,
}

/// All threads, by row.
#[derive(Debug, Default)]
pub(super) struct Threads {
    threads: Vec<Thread>,
    /// Threads that exited since the last sweep.
    ended: usize,
}

impl Threads {
    pub(super) fn added(&mut self) -> ThreadRow {
        self.threads.push(Thread::default());
        ThreadRow::from(self.threads.len() - 1)
    }

    /// Counts another allocation of the thread. Returns its number of blocks, including this one.
    #[inline]
    pub(super) fn allocated(&mut self, thread: ThreadRow) -> u32 {
        let thread = &mut self.threads[thread.index()];
        thread.made = thread.made.wrapping_add(1);
        thread.made
    }

    /// Number of blocks that a thread has allocated since it had this many.
    #[inline]
    pub(super) fn made_since(&self, thread: ThreadRow, sequence: u32) -> u32 {
        self.threads[thread.index()].made.wrapping_sub(sequence)
    }

    pub(super) fn ended(&mut self, thread: ThreadRow) {
        self.threads[thread.index()].ended = true;
        self.ended += 1;
    }

    pub(super) fn has_ended(&self, thread: ThreadRow) -> bool {
        self.threads[thread.index()].ended
    }

    /// Whether many threads have exited since this last returned true.
    pub(super) fn many_have_ended(&mut self) -> bool {
        let many = self.ended >= SWEEP_AFTER;
        if many {
            self.ended = 0;
        }
        many
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_counts_its_own_blocks() {
        let mut threads = Threads::default();
        let [one, two] = [threads.added(), threads.added()];
        let first = threads.allocated(one);
        threads.allocated(two);
        assert_eq!((first, threads.made_since(one, first)), (1, 0));
        threads.allocated(one);
        assert_eq!(threads.made_since(one, first), 1);
    }

    #[test]
    fn many_exited_threads_are_reported_once() {
        let mut threads = Threads::default();
        for _ in 0..SWEEP_AFTER {
            assert!(!threads.many_have_ended());
            let thread = threads.added();
            threads.ended(thread);
        }
        assert!(threads.many_have_ended() && !threads.many_have_ended());
        assert!(threads.has_ended(ThreadRow(0)));
    }
}
