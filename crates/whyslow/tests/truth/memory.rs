//! Memory over time: the numbers of an imported massif.out are those that ms_print shows, also after an export.

use std::path::Path;
use std::process::Command;

use whyslow_lab_harness::{Variant, build_or_skip, is_installed, run};

use crate::recorded::{PATIENCE, whyslow};

/// What ms_print shows: the rows of its table, the number of the peak, and the bytes of each line of the peak's tree.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    rows: Vec<[u64; 6]>,
    peak: usize,
    tree: Vec<u64>,
}

fn ms_print(file: &Path) -> Shown {
    let mut print = Command::new("ms_print");
    let output = run(print.arg("--threshold=0").arg(file), PATIENCE).unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let peak = text.split_once(" (peak)").unwrap().0.rsplit(['[', ' ']).next().unwrap().parse().unwrap();
    let mut shown = Shown { rows: Vec::new(), peak, tree: Vec::new() };
    for line in text.lines() {
        let numbers: Vec<u64> =
            line.replace(',', "").split_whitespace().map_while(|word| word.parse().ok()).collect();
        if let Ok(row) = <[u64; 6]>::try_from(numbers)
            && row[0] as usize == shown.rows.len()
        {
            shown.rows.push(row);
        } else if let Some((_, rest)) = line.split_once("% (")
            && shown.rows.len() == peak + 1
        {
            shown.tree.push(rest.split_once("B)").unwrap().0.replace(',', "").parse().unwrap());
        }
    }
    shown.tree.sort_unstable();
    shown
}

fn report(folder: &Path, file: &str) -> Shown {
    let output = run(whyslow(folder).args(["report", file, "memory", "--format", "json"]), PATIENCE).unwrap();
    assert!(output.status.success(), "{output:?}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    let fields = ["time", "total_bytes", "useful_bytes", "extra_bytes", "stack_bytes"];
    let rows = json["snapshots"].as_array().unwrap().iter().enumerate().map(|(at, row)| {
        let [time, total, useful, extra, stacks] = fields.map(|field| number(&row[field]));
        [at as u64, time, total, useful, extra, stacks]
    });
    let mut tree: Vec<u64> =
        json["tree"].as_array().unwrap().iter().map(|node| number(&node["bytes"])).collect();
    tree.sort_unstable();
    Shown { rows: rows.collect(), peak: number(&json["peak"]) as usize, tree }
}

#[test]
fn an_imported_massif_file_has_the_numbers_of_ms_print_and_keeps_them_when_exported() {
    if !is_installed("valgrind") || !is_installed("ms_print") {
        return;
    }
    let Some(program) = build_or_skip("heap_leaks", Variant::Release) else { return };
    for options in [&["--time-unit=i"][..], &["--time-unit=ms"], &["--time-unit=B", "--stacks=yes"]] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("massif.out");
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["-q", "--tool=massif"]).args(options);
        valgrind.arg(format!("--massif-out-file={}", file.display())).arg(&program).arg("main");
        assert!(run(&mut valgrind, PATIENCE).unwrap().status.success());
        let theirs = ms_print(&file);
        assert!(theirs.rows.len() > 3 && theirs.tree.len() > 3, "{theirs:?}");
        assert_eq!(theirs.rows.iter().any(|row| row[5] > 0), options.contains(&"--stacks=yes"));
        assert_eq!(report(folder.path(), "massif.out"), theirs, "{options:?}");

        let export = ["export", "massif.out", "--to", "massif", "-o", "again.out"];
        assert!(run(whyslow(folder.path()).args(export), PATIENCE).unwrap().status.success());
        assert_eq!(ms_print(&folder.path().join("again.out")), theirs, "{options:?}");
    }
}

#[test]
fn a_recording_has_the_peak_that_the_heap_has_and_ms_print_shows_the_same_snapshots() {
    if !is_installed("ms_print") {
        return;
    }
    let Some(program) = build_or_skip("heap_leaks", Variant::Release) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut heap = whyslow(folder.path());
    heap.args(["heap", "-q", "-o", "run.whyslow", "--"]).arg(&program).arg("main");
    assert!(run(&mut heap, PATIENCE).unwrap().status.success());
    let report = ["report", "run.whyslow", "memory", "--format", "json"];
    let output = run(whyslow(folder.path()).args(report), PATIENCE).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let peak = json["peak"].as_u64().unwrap() as usize;
    assert_eq!(json["snapshots"][peak]["total_bytes"], json["tree"][0]["bytes"]);
    let export = ["export", "run.whyslow", "--to", "massif", "-o", "massif.out"];
    assert!(run(whyslow(folder.path()).args(export), PATIENCE).unwrap().status.success());
    let theirs = ms_print(&folder.path().join("massif.out"));
    let totals = |row: &serde_json::Value| row["total_bytes"].as_u64().unwrap();
    let ours: Vec<u64> = json["snapshots"].as_array().unwrap().iter().map(totals).collect();
    assert_eq!(ours, theirs.rows.iter().map(|row| row[2]).collect::<Vec<_>>());
    assert_eq!(peak, theirs.peak);
}
