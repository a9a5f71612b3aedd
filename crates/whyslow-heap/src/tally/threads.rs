//! What counting must know of threads: how many blocks each has made, and which have ended.

use crate::ids::ThreadRow;

/// Ended threads after which what they have left behind is looked through.
pub(super) const SWEEP_AFTER: usize = 64;

#[derive(Debug, Default)]
struct Thread {
    /// Blocks it made.
    made: u32,
    ended: bool,
}

/// All threads, by row.
#[derive(Debug, Default)]
pub(super) struct Threads {
    threads: Vec<Thread>,
    /// Threads that ended since what they left was last looked through.
    ended: usize,
}

impl Threads {
    pub(super) fn added(&mut self) -> ThreadRow {
        self.threads.push(Thread::default());
        ThreadRow::from(self.threads.len() - 1)
    }

    /// The thread makes another block: how many it has made, this one included.
    #[inline]
    pub(super) fn allocated(&mut self, thread: ThreadRow) -> u32 {
        let thread = &mut self.threads[thread.index()];
        thread.made = thread.made.wrapping_add(1);
        thread.made
    }

    /// Blocks that a thread has made since it had made so many.
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

    /// Whether many have ended since the last time it was so.
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
    fn ended_threads_are_many_once() {
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
