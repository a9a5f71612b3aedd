//! Spans that a program marks: which samples are inside them, and a table by name.

use std::cmp::Reverse;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use rustc_hash::FxHashMap;
use whyslow_profile::{Profile, Span, ThreadId};

use crate::selection::Selection;

/// Selects spans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpanPattern {
    /// One row of `Profile::spans`.
    Row(usize),
    /// Every span with exactly this name.
    Name(String),
}

impl SpanPattern {
    pub(crate) fn matches(&self, profile: &Profile, row: usize, span: &Span) -> bool {
        match self {
            Self::Row(wanted) => *wanted == row,
            Self::Name(name) => profile.text(span.name) == name,
        }
    }
}

impl fmt::Display for SpanPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Row(row) => write!(f, "#{row}"),
            Self::Name(name) => write!(f, "{name}"),
        }
    }
}

impl FromStr for SpanPattern {
    type Err = Infallible;

    /// `#` and digits are a row, everything else is a name.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let row = text.strip_prefix('#').and_then(|digits| digits.parse().ok());
        Ok(row.map_or_else(|| Self::Name(text.to_owned()), Self::Row))
    }
}

/// Which threads' samples count as inside a span that belongs to a thread.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum SpanThreads {
    /// Those of the span's own thread.
    #[default]
    Own,
    /// Those of every thread during the span: for example a pool that works while the span's thread waits for
    /// it.
    All,
}

/// Half-open time ranges, sorted and disjoint.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Times(Vec<(u64, u64)>);

impl Times {
    /// The union of some ranges.
    fn union(mut times: Vec<(u64, u64)>) -> Self {
        times.retain(|(start, end)| start < end);
        times.sort_unstable();
        let mut union: Vec<(u64, u64)> = Vec::new();
        for (start, end) in times {
            match union.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => union.push((start, end)),
            }
        }
        Self(union)
    }

    fn contains(&self, time: u64) -> bool {
        let after = self.0.partition_point(|(start, _)| *start <= time);
        after > 0 && time < self.0[after - 1].1
    }

    /// The ranges without those of `others`.
    fn without(&self, others: &Self) -> Self {
        let mut rest = Vec::new();
        let mut first = 0;
        for &(mut start, end) in &self.0 {
            while others.0.get(first).is_some_and(|other| other.1 <= start) {
                first += 1;
            }
            for other in others.0[first..].iter().take_while(|other| other.0 < end) {
                if start < other.0 {
                    rest.push((start, other.0));
                }
                start = start.max(other.1);
            }
            if start < end {
                rest.push((start, end));
            }
        }
        Self(rest)
    }
}

/// When each thread was inside any of some spans.
#[derive(Debug, Default)]
pub(crate) struct Inside {
    /// Spans without a thread apply to all threads.
    everywhere: Times,
    /// Indexed by thread.
    threads: FxHashMap<ThreadId, Times>,
}

impl Inside {
    pub(crate) fn new<'a>(spans: impl Iterator<Item = &'a Span>, whose: SpanThreads) -> Self {
        let mut everywhere = Vec::new();
        let mut threads: FxHashMap<ThreadId, Vec<(u64, u64)>> = FxHashMap::default();
        for span in spans {
            match span.thread {
                Some(thread) if whose == SpanThreads::Own => threads.entry(thread).or_default(),
                _ => &mut everywhere,
            }
            .push((span.start_ns, span.end_ns));
        }
        let threads = threads.into_iter().map(|(thread, times)| (thread, Times::union(times))).collect();
        Self { everywhere: Times::union(everywhere), threads }
    }

    pub(crate) fn contains(&self, thread: ThreadId, time: u64) -> bool {
        self.everywhere.contains(time) || self.threads.get(&thread).is_some_and(|times| times.contains(time))
    }
}

/// The spans of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanRow {
    /// Their name.
    pub name: String,
    /// How many there are.
    pub count: u64,
    /// The sum of their durations in nanoseconds; nested ones all count.
    pub total_ns: u64,
    /// The median duration.
    pub p50_ns: u64,
    /// The 95th percentile.
    pub p95_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// The row of the longest in `Profile::spans`.
    pub longest: usize,
    /// Value of the selected samples inside them, each counted once.
    pub value: u64,
    /// The number of those samples.
    pub samples: u64,
}

impl SpanRow {
    /// The mean duration in nanoseconds.
    pub fn mean_ns(&self) -> u64 {
        self.total_ns / self.count.max(1)
    }
}

/// The spans by name, longest total first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanTable {
    /// One row per name.
    pub rows: Vec<SpanRow>,
    /// Value of all selected samples.
    pub total_value: u64,
    /// How many samples were selected.
    pub total_samples: u64,
}

/// The selected samples in time order, with prefix sums.
struct Sums {
    times: Vec<u64>,
    /// Value and count of the samples before each; one entry more than times.
    before: Vec<(u64, u64)>,
}

impl Sums {
    fn new(mut samples: Vec<(u64, u64)>) -> Self {
        samples.sort_unstable();
        let mut sum = (0u64, 0);
        let mut before = vec![sum];
        for (_, value) in &samples {
            sum = (sum.0.saturating_add(*value), sum.1 + 1);
            before.push(sum);
        }
        Self { times: samples.into_iter().map(|(time, _)| time).collect(), before }
    }

    fn within(&self, times: &Times) -> (u64, u64) {
        let at = |time: u64| self.before[self.times.partition_point(|sample| *sample < time)];
        times.0.iter().fold((0, 0), |sum, (start, end)| {
            let (before, after) = (at(*start), at(*end));
            (sum.0 + (after.0 - before.0), sum.1 + (after.1 - before.1))
        })
    }
}

impl SpanTable {
    /// Adds up the spans of each name that pass the filters by thread, process and time, and the selected
    /// samples inside them.
    pub fn build(profile: &Profile, selection: &Selection) -> Self {
        let samples = selection.samples(profile);
        let mut by_thread = vec![Vec::new(); profile.threads.len()];
        for ((time, thread), value) in samples.time_ns.iter().zip(&samples.thread).zip(&samples.value) {
            by_thread[thread.index()].push((*time, *value));
        }
        let everywhere = Sums::new(by_thread.concat());
        let by_thread = by_thread.into_iter().map(Sums::new).collect::<Vec<_>>();

        let mut names: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
        for (row, span) in profile.spans.iter().enumerate() {
            if selection.span_counts(profile, span) {
                names.entry(profile.text(span.name)).or_default().push(row);
            }
        }
        let mut rows = names
            .into_iter()
            .map(|(name, spans)| {
                let inside =
                    Inside::new(spans.iter().map(|row| &profile.spans[*row]), selection.span_threads);
                let mut used = everywhere.within(&inside.everywhere);
                for (thread, times) in &inside.threads {
                    let Some(sums) = by_thread.get(thread.index()) else { continue };
                    let (value, samples) = sums.within(&times.without(&inside.everywhere));
                    used = (used.0 + value, used.1 + samples);
                }
                row(profile, name, &spans, used)
            })
            .collect::<Vec<_>>();
        rows.sort_by(|a, b| (Reverse(a.total_ns), &a.name).cmp(&(Reverse(b.total_ns), &b.name)));
        let (total_value, total_samples) = everywhere.before.last().copied().unwrap_or_default();
        Self { rows, total_value, total_samples }
    }
}

fn row(profile: &Profile, name: &str, spans: &[usize], (value, samples): (u64, u64)) -> SpanRow {
    let duration = |row: usize| profile.spans[row].end_ns.saturating_sub(profile.spans[row].start_ns);
    let mut durations = spans.iter().map(|row| duration(*row)).collect::<Vec<_>>();
    durations.sort_unstable();
    // Nearest rank: the smallest duration that this share of all does not exceed.
    let percentile = |percent: usize| {
        let rank = (durations.len() * percent).div_ceil(100).max(1);
        durations.get(rank - 1).copied().unwrap_or(0)
    };
    SpanRow {
        name: name.to_owned(),
        count: spans.len() as u64,
        total_ns: durations.iter().fold(0, |sum, duration| sum.saturating_add(*duration)),
        p50_ns: percentile(50),
        p95_ns: percentile(95),
        max_ns: percentile(100),
        longest: spans.iter().copied().max_by_key(|row| (duration(*row), Reverse(*row))).unwrap_or(0),
        value,
        samples,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::SelectionError;
    use crate::testing::{self, SAMPLE_NS};

    const MS: u64 = SAMPLE_NS;

    /// 10 samples on `main` at 0 to 9 ms, then 10 on `worker` at 10 to 19 ms.
    fn profile(spans: &[(&str, Option<u32>, u64, u64)]) -> Profile {
        let mut profile = testing::profile("main;a 10\nworker: main;b 10");
        for (name, thread, start, end) in spans {
            let name = profile.strings.push(name);
            profile.spans.push(Span {
                name,
                thread: thread.map(ThreadId),
                start_ns: start * MS,
                end_ns: end * MS,
                detail: None,
            });
        }
        profile
    }

    fn inside(profile: &Profile, pattern: &str) -> u64 {
        let spans = vec![pattern.parse().unwrap()];
        Selection { spans, ..Selection::default() }.weigh(profile).total_count
    }

    #[test]
    fn times_can_be_joined_and_subtracted() {
        let union = Times::union(vec![(5, 9), (1, 3), (3, 4), (6, 7), (20, 20), (30, 10)]);
        assert_eq!(union.0, [(1, 4), (5, 9)]);
        let holds = (0..11).filter(|time| union.contains(*time)).collect::<Vec<_>>();
        assert_eq!(holds, [1, 2, 3, 5, 6, 7, 8]);
        let rest = |others: &[(u64, u64)]| union.without(&Times::union(others.to_vec())).0;
        assert_eq!(rest(&[]), [(1, 4), (5, 9)]);
        assert_eq!(rest(&[(2, 6), (8, 20)]), [(1, 2), (6, 8)]);
        assert_eq!(rest(&[(0, 100)]), []);
        assert_eq!(rest(&[(2, 3), (6, 7)]), [(1, 2), (3, 4), (5, 6), (7, 9)]);
    }

    #[test]
    fn a_span_has_the_samples_of_its_thread_and_time() {
        let profile = profile(&[
            ("load", Some(0), 2, 5),
            ("load", Some(0), 4, 6),
            ("load", Some(1), 0, 12),
            ("all", None, 8, 13),
            ("moment", Some(0), 3, 3),
        ]);
        assert_eq!(inside(&profile, "load"), 4 + 2);
        assert_eq!(inside(&profile, "#0"), 3);
        assert_eq!(inside(&profile, "#3"), 5, "without a thread: any thread");
        assert_eq!(inside(&profile, "moment"), 0);
        assert_eq!(inside(&profile, "loa"), 0, "a name is the whole name");
        let several = vec!["load".parse().unwrap(), "all".parse().unwrap()];
        let selection = Selection { spans: several, ..Selection::default() };
        assert_eq!(selection.weigh(&profile).total_count, 6 + 5 - 2);
        assert_eq!(selection.samples(&profile).len(), 9);
    }

    #[test]
    fn all_threads_count_while_a_span_lasts() {
        // `main` waits from 10 ms on, while `worker` works.
        let profile = profile(&[("wait", Some(0), 10, 15), ("both", Some(0), 8, 12), ("both", None, 11, 13)]);
        let count = |pattern: &str, span_threads| {
            let spans = vec![pattern.parse().unwrap()];
            Selection { spans, span_threads, ..Selection::default() }.weigh(&profile).total_count
        };
        assert_eq!(count("wait", SpanThreads::Own), 0);
        assert_eq!(count("wait", SpanThreads::All), 5);
        assert_eq!(count("both", SpanThreads::Own), 2 + 2);
        assert_eq!(count("both", SpanThreads::All), 5);
        let table =
            SpanTable::build(&profile, &Selection { span_threads: SpanThreads::All, ..Selection::default() });
        assert_eq!(table.rows.iter().find(|row| row.name == "wait").map(|row| row.samples), Some(5));
    }

    #[test]
    fn span_of_a_waiting_thread_suggests_the_option() {
        let profile = profile(&[("wait", Some(0), 10, 15), ("later", Some(0), 30, 40)]);
        let why = |name: &str| {
            let selection = Selection { spans: vec![name.parse().unwrap()], ..Selection::default() };
            selection.check(&profile).unwrap_err()
        };
        assert_eq!(why("wait"), SelectionError::SpanWaits { others: 5 });
        assert_eq!(
            why("wait").to_string(),
            "the span's own thread has no samples during the span, other threads have 5; \
             add --span-threads all to include every thread"
        );
        assert_eq!(why("later"), SelectionError::NoSamples);
    }

    #[test]
    fn the_table_adds_up_by_name() {
        let profile = profile(&[
            ("load", Some(0), 0, 2),
            ("load", None, 1, 4),
            ("load", Some(1), 10, 11),
            ("tick", Some(0), 3, 3),
        ]);
        let table = SpanTable::build(&profile, &Selection::default());
        assert_eq!((table.total_samples, table.total_value), (20, 20 * MS));
        let [load, tick] = &table.rows[..] else { panic!("{table:?}") };
        assert_eq!((load.name.as_str(), load.count, load.samples), ("load", 3, 5));
        assert_eq!((load.total_ns, load.mean_ns(), load.value), (6 * MS, 2 * MS, 5 * MS));
        assert_eq!((load.p50_ns, load.p95_ns, load.max_ns, load.longest), (2 * MS, 3 * MS, 3 * MS, 1));
        assert_eq!((tick.name.as_str(), tick.count, tick.total_ns, tick.samples), ("tick", 1, 0, 0));
    }

    #[test]
    fn the_table_follows_the_filters() {
        let profile = profile(&[("a", Some(0), 0, 5), ("b", Some(0), 2, 3), ("c", Some(1), 12, 14)]);
        let names = |selection: &Selection| {
            let table = SpanTable::build(&profile, selection);
            table.rows.into_iter().map(|row| (row.name, row.samples)).collect::<Vec<_>>()
        };
        let row = |name: &str, samples| (name.to_owned(), samples);
        let on_worker = Selection { threads: vec!["worker".parse().unwrap()], ..Selection::default() };
        assert_eq!(names(&on_worker), [row("c", 2)]);
        let early = Selection { time_ns: Some(0..2 * MS), ..Selection::default() };
        assert_eq!(names(&early), [row("a", 2)]);
        let inside_b = Selection { spans: vec!["b".parse().unwrap()], ..Selection::default() };
        assert_eq!(names(&inside_b), [row("a", 1), row("c", 0), row("b", 1)]);
    }

    #[test]
    fn filter_without_matching_spans_lists_the_spans() {
        let profile = profile(&[("load", None, 0, 1), ("parse", None, 0, 1), ("load", None, 1, 2)]);
        let why = |pattern: &str, profile: &Profile| {
            let selection = Selection { spans: vec![pattern.parse().unwrap()], ..Selection::default() };
            selection.check(profile).unwrap_err().to_string()
        };
        assert_eq!(why("save", &profile), "no span is called 'save'; the spans are 'load', 'parse'");
        assert!(why("#7", &profile).contains("'#7'"));
        let none = self::profile(&[]);
        assert!(why("save", &none).contains("not recorded"), "{}", why("save", &none));
    }
}
