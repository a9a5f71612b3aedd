//! Experiments as differences to the baselines around them.
//!
//! ```text
//! throughput   period = (last - first visit) / (visits - 1), in virtual time
//! latency      period = time in flight / arrivals                               Little's law: W = L / lambda
//! whole run    period = virtual length
//! difference   = ln(period) - mean of ln(period) of the baseline before and the baseline after
//! ```
//! A baseline is near, so that a CPU whose speed changes within minutes does not matter.

use whyslow_profile::{Causal, Experiment, PointId, PointKind, TargetId, Visits};
use whyslow_stats::median;

use crate::SAMPLES_PER_WAIT;
use crate::interval::DEVIATION;

/// The time that the program's threads queue for a CPU behind other programs, as a share of the time, from which on
/// experiments say nothing: with two busy loops beside it was 0.9 to 1.3, on a quiet machine 0.001 to 0.07.
pub const QUEUED_LIMIT: f64 = 0.3;

/// An experiment is outlying beyond this many standard deviations.
const OUTLYING: f64 = 6.0;
/// Smaller deviations are no outliers, however small the others are.
const LEAST_OUTLYING: f64 = 0.02;
/// If delays leave less of an experiment's time than this share, it says nothing: a thread that is in the target all the
/// time makes the others stand still at a speed-up of 100 %.
const LEAST_LEFT: f64 = 0.1;
/// How many baselines around one give its local median, to each side.
const AROUND: usize = 4;

/// Other programs used the CPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overload {
    /// The usual time that the program's threads queued behind other programs, as a share of the time.
    pub queued: f64,
    /// The usual number of busy threads.
    pub busy_threads: u32,
    /// The number of CPUs.
    pub cpus: u32,
}

/// An experiment compared with the baselines around it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Difference {
    /// The logarithm of the ratio.
    pub(crate) value: f64,
    /// The baseline before it.
    pub(crate) before: Option<usize>,
    /// The baseline after it.
    pub(crate) after: Option<usize>,
}

impl Difference {
    /// Its baselines with their weights.
    pub(crate) fn weights(&self) -> impl Iterator<Item = (usize, f64)> + use<> {
        let weight = if self.before.is_some() && self.after.is_some() { 0.5 } else { 1.0 };
        [self.before, self.after].into_iter().flatten().map(move |baseline| (baseline, weight))
    }
}

/// The differences of one target and one speed-up.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell {
    pub(crate) target: TargetId,
    pub(crate) speedup: f64,
    pub(crate) differences: Vec<Difference>,
}

/// What the experiments say about one point.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Observations {
    /// By target, then speed-up.
    pub(crate) cells: Vec<Cell>,
    /// Baselines that were used.
    pub(crate) baselines: usize,
    /// Experiments that were dropped because they are outlying.
    pub(crate) dropped: usize,
    /// Experiments during which the point was not visited.
    pub(crate) unvisited: usize,
    /// All visits.
    pub(crate) visits: u64,
}

/// The virtual time per visit, in nanoseconds; `None` if that cannot be said.
pub fn period_ns(kind: PointKind, experiment: &Experiment, visits: &Visits) -> Option<f64> {
    let length = experiment.virtual_ns() as f64;
    if length < LEAST_LEFT * experiment.length_ns as f64 {
        return None;
    }
    let between = visits.last_ns.saturating_sub(visits.first_ns) as f64;
    let period = match kind {
        PointKind::Latency => {
            let began = if visits.arrivals > 0 { visits.arrivals } else { visits.count };
            visits.in_flight_ns as f64 / began as f64
        }
        PointKind::Throughput if visits.count > 1 && between > 0.0 => between / (visits.count - 1) as f64,
        PointKind::Throughput | PointKind::WholeRun => length / visits.count as f64,
    };
    (period.is_finite() && period > 0.0).then_some(period)
}

/// The usual number of visits of each point during a baseline. Below about five, experiments should be longer.
pub fn visits_per_experiment(causal: &Causal) -> Vec<f64> {
    let baselines = causal.experiments.iter().map(Experiment::is_baseline).collect::<Vec<_>>();
    let of = |point: usize| {
        let mut counts = vec![0.0; causal.experiments.len()];
        for row in causal.visits.iter().filter(|row| row.point.index() == point) {
            counts[row.experiment.index()] += row.count as f64;
        }
        let counts = counts.iter().zip(&baselines).filter(|(_, is_baseline)| **is_baseline);
        median(&counts.map(|(count, _)| *count).collect::<Vec<_>>())
    };
    (0..causal.points.len()).map(of).collect()
}

/// Whether threads wait for each other too often for the samples that were taken. Samples are taken as often as waits
/// ask for, and one of them is lost now and then, so a fifth fewer than wanted are enough.
pub fn is_coarse(causal: &Causal) -> bool {
    const ENOUGH: f64 = 0.8 * SAMPLES_PER_WAIT;
    let baselines = causal.experiments.iter().filter(|row| row.is_baseline());
    let (waits, samples) = baselines
        .fold((0.0, 0.0), |(waits, samples), row| (waits + row.waits as f64, samples + row.samples as f64));
    waits * ENOUGH > samples
}

/// Whether other programs used the CPUs during most experiments.
pub(crate) fn overload(causal: &Causal, cpus: u32) -> Option<Overload> {
    let usual = |of: fn(&Experiment) -> f64| median(&causal.experiments.iter().map(of).collect::<Vec<_>>());
    let queued = usual(|experiment| experiment.queued);
    let busy_threads = usual(|experiment| f64::from(experiment.busy_threads)).round() as u32;
    (queued > QUEUED_LIMIT).then_some(Overload { queued, busy_threads, cpus })
}

/// The experiments of one point as differences.
pub(crate) fn observe(causal: &Causal, point: PointId) -> Observations {
    let kind = causal.points[point.index()].kind;
    let mut found = Observations::default();
    let mut logs = vec![None; causal.experiments.len()];
    for row in causal.visits.iter().filter(|row| row.point == point) {
        let at = row.experiment.index();
        logs[at] = period_ns(kind, &causal.experiments[at], row).map(f64::ln);
        found.visits = found.visits.saturating_add(row.count);
    }
    found.unvisited = logs.iter().filter(|log| log.is_none()).count();
    found.dropped += drop_loaded(causal, &mut logs);
    // Whole runs are compared with each other, everything else within its run.
    let run = |at: usize| if kind == PointKind::WholeRun { 0 } else { causal.experiments[at].run };
    found.dropped += drop_outlying_baselines(causal, &run, &mut logs);

    let usable = |at: &usize| causal.experiments[*at].is_baseline() && logs[*at].is_some();
    let baselines = (0..logs.len()).filter(usable).collect::<Vec<_>>();
    found.baselines = baselines.len();
    for (at, experiment) in causal.experiments.iter().enumerate() {
        let (Some(log), Some(target), false) = (logs[at], experiment.target, experiment.is_baseline()) else {
            continue;
        };
        let place = baselines.partition_point(|baseline| *baseline < at);
        let near = |place: usize| baselines.get(place).copied().filter(|baseline| run(*baseline) == run(at));
        let before = place.checked_sub(1).and_then(near);
        let mut difference = Difference { value: log, before, after: near(place) };
        let mut weighed = difference.weights().peekable();
        if weighed.peek().is_none() {
            continue;
        }
        difference.value -= weighed.map(|(at, weight)| weight * logs[at].unwrap_or_default()).sum::<f64>();
        let same = |cell: &&mut Cell| cell.target == target && cell.speedup == experiment.speedup;
        match found.cells.iter_mut().find(same) {
            Some(cell) => cell.differences.push(difference),
            None => {
                found.cells.push(Cell { target, speedup: experiment.speedup, differences: vec![difference] });
            }
        }
    }
    found.dropped += drop_outlying(&mut found.cells);
    found.cells.sort_by(|a, b| a.target.cmp(&b.target).then(a.speedup.total_cmp(&b.speedup)));
    found
}

/// Drops experiments during which threads queued much longer than usual.
fn drop_loaded(causal: &Causal, logs: &mut [Option<f64>]) -> usize {
    let queued = causal.experiments.iter().map(|experiment| experiment.queued).collect::<Vec<_>>();
    let limit = median(&queued) + QUEUED_LIMIT;
    let loaded = |(log, queued): &(&mut Option<f64>, &f64)| log.is_some() && **queued > limit;
    logs.iter_mut().zip(&queued).filter(loaded).map(|(log, _)| *log = None).count()
}

/// Drops baselines that differ from the median of those around them.
fn drop_outlying_baselines(causal: &Causal, run: &impl Fn(usize) -> u32, logs: &mut [Option<f64>]) -> usize {
    let of = |at: usize| Some((at, logs[at].filter(|_| causal.experiments[at].is_baseline())?));
    let baselines = (0..logs.len()).filter_map(of).collect::<Vec<_>>();
    let residual = |(place, (at, log)): (usize, &(usize, f64))| {
        let around = &baselines[place.saturating_sub(AROUND)..baselines.len().min(place + AROUND + 1)];
        let around = around.iter().filter(|(other, _)| run(*other) == run(*at)).map(|(_, log)| *log);
        let around = around.collect::<Vec<_>>();
        // Of two, nobody knows which one is outlying.
        if around.len() < 3 { 0.0 } else { log - median(&around) }
    };
    let residuals = baselines.iter().enumerate().map(residual).collect::<Vec<_>>();
    let limit = limit(&residuals);
    let outlying = baselines.iter().zip(&residuals).filter(|(_, residual)| residual.abs() > limit);
    outlying.map(|((at, _), _)| logs[*at] = None).count()
}

/// Drops differences that are far from the others of their cell.
fn drop_outlying(cells: &mut [Cell]) -> usize {
    let centres = cells
        .iter()
        .map(|cell| median(&cell.differences.iter().map(|difference| difference.value).collect::<Vec<_>>()));
    let centres = centres.collect::<Vec<_>>();
    let large = |cell: &Cell| cell.differences.len() >= 5;
    let residuals =
        cells.iter().zip(&centres).filter(|(cell, _)| large(cell)).flat_map(|(cell, centre)| {
            cell.differences.iter().map(move |difference| difference.value - centre)
        });
    let limit = limit(&residuals.collect::<Vec<_>>());
    let mut dropped = 0;
    for (cell, centre) in cells.iter_mut().zip(&centres).filter(|(cell, _)| large(cell)) {
        let before = cell.differences.len();
        cell.differences.retain(|difference| (difference.value - centre).abs() <= limit);
        dropped += before - cell.differences.len();
    }
    dropped
}

fn limit(residuals: &[f64]) -> f64 {
    let absolute = residuals.iter().map(|residual| residual.abs()).collect::<Vec<_>>();
    (OUTLYING * DEVIATION * median(&absolute)).max(LEAST_OUTLYING)
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_profile::{CausalPoint, ExperimentId, StringId};

    fn experiment(target: Option<u32>, speedup: f64, run: u32) -> Experiment {
        Experiment {
            start_ns: 0,
            length_ns: 100_000_000,
            target: target.map(TargetId),
            speedup,
            delay_ns: 0,
            hits: 0,
            samples: 100,
            queued: 0.01,
            busy_threads: 2,
            waits: 0,
            run,
        }
    }

    fn experiment_with_delay(delay_ns: u64) -> Experiment {
        Experiment { delay_ns, ..experiment(Some(0), 0.25, 0) }
    }

    fn visits(count: u64, first_ns: u64, last_ns: u64) -> Visits {
        let (experiment, point) = (ExperimentId(0), PointId(0));
        Visits { experiment, point, count, first_ns, last_ns, arrivals: 0, in_flight_ns: 0 }
    }

    /// Experiments of a point whose period is this many milliseconds: target, period, run.
    fn causal(kind: PointKind, rows: &[(Option<u32>, f64, u32)]) -> Causal {
        let mut causal = Causal::default();
        causal.points.push(CausalPoint { kind, name: StringId(0), file: None, line: 0 });
        for (at, (target, ms, run)) in rows.iter().enumerate() {
            causal.experiments.push(experiment(*target, if target.is_some() { 0.5 } else { 0.0 }, *run));
            let last_ns = 5_000_000 + (ms * 10e6).round() as u64;
            causal
                .visits
                .push(Visits { experiment: ExperimentId::from(at), ..visits(11, 5_000_000, last_ns) });
        }
        causal
    }

    #[test]
    fn periods_of_each_kind_of_point() {
        let of = experiment_with_delay(20_000_000);
        let throughput = |row| period_ns(PointKind::Throughput, &experiment_with_delay(20_000_000), &row);
        assert_eq!(throughput(visits(5, 10, 4_000_010)), Some(1_000_000.0));
        assert_eq!(throughput(visits(5, 0, 0)), Some(16_000_000.0), "only the number is known");
        assert_eq!(throughput(visits(0, 0, 0)), None);
        assert_eq!(period_ns(PointKind::WholeRun, &of, &visits(1, 0, 7)), Some(80_000_000.0));
        let in_flight = Visits { arrivals: 40, in_flight_ns: 160_000_000, ..visits(39, 3, 9) };
        assert_eq!(period_ns(PointKind::Latency, &of, &in_flight), Some(4_000_000.0));
        assert_eq!(period_ns(PointKind::Latency, &of, &visits(3, 3, 9)), None, "nothing was in flight");
        let of = experiment_with_delay(95_000_000);
        assert_eq!(
            period_ns(PointKind::Throughput, &of, &visits(5, 10, 4_000_010)),
            None,
            "no time was left"
        );
    }

    #[test]
    fn a_difference_is_to_the_baselines_around() {
        let rows = [(None, 4.0, 0), (Some(0), 2.0, 0), (None, 1.0, 0), (Some(1), 3.0, 0)];
        let found = observe(&causal(PointKind::Throughput, &rows), PointId(0));
        // ln 2 - (ln 4 + ln 1) / 2 = 0, and ln 3 - ln 1.
        let first = found.cells[0].differences[0];
        assert!(first.value.abs() < 1e-9 && (first.before, first.after) == (Some(0), Some(2)));
        let second = found.cells[1].differences[0];
        assert!((second.value - 3f64.ln()).abs() < 1e-9 && (second.before, second.after) == (Some(2), None));
        assert_eq!((found.baselines, found.dropped, found.visits), (2, 0, 44));
    }

    #[test]
    fn baselines_of_another_run_count_for_whole_runs_only() {
        let rows = [(None, 4.0, 0), (Some(0), 2.0, 1), (None, 4.0, 2)];
        assert!(observe(&causal(PointKind::Throughput, &rows), PointId(0)).cells.is_empty());
        let whole = causal(PointKind::WholeRun, &rows);
        assert_eq!(observe(&whole, PointId(0)).cells[0].differences.len(), 1);
    }

    #[test]
    fn outlying_experiments_are_dropped() {
        let period = |at: u32| 1.0 + 0.001 * f64::from(at % 3);
        let mut rows: Vec<_> = (0..24).map(|at| ((at % 2 == 1).then_some(0), period(at), 0)).collect();
        rows[6].1 = 3.0;
        rows[9].1 = 3.0;
        let mut causal = causal(PointKind::Throughput, &rows);
        let found = observe(&causal, PointId(0));
        assert_eq!((found.dropped, found.baselines, found.cells[0].differences.len()), (2, 11, 11));
        let around = &found.cells[0].differences[3];
        assert_eq!((around.before, around.after), (Some(8 - 4), Some(8)), "the next usable baseline");

        causal.experiments[2].queued = 0.5;
        assert_eq!(observe(&causal, PointId(0)).dropped, 3, "something else ran");
    }

    #[test]
    fn few_samples_between_waits_are_coarse() {
        let mut causal = causal(PointKind::Throughput, &[(None, 1.0, 0), (Some(0), 1.0, 0), (None, 1.0, 0)]);
        assert!(!is_coarse(&causal));
        causal.experiments[0].waits = 49;
        assert!(!is_coarse(&causal), "200 samples");
        causal.experiments[1].waits = 1000;
        assert!(!is_coarse(&causal), "no baseline");
        causal.experiments[2].waits = 2;
        assert!(is_coarse(&causal));
    }

    #[test]
    fn an_overloaded_machine_is_noticed() {
        let mut causal = causal(PointKind::Throughput, &[(None, 1.0, 0), (Some(0), 1.0, 0), (None, 1.0, 0)]);
        assert_eq!(overload(&causal, 2), None);
        causal.experiments.iter_mut().for_each(|row| row.queued = 0.9);
        assert_eq!(overload(&causal, 2), Some(Overload { queued: 0.9, busy_threads: 2, cpus: 2 }));
        assert_eq!(visits_per_experiment(&causal), [11.0]);
    }
}
