//! Exports profiles to other tools' formats. Each writer returns what its format cannot hold.

mod callgrind;
mod chrome_trace;
mod coz;
mod csv;
mod dhat;
mod firefox;
mod folded;
mod heap;
mod heaptrack;
mod left_out;
mod massif;
mod perf_script;
mod places;
mod pprof;
mod speedscope;

use whyslow_analyze::{Label, Selection};
use whyslow_profile::{LocationId, Metric, Profile, Samples, Unit};

pub use callgrind::write_callgrind;
pub use chrome_trace::write_chrome_trace;
pub use coz::write_coz;
pub use csv::write_csv;
pub use dhat::write_dhat;
pub use firefox::write_firefox;
pub use folded::{FoldedOptions, FoldedRoot, write_folded};
pub use heaptrack::write_heaptrack;
pub use left_out::LeftOut;
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
    /// The samples of the selection. Without `inline`, inlined functions count as part of the function they
    /// are inlined into.
    pub fn new(profile: &'p Profile, selection: &'p Selection, inline: bool) -> Self {
        Self { profile, selection, samples: selection.samples(profile), inline }
    }

    fn metric(&self) -> Option<&'p Metric> {
        self.profile.metrics.get(self.selection.metric.index())
    }

    fn metric_name(&self) -> &'p str {
        self.metric().map_or(Metric::CPU_TIME, |metric| self.profile.text(metric.name))
    }

    fn unit(&self) -> Unit {
        self.metric().map_or(Unit::Nanoseconds, |metric| metric.unit)
    }

    /// The requested samples per second; 0 if unknown.
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

    /// The metrics that a format of one metric leaves out.
    fn other_metrics(&self) -> Option<LeftOut> {
        let others = self.profile.metric_ids().zip(&self.profile.metrics);
        let others = others.filter(|(metric, _)| *metric != self.selection.metric);
        let others: Vec<String> = others.map(|(_, row)| self.profile.text(row.name).to_owned()).collect();
        (!others.is_empty()).then_some(LeftOut::Metrics(others))
    }

    fn has_inlined(&self) -> bool {
        let mut locations = (0..self.profile.locations.len()).map(LocationId::from);
        self.inline && locations.any(|location| self.profile.frames.of(location).len() > 1)
    }

    /// The candidates that the profile contains.
    fn left_out(&self, candidates: &[LeftOut]) -> Vec<LeftOut> {
        let profile = self.profile;
        let is_there = |candidate: &&LeftOut| match candidate {
            LeftOut::Inlining => self.has_inlined(),
            LeftOut::Lines => profile.functions.iter().any(|function| function.file.is_some()),
            LeftOut::Spans => !profile.spans.is_empty(),
            LeftOut::Counters => !profile.counters.is_empty(),
            LeftOut::Code => !profile.code.rows.is_empty() || !profile.sources.rows.is_empty(),
            _ => true,
        };
        candidates.iter().filter(is_there).cloned().collect()
    }
}

/// A text on one line: control characters become spaces.
fn one_line(text: &str) -> std::borrow::Cow<'_, str> {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    if text.contains(breaks) { text.replace(breaks, " ").into() } else { text.into() }
}
