//! Runs the heap programs and compares their claims with Valgrind's counts.

use std::process::Command;
use std::time::Duration;

use whyslow_lab_harness::{
    Linking, Lto, Numbers, Truth, Variant, build_allocator_or_skip, build_or_skip, is_installed, programs,
    run,
};

/// A short run, and some of the numbers it must claim for the whole program.
struct Case {
    name: &'static str,
    arguments: &'static [&'static str],
    heap: &'static [(&'static str, u64)],
    /// Which tools report the same numbers. Others include the C library's own blocks, or do not know a
    /// function.
    seen_by: SeenBy,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SeenBy {
    Nobody,
    /// memcheck: totals, and what is live at exit.
    Memcheck,
    /// The same, and massif: the peak, if something is freed after it.
    Massif,
}
use SeenBy::{Massif, Memcheck, Nobody};

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { name: "heap_blocks", arguments: &["10000"], heap: &[("allocations", 10_000), ("leaks.definitely.blocks", 100)], seen_by: Memcheck },
    Case { name: "heap_bound", arguments: &["3"], heap: &[], seen_by: Nobody },
    Case { name: "heap_coroutine", arguments: &["50"], heap: &[("allocations", 200), ("frees", 200), ("bytes_allocated", 30_000), ("temporary", 200)], seen_by: Memcheck },
    Case { name: "heap_counts", arguments: &["1", "1000"], heap: &[("allocations", 2503), ("frees", 2252), ("bytes_allocated", 899_274), ("peak_bytes", 523_024), ("temporary", 1251)], seen_by: Massif },
    Case { name: "heap_counts", arguments: &["16", "100"], heap: &[("allocations", 4048), ("temporary", 2016), ("live_at_exit_blocks", 416)], seen_by: Nobody },
    Case { name: "heap_cross", arguments: &["2", "5"], heap: &[("allocations", 2000), ("frees", 2000), ("peak_bytes", 400_000), ("temporary", 0)], seen_by: Nobody },
    Case { name: "heap_deep", arguments: &["10000", "10"], heap: &[("allocations", 31), ("live_at_exit_bytes", 1000)], seen_by: Memcheck },
    Case { name: "heap_dlopen", arguments: &["4"], heap: &[], seen_by: Nobody },
    Case { name: "heap_early", arguments: &[], heap: &[], seen_by: Nobody },
    Case { name: "heap_fork", arguments: &["2", "2"], heap: &[("allocations", 700), ("frees", 450), ("temporary", 2)], seen_by: Nobody },
    Case { name: "heap_forks", arguments: &["0.2"], heap: &[], seen_by: Nobody },
    Case { name: "heap_growth", arguments: &["flat", "10"], heap: &[("allocations", 600), ("peak_bytes", 300_000), ("live_at_exit_blocks", 40)], seen_by: Massif },
    Case { name: "heap_growth", arguments: &["linear", "10"], heap: &[("peak_bytes", 3_100_000)], seen_by: Memcheck },
    Case { name: "heap_growth", arguments: &["sawtooth", "10"], heap: &[("allocations", 600), ("peak_bytes", 470_000)], seen_by: Massif },
    Case { name: "heap_growth", arguments: &["unbounded", "10"], heap: &[("frees", 280)], seen_by: Memcheck },
    Case { name: "heap_hostile", arguments: &[], heap: &[("live_at_exit_blocks", 0)], seen_by: Nobody },
    Case { name: "heap_late", arguments: &["3"], heap: &[], seen_by: Nobody },
    Case { name: "heap_leaks", arguments: &["main"], heap: &[("leaks.definitely.blocks", 23), ("leaks.indirectly.blocks", 38), ("leaks.possibly.blocks", 4), ("leaks.reachable.blocks", 7)], seen_by: Memcheck },
    Case { name: "heap_leaks", arguments: &["register"], heap: &[("leaks.reachable.blocks", 8)], seen_by: Memcheck },
    Case { name: "heap_leaks", arguments: &["threads"], heap: &[("leaks.reachable.blocks", 11)], seen_by: Nobody },
    Case { name: "heap_library", arguments: &["waiting"], heap: &[], seen_by: Nobody },
    Case { name: "heap_load", arguments: &["deep", "1", "20000"], heap: &[("allocations", 22_500), ("temporary", 10_000)], seen_by: Massif },
    Case { name: "heap_load", arguments: &["tree", "1", "20000"], heap: &[], seen_by: Massif },
    Case { name: "heap_load", arguments: &["tree", "2", "20000"], heap: &[], seen_by: Nobody },
    Case { name: "heap_load_rust", arguments: &["tree", "2", "20000"], heap: &[("allocations", 45_000)], seen_by: Nobody },
    Case { name: "heap_pages", arguments: &[], heap: &[("leaks.definitely.blocks", 400), ("leaks.reachable.blocks", 400)], seen_by: Memcheck },
    Case { name: "heap_pages", arguments: &["up"], heap: &[("leaks.definitely.blocks", 400)], seen_by: Nobody },
    Case { name: "heap_realloc", arguments: &["1", "80"], heap: &[("allocations", 1120), ("frees", 1120), ("temporary", 80), ("peak_bytes", 131_072)], seen_by: Massif },
    Case { name: "heap_realloc", arguments: &["16", "80"], heap: &[("allocations", 17_920), ("peak_bytes", 2_097_152)], seen_by: Nobody },
    Case { name: "heap_results", arguments: &["alone"], heap: &[("leaks.definitely.blocks", 3), ("leaks.reachable.blocks", 2)], seen_by: Nobody },
    Case { name: "heap_signals", arguments: &["50"], heap: &[("live_at_exit_blocks", 0)], seen_by: Nobody },
    Case { name: "heap_starts", arguments: &["fails"], heap: &[], seen_by: Nobody },
    Case { name: "heap_unused", arguments: &[], heap: &[], seen_by: Nobody },
    Case { name: "heap_unwind", arguments: &["100"], heap: &[("allocations", 1600), ("temporary", 800)], seen_by: Memcheck },
    Case { name: "heap_wrapper", arguments: &["alone", "100"], heap: &[("allocations", 100), ("peak_bytes", 50_000)], seen_by: Memcheck },
    Case { name: "heap_wrapper", arguments: &["shared", "10"], heap: &[("allocations", 60), ("peak_bytes", 11_960)], seen_by: Memcheck },
    Case { name: "heap_vec", arguments: &[], heap: &[], seen_by: Nobody },
];

/// The ways in which `heap_exits` exits, and a shell's exit codes for them.
const EXITS: [(&str, i32); 10] = [
    ("return", 3),
    ("exit", 3),
    ("_exit", 3),
    ("quick_exit", 3),
    ("abort", 128 + 6),
    ("kill", 128 + 9),
    ("term", 128 + 15),
    ("fault", 128 + 11),
    ("thread", 3),
    ("exec", 3),
];

fn claims(case: &Case, before: &[&str]) -> Option<(Truth, String)> {
    let program = build_or_skip(case.name, Variant::Release)?;
    let mut words = before.iter().map(Into::into).chain([program.into_os_string()]);
    let mut command = Command::new(words.next()?);
    command.args(words).args(case.arguments);
    let output = run(&mut command, Duration::from_secs(120)).expect("it ends in time");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{} {:?}: {} {stderr}", case.name, case.arguments, output.status);
    Some((Truth::parse(&String::from_utf8_lossy(&output.stdout)), stderr))
}

#[test]
fn every_program_runs_and_its_numbers_agree_with_each_other() {
    for case in CASES {
        let Some((truth, _)) = claims(case, &[]) else { continue };
        let what = format!("{} {:?}", case.name, case.arguments);
        for (name, number) in case.heap {
            assert_eq!(truth.heap.get(*name), Some(number), "{what}: {name}");
        }
        assert!(!truth.heap.is_empty() || !truth.sites.is_empty(), "{what} claims nothing");
        for numbers in truth.sites.values().chain([&truth.heap]) {
            let of = |name: &str| numbers.get(name).copied();
            if let (Some(made), Some(freed), Some(left)) =
                (of("allocations"), of("frees"), of("live_at_exit_blocks"))
            {
                assert_eq!(made - freed, left, "{what}: {numbers:?}");
            }
        }
    }
}

#[test]
fn every_program_has_a_case() {
    // One has its own test here. The others wait to be inspected or exit in special ways, which the truth
    // tests check.
    let elsewhere = [
        "heap_exits",
        "heap_held",
        "heap_busy",
        "heap_handlers",
        "heap_series",
        "heap_stale",
        "heap_inherited",
    ];
    let has_case = |p: &String| CASES.iter().any(|c| c.name == p) || elsewhere.contains(&p.as_str());
    let without: Vec<String> =
        programs().unwrap().into_iter().filter(|p| p.starts_with("heap_") && !has_case(p)).collect();
    assert!(without.is_empty(), "add a case for {without:?}");
}

#[test]
fn heap_exits_exits_as_requested() {
    use std::os::unix::process::ExitStatusExt;
    let Some(program) = build_or_skip("heap_exits", Variant::Release) else { return };
    for (way, code) in EXITS {
        let output = run(Command::new(&program).arg(way), Duration::from_secs(60)).unwrap();
        let ended = output.status.code().or(output.status.signal().map(|signal| 128 + signal));
        assert_eq!(ended, Some(code), "{way}");
        let truth = Truth::parse(&String::from_utf8_lossy(&output.stdout));
        let times = if way == "exec" { 2 } else { 1 };
        assert_eq!(truth.sites["allocates"]["allocations"], 1000 * times, "{way}");
    }
}

#[test]
fn programs_with_an_allocator_linked_in_do_the_same_work() {
    for (allocator, lto, linking) in [
        ("jemalloc", Lto::Off, Linking::Dynamic),
        ("mimalloc", Lto::Fat, Linking::Dynamic),
        ("bump", Lto::Fat, Linking::Dynamic),
        ("system", Lto::Fat, Linking::Static),
    ] {
        let Some(program) = build_allocator_or_skip(allocator, lto, linking) else { return };
        let output = run(Command::new(program).args(["2", "100"]), Duration::from_secs(60)).unwrap();
        assert!(output.status.success(), "{allocator}: {output:?}");
        let truth = Truth::parse(&String::from_utf8_lossy(&output.stdout));
        assert_eq!(truth.sites["grown"]["allocations"], 400, "{allocator}");
        assert_eq!(truth.sites["plain"]["live_at_exit_blocks"], 6, "{allocator}");
    }
}

/// The numbers in a line of Valgrind's, such as `total heap usage: 2,503 allocs, 2,252 frees, 899,274 bytes allocated`.
fn numbers_after(text: &str, words: &str) -> Vec<u64> {
    let line = text.lines().find_map(|line| line.split_once(words)).unwrap_or_default().1;
    line.replace(',', "").split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn memcheck_counts_what_the_programs_claim() {
    if !is_installed("valgrind") {
        return;
    }
    for case in CASES.iter().filter(|case| case.seen_by != Nobody) {
        let memcheck = ["valgrind", "--leak-check=full", "--show-leak-kinds=all"];
        let Some((truth, said)) = claims(case, &memcheck) else { continue };
        let what = format!("{} {:?}", case.name, case.arguments);
        let claimed = |names: &[&str]| names.iter().map(|name| truth.heap[*name]).collect::<Vec<_>>();
        let totals = claimed(&["allocations", "frees", "bytes_allocated"]);
        assert_eq!(numbers_after(&said, "total heap usage:"), totals, "{what}: totals");
        let left = claimed(&["live_at_exit_bytes", "live_at_exit_blocks"]);
        assert_eq!(numbers_after(&said, "in use at exit:"), left, "{what}: in use at exit");
        for (class, words) in [
            ("definitely", "definitely lost:"),
            ("indirectly", "indirectly lost:"),
            ("possibly", "possibly lost:"),
            ("reachable", "still reachable:"),
        ] {
            let names = ["bytes", "blocks"].map(|unit| format!("leaks.{class}.{unit}"));
            let Some(bytes) = truth.heap.get(&names[0]) else { continue };
            assert_eq!(numbers_after(&said, words), [*bytes, truth.heap[&names[1]]], "{what}: {words}");
        }
    }
}

#[test]
fn massif_finds_the_peak_that_the_programs_claim() {
    if !is_installed("valgrind") {
        return;
    }
    for case in CASES.iter().filter(|case| case.seen_by == Massif) {
        let file = std::env::temp_dir().join(format!("massif-{}-{}", std::process::id(), case.name));
        let out = format!("--massif-out-file={}", file.display());
        let massif = ["valgrind", "--tool=massif", "--peak-inaccuracy=0.0", &out];
        let Some((truth, _)) = claims(case, &massif) else { continue };
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(file).unwrap();
        let sizes = text.lines().filter_map(|line| line.strip_prefix("mem_heap_B=")?.parse::<u64>().ok());
        assert_eq!(sizes.max(), Some(truth.heap["peak_bytes"]), "{} {:?}", case.name, case.arguments);
    }
}

/// A leak check has nothing to add to the C library's handling of thread storage: a table per thread, which only
/// the C library points into.
#[test]
fn memcheck_agrees_about_blocks_held_by_other_threads() {
    if !is_installed("valgrind") {
        return;
    }
    let case = |name, arguments| Case { name, arguments, heap: &[], seen_by: Nobody };
    for (case, tables) in [
        (case("heap_leaks", &["threads"]), 2),
        (case("heap_results", &["alone"]), 1),
        (case("heap_results", &["together"]), 2),
    ] {
        let Some((truth, said)) = claims(&case, &["valgrind", "--leak-check=full"]) else { return };
        let claimed = |class: &str, heap: &Numbers| {
            [heap[&format!("leaks.{class}.bytes")], heap[&format!("leaks.{class}.blocks")]]
        };
        let what = format!("{} {:?}", case.name, case.arguments);
        assert_eq!(numbers_after(&said, "definitely lost:"), claimed("definitely", &truth.heap), "{what}");
        assert_eq!(numbers_after(&said, "indirectly lost:"), claimed("indirectly", &truth.heap), "{what}");
        assert_eq!(numbers_after(&said, "still reachable:"), claimed("reachable", &truth.heap), "{what}");
        let possibly = claimed("possibly", &truth.heap)[1] + tables;
        assert_eq!(numbers_after(&said, "possibly lost:")[1], possibly, "{what}");
    }
}
