//! How long threads that were woken waited for a CPU, where no record tells of the waking: the kernel adds it up for each thread.

use whyslow_convert::{Converter, Task, World};
use whyslow_proc::process::thread_queued_ns;

/// Between two readings of all threads.
const PAUSE_NS: u64 = 100_000_000;
/// Threads that are read at a time, each some 10 µs. Where there are more they take turns.
const MOST: usize = 100;

/// Reads the kernel's accounts of the recorded threads.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    next_ns: u64,
    /// The thread that was read last.
    last: u32,
}

impl Queues {
    /// Reads what the accounts are when the recording begins.
    pub(crate) fn begin<W: World>(converter: &mut Converter<W>) -> Self {
        for Task { pid, tid } in converter.living() {
            if let Some(queued_ns) = thread_queued_ns(pid, tid) {
                converter.queue_begins(tid, queued_ns);
            }
        }
        Self::default()
    }

    /// Reads that of a thread that may be about to end, and from time to time those of all.
    pub(crate) fn read<W: World>(&mut self, first: Option<u32>, converter: &mut Converter<W>) {
        let mut tasks: Vec<Task> = first.map(|pid| Task { pid, tid: pid }).into_iter().collect();
        let now = whyslow_proc::monotonic_ns();
        if now >= self.next_ns {
            self.next_ns = now + PAUSE_NS;
            tasks.extend(self.turn(converter.living()));
        }
        for Task { pid, tid } in tasks {
            if let Some(queued_ns) = thread_queued_ns(pid, tid) {
                converter.queue_told(tid, queued_ns);
            }
        }
    }

    /// Those whose turn it is: the ones behind the last, and from the front again. They are sorted by their numbers.
    fn turn(&mut self, mut tasks: Vec<Task>) -> Vec<Task> {
        let behind = tasks.partition_point(|task| task.tid <= self.last);
        tasks.rotate_left(behind);
        tasks.truncate(MOST);
        self.last = tasks.last().map_or(0, |task| task.tid);
        tasks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_threads_take_turns() {
        let tasks = || (1..=250).map(|tid| Task { pid: 1, tid }).collect();
        let mut queues = Queues::default();
        let mut turn = || {
            let tasks = queues.turn(tasks());
            (tasks.len(), tasks[0].tid, tasks[MOST - 1].tid)
        };
        assert_eq!([turn(), turn(), turn()], [(MOST, 1, 100), (MOST, 101, 200), (MOST, 201, 50)]);
        assert_eq!(queues.turn(Vec::new()), []);
    }
}
