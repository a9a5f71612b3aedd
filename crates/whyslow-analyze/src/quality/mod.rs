//! The quality of a profile: how far it can be trusted.

mod heap;
mod jit;
mod modules;
mod shares;
mod truncation;
mod waits;
mod warning;

use whyslow_profile::{
    HeapNote, KernelView, MetricId, Note, Profile, RecordingNote, Sampler, Sampling, Subject, Trigger, Unit,
};

pub use heap::HeapQuality;
pub use jit::{Runtime, runs_hidden_script};
pub use waits::WaitQuality;
pub(crate) use waits::wait_error;
pub use warning::{BuiltWith, ModuleShare, Warning};

use self::shares::StackShares;
use crate::command::record_again;
use crate::counting::is_counted;
use crate::selection::{Selection, Weights};
use crate::units::share;
use crate::waits::{Spent, wait_metric};
use whyslow_words::{Fact, Remark, Severity};

/// Fewer samples than this are too few for shares: with 200 the error of a 50 % share is 3.5 points.
pub(crate) const ENOUGH_SAMPLES: u64 = 200;
/// Problems below this share get no warning.
const NOTABLE: f64 = 0.01;
/// In another tool's recording, code without names gets a warning from this share on, unless a warning about
/// modules explains it.
const UNNAMED: f64 = 0.1;
/// A share below this is shown as 0.0 %.
const MIN_SHOWN: f64 = 0.0005;
/// Sampling below this share of the expected gets a warning, if at least this many are expected.
const ACHIEVED_ENOUGH: f64 = 0.8;
const ENOUGH_FOR_GAP: u64 = 50;

/// The grade of a whole profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// The answer may be wrong.
    Poor,
    /// Something is missing; the rest is right.
    Fair,
    /// No problems.
    Good,
}

impl Grade {
    /// The word used in text and JSON.
    pub fn label(self) -> &'static str {
        match self {
            Self::Poor => "poor",
            Self::Fair => "fair",
            Self::Good => "good",
        }
    }
}

/// The quality of a profile. Shares are by sample value.
#[derive(Debug, Clone, PartialEq)]
pub struct Quality {
    /// The grade.
    pub grade: Grade,
    /// Samples of the main metric.
    pub samples: u64,
    /// Samples the kernel could not deliver.
    pub lost: u64,
    /// Other records the kernel could not deliver.
    pub lost_records: u64,
    /// Times the kernel lowered the sampling rate.
    pub throttled: u64,
    /// Share of samples with truncated stacks.
    pub truncated_share: f64,
    /// Share of samples with stacks that a part of a deep recursion is left out of.
    pub left_out_share: f64,
    /// Share of samples whose innermost frame has no function.
    pub unresolved_share: f64,
    /// Share of samples with no function anywhere on their stack.
    pub nameless_share: f64,
    /// What triggered the samples.
    pub trigger: Trigger,
    /// The tool that recorded it, if it was imported.
    pub imported_from: Option<String>,
    /// What the samples are bound to.
    pub sampling: Sampling,
    /// Share of the CPU time without samples, if known. The other shares are of the rest.
    pub not_sampled_share: f64,
    /// What is recorded of the kernel.
    pub kernel: KernelView,
    /// The requested samples per second of CPU time.
    pub frequency_hz: u32,
    /// The number of samples that the CPU time should give, if known.
    pub expected_samples: Option<u64>,
    /// Share of the CPU time that is kernel time and has no samples.
    pub missing_kernel_share: f64,
    /// Whether the recording did not end properly.
    pub incomplete: bool,
    /// Whether the values of the main metric were counted, not sampled.
    pub counted: bool,
    /// The quality of the heap, if it was recorded.
    pub heap: Option<HeapQuality>,
    /// The quality of waits, if they are the metric.
    pub waits: Option<WaitQuality>,
    /// The warnings, worst first.
    pub warnings: Vec<Warning>,
}

impl Quality {
    /// Judges the main metric of a whole profile, and the heap if it was recorded.
    pub fn of(profile: &Profile) -> Self {
        let meta = &profile.meta;
        let heap = HeapQuality::of(profile);
        let heap_only = heap.as_ref().is_some_and(|heap| heap.only);
        let weights = Selection { metric: profile.main_metric(), ..Selection::default() }.weigh(profile);
        let sampler = profile.main_sampler();
        let shares = StackShares::of(profile, &weights);
        let hidden = meta.kernel == KernelView::Hidden;
        let cpu_time = meta.user_time_ns.saturating_add(meta.system_time_ns);
        let expected = expected_samples(profile, if hidden { meta.user_time_ns } else { cpu_time });
        let by_timers = matches!(meta.sampling, Sampling::Timers | Sampling::Ptrace);
        let covered = share(weights.total_value, cpu_time) * (1.0 - shares.not_sampled);
        let mut quality = Self {
            grade: Grade::Good,
            samples: weights.total_count,
            lost: lost_of(profile, weights.total_count, expected),
            lost_records: meta.counters.lost_records,
            throttled: meta.counters.throttled,
            truncated_share: shares.truncated,
            left_out_share: shares.left_out,
            unresolved_share: shares.unresolved,
            nameless_share: shares.nameless,
            trigger: sampler.trigger,
            imported_from: meta.imported_from.clone(),
            sampling: meta.sampling,
            not_sampled_share: if by_timers && cpu_time > 0 {
                (1.0 - covered).max(0.0)
            } else {
                shares.not_sampled
            },
            kernel: meta.kernel,
            frequency_hz: sampler.rate_hz,
            expected_samples: expected
                .filter(|_| !heap_only && meta.only_cpus.is_none())
                .filter(|expected| accounts_explain(weights.total_count, *expected)),
            missing_kernel_share: if hidden { kernel_share(profile, shares.not_sampled) } else { 0.0 },
            incomplete: !profile.sealed,
            counted: heap_only || is_counted(profile, profile.main_metric()),
            heap,
            waits: None,
            warnings: Vec::new(),
        };
        quality.warn(profile, &weights, &shares);
        quality
    }

    /// Judges one metric. An event that was recorded in addition to CPU time is judged by its own samples,
    /// which are lost and throttled separately from those of CPU time. Waits are judged by their stacks.
    pub fn of_metric(profile: &Profile, metric: MetricId) -> Self {
        let quality = Self::of(profile);
        if profile.metrics.get(metric.index()).is_some_and(|row| row.of == Subject::Wait) {
            return quality.of_waits(profile, metric);
        }
        let Some(row) = profile.metrics.get(metric.index()).filter(|row| row.of == Subject::Event) else {
            return quality;
        };
        if metric == profile.main_metric() {
            return quality;
        }
        let weights = Selection { metric, ..Selection::default() }.weigh(profile);
        let shares = StackShares::of(profile, &weights);
        let sampler = row.origin.sampler();
        let own_rings = profile.meta.imported_from.is_none();
        let mut quality = Self {
            samples: weights.total_count,
            lost: if own_rings { 0 } else { quality.lost },
            throttled: if own_rings { 0 } else { quality.throttled },
            truncated_share: shares.truncated,
            left_out_share: shares.left_out,
            unresolved_share: shares.unresolved,
            nameless_share: shares.nameless,
            trigger: if own_rings { Trigger::Event } else { sampler.trigger },
            sampling: Sampling::Unknown,
            not_sampled_share: 0.0,
            frequency_hz: sampler.rate_hz,
            expected_samples: None,
            missing_kernel_share: 0.0,
            counted: is_counted(profile, metric),
            heap: None,
            warnings: Vec::new(),
            ..quality
        };
        quality.warn(profile, &weights, &shares);
        let name = profile.text(row.name);
        quality.warnings.retain(|warning| match warning {
            Warning::Noted(Note::Recording(RecordingNote::EventsMissed { event, .. })) => event == name,
            Warning::Noted(Note::Recording(RecordingNote::EventNotRecorded { .. })) => false,
            Warning::Noted(Note::Recording(RecordingNote::EventsInUserMode { events, .. })) => {
                events.iter().any(|event| event == name)
            }
            _ => true,
        });
        quality.judge();
        quality
    }

    /// The warnings as remarks, worst first.
    pub fn remarks(&self) -> Vec<Remark> {
        self.warnings.iter().map(Fact::remark).collect()
    }

    /// Share of the expected samples that arrived, if known.
    pub fn achieved_share(&self) -> Option<f64> {
        let expected = self.expected_samples.filter(|expected| *expected > 0)?;
        Some(self.samples as f64 / expected as f64)
    }

    /// The number of samples that the CPU time should give, if far fewer arrived and lost ones do not explain
    /// it.
    fn gap(&self) -> Option<u64> {
        let expected = self.expected_samples.filter(|expected| *expected >= ENOUGH_FOR_GAP)?;
        let known = self.samples.saturating_add(self.lost);
        ((known as f64) < ACHIEVED_ENOUGH * expected as f64).then_some(expected)
    }

    fn warn(&mut self, profile: &Profile, weights: &Weights, shares: &StackShares) {
        let heap_only = self.heap.as_ref().is_some_and(|heap| heap.only);
        let unit = profile.main_samples().map_or(Unit::Nanoseconds, |(metric, _)| metric.unit);
        let mut warnings = Vec::new();
        if self.incomplete {
            warnings.push(Warning::Incomplete);
        }
        if !heap_only && self.waits.is_none() && (!self.counted || self.samples == 0) {
            self.warn_of_samples(profile, &mut warnings);
        }
        let of_cpu_time = !heap_only && self.waits.is_none();
        modules::warn(profile, weights, unit, of_cpu_time, &mut warnings);
        let mut runtimes = jit::runtimes(profile, weights);
        for code in &mut runtimes {
            let share = share(code.unnamed, weights.total_value);
            if share >= modules::NOTABLE_MODULE {
                warnings.push(Warning::UnnamedJit { share, unit, runtime: code.runtime.clone() });
                *code = code.after_names();
            }
        }
        for (runtime, value) in jit::interpreters(profile, weights) {
            let share = share(value, weights.total_value);
            if share >= modules::NOTABLE_MODULE {
                // That nothing of the script is visible matters more than how many samples there are.
                warnings.insert(0, Warning::Interpreted { share, unit, runtime });
            }
        }
        if !self.counted && self.truncated_share >= NOTABLE {
            let why = truncation::explain(profile, weights, self.truncated_share, &runtimes);
            // Threads of experiments spin in whyslow's own handler.
            let is_delay = !profile.causal.experiments.is_empty() && self.truncated_share <= shares.agent;
            if !(is_delay && matches!(why, Warning::CutAtSignal { .. })) {
                warnings.push(why);
            }
        }
        if self.left_out_share > 0.0 {
            let deepest = Some(profile.meta.counters.deepest_stack).filter(|frames| *frames > 0);
            warnings.push(Warning::DeepRecursion { share: self.left_out_share, deepest });
        }
        if shares.no_module >= modules::NOTABLE_MODULE {
            warnings.push(Warning::UnknownCode { share: shares.no_module, unit });
        }
        let explained = warnings.iter().any(Warning::is_of_names);
        if self.imported_from.is_some() && !explained && self.unresolved_share >= UNNAMED {
            warnings.push(Warning::Unnamed { share: self.unresolved_share, unit });
        }
        if !heap_only {
            self.warn_of_sampling(profile, shares, &mut warnings);
        }
        if !heap_only && shares.agent >= NOTABLE {
            warnings.push(Warning::AgentTime { share: shares.agent });
        }
        if let Some(heap) = &self.heap {
            heap.warn(profile, &mut warnings);
        }
        if let Some(waits) = &self.waits {
            waits.warn(&mut warnings);
        }
        // Processes that kept running are reported once: by the heap's note if only the heap was recorded.
        let went_on = |note: &&Note| matches!(note, Note::Heap(HeapNote::ProcessesWentOn { .. }));
        let is_noted = heap_only && profile.meta.notes.iter().any(|note| went_on(&note));
        let still_running = !profile.meta.still_running.is_empty() && !is_noted;
        if still_running {
            let processes = profile.meta.still_running.clone();
            warnings.push(Warning::StillRunning { processes, program: profile.meta.exit.is_none() });
        }
        if let Some(cpus) = profile.meta.only_cpus.clone() {
            warnings.push(Warning::SomeCpus { cpus });
        }
        let notes = profile.meta.notes.iter().filter(|note| !(still_running && went_on(note)));
        warnings.extend(notes.cloned().map(Warning::Noted));
        warning::settle(&mut warnings);
        warnings.sort_by_key(|warning| (std::cmp::Reverse(warning.severity()), warning.rank()));
        self.warnings = warnings;
        self.judge();
    }

    /// Sets the grade from the warnings.
    fn judge(&mut self) {
        self.grade = match self.warnings.first().map(Warning::severity) {
            Some(Severity::Serious) => Grade::Poor,
            Some(Severity::Warning) => Grade::Fair,
            // A note of the recorder says what is missing.
            _ if self.heap.as_ref().is_some_and(|heap| heap.partly_seen) => Grade::Fair,
            Some(Severity::Note | Severity::Fine) | None => Grade::Good,
        };
    }

    /// The same for the heap alone: without warnings about CPU samples.
    #[must_use]
    pub fn of_heap_alone(&self) -> Self {
        let mut quality = self.clone();
        if let Some(heap) = &mut quality.heap {
            heap.only = true;
            quality.warnings.retain(|warning| !warning.is_of_samples());
            quality.judge();
        }
        quality
    }

    /// Warns about too few samples.
    fn warn_of_samples(&self, profile: &Profile, warnings: &mut Vec<Warning>) {
        if self.samples == 0 {
            // A program that may not be observed already explains it, and a file with experiments alone is none of samples.
            let experiments_only = self.imported_from.is_some() && !profile.causal.experiments.is_empty();
            if profile.meta.counters.unobservable_execs == 0 && !experiments_only {
                let cpu_time_ns = profile.meta.user_time_ns.saturating_add(profile.meta.system_time_ns);
                let (raise_to, waits) = (self.higher_rate(10), Spent::waits(profile));
                warnings.push(Warning::NoSamples { cpu_time_ns, raise_to, waits });
            }
        } else if self.samples < ENOUGH_SAMPLES {
            let raise_to = self.higher_rate(10);
            let again = match raise_to {
                Some(hz) if self.trigger != Trigger::Event && self.imported_from.is_none() => {
                    Some(record_again(profile, &format!("-F {hz}")))
                }
                _ => None,
            };
            let waits = Spent::waits(profile);
            warnings.push(Warning::TooFewSamples { samples: self.samples, raise_to, again, waits });
        }
    }

    /// Warns about missing samples.
    fn warn_of_sampling(&self, profile: &Profile, shares: &StackShares, warnings: &mut Vec<Warning>) {
        let counters = &profile.meta.counters;
        let frequency_hz = self.frequency_hz;
        if self.lost > 0 {
            // Samples of CPU time and of waits share the ring buffers.
            let others = match self.waits {
                Some(_) => profile.main_samples().map(|(_, samples)| samples),
                None => wait_metric(profile).map(|metric| &profile.samples[metric.index()]),
            };
            let others = others.map_or(0, |samples| samples.len() as u64);
            // So do system calls, with two records each.
            let calls = profile.syscalls.iter().fold(0u64, |sum, row| sum.saturating_add(row.count));
            let kept = self.samples.saturating_add(others).saturating_add(calls.saturating_mul(2));
            let lost_share = share(self.lost, self.lost.saturating_add(kept));
            warnings.push(Warning::Lost { lost: self.lost, share: lost_share, frequency_hz });
        }
        if self.lost_records > 0 {
            warnings.push(Warning::LostRecords { lost: self.lost_records, frequency_hz });
        }
        if self.throttled > 0 {
            warnings.push(Warning::Throttled { times: self.throttled, frequency_hz });
        }
        if matches!(self.sampling, Sampling::Timers | Sampling::Ptrace) {
            // A late sample stands for several periods, so the number of samples says little.
            if self.samples >= ENOUGH_SAMPLES && self.not_sampled_share >= NOT_COVERED {
                warnings.push(Warning::NotCovered { share: self.not_sampled_share });
            }
        } else if self.sampling == Sampling::Threads {
            self.warn_of_time_without_samples(counters.unsampled_threads, warnings);
        } else if let Some(expected) = self.gap() {
            let raise_to = self.higher_rate(4);
            warnings.push(Warning::FewerSamplesThanExpected { samples: self.samples, expected, raise_to });
        }
        match self.kernel {
            // For waits, a note of the recorder says what the kernel hides.
            KernelView::Hidden if self.waits.is_none() => {
                let known = profile.meta.user_time_ns + profile.meta.system_time_ns > 0;
                let missing_share = known.then_some(self.missing_kernel_share);
                if missing_share.is_none_or(|share| share >= MIN_SHOWN) {
                    let accounted = is_accounted(profile);
                    warnings.push(Warning::KernelHidden { missing_share, accounted });
                }
            }
            KernelView::Unnamed if shares.kernel >= NOTABLE => {
                warnings.push(Warning::KernelUnnamed { share: shares.kernel });
            }
            _ => {}
        }
        let times = counters.unobservable_execs;
        if times > 0 {
            warnings.push(Warning::UnobservableExecs { times, other_samples: self.samples > 0 });
        }
    }
}

/// Timer and ptrace samples may fall short of the CPU time by this share through noise alone.
const NOT_COVERED: f64 = 0.05;

/// This rate (or the default if unknown) times a factor; `None` beyond what every kernel allows.
fn higher_rate(frequency_hz: u32, times: u32) -> Option<u32> {
    const USUAL: u32 = 1000;
    const HIGHEST: u32 = 20_000;
    let used = if frequency_hz == 0 { USUAL } else { frequency_hz };
    (used < HIGHEST).then(|| used.saturating_mul(times).clamp(USUAL, HIGHEST))
}

impl Quality {
    /// A higher rate that helps. Timer sampling is limited to the kernel's clock ticks, and ptrace sampling
    /// has its own limit.
    fn higher_rate(&self, times: u32) -> Option<u32> {
        if matches!(self.trigger, Trigger::Timer | Trigger::Ptrace) {
            None
        } else {
            higher_rate(self.frequency_hz, times)
        }
    }

    /// Warns about threads that exited before their first sample. Kernel time has its own warning.
    fn warn_of_time_without_samples(&self, threads: u64, warnings: &mut Vec<Warning>) {
        let in_kernel = if self.trigger == Trigger::CpuClock { self.missing_kernel_share } else { 0.0 };
        let share = self.not_sampled_share;
        if share - in_kernel >= NOTABLE {
            warnings.push(Warning::NotSampled { share, threads, raise_to: self.higher_rate(4) });
        }
    }
}

/// The number of samples that this much CPU time should give, if whyslow recorded it.
fn expected_samples(profile: &Profile, cpu_time_ns: u64) -> Option<u64> {
    let Sampler { trigger, rate_hz } = profile.main_sampler();
    (!matches!(trigger, Trigger::Unknown | Trigger::Timer | Trigger::Ptrace)
        && rate_hz > 0
        && cpu_time_ns > 0)
        .then(|| (cpu_time_ns as f64 / 1e9 * f64::from(rate_hz)).round() as u64)
}

/// Whether the accounted CPU time covers what was sampled. The kernel accounts the program and the children that it
/// waited for: of a child that outlives it, or that another process waits for, there are only samples.
fn accounts_explain(samples: u64, expected: u64) -> bool {
    /// A few samples more than expected are chance.
    const CHANCE: u64 = 50;
    samples <= expected.saturating_add(expected / 4).saturating_add(CHANCE)
}

/// Whether time without samples is in the profile, as [not sampled].
fn is_accounted(profile: &Profile) -> bool {
    profile.meta.sampling == Sampling::Threads && profile.main_sampler().trigger == Trigger::CpuClock
}

/// The kernel's share of the CPU time, where it has no samples. The kernel estimates how much of the CPU time
/// that is from its clock ticks; the time without samples is measured, and the kernel's time is a part of it.
fn kernel_share(profile: &Profile, not_sampled: f64) -> f64 {
    let meta = &profile.meta;
    let estimate = share(meta.system_time_ns, meta.user_time_ns.saturating_add(meta.system_time_ns));
    if is_accounted(profile) { estimate.min(not_sampled) } else { estimate }
}

/// How many samples of the recorded processes were lost. Events of whole CPUs share their rings with other
/// processes, so a recording cannot lose more than its CPU time should give. Waits and system calls are in the
/// same rings, and nothing says how many of them to expect.
fn lost_of(profile: &Profile, samples: u64, expected: Option<u64>) -> u64 {
    let lost = profile.meta.counters.lost_samples;
    let only_samples = wait_metric(profile).is_none() && profile.syscalls.is_empty();
    match expected {
        Some(expected) if profile.meta.sampling == Sampling::Cpus && only_samples => {
            lost.min(expected.saturating_sub(samples))
        }
        _ => lost,
    }
}

#[cfg(test)]
mod tests;
