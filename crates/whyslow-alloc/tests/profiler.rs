//! Profiles of a whole program. Only one profiler runs at a time, so these tests wait for each other. The
//! harness's own threads now and then allocate a few kilobytes in parallel, so the tests use megabytes for
//! peaks and sums of the whole program.

#![expect(clippy::unwrap_used, reason = "a failed unwrap in a helper is a failed test")]

use std::collections::HashSet;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use whyslow_alloc::{HeapStats, Profiler};

#[global_allocator]
static ALLOC: whyslow_alloc::Alloc = whyslow_alloc::Alloc::system();

/// More than the harness allocates during a test.
const SLACK: usize = 1_000_000;

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What `work` adds to the numbers. Takes the min of several attempts to exclude other threads of the test
/// harness.
fn growth(mut work: impl FnMut()) -> (u64, u64) {
    (0..5)
        .map(|_| {
            let before = HeapStats::get();
            work();
            let after = HeapStats::get();
            (after.total_blocks - before.total_blocks, after.total_bytes - before.total_bytes)
        })
        .min()
        .unwrap()
}

#[inline(never)]
fn temporary_blocks(count: usize) {
    for _ in 0..count {
        drop(black_box(vec![0u8; 64]));
    }
}

#[inline(never)]
fn kept_block(size: usize) -> Vec<u8> {
    black_box(vec![1u8; size])
}

#[inline(never)]
fn growing_vector() -> Vec<u64> {
    let mut numbers = Vec::new();
    for number in 0..100u64 {
        numbers.push(black_box(number));
    }
    numbers
}

/// A program with known results: a peak inside, a block that is kept, and a block for another thread to free.
fn work() -> Vec<u8> {
    temporary_blocks(10);
    let large = kept_block(10_000_000);
    let kept = kept_block(5_000_000);
    drop(large);
    let sent = kept_block(777);
    std::thread::Builder::new().name("freeing".into()).spawn(move || drop(sent)).unwrap().join().unwrap();
    drop(growing_vector());
    kept
}

#[test]
fn numbers_cover_the_whole_program() {
    let _alone = alone();
    let profiler = Profiler::builder().testing().build();
    assert_eq!(growth(|| temporary_blocks(10)), (10, 640));
    assert_eq!(growth(|| drop(growing_vector())), (6, 8 * (4 + 8 + 16 + 32 + 64 + 128)));
    let start = HeapStats::get();
    let large = kept_block(10_000_000);
    let stats = HeapStats::get();
    assert!(stats.curr_bytes + SLACK >= start.curr_bytes + 10_000_000);
    assert!(stats.max_bytes >= stats.curr_bytes && stats.max_bytes < stats.curr_bytes + SLACK);
    drop(large);
    let worker = std::thread::spawn(|| kept_block(3_000_000));
    let block = worker.join().unwrap();
    let stats = HeapStats::get();
    assert!(stats.max_bytes >= 10_000_000 && stats.curr_bytes < 10_000_000);
    assert!(stats.curr_bytes >= 3_000_000);
    drop(block);
    drop(profiler);
    assert!(catch_unwind(HeapStats::get).is_err());
}

#[test]
fn one_profiler_runs_at_a_time() {
    let _alone = alone();
    let first = Profiler::builder().testing().build();
    let second = catch_unwind(|| drop(Profiler::builder().testing().build()));
    assert!(second.is_err());
    assert_eq!(growth(|| temporary_blocks(1)), (1, 64));
    drop(first);
    drop(Profiler::builder().testing().build());
    let error = whyslow_alloc::dump("nowhere.json").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    assert!(!Path::new("nowhere.json").exists());
}

/// What DHAT's viewer requires of a file.
fn check_dhat(json: &Value) {
    assert_eq!(json["dhatFileVersion"], 2);
    for key in ["mode", "verb", "tu", "Mtu", "cmd"] {
        assert!(json[key].is_string(), "{key}");
    }
    for key in ["pid", "te", "tg", "tuth"] {
        assert!(json[key].is_u64(), "{key}");
    }
    assert_eq!((&json["bklt"], &json["bkacc"]), (&Value::Bool(true), &Value::Bool(false)));
    assert!(json["tg"].as_u64() <= json["te"].as_u64());
    let frames = json["ftbl"].as_array().unwrap();
    assert_eq!(frames[0], "[root]");
    assert!(frames.iter().all(Value::is_string));
    let mut seen = HashSet::new();
    for point in json["pps"].as_array().unwrap() {
        let number = |key: &str| point[key].as_u64().unwrap_or_else(|| panic!("{key}"));
        assert!(number("tbk") > 0);
        assert!(number("mb") <= number("tb") && number("mbk") <= number("tbk"));
        assert!(number("gb") <= number("mb") && number("eb") <= number("mb"));
        assert!(number("gbk") <= number("tbk") && number("ebk") <= number("tbk"));
        number("tl");
        let rows = point["fs"].as_array().unwrap();
        assert!(!rows.is_empty());
        assert!(rows.iter().all(|row| (1..frames.len() as u64).contains(&row.as_u64().unwrap())));
        assert!(seen.insert(rows.clone()), "two points have the same frames");
    }
}

/// The points whose innermost frame of the program is this function.
fn points_at<'a>(json: &'a Value, function: &'a str) -> impl Iterator<Item = &'a Value> {
    let frames = json["ftbl"].as_array().unwrap();
    json["pps"].as_array().unwrap().iter().filter(move |point| {
        let mut names = point["fs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| frames[row.as_u64().unwrap() as usize].as_str().unwrap());
        names.find(|name| name.contains("tests/profiler.rs")).is_some_and(|name| name.contains(function))
    })
}

fn sum<'a>(points: impl Iterator<Item = &'a Value>, key: &str) -> u64 {
    points.map(|point| point[key].as_u64().unwrap()).sum()
}

#[test]
fn dhats_file_is_exact_and_valid() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dhat-heap.json");
    let profiler = Profiler::builder().file_name(&path).build();
    let kept = work();
    drop(profiler);
    drop(kept);
    let bytes = std::fs::read(&path).unwrap();
    let json: Value = serde_json::from_slice(&bytes).unwrap();
    check_dhat(&json);
    let of = |function, key| sum(points_at(&json, function), key);
    assert_eq!((of("temporary_blocks", "tb"), of("temporary_blocks", "tbk")), (640, 10));
    assert_eq!((of("temporary_blocks", "mb"), of("temporary_blocks", "gb")), (64, 0));
    assert_eq!((of("kept_block", "tb"), of("kept_block", "tbk")), (15_000_777, 3));
    assert_eq!((of("kept_block", "gb"), of("kept_block", "gbk")), (15_000_000, 2));
    assert_eq!((of("kept_block", "eb"), of("kept_block", "ebk")), (5_000_000, 1));
    assert_eq!((of("growing_vector", "tbk"), of("growing_vector", "eb")), (6, 0));
    // The allocator's own frames are left out.
    let frames = json["ftbl"].as_array().unwrap();
    for frame in frames.iter().map(|frame| frame.as_str().unwrap()) {
        assert!(!frame.contains("__rust_alloc"), "{frame}");
        assert!(!frame.contains("whyslow-alloc/src/"), "{frame}");
    }

    let (format, imported) =
        whyslow_formats::import::import_bytes(&bytes, None, &Default::default()).unwrap();
    assert_eq!(format.word(), "dhat");
    let total = |name: &str| {
        let profile = &imported.profile;
        let metric = profile.metric_named(name).unwrap();
        profile.samples[metric.index()].value.iter().sum::<u64>()
    };
    assert_eq!(total("bytes-allocated"), sum(json["pps"].as_array().unwrap().iter(), "tb"));
    assert_eq!(total("live-at-exit"), sum(json["pps"].as_array().unwrap().iter(), "eb"));
}

#[test]
fn trimmed_stacks_are_merged() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let [all, trimmed] = ["all.json", "trimmed.json"].map(|name| folder.path().join(name));
    for (path, most) in [(&all, None), (&trimmed, Some(2))] {
        let profiler = Profiler::builder().trim_backtraces(most).file_name(path).build();
        drop(work());
        drop(profiler);
    }
    let [all, trimmed]: [Value; 2] =
        [all, trimmed].map(|path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap());
    check_dhat(&all);
    check_dhat(&trimmed);
    let points = |json: &Value| json["pps"].as_array().unwrap().clone();
    assert!(points(&trimmed).len() < points(&all).len());
    // Inlined functions have the address of the function that contains them.
    let addresses = |point: &Value| {
        let rows = point["fs"].as_array().unwrap().iter();
        let frames = rows.map(|row| trimmed["ftbl"][row.as_u64().unwrap() as usize].as_str().unwrap());
        frames.map(|frame| frame.split(':').next().unwrap()).collect::<HashSet<_>>().len()
    };
    assert!(points(&trimmed).iter().all(|point| (1..=2).contains(&addresses(point))));
    assert!(points(&all).iter().any(|point| point["fs"].as_array().unwrap().len() > 10));
}

#[cfg(feature = "profile")]
#[test]
fn the_whyslow_file_has_everything() {
    use whyslow_profile::heap::{counter, metric};
    use whyslow_profile::{HistogramOf, ModuleKind, Profile};

    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("heap.whyslow");
    let profiler = Profiler::builder().file_name(&path).build();
    let kept = work();
    let stats = HeapStats::get();
    drop(profiler);
    drop(kept);
    let profile = whyslow_profile::file::read(&path).unwrap();
    assert!(profile.sealed);
    let facts = profile.meta.heap.clone().unwrap();
    let totals = profile.heap.totals();
    assert_eq!(facts.peak_bytes, stats.max_bytes as u64);
    assert!(totals.allocations >= stats.total_blocks && totals.bytes_allocated >= stats.total_bytes);
    assert!(totals.bytes_allocated < stats.total_bytes + SLACK as u64);
    assert_eq!((totals.peak_bytes, totals.peak_blocks), (stats.max_bytes as u64, stats.max_blocks as u64));
    assert!(totals.live_at_exit_bytes.abs_diff(stats.curr_bytes as u64) < SLACK as u64);
    assert_eq!(totals.allocations - totals.frees, totals.live_at_exit_blocks);
    assert!(totals.temporary >= 10 && totals.grown >= 5 && totals.growth_chains >= 1);
    assert!(totals.largest_grown >= 1024 && totals.bytes_copied > 0);
    assert!(totals.freed_elsewhere >= 1);

    let samples = |profile: &Profile, name: &str| {
        let metric = profile.metric_named(name).unwrap();
        profile.samples[metric.index()].value.iter().sum::<u64>()
    };
    assert_eq!(samples(&profile, metric::BYTES_ALLOCATED), totals.bytes_allocated);
    assert_eq!(samples(&profile, metric::ALLOCATIONS), totals.allocations);
    assert_eq!(samples(&profile, metric::BYTES_FREED), totals.bytes_freed);
    assert_eq!(samples(&profile, metric::LIVE_AT_PEAK), totals.peak_bytes);
    assert_eq!(samples(&profile, metric::LIVE_AT_EXIT), totals.live_at_exit_bytes);
    assert_eq!(samples(&profile, metric::TEMPORARY), totals.temporary);
    let blocks: u64 =
        profile.heap.histograms.iter().filter(|bar| bar.of == HistogramOf::Size).map(|bar| bar.blocks).sum();
    assert_eq!(blocks, totals.allocations);
    let names: Vec<&str> = profile.threads.iter().map(|thread| profile.text(thread.name)).collect();
    assert!(names.contains(&"freeing"), "{names:?}");
    assert!(profile.heap.transfers.iter().any(|transfer| transfer.bytes >= 777));
    assert_eq!(profile.text(profile.counters[0].name), counter::LIVE);
    assert_eq!(profile.counter_values.value.iter().max(), Some(&(stats.max_bytes as i64)));
    assert_eq!(profile.counter_values.value.last(), Some(&(totals.live_at_exit_bytes as i64)));

    // Every stack is complete, and its code is in this program or in an existing library.
    assert!(profile.heap.sites.iter().all(|site| !profile.is_truncated(site.stack)));
    let program = profile.modules.iter().find(|module| module.kind == ModuleKind::Program).unwrap();
    assert_eq!(profile.text(program.path), std::env::current_exe().unwrap().to_string_lossy());
    for module in &profile.modules {
        let path = profile.text(module.path);
        assert!(module.kind == ModuleKind::Vdso || Path::new(path).is_file(), "{path}");
    }

    // As `whyslow report` does when it opens the file.
    let mut profile = profile;
    let options = whyslow_symbols::Options { cache: None, ..Default::default() };
    whyslow_symbols::symbolize(&mut profile, &options);
    let is_called = |stack, name: &str| {
        profile.locations_of(stack).flat_map(|location| profile.frames.of(location)).any(|frame| {
            profile.text(profile.functions[frame.function.index()].name).contains(name)
                && frame.file.is_some_and(|file| profile.text(file).ends_with("tests/profiler.rs"))
        })
    };
    let made_in = |name: &str| {
        let sites = profile.heap.sites.iter().filter(|site| is_called(site.stack, name));
        sites.map(|site| site.counts.bytes_allocated).sum::<u64>()
    };
    assert_eq!(made_in("kept_block"), 15_000_777);
    assert_eq!(made_in("temporary_blocks"), 640);
    let innermost = profile.heap.sites.iter().map(|site| profile.stacks.location(site.stack));
    for frame in innermost.filter_map(|location| profile.frames.of(location).first()) {
        let name = profile.text(profile.functions[frame.function.index()].name);
        assert!(!name.contains("whyslow_alloc") && !name.contains("__rust_alloc"), "{name}");
    }
}

#[test]
fn dumps_are_written_while_the_program_runs() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let profiler = Profiler::builder().testing().build();
    let mut kept = Vec::new();
    let mut totals = Vec::new();
    for number in 0..3 {
        kept.push(kept_block(1000));
        let path = folder.path().join(format!("{number}.json"));
        let written = if number == 1 { whyslow_alloc::dump(&path) } else { profiler.dump(&path) };
        written.unwrap();
        let json: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        check_dhat(&json);
        totals.push(sum(points_at(&json, "kept_block"), "eb"));
    }
    assert_eq!(totals, [1000, 2000, 3000]);
    assert!(profiler.dump(folder.path().join("no/such/folder.json")).is_err());
    assert_eq!(growth(|| temporary_blocks(1)), (1, 64));
}

#[test]
fn a_failed_assertion_shows_stacks_and_writes_the_profile() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("failed.json");
    let profiler = Profiler::builder().testing().file_name(&path).build();
    let _kept = kept_block(50_000_000);
    let stats = HeapStats::get();
    whyslow_alloc::assert!(stats.total_bytes >= 50_000_000);
    whyslow_alloc::assert_eq!(1 + 1, 2, "sums {}", "work");
    whyslow_alloc::assert_ne!(stats.total_blocks, 0);
    assert!(!path.exists());
    let failed = |work: &dyn Fn()| {
        let payload = catch_unwind(AssertUnwindSafe(work)).unwrap_err();
        *payload.downcast::<String>().unwrap()
    };
    let message = failed(&|| whyslow_alloc::assert!(stats.total_bytes < 7, "at most {}", 7));
    assert!(message.starts_with("assertion failed: stats.total_bytes < 7: at most 7\n"), "{message}");
    assert!(message.contains("  1 allocation, 50000000 bytes by "), "{message}");
    assert!(message.contains("kept_block") && message.contains("tests/profiler.rs:"), "{message}");
    check_dhat(&serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap());
    assert!(failed(&|| whyslow_alloc::assert_ne!(5, 5)).contains("an assertion failed"));
    drop(profiler);
    let _profiler = Profiler::builder().testing().file_name(&path).build();
    let message = failed(&|| whyslow_alloc::assert_ne!(5, 5));
    assert!(message.starts_with("assertion `5 != 5` failed: both are 5\n"), "{message}");
}

#[test]
fn busy_threads_lose_no_events() {
    let _alone = alone();
    let profiler = Profiler::builder().testing().build();
    let round = || {
        let (send, receive) = std::sync::mpsc::channel::<Vec<u32>>();
        std::thread::scope(|threads| {
            for seed in 0..8usize {
                let send = send.clone();
                threads.spawn(move || {
                    for turn in 0..500 {
                        let mut block = vec![0u32; 1 + (seed * 31 + turn) % 50];
                        block.push(1);
                        block.extend([2; 40]);
                        send.send(block).unwrap();
                    }
                });
            }
            drop(send);
            threads.spawn(move || receive.into_iter().for_each(drop));
        });
    };
    round();
    let before = HeapStats::get();
    let rounds = 20;
    (0..rounds).for_each(|_| round());
    let after = HeapStats::get();
    drop(profiler);
    assert!(after.total_blocks - before.total_blocks >= rounds * 8 * 500 * 2);
    assert!(after.curr_bytes.abs_diff(before.curr_bytes) < 100_000, "{before:?} {after:?}");
    assert!(after.curr_blocks.abs_diff(before.curr_blocks) < 500, "{before:?} {after:?}");
}
