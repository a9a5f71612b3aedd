//! How many threads have something to do at a time, and where the program is held up by one of them.
//!
//! ```text
//! level k               = the time in which k threads ran or could have run; that of 1 is the serial part
//! elapsed time of a row = its CPU time / how many threads ran at its moment
//! ```
//! Elapsed times add up to the time in which anything ran, so a function that holds up all others weighs as much as the program would gain
//! without it, and one that runs on eight threads at once an eighth of its CPU time.

mod elapsed;
mod steps;

pub use elapsed::{Beside, ELAPSED_TIME, elapsed_time, threads_beside};

use rustc_hash::FxHashMap;
use whyslow_profile::{Profile, StringId, Subject, Unit};

use self::steps::{State, Steps};
use crate::labels::{Label, Labels};
use crate::own::Charges;
use crate::selection::Selection;
use crate::waits::wait_metric;

/// How many threads did what, over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Parallelism {
    /// Whether it follows from every single wait; else it is an estimate from CPU samples, which know nothing of threads that could run.
    pub exact: bool,
    /// How long it lasted.
    pub duration_ns: u64,
    /// By the number of busy threads, from 0 to the most there were.
    pub levels: Vec<Level>,
    /// The mean of each slice of time, in their order.
    pub curve: Vec<Slice>,
}

/// The time in which so many threads were busy.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Level {
    /// How long.
    pub ns: u64,
    /// CPU samples taken then.
    pub samples: u64,
    /// What ran then, by its elapsed time, most first.
    pub functions: Vec<BusyFunction>,
}

/// A function of the user's code, or nearest to it, at one level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BusyFunction {
    /// The function.
    pub label: Label,
    /// The file of the line that has most of it.
    pub file: Option<StringId>,
    /// That line; 0 when not known.
    pub line: u32,
    /// Its elapsed time at this level.
    pub elapsed_ns: u64,
    /// Its share of what ran at this level.
    pub share: f64,
}

/// How many threads did what, on average over a slice of time.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Slice {
    /// Where it begins.
    pub start_ns: u64,
    /// How long it is.
    pub length_ns: u64,
    /// Threads on a CPU.
    pub running: f64,
    /// Threads that could run; 0 where that is not known, as are the next two.
    pub queued: f64,
    /// Threads that waited for something.
    pub blocked: f64,
    /// Threads of pools without work.
    pub idle: f64,
}

/// The serial part of a program that is not serial altogether.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SerialPart {
    /// Its share of the wall time.
    pub share: f64,
    /// Whether that is exact.
    pub exact: bool,
    /// What ran in it most, and next to never beside others.
    pub function: BusyFunction,
}

impl Parallelism {
    /// Slices that a curve has.
    const SLICES: u64 = 100;
    /// Below this share of the time on several threads a program is a serial one, and there is nothing to tell.
    const LEAST_PARALLEL: f64 = 0.1;
    /// A shorter serial part holds up little.
    const LEAST_SERIAL: f64 = 0.2;
    /// Fewer samples say little of what ran.
    const LEAST_SAMPLES: u64 = 50;
    /// A function that runs beside others for more than the rest of its time holds nobody up: threads that wait for files now and then are
    /// alone by chance.
    const LEAST_ALONE: f64 = 0.9;
    /// With a larger share of its time in the queue a program has more threads to run than CPUs, and samples alone take that for a serial part.
    const MOST_QUEUED: f64 = 0.1;

    /// Of the selected threads and time; `None` without CPU time.
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

    /// The share of the time in which so many threads were busy.
    pub fn share(&self, level: usize) -> f64 {
        self.levels.get(level).map_or(0.0, |level| level.ns as f64 / self.duration_ns.max(1) as f64)
    }

    /// The serial part, when it is worth telling: of a program that uses several threads, and of which it is a large part.
    pub fn serial_part(&self, profile: &Profile) -> Option<SerialPart> {
        let parallel: f64 = (2..self.levels.len()).map(|level| self.share(level)).sum();
        let serial = self.share(1);
        let level = self.levels.get(1).filter(|level| level.samples >= Self::LEAST_SAMPLES)?;
        let is_known = self.exact || !Self::is_crowded(profile);
        let worth = parallel >= Self::LEAST_PARALLEL && serial >= Self::LEAST_SERIAL && is_known;
        let function = level.functions.first().filter(|_| worth)?;
        let same =
            self.levels.iter().flat_map(|level| &level.functions).filter(|row| row.label == function.label);
        let everywhere: u64 = same.map(|row| row.elapsed_ns).sum();
        if (function.elapsed_ns as f64) < everywhere as f64 * Self::LEAST_ALONE {
            return None;
        }
        Some(SerialPart { share: serial, exact: self.exact, function: *function })
    }

    /// When the time that is looked at ends, if no part of it is selected.
    pub fn end_ns(profile: &Profile) -> u64 {
        steps::lasted(profile)
    }

    /// Whether threads waited for CPUs for a large part of the time that they ran: samples alone then tell of no serial part.
    pub fn is_crowded(profile: &Profile) -> bool {
        let times = || profile.threads.iter().filter_map(|thread| thread.times);
        let ran: u64 = times().map(|times| times.ran_ns).sum();
        let queued: u64 = times().map(|times| times.queued_ns).sum();
        queued as f64 > ran as f64 * Self::MOST_QUEUED
    }
}

/// The metric of CPU time.
pub(crate) fn cpu_time(profile: &Profile) -> Option<usize> {
    let is_time =
        |metric: &whyslow_profile::Metric| metric.of == Subject::Cpu && metric.unit == Unit::Nanoseconds;
    profile.metrics.iter().position(is_time)
}

/// The moment that a sample is of: without waits it is taken at the end of the time that it stands for.
fn moment(time_ns: u64, value: u64, exact: bool) -> u64 {
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
        let crowd = steps.at(moment(samples.time_ns[row], samples.value[row], exact));
        let frame = charges.of(samples.stack[row]).frame;
        // What runs is busy, also where a wait has its end a little late.
        let level = crowd.busy().max(1) as usize;
        let Some(at) = levels.get_mut(level) else { continue };
        at.samples += u64::from(!profile.is_not_sampled(samples.stack[row]));
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
        /// Less is chance.
        const LEAST: f64 = 0.05;
        let count = self.functions.iter().take(most).take_while(|function| function.share >= LEAST).count();
        &self.functions[..count.max(self.functions.len().min(1))]
    }
}

#[cfg(test)]
mod tests;
