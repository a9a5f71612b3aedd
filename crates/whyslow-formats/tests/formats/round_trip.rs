//! Exports can be imported again, with equal totals per function.

use std::collections::BTreeMap;
use std::io;

use proptest::prelude::*;
use whyslow_analyze::{Selection, testing};
use whyslow_formats::export::{
    Export, LeftOut, write_callgrind, write_chrome_trace, write_firefox, write_perf_script, write_pprof,
    write_speedscope,
};
use whyslow_formats::import::{self, Format, ImportOptions};
use whyslow_formats::{FoldedOptions, write_folded};
use whyslow_profile::{Counter, CounterId, Metric, MetricId, Profile, Samples, Span, ThreadId, Unit};

use crate::support::{from_bytes, sample, totals};

type Write = fn(&Export<'_>, &mut dyn io::Write) -> io::Result<Vec<LeftOut>>;

/// The formats that hold whole stacks.
const FORMATS: [(Format, Write); 4] = [
    (Format::Firefox, write_firefox),
    (Format::Pprof, write_pprof),
    (Format::Speedscope, write_speedscope),
    (Format::PerfScript, write_perf_script),
];

fn written(profile: &Profile, write: Write) -> Vec<u8> {
    let selection = Selection::default();
    let mut bytes = Vec::new();
    write(&Export::new(profile, &selection, true), &mut bytes).unwrap();
    bytes
}

#[track_caller]
fn survives(profile: &Profile) {
    for metric in profile.metric_ids() {
        let selection = Selection { metric, ..Selection::default() };
        let expected = totals(profile, metric);
        for (format, write) in FORMATS {
            let mut bytes = Vec::new();
            let notes = write(&Export::new(profile, &selection, true), &mut bytes).unwrap();
            let name = profile.text(profile.metrics[metric.index()].name);
            if notes.iter().any(
                |left| matches!(left, LeftOut::Metrics(names) if names.iter().any(|other| other == name)),
            ) {
                // pprof has four types for a heap, and a note names the metrics without a type.
                continue;
            }
            let back = from_bytes(&bytes, format).profile;
            assert_eq!(
                totals(&back, MetricId(0)),
                expected,
                "{format}, {}",
                profile.text(profile.metrics[metric.index()].name)
            );
        }
        let mut bytes = Vec::new();
        write_folded(profile, &selection, &FoldedOptions::default(), &mut bytes).unwrap();
        let back = from_bytes(&bytes, Format::Folded).profile;
        let readable = |name: &str| name.replace(';', ":");
        let expected: BTreeMap<String, (u64, u64)> =
            expected.into_iter().map(|(name, value)| (readable(&name), value)).collect();
        assert_eq!(totals(&back, MetricId(0)), expected, "folded");
    }
}

const STACKS: &str = "
    main@app.rs:3;a;b 10
    main;a 5
    worker: main;c@lib.rs:9;+d@lib.rs:30;b 20
    worker: main;a;a;a 4
    [truncated];b 1
    main;[libfoo.so] 2
    [unknown] 3
    std::rt::lang_start;main;core::fmt::write;sys_read 7";

/// Samples of one thread in a row, with a gap and a repeated stack.
fn timed() -> Profile {
    let mut profile = testing::profile(
        "main@app.rs:3;a;b 10\nmain;a 5\nworker: main;c@lib.rs:9;+d@lib.rs:30;b 20\nmain;a;a 4",
    );
    let samples = &mut profile.samples[0];
    for (row, time) in samples.time_ns.iter_mut().enumerate() {
        *time = [1_000, 1_010, 2_000, 9_000][row % 4];
    }
    profile
}

#[test]
fn slices_of_a_trace_add_up_to_the_samples() {
    let profile = timed();
    let bytes = written(&profile, write_chrome_trace);
    let back = from_bytes(&bytes, Format::ChromeTrace).profile;
    assert_eq!(totals(&back, MetricId(0)), totals(&profile, MetricId(0)));
    let names = |profile: &Profile| -> Vec<String> {
        profile.threads.iter().map(|thread| profile.text(thread.name).to_owned()).collect()
    };
    assert_eq!(names(&back), names(&profile));
}

#[test]
fn costs_of_functions_survive_in_callgrinds_format() {
    let profile = timed();
    let bytes = written(&profile, write_callgrind);
    let back = from_bytes(&bytes, Format::Callgrind).profile;
    assert_eq!(totals(&back, MetricId(0)), totals(&profile, MetricId(0)));
    let Ok(annotate) = annotated(&bytes) else { return };
    assert!(annotate.contains("PROGRAM TOTALS"), "{annotate}");
    assert!(
        annotate.lines().any(|line| line.contains("30,000,000 (76.92%)") && line.contains(":b ")),
        "{annotate}"
    );
}

/// What Valgrind's own tool prints, if it is installed.
fn annotated(bytes: &[u8]) -> io::Result<String> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("callgrind.out.1");
    std::fs::write(&path, bytes)?;
    let output =
        std::process::Command::new("callgrind_annotate").arg("--show-percs=yes").arg(&path).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn every_kind_of_frame_survives() {
    survives(&testing::profile(STACKS));
}

#[test]
fn every_sample_file_survives() {
    let folder = sample("");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(Result::unwrap)
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() > 10);
    for name in names {
        let (format, imported) = import::import(&sample(&name), None, &ImportOptions::default()).unwrap();
        println!("{name}: {format}");
        survives(&imported.profile);
    }
}

#[test]
fn firefox_keeps_times_threads_inlining_lines_spans_and_counters() {
    let mut profile = testing::profile(STACKS);
    let name = profile.strings.push("request");
    let detail = profile.strings.push("GET \"/\"");
    profile.spans = vec![
        Span { name, thread: Some(ThreadId(1)), start_ns: 1_000, end_ns: 2_000_001, detail: Some(detail) },
        Span { name, thread: Some(ThreadId(0)), start_ns: 5_000_000, end_ns: 5_000_000, detail: None },
    ];
    let memory = profile.strings.push("memory");
    profile.counters.push(Counter { name: memory, unit: Unit::Bytes, process: Some(0.into()) });
    for (time, value) in [(0, 4096), (1_500_000, 8192), (3_000_000, 1024)] {
        profile.counter_values.push(CounterId(0), time, value);
    }
    let back = from_bytes(&written(&profile, write_firefox), Format::Firefox).profile;
    assert_eq!(back.samples[0].time_ns, profile.samples[0].time_ns);
    assert_eq!(back.samples[0].value, profile.samples[0].value);
    assert_eq!(back.text(back.metrics[0].name), Metric::CPU_TIME);
    let threads = |profile: &Profile| -> Vec<(u32, String)> {
        profile.threads.iter().map(|thread| (thread.tid, profile.text(thread.name).to_owned())).collect()
    };
    assert_eq!(threads(&back), threads(&profile));
    let spans = |profile: &Profile| -> Vec<String> {
        let row = |span: &Span| {
            let detail = span.detail.map(|detail| profile.text(detail));
            let (name, thread) = (profile.text(span.name), span.thread);
            format!("{name} {thread:?} {}..{} {detail:?}", span.start_ns, span.end_ns)
        };
        let mut rows: Vec<_> = profile.spans.iter().map(row).collect();
        rows.sort();
        rows
    };
    assert_eq!(spans(&back), spans(&profile));
    assert_eq!(back.counter_values, profile.counter_values);
    let frames = |profile: &Profile| -> Vec<Vec<(String, Option<String>, u32)>> {
        let mut rows: Vec<_> = (1..profile.locations.len())
            .map(|row| {
                let frames = profile.frames.of(row.into()).iter();
                let shown = frames.map(|frame| {
                    let name = profile.text(profile.functions[frame.function.index()].name).to_owned();
                    let file = frame.file.filter(|_| frame.line > 0);
                    (name, file.map(|file| profile.text(file).to_owned()), frame.line)
                });
                shown.collect()
            })
            .collect();
        rows.sort();
        rows.dedup();
        rows
    };
    assert_eq!(frames(&back), frames(&profile));
    assert!(back.is_truncated(back.samples[0].stack[39]), "a truncated stack remains truncated");
}

#[test]
fn pprof_keeps_every_metric() {
    let mut profile = testing::profile(STACKS);
    let name = profile.strings.push("allocated-bytes");
    profile.metrics.push(Metric::unknown(name, Unit::Bytes));
    let mut bytes = Samples::default();
    for row in 0..profile.samples[0].len() {
        bytes.push(0, profile.samples[0].thread[row], profile.samples[0].stack[row], 64 * row as u64 + 1);
    }
    profile.samples.push(bytes);
    let back = from_bytes(&written(&profile, write_pprof), Format::Pprof).profile;
    let names: Vec<&str> = back.metrics.iter().map(|metric| back.text(metric.name)).collect();
    assert_eq!(names, ["cpu-time", "samples", "allocated-bytes"]);
    assert_eq!(totals(&back, MetricId(2)), totals(&profile, MetricId(1)));
    let threads: Vec<&str> = back.threads.iter().map(|thread| back.text(thread.name)).collect();
    assert_eq!(threads, ["main", "worker"]);
    assert_eq!(back.text(back.processes[0].name), "app");
}

#[test]
fn what_a_format_cannot_hold_is_reported() {
    let profile = testing::profile(STACKS);
    let selection = Selection::default();
    let left_out = |write: Write| write(&Export::new(&profile, &selection, true), &mut io::sink()).unwrap();
    assert_eq!(left_out(write_firefox), []);
    assert_eq!(left_out(write_pprof), [LeftOut::Times]);
    assert_eq!(left_out(write_speedscope)[..2], [LeftOut::Inlining, LeftOut::Gaps]);
    assert_eq!(left_out(write_perf_script), [LeftOut::Lines]);
}

#[test]
fn filters_apply() {
    let profile = testing::profile(STACKS);
    let selection = Selection { threads: vec!["worker".parse().unwrap()], ..Selection::default() };
    for (format, write) in FORMATS {
        let mut bytes = Vec::new();
        write(&Export::new(&profile, &selection, true), &mut bytes).unwrap();
        let back = from_bytes(&bytes, format).profile;
        let sum: u64 = back.samples[0].value.iter().sum();
        assert_eq!((sum, back.threads.len()), (24 * testing::SAMPLE_NS, 1), "{format}");
    }
}

#[test]
fn ten_thousand_frames_survive() {
    let deep =
        testing::profile(&format!("main{} 1", (0..10_000).map(|at| format!(";f{at}")).collect::<String>()));
    for (format, write) in FORMATS {
        let back = from_bytes(&written(&deep, write), format).profile;
        assert_eq!(back.locations_of(back.samples[0].stack[0]).count(), 10_001, "{format}");
    }
}

#[test]
fn deep_recursion_of_other_tools_is_left_out_as_in_recordings() {
    let deep = testing::profile(&format!("main;{} 1", vec!["f"; 10_000].join(";")));
    for (format, write) in FORMATS {
        let back = from_bytes(&written(&deep, write), format).profile;
        let locations: Vec<_> = back.locations_of(back.samples[0].stack[0]).collect();
        // In formats with addresses, every frame of this profile is a call from elsewhere.
        if back.locations.len() > 10_000 {
            continue;
        }
        assert_eq!(locations.len(), 130, "{format}");
        assert_eq!(locations.iter().filter(|location| back.is_left_out(**location)).count(), 1, "{format}");
        assert_eq!(back.meta.counters.deepest_stack, 10_001, "{format}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_profile_survives(
        stacks in prop::collection::vec((prop::collection::vec(0usize..7, 1..8), 0usize..3, 1u64..20), 1..30),
    ) {
        let names = ["main", "std::f", "+g@g.rs:4", "h@h.rs:9", "[libx.so]", "k<a b>", "+<T as app::U>::m"];
        let mut text = String::new();
        for (frames, thread, count) in &stacks {
            let frames: Vec<&str> = frames.iter().map(|&frame| names[frame]).collect();
            text.push_str(&format!("t{thread}: main;{} {count}\n", frames.join(";")));
        }
        survives(&testing::profile(&text));
    }
}
