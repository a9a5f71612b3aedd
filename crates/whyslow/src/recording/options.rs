//! What to record, and where the recording goes: the arguments, and what they mean.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use whyslow_answers::Ranking;
use whyslow_capture::{HeapOptions, Options, SamplerChoice, Target};
use whyslow_proc::kernel::Settings;

use crate::cli::Format;
use crate::events::EventOptions;
use crate::failure::{Failure, Result};
use crate::other_kind::OtherKind;
use crate::output::Output;
use crate::values::{self, Cpus};

/// What to record, how to sample, and where the profile goes.
#[derive(Debug, Clone, Args)]
pub(crate) struct RecordOptions {
    /// Samples per second of CPU time
    #[arg(short = 'F', long, visible_alias = "freq", value_name = "HZ", default_value_t = 997, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Sampling")]
    pub(crate) frequency: u32,
    /// Sampling method: perf, timer (in-process) or ptrace (with -p)
    #[arg(
        long,
        value_enum,
        value_name = "METHOD",
        default_value_t,
        hide_possible_values = true,
        help_heading = "Sampling"
    )]
    sampler: SampledBy,
    /// Sample only these CPUs, such as 0,2-3
    #[arg(short = 'C', long = "cpu", value_name = "CPUS", value_parser = values::cpus, help_heading = "Sampling")]
    cpus: Option<Cpus>,
    /// Leave out time spent in the kernel
    #[arg(long, help_heading = "Sampling")]
    user_only: bool,
    /// Bytes of stack to copy per sample, such as 16k [default: as much as fits]
    #[arg(long, value_name = "BYTES", value_parser = values::stack_size, help_heading = "Sampling")]
    stack_size: Option<u32>,
    /// Record where threads wait, and how long
    #[arg(long, help_heading = "What to record")]
    off_cpu: bool,
    /// Record where threads wait and who wakes them (root)
    #[arg(long, help_heading = "What to record")]
    wakers: bool,
    /// Record system calls: count, time, bytes, files (root)
    #[arg(long, help_heading = "What to record")]
    syscalls: bool,
    /// Record every allocation (see `whyslow heap`)
    #[arg(long, help_heading = "What to record")]
    heap: bool,
    #[command(flatten)]
    events: EventOptions,
    #[command(flatten)]
    pub(crate) keep: KeepOptions,
}

impl RecordOptions {
    /// What to record of a target. Fails if this machine does not permit it.
    pub(crate) fn resolved(&self, target: &Target) -> Result<Options> {
        check_frequency(self.frequency)?;
        let events = self.events.resolve(target)?;
        Ok(Options {
            frequency_hz: self.frequency,
            stack_bytes: self.stack_size,
            cpus: self.cpus.clone().map(|cpus| cpus.0),
            user_only: self.user_only,
            sampler: self.sampler.into(),
            off_cpu: self.off_cpu || self.wakers,
            wakers: self.wakers,
            syscalls: self.syscalls,
            events: events.samples,
            unavailable_events: events.not_there,
            heap: self.heap.then(every_allocation),
            ..Options::default()
        })
    }
}

/// Fails if the kernel allows fewer samples per second.
pub(crate) fn check_frequency(frequency: u32) -> Result {
    match max_samples_per_second() {
        Some(max) if frequency > max => {
            Err(Failure::new(format!("-F {frequency}: the kernel allows at most {max} samples per second"))
                .next(format!("-F {max}, or `sudo sysctl kernel.perf_event_max_sample_rate={frequency}`")))
        }
        _ => Ok(()),
    }
}

fn max_samples_per_second() -> Option<u32> {
    u32::try_from(Settings::now().perf_event_max_sample_rate?).ok()
}

/// Each allocation, and leaks at exit.
pub(crate) fn every_allocation() -> HeapOptions {
    HeapOptions { leak_check: true, ..HeapOptions::default() }
}

/// How to record, and how to print the answer.
#[derive(Debug, Clone, Args)]
pub(crate) struct AnswerOptions {
    #[command(flatten)]
    pub(crate) record: RecordOptions,
    /// Rank by own (your code plus the libraries it calls) or self
    #[arg(long, value_enum, default_value_t, hide_possible_values = true, help_heading = "Output")]
    by: AnswerBy,
    /// Format of the answer
    #[arg(long, value_enum, default_value_t, help_heading = "Output")]
    format: Format,
}

impl AnswerOptions {
    /// What to show of a recording.
    pub(crate) fn resolved(&self) -> Shown {
        Shown { ranking: self.by.into(), format: self.format }
    }
}

/// What to show of a recording.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The order of functions.
    pub(crate) ranking: Ranking,
    pub(crate) format: Format,
}

/// What the answer ranks functions by.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnswerBy {
    #[default]
    Own,
    #[value(name = "self")]
    SelfTime,
}

impl From<AnswerBy> for Ranking {
    fn from(by: AnswerBy) -> Self {
        match by {
            AnswerBy::Own => Self::Own,
            AnswerBy::SelfTime => Self::SelfTime,
        }
    }
}

/// The sampling method.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SampledBy {
    #[default]
    Auto,
    Perf,
    Timer,
    Ptrace,
}

impl From<SampledBy> for SamplerChoice {
    fn from(by: SampledBy) -> Self {
        match by {
            SampledBy::Auto => Self::Auto,
            SampledBy::Perf => Self::Perf,
            SampledBy::Timer => Self::Timer,
            SampledBy::Ptrace => Self::Ptrace,
        }
    }
}

/// Where a recording goes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct KeepOptions {
    /// Write the profile here [default: NAME.1.whyslow, NAME.2.whyslow, …; NAME.whyslow is the latest]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also write a flame graph
    #[arg(long, value_name = "SVG")]
    flame: Option<PathBuf>,
    /// Open the flame graph in a browser
    #[arg(long)]
    open: bool,
    /// Stop recording after this time, such as 10s
    #[arg(long, value_name = "TIME", value_parser = values::positive_duration, help_heading = None)]
    duration: Option<Duration>,
    /// Do not use or update the symbol cache
    #[arg(long)]
    no_symbol_cache: bool,
    /// Leave source lines and machine code out of the profile
    #[arg(long)]
    no_source: bool,
}

impl KeepOptions {
    /// What they mean.
    pub(crate) fn resolved(&self) -> Keep {
        Keep {
            output: self.output.clone(),
            flame: self.flame.clone(),
            open: self.open,
            duration: self.duration,
            no_symbol_cache: self.no_symbol_cache,
            no_source: self.no_source,
        }
    }
}

/// Where a recording goes, and how long it lasts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Keep {
    /// The profile, or another kind of file in addition to it; a numbered name if there is none.
    pub(crate) output: Option<PathBuf>,
    /// The flame graph.
    pub(crate) flame: Option<PathBuf>,
    /// Whether to open the flame graph in a browser.
    pub(crate) open: bool,
    /// Stop after this time.
    pub(crate) duration: Option<Duration>,
    /// Whether not to use the symbol cache.
    pub(crate) no_symbol_cache: bool,
    /// Whether to leave out source lines and machine code.
    pub(crate) no_source: bool,
}

impl Keep {
    /// `-o x.svg` and the like: the kind of file, and its path.
    pub(super) fn other_kind(&self) -> Option<(OtherKind, &Path)> {
        let file = self.output.as_deref()?;
        OtherKind::of(file).map(|kind| (kind, file))
    }

    /// The file of the flame graph: `--open` alone puts it next to the profile.
    pub(super) fn picture(&self, profile: &Path) -> Option<Output> {
        match &self.flame {
            Some(file) => Some(Output::from(file.clone())),
            None if self.open && !profile.as_os_str().is_empty() => {
                Some(Output::File(profile.with_extension("svg")))
            }
            None => None,
        }
    }
}
