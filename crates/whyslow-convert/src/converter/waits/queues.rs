//! Run-queue delay after waits, where no record shows wakeups: a thread may have been queued for a CPU before it ran
//! again. The kernel's account of its run-queue delay shows it, at its next reading.

use whyslow_numbers::ClockNs;
use whyslow_profile::{ThreadId, ThreadTimes};

use super::super::tasks::LiveThread;
use super::Waits;
use super::ended::Ended;
use crate::input::Task;

/// Waits become rows without a reading after this time.
const LATEST_NS: u64 = 2_000_000_000;

/// The waits of one thread since the last reading of its run-queue delay.
#[derive(Debug, Default)]
pub(super) struct Unsplit {
    ended: Vec<Ended>,
    /// Readings whose records have not all arrived: the time, and the delay of the thread's life so far.
    readings: Vec<(ClockNs, u64)>,
    /// The delay that earlier waits account for.
    counted_ns: u64,
}

impl Unsplit {
    pub(super) fn is_empty(&self) -> bool {
        self.ended.is_empty()
    }

    pub(super) fn add(&mut self, ended: Ended) {
        self.ended.push(ended);
    }

    /// All waits, as far as they are split.
    pub(super) fn take(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.ended)
    }

    /// All waits, if the oldest one has been without a reading for too long.
    pub(super) fn take_unread(&mut self, now: ClockNs) -> Vec<Ended> {
        let is_late = self.ended.first().is_some_and(|wait| wait.end.plus(LATEST_NS) < now);
        if is_late { self.take() } else { Vec::new() }
    }

    /// The waits that ended before readings up to a time, split by these.
    fn split(&mut self, times: &mut ThreadTimes, until: ClockNs) -> Vec<Ended> {
        let mut split = Vec::new();
        let readings = self.readings.partition_point(|(time, _)| *time <= until);
        for (time, queued_ns) in self.readings.drain(..readings) {
            let over = self.ended.partition_point(|wait| wait.end <= time);
            let mut ended: Vec<Ended> = self.ended.drain(..over).collect();
            let known_ns: u64 = ended.iter().map(Ended::queued_ns).sum();
            let woken_ns = queued_ns.saturating_sub(self.counted_ns).saturating_sub(known_ns);
            self.counted_ns = self.counted_ns.max(queued_ns);
            let blocked = || ended.iter().filter(|wait| !wait.preempted);
            let mut lengths: Vec<u64> = blocked().map(Ended::blocked_ns).collect();
            cut_tops(&mut lengths, woken_ns);
            for (wait, length) in ended.iter_mut().filter(|wait| !wait.preempted).zip(lengths) {
                let cut_ns = wait.blocked_ns() - length;
                wait.ready = wait.ready.minus(cut_ns);
                times.blocked_ns = times.blocked_ns.saturating_sub(cut_ns);
                times.queued_ns += cut_ns;
                times.queued_estimated_ns += cut_ns;
            }
            split.append(&mut ended);
        }
        split
    }
}

impl Waits {
    /// Threads with waits since the last reading of their run-queue delay, those that need it longest first.
    pub(in crate::converter) fn threads_to_read(&mut self, most: usize) -> Vec<Task> {
        let next = self.unread.len().min(most);
        let task = |id: ThreadId| Some(self.threads.get(&id)?.task);
        self.unread.drain(..next).filter_map(task).collect()
    }

    /// The run-queue delay of a thread, by the kernel's account, at the start of its recording.
    pub(in crate::converter) fn queued_at_start(&mut self, thread: LiveThread, queued_ns: u64) {
        let thread = self.thread(thread);
        let (before, now) = &mut thread.queue;
        *before += queued_ns.saturating_sub(*now);
        *now = queued_ns.max(*now);
        thread.unsplit.counted_ns = queued_ns;
    }

    /// Its run-queue delay at a time.
    pub(in crate::converter) fn queued(&mut self, thread: LiveThread, queued_ns: u64, time: ClockNs) {
        let estimates = self.rows.as_ref().is_some_and(super::Rows::estimates_queues);
        let state = self.thread(thread);
        state.queue.1 = queued_ns.max(state.queue.1);
        if estimates {
            state.unsplit.readings.push((time, queued_ns));
            self.read.push(thread.id);
        }
    }

    /// All records up to a time have arrived: splits waits by the readings before it.
    pub(in crate::converter) fn end_round(&mut self, until: ClockNs) {
        let mut read = std::mem::take(&mut self.read);
        read.retain(|id| {
            self.split(*id, until);
            self.threads.get(id).is_some_and(|thread| !thread.unsplit.readings.is_empty())
        });
        self.read = read;
    }

    /// Splits the waits of a thread by the readings up to a time.
    pub(super) fn split(&mut self, thread: ThreadId, until: ClockNs) {
        if let (Some(rows), Some(thread)) = (&mut self.rows, self.threads.get_mut(&thread)) {
            rows.add_all(thread.unsplit.split(&mut thread.times, until));
        }
    }
}

/// Takes an amount off the longest lengths, so that these become equal. Run-queue delay has no relation to
/// what was waited for, so of waits that are otherwise alike the longest ones have it.
fn cut_tops(lengths: &mut [u64], amount: u64) {
    let mut longest_first = lengths.to_vec();
    longest_first.sort_unstable_by(|a, b| b.cmp(a));
    let (mut sum, mut level) = (0u64, 0);
    for (at, length) in longest_first.iter().enumerate() {
        sum = sum.saturating_add(*length);
        let next = longest_first.get(at + 1).copied().unwrap_or(0);
        level = sum.saturating_sub(amount) / (at as u64 + 1);
        if level >= next {
            break;
        }
    }
    lengths.iter_mut().for_each(|length| *length = (*length).min(level));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(lengths: &[u64], amount: u64) -> Vec<u64> {
        let mut lengths = lengths.to_vec();
        cut_tops(&mut lengths, amount);
        lengths
    }

    #[test]
    fn run_queue_delay_is_taken_off_the_longest_waits() {
        assert_eq!(cut(&[2, 2, 42, 2], 40), [2, 2, 2, 2], "one of four sleeps was queued");
        assert_eq!(cut(&[10, 10], 6), [7, 7]);
        assert_eq!(cut(&[10, 8, 1], 4), [7, 7, 1]);
        assert_eq!(cut(&[10, 8], 0), [10, 8]);
        assert_eq!(cut(&[10, 8], 100), [0, 0], "no more than there is");
        assert_eq!(cut(&[], 5), [0; 0]);
    }
}
