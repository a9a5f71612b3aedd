//! Simulated programs whose truth is known: intervals hold it, lines without an effect are rarely claimed to have
//! one, and the schedule ends.

use whyslow_causal::{Schedule, Verdict, estimate};
use whyslow_profile::{
    Causal, CausalPoint, CausalTarget, Experiment, ExperimentId, PointId, PointKind, StringId, TargetId,
    TargetKind, Visits,
};
use whyslow_stats::random::Random;

const CPUS: u32 = 2;
const LENGTH_NS: f64 = 102e6;

/// What a program does. Target 0 is the placebo; the others have these effects at a speed-up.
struct Program {
    kind: PointKind,
    effects: Vec<fn(f64) -> f64>,
    /// The standard deviation of an experiment.
    noise: f64,
    /// How often an experiment is outlying.
    outliers: f64,
    random: Random,
    time: f64,
}

impl Program {
    fn new(kind: PointKind, effects: &[fn(f64) -> f64], noise: f64, outliers: f64, seed: u64) -> Self {
        Self { kind, effects: effects.to_vec(), noise, outliers, random: Random::new(seed), time: 0.0 }
    }

    fn tables(&self) -> Causal {
        let mut causal = Causal::default();
        causal.points.push(CausalPoint { kind: self.kind, name: StringId(0), file: None, line: 0 });
        for number in 0..=self.effects.len() {
            let kind = if number == 0 { TargetKind::Placebo } else { TargetKind::Line };
            let share = if number == 0 { 0.0 } else { 0.2 };
            causal.targets.push(CausalTarget {
                kind,
                function: StringId(0),
                file: None,
                line: 0,
                share,
                samples: 9,
            });
        }
        causal
    }

    fn truth(&self, target: TargetId, speedup: f64) -> f64 {
        target.index().checked_sub(1).map_or(0.0, |at| self.effects[at](speedup))
    }

    /// Runs one experiment.
    fn run(&mut self, causal: &mut Causal, target: Option<TargetId>, speedup: f64) {
        let saved = target.map_or(0.0, |target| self.truth(target, speedup));
        // The CPU's speed varies by a factor of 2 within minutes.
        let drift = (0.5 * 2f64.ln() * (self.time / 95.0).sin()).exp();
        let mut noise = (self.noise * self.random.normal()).exp();
        if self.random.uniform() < self.outliers {
            noise *= 1.2 + 2.0 * self.random.uniform();
        }
        let period = 2e6 * drift * noise * (1.0 - saved);
        let count = (LENGTH_NS / period).floor().max(2.0);
        let experiment = ExperimentId::from(causal.experiments.len());
        causal.experiments.push(Experiment {
            start_ns: (self.time * 1e9) as u64,
            length_ns: LENGTH_NS as u64,
            target,
            speedup,
            delay_ns: 0,
            hits: 9,
            samples: 200,
            queued: 0.02,
            busy_threads: 2,
            waits: 0,
            run: 0,
        });
        let (last_ns, in_flight_ns) = (((count - 1.0) * period) as u64, (count * period) as u64);
        causal.visits.push(Visits {
            experiment,
            point: PointId(0),
            count: count as u64,
            first_ns: 0,
            last_ns,
            arrivals: count as u64,
            in_flight_ns,
        });
        self.time += 0.12;
    }

    /// Experiments until everything is decided, or at most so many.
    fn decide(&mut self, most: usize, seed: u64) -> (Causal, Schedule) {
        let mut causal = self.tables();
        let targets = (1..causal.targets.len()).map(TargetId::from);
        let mut schedule = Schedule::new(TargetId(0), targets, CPUS, seed);
        for _ in 0..most {
            let Some(next) = schedule.next(&causal) else { break };
            self.run(&mut causal, next.target, next.speedup);
        }
        (causal, schedule)
    }
}

fn all(speedup: f64) -> f64 {
    0.95 * speedup
}
fn half(speedup: f64) -> f64 {
    speedup.min(0.5) * 0.98
}
fn part(speedup: f64) -> f64 {
    0.3 * speedup
}
fn kink(speedup: f64) -> f64 {
    (0.4 * speedup).min(0.12)
}
fn small(speedup: f64) -> f64 {
    0.05 * speedup
}
fn costs(speedup: f64) -> f64 {
    -0.15 * speedup
}
fn nothing(_: f64) -> f64 {
    0.0
}

/// Counts the points of all curves that hold the truth, and all.
fn held(program: &Program, causal: &Causal) -> (usize, usize) {
    let found = estimate(causal, CPUS);
    let rows = found.points.iter().flat_map(|point| &point.rows);
    let points = rows.flat_map(|row| row.curve.iter().map(move |point| (row.target, point)));
    let held = points.clone().filter(|(target, point)| {
        let truth = program.truth(*target, point.speedup);
        point.low <= truth && truth <= point.high
    });
    (held.count(), points.count())
}

#[test]
fn intervals_hold_the_truth() {
    for (kind, noise, outliers) in [
        (PointKind::Throughput, 0.01, 0.0),
        (PointKind::Throughput, 0.03, 0.03),
        (PointKind::Throughput, 0.08, 0.05),
        (PointKind::Latency, 0.03, 0.03),
    ] {
        let (mut good, mut points) = (0, 0);
        for seed in 0..40 {
            let effects = [all, half, part, kink, small, costs, nothing];
            let mut program = Program::new(kind, &effects, noise, outliers, 100 + seed);
            let (causal, _) = program.decide(600, seed);
            let (held, of) = held(&program, &causal);
            (good, points) = (good + held, points + of);
        }
        let share = good as f64 / points as f64;
        println!("noise {noise} outliers {outliers}: {good} of {points} = {share:.4}");
        assert!(
            points >= 1000 && share >= 0.93,
            "noise {noise}, outliers {outliers}: {share:.4} of {points}"
        );
    }
}

#[test]
fn lines_without_an_effect_are_rarely_claimed_to_have_one() {
    for (noise, outliers) in [(0.01, 0.0), (0.03, 0.03), (0.08, 0.05)] {
        let (mut claims, mut lines, mut none) = (0, 0, 0);
        for seed in 0..60 {
            let effects: [fn(f64) -> f64; 6] = [nothing, nothing, nothing, nothing, nothing, part];
            let mut program = Program::new(PointKind::Throughput, &effects, noise, outliers, 900 + seed);
            let (causal, _) = program.decide(1500, seed);
            let found = estimate(&causal, CPUS);
            let rows = found.points[0].rows.iter().filter(|row| row.target.index() < 6);
            for row in rows {
                lines += 1;
                claims += usize::from(row.verdict == Verdict::Effect);
                none += usize::from(matches!(row.verdict, Verdict::None { .. }));
            }
        }
        println!("noise {noise}: {claims} claims, {none} none, of {lines}");
        assert_eq!(lines, 300);
        assert!(claims * 20 <= lines, "noise {noise}: {claims} of {lines}");
    }
}

#[test]
fn large_effects_are_found_and_decided_lines_stop() {
    let (mut found_effects, mut found_none, mut experiments) = (0, 0, 0);
    let (mut of_clear, mut of_null) = (0, 0);
    for seed in 0..40 {
        let effects: [fn(f64) -> f64; 3] = [half, part, nothing];
        let mut program = Program::new(PointKind::Throughput, &effects, 0.02, 0.02, 77 + seed);
        let (causal, schedule) = program.decide(2000, seed);
        let rows = &estimate(&causal, CPUS).points[0].rows;
        found_effects += rows.iter().filter(|row| row.target.0 < 3 && row.verdict == Verdict::Effect).count();
        let is_none = |row: &&whyslow_causal::Row| matches!(row.verdict, Verdict::None { .. });
        found_none += rows.iter().filter(|row| row.target.0 == 3).filter(is_none).count();
        let progress = schedule.progress();
        experiments += progress.experiments;
        assert_eq!((progress.decided, progress.missing), (3, 0), "seed {seed}");
        let of =
            |target| causal.experiments.iter().filter(|row| row.target == Some(TargetId(target))).count();
        (of_clear, of_null) = (of_clear + of(1), of_null + of(3));
    }
    println!("{found_effects} effects, {found_none} none, {} experiments a program", experiments / 40);
    assert!(2 * of_clear < of_null, "a clear effect needs fewer experiments: {of_clear}, {of_null}");
    assert_eq!(found_effects, 80);
    assert!(found_none >= 38, "{found_none}");
    assert!(experiments / 40 < 250, "{experiments}");
}

#[test]
fn the_number_of_missing_experiments_is_about_right() {
    let mut ratios = Vec::new();
    for seed in 0..30 {
        let mut program = Program::new(PointKind::Throughput, &[nothing], 0.06, 0.0, 500 + seed);
        let (causal, _) = program.decide(120, seed);
        let row = &estimate(&causal, CPUS).points[0].rows[0];
        let Verdict::Undecided { missing } = row.verdict else { continue };
        let predicted = (row.experiments + missing) as f64;
        let mut program = Program::new(PointKind::Throughput, &[nothing], 0.06, 0.0, 500 + seed);
        let (causal, _) = program.decide(4000, seed);
        let needed = estimate(&causal, CPUS).points[0].rows[0].experiments as f64;
        ratios.push(needed / predicted);
    }
    let median = whyslow_stats::median(&ratios);
    println!("{} programs, needed / predicted: median {median:.2}", ratios.len());
    assert!(ratios.len() >= 10 && (0.4..2.5).contains(&median), "{ratios:?}");
}
