//! What the experiments say: for each progress point and target a curve with intervals, and a verdict.
//!
//! ```text
//! effect     1 - exp(centre of the differences)
//! low, high  effect ± hypot(distance of the end of its interval, error of the method)
//! effect     if the interval over all speed-ups, or that of one speed-up, excludes 0 (99.5 %), and an effect is 3
//!            points or more
//! none       else if the interval over all speed-ups (95 %), extrapolated to 100 %, is within 3 points
//! undecided  else, with the number of experiments that would decide
//! ```
//! The levels are for repeated looks at the same data: with 99.5 % at each of the schedule's looks, about 5 of 100
//! targets without an effect are claimed to have one over all of them. Extrapolation to 100 % takes a curve that does
//! not get steeper: `effect(100 %) <= mean effect / mean speed-up`.

use whyslow_profile::{Causal, PointId, TargetId, TargetKind};
use whyslow_stats::pairs::{ALPHA, Interval};

use crate::interval::{Noise, interval, tested};
use crate::observe::{Cell, Difference, Observations, Overload, is_coarse, observe, overload};
use crate::{COARSE_ERROR, LEAST_EFFECT, METHOD_ERROR};

/// The level of a claim.
const CLAIM: f64 = 0.005;
/// The least number of differences for an interval at that level.
const LEAST_CLAIM: usize = 9;
/// An effect is precise within this half width of its intervals, without the error of the method.
const PRECISE: f64 = 0.05;
/// Nothing is predicted to take more experiments than this.
const MOST_MISSING: usize = 100_000;

/// What speeding up a target does to a progress point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// It has an effect.
    Effect,
    /// It has none.
    None {
        /// The largest effect that is still possible.
        beyond: f64,
    },
    /// There are not enough experiments.
    Undecided {
        /// About how many more would decide, without their baselines.
        missing: usize,
    },
}

impl Verdict {
    /// Whether it is anything but undecided.
    pub fn is_decided(self) -> bool {
        !matches!(self, Self::Undecided { .. })
    }

    /// The word used in JSON.
    pub fn label(self) -> &'static str {
        match self {
            Self::Effect => "effect",
            Self::None { .. } => "none",
            Self::Undecided { .. } => "undecided",
        }
    }
}

/// The effect of one speed-up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Curve {
    /// By how much the target was sped up.
    pub speedup: f64,
    /// The share of the time per visit that this saves; negative if it costs time.
    pub effect: f64,
    /// The lower end of the 95 % confidence interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// How many experiments say so.
    pub experiments: usize,
}

/// A target.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The target.
    pub target: TargetId,
    /// What its curve says.
    pub verdict: Verdict,
    /// By speed-up. Without those for which nothing can be said yet.
    pub curve: Vec<Curve>,
    /// All its experiments.
    pub experiments: usize,
    /// How many samples hit it while it was sped up.
    pub hits: u64,
    /// The error of the method that its intervals include.
    pub method_error: f64,
}

impl Row {
    /// About how many more experiments bring every interval within ±5 points, without the error of the method; 0 if all
    /// are, and for rows without an effect.
    ///
    /// ```text
    /// ends shrink with 1/sqrt(n):   n' = n · (half width / 5 points)²
    /// ```
    pub fn until_precise(&self) -> usize {
        if self.verdict != Verdict::Effect {
            return 0;
        }
        let of = |point: &Curve| {
            let half = (point.high - point.low) / 2.0;
            let by_chance = (half * half - self.method_error * self.method_error).max(0.0).sqrt();
            let ratio = by_chance / PRECISE;
            let needed = (point.experiments as f64 * ratio * ratio - 1e-9).ceil().min(MOST_MISSING as f64);
            (needed as usize).saturating_sub(point.experiments)
        };
        self.curve.iter().map(of).sum()
    }

    /// The effect with the largest absolute value; 0 if nothing can be said yet.
    pub fn largest(&self) -> f64 {
        self.curve
            .iter()
            .map(|point| point.effect)
            .fold(0.0, |a, b| if b.abs() > f64::abs(a) { b } else { a })
    }
}

/// What the experiments say about a progress point.
#[derive(Debug, Clone, PartialEq)]
pub struct PointEstimates {
    /// The point.
    pub point: PointId,
    /// The targets: effects first, largest first; then those that use the most CPU time.
    pub rows: Vec<Row>,
    /// The placebo: it must not have an effect.
    pub placebo: Option<Row>,
    /// Its visits during all experiments.
    pub visits: u64,
    /// Baselines that were used.
    pub baselines: usize,
    /// Experiments that were dropped because they are outlying.
    pub dropped: usize,
    /// Experiments without a visit.
    pub unvisited: usize,
}

/// What the experiments say.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Estimates {
    /// If set, other programs used the CPUs, and there are no estimates.
    pub refused: Option<Overload>,
    /// One per progress point.
    pub points: Vec<PointEstimates>,
}

/// Estimates the effects of all targets on all progress points, on a machine with this many CPUs.
pub fn estimate(causal: &Causal, cpus: u32) -> Estimates {
    if let Some(refused) = overload(causal, cpus) {
        return Estimates { refused: Some(refused), points: Vec::new() };
    }
    let points = (0..causal.points.len()).map(PointId::from).map(|point| of_point(causal, point));
    Estimates { refused: None, points: points.collect() }
}

/// Estimates the effects on one progress point.
fn of_point(causal: &Causal, point: PointId) -> PointEstimates {
    let Observations { cells, baselines, dropped, unvisited, visits } = observe(causal, point);
    let is_placebo = |target: TargetId| causal.targets[target.index()].kind == TargetKind::Placebo;
    let placebo = cells.iter().filter(|cell| is_placebo(cell.target));
    let placebo = placebo.flat_map(|cell| cell.differences.iter().copied()).collect::<Vec<_>>();
    let noise = Noise::of(cells.iter().map(|cell| cell.differences.as_slice()), &placebo);
    // The placebo itself is not judged by its own spread.
    let plain = Noise { placebo: 0.0, ..noise };
    let targets = (0..causal.targets.len()).map(TargetId::from);
    let (mut placebos, mut rows) = (Vec::new(), Vec::new());
    for target in targets {
        let of = cells.iter().filter(|cell| cell.target == target).collect::<Vec<_>>();
        if is_placebo(target) {
            placebos.push(row(causal, target, &of, &plain));
        } else {
            rows.push(row(causal, target, &of, &noise));
        }
    }
    let share = |row: &Row| causal.targets[row.target.index()].share;
    let rank = |row: &Row| match row.verdict {
        Verdict::Effect => (0, -row.largest()),
        Verdict::None { .. } => (1, -share(row)),
        Verdict::Undecided { .. } => (2, -share(row)),
    };
    rows.sort_by(|a, b| {
        let (a, b) = (rank(a), rank(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    PointEstimates {
        point,
        rows,
        placebo: placebos.into_iter().next(),
        visits,
        baselines,
        dropped,
        unvisited,
    }
}

fn row(causal: &Causal, target: TargetId, cells: &[&Cell], noise: &Noise) -> Row {
    let method_error = if is_coarse(causal) { COARSE_ERROR } else { METHOD_ERROR };
    let of = |cell: &&Cell| {
        let found = interval(&cell.differences, ALPHA, noise)?;
        let saved = |log: f64| -log.exp_m1();
        let effect = saved(found.estimate);
        Some(Curve {
            speedup: cell.speedup,
            effect,
            low: effect - (effect - saved(found.high)).hypot(method_error),
            high: effect + (saved(found.low) - effect).hypot(method_error),
            experiments: cell.differences.len(),
        })
    };
    let curve = cells.iter().filter_map(of).collect::<Vec<_>>();
    let all = cells.iter().flat_map(|cell| cell.differences.iter().copied()).collect::<Vec<_>>();
    let verdict = verdict(cells, &all, &curve, noise);
    let hits = causal.experiments.iter().filter(|row| row.target == Some(target) && !row.is_baseline());
    let hits = hits.fold(0u64, |sum, row| sum.saturating_add(row.hits));
    Row { target, verdict, curve, experiments: all.len(), hits, method_error }
}

fn verdict(cells: &[&Cell], all: &[Difference], curve: &[Curve], noise: &Noise) -> Verdict {
    let excludes_zero =
        |found: Option<Interval>| found.is_some_and(|found| found.low > 0.0 || found.high < 0.0);
    let pooled = excludes_zero(tested(all, CLAIM, noise));
    let one = |cell: &&Cell| excludes_zero(tested(&cell.differences, CLAIM / cells.len() as f64, noise));
    let matters = curve.iter().any(|point| point.effect.abs() >= LEAST_EFFECT);
    if matters && (pooled || cells.iter().any(one)) {
        return Verdict::Effect;
    }
    let speedups = cells.iter().map(|cell| cell.speedup * cell.differences.len() as f64).sum::<f64>();
    let mean_speedup = speedups / all.len().max(1) as f64;
    let Some(found) = tested(all, ALPHA, noise).filter(|_| all.len() >= LEAST_CLAIM) else {
        return Verdict::Undecided { missing: LEAST_CLAIM.saturating_sub(all.len()).max(1) };
    };
    let beyond = found.low.exp_m1().abs().max(found.high.exp_m1().abs()) / mean_speedup;
    if beyond <= LEAST_EFFECT {
        return Verdict::None { beyond };
    }
    Verdict::Undecided { missing: missing(&found, mean_speedup, all.len()) }
}

/// How many more experiments would decide, if the centre stays where it is.
///
/// ```text
/// ends shrink with 1/sqrt(n):   n' = n · (half width / needed half width)²
/// ```
fn missing(found: &Interval, mean_speedup: f64, experiments: usize) -> usize {
    /// The half width of a claim's interval, compared with that of the 95 % interval.
    const CLAIM_WIDTH: f64 = 1.43;
    let half = f64::midpoint(found.high, -found.low);
    let centre = found.estimate.abs();
    let limit = LEAST_EFFECT * mean_speedup;
    // Near the limit neither is certain soon: a quarter of it is the most precise that is asked for.
    let needed_none = (limit - centre).max(limit / 4.0);
    let needed_effect = if centre >= limit { centre / CLAIM_WIDTH } else { 0.0 };
    let ratio = half / needed_none.max(needed_effect);
    let needed = (experiments as f64 * ratio * ratio - 1e-9).ceil().min(MOST_MISSING as f64) as usize;
    needed.saturating_sub(experiments).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_profile::{CausalPoint, CausalTarget, Experiment, ExperimentId, PointKind, StringId, Visits};

    fn target(kind: TargetKind, share: f64) -> CausalTarget {
        CausalTarget { kind, function: StringId(0), file: None, line: 0, share, samples: 9 }
    }

    /// A point, a placebo and targets with these CPU shares.
    fn empty(shares: &[f64]) -> Causal {
        let mut causal = Causal::default();
        let point = CausalPoint { kind: PointKind::Throughput, name: StringId(0), file: None, line: 0 };
        causal.points.push(point);
        causal.targets.push(target(TargetKind::Placebo, 0.0));
        causal.targets.extend(shares.iter().map(|share| target(TargetKind::Line, *share)));
        causal
    }

    fn add(causal: &mut Causal, of: Option<(u32, f64)>, period_ms: f64) {
        let experiment = ExperimentId::from(causal.experiments.len());
        causal.experiments.push(Experiment {
            start_ns: u64::from(experiment.0) * 120_000_000,
            length_ns: 100_000_000,
            target: of.map(|(target, _)| TargetId(target)),
            speedup: of.map_or(0.0, |(_, speedup)| speedup),
            delay_ns: 0,
            hits: 3,
            samples: 100,
            queued: 0.0,
            busy_threads: 1,
            waits: 0,
            run: 0,
        });
        causal.visits.push(Visits {
            experiment,
            point: PointId(0),
            count: 11,
            first_ns: 0,
            last_ns: (period_ms * 10e6).round() as u64,
            arrivals: 0,
            in_flight_ns: 0,
        });
    }

    /// Blocks of experiments: the saved share of each target at its speed-up, and small regular noise.
    fn blocks(causal: &mut Causal, blocks: usize, saved: impl Fn(u32, f64) -> f64) {
        add(causal, None, 1.0);
        for block in 0..blocks {
            for number in 0..causal.targets.len() as u32 {
                for (at, speedup) in [0.25, 0.5, 0.75, 1.0].into_iter().enumerate() {
                    let noise = [0.002, -0.002, 0.001, -0.001][(block + at) % 4];
                    add(causal, Some((number, speedup)), (1.0 - saved(number, speedup)) * (1.0 + noise));
                    add(causal, None, 1.0);
                }
            }
        }
    }

    #[test]
    fn effects_are_ranked_before_lines_that_use_more_time() {
        let mut causal = empty(&[0.6, 0.1, 0.3]);
        blocks(&mut causal, 8, |target, speedup| match target {
            2 => (0.5 * speedup).min(0.3),
            3 => 0.1 * speedup,
            _ => 0.0,
        });
        let found = estimate(&causal, 2).points.remove(0);
        let order = found.rows.iter().map(|row| row.target.0).collect::<Vec<_>>();
        assert_eq!(order, [2, 3, 1]);
        assert_eq!((found.rows[0].verdict, found.rows[1].verdict), (Verdict::Effect, Verdict::Effect));
        let Verdict::None { beyond } = found.rows[2].verdict else { panic!("{:?}", found.rows[2]) };
        assert!(beyond < 0.01, "{beyond}");
        let curve = &found.rows[0].curve;
        assert_eq!(curve.iter().map(|point| point.speedup).collect::<Vec<_>>(), [0.25, 0.5, 0.75, 1.0]);
        for (point, truth) in curve.iter().zip([0.125, 0.25, 0.3, 0.3]) {
            assert!((point.effect - truth).abs() < 0.003, "{point:?}");
            assert!(point.low <= truth && truth <= point.high && point.experiments == 8, "{point:?}");
            // Hardly any noise: what is left is the error of the method.
            assert!((point.high - point.low) / 2.0 >= METHOD_ERROR, "{point:?}");
        }
        assert!(!matches!(found.placebo.as_ref().unwrap().verdict, Verdict::Effect));
        assert_eq!((found.rows[0].hits, found.rows[0].experiments, found.baselines), (96, 32, 129));
    }

    #[test]
    fn a_speed_up_that_costs_time_is_an_effect() {
        let mut causal = empty(&[0.6]);
        blocks(&mut causal, 4, |target, speedup| if target == 1 { -0.2 * speedup } else { 0.0 });
        let found = estimate(&causal, 2).points.remove(0);
        assert_eq!(found.rows[0].verdict, Verdict::Effect);
        assert!((found.rows[0].largest() + 0.2).abs() < 0.01, "{:?}", found.rows[0]);
    }

    #[test]
    fn too_few_experiments_are_undecided_and_say_how_many_are_missing() {
        let mut causal = empty(&[0.6]);
        assert_eq!(estimate(&causal, 2).points[0].rows[0].verdict, Verdict::Undecided { missing: 9 });
        blocks(&mut causal, 1, |_, _| 0.0);
        let found = estimate(&causal, 2).points.remove(0);
        assert_eq!(found.rows[0].verdict, Verdict::Undecided { missing: 5 });
        assert!(found.rows[0].curve.is_empty());
    }

    #[test]
    fn an_effect_is_precise_when_all_intervals_are_within_five_points() {
        let point = |half: f64| Curve {
            speedup: 0.5,
            effect: 0.3,
            low: 0.3 - half,
            high: 0.3 + half,
            experiments: 3,
        };
        let row = |verdict, curve| Row {
            target: TargetId(1),
            verdict,
            curve,
            experiments: 6,
            hits: 9,
            method_error: METHOD_ERROR,
        };
        let with_error = |by_chance: f64| point(by_chance.hypot(METHOD_ERROR));
        assert_eq!(row(Verdict::Effect, vec![with_error(0.05), point(0.01)]).until_precise(), 0);
        // Twice as wide as wanted: four times as many.
        assert_eq!(row(Verdict::Effect, vec![with_error(0.1), point(0.01)]).until_precise(), 9);
        assert_eq!(row(Verdict::None { beyond: 0.02 }, vec![with_error(0.1)]).until_precise(), 0);
    }

    /// d = ±4 % in turn at 100 %: the interval is ±4 %, so about n · (4 / 3)² are needed.
    #[test]
    fn the_number_of_missing_experiments_follows_from_the_width() {
        let half = 0.04;
        let found = Interval { estimate: 0.0, low: -half, high: half };
        assert_eq!(missing(&found, 1.0, 90), 160 - 90);
        let found = Interval { estimate: 0.04, low: -0.02, high: 0.10 };
        // Half width 0.06, needed 0.04 / 1.43: 10 · (0.06 · 1.43 / 0.04)² = 46.01.
        assert_eq!(missing(&found, 1.0, 10), 47 - 10);
    }

    #[test]
    fn an_overloaded_machine_is_refused() {
        let mut causal = empty(&[0.6]);
        blocks(&mut causal, 4, |_, speedup| 0.2 * speedup);
        causal.experiments.iter_mut().for_each(|row| row.queued = 0.95);
        let found = estimate(&causal, 2);
        assert_eq!(found.refused, Some(Overload { queued: 0.95, busy_threads: 1, cpus: 2 }));
        assert!(found.points.is_empty());
        assert_eq!(estimate(&Causal::default(), 2), Estimates::default());
    }
}
