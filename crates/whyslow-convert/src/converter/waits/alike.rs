//! Which stack a wait without one most likely has: that of a wait with a stack which is alike.
//!
//! A stack is known for a sample of the waits only. Whether a wait is in the sample depends on its length
//! alone, so among waits of about the same length the sample is fair. A wait without a stack therefore gets
//! the stack of the one in the sample that is of about its length and nearest in time: of the same thread, or
//! else of a thread of the same kind. Counts and totals stay those of the records.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use whyslow_numbers::ClockNs;
use whyslow_profile::{ModuleId, ProcessId, RelativeAddress, StackId, ThreadId};

/// Lengths that differ by more than this many powers of two are not alike.
const FARTHEST: u32 = 3;
/// Stacks that are kept per thread, or kind of thread, and power of two of the length.
const KEPT: usize = 128;
/// Threads that keep stacks of their own. If there are more, their kind must do.
const MAX_THREADS: usize = 4096;

/// Where a thread waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) stack: StackId,
    /// The first argument of the system call; 0 if unknown.
    pub(super) argument: u64,
    /// The lock that it is queued for, if it waits on its own futex; else 0.
    pub(super) parked_on: u64,
    /// Where the lock, or else the argument, is in a module's data.
    pub(super) data: Option<(ModuleId, RelativeAddress)>,
}

/// The kind of a thread: its process, whether it is the first one, and its name without numbers at the end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ThreadKind {
    process: ProcessId,
    first: bool,
    name: String,
}

impl ThreadKind {
    pub(super) fn new(process: ProcessId, first: bool, name: &str) -> Self {
        let name = name.trim_end_matches(|end: char| !end.is_alphabetic()).to_owned();
        Self { process, first, name }
    }
}

/// Places in the order of time, by the power of two of the wait's length.
#[derive(Debug, Default)]
struct ByLength(FxHashMap<u32, VecDeque<(ClockNs, Place)>>);

impl ByLength {
    fn add(&mut self, length_ns: u64, time: ClockNs, place: Place) {
        let of_length = self.0.entry(power(length_ns)).or_default();
        if of_length.len() == KEPT {
            of_length.pop_front();
        }
        let at = of_length.partition_point(|(then, _)| *then <= time);
        of_length.insert(at, (time, place));
    }

    /// The place of about this length that is nearest in time.
    fn nearest(&self, length_ns: u64, time: ClockNs) -> Option<Place> {
        let power = power(length_ns);
        let distances = (0..=FARTHEST).flat_map(|far| [power.checked_add(far), power.checked_sub(far)]);
        let of_length = distances.flatten().find_map(|power| self.0.get(&power))?;
        let after = of_length.partition_point(|(then, _)| *then < time);
        let around = [after.checked_sub(1), Some(after)].into_iter().flatten();
        let nearest = around.filter_map(|at| of_length.get(at)).min_by_key(|(then, _)| then.distance(time));
        nearest.map(|(_, place)| *place)
    }
}

fn power(length_ns: u64) -> u32 {
    length_ns.max(1).ilog2()
}

/// The places of waits with a stack.
#[derive(Debug)]
pub(super) struct Alike {
    threads: FxHashMap<ThreadId, ByLength>,
    kinds: FxHashMap<ThreadKind, ByLength>,
    /// Whether lengths are known. If not, only times count.
    lengths_known: bool,
}

impl Alike {
    /// No waits yet.
    pub(super) fn new(lengths_known: bool) -> Self {
        Self { threads: FxHashMap::default(), kinds: FxHashMap::default(), lengths_known }
    }

    /// Adds a wait with a stack.
    pub(super) fn add(
        &mut self,
        id: ThreadId,
        kind: &ThreadKind,
        length_ns: u64,
        time: ClockNs,
        place: Place,
    ) {
        let length_ns = if self.lengths_known { length_ns } else { 1 };
        if self.threads.len() < MAX_THREADS || self.threads.contains_key(&id) {
            self.threads.entry(id).or_default().add(length_ns, time, place);
        }
        if !self.kinds.contains_key(kind) {
            self.kinds.insert(kind.clone(), ByLength::default());
        }
        if let Some(of_kind) = self.kinds.get_mut(kind) {
            of_kind.add(length_ns, time, place);
        }
    }

    /// The place of a wait without a stack.
    pub(super) fn find(
        &self,
        id: ThreadId,
        kind: &ThreadKind,
        length_ns: u64,
        time: ClockNs,
    ) -> Option<Place> {
        let length_ns = if self.lengths_known { length_ns } else { 1 };
        let of_thread = self.threads.get(&id).and_then(|waits| waits.nearest(length_ns, time));
        of_thread.or_else(|| self.kinds.get(kind)?.nearest(length_ns, time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    const MS: u64 = 1_000_000;

    fn place(stack: u32) -> Place {
        Place { stack: StackId(stack), argument: 0, parked_on: 0, data: None }
    }

    fn kind(name: &str) -> ThreadKind {
        ThreadKind::new(ProcessId(0), false, name)
    }

    #[test]
    fn the_place_of_a_wait_is_that_of_the_nearest_one_of_its_length() {
        let (mut alike, kind) = (Alike::new(true), kind("worker"));
        alike.add(ThreadId(1), &kind, 4 * MS, at(10 * MS), place(1));
        alike.add(ThreadId(1), &kind, MS / 5, at(20 * MS), place(2));
        alike.add(ThreadId(1), &kind, MS / 5, at(90 * MS), place(3));
        let find = |length, time| alike.find(ThreadId(1), &kind, length, at(time)).map(|place| place.stack.0);
        assert_eq!(find(3 * MS, 80 * MS), Some(1), "of its length, although another is nearer in time");
        assert_eq!(find(MS / 5, 11 * MS), Some(2));
        assert_eq!(find(MS / 4, 80 * MS), Some(3));
        assert_eq!(find(1000, 80 * MS), None, "far shorter than any wait with a stack");
    }

    #[test]
    fn only_times_count_if_lengths_are_not_known_well() {
        let mut alike = Alike::new(false);
        alike.add(ThreadId(1), &kind("app"), 4 * MS, at(10 * MS), place(1));
        alike.add(ThreadId(1), &kind("app"), MS, at(90 * MS), place(2));
        let found = alike.find(ThreadId(1), &kind("app"), MS / 1000, at(20 * MS));
        assert_eq!(found, Some(place(1)));
    }

    #[test]
    fn threads_of_a_kind_stand_for_each_other() {
        let mut alike = Alike::new(true);
        alike.add(ThreadId(1), &kind("worker-17"), MS, at(0), place(1));
        let find = |id, name| alike.find(ThreadId(id), &kind(name), MS, at(MS)).map(|place| place.stack.0);
        assert_eq!(find(2, "worker-204"), Some(1));
        assert_eq!(find(2, "acceptor"), None);
        assert_eq!(alike.find(ThreadId(2), &ThreadKind::new(ProcessId(0), true, "worker"), MS, at(MS)), None);
    }

    /// Two places of the same length, of which one is waited in three times as often: a look at random times
    /// gives the same shares.
    #[test]
    fn shares_follow_those_of_the_sample() {
        let (mut alike, kind) = (Alike::new(true), kind("app"));
        for look in 0..100u64 {
            let of = if look * 7 % 4 == 0 { 1 } else { 2 };
            alike.add(ThreadId(1), &kind, MS, at(look * 10 * MS), place(of));
        }
        let found =
            (0..1000u64).map(|wait| alike.find(ThreadId(1), &kind, MS, at(wait * MS)).unwrap().stack.0);
        let first = found.filter(|stack| *stack == 1).count();
        assert!((240..=260).contains(&first), "{first} of 1000");
    }

    #[test]
    fn keeps_the_latest_places_only() {
        let (mut alike, kind) = (Alike::new(true), kind("app"));
        for look in 0..10 * KEPT as u64 {
            alike.add(ThreadId(1), &kind, MS, at(look), place(look as u32));
        }
        let of_thread = &alike.threads[&ThreadId(1)].0[&power(MS)];
        assert_eq!((of_thread.len(), of_thread[0].0), (KEPT, at(9 * KEPT as u64)));
    }
}
