//! What a program that used the dhat crate can expect: one test for each row of the table in the
//! documentation. Exactly compared numbers are those of dhat 0.3.3 for the same code. Each test runs in its
//! own process, so that nothing else allocates.

#![expect(clippy::unwrap_used, reason = "a failed unwrap in a helper is a failed test")]

mod own_process;

use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use own_process::in_own_process;
use serde_json::Value;
use whyslow_alloc::{self as dhat, AdHocStats, HeapStats, Profiler};

#[global_allocator]
static ALLOC: dhat::Alloc = dhat::Alloc::system();

/// Runs a part and checks that it succeeds. Returns the folder with its file, and its output.
fn run(name: &str, part: fn(&Path)) -> Option<(tempfile::TempDir, String)> {
    let (folder, _, output) = in_own_process(name, part)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stdout));
    Some((folder, said))
}

fn panic_of(work: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(work)).unwrap_err();
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => (*payload.downcast::<&str>().unwrap()).to_owned(),
    }
}

fn heap_stats() {
    black_box(HeapStats::get());
}

fn event_stats() {
    black_box(AdHocStats::get());
}

#[inline(never)]
fn made(size: usize) -> Vec<u8> {
    black_box(Vec::with_capacity(size))
}

#[inline(never)]
fn grown(block: &mut Vec<u8>, more: usize) {
    block.resize(block.len() + more, 1);
    black_box(block);
}

/// The points whose innermost frame in this file belongs to this function.
fn points<'a>(json: &'a Value, function: &str) -> Vec<&'a Value> {
    let innermost = |point: &Value| {
        let rows = point["fs"].as_array().unwrap().iter();
        let mut frames = rows.map(|row| json["ftbl"][row.as_u64().unwrap() as usize].as_str().unwrap());
        frames.find(|frame| frame.contains("tests/dhat.rs")).is_some_and(|frame| frame.contains(function))
    };
    json["pps"].as_array().unwrap().iter().filter(|point| innermost(point)).collect()
}

fn numbers<const N: usize>(point: &Value, keys: [&str; N]) -> [u64; N] {
    keys.map(|key| point[key].as_u64().unwrap_or_else(|| panic!("{key}")))
}

#[test]
fn heap_stats_match_dhat() {
    run("heap_stats_match_dhat", |_| {
        let before = [black_box(vec![1u8; 16]), black_box(vec![1u8; 16])];
        let _profiler = Profiler::builder().testing().build();
        let stats = |expected: [u64; 6]| {
            let stats = HeapStats::get();
            let sizes = [stats.curr_blocks, stats.curr_bytes, stats.max_blocks, stats.max_bytes];
            let [now, now_bytes, most, most_bytes] = sizes.map(|size| size as u64);
            assert_eq!([stats.total_blocks, stats.total_bytes, now, now_bytes, most, most_bytes], expected);
        };
        stats([0; 6]);
        // A block from before the profiler is not counted when it is freed. When it is reallocated, it counts
        // as a new block.
        let [freed, mut kept] = before;
        drop(freed);
        stats([0; 6]);
        kept.extend_from_slice(black_box(&[1; 100]));
        stats([1, 116, 1, 116, 1, 116]);
        // A reallocation adds one block to the total, with its new size, and none to the live blocks.
        let mut block = made(100);
        grown(&mut block, 1000);
        stats([3, 1216, 2, 1116, 2, 1116]);
        block.truncate(10);
        block.shrink_to_fit();
        stats([4, 1226, 2, 126, 2, 1116]);
        // If the peak is reached several times, the last one counts.
        let two = (made(500), made(490));
        stats([6, 2216, 4, 1116, 4, 1116]);
        drop(two);
        stats([6, 2216, 2, 126, 4, 1116]);
    });
}

#[test]
fn json_matches_dhat() {
    run("json_matches_dhat", |_| {
        let mut profiler = std::mem::ManuallyDrop::new(Profiler::builder().build());
        let mut block = made(100);
        std::thread::sleep(std::time::Duration::from_millis(20));
        grown(&mut block, 1000);
        block.truncate(10);
        block.shrink_to_fit();
        let json = profiler.drop_and_get_memory_output();
        assert!(profiler.drop_and_get_memory_output().is_empty());
        let file: Value = serde_json::from_str(&json).unwrap();
        let header = ["mode", "verb", "tu", "Mtu"].map(|key| file[key].as_str().unwrap());
        assert_eq!(header, ["rust-heap", "Allocated", "µs", "s"]);
        assert_eq!((&file["bklt"], &file["bkacc"]), (&Value::Bool(true), &Value::Bool(false)));
        assert_eq!([&file["bu"], &file["bsu"], &file["bksu"]], [&Value::Null; 3]);
        assert_eq!(file["tuth"], 10);
        // Blocks that grew or shrank elsewhere belong to the stack that allocated them.
        assert!(points(&file, "grown").is_empty());
        let [point] = points(&file, "made")[..] else { panic!("{json}") };
        let keys = ["tb", "tbk", "mb", "mbk", "gb", "gbk", "eb", "ebk"];
        assert_eq!(numbers(point, keys), [1110, 3, 1000, 1, 1000, 1, 10, 1]);
        // Unlike dhat, this includes the time before a reallocation.
        assert!(numbers(point, ["tl"])[0] >= 20_000, "{point}");
        // `whyslow import` can read it.
        let (_, imported) =
            whyslow_formats::import::import_bytes(json.as_bytes(), None, &Default::default()).unwrap();
        let totals = imported.profile.heap.totals();
        assert_eq!((totals.bytes_allocated, totals.live_at_exit_bytes), (1110, 10));
        assert!(totals.lifetime_ns >= 20_000_000 && imported.profile.meta.duration_ns >= 20_000_000);
    });
}

#[test]
fn json_is_printed_on_request_and_memory_output_writes_no_file() {
    let Some((folder, said)) = run("json_is_printed_on_request_and_memory_output_writes_no_file", |path| {
        let mut profiler = Profiler::builder().file_name(path).eprint_json().build();
        drop(made(123));
        let json = profiler.drop_and_get_memory_output();
        assert!(json.contains("\"tb\":123,"));
        drop(profiler);
        assert!(!path.exists());
        drop(Profiler::builder().testing().build());
    }) else {
        return;
    };
    assert!(
        said.contains("1 allocation, 123 bytes in total") && said.contains("returned to the program"),
        "{said}"
    );
    let json = &said[said.find('{').unwrap()..=said.rfind('}').unwrap()];
    assert!(serde_json::from_str::<Value>(json).unwrap()["pps"][0]["tb"] == 123, "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn testing_mode_is_silent_unless_an_assertion_fails() {
    let name = "testing_mode_is_silent_unless_an_assertion_fails";
    let Some((_folder, said)) = run(name, |path| {
        let profiler = Profiler::builder().testing().file_name(path).build();
        dhat::assert!(HeapStats::get().total_blocks < 1000);
        drop(profiler);
        assert!(!path.exists());
    }) else {
        return;
    };
    assert_eq!(said, "");
}

#[test]
fn requests_without_an_answer_panic() {
    run("requests_without_an_answer_panic", |path| {
        let none = "no profiler is running";
        let check = |expected: &str, work: &dyn Fn()| {
            let message = panic_of(work);
            assert!(message.contains(expected), "{message}");
        };
        let no_profiler = || {
            check(none, &|| heap_stats());
            check(none, &|| event_stats());
            check(none, &|| dhat::assert!(true));
            check(none, &|| dhat::assert_eq!(1, 1));
            check(none, &|| dhat::assert_ne!(1, 2));
        };
        no_profiler();
        let profiler = Profiler::builder().file_name(path).build();
        check("a profiler is already running", &|| drop(Profiler::new_heap()));
        check("a profiler is already running", &|| drop(Profiler::new_ad_hoc()));
        check("counts the heap, not events", &|| event_stats());
        check("testing mode", &|| dhat::assert!(true));
        drop(profiler);
        no_profiler();
        let profiler = Profiler::builder().file_name(path).ad_hoc().build();
        check("counts events, not the heap", &|| heap_stats());
        check("testing mode", &|| dhat::assert!(true));
        drop(profiler);
        no_profiler();
    });
}

#[test]
fn a_failed_assertion_ends_the_profiler() {
    run("a_failed_assertion_ends_the_profiler", |path| {
        let profiler = Profiler::builder().testing().file_name(path).build();
        let _block = made(31);
        let stats = HeapStats::get();
        // Allocations of an assertion's condition are not counted.
        dhat::assert!(made(1000).is_empty(), "a text {}", 1);
        assert_eq!(HeapStats::get(), stats);
        let message = panic_of(|| dhat::assert_eq!(stats.curr_bytes, 32));
        assert!(
            message.starts_with("assertion `stats.curr_bytes == 32` failed: 31 is not 32\n"),
            "{message}"
        );
        let written = std::fs::read(path).unwrap();
        for work in [|| heap_stats(), || dhat::assert!(true), || event_stats()] {
            assert!(panic_of(work).contains("an assertion failed"));
        }
        assert!(panic_of(|| drop(Profiler::new_heap())).contains("a profiler is already running"));
        assert!(dhat::dump(path).is_err());
        drop(profiler);
        assert_eq!(std::fs::read(path).unwrap(), written);
        drop(Profiler::builder().testing().build());
    });
}

#[inline(never)]
fn inner_events() {
    dhat::ad_hoc_event(1);
    dhat::ad_hoc_event(2);
}

#[inline(never)]
fn outer_events() {
    inner_events();
    dhat::ad_hoc_event(3);
}

#[test]
fn events_are_counted_by_stack() {
    run("events_are_counted_by_stack", |path| {
        dhat::ad_hoc_event(7);
        let mut profiler = Profiler::new_ad_hoc();
        let stats = AdHocStats::get();
        assert_eq!((stats.total_events, stats.total_units), (0, 0));
        dhat::ad_hoc_event(100);
        for _ in 0..2 {
            outer_events();
        }
        std::thread::Builder::new().name("worker".into()).spawn(inner_events).unwrap().join().unwrap();
        drop(made(1000));
        let stats = AdHocStats::get();
        assert_eq!((stats.total_events, stats.total_units), (9, 115));
        profiler.dump(path.with_extension("whyslow")).unwrap();
        let json = profiler.drop_and_get_memory_output();
        dhat::ad_hoc_event(7);
        assert!(!Path::new("dhat-ad-hoc.json").exists());

        let file: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(
            (&file["mode"], &file["verb"], &file["tu"]),
            (&"rust-ad-hoc".into(), &"Allocated".into(), &"µs".into())
        );
        assert_eq!(
            (&file["bu"], &file["bsu"], &file["bksu"]),
            (&"unit".into(), &"units".into(), &"events".into())
        );
        assert_eq!(
            (&file["bklt"], &file["tg"], &file["tuth"]),
            (&Value::Bool(false), &Value::Null, &Value::Null)
        );
        assert!(file["te"].is_u64() && file["pps"][0]["eb"].is_null());
        let of = |function: &str| {
            let mut rows: Vec<_> =
                points(&file, function).iter().map(|point| numbers(point, ["tb", "tbk"])).collect();
            rows.sort_unstable();
            rows
        };
        assert_eq!(of("outer_events"), [[6, 2]]);
        assert_eq!(of("inner_events"), [[1, 1], [2, 1], [2, 2], [4, 2]]);
        assert_eq!(file["pps"][0]["tb"], 100);

        let profile = whyslow_profile::file::read(&path.with_extension("whyslow")).unwrap();
        let sum = |name: &str| {
            let metric = profile.metric_named(name).unwrap();
            profile.samples[metric.index()].value.iter().sum::<u64>()
        };
        assert_eq!((sum("events"), sum("units")), (9, 115));
        assert!(profile.threads.iter().any(|thread| profile.text(thread.name) == "worker"));
        assert!(profile.meta.heap.is_none());
    });
}

#[test]
fn default_file_names_match_dhat() {
    run("default_file_names_match_dhat", |path| {
        std::env::set_current_dir(path.parent().unwrap()).unwrap();
        drop(Profiler::new_heap());
        drop(Profiler::new_ad_hoc());
        for (name, mode) in [("dhat-heap.json", "rust-heap"), ("dhat-ad-hoc.json", "rust-ad-hoc")] {
            let json: Value = serde_json::from_slice(&std::fs::read(name).unwrap()).unwrap();
            assert_eq!(json["mode"], mode);
        }
    });
}
