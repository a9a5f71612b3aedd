//! Experiments of causal profiling: golden file, streaming, invalid shares, pooling.

use std::path::Path;

use whyslow_profile::{
    Builder, CausalNote, CausalPoint, CausalTarget, Experiment, Meta, PointKind, Pool, Profile, TargetKind,
    Visits, file,
};

use crate::support;

const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

/// A recording with a line, the placebo and three experiments; appended to a file in two parts.
fn recorded(path: &Path) -> Profile {
    let meta =
        Meta { notes: vec![CausalNote::CausalDelays { delayed_permille: 12 }.into()], ..Meta::default() };
    let mut writer = file::Writer::new(std::fs::File::create(path).unwrap(), &meta).unwrap();
    let mut builder = Builder::new();
    let (name, function) = (builder.string("handle"), builder.string("app::parse"));
    let (placebo, source) = (builder.string("[placebo]"), builder.string("src/parse.rs"));
    let requests = CausalPoint { kind: PointKind::Throughput, name, file: Some(source), line: 9 };
    let requests = builder.progress_point(requests);
    let in_flight = CausalPoint { kind: PointKind::Latency, name, file: None, line: 0 };
    let in_flight = builder.progress_point(in_flight);
    let parse = builder.causal_target(CausalTarget {
        kind: TargetKind::Line,
        function,
        file: Some(source),
        line: 120,
        share: 0.0,
        samples: 0,
    });
    builder.causal_target(CausalTarget {
        kind: TargetKind::Placebo,
        function: placebo,
        file: None,
        line: 0,
        share: 0.0,
        samples: 0,
    });
    writer.append(&mut builder).unwrap();
    for (number, speedup) in [(0, 0.0), (1, 0.25), (2, 0.0)] {
        let experiment = builder.experiment(Experiment {
            start_ns: 1_000_000_000 + number * 120_000_000,
            length_ns: 102_000_000,
            target: (speedup > 0.0).then_some(parse),
            speedup,
            delay_ns: (speedup * 40_000_000.0) as u64,
            hits: 80 * number % 2,
            samples: 200,
            queued: 0.015625,
            busy_threads: 2,
            waits: 0,
            run: 0,
        });
        builder.visits(Visits {
            experiment,
            point: requests,
            count: 26,
            first_ns: 1_000_000,
            last_ns: 101_000_000,
            arrivals: 0,
            in_flight_ns: 0,
        });
        builder.visits(Visits {
            experiment,
            point: in_flight,
            count: 26,
            first_ns: 1_000_000,
            last_ns: 101_000_000,
            arrivals: 25,
            in_flight_ns: 260_000_000,
        });
        if number == 1 {
            builder.update_causal_target(parse, |row| (row.share, row.samples) = (0.4, 80));
            writer.append(&mut builder).unwrap();
        }
    }
    writer.append(&mut builder).unwrap();
    writer.seal().unwrap();
    file::read(path).unwrap()
}

/// `WHYSLOW_REGENERATE_GOLDEN=1 cargo test -p whyslow-profile golden` rewrites the file. Do that only before the
/// first release with these tables.
#[test]
fn the_golden_file_with_experiments_remains_readable() {
    let golden = Path::new(FOLDER).join("tests/golden/causal.whyslow");
    let folder = tempfile::tempdir().unwrap();
    let expected = recorded(&folder.path().join("new.whyslow"));
    if std::env::var_os("WHYSLOW_REGENERATE_GOLDEN").is_some() {
        file::write(&golden, &expected).unwrap();
    }
    let read = file::read(&golden).unwrap();
    assert_eq!(read, expected);
    let target = &read.causal.targets[0];
    assert_eq!((read.text(target.function), target.line, target.share), ("app::parse", 120, 0.4));
    let experiment = &read.causal.experiments[1];
    assert_eq!((experiment.virtual_ns(), experiment.is_baseline()), (92_000_000, false));
    assert!(read.causal.experiments[2].is_baseline());
    assert_eq!(read.causal.visits[3].in_flight_ns, 260_000_000);
}

#[test]
fn shares_that_are_no_shares_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let profile = recorded(&folder.path().join("p.whyslow"));
    for share in [f64::NAN, f64::INFINITY, -0.5, 1.5] {
        let mut wrong = profile.clone();
        wrong.causal.experiments[0].speedup = share;
        file::read_bytes(&support::file_bytes(&wrong)).unwrap_err();
        let mut wrong = profile.clone();
        wrong.causal.targets[0].share = share;
        file::read_bytes(&support::file_bytes(&wrong)).unwrap_err();
    }
    let mut wrong = profile.clone();
    wrong.causal.experiments[0].queued = 1.5;
    assert_eq!(file::read_bytes(&support::file_bytes(&wrong)).unwrap(), wrong, "several threads can queue");
    wrong.causal.experiments[0].queued = f64::NAN;
    file::read_bytes(&support::file_bytes(&wrong)).unwrap_err();
}

#[test]
fn pooled_experiments_share_targets_and_keep_their_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mut one = recorded(&folder.path().join("p.whyslow"));
    one.meta.duration_ns = 2_000_000_000;
    let mut pool = Pool::new();
    pool.add(&one);
    pool.add(&one);
    let pooled = pool.finish().causal;
    assert_eq!((pooled.points.len(), pooled.targets.len(), pooled.experiments.len()), (2, 2, 6));
    let runs = pooled.experiments.iter().map(|row| row.run).collect::<Vec<_>>();
    assert_eq!(runs, [0, 0, 0, 1, 1, 1]);
    assert_eq!((pooled.targets[0].samples, pooled.targets[0].share), (160, 0.4));
    assert_eq!(pooled.experiments[4].start_ns, 2_000_000_000 + one.causal.experiments[1].start_ns);
    assert_eq!(pooled.experiments[4].target, one.causal.experiments[1].target);
    assert_eq!(pooled.visits[8].experiment.index(), 4);
}
