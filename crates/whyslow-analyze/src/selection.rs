//! Selects samples, and weighs them per stack.

use std::ops::Range;
use std::str::FromStr;

use regex::Regex;
use whyslow_profile::heap::metric;
use whyslow_profile::{
    CodeKind, MetricId, Origin, Process, Profile, Samples, Span, StackId, Subject, Thread, ThreadId,
};

use crate::counting::sample_counts;
use crate::function_filter::FunctionFilter;
use crate::heap::LIVE;
use crate::labels::{self, Labels};
use crate::parallelism::Parallelism;
use crate::spans::{Inside, SpanPattern, SpanThreads};
use whyslow_words::duration;

/// Which samples count. The default is every sample of the first metric.
#[derive(Debug, Default, Clone)]
pub struct Selection {
    /// The metric.
    pub metric: MetricId,
    /// Only these threads; empty means all.
    pub threads: Vec<Pattern>,
    /// Only threads of these processes; empty means all.
    pub processes: Vec<Pattern>,
    /// Only samples in this range, in nanoseconds since the start of the recording.
    pub time_ns: Option<Range<u64>>,
    /// Only samples with a function on their stack whose name matches.
    pub function: Option<FunctionFilter>,
    /// Only samples whose innermost frame (inlined ones included) is of one of these kinds; empty means all.
    pub kinds: Vec<CodeKind>,
    /// Only samples inside one of these spans: at its time, and on its thread if it has one; empty means all.
    pub spans: Vec<SpanPattern>,
    /// Which threads' samples count as inside a span that belongs to a thread.
    pub span_threads: SpanThreads,
}

/// Selects a thread or a process by its number or its name.
#[derive(Debug, Clone)]
pub enum Pattern {
    /// The operating system's number.
    Number(u32),
    /// A regular expression that matches a part of the name.
    Name(Regex),
}

impl Pattern {
    /// Whether it selects the one with this number and name.
    pub fn matches(&self, number: u32, name: &str) -> bool {
        match self {
            Self::Number(wanted) => *wanted == number,
            Self::Name(regex) => regex.is_match(name),
        }
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(regex) => write!(f, "{regex}"),
        }
    }
}

impl FromStr for Pattern {
    type Err = regex::Error;

    /// Digits are a number, everything else is a regular expression over the name.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(number) => Ok(Self::Number(number)),
            Err(_) => Regex::new(text).map(Self::Name),
        }
    }
}

/// Why a selection has no samples in a profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// There is no such metric row.
    #[error("there is no metric number {}; the profile has {have}", .metric.0)]
    NoMetric {
        /// The requested row.
        metric: MetricId,
        /// How many metrics there are.
        have: usize,
    },
    /// No metric has this name.
    #[error("the profile has no metric '{name}', only {}", listed(.have))]
    UnknownMetric {
        /// The requested name.
        name: String,
        /// The names that exist.
        have: Vec<String>,
    },
    /// No thread has this number or name.
    #[error("no thread matches '{pattern}'; the threads are {}", listed(.have))]
    NoThread {
        /// The requested pattern.
        pattern: String,
        /// The names that exist.
        have: Vec<String>,
    },
    /// No process has this number or name.
    #[error("no process matches '{pattern}'; the processes are {}", listed(.have))]
    NoProcess {
        /// The requested pattern.
        pattern: String,
        /// The names that exist.
        have: Vec<String>,
    },
    /// No function name matches.
    #[error("no function matches '{pattern}'; `whyslow report FILE functions` lists them")]
    NoFunction {
        /// The requested pattern.
        pattern: String,
    },
    /// No span has this name.
    #[error("no span is called '{pattern}'; the spans are {}", listed(.have))]
    NoSpan {
        /// The requested pattern.
        pattern: String,
        /// The names that exist.
        have: Vec<String>,
    },
    /// The spans exist, but their threads did not run during them.
    #[error(
        "the span's own thread has no samples during the span, other threads have {others}; \
         add --span-threads all to include every thread"
    )]
    SpanWaits {
        /// Samples of other threads during the spans.
        others: u64,
    },
    /// The time range is empty, or begins after the end of the recording.
    #[error("the time range is outside the recording, which lasts {}", duration(*.end_ns))]
    NoTime {
        /// The end of the recording.
        end_ns: u64,
    },
    /// Each filter matches something, but no sample passes all of them.
    #[error("no samples match all filters; widen the time range or remove a filter")]
    NoSamples,
}

const LISTED: usize = 10;

fn listed(names: &[String]) -> String {
    let mut text = names.iter().take(LISTED).map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    if names.len() > LISTED {
        text.push_str(&format!(" and {} more", names.len() - LISTED));
    }
    if text.is_empty() { "not recorded".to_owned() } else { text }
}

/// The weight of the selected samples, per stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weights {
    /// The sum of the samples' values; indexed by stack.
    pub value: Vec<u64>,
    /// The number of rows; indexed by stack.
    pub count: Vec<u64>,
    /// The value of all selected samples.
    pub total_value: u64,
    /// The number of selected samples; rows of time without samples do not count.
    pub total_count: u64,
}

impl Weights {
    /// Divides all values by the number of runs they are the sum of.
    pub(crate) fn divide(&mut self, runs: u64) {
        if runs > 1 {
            self.value.iter_mut().for_each(|value| *value /= runs);
            self.total_value /= runs;
        }
    }

    /// Whether there are samples at or below each stack.
    pub(crate) fn used_stacks(&self, profile: &Profile) -> Vec<bool> {
        let mut used: Vec<bool> = self.count.iter().map(|count| *count > 0).collect();
        for stack in (0..profile.stacks.len()).rev() {
            if used[stack]
                && let Some(parent) = profile.stacks.parent(StackId::from(stack))
            {
                used[parent.index()] = true;
            }
        }
        used
    }

    /// Value and count of the samples at or below each stack.
    pub(crate) fn with_callees(&self, profile: &Profile) -> (Vec<u64>, Vec<u64>) {
        let (mut value, mut count) = (self.value.clone(), self.count.clone());
        for stack in (0..profile.stacks.len()).rev() {
            if let Some(parent) = profile.stacks.parent(StackId::from(stack)) {
                value[parent.index()] = value[parent.index()].saturating_add(value[stack]);
                count[parent.index()] = count[parent.index()].saturating_add(count[stack]);
            }
        }
        (value, count)
    }
}

impl Selection {
    /// The metric with this name.
    pub fn metric_named(profile: &Profile, name: &str) -> Result<MetricId, SelectionError> {
        profile.metric_named(name).ok_or_else(|| {
            let mut have =
                profile.metrics.iter().map(|row| profile.text(row.name).to_owned()).collect::<Vec<_>>();
            if profile.metric_named(metric::BYTES_ALLOCATED).is_some()
                && !have.iter().any(|name| name == LIVE)
            {
                have.push(LIVE.to_owned());
            }
            SelectionError::UnknownMetric { name: name.to_owned(), have }
        })
    }

    /// Whether every sample of the metric counts.
    pub fn is_everything(&self) -> bool {
        self.threads.is_empty()
            && self.processes.is_empty()
            && self.time_ns.is_none()
            && self.function.is_none()
            && self.kinds.is_empty()
            && self.spans.is_empty()
    }

    /// Adds up the selected samples per stack, in one pass over the samples.
    pub fn weigh(&self, profile: &Profile) -> Weights {
        let stacks = profile.stacks.len();
        let mut weights =
            Weights { value: vec![0; stacks], count: vec![0; stacks], total_value: 0, total_count: 0 };
        let stack_counts = self.stacks_that_count(profile);
        self.each_sample(profile, |_, stack, value| {
            let stack = stack.index();
            if stack_counts.as_ref().is_none_or(|counts| counts[stack]) {
                weights.value[stack] = weights.value[stack].saturating_add(value);
                weights.count[stack] += 1;
            }
        });
        weights.total_value = weights.value.iter().fold(0, |sum, value| sum.saturating_add(*value));
        if let Some(metric) = sample_counts(profile) {
            let mut counts = vec![0u64; stacks];
            Self { metric, ..self.clone() }.each_selected(profile, |_, stack, value| {
                counts[stack.index()] = counts[stack.index()].saturating_add(value);
            });
            // A stack with a value but no counted sample has at least one.
            weights.count.iter_mut().zip(counts).for_each(|(count, counted)| *count = counted.max(*count));
        }
        let counts = (0..).map(StackId).zip(&weights.count).filter(|(_, count)| **count > 0);
        let sampled = counts.filter(|(stack, _)| !profile.is_not_sampled(*stack));
        weights.total_count = sampled.fold(0, |sum, (_, count)| sum.saturating_add(*count));
        weights
    }

    /// Visits the samples that pass every filter, as thread row, stack and value.
    pub(crate) fn each_selected(&self, profile: &Profile, mut visit: impl FnMut(usize, StackId, u64)) {
        let stack_counts = self.stacks_that_count(profile);
        self.each_sample(profile, |thread, stack, value| {
            if stack_counts.as_ref().is_none_or(|counts| counts[stack.index()]) {
                visit(thread, stack, value);
            }
        });
    }

    /// Whether a thread, a time and a stack pass every filter.
    pub(crate) fn passing(&self, profile: &Profile) -> impl Fn(ThreadId, u64, StackId) -> bool + use<'_> {
        let rows = Rows::new(self, profile);
        let stack_counts = self.stacks_that_count(profile);
        move |thread, time, stack| {
            rows.value(thread, time, 0).is_some()
                && stack_counts.as_ref().is_none_or(|counts| counts[stack.index()])
        }
    }

    /// The samples that pass every filter, in order.
    pub fn samples(&self, profile: &Profile) -> Samples {
        let Some(samples) = profile.samples.get(self.metric.index()) else { return Samples::default() };
        if self.is_everything() {
            return samples.clone();
        }
        let rows = Rows::new(self, profile);
        let stack_counts = self.stacks_that_count(profile);
        let mut kept = Samples::default();
        for row in 0..samples.len() {
            let (time, thread, stack) = (samples.time_ns[row], samples.thread[row], samples.stack[row]);
            if let Some(value) = rows.value(thread, time, samples.value[row])
                && stack_counts.as_ref().is_none_or(|counts| counts[stack.index()])
            {
                kept.push(time, thread, stack, value);
            }
        }
        kept
    }

    /// Visits the samples that pass the filters by thread, process, time and span.
    fn each_sample(&self, profile: &Profile, mut visit: impl FnMut(usize, StackId, u64)) {
        let Some(samples) = profile.samples.get(self.metric.index()) else { return };
        let counted = Rows::new(self, profile);
        let rows = samples.time_ns.iter().zip(&samples.thread).zip(&samples.stack).zip(&samples.value);
        for (((time, thread), stack), value) in rows {
            if let Some(value) = counted.value(*thread, *time, *value) {
                visit(thread.index(), *stack, value);
            }
        }
    }

    pub(crate) fn thread_counts(&self, profile: &Profile, thread: &Thread) -> bool {
        let process = &profile.processes[thread.process.index()];
        (self.threads.is_empty()
            || self.threads.iter().any(|pattern| thread_matches(profile, pattern, thread)))
            && (self.processes.is_empty()
                || self.processes.iter().any(|pattern| process_matches(profile, pattern, process)))
    }

    /// Whether a span passes the filters by thread, process and time. Spans without a thread are on every
    /// thread.
    pub(crate) fn span_counts(&self, profile: &Profile, span: &Span) -> bool {
        let on_thread =
            span.thread.is_none_or(|id| self.thread_counts(profile, &profile.threads[id.index()]));
        on_thread
            && self
                .time_ns
                .as_ref()
                .is_none_or(|range| span.start_ns < range.end && span.end_ns >= range.start)
    }

    /// Which stacks pass the filters by function and kind; `None` if all do.
    fn stacks_that_count(&self, profile: &Profile) -> Option<Vec<bool>> {
        if self.function.is_none() && self.kinds.is_empty() {
            return None;
        }
        let labels = Labels::new(profile);
        let mut counts = vec![true; profile.stacks.len()];
        if let Some(filter) = &self.function {
            let matches = filter.selected(profile, (0..labels.len() as u32).map(|code| labels.label(code)));
            for stack in 0..counts.len() {
                let id = StackId::from(stack);
                let mut found = profile.stacks.parent(id).is_some_and(|parent| counts[parent.index()]);
                labels.outermost_first(profile, profile.stacks.location(id), true, |code, _| {
                    found |= matches[code as usize];
                });
                counts[stack] = found;
            }
        }
        if !self.kinds.is_empty() {
            for (stack, count) in counts.iter_mut().enumerate() {
                let leaf = labels.innermost(profile, profile.stacks.location(StackId::from(stack)), true);
                *count &= self.kinds.contains(&labels::kind(profile, labels.label(leaf)));
            }
        }
        Some(counts)
    }

    /// Returns an error if one of the filters matches nothing, or no sample of the metric passes all of them.
    pub fn check(&self, profile: &Profile) -> Result<(), SelectionError> {
        self.check_filters(profile)?;
        if self.is_everything() {
            return Ok(());
        }
        let weights = self.weigh(profile);
        if weights.total_count == 0 && weights.total_value == 0 {
            let others = Self { span_threads: SpanThreads::All, ..self.clone() }.weigh(profile).total_count;
            return Err(if others > 0 {
                SelectionError::SpanWaits { others }
            } else {
                SelectionError::NoSamples
            });
        }
        Ok(())
    }

    /// Returns an error if one of the filters matches nothing, whatever samples there are.
    pub fn check_filters(&self, profile: &Profile) -> Result<(), SelectionError> {
        let metric = self.metric.index();
        if metric >= profile.samples.len() && (metric > 0 || !self.is_everything()) {
            return Err(SelectionError::NoMetric { metric: self.metric, have: profile.samples.len() });
        }
        for pattern in &self.threads {
            if !profile.threads.iter().any(|thread| thread_matches(profile, pattern, thread)) {
                let have = distinct(profile.threads.iter().map(|thread| profile.text(thread.name)));
                return Err(SelectionError::NoThread { pattern: pattern.to_string(), have });
            }
        }
        for pattern in &self.processes {
            if !profile.processes.iter().any(|process| process_matches(profile, pattern, process)) {
                let have = distinct(profile.processes.iter().map(|process| profile.text(process.name)));
                return Err(SelectionError::NoProcess { pattern: pattern.to_string(), have });
            }
        }
        for pattern in &self.spans {
            let mut spans = profile.spans.iter().enumerate();
            if !spans.any(|(row, span)| pattern.matches(profile, row, span)) {
                let have = distinct(profile.spans.iter().map(|span| profile.text(span.name)));
                return Err(SelectionError::NoSpan { pattern: pattern.to_string(), have });
            }
        }
        if let Some(filter) = self.function.as_ref().filter(|filter| !filter.selects_any(profile)) {
            return Err(SelectionError::NoFunction { pattern: filter.text().to_owned() });
        }
        let end_ns = Parallelism::end_ns(profile);
        match &self.time_ns {
            Some(range) if range.is_empty() || range.start >= end_ns.max(1) => {
                Err(SelectionError::NoTime { end_ns })
            }
            _ => Ok(()),
        }
    }
}

/// Which samples pass the filters by thread, process, time and span.
struct Rows<'a> {
    /// Indexed by thread.
    threads: Vec<bool>,
    time_ns: Option<&'a Range<u64>>,
    inside: Option<Inside>,
    /// Whether a row is an interval that ends at its time; only the part inside the range counts.
    are_stretches: bool,
}

impl<'a> Rows<'a> {
    fn new(selection: &'a Selection, profile: &Profile) -> Self {
        let Selection { spans, time_ns, .. } = selection;
        let counts = |thread| selection.thread_counts(profile, thread);
        let wanted =
            |(row, span): &(usize, &Span)| spans.iter().any(|pattern| pattern.matches(profile, *row, span));
        let wanted_spans = || profile.spans.iter().enumerate().filter(wanted).map(|(_, span)| span);
        let inside = || Inside::new(wanted_spans(), selection.span_threads);
        Self {
            threads: profile.threads.iter().map(counts).collect(),
            time_ns: time_ns.as_ref(),
            inside: (!spans.is_empty()).then(inside),
            are_stretches: profile.metrics.get(selection.metric.index()).is_some_and(|metric| {
                match metric.of {
                    Subject::Wait => true,
                    // A sample is a point in time, also where its value is elapsed time.
                    Subject::Wall => !matches!(metric.origin, Origin::Sampled(_)),
                    _ => false,
                }
            }),
        }
    }

    /// The part of a row's value that counts.
    fn value(&self, thread: ThreadId, time: u64, value: u64) -> Option<u64> {
        let counts = self.threads[thread.index()]
            && self.inside.as_ref().is_none_or(|inside| inside.contains(thread, time));
        let value = match self.time_ns {
            None => Some(value),
            Some(range) if self.are_stretches => part_in(range, time, value),
            Some(range) => range.contains(&time).then_some(value),
        };
        value.filter(|_| counts)
    }
}

/// The part of an interval inside a range, if there is one. An interval without length is a point in time.
fn part_in(range: &Range<u64>, end: u64, length: u64) -> Option<u64> {
    if length == 0 {
        return range.contains(&end).then_some(0);
    }
    let part = end.min(range.end).saturating_sub(end.saturating_sub(length).max(range.start));
    (part > 0).then_some(part)
}

fn thread_matches(profile: &Profile, pattern: &Pattern, thread: &Thread) -> bool {
    pattern.matches(thread.tid, profile.text(thread.name))
}

fn process_matches(profile: &Profile, pattern: &Pattern, process: &Process) -> bool {
    pattern.matches(process.pid, profile.text(process.name))
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names = names.map(str::to_owned).collect::<Vec<_>>();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, SAMPLE_NS};

    const FOLDED: &str = "
        main;app::parse;+std::next 4
        main;app::parse 2
        worker-1: app::work;malloc 8
        worker-2: app::work;[libz.so] 1
        worker-2: [truncated];sys_read 16";

    fn selected(selection: &Selection) -> u64 {
        let profile = testing::profile(FOLDED);
        let weights = selection.weigh(&profile);
        assert_eq!(weights.total_value, weights.total_count * SAMPLE_NS);
        assert_eq!(selection.samples(&profile).len() as u64, weights.total_count);
        weights.total_count
    }

    fn pattern(text: &str) -> Vec<Pattern> {
        vec![text.parse().unwrap()]
    }

    fn all() -> Selection {
        Selection::default()
    }

    #[test]
    fn only_the_part_of_a_wait_inside_the_range_counts() {
        let range = 100..200;
        let cases = [(150, 20, Some(20)), (110, 50, Some(10)), (300, 250, Some(100)), (300, 150, Some(50))];
        for (end, length, part) in cases {
            assert_eq!(part_in(&range, end, length), part, "until {end} for {length}");
        }
        for (end, length) in [(100, 50), (300, 100), (250, 0)] {
            assert_eq!(part_in(&range, end, length), None, "until {end} for {length}");
        }
        let mut profile = testing::profile("main;std::thread::sleep 1");
        profile.metrics[0].of = Subject::Wait;
        profile.samples[0].time_ns[0] = 10 * SAMPLE_NS;
        profile.samples[0].value[0] = 8 * SAMPLE_NS;
        let inside = Selection { time_ns: Some(4 * SAMPLE_NS..6 * SAMPLE_NS), ..all() };
        assert_eq!(inside.weigh(&profile).total_value, 2 * SAMPLE_NS);
        assert_eq!(inside.samples(&profile).value, [2 * SAMPLE_NS]);
    }

    #[test]
    fn each_filter_keeps_its_samples() {
        assert_eq!(selected(&all()), 31);
        assert_eq!(selected(&Selection { threads: pattern("worker"), ..all() }), 25);
        assert_eq!(selected(&Selection { threads: pattern("^worker-2$"), ..all() }), 17);
        assert_eq!(selected(&Selection { threads: pattern("101"), ..all() }), 8);
        assert_eq!(selected(&Selection { processes: pattern("100"), ..all() }), 31);
        assert_eq!(selected(&Selection { processes: pattern("nobody"), ..all() }), 0);
        assert_eq!(selected(&Selection { time_ns: Some(4 * SAMPLE_NS..6 * SAMPLE_NS), ..all() }), 2);
        assert_eq!(selected(&Selection { metric: MetricId(7), ..all() }), 0);
    }

    #[test]
    fn function_filter_matches_anywhere_on_the_stack() {
        let function = |regex| Selection { function: Some(FunctionFilter::new(regex)), ..all() };
        assert_eq!(selected(&function("app::parse")), 6);
        assert_eq!(selected(&function("^std::")), 4);
        assert_eq!(selected(&function("work|main")), 15);
        assert_eq!(selected(&function("libz")), 1);
        assert_eq!(selected(&function("truncated")), 16);
    }

    #[test]
    fn kind_filter_matches_the_innermost_frame() {
        let kinds = |kinds: &[CodeKind]| Selection { kinds: kinds.to_vec(), ..all() };
        assert_eq!(selected(&kinds(&[CodeKind::Yours])), 2);
        assert_eq!(selected(&kinds(&[CodeKind::Std])), 4);
        assert_eq!(selected(&kinds(&[CodeKind::Allocator, CodeKind::Kernel])), 24);
        assert_eq!(selected(&kinds(&[CodeKind::Unknown])), 1);
    }

    #[test]
    fn filters_combine() {
        let selection = Selection {
            threads: pattern("worker"),
            function: Some(FunctionFilter::new("work")),
            kinds: vec![CodeKind::Allocator],
            ..all()
        };
        assert_eq!(selected(&selection), 8);
    }

    #[test]
    fn filter_that_matches_nothing_lists_the_alternatives() {
        let profile = testing::profile(FOLDED);
        let why = |selection: &Selection| selection.check(&profile).unwrap_err().to_string();
        assert_eq!(
            why(&Selection { threads: pattern("nobody"), ..all() }),
            "no thread matches 'nobody'; the threads are 'main', 'worker-1', 'worker-2'"
        );
        assert_eq!(
            why(&Selection { processes: pattern("1"), ..all() }),
            "no process matches '1'; the processes are 'app'"
        );
        assert!(why(&Selection { function: Some(FunctionFilter::new("qqq")), ..all() }).contains("'qqq'"));
        assert!(
            why(&Selection { time_ns: Some(0..0), ..all() })
                .contains("the time range is outside the recording")
        );
        let late = Selection { time_ns: Some(1 << 60..u64::MAX), ..all() };
        assert!(why(&late).contains("the time range is outside the recording"));
        let none = Selection { threads: pattern("main"), kinds: vec![CodeKind::Kernel], ..all() };
        assert!(why(&none).contains("no samples match all filters"));
        assert_eq!(none.check_filters(&profile), Ok(()), "each filter matches something");
        assert!(why(&Selection { metric: MetricId(3), ..all() }).contains("metric number 3"));
        assert_eq!(all().check(&profile), Ok(()));
        assert_eq!(all().check(&Profile::default()), Ok(()));
    }

    #[test]
    fn a_metric_is_found_by_its_name() {
        let profile = testing::heap_profile("main;a : allocations=1 bytes_allocated=8");
        assert_eq!(Selection::metric_named(&profile, "allocations"), Ok(MetricId(1)));
        let why = Selection::metric_named(&profile, "cpu-time").unwrap_err().to_string();
        assert_eq!(
            why,
            "the profile has no metric 'cpu-time', only 'bytes-allocated', 'allocations', 'bytes-freed', \
             'live-at-peak', 'live-at-exit', 'temporary-allocations', 'unused-bytes', 'live'"
        );
        let why = Selection::metric_named(&testing::profile("main 1"), "live").unwrap_err().to_string();
        assert_eq!(why, "the profile has no metric 'live', only 'cpu-time'");
    }

    #[test]
    fn a_bad_regular_expression_is_an_error() {
        assert!("work(".parse::<Pattern>().is_err());
    }

    /// Time without samples has its share, but does not make any error smaller.
    #[test]
    fn time_without_samples_has_weight_but_no_count() {
        let profile = testing::profile("main;a 60\nshort: [not sampled] 40");
        let weights = Selection::default().weigh(&profile);
        assert_eq!((weights.total_value, weights.total_count), (100 * testing::SAMPLE_NS, 60));
        let table =
            crate::FunctionTable::build(&profile, &Selection::default(), true, crate::SortBy::SelfValue);
        let row = table.rows.iter().find(|row| labels::name(&profile, row.label) == "[not sampled]").unwrap();
        assert_eq!((row.self_value, row.self_samples), (40 * testing::SAMPLE_NS, 0));
        assert_eq!(labels::kind(&profile, row.label), CodeKind::Unknown);
        assert_eq!(table.total_samples, 60);
        let threads = crate::Threads::build(&profile, &Selection::default());
        let short = threads.rows.iter().find(|row| row.samples == 0).unwrap();
        assert_eq!(short.value, 40 * testing::SAMPLE_NS);
        assert_eq!(crate::Overview::of(&profile).samples, 60);
        let only_short = Selection { threads: vec!["short".parse().unwrap()], ..Selection::default() };
        assert_eq!(only_short.check(&profile), Ok(()), "it has time");
    }
}
