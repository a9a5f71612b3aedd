//! A block belongs to the process that allocated it. Blocks that a forked process inherits are not its own
//! leaks, and keep what it attaches to them reachable.

use std::path::Path;

use whyslow_analyze::heap::live_over_time;
use whyslow_lab_harness::{Variant, build_or_skip};

use crate::heap_recorded::{code, record_heap, record_program, text};

const LOST: [(&str, u64); 5] = [
    ("lost_by_parent", 1),
    ("lost_by_child", 2),
    ("lost_by_grandchild", 1),
    ("hung_by_child", 0),
    ("hung_by_grandchild", 0),
];

#[test]
fn a_forked_process_leaks_only_its_own_blocks() {
    for variant in [Variant::Release, Variant::Static, Variant::Musl] {
        let Some(heap) = record_heap("heap_inherited", variant, &[]) else { continue };
        assert_eq!(code(&heap.output), 0, "{variant:?}: {}", text(&heap.output.stderr));
        for (function, blocks) in LOST {
            assert_eq!(heap.at(function, "leaks.definitely.blocks"), blocks, "{variant:?}: {function}");
            assert_eq!(heap.at(function, "leaks.indirectly.blocks"), 0, "{variant:?}: {function}");
        }
        assert_eq!(heap.heap("leaks.definitely.blocks"), 4, "{variant:?}");
        assert_eq!(heap.at("hung_by_grandchild", "leaks.reachable.blocks"), 100, "{variant:?}");
        // The grandchild inherits the child's blocks as well, and they are counted once.
        assert_eq!(heap.at("hung_by_child", "leaks.reachable.blocks"), 100, "{variant:?}");
        assert_eq!(heap.at("hung_by_child", "live_at_exit_blocks"), 100, "{variant:?}");
    }
}

/// memcheck finds nothing in them either.
#[test]
fn forking_shells_leak_nothing() {
    let script =
        "(x=1; echo $x; :); y=$(echo hi); (f() { a=$1; echo $a $y; }; f 3); for i in 1 2; do (z=$i; :); done";
    for shell in ["/bin/dash", "/bin/bash"].map(Path::new) {
        if !shell.exists() {
            whyslow_lab_harness::skip(&format!("{} is not installed", shell.display()));
            continue;
        }
        let heap = record_program(shell, &["--fail-on-leak"], &["-c", script]);
        assert_eq!(code(&heap.output), 0, "{}: {}", shell.display(), text(&heap.output.stderr));
        assert!(heap.heap("processes") > 4, "{}", shell.display());
    }
}

/// Live bytes, over time and at one point in time, are those of the processes that existed.
#[test]
fn live_bytes_of_consecutive_processes_are_not_added_up() {
    let Some(program) = build_or_skip("heap_series", Variant::Release) else { return };
    for way in ["exec", "killed", "exit"] {
        let heap = record_program(&program, &[], &[way]);
        let peak = heap.heap("peak_bytes");
        let most = live_over_time(heap.profile(), 60).into_iter().max();
        assert!(most.is_some_and(|most| most <= peak), "{way}: {most:?} of {peak}");
    }
}
