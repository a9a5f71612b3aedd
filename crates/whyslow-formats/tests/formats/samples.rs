//! Imports real and handwritten files of other tools.

use whyslow_analyze::{Quality, Selection};
use whyslow_formats::export::{Export, write_dhat};
use whyslow_formats::import::{self, Format, ImportError, ImportOptions};
use whyslow_profile::{ImportNote, MetricId, Note, Profile, ProfileNs, Unit};

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
    assert_eq!(imported.profile.meta.notes, []);
    assert_eq!(metrics(profile), [("cpu-time", Unit::Nanoseconds)]);
    assert_eq!(
        threads(profile),
        [("perf-exec", 9263, "perf-exec", 9263), ("app", 9263, "app", 9263), ("app", 9263, "worker", 9265)]
    );
    assert_eq!((profile.samples[0].len(), profile.main_sampler().rate_hz), (60, 199));
    assert_eq!(profile.samples[0].value[0], 5_025_125);
    // Its addresses are not symbolised yet: they need the symbols of their modules.
    let modules: Vec<_> = profile
        .modules
        .iter()
        .map(|module| (profile.text(module.path), module.build_id.map(|id| profile.text(id))))
        .collect();
    assert_eq!(modules[1], ("/tmp/fmt/app", Some("a763f21ae0fa42def93d9dd80032630d6c9a6106")));
    assert_eq!(totals(profile, MetricId(0)).keys().collect::<Vec<_>>(), ["[app]", "[libc.so.6]"]);
}

#[test]
fn samplys_symbol_file_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    std::fs::copy(sample("samply.json"), &path).unwrap();
    let symbols = r#"{"string_table":["UNKNOWN","app::hash_all","app::mix","/src/app.rs"],"data":[
        {"debug_name":"app","debug_id":"1af263a7-fae0-de42-f93d-9dd80032630d","code_id":"","known_addresses":[[93141,0]],
         "symbol_table":[{"rva":93000,"symbol":1,"frames":[{"function":2,"file":3,"line":2},{"function":1,"file":3,"line":3}]}]}]}"#;
    std::fs::write(folder.path().join("run.syms.json"), symbols).unwrap();
    let (_, imported) = import::import(&path, None, &ImportOptions::default()).unwrap();
    let totals = totals(&imported.profile, MetricId(0));
    assert!(totals["app::mix"].0 > 0 && totals["app::hash_all"].0 == 0, "{totals:?}");
    assert_eq!(totals["app::mix"].1, totals["app::hash_all"].1);
}

#[test]
fn shared_tables_of_newer_versions_give_the_same_profile() {
    let (old, new) = (
        imported("samply.json", Format::Firefox).profile,
        imported("firefox-70.json", Format::Firefox).profile,
    );
    assert_eq!(totals(&old, MetricId(0)), totals(&new, MetricId(0)));
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
fn other_firefox_files_are_rejected_with_a_reason() {
    let error = |text: &str| {
        import::import_bytes(text.as_bytes(), Some(Format::Firefox), &ImportOptions::default())
            .unwrap_err()
            .to_string()
    };
    assert!(
        error(r#"{"meta":{"interval":1},"threads":[{"samples":{"schema":{"stack":0},"data":[[null]]}}]}"#)
            .contains("none of its samples can be shown; skipped samples without a stack: 1")
    );
    assert!(
        error(r#"{"meta":{"preprocessedProfileVersion":"x"},"threads":[]}"#)
            .contains("Firefox Profiler profile: byte ")
    );
}

#[test]
fn pprof_has_metrics_inlined_lines_and_threads() {
    let imported = imported("pprof.pb", Format::Pprof);
    let profile = &imported.profile;
    assert_eq!(metrics(profile), [("cpu-time", Unit::Nanoseconds), ("samples", Unit::Count)]);
    assert_eq!(
        lines(profile, MetricId(0)),
        ["main 10000000/40000000", "parse 0/30000000", "read 30000000/30000000"]
    );
    assert_eq!(lines(profile, MetricId(1)), ["main 1/4", "parse 0/3", "read 3/3"]);
    let labelled = ("app", 0, "worker request=GET /", 0);
    assert_eq!(threads(profile)[1], ("app", 0, "all threads", 0));
    assert_eq!(threads(profile)[0], labelled);
    assert_eq!((profile.main_sampler().rate_hz, profile.meta.duration_ns), (100, 2_000_000_000));
    assert_eq!(imported.profile.meta.notes, [Note::from(ImportNote::NoTimes)]);
    let frames = profile.frames.of(2.into());
    let shown: Vec<_> = frames
        .iter()
        .map(|frame| (profile.text(profile.functions[frame.function.index()].name), frame.line))
        .collect();
    assert_eq!(shown, [("parse", 33), ("read", 40)], "outermost first");
}

/// A message of protocol buffers: numbers, texts and messages by field.
fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (field, content) in fields {
        bytes.extend([field << 3 | 2, content.len() as u8]);
        bytes.extend(*content);
    }
    bytes
}

#[test]
fn pprof_fields_come_in_any_order() {
    let bytes = std::fs::read(sample("pprof.pb")).unwrap();
    // The value types are the first 12 bytes.
    let late = [&bytes[12..], &bytes[..12]].concat();
    let profile = from_bytes(&late, Format::Pprof).profile;
    assert_eq!(profile, imported("pprof.pb", Format::Pprof).profile);
}

#[test]
fn pprof_shows_a_metric_that_has_values() {
    // Value types: samples in count, cpu in nanoseconds. One sample of 5 and 0 at location 1, function 1,
    // named f.
    let file = message(&[
        (1, &[8, 1, 16, 2]),
        (1, &[8, 3, 16, 4]),
        (2, &[8, 1, 18, 2, 5, 0]),
        (4, &[8, 1, 34, 2, 8, 1]),
        (5, &[8, 1, 16, 5]),
        (6, b""),
        (6, b"samples"),
        (6, b"count"),
        (6, b"cpu"),
        (6, b"nanoseconds"),
        (6, b"f"),
    ]);
    let profile = from_bytes(&file, Format::Pprof).profile;
    assert_eq!(metrics(&profile), [("samples", Unit::Count), ("cpu-time", Unit::Nanoseconds)]);
    assert_eq!(lines(&profile, MetricId(0)), ["f 5/5"]);
}

#[test]
fn the_base_of_a_pprof_comparison_is_a_metric_of_its_own() {
    // A sample of 5, and one of -3 with the label that `-diff_base` adds.
    let minus_3 = [0xfd, 255, 255, 255, 255, 255, 255, 255, 255, 1];
    let base = [&[8, 1, 18, 10][..], &minus_3, &[26, 4, 8, 4, 16, 5]].concat();
    let file = message(&[
        (1, &[8, 1, 16, 2]),
        (2, &[8, 1, 18, 1, 5]),
        (2, &base),
        (4, &[8, 1, 34, 2, 8, 1]),
        (5, &[8, 1, 16, 3]),
        (6, b""),
        (6, b"samples"),
        (6, b"count"),
        (6, b"f"),
        (6, b"pprof::base"),
        (6, b"true"),
    ]);
    let imported = from_bytes(&file, Format::Pprof);
    let profile = &imported.profile;
    assert_eq!(metrics(profile), [("samples", Unit::Count), ("samples-before", Unit::Count)]);
    assert_eq!(
        (lines(profile, MetricId(0)), lines(profile, MetricId(1))),
        (vec!["f 5/5".to_owned()], vec!["f 3/3".to_owned()])
    );
    assert_eq!((imported.left_out, threads(profile).len()), (0, 1));
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
    assert_eq!(
        lines(&profile, MetricId(0)),
        ["main 3070000/6100000", "parse 1000000/3000000", "read 2030000/2030000"]
    );
    assert_eq!(threads(&profile).iter().map(|row| row.2).collect::<Vec<_>>(), ["thread one", "thread two"]);
    // Two threads, both from 0: 1 ms, 2 ms, 3 ms, and 20 µs, 30 µs, 50 µs.
    assert_eq!(profile.samples[0].time_ns, [0, 0, 20_000, 50_000, 1_000_000, 3_000_000]);
}

#[test]
fn dhat_has_times_in_each_spelling_of_microseconds() {
    for unit in ["us", "µs", "μs"] {
        let file = format!(
            r#"{{"dhatFileVersion":2,"mode":"rust-heap","verb":"Allocated","bklt":true,"bkacc":false,"tu":"{unit}","Mtu":"s",
            "tuth":10,"cmd":"./app","pid":1,"tg":20,"te":50,"ftbl":["[root]","0x1: app::main (main.rs:1:1)"],
            "pps":[{{"tb":8,"tbk":1,"tl":30,"mb":8,"mbk":1,"gb":8,"gbk":1,"eb":0,"ebk":0,"fs":[1]}}]}}"#
        );
        let profile = from_bytes(file.as_bytes(), Format::Dhat).profile;
        assert_eq!(profile.meta.duration_ns, 50_000, "{unit}");
        assert_eq!(profile.meta.heap.as_ref().unwrap().peak_ns, ProfileNs(20_000));
        assert_eq!(profile.heap.totals().lifetime_ns, 30_000);
    }
}

#[test]
fn dhat_has_totals_peak_and_end() {
    let profile = imported("dhat.json", Format::Dhat).profile;
    let names: Vec<&str> = metrics(&profile).iter().map(|metric| metric.0).collect();
    assert_eq!(
        names,
        [
            "bytes-allocated",
            "allocations",
            "bytes-freed",
            "read-bytes",
            "written-bytes",
            "live-at-peak",
            "live-at-exit"
        ]
    );
    assert_eq!(
        lines(&profile, MetricId(0)),
        ["brief 0/6400", "copy 0/9400", "kept 0/3000", "main 0/9400", "malloc 9400/9400"]
    );
    assert_eq!(lines(&profile, MetricId(1))[1], "copy 0/101");
    assert_eq!(lines(&profile, MetricId(5))[0], "brief 0/64");
    assert_eq!(
        lines(&profile, MetricId(6)),
        ["copy 0/3000", "kept 0/3000", "main 0/3000", "malloc 3000/3000"]
    );
    assert_eq!(profile.meta.command, ["./heap"]);
}

#[test]
fn an_imported_heap_works_in_every_view() {
    for (name, format) in [("dhat.json", Format::Dhat), ("heaptrack.txt", Format::Heaptrack)] {
        let imported = imported(name, format);
        let profile = &imported.profile;
        let facts = profile.meta.heap.as_ref().unwrap();
        let totals = profile.heap.totals();
        let sum = |name: &str| -> u64 {
            let metric = profile.metric_named(name).unwrap();
            profile.samples[metric.index()].value.iter().sum()
        };
        assert_eq!(facts.peak_bytes, totals.peak_bytes, "{name}");
        assert_eq!(sum("bytes-allocated"), totals.bytes_allocated, "{name}");
        assert_eq!(sum("allocations"), totals.allocations, "{name}");
        assert_eq!(sum("live-at-peak"), totals.peak_bytes, "{name}");
        assert_eq!(sum("live-at-exit"), totals.live_at_exit_bytes, "{name}");
        assert!(Quality::of(profile).heap.is_some_and(|heap| heap.only), "{name}");
        // Exporting it to DHAT again gives the same numbers.
        let selection = Selection::default();
        let mut bytes = Vec::new();
        write_dhat(&Export::new(profile, &selection, true), &mut bytes).unwrap();
        let back = from_bytes(&bytes, Format::Dhat).profile;
        let numbers = |profile: &Profile| {
            let totals = profile.heap.totals();
            (
                totals.allocations,
                totals.bytes_allocated,
                totals.peak_bytes,
                totals.live_at_exit_bytes,
                totals.frees,
            )
        };
        assert_eq!(numbers(&back), numbers(profile), "{name}");
        assert_eq!(self::totals(&back, MetricId(0)), self::totals(profile, MetricId(0)), "{name}");
    }
}

#[test]
fn heaptrack_import_agrees_with_heaptrack_print() {
    // heaptrack_print: 106 calls, 101 temporary, peak 87.77K. It also counts the first free after another one
    // as temporary if it is of the first kind of block.
    let profile = imported("heaptrack.txt", Format::Heaptrack).profile;
    let counts = profile.heap.totals();
    assert_eq!((counts.allocations, counts.temporary), (106, 100));
    assert_eq!(profile.meta.heap.as_ref().unwrap().peak_bytes, 5 * 3000 + 64 + 72_704);
    assert_eq!(totals(&profile, MetricId(0))["kept"], (0, 15_000));
    assert_eq!(totals(&profile, MetricId(0))["brief"], (0, 6_400));
}

#[test]
fn massifs_peak_is_divided_among_its_call_sites() {
    let profile = imported("massif.out.1", Format::Massif).profile;
    assert_eq!(metrics(&profile)[0], ("live-at-peak", Unit::Bytes));
    assert_eq!(totals(&profile, MetricId(0))["kept"].1, 15_000);
    assert_eq!(profile.text(profile.counters[0].name), "heap-live");
    assert_eq!(profile.counter_values.value.iter().max(), Some(&15_064));
}

#[test]
fn every_import_fits_the_file() {
    for name in [
        "samply.json",
        "firefox-70.json",
        "pprof.pb",
        "speedscope.json",
        "dhat.json",
        "heaptrack.txt",
        "massif.out.1",
    ] {
        let (_, imported) = import::import(&sample(name), None, &ImportOptions::default()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.whyslow");
        whyslow_profile::file::write(&path, &imported.profile).unwrap();
        assert_eq!(whyslow_profile::file::read(&path).unwrap(), imported.profile, "{name}");
    }
}

#[test]
fn unknown_files_are_reported_as_unknown() {
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
