//! Run-queue delay of woken threads, where no record shows the wakeup: the kernel adds it up per thread.

use rustc_hash::FxHashMap;
use whyslow_convert::{Input, Task};
use whyslow_numbers::ClockNs;
use whyslow_proc::accounts::QueuedTime;

use crate::RecordError;
use crate::source::{LiveConverter, Source};

/// Time between two readings of all threads.
const PAUSE_NS: u64 = 100_000_000;
/// Threads read at a time, at up to 10 µs each. If there are more, they take turns.
const MAX: usize = 100;
/// Threads with new waits read after a drain.
const MAX_WAITING: usize = 16;
/// Threads whose file stays open.
const MAX_OPEN: usize = 64;

/// Reads the kernel's scheduler statistics of the recorded threads.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    /// The program that was started.
    child: Option<u32>,
    next: ClockNs,
    /// The thread that was read last.
    last: u32,
    /// The open files, by thread.
    open: FxHashMap<u32, QueuedTime>,
}

impl Source for Queues {
    /// Reads the statistics, to compare later ones with.
    fn start(&mut self, converter: &mut LiveConverter) -> Result<(), RecordError> {
        for task in converter.living() {
            if let Some(queued_ns) = self.read(task) {
                converter.take(&Input::QueuedAtStart { tid: task.tid, queued_ns });
            }
        }
        Ok(())
    }

    /// Reads those of the main thread for the last time.
    fn before_reaping(&mut self, converter: &mut LiveConverter) {
        let child = self.child.map(Task::first_of);
        self.read_all(child, converter);
    }

    /// Reads those of threads with waits since their last reading, and from time to time those of all threads.
    fn look(&mut self, converter: &mut LiveConverter) {
        let mut tasks = converter.threads_to_read(MAX_WAITING);
        let now = whyslow_proc::now();
        if now >= self.next {
            self.next = now.plus(PAUSE_NS);
            let living = converter.living();
            let lives = |tid: u32| living.binary_search_by_key(&tid, |task| task.tid).is_ok();
            self.open.retain(|tid, _| lives(*tid));
            let all = self.turn(living);
            tasks.retain(|task| !all.contains(task));
            tasks.extend(all);
        }
        self.read_all(tasks, converter);
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

    fn read_all(&mut self, tasks: impl IntoIterator<Item = Task>, converter: &mut LiveConverter) {
        for task in tasks {
            // What is counted while it is read belongs to the next reading.
            let time_ns = whyslow_proc::now();
            if let Some(queued_ns) = self.read(task) {
                converter.take(&Input::Queued { tid: task.tid, queued_ns, time_ns });
            }
        }
    }

    fn read(&mut self, Task { pid, tid }: Task) -> Option<u64> {
        if let Some(known) = self.open.get(&tid).and_then(QueuedTime::read_ns) {
            return Some(known);
        }
        // Another thread may have the number of one that has exited.
        self.open.remove(&tid);
        let file = QueuedTime::open(pid, tid)?;
        let queued_ns = file.read_ns()?;
        if self.open.len() < MAX_OPEN {
            self.open.insert(tid, file);
        }
        Some(queued_ns)
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
