//! How many threads are busy at a time, and where a single thread holds up the program.
//!
//! ```text
//! level k               = the time in which k threads ran or were queued for a CPU; level 1 is the serial part
//! elapsed time of a row = its CPU time / how many threads ran at its time
//! ```
//! Elapsed times add up to the time in which anything ran. So a function that holds up all others weighs as
//! much as the program would gain without it, and one that runs on eight threads at once weighs an eighth of
//! its CPU time.

mod elapsed;
mod steps;

pub use elapsed::{Concurrency, ELAPSED_TIME, concurrency, elapsed_time};

use rustc_hash::FxHashMap;
use whyslow_profile::{MetricId, Profile, StringId, Subject, ThreadId, Unit};

use self::steps::{State, Steps};
use crate::labels::{Label, Labels};
use crate::own::Charges;
use crate::selection::Selection;
use crate::waits::wait_metric;

/// The state of all threads over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Parallelism {
    /// Whether it follows from recorded waits. Otherwise it is an estimate from CPU samples, which do not
    /// show queued threads.
    pub exact: bool,
    /// The length of the time range.
    pub duration_ns: u64,
    /// Indexed by the number of busy threads, from 0 to the maximum.
    pub levels: Vec<Level>,
    /// The mean of each time slice, in order.
    pub curve: Vec<Slice>,
}

/// The time in which a given number of threads were busy.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Level {
    /// How long.
    pub ns: u64,
    /// CPU samples taken then.
    pub samples: u64,
    /// The functions that ran then, largest elapsed time first.
    pub functions: Vec<BusyFunction>,
    /// The CPU time of each thread then.
    pub threads: FxHashMap<ThreadId, u64>,
}

/// A function of your code, or the nearest to it, at one level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BusyFunction {
    /// The function.
    pub label: Label,
    /// The file of its hottest line.
    pub file: Option<StringId>,
    /// Its hottest line; 0 if unknown.
    pub line: u32,
    /// Its elapsed time at this level.
    pub elapsed_ns: u64,
    /// Its share of the elapsed time at this level.
    pub share: f64,
}

/// The mean number of threads in each state over a time slice.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Slice {
    /// Its start.
    pub start_ns: u64,
    /// Its length.
    pub length_ns: u64,
    /// Threads on a CPU.
    pub running: f64,
    /// Threads queued for a CPU; 0 if unknown, as are the next two.
    pub queued: f64,
    /// Blocked threads.
    pub blocked: f64,
    /// Idle pool threads.
    pub idle: f64,
}

impl Parallelism {
    /// The number of slices in a curve.
    const SLICES: u64 = 100;

    /// For the selected threads and time; `None` without CPU time.
    pub fn build(profile: &Profile, selection: &Selection, charges: &Charges) -> Option<Self> {
        let cpu = cpu_time(profile)?;
        let wait = wait_metric(profile);
        let steps = Steps::of(profile, selection, cpu, wait);
        let range = steps.range();
        let mut levels: Vec<Level> = Vec::new();
        for (time, crowd) in steps.each() {
            let busy = crowd.busy() as usize;
            levels.resize(levels.len().max(busy + 1), Level::default());
            levels[busy].ns += time.end - time.start;
        }
        add_functions(
            profile,
            &Selection { metric: cpu, ..selection.clone() },
            charges,
            &steps,
            wait.is_some(),
            &mut levels,
        );
        Some(Self {
            exact: wait.is_some(),
            duration_ns: range.end - range.start,
            curve: curve(&steps, Self::SLICES),
            levels,
        })
    }

    /// The share of the time in which this many threads were busy.
    pub fn share(&self, level: usize) -> f64 {
        self.levels.get(level).map_or(0.0, |level| level.ns as f64 / self.duration_ns.max(1) as f64)
    }

    /// The end of the time range if no time is selected.
    pub fn end_ns(profile: &Profile) -> u64 {
        steps::lasted(profile)
    }
}

/// The metric of CPU time.
pub(crate) fn cpu_time(profile: &Profile) -> Option<MetricId> {
    let is_time =
        |metric: &whyslow_profile::Metric| metric.of == Subject::Cpu && metric.unit == Unit::Nanoseconds;
    profile.metric_where(is_time)
}

/// The time of a sample. Without waits it is the end of the time that the sample stands for.
fn time_of_sample(time_ns: u64, value: u64, exact: bool) -> u64 {
    if exact { time_ns } else { time_ns.saturating_sub(value / 2) }
}

fn add_functions(
    profile: &Profile,
    selection: &Selection,
    charges: &Charges,
    steps: &Steps,
    exact: bool,
    levels: &mut [Level],
) {
    let labels = Labels::new(profile);
    let mut elapsed: FxHashMap<_, FxHashMap<(Option<StringId>, u32), f64>> = FxHashMap::default();
    let samples = selection.samples(profile);
    for row in 0..samples.len() {
        let crowd = steps.at(time_of_sample(samples.time_ns[row], samples.value[row], exact));
        let frame = charges.of(samples.stack[row]).frame;
        // A running thread is busy, even where the recorded end of a wait is slightly late.
        let level = crowd.busy().max(1) as usize;
        let Some(at) = levels.get_mut(level) else { continue };
        at.samples += u64::from(!profile.is_not_sampled(samples.stack[row]));
        *at.threads.entry(samples.thread[row]).or_default() += samples.value[row];
        let lines = elapsed.entry((level, labels.code(frame.label))).or_default();
        *lines.entry((frame.file, frame.line)).or_default() +=
            samples.value[row] as f64 / f64::from(crowd.count(State::Runs).max(1));
    }
    for ((level, code), lines) in elapsed {
        let elapsed: f64 = lines.values().sum();
        let most = lines.iter().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0)));
        let Some((&(file, line), _)) = most else { continue };
        levels[level].functions.push(BusyFunction {
            label: labels.label(code),
            file,
            line,
            elapsed_ns: elapsed as u64,
            share: elapsed,
        });
    }
    for level in levels {
        let whole: f64 = level.functions.iter().map(|function| function.share).sum();
        level.functions.iter_mut().for_each(|function| function.share /= whole.max(1.0));
        level.functions.sort_by(|a, b| {
            b.share.total_cmp(&a.share).then(labels.code(a.label).cmp(&labels.code(b.label)))
        });
    }
}

fn curve(steps: &Steps, slices: u64) -> Vec<Slice> {
    let range = steps.range();
    let length = (range.end - range.start).div_ceil(slices).max(1);
    let count = (range.end - range.start).div_ceil(length);
    let starts = (0..count).map(|slice| range.start + slice * length);
    let mut curve: Vec<Slice> = starts
        .map(|start_ns| Slice { start_ns, length_ns: length.min(range.end - start_ns), ..Slice::default() })
        .collect();
    for (time, crowd) in steps.each().filter(|(time, _)| time.start < time.end) {
        let touched = (time.start - range.start) / length..=(time.end - 1 - range.start) / length;
        for slice in &mut curve[*touched.start() as usize..=*touched.end() as usize] {
            let end = (slice.start_ns + slice.length_ns).min(time.end);
            let part = (end - slice.start_ns.max(time.start)) as f64 / slice.length_ns as f64;
            let of = |state| f64::from(crowd.count(state)) * part;
            slice.running += of(State::Runs);
            slice.queued += of(State::Queued);
            slice.blocked += of(State::Blocked);
            slice.idle += of(State::Idle);
        }
    }
    curve
}

impl Level {
    /// The functions that are worth naming.
    pub fn notable(&self, most: usize) -> &[BusyFunction] {
        /// A smaller share is noise.
        const MIN: f64 = 0.05;
        let count = self.functions.iter().take(most).take_while(|function| function.share >= MIN).count();
        &self.functions[..count.max(self.functions.len().min(1))]
    }
}

#[cfg(test)]
mod tests;
