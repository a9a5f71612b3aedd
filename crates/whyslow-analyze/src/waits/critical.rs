//! The critical path: what the end of a time range had to wait for, followed backwards.
//!
//! ```text
//! the thread ran           that time is on the path
//! it was queued for a CPU  that time is on the path
//! a thread woke it         the path continues in that thread, at that time
//! anything else woke it    the wait itself is on the path
//! it had just started      the path continues in the first thread of its process, which stands for the one that started it
//! ```
//! Making the path shorter makes the time range shorter, until another path becomes critical.

use std::cmp::Reverse;
use std::ops::Range;

use rustc_hash::FxHashMap;
use whyslow_profile::{ProcessId, Profile, Samples, Thread, ThreadId, WokenBy};

use super::locks::Site;
use super::reason::Reason;
use super::single::{Single, singles};
use crate::own::Charges;
use crate::selection::Selection;

/// The activity of a thread on the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Did {
    /// It ran.
    Ran,
    /// It was queued for a CPU, or waited for something that no recorded thread ended.
    Waited(Reason),
}

/// A step of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathStep {
    /// The thread.
    pub thread: ThreadId,
    /// Its activity.
    pub did: Did,
    /// The start.
    pub start_ns: u64,
    /// The end.
    pub end_ns: u64,
    /// Where it waited. For running threads, samples show where.
    pub site: Option<Site>,
}

/// The part of the path at one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRow {
    /// The activity of the thread there.
    pub did: Did,
    /// The line; `None` for time without samples and for run-queue delay.
    pub site: Option<Site>,
    /// The thread.
    pub thread: ThreadId,
    /// How long in all.
    pub total_ns: u64,
}

/// The critical path of a time range.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CriticalPath {
    /// The steps, in time order.
    pub steps: Vec<PathStep>,
    /// The sums per line, largest first.
    pub rows: Vec<PathRow>,
    /// Its length.
    pub total_ns: u64,
    /// The part of it in which threads ran.
    pub ran_ns: u64,
    /// Waits on the path with an unknown waker.
    pub unknown_ns: u64,
    /// The thread whose end, or whose state at the end of the time range, the path leads to.
    pub ends_in: Option<ThreadId>,
}

impl CriticalPath {
    /// Below this share of running time, a path explains nothing: its thread is idle.
    const MIN_RAN: f64 = 0.05;

    /// The path to the end of the selected time: on the first selected thread, or, if that is idle, on the
    /// first thread of the selected process that ran most.
    pub fn build(profile: &Profile, selection: &Selection, charges: &Charges) -> Option<Self> {
        let waits = profile.samples.get(selection.metric.index())?;
        let range = selection.time_ns.clone().unwrap_or(0..profile.meta.duration_ns);
        let mut lanes: Vec<Vec<Single>> = vec![Vec::new(); profile.threads.len()];
        for wait in singles(profile, waits) {
            lanes[wait.thread.index()].push(wait);
        }
        lanes.iter_mut().for_each(|lane| lane.sort_by_key(|wait| (wait.start_ns, wait.end_ns)));
        let counts = |id: &usize| selection.thread_counts(profile, &profile.threads[*id]);
        let selected: Vec<usize> = (0..profile.threads.len()).filter(counts).collect();
        let path_to = |last: usize, without: Option<ProcessId>| {
            Self::to_end_of(profile, charges, &lanes, &range, ThreadId::from(last), without)
        };
        let first_thread = *selected.first()?;
        let first = path_to(first_thread, None);
        if first.ran_ns as f64 >= Self::MIN_RAN * first.total_ns as f64 {
            return Some(first);
        }
        let mut ran_of: Vec<u64> = vec![0; profile.processes.len()];
        for id in &selected {
            ran_of[profile.threads[*id].process.index()] +=
                ran_in(&profile.threads[*id], &lanes[*id], &range);
        }
        let busiest = (0..ran_of.len()).max_by_key(|process| (ran_of[*process], Reverse(*process)))?;
        let of_busiest = |id: &&usize| profile.threads[**id].process.index() == busiest;
        let other = selected.iter().find(of_busiest).filter(|_| ran_of[busiest] > 2 * first.ran_ns);
        // An idle server ends its workers by a signal: that is not what delays them.
        let idle = profile.threads[first_thread].process;
        match other.map(|other| path_to(*other, Some(idle).filter(|idle| idle.index() != busiest))) {
            Some(other) if other.ran_ns > first.ran_ns => Some(other),
            _ => Some(first),
        }
    }

    fn to_end_of(
        profile: &Profile,
        charges: &Charges,
        lanes: &[Vec<Single>],
        range: &Range<u64>,
        last: ThreadId,
        without: Option<ProcessId>,
    ) -> Self {
        let lived_until = profile.threads[last.index()].end_ns.unwrap_or(range.end);
        let mut walk =
            Walk { profile, charges, lanes, without, from: range.start, steps: Vec::new(), unknown_ns: 0 };
        walk.back_from(last, range.end.min(lived_until));
        let Walk { mut steps, unknown_ns, .. } = walk;
        steps.reverse();
        let total_ns = steps.iter().map(|step| step.end_ns - step.start_ns).sum();
        let ran = steps.iter().filter(|step| step.did == Did::Ran);
        let ran_ns = ran.map(|step| step.end_ns - step.start_ns).sum();
        let rows = rows(profile, charges, &steps);
        Self { steps, rows, total_ns, ran_ns, unknown_ns, ends_in: Some(last) }
    }
}

/// Whether a recording knows who wakes threads.
pub fn has_wakers(profile: &Profile) -> bool {
    profile.wait_details.woken_by.iter().any(|by| *by != WokenBy::Unknown)
}

/// The thread that stands for the one that started this one: the first of its process, or of the parent process.
pub fn starter_of(profile: &Profile, thread: ThreadId) -> Option<ThreadId> {
    let row = &profile.threads[thread.index()];
    let process = &profile.processes[row.process.index()];
    let wanted = if row.tid == process.pid { process.parent? } else { row.process };
    let pid = profile.processes[wanted.index()].pid;
    let is_first = |row: &Thread| row.process == wanted && row.tid == pid;
    let first = profile.threads.iter().position(is_first).map(ThreadId::from);
    first.filter(|first| *first != thread)
}

/// How long a thread ran in a time range.
fn ran_in(thread: &Thread, waits: &[Single], range: &Range<u64>) -> u64 {
    let part = |start: u64, end: u64| end.min(range.end).saturating_sub(start.max(range.start));
    let life_ns = part(thread.start_ns, thread.end_ns.unwrap_or(range.end));
    life_ns.saturating_sub(waits.iter().map(|wait| part(wait.start_ns, wait.end_ns)).sum())
}

struct Walk<'a> {
    profile: &'a Profile,
    charges: &'a Charges,
    /// The waits of each thread, in time order.
    lanes: &'a [Vec<Single>],
    /// The path does not continue in this process.
    without: Option<ProcessId>,
    from: u64,
    /// Last first.
    steps: Vec<PathStep>,
    unknown_ns: u64,
}

impl Walk<'_> {
    fn back_from(&mut self, mut thread: ThreadId, mut time: u64) {
        // Every step goes back in time, or to a thread that runs at that time.
        while time > self.from {
            let started = self.profile.threads[thread.index()].start_ns;
            let Some(wait) = self.last_before(thread, time) else {
                self.step(thread, Did::Ran, started.max(self.from), time, None);
                match starter_of(self.profile, thread).filter(|starter| self.may_continue_in(*starter)) {
                    Some(starter) if started > self.from => (thread, time) = (starter, started.min(time)),
                    _ => return,
                }
                continue;
            };
            if wait.end_ns < time {
                self.step(thread, Did::Ran, wait.end_ns, time, None);
                time = wait.end_ns;
                continue;
            }
            let waker = wait.detail.filter(|_| wait.end_ns == time).and_then(|detail| detail.waker);
            let waker = waker.filter(|waker| self.may_continue_in(*waker));
            if let Some(waker) = waker.filter(|waker| *waker != thread && self.runs_at(*waker, time)) {
                thread = waker;
                continue;
            }
            let unknown = wait.reason != Reason::Cpu
                && wait.detail.is_none_or(|detail| detail.woken_by == WokenBy::Unknown);
            if unknown {
                self.unknown_ns += time - wait.start_ns.max(self.from);
            }
            // The place where a thread is preempted says nothing.
            let site = (wait.reason != Reason::Cpu).then(|| Site::of(self.charges.of(wait.stack).frame));
            self.step(thread, Did::Waited(wait.reason), wait.start_ns, time, site);
            time = wait.start_ns;
        }
    }

    fn may_continue_in(&self, thread: ThreadId) -> bool {
        self.without.is_none_or(|process| self.profile.threads[thread.index()].process != process)
    }

    /// The last wait of a thread that started before a time.
    fn last_before(&self, thread: ThreadId, time: u64) -> Option<Single> {
        let lane = &self.lanes[thread.index()];
        let started = lane.partition_point(|wait| wait.start_ns < time);
        started.checked_sub(1).map(|at| lane[at])
    }

    /// Whether a thread exists and does not wait just before a time.
    fn runs_at(&self, thread: ThreadId, time: u64) -> bool {
        let has_started = self.profile.threads[thread.index()].start_ns < time;
        has_started && self.last_before(thread, time).is_none_or(|wait| wait.end_ns < time)
    }

    fn step(&mut self, thread: ThreadId, did: Did, start: u64, end: u64, site: Option<Site>) {
        let start_ns = start.max(self.from);
        if end <= start_ns {
            return;
        }
        // Steps separated by a wait without length are joined.
        if let Some(last) = self.steps.last_mut()
            && (last.thread, last.did, last.site, last.start_ns) == (thread, did, site, end)
        {
            last.start_ns = start_ns;
            return;
        }
        self.steps.push(PathStep { thread, did, start_ns, end_ns: end, site });
    }
}

/// Adds up a path. Where threads ran, their samples share the time.
fn rows(profile: &Profile, charges: &Charges, steps: &[PathStep]) -> Vec<PathRow> {
    let mut sums: FxHashMap<(Did, ThreadId, Option<Site>), u64> = FxHashMap::default();
    let mut running: FxHashMap<ThreadId, Vec<&PathStep>> = FxHashMap::default();
    for step in steps {
        match step.did {
            Did::Ran => running.entry(step.thread).or_default().push(step),
            Did::Waited(_) => {
                *sums.entry((step.did, step.thread, step.site)).or_default() += step.end_ns - step.start_ns;
            }
        }
    }
    let sampled = sampled_on(profile, charges, &running);
    for (thread, steps) in &running {
        let ran: u64 = steps.iter().map(|step| step.end_ns - step.start_ns).sum();
        let sites = sampled.get(thread);
        let all: u64 = sites.into_iter().flatten().map(|(_, value)| value).sum();
        if all == 0 {
            *sums.entry((Did::Ran, *thread, None)).or_default() += ran;
        }
        for (site, value) in sites.into_iter().flatten() {
            let share = (u128::from(ran) * u128::from(*value) / u128::from(all.max(1))) as u64;
            *sums.entry((Did::Ran, *thread, Some(*site))).or_default() += share;
        }
    }
    let mut rows: Vec<PathRow> = sums
        .into_iter()
        .map(|((did, thread, site), total_ns)| PathRow { did, site, thread, total_ns })
        .collect();
    rows.sort_by_key(|row| (Reverse(row.total_ns), row.did, row.thread, row.site.map(|site| site.line)));
    rows
}

/// The CPU samples of each thread inside its steps, by line.
fn sampled_on(
    profile: &Profile,
    charges: &Charges,
    running: &FxHashMap<ThreadId, Vec<&PathStep>>,
) -> FxHashMap<ThreadId, FxHashMap<Site, u64>> {
    let mut sites: FxHashMap<ThreadId, FxHashMap<Site, u64>> = FxHashMap::default();
    let Some((_, samples)) = profile.main_samples() else { return sites };
    let Samples { time_ns, thread, stack, value } = samples;
    for (((time, thread), stack), value) in time_ns.iter().zip(thread).zip(stack).zip(value) {
        let Some(steps) = running.get(thread) else { continue };
        // Steps are in time order.
        let at = steps.partition_point(|step| step.end_ns < *time);
        let inside = steps.get(at).is_some_and(|step| step.start_ns <= *time);
        if inside && !profile.is_not_sampled(*stack) {
            let site = Site::of(charges.of(*stack).frame);
            *sites.entry(*thread).or_default().entry(site).or_default() += value;
        }
    }
    sites
}

#[cfg(test)]
mod tests {
    use whyslow_profile::{Metric, MetricId, StackId, WaitDetail};

    use super::*;
    use crate::testing::profile;

    const MS: u64 = 1_000_000;

    /// Two threads: CPU samples of each at 1 ms, then waits of their own metric.
    fn made() -> Profile {
        let mut profile = profile(
            "main@app.rs:1;parse@app.rs:10 1
             worker: work@app.rs:20;hash@app.rs:21 1
             main@app.rs:30;std::sync::mutex::lock_contended;sys_futex_wait 1
             worker: work@app.rs:40;std::thread::sleep;sys_hrtimer_nanosleep 1",
        );
        let name = profile.strings.push(Metric::OFF_CPU_TIME);
        let mut cpu = Samples::default();
        let stack = |row: usize| profile.samples[0].stack[row];
        let (parse, hash, lock, sleep) = (stack(0), stack(1), stack(2), stack(3));
        cpu.push(MS, ThreadId(0), parse, MS);
        cpu.push(7 * MS, ThreadId(1), hash, MS);
        let mut waits = Samples::default();
        waits.push(5 * MS, ThreadId(1), sleep, 4 * MS);
        waits.push(8 * MS, ThreadId(0), lock, 6 * MS);
        profile.samples = vec![cpu, waits];
        profile.metrics.push(Metric::off_cpu_time().renamed(name));
        profile.meta.duration_ns = 10 * MS;
        let woken = |thread: u32, end_ns, woken_by, waker: Option<(u32, StackId)>| WaitDetail {
            thread: ThreadId(thread),
            end_ns,
            cpu: None,
            argument: 0,
            parked_on: 0,
            data: None,
            woken_by,
            waker: waker.map(|(thread, _)| ThreadId(thread)),
            waker_stack: waker.map(|(_, stack)| stack),
        };
        profile.wait_details.push(woken(1, 5 * MS, WokenBy::Interrupt, None));
        profile.wait_details.push(woken(0, 8 * MS, WokenBy::Thread, Some((1, hash))));
        profile
    }

    fn path(profile: &Profile, selection: Selection) -> CriticalPath {
        let selection = Selection { metric: MetricId(1), ..selection };
        CriticalPath::build(profile, &selection, &Charges::new(profile, true)).unwrap()
    }

    /// main waits for worker from 2 to 8 ms; worker sleeps from 1 to 5 ms and works until 8.
    #[test]
    fn path_follows_the_thread_that_ended_a_wait() {
        let profile = made();
        let path = path(&profile, Selection::default());
        let steps: Vec<_> = path
            .steps
            .iter()
            .map(|step| (step.thread.0, step.did, step.start_ns / MS, step.end_ns / MS))
            .collect();
        assert_eq!(
            steps,
            [
                (1, Did::Ran, 0, 1),
                (1, Did::Waited(Reason::Sleep), 1, 5),
                (1, Did::Ran, 5, 8),
                (0, Did::Ran, 8, 10),
            ]
        );
        assert_eq!((path.total_ns, path.ran_ns, path.unknown_ns), (10 * MS, 6 * MS, 0));
        let lines: Vec<_> = path
            .rows
            .iter()
            .map(|row| (row.did, row.site.map(|site| site.line), row.total_ns / MS))
            .collect();
        assert_eq!(
            lines,
            [(Did::Ran, Some(21), 4), (Did::Waited(Reason::Sleep), Some(40), 4), (Did::Ran, None, 2)],
            "main has no sample on the path"
        );
    }

    #[test]
    fn wait_with_an_unknown_waker_is_on_the_path() {
        let mut profile = made();
        profile.wait_details = Default::default();
        let whole = path(&profile, Selection::default());
        assert_eq!(whole.unknown_ns, 6 * MS);
        assert!(whole.steps.iter().all(|step| step.thread == ThreadId(0)));
        assert_eq!(whole.total_ns, 10 * MS);
        let part = path(&profile, Selection { time_ns: Some(3 * MS..9 * MS), ..Selection::default() });
        assert_eq!((part.total_ns, part.ran_ns), (6 * MS, MS));
    }

    /// `main` only waits for signals, as a server's first process does; the path is that of its worker.
    #[test]
    fn path_of_several_processes_is_that_of_the_one_that_runs() {
        let mut profile = made();
        let worker = whyslow_profile::ProcessId(1);
        profile.processes.push(whyslow_profile::Process { pid: 900, ..profile.processes[0].clone() });
        profile.threads[1].process = worker;
        (profile.samples[1].time_ns[1], profile.samples[1].value[1]) = (10 * MS, 10 * MS);
        let woken =
            WaitDetail { waker: Some(ThreadId(0)), woken_by: WokenBy::Thread, ..profile.wait_details.row(0) };
        profile.wait_details = Default::default();
        assert_eq!(path(&profile, Selection::default()).ends_in, Some(ThreadId(1)));
        profile.wait_details.push(woken);
        let ended = path(&profile, Selection::default());
        assert_eq!(ended.ends_in, Some(ThreadId(1)));
        assert!(ended.steps.iter().all(|step| step.thread == ThreadId(1)), "{:?}", ended.steps);
        profile.wait_details = Default::default();
        let chosen = Selection { threads: vec!["main".parse().unwrap()], ..Selection::default() };
        assert_eq!(path(&profile, chosen).ends_in, Some(ThreadId(0)), "as asked for");
        assert!(!has_wakers(&profile) && has_wakers(&made()));
    }

    #[test]
    fn late_thread_was_started_by_the_first_one() {
        let mut profile = made();
        let Thread { process, .. } = profile.threads[0];
        profile.threads[0].tid = profile.processes[process.index()].pid;
        profile.threads[1].start_ns = 6 * MS;
        profile.samples[1].value[0] = 0;
        profile.samples[1].time_ns[0] = 6 * MS;
        profile.samples[1].value[1] = MS;
        let path = path(&profile, Selection::default());
        let first = path.steps.first().unwrap();
        assert_eq!((first.thread, first.start_ns), (ThreadId(0), 0));
        assert_eq!(path.total_ns, 10 * MS, "{:?}", path.steps);
    }
}
