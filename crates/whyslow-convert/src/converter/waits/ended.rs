//! Waits that have ended, until they become rows.
//!
//! ```text
//! unsplit    the thread may have been queued for a CPU before it ran again, but no record shows it; the kernel's account
//!            of its run-queue delay does, at its next reading
//! unsettled  the lengths are known, but not every stack; looks that are still to come may help
//! ```

use rustc_hash::FxHashMap;
use whyslow_profile::{SpecialFrame, ThreadId, WaitDetail, WaitFrame, WokenBy};

use super::Woken;
use super::alike::{Place, ThreadKind};
use crate::converter::Converter;
use crate::input::Task;
use crate::world::World;

/// A wait without a stack is called too short only below this length.
const SHORT_NS: u64 = 10_000_000;
/// Waits become rows without a reading after this time.
const LATEST_NS: u64 = 2_000_000_000;
/// How many waits are kept until one that is alike has a stack.
const MAX_KEPT: usize = 50_000;

/// A time off CPUs that has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) thread: ThreadId,
    pub(super) since: u64,
    /// When the thread could run again. From then on it was queued.
    pub(super) ready: u64,
    pub(super) end: u64,
    /// Whether it was only queued for a CPU.
    pub(super) preempted: bool,
    /// The CPU that it left.
    pub(super) cpu: Option<u32>,
    pub(super) woken: Option<Woken>,
    pub(super) place: Option<Place>,
}

impl Ended {
    fn queued_ns(&self) -> u64 {
        self.end.saturating_sub(self.ready)
    }

    fn blocked_ns(&self) -> u64 {
        self.ready.saturating_sub(self.since)
    }

    /// The length by which waits are alike. One that seems to have been queued all the time has only that.
    fn likeness_ns(&self) -> u64 {
        match self.blocked_ns() {
            0 => self.end.saturating_sub(self.since),
            blocked_ns => blocked_ns,
        }
    }
}

/// The waits of one thread since the last reading of its run-queue delay.
#[derive(Debug, Default)]
pub(in crate::converter) struct Unsplit {
    ended: Vec<Ended>,
    /// Readings whose records have not all arrived: the time, and the delay of the thread's life so far.
    readings: Vec<(u64, u64)>,
    /// The delay that earlier waits account for.
    counted_ns: u64,
}

/// How many waits have a stack, of their own or of another wait.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct WaitStacks {
    /// The number of blocking waits.
    pub waits: u64,
    /// Their total length.
    pub total_ns: u64,
    /// The number of those with a stack of their own.
    pub with_stack: u64,
    /// The number of those with the stack of another wait that is alike.
    pub estimated: u64,
    /// Their total length.
    pub estimated_ns: u64,
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

impl<W: World> Converter<W> {
    /// Declares that no record shows wakeups, and that the kernel's account of run-queue delay is read.
    pub fn estimate_queues(&mut self) {
        if let Some(waits) = &mut self.waits {
            waits.splits = true;
        }
    }

    /// Declares that the lengths of single waits are not known well: a wait without a stack gets the one that
    /// is nearest in time.
    pub fn distrust_lengths(&mut self) {
        if let Some(waits) = &mut self.waits {
            waits.alike.any_length = true;
        }
    }

    /// Threads with waits since the last reading of their run-queue delay, those that need it longest first.
    pub fn threads_to_read(&mut self, most: usize) -> Vec<Task> {
        let Some(waits) = &mut self.waits else { return Vec::new() };
        let next = waits.unread.len().min(most);
        let task = |tid: u32| Some(Task { pid: self.threads.get(&tid)?.pid, tid });
        waits.unread.drain(..next).filter_map(task).collect()
    }

    /// Sets the run-queue delay of a thread, by the kernel's account, at the start of its recording.
    pub fn set_queued_at_start(&mut self, tid: u32, queued_ns: u64) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            let (before, now) = &mut thread.queue;
            *before += queued_ns.saturating_sub(*now);
            *now = queued_ns.max(*now);
            thread.unsplit.counted_ns = queued_ns;
        }
    }

    /// Sets its run-queue delay at a time.
    pub fn set_queued(&mut self, tid: u32, queued_ns: u64, time: u64) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        thread.queue.1 = queued_ns.max(thread.queue.1);
        if let Some(waits) = &mut self.waits
            && waits.splits
        {
            thread.unsplit.readings.push((time, queued_ns));
            waits.read.push(tid);
        }
    }

    /// All records up to a time have arrived: splits waits by the readings before it.
    pub fn end_drain(&mut self, until: u64) {
        let Some(mut read) = self.waits.as_mut().map(|waits| std::mem::take(&mut waits.read)) else { return };
        read.retain(|tid| {
            self.split_waits(*tid, until);
            self.threads.get(tid).is_some_and(|thread| !thread.unsplit.readings.is_empty())
        });
        if let Some(waits) = &mut self.waits {
            waits.read = read;
        }
    }

    /// Adds a wait that has ended.
    pub(super) fn add_ended(&mut self, tid: u32, ended: Ended) {
        let Some(waits) = &mut self.waits else { return };
        let stacks = &mut waits.stacks;
        if !ended.preempted {
            stacks.waits += 1;
            stacks.with_stack += u64::from(ended.place.is_some());
        }
        match self.threads.get_mut(&tid).filter(|_| waits.splits) {
            Some(thread) => {
                if thread.unsplit.ended.is_empty() {
                    waits.unread.push_back(tid);
                }
                thread.unsplit.ended.push(ended);
            }
            None => waits.unsettled.push(ended),
        }
    }

    /// Splits the waits of a thread by the readings up to a time.
    fn split_waits(&mut self, tid: u32, until: u64) {
        let (Some(waits), Some(thread)) = (&mut self.waits, self.threads.get_mut(&tid)) else { return };
        let unsplit = &mut thread.unsplit;
        let readings = unsplit.readings.partition_point(|(time, _)| *time <= until);
        for (time, queued_ns) in unsplit.readings.drain(..readings) {
            let over = unsplit.ended.partition_point(|wait| wait.end <= time);
            let mut ended: Vec<Ended> = unsplit.ended.drain(..over).collect();
            let known_ns: u64 = ended.iter().map(Ended::queued_ns).sum();
            let woken_ns = queued_ns.saturating_sub(unsplit.counted_ns).saturating_sub(known_ns);
            unsplit.counted_ns = unsplit.counted_ns.max(queued_ns);
            let blocked = || ended.iter().filter(|wait| !wait.preempted);
            let mut lengths: Vec<u64> = blocked().map(Ended::blocked_ns).collect();
            cut_tops(&mut lengths, woken_ns);
            for (wait, length) in ended.iter_mut().filter(|wait| !wait.preempted).zip(lengths) {
                let cut_ns = wait.blocked_ns() - length;
                wait.ready -= cut_ns;
                thread.times.blocked_ns = thread.times.blocked_ns.saturating_sub(cut_ns);
                thread.times.queued_ns += cut_ns;
                thread.times.queued_estimated_ns += cut_ns;
            }
            waits.unsettled.append(&mut ended);
        }
    }

    /// Splits the waits of a thread that has exited, as far as it was read.
    pub(super) fn split_all_waits(&mut self, tid: u32) {
        self.split_waits(tid, u64::MAX);
        if let (Some(waits), Some(thread)) = (&mut self.waits, self.threads.get_mut(&tid)) {
            waits.unsettled.append(&mut thread.unsplit.ended);
        }
    }

    /// Writes the rows of the waits that have ended. Those without a stack get one of a wait that is alike.
    /// If there is none, they are kept for the next call, unless this is the last one.
    pub fn settle_waits(&mut self, now: u64, last: bool) {
        let Some(waits) = &mut self.waits else { return };
        for thread in self.threads.values_mut() {
            let unread = &mut thread.unsplit.ended;
            if unread.first().is_some_and(|wait| wait.end + LATEST_NS < now) {
                waits.unsettled.append(unread);
            }
        }
        let mut unsettled = std::mem::take(&mut waits.unsettled);
        unsettled.sort_by_key(|wait| wait.end);
        let mut alike = std::mem::take(&mut waits.alike);
        let snapshots = waits.snapshots;
        let mut kinds = FxHashMap::default();
        for wait in &unsettled {
            let kind: &ThreadKind = kinds.entry(wait.thread).or_insert_with(|| self.thread_kind(wait.thread));
            if let Some(place) = wait.place.filter(|_| !wait.preempted) {
                alike.add(wait.thread, kind, wait.likeness_ns(), wait.end, place);
            }
        }
        let (mut stacks, mut kept) = (WaitStacks::default(), Vec::new());
        for mut wait in unsettled {
            let length_ns = wait.blocked_ns();
            if !wait.preempted && wait.place.is_none() {
                let kind = &kinds[&wait.thread];
                wait.place = alike.find(wait.thread, kind, wait.likeness_ns(), wait.end);
                if wait.place.is_none() && !last && kept.len() < MAX_KEPT {
                    kept.push(wait);
                    continue;
                }
                stacks.estimated += u64::from(wait.place.is_some());
                stacks.estimated_ns += if wait.place.is_some() { length_ns } else { 0 };
            }
            stacks.total_ns += length_ns;
            let too_short = snapshots && length_ns < SHORT_NS;
            self.add_wait_rows(&wait, if too_short { WaitFrame::TooShort } else { WaitFrame::NoStack });
        }
        if let Some(waits) = &mut self.waits {
            (waits.alike, waits.unsettled) = (alike, kept);
            waits.stacks.total_ns += stacks.total_ns;
            waits.stacks.estimated += stacks.estimated;
            waits.stacks.estimated_ns += stacks.estimated_ns;
        }
    }

    fn thread_kind(&self, id: ThreadId) -> ThreadKind {
        let row = self.builder.thread_row(id);
        let first = self.builder.process_row(row.process).pid == row.tid;
        ThreadKind::new(row.process, first, self.builder.text(row.name))
    }

    /// Writes the rows of a wait: blocked, and then queued.
    fn add_wait_rows(&mut self, wait: &Ended, no_stack: WaitFrame) {
        let Some(metric) = self.waits.as_ref().map(|waits| waits.metric) else { return };
        let Ended { thread, ready, end, preempted, cpu, woken, place, .. } = *wait;
        let (ready_ns, end_ns) = (self.since_start(ready), self.since_start(end));
        let (argument, parked_on, data) =
            place.map_or((0, 0, None), |place| (place.argument, place.parked_on, place.data));
        self.builder.wait_detail(WaitDetail {
            thread,
            end_ns: if preempted { end_ns } else { ready_ns },
            cpu,
            argument,
            parked_on,
            data,
            woken_by: woken.map_or(WokenBy::Unknown, |woken| woken.by),
            waker: woken.and_then(|woken| woken.thread),
            waker_stack: woken.and_then(|woken| woken.stack),
        });
        let stack = place.map(|place| place.stack);
        if !preempted {
            let stack = stack.unwrap_or_else(|| {
                let no_stack = self.builder.special(SpecialFrame::Waiting(no_stack));
                self.builder.stack(None, no_stack)
            });
            self.builder.sample(metric, ready_ns, thread, stack, wait.blocked_ns());
        }
        if preempted || wait.queued_ns() > 0 {
            let queued = self.builder.special(SpecialFrame::Waiting(WaitFrame::Queued));
            let stack = self.builder.stack(stack, queued);
            self.builder.sample(metric, end_ns, thread, stack, wait.queued_ns());
        }
    }
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
