//! The state of all threads over time: how many run, are queued for a CPU, are blocked or idle, from each
//! change to the next.
//!
//! ```text
//! with waits recorded   a thread runs from its start to its exit, except during its waits
//! without               a thread runs for the time that each of its CPU samples stands for, up to the time of the sample
//! ```

use std::ops::Range;

use whyslow_profile::{MetricId, Profile, Samples};

use crate::selection::Selection;
use crate::waits::{Reason, Reasons};

/// The state of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Runs,
    /// Runnable, without a CPU.
    Queued,
    Blocked,
    /// A pool thread without work.
    Idle,
}

impl State {
    fn of(reason: Reason) -> Self {
        match reason {
            Reason::Cpu => Self::Queued,
            Reason::Idle => Self::Idle,
            _ => Self::Blocked,
        }
    }
}

/// How many threads are in each [`State`].
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Crowd {
    of: [u32; 4],
}

impl Crowd {
    pub(super) fn count(self, state: State) -> u32 {
        self.of[state as usize]
    }

    /// Threads that have something to do.
    pub(super) fn busy(self) -> u32 {
        self.count(State::Runs) + self.count(State::Queued)
    }
}

/// The state counts from each change to the next.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// Sorted; each lasts until the next, the last until the end.
    steps: Vec<(u64, Crowd)>,
    end_ns: u64,
}

impl Steps {
    /// For the selected threads and time. `wait` is the metric of waits, if they were recorded.
    pub(super) fn of(
        profile: &Profile,
        selection: &Selection,
        cpu: MetricId,
        wait: Option<MetricId>,
    ) -> Self {
        let life = 0..lasted(profile);
        let within = selection
            .time_ns
            .as_ref()
            .map_or(life.clone(), |time| time.start.min(life.end)..time.end.min(life.end));
        let counts: Vec<bool> =
            profile.threads.iter().map(|thread| selection.thread_counts(profile, thread)).collect();
        let mut changes = Changes { within: within.clone(), changes: Vec::new() };
        match wait {
            Some(wait) => {
                exact(
                    profile,
                    &counts,
                    (&profile.samples[cpu.index()], &profile.samples[wait.index()]),
                    &mut changes,
                );
            }
            None => {
                let samples = &profile.samples[cpu.index()];
                let mut known = vec![0; counts.len()];
                for row in (0..samples.len()).filter(|row| counts[samples.thread[*row].index()]) {
                    let (end, known) = (samples.time_ns[row], &mut known[samples.thread[row].index()]);
                    // A thread runs once at a time, even where one row stands for time without samples.
                    changes.add(end.saturating_sub(samples.value[row]).max(*known)..end, State::Runs);
                    *known = end.max(*known);
                }
            }
        }
        changes.into_steps()
    }

    /// Each step with its time.
    pub(super) fn each(&self) -> impl Iterator<Item = (Range<u64>, Crowd)> + '_ {
        let ends = self.steps.iter().skip(1).map(|(at, _)| *at).chain([self.end_ns]);
        self.steps.iter().zip(ends).map(|((start, crowd), end)| (*start..end, *crowd))
    }

    /// The state counts at a time.
    pub(super) fn at(&self, time_ns: u64) -> Crowd {
        let after = self.steps.partition_point(|(at, _)| *at <= time_ns);
        after.checked_sub(1).map_or(Crowd::default(), |at| self.steps[at].1)
    }

    /// From the first change to the end.
    pub(super) fn range(&self) -> Range<u64> {
        self.steps.first().map_or(0, |(at, _)| *at)..self.end_ns
    }
}

/// The length of the recording; up to the last row if it is unknown.
pub(super) fn lasted(profile: &Profile) -> u64 {
    let last = profile.samples.iter().filter_map(|samples| samples.time_ns.iter().max()).max();
    if profile.meta.duration_ns > 0 { profile.meta.duration_ns } else { last.copied().unwrap_or(0) }
}

fn exact(profile: &Profile, counts: &[bool], (cpu, wait): (&Samples, &Samples), changes: &mut Changes) {
    let mut reasons = Reasons::new(profile);
    let mut waits: Vec<Vec<(Range<u64>, State)>> = vec![Vec::new(); profile.threads.len()];
    for row in (0..wait.len()).filter(|row| counts[wait.thread[*row].index()]) {
        let end = wait.time_ns[row];
        let state = State::of(reasons.of_thread(wait.thread[row], wait.stack[row]));
        waits[wait.thread[row].index()].push((end.saturating_sub(wait.value[row])..end, state));
    }
    // A thread that neither ran nor waited was not recorded.
    let mut seen: Vec<bool> = waits.iter().map(|waits| !waits.is_empty()).collect();
    cpu.thread.iter().for_each(|thread| seen[thread.index()] = true);
    let end = lasted(profile);
    let mut last_seen = vec![0; profile.threads.len()];
    for (thread, time) in cpu.thread.iter().zip(&cpu.time_ns) {
        last_seen[thread.index()] = last_seen[thread.index()].max(*time);
    }
    for (row, thread) in profile.threads.iter().enumerate().filter(|(row, _)| counts[*row] && seen[*row]) {
        let of_thread = &mut waits[row];
        of_thread.sort_by_key(|(time, _)| time.end);
        let mut since = thread.start_ns;
        for (time, state) in of_thread.drain(..) {
            let start = time.start.max(since);
            changes.add(since..start, State::Runs);
            changes.add(start..time.end, state);
            since = since.max(time.end);
        }
        // A recorder that was killed did not write the waits in progress.
        let known = if profile.sealed { end } else { last_seen[row] };
        changes.add(since..thread.end_ns.unwrap_or(known), State::Runs);
    }
}

/// When threads enter and leave states.
struct Changes {
    within: Range<u64>,
    changes: Vec<(u64, State, bool)>,
}

impl Changes {
    fn add(&mut self, time: Range<u64>, state: State) {
        let (start, end) = (time.start.max(self.within.start), time.end.min(self.within.end));
        if start < end {
            self.changes.extend([(start, state, true), (end, state, false)]);
        }
    }

    fn into_steps(mut self) -> Steps {
        self.changes.sort_unstable_by_key(|(at, ..)| *at);
        let mut crowd = Crowd::default();
        let mut steps = vec![(self.within.start, crowd)];
        for (at, state, begins) in self.changes {
            let count = &mut crowd.of[state as usize];
            *count = if begins { *count + 1 } else { count.saturating_sub(1) };
            match steps.last_mut() {
                Some((last, known)) if *last == at => *known = crowd,
                _ => steps.push((at, crowd)),
            }
        }
        Steps { steps, end_ns: self.within.end }
    }
}
