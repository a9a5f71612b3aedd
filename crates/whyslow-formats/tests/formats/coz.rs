//! Experiments of the causal profiler coz: both forms of its file, broken ones, and what `export` writes.

use whyslow_analyze::Selection;
use whyslow_formats::export::{Export, LeftOut, write_coz};
use whyslow_formats::import::{self, Format, ImportOptions};
use whyslow_profile::{
    CausalTarget, Experiment, ExperimentId, ImportNote, Note, PointKind, Profile, TargetId, TargetKind,
    Visits,
};

use crate::support::{from_bytes, imported};

fn error(text: &str) -> String {
    import::import_bytes(text.as_bytes(), Some(Format::Coz), &ImportOptions::default())
        .unwrap_err()
        .to_string()
}

fn exported(profile: &Profile) -> (String, Vec<LeftOut>) {
    let selection = Selection::default();
    let mut bytes = Vec::new();
    let left_out = write_coz(&Export::new(profile, &selection, true), &mut bytes).unwrap();
    (String::from_utf8(bytes).unwrap(), left_out)
}

/// Progress per second of a point, with a speed-up of a target.
fn rate(profile: &Profile, target: &str, speedup: f64) -> f64 {
    let causal = &profile.causal;
    let of_target = |row: usize| {
        let id = causal.experiments[row].target.unwrap();
        let CausalTarget { file, line, .. } = causal.targets[id.index()];
        format!("{}:{line}", profile.text(file.unwrap())) == target
            && causal.experiments[row].speedup == speedup
    };
    let visits = causal.visits.iter().filter(|visits| {
        let is_throughput = causal.points[visits.point.index()].kind == PointKind::Throughput;
        is_throughput && of_target(visits.experiment.index())
    });
    let (mut count, mut time) = (0, 0);
    for visits in visits {
        count += visits.count;
        time += causal.experiments[visits.experiment.index()].virtual_ns();
    }
    count as f64 / time as f64 * 1e9
}

#[test]
fn both_forms_give_the_same_experiments() {
    let fields = imported("profile.coz", Format::Coz).profile;
    let json = imported("profile-json.coz", Format::Coz).profile;
    assert_eq!(fields, json);
    let causal = &fields.causal;
    assert_eq!((causal.experiments.len(), causal.visits.len(), causal.points.len()), (64, 128, 2));
    let targets: Vec<_> = causal
        .targets
        .iter()
        .map(|target| (fields.text(target.file.unwrap()), target.line, target.samples))
        .collect();
    assert!(targets.contains(&("src/server.c", 40, 605 + 1210)), "{targets:?}");
    assert!((causal.targets.iter().map(|target| target.share).sum::<f64>() - 0.985).abs() < 0.001);
    assert_eq!(causal.experiments.iter().map(|experiment| experiment.run).max(), Some(1));
    // A line that is worth 60 % of the time, and one that is worth nothing.
    let faster = rate(&fields, "src/server.c:40", 1.0) / rate(&fields, "src/server.c:40", 0.0);
    assert!((faster - 2.5).abs() < 0.1, "{faster}");
    let same = rate(&fields, "src/log.c:12", 1.0) / rate(&fields, "src/log.c:12", 0.0);
    assert!((same - 1.0).abs() < 0.1, "{same}");
    assert_eq!(fields.meta.notes, [Note::Import(ImportNote::CozExperiments)]);
    assert_eq!(
        (fields.meta.started_unix_ns, fields.meta.imported_from.as_deref()),
        (1_762_000_000_000_000_000, Some("coz"))
    );
}

#[test]
fn points_of_older_versions_and_latency_are_read() {
    let text = "startup\ttime=5\n\
                experiment\tselected=a.c:1\tspeedup=0.50\tduration=1000\tselected-samples=3\n\
                progress-point\tname=a.c:9\ttype=source\tdelta=4\n\
                latency-point\tname=ask\tarrivals=6\tdepartures=5\tdifference=2\n\
                experiment\tselected=/usr/include/coz.h:90\tspeedup=0.50\tduration=1000\tselected-samples=3\n\
                progress-point\tname=a.c:9\ttype=source\tdelta=4\n";
    let profile = from_bytes(text.as_bytes(), Format::Coz).profile;
    let [throughput, latency] = profile.causal.visits[..] else { panic!("{:?}", profile.causal) };
    assert_eq!((throughput.count, latency.count, latency.arrivals, latency.in_flight_ns), (4, 5, 6, 2000));
    assert_eq!((profile.causal.points[0].line, profile.causal.points[1].line), (9, 0));
}

#[test]
fn malformed_files_are_refused_with_their_line() {
    let experiment = "experiment\tselected=a.c:1\tspeedup=0.50\tduration=1000\tselected-samples=3\n";
    for (text, says) in [
        ("startup\ttime=5\n", "no experiments"),
        ("startup\ttime=5\nruntime\ttime=9\n", "no experiments"),
        ("experiment\tselected=a.c:1\tspeedup=1.50\tduration=1000\n", "line 1: a speedup of 1.5"),
        ("experiment\tselected=a.c:1\tspeedup=NaN\tduration=1000\n", "line 1: a speedup of NaN"),
        ("experiment\tselected=a.c:1\tspeedup=0.5\tduration=-3\n", "line 1: duration is not a number"),
        ("experiment\tspeedup=0.5\tduration=3\n", "line 1: an experiment without a selected line"),
        (
            "startup\ttime=5\nthroughput-point\tname=p\tdelta=3\n",
            "line 2: a point before the first experiment",
        ),
        (&format!("{experiment}throughput-point\tname=p\n"), "line 2: a point without a delta"),
        (&format!("{experiment}throughput-point\tdelta=1\n"), "line 2: a point without a name"),
        (
            &format!("{experiment}latency-point\tname=p\tarrivals=1\tdepartures=1\tdifference=NaN\n"),
            "line 2: a difference",
        ),
        (&format!("{experiment}\nnonsense\n"), "line 3: unknown kind of line: nonsense"),
        (&format!("{experiment}runtime\ttime\n"), "line 2: a field has no value"),
        (&format!("{experiment}{{\"type\":3}}\n"), "line 2: invalid type"),
    ] {
        let error = error(text);
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[test]
fn a_last_line_that_was_cut_off_is_noted() {
    let text =
        "startup\ttime=5\nexperiment\tselected=a.c:1\tspeedup=0.50\tduration=1000\nthroughput-point\tname=p";
    let profile = from_bytes(text.as_bytes(), Format::Coz).profile;
    assert!(matches!(
        &profile.meta.notes[0],
        Note::Import(ImportNote::UnreadableLines { lines: 1, first: 3, .. })
    ));
    assert_eq!((profile.causal.experiments.len(), profile.causal.visits.len()), (1, 0));
}

#[test]
fn an_export_is_read_back() {
    let profile = imported("profile.coz", Format::Coz).profile;
    let (text, left_out) = exported(&profile);
    assert_eq!(left_out, [LeftOut::ExperimentDetails]);
    let back = from_bytes(text.as_bytes(), Format::Coz).profile;
    assert_eq!(back.causal.experiments, profile.causal.experiments);
    assert_eq!(back.causal.visits, profile.causal.visits);
    assert_eq!(back.causal.targets.len(), profile.causal.targets.len());
}

#[test]
fn baselines_are_written_for_a_line_and_the_placebo_is_not() {
    let mut profile = imported("profile.coz", Format::Coz).profile;
    let function = profile.strings.push("app::hash");
    let experiment = |target: Option<usize>, speedup| Experiment {
        target: target.map(TargetId::from),
        speedup,
        length_ns: 1500,
        delay_ns: 500,
        ..profile.causal.experiments[0]
    };
    profile.causal.targets[1].kind = TargetKind::Placebo;
    profile.causal.targets.push(CausalTarget {
        kind: TargetKind::Function,
        function,
        ..profile.causal.targets[0]
    });
    profile.causal.experiments = vec![
        experiment(None, 0.0),
        experiment(Some(1), 0.5),
        experiment(None, 0.0),
        experiment(Some(2), 0.5),
        experiment(None, 0.0),
    ];
    let visits = profile.causal.visits[0];
    profile.causal.visits = (0..5)
        .map(|row| Visits { experiment: ExperimentId::from(row), count: row as u64, ..visits })
        .collect();
    let (text, _) = exported(&profile);
    let experiments: Vec<_> = text.lines().filter(|line| line.contains("experiment")).collect();
    let line = |speedup| {
        format!(
            r#"{{"type":"experiment","selected":"app::hash","speedup":{speedup},"duration":1000,"selected_samples":{}}}"#,
            profile.causal.experiments[0].hits
        )
    };
    assert_eq!(experiments, [line("0.0"), line("0.0"), line("0.5"), line("0.0")]);
    assert!(text.contains(r#""delta":3}"#) && !text.contains(r#""delta":1}"#), "{text}");
}
