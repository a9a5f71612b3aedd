//! Everything in a profile reaches the viewer.

use whyslow_analyze::heap::Sites;
use whyslow_analyze::{Quality, testing};
use whyslow_profile::{
    Growth, GrowthBar, HeapCounts, HistogramBar, HistogramOf, LocationId, MetricId, Profile, StackId,
    StringId,
};
use whyslow_render::html::{Page, write_payload};
use whyslow_render::json;

use crate::decoder::{NONE, Payload};
use crate::program::program;

fn payload(profile: &Profile) -> Payload {
    let mut bytes = Vec::new();
    write_payload(&Page::new(profile, "run.whyslow"), &mut bytes).unwrap();
    Payload::decode(&bytes)
}

fn or_none(id: Option<u32>) -> u32 {
    id.unwrap_or(NONE)
}

/// Compares numbers where NaN means "missing".
#[track_caller]
fn same(decoded: &[f64], expected: impl Iterator<Item = Option<u64>>) {
    let shown = |value: f64| if value.is_nan() { None } else { Some(value) };
    let decoded = decoded.iter().map(|value| shown(*value)).collect::<Vec<_>>();
    assert_eq!(decoded, expected.map(|value| value.map(|value| value as f64)).collect::<Vec<_>>());
}

#[test]
fn the_header_says_what_was_recorded() {
    let profile = program();
    let header = payload(&profile).header;
    assert_eq!(header["schema"], "whyslow-view/1");
    assert_eq!(
        header["context"],
        serde_json::json!({
            "command": ["./app"], "file": "run.whyslow", "duration_ns": 10_000_000, "samples": 10,
            "recorder": "whyslow 1.2.3", "started_unix_ns": 1_700_000_000_000_000_000u64,
        })
    );
    let quality = Quality::of(&profile);
    let sites = Sites::build(&profile);
    let context = json::Context {
        profile: &profile,
        metric: MetricId(0),
        quality: &quality,
        sites: Some(&sites),
        site_limit: 0,
    };
    let report: serde_json::Value =
        serde_json::from_str(&json::to_string(&json::quality(&context, 0)).unwrap()).unwrap();
    assert_eq!(header["quality"], report["quality"]);
}

#[test]
fn processes_threads_and_modules() {
    let profile = program();
    let payload = payload(&profile);
    let text = |id: StringId| Some(profile.text(id).to_owned());
    let rows = &profile.processes;
    assert_eq!(payload.u32("processes.pid"), rows.iter().map(|row| row.pid).collect::<Vec<_>>());
    assert_eq!(payload.u32("processes.parent"), [NONE]);
    assert_eq!(payload.texts("processes.name"), rows.iter().map(|row| text(row.name)).collect::<Vec<_>>());
    same(&payload.f64("processes.start"), rows.iter().map(|row| Some(row.start_ns)));
    same(&payload.f64("processes.end"), rows.iter().map(|row| row.end_ns));
    let rows = &profile.threads;
    assert_eq!(payload.u32("threads.process"), rows.iter().map(|row| row.process.0).collect::<Vec<_>>());
    assert_eq!(payload.u32("threads.tid"), rows.iter().map(|row| row.tid).collect::<Vec<_>>());
    assert_eq!(payload.texts("threads.name"), rows.iter().map(|row| text(row.name)).collect::<Vec<_>>());
    same(&payload.f64("threads.start"), rows.iter().map(|row| Some(row.start_ns)));
    same(&payload.f64("threads.end"), rows.iter().map(|row| row.end_ns));
    let rows = &profile.modules;
    assert_eq!(payload.texts("modules.path"), rows.iter().map(|row| text(row.path)).collect::<Vec<_>>());
    assert_eq!(payload.u8("modules.kind"), rows.iter().map(|row| row.kind.code()).collect::<Vec<_>>());
}

#[test]
fn functions_locations_frames_and_stacks() {
    let profile = program();
    let payload = payload(&profile);
    let text = |id: Option<StringId>| id.map(|id| profile.text(id).to_owned());
    let rows = &profile.functions;
    let texts = |of: fn(&whyslow_profile::Function) -> Option<StringId>| {
        rows.iter().map(|row| text(of(row))).collect::<Vec<_>>()
    };
    assert_eq!(payload.texts("functions.name"), texts(|row| Some(row.name)));
    assert_eq!(payload.texts("functions.crate"), texts(|row| row.crate_name));
    assert_eq!(payload.texts("functions.file"), texts(|row| row.file));
    assert_eq!(payload.u8("functions.kind"), rows.iter().map(|row| row.kind.code()).collect::<Vec<_>>());
    assert_eq!(payload.u32("functions.line"), rows.iter().map(|row| row.line).collect::<Vec<_>>());
    let modules = rows.iter().map(|row| or_none(row.module.map(|module| module.0)));
    assert_eq!(payload.u32("functions.module"), modules.collect::<Vec<_>>());

    let locations = &profile.locations;
    let modules = locations.module.iter().map(|module| or_none(module.map(|module| module.0)));
    assert_eq!(payload.u32("locations.module"), modules.collect::<Vec<_>>());
    same(&payload.f64("locations.address"), locations.address.iter().map(|address| Some(address.0)));
    let starts = payload.u32("locations.frames");
    assert_eq!(starts.len(), locations.len() + 1);
    let (function, file, line) =
        (payload.u32("frames.function"), payload.texts("frames.file"), payload.u32("frames.line"));
    assert_eq!(*starts.last().unwrap() as usize, function.len());
    for (location, range) in starts.windows(2).enumerate() {
        let decoded: Vec<_> = (range[0] as usize..range[1] as usize)
            .map(|row| (function[row], file[row].clone(), line[row]))
            .collect();
        let expected = profile.frames.of(LocationId::from(location)).iter();
        let expected: Vec<_> = expected.map(|row| (row.function.0, text(row.file), row.line)).collect();
        assert_eq!(decoded, expected);
    }

    let stacks = (0..profile.stacks.len()).map(StackId::from);
    let expected =
        stacks.map(|id| (or_none(profile.stacks.parent(id).map(|id| id.0)), profile.stacks.location(id).0));
    let (parents, locations): (Vec<_>, Vec<_>) = expected.unzip();
    assert_eq!((payload.u32("stacks.parent"), payload.u32("stacks.location")), (parents, locations));
}

#[test]
fn samples_of_each_metric_in_order_of_time() {
    let profile = program();
    let payload = payload(&profile);
    assert_eq!(payload.texts("metrics.name"), ["cpu-time", "allocated"].map(|name| Some(name.to_owned())));
    assert_eq!(payload.u8("metrics.unit"), [1, 2]);
    for (metric, samples) in profile.samples.iter().enumerate() {
        let mut expected: Vec<_> = (0..samples.len())
            .map(|row| {
                let (thread, stack) = (samples.thread[row].0, samples.stack[row].0);
                (samples.time_ns[row] / 1000, thread, stack, samples.value[row])
            })
            .collect();
        expected.sort_by_key(|row| row.0);
        let column = |name: &str| payload.u32(&format!("samples.{metric}.{name}"));
        let values = payload.f64(&format!("samples.{metric}.value"));
        let decoded: Vec<_> = payload
            .times(metric)
            .into_iter()
            .zip(column("thread"))
            .zip(column("stack").into_iter().zip(values))
            .map(|((time, thread), (stack, value))| (time, thread, stack, value as u64))
            .collect();
        assert_eq!(decoded, expected);
    }
}

#[test]
fn spans_and_counters_are_sorted() {
    let payload = payload(&program());
    assert_eq!(payload.texts("spans.name"), ["request", "request"].map(|name| Some(name.to_owned())));
    assert_eq!((payload.f64("spans.start"), payload.f64("spans.end")), (vec![1e3, 5e3], vec![1e3, 9e3]));
    assert_eq!(payload.u32("spans.thread"), [NONE, 1]);
    assert_eq!(payload.texts("spans.detail"), [None, Some("id=7".to_owned())]);
    assert_eq!(payload.texts("counters.name"), ["memory", "load"].map(|name| Some(name.to_owned())));
    assert_eq!((payload.u8("counters.unit"), payload.u32("counters.process")), (vec![2, 0], vec![0, NONE]));
    assert_eq!(payload.u32("counter_values.counter"), [0, 0, 1]);
    assert_eq!(payload.f64("counter_values.time"), [20.0, 30.0, 10.0]);
    assert_eq!(payload.f64("counter_values.value"), [1.0, 2.0, -5.0]);
}

#[test]
fn source_lines_by_file_and_line() {
    let payload = payload(&program());
    let (files, numbers) = (payload.u32("sources.file"), payload.u32("sources.line"));
    assert!(files.iter().zip(&numbers).is_sorted());
    let shown: Vec<_> = payload
        .texts("sources.file")
        .into_iter()
        .zip(payload.texts("sources.text"))
        .zip(numbers)
        .map(|((file, text), line)| format!("{}:{line}: {}", file.unwrap(), text.unwrap()))
        .collect();
    let parse = ["src/parse.rs:1: fn parse() {", "src/parse.rs:2:     next();", "src/parse.rs:3: }"];
    assert_eq!(shown.len(), 4);
    assert!(parse.iter().all(|line| shown.iter().any(|shown| shown == line)), "{shown:?}");
}

#[test]
fn machine_code_as_instructions() {
    let payload = payload(&program());
    assert_eq!(payload.u32("code.module"), [0, 0]);
    let (starts, ends) = (payload.f64("code.start"), payload.f64("code.end"));
    assert_eq!((starts, ends), (vec![4096.0, 8192.0], vec![4104.0, 8194.0]));
    assert_eq!(payload.u32("instructions.code"), [0, 0, 0, 1, 1]);
    assert_eq!(payload.f64("instructions.address"), [4096.0, 4098.0, 4103.0, 8192.0, 8193.0]);
    let texts =
        ["jne 0x1000 <+0x0>", "call 0x2000", "(cut off)", "nop", "ret"].map(|text| Some(text.to_owned()));
    assert_eq!(payload.texts("instructions.text"), texts);
}

#[test]
fn code_of_another_architecture_is_not_decoded() {
    let mut profile = program();
    profile.meta.host.arch = "s390x".to_owned();
    let payload = payload(&profile);
    assert_eq!(payload.u32("code.module").len(), 2);
    assert!(payload.u32("instructions.code").is_empty());
}

#[test]
fn an_empty_profile_has_every_table() {
    let empty = payload(&Profile::default());
    let full = payload(&program());
    let without_samples = |names: Vec<&str>| {
        names.into_iter().filter(|name| !name.starts_with("samples.")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(without_samples(empty.names()), without_samples(full.names()));
    assert_eq!(empty.u32("locations.frames"), [0, 0]);
}

#[test]
fn only_referenced_texts_are_written() {
    let payload = payload(&testing::profile("main;parse 3"));
    let bytes = String::from_utf8(payload.u8("strings.bytes")).unwrap();
    assert!(bytes.contains("parse") && !bytes.contains("_raw_"), "{bytes}");
}

#[test]
fn any_text_arrives_unchanged() {
    let mut profile = testing::profile("main 3");
    let hostile = "</script>\u{202e}\0\u{1b}[31m\"'&".repeat(1000);
    profile.functions[0].name = profile.strings.push(&hostile);
    assert_eq!(payload(&profile).texts("functions.name"), [Some(hostile)]);
}

#[test]
fn allocation_sites_and_heap_facts() {
    let mut profile = testing::heap_profile(
        "app::main@m.rs:3;app::load@l.rs:7;alloc::vec::Vec::push@v.rs:1 : allocations=3 bytes_allocated=300 peak_bytes=200 grown=4 growth_chains=1 largest_grown=256 bytes_grown_to=256 growth=linear
         app::main@m.rs:4;app::load@l.rs:7 : allocations=2 bytes_allocated=20 peak_bytes=5
         [libfoo.so] : allocations=1 bytes_allocated=8 live_at_exit_bytes=8
         app::main@m.rs:5;dep::read@d.rs:9 : allocations=1 bytes_allocated=4",
    );
    let bar = |site, of, bar, blocks| HistogramBar { site, of, bar, blocks };
    profile.heap.histograms = vec![
        bar(0, HistogramOf::Size, 7, 3),
        bar(1, HistogramOf::Size, 7, 2),
        bar(2, HistogramOf::Lifetime, 20, 1),
    ];
    profile.heap.growth = vec![GrowthBar {
        site: 0,
        bar: 9,
        grown: 1004,
        bytes_copied: 99,
        reached: 1,
        reached_bytes: 256,
        largest: 256,
    }];
    let payload = payload(&profile);
    let heap = &payload.header["heap"];
    assert_eq!(heap["peak_bytes"], 205);
    assert_eq!(heap["leaks_checked"], true);
    assert_eq!(heap["totals"]["allocations"], 7);
    // The two stacks that end in one line of the user's code are one row.
    let functions = payload.texts("functions.name");
    let rows = payload.u32("heap.function");
    assert_eq!(functions[rows[0] as usize].as_deref(), Some("app::load"));
    assert_eq!(rows[1] as usize, functions.len() + 1, "code without a name is its module");
    assert_eq!(functions[rows[2] as usize].as_deref(), Some("dep::read"));
    assert_eq!(payload.texts("heap.file"), [Some("l.rs".to_owned()), None, Some("d.rs".to_owned())]);
    assert_eq!(payload.u32("heap.line"), [7, 0, 9]);
    let own = payload.u32("heap.own_function");
    assert_eq!(own[..2], [NONE, NONE]);
    assert_eq!(functions[own[2] as usize].as_deref(), Some("app::main"));
    assert_eq!(payload.texts("heap.own_file"), [None, None, Some("m.rs".to_owned())]);
    assert_eq!(payload.u32("heap.own_line"), [0, 0, 5]);
    let stacks = profile.heap.sites.iter().map(|site| site.stack.0).collect::<Vec<_>>();
    assert_eq!(payload.u32("heap_stacks.stack"), stacks);
    assert_eq!(payload.u32("heap_stacks.site"), [0, 0, 1, 2]);
    assert_eq!(payload.u32("heap.stack")[0], profile.heap.sites[0].stack.0, "its heaviest stack");
    assert_eq!(payload.u32("heap.stacks"), [2, 1, 1]);
    assert_eq!(payload.u8("heap.growth"), [Growth::Linear.code(), 0, 0]);
    let advice = payload.texts("heap.advice");
    assert!(advice[0].as_deref().is_some_and(|text| text.starts_with("`with_capacity` for 256 B")));
    assert_eq!(advice[1..], [None, None]);
    for name in HeapCounts::COLUMNS {
        assert_eq!(payload.f64(&format!("heap.{name}")).len(), 3, "{name}");
    }
    same(&payload.f64("heap.bytes_allocated"), [Some(320), Some(8), Some(4)].into_iter());
    same(&payload.f64("heap.live_at_exit_bytes"), [Some(0), Some(8), Some(0)].into_iter());
    assert_eq!(payload.u32("heap_bars.site"), [0, 1]);
    assert_eq!(payload.u8("heap_bars.of"), [0, 1]);
    assert_eq!(payload.u8("heap_bars.bar"), [7, 20]);
    same(&payload.f64("heap_bars.blocks"), [Some(5), Some(1)].into_iter());
}

#[test]
fn a_profile_without_a_heap_has_no_heap_columns() {
    let payload = payload(&program());
    assert!(payload.header.get("heap").is_none());
    assert!(!payload.names().iter().any(|name| name.starts_with("heap")));
}
