//! Judges the rounds: comparisons, verdicts and notes.

use whyslow_profile::ExitStatus;
use whyslow_stats::groups::{BETWEEN_DAYS, shift};
use whyslow_stats::hygiene::{drift, grain, modes, outliers, slot_effect};
use whyslow_stats::interim::UntilDecided;
use whyslow_stats::pairs::{ALPHA, Interval, Walsh, log_ratios, tail_count};
use whyslow_stats::verdict::{Needed, Verdict, detectable, needed, shared_alpha};
use whyslow_stats::witness::{Reason, Witness};
use whyslow_stats::{mean, median, variance};

use crate::contender::Contender;
use crate::note::BenchNote;
use crate::rounds::{Ended, Series, paired_values, values};
use crate::run::{Metric, Run};

/// With fewer pairs there is no 95 % confidence interval.
pub const MIN_PAIRS: usize = 6;

/// The options of a judgement.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// The commands, in the order of the runs.
    pub contenders: &'a [Contender],
    /// The command that the others are compared with.
    pub reference: usize,
    /// A difference below this share does not matter.
    pub margin: f64,
    /// Exact numbers of each command from separate runs, by name.
    pub exact: &'a [Vec<(String, f64)>],
    /// Whether both commands are the same, to measure the noise of this machine.
    pub itself: bool,
}

/// The comparison of two commands by one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The index of the baseline command.
    pub baseline: usize,
    /// The index of the other command.
    pub candidate: usize,
    /// The metric.
    pub metric: Metric,
    /// Candidate over baseline, with its interval; `None` if one of them is 0.
    pub ratio: Option<Interval>,
    /// The confidence of the interval.
    pub confidence: f64,
    /// How many pairs it is based on.
    pub pairs: usize,
    /// The verdict.
    pub verdict: Verdict,
    /// Whether this metric decides; the others are shown for information.
    pub decides: bool,
    /// How many pairs a decision would take, if undecided.
    pub needed: Option<Needed>,
    /// The logarithms of the ratios of all pairs.
    pub differences: Vec<f64>,
}

impl Comparison {
    /// The word for the verdict. Only times are faster or slower.
    pub fn word(&self) -> &'static str {
        let is_whole_time = matches!(self.metric, Metric::Wall | Metric::Cpu);
        match (self.verdict, is_whole_time) {
            (Verdict::Less, true) => "faster",
            (Verdict::More, true) => "slower",
            (Verdict::Less, false) => "less",
            (Verdict::More, false) => "more",
            (Verdict::Equivalent, _) => "equivalent",
            (Verdict::Undecided, _) => "undecided",
        }
    }
}

/// The statistics of a command for one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The metric.
    pub metric: Metric,
    /// The median.
    pub median: f64,
    /// The mean.
    pub mean: f64,
    /// The standard deviation; 0 for one run.
    pub deviation: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

/// The results of all commands.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The time that decides, and why; `None` without a complete round.
    pub witness: Option<(Witness, Reason)>,
    /// The statistics of each command.
    pub summaries: Vec<Vec<Summary>>,
    /// Each command against the reference; the metric that decides comes first.
    pub comparisons: Vec<Comparison>,
    /// The command that is faster than all others, if there is one.
    pub fastest: Option<usize>,
    /// For numbers of pairs, the difference that they find on this machine in four of five cases, as a share.
    pub detectable: Vec<(usize, f64)>,
    /// The notes.
    pub notes: Vec<BenchNote>,
}

/// Judges a series.
pub fn judge(series: &Series, options: Options<'_>) -> Answer {
    let mut notes = Vec::new();
    let decides = series.witness.map(|(witness, _)| Metric::from(witness));
    let metrics = metrics(&series.rounds, decides.as_ref());
    let summaries =
        (0..options.contenders.len()).map(|command| summaries(series, options, command, &metrics)).collect();
    let is_judged = judge_exits(series, options, &mut notes);
    let others = (0..options.contenders.len()).filter(|command| *command != options.reference);
    let mut comparisons = Vec::new();
    for candidate in others {
        for metric in &metrics {
            let decides = decides.as_ref() == Some(metric);
            let mut comparison = compare(series, options, candidate, metric, decides, &mut notes);
            if !is_judged {
                comparison.verdict = Verdict::Undecided;
                comparison.needed = None;
            }
            comparisons.push(comparison);
        }
        comparisons.extend(exact(options, candidate));
    }
    note_odd_runs(series, options, decides.as_ref(), &mut notes);
    note_whole_series(series, options, &comparisons, &mut notes);
    let differences =
        comparisons.iter().find(|comparison| comparison.decides).map(|comparison| &comparison.differences);
    let detectable = differences.filter(|_| options.itself).map_or(Vec::new(), |differences| {
        [10, 20, 40, 80]
            .into_iter()
            .filter_map(|pairs| Some((pairs, detectable(differences, pairs)?)))
            .collect()
    });
    Answer {
        witness: series.witness,
        summaries,
        fastest: decides
            .filter(|_| is_judged)
            .and_then(|metric| fastest(series, options, &metric, &comparisons)),
        comparisons,
        detectable,
        notes,
    }
}

/// The metrics of the runs; the one that decides comes first.
fn metrics(rounds: &[Vec<Run>], decides: Option<&Metric>) -> Vec<Metric> {
    let events = rounds.first().and_then(|round| round.first()).map(|run| run.counts.keys());
    let events = events.into_iter().flatten().map(|name| Metric::Event(name.clone()));
    let mut all = Metric::USUAL.into_iter().chain(events).collect::<Vec<_>>();
    all.sort_by_key(|metric| decides != Some(metric));
    all
}

fn summaries(series: &Series, options: Options<'_>, command: usize, metrics: &[Metric]) -> Vec<Summary> {
    let of_runs =
        metrics.iter().filter_map(|metric| Some((metric.clone(), values(&series.rounds, command, metric)?)));
    let exact = options.exact.get(command).into_iter().flatten();
    let exact = exact.map(|(name, value)| (Metric::Event(name.clone()), vec![*value]));
    of_runs.chain(exact).filter_map(|(metric, values)| summary(metric, &values)).collect()
}

/// The statistics of some values; `None` without values.
pub fn summary(metric: Metric, values: &[f64]) -> Option<Summary> {
    Some(Summary {
        metric,
        median: median(values),
        mean: mean(values),
        deviation: variance(values).unwrap_or(0.0).sqrt(),
        min: values.iter().copied().reduce(f64::min)?,
        max: values.iter().copied().reduce(f64::max)?,
    })
}

fn compare(
    series: &Series,
    options: Options<'_>,
    candidate: usize,
    metric: &Metric,
    decides: bool,
    notes: &mut Vec<BenchNote>,
) -> Comparison {
    let interim = series.interim(candidate);
    let level = interim.map_or_else(|| shared_alpha(options.contenders.len() - 1), UntilDecided::level);
    let (first, second) =
        paired_values(&series.rounds, [options.reference, candidate], metric).unwrap_or_default();
    let mut differences = log_ratios(&first, &second).unwrap_or_default();
    let nothing = first.iter().chain(&second).all(|value| *value == 0.0) && !first.is_empty();
    let mut comparison = Comparison {
        baseline: options.reference,
        candidate,
        metric: metric.clone(),
        ratio: None,
        confidence: 1.0 - level,
        pairs: differences.len(),
        verdict: if nothing { Verdict::Equivalent } else { Verdict::Undecided },
        decides,
        needed: None,
        differences: Vec::new(),
    };
    if differences.len() < least_pairs(level) {
        comparison.ratio = (!differences.is_empty()).then(|| {
            let estimate = Walsh::new(&differences).estimate().exp();
            Interval { estimate, low: 0.0, high: f64::INFINITY }
        });
        comparison.differences = differences;
        return comparison;
    }
    if decides
        && interim.is_none()
        && options.contenders.len() == 2
        && let Some(effect) = slot_effect(&differences, &is_first(series, options.reference, candidate))
    {
        notes.push(BenchNote::OrderMatters { effect });
        for (difference, first) in differences.iter_mut().zip(is_first(series, options.reference, candidate))
        {
            *difference -= if first { effect } else { -effect };
        }
    }
    let clock = grain(metric.tick(), median(&second).min(median(&first)), options.margin);
    let at_once =
        || Walsh::new(&differences).interval(level).map(|interval| interval.widened(clock.widening));
    let checked = interim.filter(|_| decides);
    // The interval that decided is the one to show.
    if let Some(interval) = checked.and_then(|interim| interim.interval(&differences)).or_else(at_once) {
        comparison.ratio = Some(interval.exp());
        let verdict = Verdict::of(interval, options.margin);
        let verdict = checked.map_or(verdict, UntilDecided::verdict);
        let is_too_coarse = verdict == Verdict::Equivalent && !clock.can_be_equivalent;
        comparison.verdict = if is_too_coarse { Verdict::Undecided } else { verdict };
        if is_too_coarse && decides {
            notes.push(BenchNote::CoarseClock);
        }
    }
    if comparison.verdict == Verdict::Undecided && decides {
        comparison.needed = needed(&differences, options.margin, interim.is_some());
    }
    comparison.differences = differences;
    comparison
}

/// The fewest pairs that have an interval of this level.
fn least_pairs(level: f64) -> usize {
    (MIN_PAIRS..).find(|pairs| tail_count(*pairs, level) > 0).unwrap_or(MIN_PAIRS)
}

/// For each round, whether the reference ran before the candidate.
fn is_first(series: &Series, reference: usize, candidate: usize) -> Vec<bool> {
    series.rounds.iter().map(|round| round[reference].place < round[candidate].place).collect()
}

/// Compares with runs of another time. They are not paired: the interval is wider by the day-to-day
/// allowance, and nothing is equivalent. The allowance covers a quiet machine only: unless it is known that
/// the machine was `quiet` both times, there is no verdict.
pub fn compare_days(
    before: &[f64],
    after: &[f64],
    metric: &Metric,
    [baseline, candidate]: [usize; 2],
    quiet: bool,
) -> Comparison {
    let interval = between_days(before, after, ALPHA);
    let verdict =
        interval.filter(|_| quiet).map_or(Verdict::Undecided, |interval| Verdict::of(interval, 0.0));
    Comparison {
        baseline,
        candidate,
        metric: metric.clone(),
        ratio: interval.map(Interval::exp),
        confidence: 1.0 - ALPHA,
        pairs: 0,
        verdict,
        decides: true,
        needed: None,
        differences: Vec::new(),
    }
}

/// The interval of the logarithm of the ratio between values of different days; `None` with too few values.
pub(crate) fn between_days(before: &[f64], after: &[f64], alpha: f64) -> Option<Interval> {
    let logarithms = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<_>>();
    shift(&logarithms(before), &logarithms(after), alpha).map(|interval| interval.widened(BETWEEN_DAYS))
}

/// Compares exact numbers, which need no interval.
fn exact(options: Options<'_>, candidate: usize) -> Vec<Comparison> {
    let (Some(first), Some(second)) = (options.exact.get(options.reference), options.exact.get(candidate))
    else {
        return Vec::new();
    };
    let row = |(name, value): &(String, f64)| {
        let (_, before) = first.iter().find(|(other, _)| other == name)?;
        let ratio = value / before;
        let verdict = match value.total_cmp(before) {
            std::cmp::Ordering::Less => Verdict::Less,
            std::cmp::Ordering::Greater => Verdict::More,
            std::cmp::Ordering::Equal => Verdict::Equivalent,
        };
        Some(Comparison {
            baseline: options.reference,
            candidate,
            metric: Metric::Event(name.clone()),
            ratio: ratio.is_finite().then_some(Interval { estimate: ratio, low: ratio, high: ratio }),
            confidence: 1.0,
            pairs: 1,
            verdict,
            decides: false,
            needed: None,
            differences: Vec::new(),
        })
    };
    second.iter().filter_map(row).collect()
}

/// The command that beats all others, if there is one.
fn fastest(
    series: &Series,
    options: Options<'_>,
    metric: &Metric,
    comparisons: &[Comparison],
) -> Option<usize> {
    let commands = 0..options.contenders.len();
    let all = commands
        .clone()
        .map(|command| values(&series.rounds, command, metric))
        .collect::<Option<Vec<_>>>()?;
    let leader = commands.clone().min_by(|one, other| median(&all[*one]).total_cmp(&median(&all[*other])))?;
    let level = comparisons.first().map_or(ALPHA, |comparison| 1.0 - comparison.confidence);
    let beats = |other: usize| {
        // Where there is a verdict already, there is no second one.
        let judged = |candidate: usize| {
            comparisons.iter().find(|one| one.decides && one.candidate == candidate).map(|one| one.verdict)
        };
        match options.reference {
            reference if reference == leader => return Some(judged(other)? == Verdict::More),
            reference if reference == other => return Some(judged(leader)? == Verdict::Less),
            _ => {}
        }
        let (leading, following) = paired_values(&series.rounds, [leader, other], metric)?;
        let interval = Walsh::new(&log_ratios(&leading, &following)?).interval(level)?;
        Some(Verdict::of(interval, options.margin) == Verdict::More)
    };
    let mut others = commands.filter(|command| *command != leader).peekable();
    others.peek()?;
    others.all(|other| beats(other) == Some(true)).then_some(leader)
}

/// Whether the exit statuses allow a verdict.
fn judge_exits(series: &Series, options: Options<'_>, notes: &mut Vec<BenchNote>) -> bool {
    let mut exits = series.rounds.iter().flatten().map(|run| run.exit);
    let Some(first) = exits.next() else { return true };
    if exits.any(|exit| exit != first) {
        let of = |command: usize| {
            let mut exits: Vec<ExitStatus> = Vec::new();
            for exit in series.rounds.iter().map(|round| round[command].exit) {
                if !exits.contains(&exit) {
                    exits.push(exit);
                }
            }
            (options.contenders[command].name.clone(), exits)
        };
        notes.push(BenchNote::ExitsDiffer { exits: (0..options.contenders.len()).map(of).collect() });
        return false;
    }
    if first != ExitStatus::Code(0) {
        notes.push(BenchNote::AllFail { exit: first });
    }
    true
}

/// Notes what is odd about the runs of each command.
fn note_odd_runs(
    series: &Series,
    options: Options<'_>,
    decides: Option<&Metric>,
    notes: &mut Vec<BenchNote>,
) {
    /// Below this, most of the time is process start.
    const SHORT_NS: f64 = 5e6;
    let Some(metric) = decides else { return };
    /// Fewer runs fall into two groups by chance.
    const MIN_FOR_MODES: usize = 20;
    let [mut short, mut cold, mut spread] = [const { Vec::new() }; 3];
    let (mut coldest, mut far, mut all, mut worst) = (1.0f64, 0, 0, 1.0f64);
    for (command, contender) in options.contenders.iter().enumerate() {
        let values = values(&series.rounds, command, metric).filter(|values| !values.is_empty());
        let Some(values) = values else { continue };
        let name = || contender.name.clone();
        let typical = median(&values);
        let wall = self::values(&series.rounds, command, &Metric::Wall).unwrap_or_default();
        if median(&wall) < SHORT_NS {
            short.push(name());
        }
        if let Some(first) = series.warmup.first().and_then(|round| metric.of(round.get(command)?)) {
            // One slow run is worth a note if no other run was as slow.
            let slowest = values.iter().copied().fold(0.0, f64::max);
            if first > slowest && first > 1.2 * typical {
                cold.push(name());
                coldest = coldest.max(first / typical);
            }
        }
        if let Some(modes) = modes(&values).filter(|_| values.len() >= MIN_FOR_MODES) {
            notes.push(BenchNote::TwoModes {
                command: name(),
                means_ns: modes.means,
                upper_share: modes.upper_share,
            });
            continue;
        }
        let outliers = outliers(&values);
        let furthest = outliers.iter().map(|run| values[*run] / typical).fold(1.0, f64::max);
        // An outlier of less than 25 % is not worth a note.
        if furthest > 1.25 {
            spread.push(name());
            (far, all, worst) = (far + outliers.len(), all + values.len(), worst.max(furthest));
        }
    }
    if !cold.is_empty() {
        notes.push(BenchNote::SlowFirstRun { commands: cold, factor: coldest });
    }
    if !spread.is_empty() {
        notes.push(BenchNote::Outliers { commands: spread, runs: far, of: all, worst });
    }
    if !short.is_empty() {
        notes.push(BenchNote::ShortRuns { commands: short });
    }
    let reference = values(&series.rounds, options.reference, metric).unwrap_or_default();
    if let Some(correlation) = drift(&reference) {
        notes.push(BenchNote::Drift { slower: correlation > 0.0 });
    }
}

/// Notes on the whole series.
fn note_whole_series(
    series: &Series,
    options: Options<'_>,
    comparisons: &[Comparison],
    notes: &mut Vec<BenchNote>,
) {
    let several = options.contenders.len() > 1;
    match series.witness {
        Some((Witness::Cpu, Reason::Crowded)) => notes.push(BenchNote::CpuDecides),
        Some((Witness::Cpu, Reason::Short)) if several => notes.push(BenchNote::ShortComputes),
        Some((Witness::Wall, Reason::Waits)) if several => notes.push(BenchNote::WaitsCount),
        _ => {}
    }
    let of = |metric: &Metric, candidate: usize| {
        comparisons
            .iter()
            .find(|comparison| comparison.metric == *metric && comparison.candidate == candidate)
    };
    for candidate in 0..options.contenders.len() {
        let (Some(wall), Some(cpu)) = (of(&Metric::Wall, candidate), of(&Metric::Cpu, candidate)) else {
            continue;
        };
        if wall.verdict.is_claim() && cpu.verdict == wall.verdict.reversed() {
            let command = options.contenders[candidate].name.clone();
            notes.push(BenchNote::TimesDisagree { command, wall_is_less: wall.verdict == Verdict::Less });
        }
    }
    let rounds = series.rounds.len();
    let least = least_pairs(shared_alpha(options.contenders.len().saturating_sub(1)));
    if several && rounds < least {
        notes.push(BenchNote::FewPairs { pairs: rounds, least });
    }
    match series.ended {
        Ended::Interrupted => notes.push(BenchNote::Interrupted { rounds }),
        Ended::TimeIsOver => notes.push(BenchNote::TimeIsOver { rounds }),
        Ended::MaxRounds => notes.push(BenchNote::StillUndecided { rounds }),
        Ended::Enough | Ended::Decided => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::computing;
    use whyslow_stats::random::Random;

    fn contenders(count: usize) -> Vec<Contender> {
        let one = |at: usize| Contender {
            name: format!("c{at}"),
            command: format!("c{at}"),
            parameters: Vec::new(),
        };
        (0..count).map(one).collect()
    }

    /// Rounds of commands with these times and this noise.
    fn series(times_ns: &[f64], rounds: usize, noise: f64) -> Series {
        let mut random = Random::new(11);
        let round = |at: usize, random: &mut Random| {
            let run = |(command, time): (usize, &f64)| Run {
                place: ((at + command) % times_ns.len()) as u32,
                ..computing((time * (noise * random.normal()).exp()) as u64)
            };
            times_ns.iter().enumerate().map(run).collect::<Vec<_>>()
        };
        Series::of_rounds((0..rounds).map(|at| round(at, &mut random)).collect(), None)
    }

    fn options(contenders: &[Contender]) -> Options<'_> {
        Options { contenders, reference: 0, margin: 0.01, exact: &[], itself: false }
    }

    fn ids(answer: &Answer) -> Vec<&'static str> {
        answer.notes.iter().map(BenchNote::id).collect()
    }

    #[test]
    fn a_tenth_less_is_faster() {
        let contenders = contenders(2);
        let answer = judge(&series(&[1e8, 0.9e8], 12, 0.01), options(&contenders));
        let first = &answer.comparisons[0];
        assert_eq!((first.word(), first.decides, first.pairs), ("faster", true, 12));
        let ratio = first.ratio.unwrap();
        assert!(ratio.low < 0.9 && 0.9 < ratio.high && ratio.high - ratio.low < 0.03, "{ratio:?}");
        assert_eq!(answer.fastest, Some(1));
        assert_eq!(ids(&answer), [""; 0]);
        // If both sides have none, they are equivalent and have no ratio.
        let faults = answer.comparisons.iter().find(|one| one.metric == Metric::MajorFaults).unwrap();
        assert_eq!((faults.ratio, faults.word()), (None, "equivalent"));
    }

    #[test]
    fn undecided_says_how_many_pairs_it_takes() {
        let contenders = contenders(2);
        let answer = judge(&series(&[1e8, 0.995e8], 12, 0.03), options(&contenders));
        let first = &answer.comparisons[0];
        assert_eq!(first.word(), "undecided");
        assert!(first.needed.unwrap().for_margin > 20);
        assert_eq!(answer.fastest, None);
        let few = judge(&series(&[1e8, 0.5e8], 5, 0.001), options(&contenders));
        assert_eq!((few.comparisons[0].word(), &ids(&few)[..]), ("undecided", &["few-pairs"][..]));
    }

    #[test]
    fn fastest_of_three_beats_both() {
        let contenders = contenders(3);
        let answer = judge(&series(&[1e8, 0.8e8, 0.9e8], 20, 0.01), options(&contenders));
        assert_eq!(answer.fastest, Some(1));
        assert!(answer.comparisons.iter().filter(|one| one.decides).all(|one| one.word() == "faster"));
        assert!((answer.comparisons[0].confidence - 0.975).abs() < 1e-9);
    }

    #[test]
    fn three_commands_with_six_rounds_have_numbers_but_too_few_pairs() {
        let contenders = contenders(3);
        let answer = judge(&series(&[1e8, 0.8e8, 0.9e8], 6, 0.01), options(&contenders));
        let ratio = answer.comparisons[0].ratio.unwrap();
        assert!((ratio.estimate - 0.8).abs() < 0.05 && ratio.high.is_infinite(), "{ratio:?}");
        assert_eq!((answer.comparisons[0].word(), answer.fastest), ("undecided", None));
        assert!(answer.notes.contains(&BenchNote::FewPairs { pairs: 6, least: 7 }), "{:?}", answer.notes);
    }

    #[test]
    fn a_run_without_a_value_does_not_drop_the_others() {
        let contenders = contenders(2);
        let mut some = series(&[1e8, 1e8], 12, 0.01);
        some.rounds[3][1].max_resident_bytes = None;
        let answer = judge(&some, options(&contenders));
        let memory = answer.comparisons.iter().find(|one| one.metric == Metric::MaxResident).unwrap();
        assert_eq!((memory.pairs, memory.word()), (11, "equivalent"));
        some.rounds.iter_mut().skip(4).for_each(|round| round[1].max_resident_bytes = None);
        let answer = judge(&some, options(&contenders));
        let memory = answer.comparisons.iter().find(|one| one.metric == Metric::MaxResident).unwrap();
        assert_eq!((memory.pairs, memory.ratio), (0, None));
    }

    #[test]
    fn different_exits_give_no_verdict() {
        let contenders = contenders(2);
        let mut series = series(&[1e8, 0.5e8], 12, 0.01);
        series.rounds[3][1].exit = ExitStatus::Code(1);
        let answer = judge(&series, options(&contenders));
        assert!(answer.comparisons.iter().all(|one| one.verdict == Verdict::Undecided));
        assert_eq!(ids(&answer), ["exits-differ"]);
        for run in series.rounds.iter_mut().flatten() {
            run.exit = ExitStatus::Code(1);
        }
        let answer = judge(&series, options(&contenders));
        assert_eq!((answer.comparisons[0].word(), &ids(&answer)[..]), ("faster", &["all-runs-fail"][..]));
    }

    #[test]
    fn exact_counts_need_no_pairs() {
        let contenders = contenders(2);
        let counted = |count: f64| vec![("allocations".to_owned(), count)];
        let exact = [counted(1000.0), counted(900.0)];
        let answer = judge(&series(&[1e8, 1e8], 12, 0.01), Options { exact: &exact, ..options(&contenders) });
        let row = answer.comparisons.iter().find(|one| one.metric.label() == "allocations").unwrap();
        assert_eq!((row.word(), row.ratio.unwrap().estimate), ("less", 0.9));
    }

    #[test]
    fn notes_odd_runs() {
        let contenders = contenders(2);
        let mut odd = series(&[1e6, 1e6], 40, 0.01);
        odd.rounds[5][0] = computing(20_000_000);
        odd.warmup.push(vec![computing(30_000_000), computing(1_000_000)]);
        let answer = judge(&odd, options(&contenders));
        assert_eq!(ids(&answer), ["slow-first-run", "outliers", "short-runs", "short-runs-compute"]);
    }

    #[test]
    fn another_day_needs_a_larger_difference() {
        let runs = |time: f64| (0..12).map(|at| time * (1.0 + 0.001 * f64::from(at))).collect::<Vec<_>>();
        let of = |time: f64, quiet: bool| {
            compare_days(&runs(100.0), &runs(time), &Metric::Wall, [0, 1], quiet).word()
        };
        assert_eq!(
            [100.0, 90.0, 80.0, 130.0].map(|time| of(time, true)),
            ["undecided", "undecided", "faster", "slower"]
        );
        // A busy machine may be three times as slow as a quiet one.
        assert_eq!(of(35.0, false), "undecided");
    }

    #[test]
    fn same_command_twice_shows_the_detectable_difference() {
        let contenders = contenders(2);
        let answer = judge(&series(&[1e8, 1e8], 40, 0.02), Options { itself: true, ..options(&contenders) });
        let [(10, few), (20, _), (40, _), (80, many)] = answer.detectable[..] else {
            panic!("{:?}", answer.detectable)
        };
        assert!(few > many && (0.01..0.05).contains(&few), "{few} {many}");
    }
}
