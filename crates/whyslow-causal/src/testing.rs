//! Experiments for tests: a profile with targets whose effects are known.

use whyslow_profile::{
    CausalPoint, CausalTarget, Experiment, ExperimentId, PointId, PointKind, Profile, TargetId, TargetKind,
    Visits,
};
use whyslow_stats::random::Random;

use crate::schedule::SPEEDUPS;

/// A line with its function, file, number, CPU share, and the share of time that a speed-up saves.
pub type Line<'a> = (&'a str, &'a str, u32, f64, fn(f64) -> f64);

/// The time of a visit without a speed-up.
const VISIT_NS: f64 = 2e6;
const LENGTH_NS: u64 = 102_000_000;

/// Adds a progress point, the placebo, these lines, and so many experiments with each of their speed-ups. Their periods
/// scatter by 1 %.
pub fn add_experiments(profile: &mut Profile, point: &str, lines: &[Line<'_>], blocks: usize) {
    let mut random = Random::new(5);
    let name = profile.strings.push(point);
    let placebo = profile.strings.push("[placebo]");
    let none = CausalTarget {
        kind: TargetKind::Placebo,
        function: placebo,
        file: None,
        line: 0,
        share: 0.0,
        samples: 0,
    };
    profile.meta.host.cpus = 2;
    profile.causal.points = vec![CausalPoint { kind: PointKind::Throughput, name, file: None, line: 0 }];
    profile.causal.targets = vec![none];
    for (function, file, line, share, _) in lines {
        let (function, file) = (profile.strings.push(function), profile.strings.push(file));
        let samples = (share * 1000.0) as u64;
        let (kind, file) = (TargetKind::Line, Some(file));
        profile.causal.targets.push(CausalTarget {
            kind,
            function,
            file,
            line: *line,
            share: *share,
            samples,
        });
    }
    let mut add = |target: Option<usize>, speedup: f64, saved: f64, hits: u64| {
        let causal = &mut profile.causal;
        let experiment = ExperimentId::from(causal.experiments.len());
        let start_ns = 120_000_000 * experiment.index() as u64;
        causal.experiments.push(Experiment {
            start_ns,
            length_ns: LENGTH_NS,
            target: target.map(TargetId::from),
            speedup,
            delay_ns: (speedup * saved * 1e7) as u64,
            hits,
            samples: 200,
            queued: 0.02,
            busy_threads: 2,
            waits: 0,
            run: 0,
        });
        let period = VISIT_NS * (1.0 - saved) * (0.01 * random.normal()).exp();
        let count = (LENGTH_NS as f64 / period) as u64;
        let last_ns = ((count - 1) as f64 * period) as u64;
        let in_flight_ns = (count as f64 * period) as u64;
        let point = PointId(0);
        let arrivals = count;
        causal.visits.push(Visits { experiment, point, count, first_ns: 0, last_ns, arrivals, in_flight_ns });
        profile.meta.duration_ns = start_ns + LENGTH_NS;
    };
    add(None, 0.0, 0.0, 0);
    for block in 0..blocks {
        add(Some(0), SPEEDUPS[block % SPEEDUPS.len()], 0.0, 0);
        add(None, 0.0, 0.0, 0);
        for speedup in SPEEDUPS {
            for (at, (_, _, _, share, saved)) in lines.iter().enumerate() {
                add(Some(at + 1), speedup, saved(speedup), (share * 200.0) as u64);
                add(None, 0.0, 0.0, 0);
            }
        }
    }
}
