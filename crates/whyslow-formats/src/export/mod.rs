//! What a profile becomes in other tools' formats. Every writer says in words what its format cannot hold.

mod csv;
mod dhat;
mod firefox;
mod folded;
mod heap;
mod heaptrack;
mod massif;
mod perf_script;
mod places;
mod pprof;
mod speedscope;

use whyslow_analyze::{Label, Selection};
use whyslow_profile::{LocationId, Metric, Profile, Samples, Unit};

pub use csv::write_csv;
pub use dhat::write_dhat;
pub use firefox::write_firefox;
pub use folded::{FoldedOptions, FoldedRoot, write_folded};
pub use heaptrack::write_heaptrack;
pub use massif::write_massif;
pub use perf_script::write_perf_script;
pub use pprof::write_pprof;
pub use speedscope::write_speedscope;

/// What to export: the selected samples of a profile.
#[derive(Debug)]
pub struct Export<'p> {
    profile: &'p Profile,
    selection: &'p Selection,
    samples: Samples,
    inline: bool,
}

impl<'p> Export<'p> {
    /// The samples that the selection picks. Without `inline`, inlined functions are part of the function they were
    /// inlined into.
    pub fn new(profile: &'p Profile, selection: &'p Selection, inline: bool) -> Self {
        Self { profile, selection, samples: selection.samples(profile), inline }
    }

    fn metric(&self) -> Option<&'p Metric> {
        self.profile.metrics.get(self.selection.metric)
    }

    fn metric_name(&self) -> &'p str {
        self.metric().map_or(Metric::CPU_TIME, |metric| self.profile.text(metric.name))
    }

    fn unit(&self) -> Unit {
        self.metric().map_or(Unit::Nanoseconds, |metric| metric.unit)
    }

    /// Samples per second that were asked for; 0 when not known.
    fn rate_hz(&self) -> u32 {
        self.metric().map_or(0, |metric| metric.origin.sampler().rate_hz)
    }

    /// Where a function is defined: its file, and its line there or 0.
    fn definition(&self, label: Label) -> (Option<&'p str>, u32) {
        let function = match label {
            Label::Function(id) => self.profile.functions.get(id.index()),
            _ => None,
        };
        let file = function.and_then(|function| function.file);
        (file.map(|file| self.profile.text(file)), function.map_or(0, |function| function.line))
    }

    /// The words about metrics that a format of one metric leaves out.
    fn other_metrics(&self) -> Option<String> {
        let others = self.profile.metrics.iter().enumerate().filter(|&(row, _)| row != self.selection.metric);
        let others: Vec<&str> = others.map(|(_, metric)| self.profile.text(metric.name)).collect();
        (!others.is_empty()).then(|| format!("other metrics: {}", others.join(", ")))
    }

    fn has_inlined(&self) -> bool {
        let mut locations = (0..self.profile.locations.len()).map(LocationId::from);
        self.inline && locations.any(|location| self.profile.frames.of(location).len() > 1)
    }

    /// What most formats leave out, each where the profile has it.
    fn left_out(&self, candidates: &[LeftOut]) -> Vec<String> {
        let profile = self.profile;
        let text = |candidate: &LeftOut| match candidate {
            LeftOut::Metrics => self.other_metrics(),
            LeftOut::Times => Some("when each sample was taken".to_owned()),
            LeftOut::Inlining => self.has_inlined().then(|| "which frames were inlined".to_owned()),
            LeftOut::Lines => {
                let has_lines = profile.functions.iter().any(|function| function.file.is_some());
                has_lines.then(|| "source lines".to_owned())
            }
            LeftOut::Spans => (!profile.spans.is_empty()).then(|| "spans".to_owned()),
            LeftOut::Counters => (!profile.counters.is_empty()).then(|| "counters".to_owned()),
            LeftOut::Code => {
                let kept = !profile.code.rows.is_empty() || !profile.sources.rows.is_empty();
                kept.then(|| "kept source and machine code".to_owned())
            }
        };
        candidates.iter().filter_map(text).collect()
    }
}

/// What a format may not be able to hold.
#[derive(Debug, Clone, Copy)]
enum LeftOut {
    Metrics,
    Times,
    Inlining,
    Lines,
    Spans,
    Counters,
    Code,
}

/// A text on one line: control characters become spaces.
fn one_line(text: &str) -> std::borrow::Cow<'_, str> {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    if text.contains(breaks) { text.replace(breaks, " ").into() } else { text.into() }
}
