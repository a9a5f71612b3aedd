//! heaptrack's and Valgrind's own printers read the exports and show the recorded numbers.

use std::process::{Command, Stdio};

use whyslow_formats::export::{write_heaptrack, write_massif};

use crate::heap::written;
use crate::heap_script::parser;

/// The output of a program, which must succeed. Skips the test and returns `None` if it is not installed.
fn run(command: &mut Command) -> Option<String> {
    let Ok(output) = command.stderr(Stdio::null()).output() else {
        whyslow_lab_harness::skip(&format!("{} is not installed", command.get_program().display()));
        return None;
    };
    assert!(output.status.success(), "{command:?}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn heaptrack_print_shows_the_recorded_numbers() {
    let profile = parser();
    let folder = tempfile::tempdir().unwrap();
    let (data, folded) = (folder.path().join("heap.txt"), folder.path().join("folded"));
    std::fs::write(&data, written(&profile, write_heaptrack).0).unwrap();
    let totals = profile.heap.totals();
    let costs = [
        ("allocations", totals.allocations),
        ("temporary", totals.temporary),
        ("peak", totals.peak_bytes),
        ("leaked", totals.live_at_exit_bytes),
    ];
    for (cost, total) in costs {
        let mut print = Command::new("heaptrack_print");
        print.arg("-f").arg(&data).arg("-F").arg(&folded).args(["--flamegraph-cost-type", cost]);
        let Some(text) = run(&mut print) else { return };
        let calls = format!("calls to allocation functions: {} ", totals.allocations);
        assert!(text.contains(&calls), "{calls}");
        let temporary = format!("temporary memory allocations: {} ", totals.temporary);
        assert!(text.contains(&temporary), "{temporary}");
        let stacks = std::fs::read_to_string(&folded).unwrap();
        let values = stacks.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
        assert_eq!(values.sum::<u64>(), total, "{cost}");
        if cost == "allocations" {
            let counts = &profile.heap.sites[0].counts;
            let line = stacks.lines().find(|line| line.contains("grow")).unwrap_or_default();
            assert!(line.starts_with("main (app.rs);") && line.contains(";grow (vec.rs);"), "{line}");
            assert!(line.ends_with(&format!(" {}", counts.allocations)), "{line}");
        }
    }
}

#[test]
fn ms_print_shows_the_peak() {
    let profile = parser();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("massif.out");
    std::fs::write(&data, written(&profile, write_massif).0).unwrap();
    let Some(text) = run(Command::new("ms_print").arg(&data)) else { return };
    assert!(text.contains("(peak)"), "a peak is named");
    let peak = profile.meta.heap.as_ref().unwrap().peak_bytes.to_string();
    let shown = text.replace(',', "");
    let row = shown.lines().any(|line| line.split_whitespace().nth(2) == Some(peak.as_str()));
    assert!(row, "a snapshot has {peak} bytes");
    assert!(shown.contains(": cache::insert (cache.rs:7)"), "the call site is shown");
}
