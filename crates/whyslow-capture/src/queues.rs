//! Run-queue delay of woken threads, where no record shows the wakeup: the kernel adds it up per thread.

use whyslow_convert::{Converter, Input, Task, World};
use whyslow_proc::monotonic_ns;
use whyslow_proc::process::thread_queued_ns;

use crate::RecordError;
use crate::source::{LiveConverter, Source};

/// Time between two readings of all threads.
const PAUSE_NS: u64 = 100_000_000;
/// Threads read at a time, at about 10 µs each. If there are more, they take turns.
const MAX: usize = 100;
/// Threads with new waits read after a drain.
const MAX_WAITING: usize = 16;

/// Reads the kernel's scheduler statistics of the recorded threads.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    /// The program that was started.
    child: Option<u32>,
    next_ns: u64,
    /// The thread that was read last.
    last: u32,
}

impl Source for Queues {
    /// Reads the statistics, to compare later ones with.
    fn start(&mut self, converter: &mut LiveConverter) -> Result<(), RecordError> {
        for Task { pid, tid } in converter.living() {
            if let Some(queued_ns) = thread_queued_ns(pid, tid) {
                converter.take(&Input::QueuedAtStart { tid, queued_ns });
            }
        }
        Ok(())
    }

    /// Reads those of a thread that may be about to exit, and from time to time those of all threads.
    fn before_reaping(&mut self, converter: &mut LiveConverter) {
        let mut tasks: Vec<Task> = self.child.map(Task::first_of).into_iter().collect();
        let now = monotonic_ns();
        if now >= self.next_ns {
            self.next_ns = now + PAUSE_NS;
            tasks.extend(self.turn(converter.living()));
        }
        read_all(&tasks, converter);
    }

    /// Reads those of threads with waits since their last reading.
    fn look(&mut self, converter: &mut LiveConverter) {
        let tasks = converter.threads_to_read(MAX_WAITING);
        read_all(&tasks, converter);
    }
}

impl Queues {
    pub(crate) fn new(child: Option<u32>) -> Self {
        Self { child, ..Self::default() }
    }

    /// The threads whose turn it is: those after the last one read, then from the start again. They are
    /// sorted by number.
    fn turn(&mut self, mut tasks: Vec<Task>) -> Vec<Task> {
        let behind = tasks.partition_point(|task| task.tid <= self.last);
        tasks.rotate_left(behind);
        tasks.truncate(MAX);
        self.last = tasks.last().map_or(0, |task| task.tid);
        tasks
    }
}

fn read_all<W: World>(tasks: &[Task], converter: &mut Converter<W>) {
    for Task { pid, tid } in tasks {
        // What is counted while it is read belongs to the next reading.
        let time = monotonic_ns();
        if let Some(queued_ns) = thread_queued_ns(*pid, *tid) {
            converter.take(&Input::Queued { tid: *tid, queued_ns, time_ns: time });
        }
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
            (tasks.len(), tasks[0].tid, tasks[MAX - 1].tid)
        };
        assert_eq!([turn(), turn(), turn()], [(MAX, 1, 100), (MAX, 101, 200), (MAX, 201, 50)]);
        assert_eq!(queues.turn(Vec::new()), []);
    }
}
