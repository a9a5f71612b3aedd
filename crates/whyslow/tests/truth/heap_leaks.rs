//! Leaks have memcheck's classes, block by block.

use std::process::Command;

use whyslow_lab_harness::{Variant, build_or_skip, run};

use crate::heap_recorded::{assert_exact, code, plain, record_program, text};
use crate::recorded::PATIENCE;

/// A class, and memcheck's name for it.
const CLASSES: [(&str, &str); 4] = [
    ("definitely", "definitely lost:"),
    ("indirectly", "indirectly lost:"),
    ("possibly", "possibly lost:"),
    ("reachable", "still reachable:"),
];

/// The bytes and blocks in memcheck's summary.
fn summary(said: &str, words: &str) -> Option<(u64, u64)> {
    let line = said.lines().find_map(|line| line.split_once(words))?.1.replace(',', "");
    let mut numbers = line.split_whitespace().filter_map(|word| word.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

#[test]
fn leaks_have_the_classes_that_the_program_claims() {
    for mode in ["main", "threads"] {
        assert_exact("heap_leaks", Variant::Release, &[mode]);
    }
    for variant in [Variant::Static, Variant::StaticPie, Variant::Musl] {
        assert_exact("heap_leaks", variant, &["main"]);
    }
}

/// The C library can free what it allocated for itself, and that is not the program's leak. While threads run,
/// nothing is freed under them.
#[test]
fn memory_of_the_c_library_is_not_live_at_exit() {
    for threads in ["none", "waiting", "busy"] {
        let Some(heap) = assert_exact("heap_library", Variant::Release, &[threads]) else { return };
        assert!(heap.at("uses_library", "allocations") > 0, "{threads}");
    }
}

/// Pages that the program maps itself hold what they point to, as long as they are mapped. Which ones are may
/// depend on the order of addresses, which memcheck reverses.
#[test]
fn mapped_pages_hold_blocks_in_both_layouts() {
    for layout in ["system", "up"] {
        assert_exact("heap_pages", Variant::Release, &[layout]);
    }
}

/// The stacks that libc keeps for its next threads hold nothing, even while other threads run.
#[test]
fn results_of_threads_that_nobody_takes_are_lost() {
    for others in ["alone", "together"] {
        assert_exact("heap_results", Variant::Release, &[others]);
    }
}

/// The program exits with a direct system call: no leak check is possible, and that is reported instead of a
/// guess.
#[test]
fn an_unhooked_exit_has_no_leak_check() {
    let Some(program) = build_or_skip("heap_leaks", Variant::Release) else { return };
    let heap = record_program(&program, &[], &["register"]);
    assert_eq!(code(&heap.output), 0, "{}", text(&heap.output.stderr));
    assert!(heap.json["heap"]["leaks"].is_null(), "{}", heap.json["heap"]["leaks"]);
    let check = heap.json["heap"]["leak_check"].as_str().unwrap();
    assert!(check.starts_with("impossible: the program exited without calling exit"), "{check}");
    let failed = record_program(&program, &["--fail-on-leak"], &["register"]);
    assert_eq!(code(&failed.output), 3);
    let said = text(&failed.output.stderr);
    assert!(said.contains("error: --fail-on-leak: cannot decide whether memory is lost: "), "{said}");
    // The live blocks are known anyway.
    let lost = ["definitely", "indirectly", "possibly", "reachable"];
    let claimed: u64 = lost.iter().map(|class| heap.truth().heap[&format!("leaks.{class}.blocks")]).sum();
    assert_eq!(heap.heap("live_at_exit_blocks"), claimed);
}

#[test]
fn checks_a_million_blocks_for_leaks() {
    assert_exact("heap_blocks", Variant::Release, &["1000000"]);
}

#[test]
fn leaks_have_the_classes_of_memcheck() {
    if !whyslow_lab_harness::is_installed("valgrind") {
        return;
    }
    let Some(program) = build_or_skip("heap_leaks", Variant::Release) else { return };
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--leak-check=full", "--show-leak-kinds=all"]).arg(&program).arg("main");
    let said = text(&run(&mut valgrind, PATIENCE).unwrap().stderr);
    let heap = record_program(&program, &[], &["main"]);
    for (class, words) in CLASSES {
        let ours = ["bytes", "blocks"].map(|unit| heap.heap(&format!("leaks.{class}.{unit}")));
        assert_eq!(summary(&said, words), Some((ours[0], ours[1])), "{words}");
    }
}

/// Each function of the program allocates blocks of one class.
#[test]
fn reports_every_leak_with_its_allocating_function() {
    let Some(program) = build_or_skip("heap_leaks", Variant::Release) else { return };
    let heap = record_program(&program, &[], &["main"]);
    for (function, definitely, indirectly, possibly, reachable) in [
        ("lost_block", 9, 0, 0, 0),
        ("lost_chain", 1, 5, 0, 0),
        ("lost_cycle", 1, 2, 0, 0),
        ("lost_tree", 1, 30, 0, 0),
        ("lost_with_interior", 1, 1, 0, 0),
        ("lost_behind", 1, 0, 0, 0),
        ("lost_through_freed", 8, 0, 0, 0),
        ("held_inside", 0, 0, 1, 0),
        ("held_inside_chain", 0, 0, 3, 0),
        ("held_by_globals", 0, 0, 0, 5),
        ("held_by_stack", 0, 0, 0, 1),
        ("held_empty", 0, 0, 0, 1),
    ] {
        let of = |class: &str| heap.at(function, &format!("leaks.{class}.blocks"));
        let classes = ["definitely", "indirectly", "possibly", "reachable"].map(of);
        assert_eq!(classes, [definitely, indirectly, possibly, reachable], "{function}");
    }
}

#[test]
fn a_leak_fails_a_run_if_requested() {
    let (Some(leaks), Some(clean)) =
        (build_or_skip("heap_leaks", Variant::Release), build_or_skip("heap_realloc", Variant::Release))
    else {
        return;
    };
    let failed = record_program(&leaks, &["--fail-on-leak"], &["main"]);
    assert_eq!(code(&failed.output), 2);
    // A quiet run also says why it fails.
    let said = text(&failed.output.stderr);
    assert!(said.contains("error: --fail-on-leak: ") && said.contains(" definitely lost in "), "{said}");
    assert_eq!(code(&record_program(&leaks, &[], &["main"]).output), 0);
    assert_eq!(code(&record_program(&clean, &["--fail-on-leak"], &[]).output), 0);
}

/// As with memcheck: blocks reachable only from a suppressed block are not a reason to fail.
#[test]
fn blocks_below_suppressed_ones_do_not_fail_a_run() {
    let Some(leaks) = build_or_skip("heap_leaks", Variant::Release) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lost.supp");
    let suppression = "{\n   lost\n   Memcheck:Leak\n   match-leak-kinds: definite\n   ...\n   fun:main\n}\n";
    std::fs::write(&file, suppression).unwrap();
    let options = ["--fail-on-leak", "--suppressions", file.to_str().unwrap()];
    let heap = record_program(&leaks, &options, &["main"]);
    assert_eq!(code(&heap.output), 0, "{}", text(&heap.output.stderr));
    assert_eq!(heap.heap("leaks.definitely.blocks"), 0);
    assert!(heap.heap("leaks.indirectly.blocks") > 0);
}

/// A program is checked however it exits, unless the kernel kills it at once.
#[test]
fn a_program_is_checked_however_it_exits() {
    for variant in [Variant::Release, Variant::Static, Variant::Musl] {
        let Some(program) = build_or_skip("heap_exits", variant) else { continue };
        for way in [
            "return",
            "exit",
            "_exit",
            "quick_exit",
            "abort",
            "term",
            "int",
            "fault",
            "group",
            "thread",
            "last",
        ] {
            let heap = record_program(&program, &[], &[way]);
            assert_eq!(heap.json["heap"]["leak_check"], "at exit", "{variant:?} {way}");
            // A table holds all of them.
            assert_eq!(heap.at("allocates", "leaks.reachable.blocks"), 600, "{variant:?} {way}");
            assert_eq!(code(&heap.output), code(&plain(&program, &[way])), "{variant:?} {way}");
        }
        let heap = record_program(&program, &[], &["kill"]);
        let check = heap.json["heap"]["leak_check"].as_str().unwrap();
        assert!(
            check.starts_with("impossible: signal 9 ended the program; `whyslow heap --snapshot"),
            "{check}"
        );
    }
}

/// A program that queries its signal handlers gets those that it set.
#[test]
fn the_agents_signal_handlers_are_invisible_to_the_program() {
    for variant in [Variant::Release, Variant::Static, Variant::Musl] {
        let Some(program) = build_or_skip("heap_handlers", variant) else { continue };
        let heap = record_program(&program, &[], &[]);
        assert_eq!(code(&heap.output), 0, "{variant:?}: {}", text(&heap.output.stderr));
        assert_eq!(text(&heap.output.stdout), text(&plain(&program, &[]).stdout), "{variant:?}");
    }
}

/// The program still runs when its recording ends.
#[test]
fn a_running_program_is_checked_when_its_recording_ends() {
    let Some(program) = build_or_skip("heap_exits", Variant::Release) else { return };
    let heap = record_program(&program, &["--duration", "1"], &["wait"]);
    assert_eq!(heap.json["heap"]["leak_check"], "at exit");
    assert_eq!(heap.heap("leaks.reachable.blocks"), 600);
}

/// The memory of a process and the list of its blocks must be from the same point in time.
#[test]
fn nothing_is_reported_lost_while_other_threads_run() {
    for mode in ["list", "array"] {
        for _ in 0..4 {
            let Some(program) = build_or_skip("heap_busy", Variant::Release) else { return };
            let heap = record_program(&program, &["--fail-on-leak"], &[mode]);
            assert_eq!(code(&heap.output), 0, "{mode}: {}", text(&heap.output.stderr));
            for class in ["definitely", "indirectly"] {
                assert_eq!(heap.heap(&format!("leaks.{class}.blocks")), 0, "{mode}: {class}");
            }
        }
    }
}

/// During the check, the agent waits in its own frames, below those of the program.
#[test]
fn the_agents_stack_frames_keep_nothing_reachable() {
    for variant in [Variant::Release, Variant::Static, Variant::Musl] {
        let Some(program) = build_or_skip("heap_stale", variant) else { continue };
        for way in ["exit", "_exit", "quick_exit", "return"] {
            let heap = record_program(&program, &["--fail-on-leak"], &[way]);
            assert_eq!(heap.heap("leaks.definitely.blocks"), 64, "{variant:?} {way}");
            assert_eq!(code(&heap.output), 2, "{variant:?} {way}");
        }
    }
}

/// The agent enlarges the loader's thread tables, which is not the program's allocation.
#[test]
fn the_agents_own_thread_data_is_not_counted() {
    if !whyslow_lab_harness::is_installed("valgrind") {
        return;
    }
    let Some(program) = build_or_skip("heap_leaks", Variant::Release) else { return };
    let mut valgrind = Command::new("valgrind");
    let said = text(&run(valgrind.arg(&program).arg("threads"), PATIENCE).unwrap().stderr);
    let usage =
        said.lines().find_map(|line| line.split_once("total heap usage: ")).unwrap().1.replace(',', "");
    let numbers: Vec<u64> = usage.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let heap = record_program(&program, &[], &["threads"]);
    let ours = ["allocations", "frees", "bytes_allocated"].map(|name| heap.heap(name));
    assert_eq!(ours[..], numbers[..], "{usage}");
}
