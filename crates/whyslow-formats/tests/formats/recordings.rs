//! Imports recordings of perf, Valgrind, Chrome and V8.

use whyslow_formats::import::{self, Format, ImportOptions, Imported};
use whyslow_profile::{CodeKind, ImportNote, KernelView, MetricId, ModuleKind, Note, Profile, Unit};

use crate::support::{imported, totals};

fn metrics(imported: &Imported) -> Vec<(&str, Unit, usize, u64)> {
    let profile = &imported.profile;
    let rows = profile.metrics.iter().zip(&profile.samples);
    rows.map(|(metric, samples)| {
        (profile.text(metric.name), metric.unit, samples.len(), samples.value.iter().sum())
    })
    .collect()
}

fn threads(profile: &Profile) -> Vec<&str> {
    profile.threads.iter().map(|thread| profile.text(thread.name)).collect()
}

fn program(profile: &Profile) -> (&str, Option<&str>) {
    let module = profile.modules.iter().find(|module| module.kind == ModuleKind::Program).unwrap();
    (profile.text(module.path), module.build_id.map(|id| profile.text(id)))
}

#[test]
fn perf_data_with_stack_bytes() {
    let imported = imported("stacks.perf.data", Format::PerfData);
    let profile = &imported.profile;
    assert_eq!(metrics(&imported), [("cpu-time", Unit::Nanoseconds, 19, 191_919_190)]);
    assert_eq!(threads(profile), ["ratio-release", "worker-0", "worker-1"]);
    assert_eq!(profile.processes.len(), 1);
    assert_eq!(profile.meta.command, ["target/lab/ratio-release", "2", "200"]);
    assert_eq!((profile.main_sampler().rate_hz, profile.meta.host.arch.as_str()), (99, "x86_64"));
    assert_eq!(profile.meta.kernel, KernelView::Hidden);
    assert!(profile.meta.duration_ns > 90_000_000 && profile.meta.duration_ns < 1_000_000_000);
    let (path, build_id) = program(profile);
    assert!(path.ends_with("/ratio-release"));
    assert_eq!(build_id, Some("7d622513ee60ec748d3771357008c7f2af25411d"));
    // Every sample starts in the program, even on a machine without its file.
    let leaves = profile.samples[0].stack.iter().map(|stack| profile.stacks.location(*stack));
    assert!(leaves.clone().all(|leaf| profile.locations.module[leaf.index()].is_some()));
}

#[test]
fn perf_data_with_callchains_and_two_events() {
    let imported = imported("callchains.perf.data", Format::PerfData);
    let expected = [("cpu-time", Unit::Nanoseconds, 38, 190_954_750), ("page-faults", Unit::Count, 5, 631)];
    assert_eq!(metrics(&imported), expected);
    let profile = &imported.profile;
    assert_eq!(threads(profile), ["ratio-frame-poi", "worker-0", "worker-1"]);
    let deepest = profile.samples[0].stack.iter().map(|stack| profile.locations_of(*stack).count()).max();
    assert!(deepest.unwrap() >= 8, "{deepest:?}");
    let kernel = profile.modules.iter().filter(|module| module.kind == ModuleKind::Kernel).count();
    assert_eq!(kernel, 1);
    assert_eq!(imported.profile.meta.notes[0], Note::from(ImportNote::KernelCallchains));
}

#[test]
fn perf_data_of_a_group_has_every_counter() {
    // perf record -e '{cpu-clock,page-faults,task-clock}:S'; `perf script -F event,period` prints the same
    // values.
    let imported = imported("group.perf.data", Format::PerfData);
    let expected = [
        ("cpu-time", Unit::Nanoseconds, 30, 303_756_928),
        ("page-faults", Unit::Count, 1, 48),
        ("task-clock", Unit::Nanoseconds, 30, 303_283_666),
    ];
    assert_eq!(metrics(&imported), expected);
    let profile = &imported.profile;
    assert!(profile.samples[0].stack.iter().all(|stack| profile.locations_of(*stack).count() > 1));
}

#[test]
fn an_import_without_any_sample_is_an_error() {
    // Truncates the counters of each sample: their number is the first word after the period.
    let mut bytes = std::fs::read(crate::support::sample("group.perf.data")).unwrap();
    let (three, many) = (3_u64.to_le_bytes(), 99_u64.to_le_bytes());
    let counts: Vec<usize> = (0..bytes.len() - 8).filter(|&at| bytes[at..at + 8] == three).collect();
    for at in counts.into_iter().filter(|at| at % 8 == 0) {
        bytes[at..at + 8].copy_from_slice(&many);
    }
    let error = import::import_bytes(&bytes, None, &ImportOptions::default()).unwrap_err().to_string();
    assert!(error.contains("none of its samples can be shown"), "{error}");
    assert!(error.contains("skipped unknown records: 30"), "{error}");
}

#[test]
fn perf_data_from_a_pipe_and_compressed() {
    let piped = imported("pipe.perf.data", Format::PerfData);
    assert_eq!(metrics(&piped), [("cpu-time", Unit::Nanoseconds, 18, 90_452_250)]);
    assert_eq!(piped.profile.meta.host.arch, "x86_64", "a pipe also describes its machine");
    let packed = imported("packed.perf.data", Format::PerfData);
    assert_eq!(metrics(&packed), [("cpu-time", Unit::Nanoseconds, 303, 303_911_727)]);
    assert_eq!(threads(&packed.profile), ["ratio-release", "worker-0", "worker-1"]);
    assert!(packed.profile.samples[0].time_ns.is_sorted());
}

#[test]
fn messages_after_the_records_of_a_pipe_are_skipped() {
    // perf record -o - … > file 2>&1
    let mut bytes = std::fs::read(crate::support::sample("pipe.perf.data")).unwrap();
    bytes.extend_from_slice(b"[ perf record: Woken up 1 times to write data ]\n");
    let (_, piped) = import::import_bytes(&bytes, None, &ImportOptions::default()).unwrap();
    assert_eq!(metrics(&piped), [("cpu-time", Unit::Nanoseconds, 18, 90_452_250)]);
    assert_eq!(piped.left_out, 1);
}

#[test]
fn perf_script_text() {
    let imported = imported("perf-script.txt", Format::PerfScript);
    let expected = [("cpu-time", Unit::Nanoseconds, 50, 202_990_858), ("page-faults", Unit::Count, 5, 631)];
    assert_eq!(metrics(&imported), expected);
    let totals = totals(&imported.profile, MetricId(0));
    assert_eq!(totals["ratio::alpha"], (75_366_795, 80_391_920));
    let function = |name: &str| {
        let profile = &imported.profile;
        profile.functions.iter().find(|function| profile.text(function.name) == name).unwrap()
    };
    assert_eq!(function("__schedule").kind, CodeKind::Kernel);
    assert_eq!(function("start_thread").kind, CodeKind::Runtime);
    assert_eq!(function("ratio::rounds").kind, CodeKind::Yours);
}

#[test]
fn folded_stacks() {
    let imported = imported("folded.txt", Format::Folded);
    assert_eq!(metrics(&imported), [("samples", Unit::Count, 15, 3_042_126_297)]);
    assert_eq!(totals(&imported.profile, MetricId(0))["ratio::alpha"].0, 1_505_516_509);
}

#[test]
fn callgrind_output_agrees_with_callgrind_annotate() {
    let imported = imported("callgrind.out.1", Format::Callgrind);
    let expected = [
        ("Ir", Unit::Count, 99_011),
        ("Bc", Unit::Count, 13_877),
        ("Bcm", Unit::Count, 177),
        ("calls", Unit::Count, 195),
    ];
    let found: Vec<_> =
        metrics(&imported).into_iter().map(|(name, unit, _, sum)| (name, unit, sum)).collect();
    assert_eq!(found, expected);
    let totals = totals(&imported.profile, MetricId(0));
    // callgrind_annotate, without and with --inclusive=yes
    assert_eq!(totals["main"], (365, 99_011));
    assert_eq!(totals["mid"], (1_000, 96_525));
    assert_eq!(totals["leaf"], (97_235, 97_235));
}

#[test]
fn cachegrind_output_agrees_with_cg_annotate() {
    let imported = imported("cachegrind.out.1", Format::Cachegrind);
    assert_eq!(metrics(&imported)[0].3, 222_538);
    let totals = totals(&imported.profile, MetricId(0));
    assert_eq!((totals["leaf"], totals["main"]), ((97_235, 97_235), (365, 365)));
    assert!(!totals.contains_key("[truncated stack]"));
}

#[test]
fn chrome_traces_and_v8_profiles() {
    let trace = imported("chrome-trace.json", Format::ChromeTrace);
    assert_eq!(
        metrics(&trace),
        [("wall-time", Unit::Nanoseconds, 6, 150_000), ("cpu-time", Unit::Nanoseconds, 2, 40_000)]
    );
    assert_eq!((trace.profile.spans.len(), trace.profile.counters.len()), (6, 2));
    assert_eq!(totals(&trace.profile, MetricId(0))["outer"], (120_000, 150_000));
    let v8 = imported("v8.cpuprofile", Format::ChromeTrace);
    // The last of its samples lasts until `endTime`.
    assert_eq!(totals(&v8.profile, MetricId(0))["main"], (820_000, 850_000));
}
