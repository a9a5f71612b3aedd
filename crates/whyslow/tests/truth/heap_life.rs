//! A program's heap is counted exactly, whatever it does with processes, threads, signals, plug-ins and
//! stacks.

use std::path::Path;
use std::process::Command;

use whyslow_lab_harness::{Variant, build_or_skip, run};
use whyslow_profile::{LocationId, file};

use crate::heap_recorded::{HeapRecorded, assert_exact, code, record_program, text};
use crate::recorded::{PATIENCE, notes, whyslow};

#[test]
fn forked_processes_have_their_own_heap() {
    for threads in ["1", "2", "16"] {
        let Some(heap) = assert_exact("heap_fork", Variant::Release, &[threads, "5"]) else { return };
        let inherited = heap.truth().counts["inherited_frees"];
        assert_eq!(heap.heap("inherited_frees"), inherited, "{threads} threads");
    }
}

/// Eight threads and their children allocate and fork all the time: nothing may hang. `cargo xtask suites`
/// does it for a minute.
#[test]
fn forking_while_others_allocate_does_not_hang() {
    assert_exact("heap_forks", Variant::Release, &["3", "8"]);
}

#[test]
fn every_kind_of_exit_keeps_the_recorded_data() {
    let Some(program) = build_or_skip("heap_exits", Variant::Release) else { return };
    for (way, expected) in [
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
    ] {
        let heap = record_program(&program, &[], &[way]);
        assert_eq!(code(&heap.output), expected, "{way}: {}", text(&heap.output.stderr));
        heap.assert_equal(&format!("heap_exits {way}"));
    }
}

#[test]
fn allocations_before_main_and_after_it_are_counted() {
    assert_exact("heap_early", Variant::Release, &[]);
}

/// The C++ library allocates when it is loaded. The outermost frame is the loader's entry, which has no
/// caller.
#[test]
fn stacks_from_the_loaders_entry_are_complete() {
    let Some(program) = build_or_skip("heap_exits", Variant::Release) else { return };
    let library = Command::new("cc").arg("-print-file-name=libstdc++.so.6").output();
    let library = library.map(|output| text(&output.stdout).trim().to_owned()).unwrap_or_default();
    if !library.starts_with('/') {
        whyslow_lab_harness::skip("libstdc++.so.6 is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command
        .env("LD_PRELOAD", library)
        .args(["heap", "-q", "-o", "run.whyslow", "--"])
        .arg(program)
        .arg("return");
    let output = run(&mut command, PATIENCE).unwrap();
    let profile = file::read(&folder.path().join("run.whyslow")).unwrap();
    let of_the_library = |location: &LocationId| {
        let module = profile.locations.module[location.index()];
        module.is_some_and(|module| {
            profile.text(profile.modules[module.index()].path).contains("/libstdc++.so.6")
        })
    };
    let mut seen = 0;
    for site in &profile.heap.sites {
        let locations: Vec<LocationId> = profile.locations_of(site.stack).collect();
        if locations.iter().any(of_the_library) {
            assert!(!locations.contains(&LocationId::TRUNCATED), "{:?}", profile.heap);
            // The library keeps that block for itself, as memcheck knows too.
            assert_eq!(site.counts.live_at_exit_blocks, 0);
            seen += 1;
        }
    }
    assert!(seen > 0, "the library did not allocate: {}", text(&output.stderr));
}

#[test]
fn signal_handlers_may_allocate() {
    let Some(heap) = assert_exact("heap_signals", Variant::Release, &["200"]) else { return };
    for below in ["raises", "faults", "leaves", "spins"] {
        let through = heap.profile().heap.sites.iter().any(|site| {
            let functions = heap.functions(site.stack);
            functions.contains(&"in_handler") && functions.contains(&below)
        });
        assert!(through, "no stack goes from in_handler through the signal frame to {below}");
    }
}

#[test]
fn distinguishes_plug_ins_at_the_same_address() {
    let Some(heap) = assert_exact("heap_dlopen", Variant::Release, &["20"]) else { return };
    assert!(heap.truth().counts["same_address"] > 0, "the case did not come up");
}

#[test]
fn stacks_are_complete_below_frames_that_are_hard_to_walk() {
    let Some(heap) = assert_exact("heap_unwind", Variant::Release, &["1000"]) else { return };
    let paths = &heap.truth().paths;
    let mut seen = 0;
    for site in &heap.profile().heap.sites {
        let functions = heap.functions(site.stack);
        let leaf = functions.first().copied().unwrap_or_default();
        let Some(path) = paths.iter().find(|path| path.last().is_some_and(|last| last == leaf)) else {
            continue;
        };
        let expected: Vec<&str> = path.iter().rev().map(String::as_str).collect();
        assert_eq!(functions.get(..expected.len()), Some(expected.as_slice()), "{functions:?}");
        seen += 1;
    }
    assert!(seen >= paths.len(), "{seen} of {} stacks", paths.len());
}

#[test]
fn a_stack_of_ten_thousand_calls_is_complete() {
    let Some(heap) = assert_exact("heap_deep", Variant::Release, &["10000", "100"]) else { return };
    let depths: Vec<usize> = heap
        .profile()
        .heap
        .sites
        .iter()
        .map(|site| heap.functions(site.stack))
        .filter(|functions| functions.first() == Some(&"bottom"))
        .map(|functions| functions.iter().filter(|function| **function == "down").count())
        .collect();
    assert!(!depths.is_empty() && depths.iter().all(|depth| *depth == 10_000), "{depths:?}");
}

/// musl has no tables for the code that calls `main` and the functions of threads, and a stack created by
/// makecontext has no caller.
#[test]
fn stacks_of_threads_and_coroutines_are_complete() {
    for (program, variant, arguments) in [
        ("heap_counts", Variant::Musl, ["2", "200"].as_slice()),
        ("heap_coroutine", Variant::Release, &["50"]),
        ("heap_coroutine", Variant::Static, &["50"]),
    ] {
        let Some(program) = build_or_skip(program, variant) else { continue };
        assert_whole(&program, arguments);
    }
}

/// musl's compiler omits the search table.
#[test]
fn stacks_of_dynamic_musl_programs_are_complete() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <pthread.h>\n#include <stdlib.h>\nvoid *kept[20];\n\
        __attribute__((noinline)) void leaf(int i) { kept[i] = malloc(100); }\n\
        void *thread(void *from) { for (int i = 0; i < 10; i++) leaf(*(int *)from + i); return 0; }\n\
        int main(void) { int from = 10, first = 0; thread(&first); pthread_t t;\n\
        return pthread_create(&t, 0, thread, &from) || pthread_join(t, 0); }\n";
    std::fs::write(folder.path().join("p.c"), source).unwrap();
    let built =
        Command::new("musl-gcc").current_dir(folder.path()).args(["-O1", "-g", "-o", "p", "p.c"]).status();
    if !built.is_ok_and(|built| built.success()) {
        whyslow_lab_harness::skip("musl-gcc is not installed");
        return;
    }
    let heap = assert_whole(&folder.path().join("p"), &[]);
    assert_eq!(heap.at("leaf", "allocations"), 20);
    assert_eq!(heap.at("main", "allocations"), 10);
}

/// C code that Go calls runs on a separate stack.
#[test]
fn stacks_of_c_code_called_from_go_are_complete() {
    let folder = tempfile::tempdir().unwrap();
    let source = "package main\n\n/*\n#include <stdlib.h>\nvoid *kept[100];\n\
        static void leaf(int i) { kept[i] = malloc(1000 + i); }\n*/\nimport \"C\"\n\n\
        func main() {\n\tfor i := 0; i < 100; i++ {\n\t\tC.leaf(C.int(i))\n\t}\n}\n";
    std::fs::write(folder.path().join("main.go"), source).unwrap();
    let built = Command::new("go")
        .current_dir(folder.path())
        .env("GOCACHE", folder.path().join("cache"))
        .args(["build", "-o", "p", "main.go"])
        .status();
    if !built.is_ok_and(|built| built.success()) {
        whyslow_lab_harness::skip("Go with cgo is not installed");
        return;
    }
    let heap = assert_whole(&folder.path().join("p"), &[]);
    assert_eq!(heap.at("leaf", "allocations"), 100);
}

fn assert_whole(program: &Path, arguments: &[&str]) -> HeapRecorded {
    let heap = record_program(program, &[], arguments);
    let name = program.display();
    assert_eq!(code(&heap.output), 0, "{name}: {}", text(&heap.output.stderr));
    for site in &heap.profile().heap.sites {
        let root = heap.profile().locations_of(site.stack).last();
        assert_ne!(root, Some(LocationId::TRUNCATED), "{name}: {:?}", heap.functions(site.stack));
    }
    heap
}

#[test]
fn unmapped_stacks_are_not_read() {
    let Some(heap) = assert_exact("heap_coroutine", Variant::Release, &["500"]) else { return };
    for site in &heap.profile().heap.sites {
        let functions = heap.functions(site.stack);
        let mixed = functions.contains(&"in_inner") && functions.contains(&"in_outer");
        assert!(!mixed, "two coroutines on one stack: {functions:?}");
    }
}

#[test]
fn names_a_process_that_outlives_the_program() {
    let Some(program) = build_or_skip("heap_held", Variant::Release) else { return };
    let folder = tempfile::tempdir().unwrap();
    // It waits for its input, which ends by itself.
    let script = "sleep 5 2>/dev/null | \"$0\" calm >\"$1\" 2>&1 & while ! grep -q ready \"$1\" 2>&1; do sleep 0.05; done >&2";
    let out = folder.path().join("out");
    let mut command = whyslow(folder.path());
    command.args(["heap", "-o", "run.whyslow", "--", "sh", "-c", script]).args([&program, &out]);
    let output = run(&mut command, PATIENCE).unwrap();
    let notes = notes(&file::read(&folder.path().join("run.whyslow")).unwrap()).join("\n");
    assert!(notes.contains(" kept running after the program exited"), "{notes}\n{}", text(&output.stderr));
}

/// A process that exits or executes another program releases its memory, and the next one allocates as much
/// again.
#[test]
fn consecutive_processes_have_one_peak() {
    for way in ["exec", "killed", "exit"] {
        let Some(heap) = assert_exact("heap_series", Variant::Release, &[way]) else { return };
        let facts = heap.profile().meta.heap.as_ref().unwrap();
        let held = 16 << 20;
        let peaks: Vec<u64> = facts.by_process.iter().take(4).map(|process| process.peak_bytes).collect();
        assert_eq!(peaks, [held; 4], "{way}");
        assert_eq!(facts.processes, if way == "exec" { 4 } else { 5 }, "{way}");
        let executed = facts.by_process.iter().filter(|process| process.executed).count();
        assert_eq!(executed, if way == "exec" { 3 } else { 0 }, "{way}");
    }
}
