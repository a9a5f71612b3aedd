//! Compares many benchmarks of two builds: rounds in which each benchmark runs once on each side, in random
//! order, and a joint verdict.
//!
//! Many comparisons find many differences that are only noise. Benjamini and Hochberg's procedure over all
//! benchmarks decides which of them changed: of those called faster or slower at most 5 of 100 are wrong on
//! average, and of suites compared with themselves at most 5 of 100 contain a wrong call at all.

use whyslow_profile::Host;
use whyslow_stats::pairs::{ALPHA, Interval, Walsh, log_ratios};
use whyslow_stats::random::{Orders, Random};
use whyslow_stats::verdict::{Needed, Verdict, needed, shared_alpha};

use crate::document::Surroundings;
use crate::judge::between_days;
use crate::padding;

/// The number of builds: base and head.
pub const SIDES: usize = 2;
/// The index of the base build.
pub const BASE: usize = 0;
/// The index of the head build.
pub const HEAD: usize = 1;

/// The plan of a measurement.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Which sides each benchmark has.
    pub benchmarks: Vec<[bool; SIDES]>,
    /// How many rounds there are.
    pub rounds: usize,
    /// The seed of the orders and environment sizes.
    pub seed: u64,
}

/// The result of one turn of a benchmark.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// Nanoseconds per iteration.
    Nanoseconds(f64),
    /// It failed, and why. It gets no further turn.
    Failed(String),
    /// The user wants to stop.
    Stop,
}

/// Runs benchmarks.
pub trait Measure {
    /// An error that stops everything.
    type Error;
    /// Runs a benchmark of a side once, with an environment that is larger by this many bytes.
    fn measure(
        &mut self,
        benchmark: usize,
        side: usize,
        round: usize,
        padding: usize,
    ) -> Result<Turn, Self::Error>;
}

/// The results of one benchmark.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// Nanoseconds per iteration of each side. With both sides, values of the same index are from the same
    /// round.
    pub sides_ns: [Vec<f64>; SIDES],
    /// Why it has no more values.
    pub failed: Option<String>,
}

/// Runs the rounds. The second value says whether the user stopped them.
pub fn run<M: Measure>(plan: &Plan, measure: &mut M) -> Result<(Vec<Series>, bool), M::Error> {
    let mut random = Random::new(plan.seed);
    let mut all = vec![Series::default(); plan.benchmarks.len()];
    let mut orders =
        (0..plan.benchmarks.len()).map(|_| Orders::new(SIDES, random.bits())).collect::<Vec<_>>();
    for round in 0..plan.rounds {
        for (benchmark, sides) in plan.benchmarks.iter().enumerate() {
            let order = orders[benchmark].next().unwrap_or_default();
            if all[benchmark].failed.is_some() {
                continue;
            }
            let mut turns = [None; SIDES];
            for side in order.into_iter().filter(|side| sides[*side]) {
                match measure.measure(benchmark, side, round, random.below(padding::MAX_BYTES))? {
                    Turn::Nanoseconds(ns) => turns[side] = Some(ns),
                    Turn::Failed(why) => {
                        all[benchmark].failed = Some(why);
                        break;
                    }
                    Turn::Stop => return Ok((all, true)),
                }
            }
            // A turn without its counterpart is not a pair.
            if all[benchmark].failed.is_none() {
                for (values, ns) in all[benchmark].sides_ns.iter_mut().zip(turns) {
                    values.extend(ns);
                }
            }
        }
    }
    Ok((all, false))
}

/// The fewest rounds with which one changed benchmark among this many can be found: the smallest p of n pairs
/// is 2^(1-n).
pub fn min_rounds(benchmarks: usize) -> usize {
    (2.0 * benchmarks.max(1) as f64 / ALPHA).log2().ceil() as usize
}

/// The result of one benchmark.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// Head over base; without an interval `high` is infinite. `None` without a pair.
    pub ratio: Option<Interval>,
    /// How many pairs it is based on; 0 if the values are not paired.
    pub pairs: usize,
    /// The verdict.
    pub verdict: Verdict,
    /// How many pairs a decision would take, if undecided.
    pub needed: Option<Needed>,
}

/// Judges benchmarks that both sides have, together. The second value is the probability that an interval
/// misses the true value.
pub fn judge(series: &[&Series], margin: f64) -> (Vec<Judged>, f64) {
    let differences = series
        .iter()
        .map(|series| log_ratios(&series.sides_ns[BASE], &series.sides_ns[HEAD]).unwrap_or_default())
        .collect::<Vec<_>>();
    let walshes = differences.iter().map(|differences| Walsh::new(differences)).collect::<Vec<_>>();
    let level = shared_level(&walshes);
    let judged = walshes.iter().zip(&differences).map(|(walsh, differences)| {
        let interval = walsh.interval(level);
        let verdict = interval.map_or(Verdict::Undecided, |interval| Verdict::of(interval, margin));
        let estimate = walsh.estimate();
        let shown = interval.unwrap_or(Interval { estimate, low: f64::NEG_INFINITY, high: f64::INFINITY });
        Judged {
            ratio: (!differences.is_empty()).then(|| shown.exp()),
            pairs: differences.len(),
            verdict,
            needed: (verdict == Verdict::Undecided).then(|| needed(differences, margin, false)).flatten(),
        }
    });
    (judged.collect(), level)
}

/// Compares benchmarks whose base was measured on another day: values are not paired, and intervals are wider
/// by the day-to-day allowance. How busy the machine was then is not known, so there is no verdict.
pub fn judge_days(series: &[&Series]) -> (Vec<Judged>, f64) {
    let level = shared_alpha(series.len());
    let judged = series.iter().map(|series| {
        let interval = between_days(&series.sides_ns[BASE], &series.sides_ns[HEAD], level);
        Judged { ratio: interval.map(Interval::exp), pairs: 0, verdict: Verdict::Undecided, needed: None }
    });
    (judged.collect(), level)
}

/// Benjamini and Hochberg's level: α·r/k for the largest r such that r of the k intervals of that level
/// exclude 0. An interval excludes 0 exactly if the test's p is at most its level, so these are the p-values
/// of the procedure. Of the intervals of called benchmarks, 5 of 100 miss the true value on average.
fn shared_level(walshes: &[Walsh]) -> f64 {
    let count = walshes.len().max(1);
    let of = |called: usize| ALPHA * called as f64 / count as f64;
    let leaves_out_0 = |walsh: &Walsh, level: f64| {
        walsh.interval(level).is_some_and(|interval| interval.low > 0.0 || interval.high < 0.0)
    };
    // A benchmark that is not called at the widest level is not called at any other.
    let likely = walshes.iter().filter(|walsh| leaves_out_0(walsh, ALPHA)).collect::<Vec<_>>();
    let holds =
        |called: &usize| likely.iter().filter(|walsh| leaves_out_0(walsh, of(*called))).count() >= *called;
    of((1..=likely.len()).rev().find(holds).unwrap_or(1))
}

/// A benchmark and its result.
#[derive(Debug, Clone)]
pub struct Benchmark {
    /// Its cargo target.
    pub target: String,
    /// Its name in the harness.
    pub name: String,
    /// The name of the harness.
    pub harness: &'static str,
    /// The measured values.
    pub series: Series,
    /// Its result.
    pub standing: Standing,
}

/// The result of a benchmark.
#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    /// Both sides have it.
    Compared(Judged),
    /// There is no other side.
    Alone,
    /// Only head has it.
    New,
    /// Only base has it.
    Vanished,
    /// It could not be measured, and why.
    Failed(String),
}

impl Standing {
    /// The word for it in every table.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Compared(judged) => match judged.verdict {
                Verdict::Less => "faster",
                Verdict::More => "slower",
                Verdict::Equivalent => "equivalent",
                Verdict::Undecided => "undecided",
            },
            Self::Alone => "measured",
            Self::New => "new",
            Self::Vanished => "vanished",
            Self::Failed(_) => "failed",
        }
    }

    /// Its comparison, if both sides have it.
    pub fn judged(&self) -> Option<&Judged> {
        match self {
            Self::Compared(judged) => Some(judged),
            _ => None,
        }
    }
}

/// All benchmarks.
#[derive(Debug, Clone)]
pub struct Suite {
    /// When the first turn started, in seconds since 1970.
    pub began_unix_s: u64,
    /// The machine.
    pub host: Host,
    /// How busy the machine was during the measurement.
    pub surroundings: Surroundings,
    /// The base, if there is one.
    pub base: Option<String>,
    /// The head.
    pub head: String,
    /// Whether base was measured on another day: then values are not paired.
    pub of_another_day: bool,
    /// How many rounds were planned.
    pub rounds: usize,
    /// Whether the user stopped them.
    pub interrupted: bool,
    /// A difference below this share does not matter.
    pub margin: f64,
    /// The confidence of each interval.
    pub confidence: f64,
    /// The benchmarks, target by target.
    pub benchmarks: Vec<Benchmark>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Benchmarks with known times, plus noise and a drift that both sides share.
    struct Made {
        times_ns: Vec<[f64; SIDES]>,
        noise: f64,
        random: Random,
        turns: Vec<(usize, usize, usize)>,
        stop_after: usize,
        failing: Option<usize>,
    }

    impl Made {
        fn new(times_ns: &[[f64; SIDES]], seed: u64) -> Self {
            let random = Random::new(seed);
            Self {
                times_ns: times_ns.to_vec(),
                noise: 0.03,
                random,
                turns: Vec::new(),
                stop_after: usize::MAX,
                failing: None,
            }
        }

        fn run(&mut self, rounds: usize, seed: u64) -> (Vec<Series>, bool) {
            let plan = Plan { benchmarks: vec![[true; SIDES]; self.times_ns.len()], rounds, seed };
            run(&plan, self).unwrap()
        }
    }

    impl Measure for Made {
        type Error = ();

        fn measure(&mut self, benchmark: usize, side: usize, round: usize, _: usize) -> Result<Turn, ()> {
            if self.turns.len() == self.stop_after {
                return Ok(Turn::Stop);
            }
            self.turns.push((round, benchmark, side));
            if self.failing == Some(benchmark) && round == 1 {
                return Ok(Turn::Failed("it panicked".to_owned()));
            }
            // Later turns are slower, as on a machine that heats up.
            let drift = 1.0 + 0.001 * self.turns.len() as f64;
            Ok(Turn::Nanoseconds(
                self.times_ns[benchmark][side] * drift * (self.noise * self.random.normal()).exp(),
            ))
        }
    }

    fn judged(series: &[Series]) -> (Vec<Judged>, f64) {
        judge(&series.iter().collect::<Vec<_>>(), 0.01)
    }

    #[test]
    fn both_sides_run_in_turn_and_equally_often_first() {
        let mut made = Made::new(&[[1.0; 2]; 3], 1);
        let (series, stopped) = made.run(10, 2);
        assert!(
            !stopped && series.iter().all(|series| series.sides_ns.iter().all(|values| values.len() == 10))
        );
        let mut first = [0; SIDES];
        for two in made.turns.chunks(SIDES) {
            assert_eq!((two[0].0, two[0].1), (two[1].0, two[1].1));
            assert_ne!(two[0].2, two[1].2);
            first[two[0].2] += 1;
        }
        assert_eq!(first, [15, 15]);
    }

    #[test]
    fn failed_benchmark_does_not_affect_others_and_stopping_keeps_pairs() {
        let mut made = Made { failing: Some(0), ..Made::new(&[[1.0; 2]; 2], 1) };
        let (series, _) = made.run(6, 2);
        assert_eq!(series[0].failed.as_deref(), Some("it panicked"));
        assert_eq!((series[0].sides_ns[BASE].len(), series[1].sides_ns[BASE].len()), (1, 6));
        let mut made = Made { stop_after: 7, ..Made::new(&[[1.0; 2]; 2], 1) };
        let (series, stopped) = made.run(6, 2);
        let counts = series
            .iter()
            .map(|series| series.sides_ns.clone().map(|values| values.len()))
            .collect::<Vec<_>>();
        assert!(stopped);
        assert_eq!(counts, [[2, 2], [1, 1]]);
    }

    #[test]
    fn suite_against_itself_has_a_wrong_call_in_at_most_5_of_100() {
        const SUITES: usize = 2000;
        for (benchmarks, rounds) in [(1, 10), (5, 10), (20, 10), (40, 11)] {
            let wrong = (0..SUITES as u64).filter(|seed| {
                let (series, _) = Made::new(&vec![[100.0; 2]; benchmarks], seed * 7 + 1).run(rounds, *seed);
                judged(&series).0.iter().any(|judged| judged.verdict.is_claim())
            });
            let wrong = wrong.count() as f64 / SUITES as f64;
            // Three standard errors above 5 %.
            assert!(
                wrong < 0.05 + 3.0 * (0.05f64 * 0.95 / SUITES as f64).sqrt(),
                "{benchmarks} benchmarks: {wrong}"
            );
        }
    }

    #[test]
    fn finds_changes_among_many_with_few_wrong_calls() {
        const SUITES: u64 = 300;
        let mut times = vec![[100.0; 2]; 20];
        (times[3], times[11], times[17]) = ([100.0, 90.0], [100.0, 112.0], [50.0, 40.0]);
        let (mut found, mut wrong, mut called) = (0, 0, 0);
        for seed in 0..SUITES {
            let (series, _) = Made::new(&times, seed + 1).run(10, seed);
            let (judged, level) = judged(&series);
            let claims = judged.iter().map(|judged| judged.verdict).collect::<Vec<_>>();
            found += usize::from(
                claims[3] == Verdict::Less && claims[11] == Verdict::More && claims[17] == Verdict::Less,
            );
            called += claims.iter().filter(|verdict| verdict.is_claim()).count();
            wrong += [3, 11, 17]
                .iter()
                .fold(claims.iter().filter(|verdict| verdict.is_claim()).count(), |rest, at| {
                    rest - usize::from(claims[*at].is_claim())
                });
            assert!(level < ALPHA);
        }
        assert!(found > 285, "{found} of {SUITES}");
        assert!((wrong as f64) < 0.06 * called as f64, "{wrong} of {called}");
    }

    #[test]
    fn base_of_another_day_has_numbers_but_no_verdict() {
        let of = |head: f64| Made::new(&[[100.0, head]], 1).run(12, 1).0;
        let judged = judge_days(&[&of(35.0)[0]]).0.remove(0);
        assert_eq!((judged.verdict, judged.pairs), (Verdict::Undecided, 0));
        let ratio = judged.ratio.unwrap();
        assert!(ratio.low < 0.35 && 0.35 < ratio.high && ratio.high < 0.5, "{ratio:?}");
    }

    #[test]
    fn too_few_rounds_give_no_interval() {
        assert_eq!([1, 2, 25, 26, 100].map(min_rounds), [6, 7, 10, 11, 12]);
        for benchmarks in [1, 2, 25, 26, 100] {
            let all = vec![[100.0, 50.0]; benchmarks];
            let few = Made::new(&all, 1).run(min_rounds(benchmarks), 1).0;
            // A single changed benchmark must be found.
            let mut one = Made::new(&vec![[100.0; 2]; benchmarks], 1).run(min_rounds(benchmarks), 1).0;
            one[0] = few[0].clone();
            assert_eq!(judged(&one).0[0].verdict, Verdict::Less, "{benchmarks}");
            for series in &mut one {
                series.sides_ns.iter_mut().for_each(|values| values.truncate(min_rounds(benchmarks) - 1));
            }
            let none = &judged(&one).0[0];
            assert!(
                none.verdict == Verdict::Undecided && none.ratio.unwrap().high.is_infinite(),
                "{benchmarks}"
            );
        }
    }
}
