//! Which samples count, as a user writes it, and its meaning for one profile.

use std::ops::Range;

use whyslow_analyze::heap::{LIVE, live_at};
use whyslow_analyze::{
    ELAPSED_TIME, FunctionFilter, Pattern, Selection, SpanPattern, SpanThreads, elapsed_time,
};
use whyslow_profile::{CodeKind, MetricId, Profile};

use crate::refusal::{FilterError, FilterName};

/// Which samples count. The default is every sample of the main metric.
#[derive(Debug, Clone, Default)]
pub struct Filters {
    /// The metric.
    pub metric: MetricChoice,
    /// Only threads with one of these numbers or names (regular expressions); empty means all.
    pub threads: Vec<String>,
    /// The same for processes.
    pub processes: Vec<String>,
    /// Only this range, in nanoseconds since the start.
    pub time_ns: Option<Range<u64>>,
    /// Only stacks that contain a matching function.
    pub function: Option<String>,
    /// Only code of these kinds; empty means all.
    pub kinds: Vec<CodeKind>,
    /// Only inside these spans; empty means everywhere.
    pub spans: Vec<SpanPattern>,
    /// Which threads the spans cover.
    pub span_threads: SpanThreads,
}

/// The metric to count. The default is the profile's main metric.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetricChoice {
    /// Its name.
    pub name: Option<String>,
    /// Heap bytes live at this time instead, in nanoseconds since the start.
    pub live_at_ns: Option<u64>,
}

impl MetricChoice {
    /// The metric with this name.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), live_at_ns: None }
    }

    /// Whether a metric was chosen.
    pub fn is_given(&self) -> bool {
        self.name.is_some() || self.live_at_ns.is_some()
    }

    /// The name of the chosen metric, if the profile stores it (live bytes are computed).
    pub fn in_file(&self) -> Option<&str> {
        self.name.as_deref().filter(|_| !self.is_live())
    }

    /// Whether live bytes are chosen. They belong to an instant, not to a range of time.
    fn is_live(&self) -> bool {
        self.live_at_ns.is_some() || self.name.as_deref() == Some(LIVE)
    }

    /// The metric. A computed metric is added to the profile; live bytes without a time are those at
    /// `end_ns`.
    pub fn resolve(&self, profile: &mut Profile, end_ns: u64) -> Result<MetricId, FilterError> {
        let name = match (self.name.as_deref(), self.live_at_ns) {
            (None, None) => return Ok(profile.main_metric()),
            (None | Some(LIVE), Some(_)) => LIVE,
            (Some(name), None) => name,
            (Some(name), Some(_)) => {
                return Err(FilterError::LiveAtOfAnotherMetric { metric: name.to_owned() });
            }
        };
        let computed = match name {
            LIVE => live_at(profile, self.live_at_ns.unwrap_or(end_ns)),
            ELAPSED_TIME => elapsed_time(profile),
            _ => None,
        };
        match computed {
            Some((metric, samples)) => Ok(profile.set_metric(metric, samples)),
            None => Ok(Selection::metric_named(profile, name)?),
        }
    }
}

/// How much of a recording filters leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Narrowing {
    /// There is no filter.
    None,
    /// Some threads or processes.
    Threads,
    /// Anything else: a metric, a time range, functions, kinds of code, spans.
    Beyond,
}

impl Filters {
    /// Every sample of a metric.
    pub fn of_metric(metric: MetricChoice) -> Self {
        Self { metric, ..Self::default() }
    }

    /// How much they leave.
    pub fn narrowing(&self) -> Narrowing {
        let Self { metric, threads, processes, time_ns, function, kinds, spans, .. } = self;
        if metric.is_given()
            || time_ns.is_some()
            || function.is_some()
            || !(kinds.is_empty() && spans.is_empty())
        {
            Narrowing::Beyond
        } else if threads.is_empty() && processes.is_empty() {
            Narrowing::None
        } else {
            Narrowing::Threads
        }
    }

    /// The same filters, with a metric to use if none is chosen.
    #[must_use]
    pub fn with_default_metric(mut self, name: &str) -> Self {
        if !self.metric.is_given() {
            self.metric = MetricChoice::named(name);
        }
        self
    }

    /// Splits off the function, for answers that show it among all samples.
    pub fn without_function(mut self) -> (Self, Option<FunctionFilter>) {
        let function = self.function.take();
        (self, function.as_deref().map(FunctionFilter::new))
    }

    /// The samples that pass the filters. A filter that matches nothing is an error that names it. A computed metric
    /// is added to the profile.
    pub fn resolve(&self, profile: &mut Profile) -> Result<Selection, FilterError> {
        let selection = self.selection(profile)?;
        selection.check(profile)?;
        Ok(selection)
    }

    /// Like [`Filters::resolve`], for answers that do not consist of samples: no sample has to pass all filters.
    pub fn resolve_names(&self, profile: &mut Profile) -> Result<Selection, FilterError> {
        let selection = self.selection(profile)?;
        selection.check_filters(profile)?;
        Ok(selection)
    }

    /// Like [`Filters::resolve`], but a filter may match nothing.
    pub fn selection(&self, profile: &mut Profile) -> Result<Selection, FilterError> {
        if self.time_ns.is_some() && self.metric.live_at_ns.is_some() {
            return Err(FilterError::LiveAtInARange);
        }
        let end_ns = self.time_ns.as_ref().map_or(u64::MAX, |range| range.end);
        // Bytes live at the end of a range may have been allocated before it.
        let time_ns = self.time_ns.clone().filter(|_| !self.metric.is_live());
        let function = self.function.as_deref().map(FunctionFilter::new);
        if let Some(filter) = function.as_ref().filter(|filter| !filter.selects_any(profile)) {
            unless_regex(filter)?;
        }
        Ok(Selection {
            metric: self.metric.resolve(profile, end_ns)?,
            threads: patterns(FilterName::Thread, &self.threads)?,
            processes: patterns(FilterName::Process, &self.processes)?,
            time_ns,
            function,
            kinds: self.kinds.clone(),
            spans: self.spans.clone(),
            span_threads: self.span_threads,
        })
    }
}

fn patterns(filter: FilterName, texts: &[String]) -> Result<Vec<Pattern>, FilterError> {
    texts.iter().map(|text| text.parse().map_err(|error| FilterError::regex(filter, text, &error))).collect()
}

/// The error for a text that selects no function and is not a regular expression.
pub fn unless_regex(filter: &FunctionFilter) -> Result<(), FilterError> {
    filter.error().map_or(Ok(()), |error| Err(FilterError::regex(FilterName::Function, filter.text(), error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_analyze::SelectionError;
    use whyslow_analyze::testing::profile;

    fn of_threads(name: &str) -> Filters {
        Filters { threads: vec![name.to_owned()], ..Filters::default() }
    }

    #[test]
    fn filters_resolve_to_a_selection_or_name_what_does_not_match() {
        let mut two = profile("main: f 3\nworker: g 4");
        let worker = of_threads("work").resolve(&mut two).unwrap();
        assert_eq!(worker.weigh(&two).total_count, 4);
        let error = of_threads("pool").resolve(&mut two).unwrap_err();
        assert!(matches!(error, FilterError::Selection(SelectionError::NoThread { .. })), "{error}");
        let nothing = Filters { function: Some("f".to_owned()), ..of_threads("worker") };
        let error = nothing.resolve(&mut two).unwrap_err();
        assert!(matches!(error, FilterError::Selection(SelectionError::NoSamples)), "{error}");
        assert!(nothing.resolve_names(&mut two).is_ok(), "each filter alone matches");
    }

    #[test]
    fn a_bad_regular_expression_is_an_error_with_its_filter() {
        let error = of_threads("a(").resolve(&mut profile("main: f 3")).unwrap_err();
        let FilterError::NoRegex { filter, text, reason } = error else { panic!("{error}") };
        assert_eq!((filter, text.as_str(), reason.as_str()), (FilterName::Thread, "a(", "unclosed group"));
    }

    #[test]
    fn narrowing_tells_threads_from_everything_else() {
        assert_eq!(Filters::default().narrowing(), Narrowing::None);
        assert_eq!(of_threads("main").narrowing(), Narrowing::Threads);
        let timed = Filters { time_ns: Some(0..5), ..of_threads("main") };
        assert_eq!(timed.narrowing(), Narrowing::Beyond);
        assert_eq!(Filters::of_metric(MetricChoice::named("cpu-time")).narrowing(), Narrowing::Beyond);
    }

    #[test]
    fn live_bytes_belong_to_an_instant() {
        let metric = MetricChoice { name: None, live_at_ns: Some(3) };
        let filters = Filters { time_ns: Some(0..5), ..Filters::of_metric(metric) };
        assert!(matches!(filters.selection(&mut profile("main: f 1")), Err(FilterError::LiveAtInARange)));
        let metric = MetricChoice { name: Some("cpu-time".to_owned()), live_at_ns: Some(3) };
        let error = metric.resolve(&mut profile("main: f 1"), 5).unwrap_err();
        assert!(matches!(error, FilterError::LiveAtOfAnotherMetric { metric } if metric == "cpu-time"));
    }
}
