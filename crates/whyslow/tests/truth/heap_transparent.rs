//! A program does not notice that its heap is recorded: its output, its exit, and its allocator's guarantees
//! are the same.

use whyslow_lab_harness::{Truth, Variant, build_or_skip, run};
use whyslow_profile::file;

use crate::heap_recorded::{as_nobody, assert_exact, code, plain, record_program, text};
use crate::recorded::{PATIENCE, Recorded, whyslow};

#[test]
fn the_allocator_keeps_its_guarantees() {
    for variant in [Variant::Release, Variant::Debug] {
        assert_exact("heap_hostile", variant, &[]);
    }
}

/// `--unused` fills new blocks, but not those of calloc, and not the bytes that realloc must keep.
#[test]
fn the_allocator_keeps_its_guarantees_in_every_mode() {
    let Some(program) = build_or_skip("heap_hostile", Variant::Release) else { return };
    for options in [&["--unused"][..], &["--sample", "4k"], &["--mmap"], &["--cpu"], &["--no-leak-check"]] {
        let heap = record_program(&program, options, &[]);
        assert_eq!(code(&heap.output), 0, "{options:?}: {}", text(&heap.output.stderr));
        assert!(text(&heap.output.stdout).ends_with("kept\n"), "{options:?}");
    }
}

/// Programs that print the same on every run.
#[test]
fn output_and_exit_code_are_those_of_a_plain_run() {
    for (program, arguments) in [
        ("heap_counts", &["16", "200"][..]),
        ("heap_realloc", &["2", "100"]),
        ("heap_leaks", &["threads"]),
        ("heap_early", &[]),
        ("heap_unwind", &["50"]),
        ("heap_coroutine", &["50"]),
        ("heap_exits", &["abort"]),
        ("heap_exits", &["thread"]),
        ("heap_vec", &[]),
        ("exits", &["print"]),
        ("exits", &["code", "7"]),
        ("exits", &["panic"]),
    ] {
        let Some(path) = build_or_skip(program, Variant::Release) else { return };
        let (plain, heap) = (plain(&path, arguments), record_program(&path, &[], arguments));
        assert_eq!(code(&heap.output), code(&plain), "{program} {arguments:?}");
        assert_eq!(text(&heap.output.stdout), text(&plain.stdout), "{program} {arguments:?}");
        // A panic message contains the number of its thread.
        if arguments != ["panic"] {
            assert_eq!(text(&heap.output.stderr), text(&plain.stderr), "{program} {arguments:?}");
        }
    }
}

/// Signals 32 and 33 are the C library's: it ignores them in programs started in some ways, and not in
/// others. Pending signals are counted over all programs of a user. The agent has handlers where the program
/// has none, which only the kernel reports.
fn without_internal_signals(line: &str) -> String {
    if let Some((_, limit)) = line.strip_prefix("status SigQ: ").and_then(|counts| counts.split_once('/')) {
        return format!("status SigQ limit: {limit}");
    }
    const INTERNAL: u64 = 0b11 << 31;
    const LOOKED_AFTER: [u32; 13] = [1, 2, 3, 4, 6, 7, 8, 10, 11, 12, 14, 15, 24];
    let looked_after = LOOKED_AFTER.iter().fold(0, |mask, signal| mask | 1 << (signal - 1));
    let mask = line.strip_prefix("status Sig").and_then(|rest| rest.split_once(": "));
    match mask.and_then(|(name, mask)| Some((name, u64::from_str_radix(mask, 16).ok()?))) {
        Some(("Cgt", mask)) => format!("status SigCgt: {:x}", mask & !INTERNAL & !looked_after),
        Some((name, mask)) => format!("status Sig{name}: {:x}", mask & !INTERNAL),
        None => line.to_owned(),
    }
}

/// Signal masks, open files and limits are as without a recorder; the environment has at most two more
/// variables.
#[test]
fn signals_files_and_limits_are_unchanged() {
    let Some(program) = build_or_skip("exits", Variant::Release) else { return };
    let folder = tempfile::tempdir().unwrap();
    let report = |command: &mut std::process::Command| {
        let said = text(&run(command, PATIENCE).unwrap().stdout);
        let is_ours = |line: &&str| line.contains("LD_PRELOAD") || line.contains("WHYSLOW_AGENT");
        said.lines().filter(|line| !is_ours(line)).map(without_internal_signals).collect::<Vec<_>>()
    };
    let mut without = std::process::Command::new(&program);
    without.current_dir(folder.path()).env("XDG_CACHE_HOME", folder.path().join("cache"));
    let mut with = whyslow(folder.path());
    with.args(["heap", "-q", "-o", "run.whyslow", "--"]).arg(&program);
    let (without, with) = (report(without.arg("report")), report(with.arg("report")));
    assert!(without.len() > 20, "{without:?}");
    let changed = with.iter().filter(|line| !without.contains(line));
    let missing = without.iter().filter(|line| !with.contains(line));
    let differences: Vec<_> = changed.chain(missing).collect();
    assert!(differences.is_empty(), "{differences:#?}");
}

/// An ordinary user gets the same exact numbers.
#[test]
fn an_ordinary_user_can_record_the_heap() {
    for (name, variant, arguments) in [
        ("heap_counts", Variant::Release, &["2", "1000"][..]),
        ("heap_leaks", Variant::Release, &["main"]),
        ("heap_counts", Variant::StaticPie, &["2", "1000"]),
    ] {
        let Some(program) = build_or_skip(name, variant) else { return };
        let Some((folder, mut command)) = as_nobody(&program) else { return };
        command.args(["heap", "-q", "-o", "run.whyslow", "--", "./program"]).args(arguments);
        let output = run(&mut command, PATIENCE).unwrap();
        assert_eq!(code(&output), 0, "{name}: {}", text(&output.stderr));
        let mut report = whyslow(folder.path());
        report.args(["report", "run.whyslow", "heap", "--format", "json", "--limit", "100000"]);
        let json = serde_json::from_slice(&run(&mut report, PATIENCE).unwrap().stdout).unwrap();
        let truth = Truth::parse(&text(&output.stdout));
        let profile = file::read(&folder.path().join("run.whyslow")).unwrap();
        let heap = crate::heap_recorded::HeapRecorded {
            recorded: Recorded { profile, truth, folder },
            json,
            output,
        };
        heap.assert_equal(&format!("{name} {variant:?} as nobody"));
    }
}
