//! Results of `whyslow bench`: tables for other documents and the plot of the pairs. Terminal text is in
//! `text`, JSON in `json`.

pub(crate) mod gate;
mod strip;
pub(crate) mod suite;
mod tables;

pub use gate::{GATE_SCHEMA, GateView, gate_json, gate_junit, gate_markdown};
pub use strip::strip_plot;
pub use suite::suite_markdown;
pub use tables::{asciidoc, csv, markdown, orgmode};
use whyslow_bench::document::Measured;
use whyslow_bench::run::MetricUnit;
use whyslow_bench::{Answer, Comparison, Metric, Summary};
use whyslow_words::{Remark, bytes, duration};

/// The measured commands and their comparison.
#[derive(Debug, Clone, Copy)]
pub struct BenchView<'a> {
    /// The runs.
    pub measured: &'a Measured,
    /// The comparison of the runs.
    pub answer: &'a Answer,
    /// The baseline: the command that the others are compared with.
    pub reference: usize,
    /// Differences below this share do not matter.
    pub margin: f64,
    /// Notes and warnings.
    pub remarks: &'a [Remark],
    /// How tables show them.
    pub shown: Shown,
}

/// How tables show the commands.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shown {
    /// The unit of all times; by default each has the one that fits.
    pub unit: Option<TimeUnit>,
    /// The command with the smallest mean comes first, instead of the first one given.
    pub fastest_first: bool,
}

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// µs
    Microsecond,
    /// ms
    Millisecond,
    /// s
    Second,
}

impl<'a> BenchView<'a> {
    /// Formats a value with its unit, times in the chosen one.
    pub(crate) fn amount(&self, value: f64, unit: MetricUnit) -> String {
        let (name, size, decimals) = match (self.shown.unit, unit) {
            (Some(TimeUnit::Microsecond), MetricUnit::Nanoseconds) => ("µs", 1e3, 1),
            (Some(TimeUnit::Millisecond), MetricUnit::Nanoseconds) => ("ms", 1e6, 1),
            (Some(TimeUnit::Second), MetricUnit::Nanoseconds) => ("s", 1e9, 3),
            _ => return amount(value, unit),
        };
        format!("{:.decimals$} {name}", value.max(0.0) / size)
    }

    /// The commands in the order of the tables.
    pub(crate) fn order(&self) -> Vec<usize> {
        let mut order = (0..self.measured.commands.len()).collect::<Vec<_>>();
        if self.shown.fastest_first {
            let mean =
                |command: usize| self.summary(command, &Metric::Wall).map_or(f64::INFINITY, |wall| wall.mean);
            order.sort_by(|one, other| mean(*one).total_cmp(&mean(*other)));
        }
        order
    }

    /// The name of a command.
    pub(crate) fn name(&self, command: usize) -> &'a str {
        self.measured.commands.get(command).map_or("", |command| &command.contender.name)
    }

    /// The summary of one metric of a command.
    pub(crate) fn summary(&self, command: usize, metric: &Metric) -> Option<&'a Summary> {
        self.answer.summaries.get(command)?.iter().find(|summary| summary.metric == *metric)
    }

    /// The comparisons by the deciding metric.
    pub(crate) fn deciding(&self) -> impl Iterator<Item = &'a Comparison> {
        self.answer.comparisons.iter().filter(|comparison| comparison.decides)
    }

    /// The deciding metric: wall time or CPU time.
    pub(crate) fn witness(&self) -> Metric {
        self.answer.witness.map_or(Metric::Wall, |(witness, _)| witness.into())
    }
}

/// Formats a value with its unit.
pub(crate) fn amount(value: f64, unit: MetricUnit) -> String {
    let whole = value.max(0.0).round() as u64;
    match unit {
        MetricUnit::Nanoseconds => duration(whole),
        MetricUnit::Bytes => bytes(whole),
        MetricUnit::Count => whyslow_words::Count(whole).to_string(),
    }
}

/// Formats a ratio as a change: `-11.6 %`.
pub(crate) fn change(ratio: f64) -> String {
    match (ratio - 1.0) * 100.0 {
        percent if !percent.is_finite() => "?".to_owned(),
        percent if percent.abs() < 0.05 => "0.0 %".to_owned(),
        percent => format!("{percent:+.1} %"),
    }
}

/// Formats a ratio with its interval: `0.884 (0.871 to 0.897)`.
pub(crate) fn ratio_words(comparison: &Comparison) -> String {
    match comparison.ratio {
        None => "-".to_owned(),
        Some(ratio) if comparison.confidence == 1.0 => format!("{:.3}", ratio.estimate),
        Some(ratio) if !ratio.high.is_finite() => format!("{:.3} (too few pairs)", ratio.estimate),
        Some(ratio) => format!("{:.3} ({:.3} to {:.3})", ratio.estimate, ratio.low, ratio.high),
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use whyslow_bench::document::{MeasuredCommand, SCHEMA, Surroundings};
    use whyslow_bench::judge::judge;
    use whyslow_bench::{Contender, Options, Run, Series};
    use whyslow_profile::{ExitStatus, Host};
    use whyslow_stats::random::Random;
    use whyslow_words::Fact;

    use super::*;

    /// Commands with these times and 1 % noise.
    pub(crate) fn measured(times_ns: &[f64], rounds: usize) -> (Measured, Series) {
        let mut random = Random::new(4);
        let mut run = |time: f64, place: usize| {
            let wall_ns = (time * (0.01 * random.normal()).exp()) as u64;
            Run {
                place: place as u32,
                wall_ns,
                user_ns: wall_ns * 9 / 10,
                system_ns: wall_ns / 11,
                first_thread_ns: Some(wall_ns),
                queued_ns: Some(0),
                max_resident_bytes: Some(12 << 20),
                minor_faults: 400,
                major_faults: 0,
                voluntary_switches: 3,
                involuntary_switches: 2,
                counts: std::collections::BTreeMap::default(),
                exit: ExitStatus::Code(0),
            }
        };
        let mut round = |at: usize| {
            times_ns
                .iter()
                .enumerate()
                .map(|(command, time)| run(*time, (at + command) % times_ns.len()))
                .collect::<Vec<_>>()
        };
        let rounds = (0..rounds).map(&mut round).collect::<Vec<_>>();
        let series = Series::of_rounds(rounds, None);
        let commands = (0..times_ns.len()).map(|command| MeasuredCommand {
            contender: Contender {
                name: format!("./app-{command} <in|put>"),
                command: format!("./app-{command}"),
                parameters: Vec::new(),
            },
            words: vec![format!("./app-{command}")],
            runs: series.rounds.iter().map(|round| round[command].clone()).collect(),
            warmup: Vec::new(),
            exact: vec![("allocations".to_owned(), 1000.0 - 100.0 * command as f64)],
            kept_program: None,
        });
        let measured = Measured {
            schema: SCHEMA.to_owned(),
            began_unix_s: 1_700_000_000,
            host: Host::default(),
            surroundings: Surroundings {
                cpu_pressure: Some(0.12),
                steal: Some(0.001),
                governor: Some("performance".to_owned()),
                mhz: None,
            },
            commands: commands.collect(),
        };
        (measured, series)
    }

    /// Calls a function with the view of such commands.
    pub(crate) fn with_view<T>(times_ns: &[f64], rounds: usize, look: impl FnOnce(&BenchView<'_>) -> T) -> T {
        let (measured, series) = measured(times_ns, rounds);
        let contenders =
            measured.commands.iter().map(|command| command.contender.clone()).collect::<Vec<_>>();
        let exact = measured.commands.iter().map(|command| command.exact.clone()).collect::<Vec<_>>();
        let options =
            Options { contenders: &contenders, reference: 0, margin: 0.01, exact: &exact, itself: false };
        let answer = judge(&series, options);
        let remarks = answer.notes.iter().map(Fact::remark).collect::<Vec<_>>();
        look(&BenchView {
            measured: &measured,
            answer: &answer,
            reference: 0,
            margin: 0.01,
            remarks: &remarks,
            shown: Shown::default(),
        })
    }
}
