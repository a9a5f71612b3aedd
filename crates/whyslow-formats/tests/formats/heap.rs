//! Heap exports: the numbers of each allocating stack match the recording.

use std::collections::{BTreeMap, HashSet};
use std::io;

use proptest::prelude::*;
use serde_json::Value;
use whyslow_analyze::{Selection, testing};
use whyslow_formats::export::{
    Export, LeftOut, write_dhat, write_firefox, write_heaptrack, write_massif, write_pprof, write_speedscope,
};
use whyslow_formats::import::Format;
use whyslow_profile::{HeapCounts, MetricId, ModuleKind, Profile, Unit, heap::metric};

use crate::heap_script::{Script, parser};
use crate::support::{from_bytes, totals};

type Write = fn(&Export<'_>, &mut dyn io::Write) -> io::Result<Vec<LeftOut>>;

pub(crate) fn written(profile: &Profile, write: Write) -> (String, Vec<LeftOut>) {
    let mut bytes = Vec::new();
    let notes = write(&Export::new(profile, &Selection::default(), true), &mut bytes).unwrap();
    (String::from_utf8(bytes).unwrap(), notes)
}

/// The rules that the DHAT viewer requires; the error says which one is broken.
fn dhat_rules(file: &Value) -> Result<(), String> {
    let number = |of: &Value, key: &str| of[key].as_u64().ok_or(format!("'{key}' is not a number"));
    let text = |key: &str| file[key].as_str().ok_or(format!("'{key}' is not a text"));
    if number(file, "dhatFileVersion")? != 2 {
        return Err("version".to_owned());
    }
    for key in ["mode", "verb", "tu", "Mtu", "cmd"] {
        text(key)?;
    }
    let lifetimes = file["bklt"].as_bool().ok_or("bklt")?;
    let accesses = file["bkacc"].as_bool().ok_or("bkacc")?;
    number(file, "pid")?;
    let end = number(file, "te")?;
    if lifetimes && (number(file, "tg")? > end || number(file, "tuth").is_err()) {
        return Err("the peak is after the end".to_owned());
    }
    let frames = file["ftbl"].as_array().ok_or("ftbl")?;
    if frames.first().and_then(Value::as_str) != Some("[root]") {
        return Err("the first frame is not the root".to_owned());
    }
    if frames.iter().any(|frame| !frame.is_string()) {
        return Err("a frame is not a text".to_owned());
    }
    let mut seen = HashSet::new();
    for point in file["pps"].as_array().ok_or("pps")? {
        let mut keys = vec!["tb", "tbk"];
        if lifetimes {
            keys.extend(["tl", "mb", "mbk", "gb", "gbk", "eb", "ebk"]);
        }
        if accesses {
            keys.extend(["rb", "wb"]);
        }
        for key in keys {
            number(point, key)?;
        }
        let list = point["fs"].as_array().ok_or("fs")?;
        let list: Option<Vec<u64>> = list.iter().map(Value::as_u64).collect();
        let list = list.ok_or("a frame index is not a number")?;
        if list.is_empty() || list.iter().any(|&frame| frame == 0 || frame >= frames.len() as u64) {
            return Err("a frame index is out of range".to_owned());
        }
        if !seen.insert(list) {
            return Err("a repeated location".to_owned());
        }
    }
    Ok(())
}

fn sum(profile: &Profile, name: &str) -> u64 {
    let metric = profile.metric_named(name).unwrap();
    profile.samples[metric.index()].value.iter().sum()
}

#[test]
fn heaptrack_and_massif_files_are_read_back_with_the_same_totals() {
    let profile = parser();
    let (text, _) = written(&profile, write_heaptrack);
    let back = from_bytes(text.as_bytes(), Format::Heaptrack).profile;
    let numbers = |profile: &Profile| {
        let counts = profile.heap.totals();
        [counts.allocations, counts.bytes_allocated, counts.peak_bytes, counts.live_at_exit_bytes]
    };
    assert_eq!(numbers(&back), numbers(&profile));
    assert_eq!(totals(&back, MetricId(0))["push"], totals(&profile, MetricId(0))["push"]);
    let (text, _) = written(&profile, write_massif);
    let back = from_bytes(text.as_bytes(), Format::Massif).profile;
    assert_eq!(sum(&back, "live-at-peak"), profile.heap.totals().peak_bytes);
}

#[test]
fn dhat_follows_the_rules_of_its_viewer_and_keeps_totals() {
    let profile = parser();
    let (text, _) = written(&profile, write_dhat);
    let file: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(dhat_rules(&file), Ok(()));
    assert_eq!(file["tg"], profile.meta.heap.as_ref().unwrap().peak_ns.0 / 1000);
    let back = from_bytes(text.as_bytes(), Format::Dhat).profile;
    let of = |pick: fn(&HeapCounts) -> u64| pick(&profile.heap.totals());
    assert_eq!(sum(&back, "bytes-allocated"), of(|counts| counts.bytes_allocated));
    assert_eq!(sum(&back, "allocations"), of(|counts| counts.allocations));
    assert_eq!(sum(&back, "live-at-peak"), of(|counts| counts.peak_bytes));
    assert_eq!(sum(&back, "live-at-exit"), of(|counts| counts.live_at_exit_bytes));
    assert_eq!(back.heap.totals().peak_blocks, of(|counts| counts.peak_blocks));
    assert_eq!(back.heap.totals().live_at_exit_blocks, of(|counts| counts.live_at_exit_blocks));
    assert_eq!(totals(&back, MetricId(0))["push"], totals(&profile, MetricId(0))["push"]);
    let frames: Vec<&str> = file["ftbl"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(frames.iter().any(|frame| frame.ends_with(": grow (vec.rs:40)")), "{frames:?}");
    assert!(frames.iter().any(|frame| frame.ends_with(": push (vec.rs:9)")), "inlined frames are separate");
}

#[test]
fn the_rules_detect_a_repeated_location() {
    let (text, _) = written(&parser(), write_dhat);
    let mut file: Value = serde_json::from_str(&text).unwrap();
    let first = file["pps"][0].clone();
    file["pps"].as_array_mut().unwrap().push(first);
    assert_eq!(dhat_rules(&file), Err("a repeated location".to_owned()));
}

#[test]
fn dhat_merges_sites_with_equal_frames() {
    let mut profile = parser();
    // A second node of the tree with the same frames, as two flushes of a recorder leave it.
    let site = profile.heap.sites[1].clone();
    let parent = profile.stacks.parent(site.stack);
    let twin = profile.stacks.push(parent, profile.stacks.location(site.stack));
    profile.heap.sites.push(whyslow_profile::HeapSite { stack: twin, ..site });
    let (text, _) = written(&profile, write_dhat);
    let file: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(dhat_rules(&file), Ok(()));
    assert_eq!(file["pps"].as_array().unwrap().len(), 5);
    let back = from_bytes(text.as_bytes(), Format::Dhat).profile;
    assert_eq!(sum(&back, "allocations"), profile.heap.totals().allocations);
}

/// What heaptrack's reader computes from a file: allocations, temporary ones, peak and leaked bytes, in total
/// and per trace.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Cost {
    allocations: u64,
    temporary: u64,
    peak: u64,
    leaked: u64,
    bytes: u64,
}

#[derive(Debug, Default)]
struct Read {
    total: Cost,
    traces: BTreeMap<u64, Cost>,
    peak_ms: u64,
    end_ms: u64,
    /// The live bytes at each timestamp.
    timeline: Vec<(u64, u64)>,
}

fn heaptrack_reader(text: &str) -> Read {
    let mut read = Read::default();
    let mut infos: Vec<(u64, u64)> = Vec::new();
    let (mut last, mut time) = (0, 0);
    for line in text.lines().filter(|line| "+-ac".contains(&line[..1])) {
        let numbers: Vec<u64> =
            line[2..].split(' ').map(|number| u64::from_str_radix(number, 16).unwrap()).collect();
        match &line[..1] {
            "a" => infos.push((numbers[0], numbers[1])),
            "c" => {
                time = numbers[0];
                read.timeline.push((time, read.total.leaked));
            }
            "+" => {
                let (size, trace) = infos[numbers[0] as usize];
                last = numbers[0];
                for cost in [&mut read.total, read.traces.entry(trace).or_default()] {
                    cost.allocations += 1;
                    cost.leaked += size;
                    cost.bytes += size;
                }
                if read.total.leaked > read.total.peak {
                    read.total.peak = read.total.leaked;
                    read.peak_ms = time;
                    read.traces.values_mut().for_each(|cost| cost.peak = cost.leaked);
                }
            }
            _ => {
                let (size, trace) = infos[numbers[0] as usize];
                for cost in [&mut read.total, read.traces.entry(trace).or_default()] {
                    cost.leaked = cost.leaked.checked_sub(size).expect("freed bytes were live");
                    cost.temporary += u64::from(last == numbers[0]);
                }
                last = 0;
            }
        }
    }
    read.end_ms = time;
    read
}

fn cost(counts: &HeapCounts) -> Cost {
    Cost {
        allocations: counts.allocations,
        temporary: counts.temporary,
        peak: counts.peak_bytes,
        leaked: counts.live_at_exit_bytes,
        bytes: counts.bytes_allocated,
    }
}

/// The costs of all sites, in any order.
fn expected(profile: &Profile) -> Vec<Cost> {
    let mut costs: Vec<Cost> = profile.heap.sites.iter().map(|site| cost(&site.counts)).collect();
    costs.sort_by_key(|cost| (cost.allocations, cost.bytes, cost.peak, cost.leaked));
    costs
}

fn of_traces(read: &Read) -> Vec<Cost> {
    let mut costs: Vec<Cost> = read.traces.values().copied().filter(|cost| cost.allocations > 0).collect();
    costs.sort_by_key(|cost| (cost.allocations, cost.bytes, cost.peak, cost.leaked));
    costs
}

#[test]
fn heaptrack_events_add_up_to_every_number_of_every_stack() {
    let profile = parser();
    let (text, notes) = written(&profile, write_heaptrack);
    assert_eq!(notes.len(), 3, "{notes:?}");
    let read = heaptrack_reader(&text);
    assert_eq!(read.total, cost(&profile.heap.totals()));
    assert_eq!(of_traces(&read), expected(&profile));
    let facts = profile.meta.heap.as_ref().unwrap();
    assert_eq!(read.peak_ms, facts.peak_ns.0 / 1_000_000);
    assert_eq!(read.end_ms, profile.meta.duration_ns / 1_000_000);
}

#[test]
fn heaptrack_shows_the_heap_over_time() {
    let mut script = Script::new(&["main;a", "main;b"]);
    let block = script.allocate(0, 0, 1000);
    script.wait(10_000_000).allocate(0, 1, 50);
    script.wait(10_000_000).free(0, block);
    script.wait(10_000_000).allocate(0, 1, 5);
    let (text, _) = written(&script.finish(), write_heaptrack);
    let read = heaptrack_reader(&text);
    let mut timeline = read.timeline.clone();
    timeline.dedup();
    assert_eq!(timeline, [(0, 0), (10, 1000), (10, 1050), (20, 1050), (30, 50), (31, 55)]);
}

#[test]
fn finds_blocks_that_another_free_order_would_split() {
    // First in, first out, then the opposite; and a block that is freed while blocks of an equal sum remain.
    let mut script = Script::new(&["main;a", "main;b", "main;c"]);
    let (large, small) = (script.allocate(0, 0, 100), script.wait(10_000_000).allocate(0, 0, 50));
    script.wait(10_000_000).free(0, large);
    script.wait(10_000_000).free(1, small);
    let (large, small) = (script.allocate(0, 1, 100), script.wait(10_000_000).allocate(0, 1, 50));
    script.wait(10_000_000).free(1, small);
    script.wait(10_000_000).free(0, large);
    let old = script.allocate(0, 2, 30);
    script.wait(10_000_000).allocate(0, 2, 70);
    script.free(0, old);
    let profile = script.finish();
    let (text, notes) = written(&profile, write_heaptrack);
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert_eq!(of_traces(&heaptrack_reader(&text)), expected(&profile));
}

#[test]
fn a_peak_caused_by_a_temporary_block_is_exact() {
    let mut script = Script::new(&["main;kept", "main;text"]);
    for _ in 0..20 {
        script.wait(3_000_000).allocate(0, 0, 10);
        for _ in 0..5 {
            let text = script.allocate(0, 1, 1000);
            script.wait(100_000).free(0, text);
        }
    }
    let profile = script.finish();
    assert_eq!(profile.heap.sites[1].counts.peak_bytes, 1000);
    let (text, notes) = written(&profile, write_heaptrack);
    assert_eq!(notes.len(), 3, "{notes:?}");
    let read = heaptrack_reader(&text);
    assert_eq!(read.total, cost(&profile.heap.totals()));
    assert_eq!(of_traces(&read), expected(&profile));
}

#[test]
fn a_profile_without_a_timeline_keeps_its_numbers() {
    let mut profile = parser();
    profile.samples.iter_mut().for_each(whyslow_profile::Samples::clear);
    let read = heaptrack_reader(&written(&profile, write_heaptrack).0);
    let totals = cost(&profile.heap.totals());
    assert_eq!(
        (read.total.allocations, read.total.peak, read.total.leaked),
        (totals.allocations, totals.peak, totals.leaked)
    );
}

/// The snapshots of a massif file: time, bytes, kind, and the lines of its tree.
fn snapshots(text: &str) -> Vec<(u64, u64, String, Vec<String>)> {
    let value = |line: &str| line.split_once('=').unwrap().1.to_owned();
    let mut snapshots = Vec::new();
    let mut lines = text.lines().filter(|line| !line.starts_with('#')).peekable();
    while let Some(line) = lines.next() {
        if !line.starts_with("snapshot=") {
            continue;
        }
        let fields: Vec<String> = lines.by_ref().take(5).map(value).collect();
        let mut tree = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with("snapshot=")) {
            tree.push(line.to_owned());
        }
        snapshots.push((fields[0].parse().unwrap(), fields[1].parse().unwrap(), fields[4].clone(), tree));
    }
    snapshots
}

#[test]
fn massif_has_the_peak_and_its_call_sites() {
    let profile = parser();
    let (text, _) = written(&profile, write_massif);
    let snapshots = snapshots(&text);
    let facts = profile.meta.heap.as_ref().unwrap();
    let peaks: Vec<_> = snapshots.iter().filter(|snapshot| snapshot.2 == "peak").collect();
    let [(time, bytes, _, tree)] = peaks.as_slice() else { panic!("one peak") };
    assert_eq!((*time, *bytes), (facts.peak_ns.0 / 1_000_000, facts.peak_bytes));
    assert!(snapshots.iter().all(|snapshot| snapshot.1 <= facts.peak_bytes));
    assert!(snapshots.is_sorted_by_key(|snapshot| snapshot.0));
    let last = snapshots.last().unwrap();
    assert_eq!(last.1, profile.heap.totals().live_at_exit_bytes);
    assert_eq!(
        tree[0],
        format!("n3: {bytes} (heap allocation functions) malloc/new/new[], --alloc-fns, etc.")
    );
    let cached = profile.heap.sites[1].counts.peak_bytes;
    assert!(
        tree.iter().any(|line| line.starts_with(&format!(" n1: {cached} 0x"))
            && line.ends_with("cache::insert (cache.rs:7)")),
        "{tree:#?}"
    );
}

#[test]
fn massif_merges_small_call_sites() {
    let stacks: Vec<String> = (0..5).map(|site| format!("main;f{site}")).collect();
    let mut script = Script::new(&stacks.iter().map(String::as_str).collect::<Vec<_>>());
    script.allocate(0, 0, 100_000);
    for site in 1..4 {
        script.allocate(0, site, 10);
    }
    script.allocate(0, 4, 5);
    let text = written(&script.finish(), write_massif).0;
    let tree = snapshots(&text).into_iter().find(|snapshot| snapshot.2 == "peak").unwrap().3;
    assert_eq!(tree.len(), 4, "{tree:#?}");
    assert_eq!(tree[3], " n0: 35 in 4 places, all below massif's threshold (1.00%)");
}

#[test]
fn a_long_recording_has_at_most_a_hundred_snapshots() {
    let mut script = Script::new(&["main;a"]);
    for _ in 0..1000 {
        script.wait(10_000_000).allocate(0, 0, 8);
    }
    let snapshots = snapshots(&written(&script.finish(), write_massif).0);
    assert!((50..=100).contains(&snapshots.len()), "{}", snapshots.len());
    let detailed = snapshots.iter().filter(|snapshot| snapshot.2 == "detailed").count();
    assert_eq!(detailed, (snapshots.len() - 1) / 10);
}

#[test]
fn heap_formats_reject_a_profile_without_heap_data() {
    let profile = testing::profile("main 1");
    for write in [write_dhat as Write, write_heaptrack, write_massif] {
        let error = write(&Export::new(&profile, &Selection::default(), true), &mut io::sink()).unwrap_err();
        assert!(error.to_string().contains("whyslow heap"), "{error}");
    }
}

#[test]
fn other_formats_take_every_metric_of_a_heap() {
    let profile = parser();
    for metric in profile.metric_ids() {
        let selection = Selection { metric, ..Selection::default() };
        for (format, write) in
            [(Format::Firefox, write_firefox as Write), (Format::Speedscope, write_speedscope)]
        {
            let mut bytes = Vec::new();
            write(&Export::new(&profile, &selection, true), &mut bytes).unwrap();
            let back = from_bytes(&bytes, format).profile;
            let row = &profile.metrics[metric.index()];
            // Without a unit, the importer counts a sample as a millisecond.
            if row.unit == Unit::Bytes {
                assert_eq!(
                    totals(&back, MetricId(0)),
                    totals(&profile, metric),
                    "{format} {}",
                    profile.text(row.name)
                );
            }
        }
    }
}

#[test]
fn pprof_has_the_four_types_of_a_heap() {
    let profile = parser();
    let mut bytes = Vec::new();
    write_pprof(&Export::new(&profile, &Selection::default(), true), &mut bytes).unwrap();
    let back = from_bytes(&bytes, Format::Pprof).profile;
    let counts = profile.heap.totals();
    for (name, total) in [
        ("alloc-objects", counts.allocations),
        ("alloc-space", counts.bytes_allocated),
        ("inuse-objects", counts.live_at_exit_blocks),
        ("inuse-space", counts.live_at_exit_bytes),
    ] {
        assert_eq!(sum(&back, name), total, "{name}");
    }
    assert_eq!(
        totals(&back, back.metric_named("alloc-space").unwrap()),
        totals(&profile, profile.metric_named(metric::BYTES_ALLOCATED).unwrap())
    );
}

/// pprof shows the file of the first mapping as the program.
#[test]
fn the_first_mapping_of_pprof_is_the_program_that_allocated_most() {
    let mut profile = testing::heap_profile(
        "[libc.so.6] : allocations=9 bytes_allocated=900
         app::main;[libc.so.6] : allocations=1 bytes_allocated=100",
    );
    profile.modules.swap(0, 1);
    for module in profile.locations.module.iter_mut().flatten() {
        *module = (1 - module.index()).into();
    }
    profile.functions.iter_mut().for_each(|function| function.module = Some(1.into()));
    let mut bytes = Vec::new();
    write_pprof(&Export::new(&profile, &Selection::default(), true), &mut bytes).unwrap();
    let back = from_bytes(&bytes, Format::Pprof).profile;
    let modules = back.modules.iter().map(|module| (back.text(module.path), module.kind)).collect::<Vec<_>>();
    assert_eq!(modules, [("/home/me/app", ModuleKind::Program), ("/usr/lib/libc.so.6", ModuleKind::Library)]);
}

/// A step of a random script: thread, site and size of an allocation, or the block to free; then a pause.
type Random = (bool, usize, usize, u64, usize, u64);

fn play(steps: &[Random]) -> Profile {
    let mut script = Script::new(&["main;a", "main;a;b", "main;c@c.rs:4"]);
    let mut blocks = Vec::new();
    for &(free, thread, site, size, block, pause) in steps {
        script.wait(pause * 1_000_000);
        if free && !blocks.is_empty() {
            script.free(thread, blocks[block % blocks.len()]);
        } else {
            blocks.push(script.allocate(thread, site, size));
        }
    }
    script.finish()
}

#[test]
fn calls_and_temporary_blocks_are_exact_in_nearly_all_heaps() {
    let mut state = 1u64;
    let mut next = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let mut exact = 0;
    for _ in 0..200 {
        let steps: Vec<Random> = (0..400)
            .map(|_| {
                let (thread, site, block) = (next(2) as usize, next(3) as usize, next(400) as usize);
                (next(2) == 0, thread, site, next(400), block, next(2) * next(3))
            })
            .collect();
        let profile = play(&steps);
        let (read, totals) = (heaptrack_reader(&written(&profile, write_heaptrack).0), profile.heap.totals());
        let same = (read.total.allocations, read.total.temporary) == (totals.allocations, totals.temporary);
        exact += usize::from(same);
    }
    assert!(exact >= 190, "{exact} of 200");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn any_heap_keeps_its_totals_peak_and_leaks(
        steps in prop::collection::vec((any::<bool>(), 0usize..2, 0usize..3, 0u64..400, 0usize..64, 0u64..6), 1..120),
    ) {
        let profile = play(&steps);
        prop_assume!(!profile.heap.is_empty());
        let (text, notes) = written(&profile, write_heaptrack);
        let read = heaptrack_reader(&text);
        let totals = cost(&profile.heap.totals());
        prop_assert_eq!(read.total.peak, totals.peak);
        prop_assert_eq!(read.total.leaked, totals.leaked);
        let kept = |costs: Vec<Cost>| -> Vec<_> {
            let mut costs: Vec<_> = costs.iter().map(|cost| (cost.peak, cost.leaked)).collect();
            costs.sort_unstable();
            costs
        };
        prop_assert_eq!(kept(of_traces(&read)), kept(expected(&profile)));
        // Inexact numbers have a note.
        if notes.len() == 3 {
            prop_assert_eq!(read.total.allocations, totals.allocations);
            prop_assert_eq!(read.total.temporary, totals.temporary);
            prop_assert_eq!(read.total.bytes, totals.bytes);
        }
        let (text, _) = written(&profile, write_massif);
        let most = snapshots(&text).iter().map(|snapshot| snapshot.1).max();
        prop_assert_eq!(most, Some(totals.peak));
        let (text, _) = written(&profile, write_dhat);
        prop_assert_eq!(dhat_rules(&serde_json::from_str(&text).unwrap()), Ok(()));
    }
}
