//! Real and hand-made files of other tools, and what they say.

use whyslow_formats::import::{self, Format, ImportError, ImportOptions};
use whyslow_profile::{Profile, Unit};

use crate::support::{from_bytes, imported, lines, sample, totals};

fn metrics(profile: &Profile) -> Vec<(&str, Unit)> {
    profile.metrics.iter().map(|metric| (profile.text(metric.name), metric.unit)).collect()
}

fn threads(profile: &Profile) -> Vec<(&str, u32, &str, u32)> {
    let row = |thread: &whyslow_profile::Thread| {
        let process = &profile.processes[thread.process.index()];
        (profile.text(process.name), process.pid, profile.text(thread.name), thread.tid)
    };
    profile.threads.iter().map(row).collect()
}

#[test]
fn samplys_file_has_threads_modules_and_cpu_time() {
    let imported = imported("samply.json", Format::Firefox);
    let profile = &imported.profile;
    assert_eq!(imported.notes, Vec::<String>::new());
    assert_eq!(metrics(profile), [("cpu-time", Unit::Nanoseconds)]);
    assert_eq!(
        threads(profile),
        [("perf-exec", 9263, "perf-exec", 9263), ("app", 9263, "app", 9263), ("app", 9263, "worker", 9265)]
    );
    assert_eq!((profile.samples[0].len(), profile.meta.frequency_hz), (60, 199));
    assert_eq!(profile.samples[0].value[0], 5_025_125);
    // Nobody has looked up its addresses: they wait for the symbols of their modules.
    let modules: Vec<_> = profile
        .modules
        .iter()
        .map(|module| (profile.text(module.path), module.build_id.map(|id| profile.text(id))))
        .collect();
    assert_eq!(modules[1], ("/tmp/fmt/app", Some("a763f21ae0fa42def93d9dd80032630d6c9a6106")));
    assert_eq!(totals(profile, 0).keys().collect::<Vec<_>>(), ["[app]", "[libc.so.6]"]);
}

#[test]
fn the_symbols_that_samply_writes_beside_its_file_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    std::fs::copy(sample("samply.json"), &path).unwrap();
    let symbols = r#"{"string_table":["UNKNOWN","app::hash_all","app::mix","/src/app.rs"],"data":[
        {"debug_name":"app","debug_id":"1af263a7-fae0-de42-f93d-9dd80032630d","code_id":"","known_addresses":[[93141,0]],
         "symbol_table":[{"rva":93000,"symbol":1,"frames":[{"function":2,"file":3,"line":2},{"function":1,"file":3,"line":3}]}]}]}"#;
    std::fs::write(folder.path().join("run.syms.json"), symbols).unwrap();
    let (_, imported) = import::import(&path, None, &ImportOptions::default()).unwrap();
    let totals = totals(&imported.profile, 0);
    assert!(totals["app::mix"].0 > 0 && totals["app::hash_all"].0 == 0, "{totals:?}");
    assert_eq!(totals["app::mix"].1, totals["app::hash_all"].1);
}

#[test]
fn shared_tables_of_newer_versions_say_the_same() {
    let (old, new) = (
        imported("samply.json", Format::Firefox).profile,
        imported("firefox-70.json", Format::Firefox).profile,
    );
    assert_eq!(totals(&old, 0), totals(&new, 0));
    assert_eq!(old.samples[0].time_ns, new.samples[0].time_ns);
    let spans: Vec<_> = new
        .spans
        .iter()
        .map(|span| {
            (new.text(span.name), span.start_ns, span.end_ns, span.detail.map(|detail| new.text(detail)))
        })
        .collect();
    assert_eq!(
        spans,
        [("request", 10_000_000, 20_000_000, Some("first")), ("idle", 30_000_000, 45_500_000, None)]
    );
    assert_eq!((new.text(new.counters[0].name), new.counters[0].unit), ("malloc", Unit::Bytes));
    assert_eq!(new.counter_values.value, [100, 150, 120]);
}

#[test]
fn other_firefox_files_are_refused_with_a_reason() {
    let error = |text: &str| {
        import::import_bytes(text.as_bytes(), Some(Format::Firefox), &ImportOptions::default())
            .unwrap_err()
            .to_string()
    };
    assert!(error(r#"{"meta":{"interval":1},"threads":[]}"#).contains("not processed"));
    assert!(error(r#"{"meta":{"preprocessedProfileVersion":30},"threads":[]}"#).contains("version is 30"));
}

#[test]
fn pprof_has_metrics_inlined_lines_and_threads() {
    let imported = imported("pprof.pb", Format::Pprof);
    let profile = &imported.profile;
    assert_eq!(metrics(profile), [("cpu-time", Unit::Nanoseconds), ("samples", Unit::Count)]);
    assert_eq!(lines(profile, 0), ["main 10000000/40000000", "parse 0/30000000", "read 30000000/30000000"]);
    assert_eq!(lines(profile, 1), ["main 1/4", "parse 0/3", "read 3/3"]);
    assert_eq!(threads(profile), [("app", 0, "worker", 0), ("app", 0, "all threads", 0)]);
    assert_eq!((profile.meta.frequency_hz, profile.meta.duration_ns), (100, 2_000_000_000));
    assert_eq!(
        imported.notes,
        ["the format has no times: all samples are at the start", "labels are left out: request"]
    );
    let frames = profile.frames.of(2.into());
    let shown: Vec<_> = frames
        .iter()
        .map(|frame| (profile.text(profile.functions[frame.function.index()].name), frame.line))
        .collect();
    assert_eq!(shown, [("parse", 33), ("read", 40)], "outermost first");
}

#[test]
fn pprof_may_be_packed() {
    use std::io::Write;
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(&std::fs::read(sample("pprof.pb")).unwrap()).unwrap();
    let profile = from_bytes(&packer.finish().unwrap(), Format::Pprof).profile;
    assert_eq!(profile, imported("pprof.pb", Format::Pprof).profile);
}

#[test]
fn speedscope_has_samples_and_events() {
    let profile = imported("speedscope.json", Format::Speedscope).profile;
    assert_eq!(metrics(&profile), [("time", Unit::Nanoseconds)]);
    assert_eq!(lines(&profile, 0), ["main 3070000/6100000", "parse 1000000/3000000", "read 2030000/2030000"]);
    assert_eq!(threads(&profile).iter().map(|row| row.2).collect::<Vec<_>>(), ["thread one", "thread two"]);
    // Two threads, both from 0: 1 ms, 2 ms, 3 ms, and 20 µs, 30 µs, 50 µs.
    assert_eq!(profile.samples[0].time_ns, [0, 0, 20_000, 50_000, 1_000_000, 3_000_000]);
}

#[test]
fn dhat_has_totals_peak_and_end() {
    let profile = imported("dhat.json", Format::Dhat).profile;
    let names: Vec<&str> = metrics(&profile).iter().map(|metric| metric.0).collect();
    assert_eq!(
        names,
        [
            "allocated-bytes",
            "allocations",
            "peak-bytes",
            "peak-blocks",
            "end-bytes",
            "end-blocks",
            "read-bytes",
            "written-bytes"
        ]
    );
    assert_eq!(
        lines(&profile, 0),
        ["brief 0/6400", "copy 0/9400", "kept 0/3000", "main 0/9400", "malloc 9400/9400"]
    );
    assert_eq!(lines(&profile, 1)[1], "copy 0/101");
    assert_eq!(lines(&profile, 2)[0], "brief 0/64");
    assert_eq!(lines(&profile, 4), ["copy 0/3000", "kept 0/3000", "main 0/3000", "malloc 3000/3000"]);
    assert_eq!(profile.meta.command, ["./heap"]);
}

#[test]
fn every_import_fits_the_file() {
    for name in ["samply.json", "firefox-70.json", "pprof.pb", "speedscope.json", "dhat.json"] {
        let (_, imported) = import::import(&sample(name), None, &ImportOptions::default()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.whyslow");
        whyslow_profile::file::write(&path, &imported.profile).unwrap();
        assert_eq!(whyslow_profile::file::read(&path).unwrap(), imported.profile, "{name}");
    }
}

#[test]
fn what_is_nothing_known_is_said_to_be_unknown() {
    for bytes in [
        &b""[..],
        b"hello world\n",
        b"\x7fELF\x02\x01\x01",
        b"{\"a\": 1}",
        b"[1, 2]",
        b"\0\0\0\0",
        &[0xff; 100],
    ] {
        let error = import::import_bytes(bytes, None, &ImportOptions::default()).unwrap_err();
        assert!(matches!(error, ImportError::UnknownFormat), "{bytes:?}: {error}");
    }
}
