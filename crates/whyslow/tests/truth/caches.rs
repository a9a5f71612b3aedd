//! Simulated caches: programs whose misses can be counted by hand, Valgrind's own tables, and programs that end in
//! every way.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use whyslow_lab_harness::{Variant, build_or_skip, is_installed, run};

use crate::recorded::{PATIENCE, whyslow};

/// A simulated program.
struct Simulated {
    folder: tempfile::TempDir,
    output: Output,
}

/// Caches that are the same on every machine.
const MACHINE: [&str; 6] = ["--I1", "32768,8,64", "--D1", "32768,8,64", "--LL", "8388608,16,64"];

fn lab(name: &str) -> Option<PathBuf> {
    is_installed("valgrind").then(|| build_or_skip(name, Variant::Release)).flatten()
}

fn simulate(program: &Path, options: &[&str], arguments: &[&str]) -> Simulated {
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    let machine = if options.contains(&"--heap") { &[][..] } else { &MACHINE };
    command.arg("cache").args(machine).args(options).args(["-o", "run.whyslow", "--"]).arg(program);
    let output = run(command.args(arguments), PATIENCE).unwrap();
    Simulated { folder, output }
}

impl Simulated {
    fn said(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    fn report(&self, arguments: &[&str]) -> Value {
        let mut command = whyslow(self.folder.path());
        command.args(["report", "run.whyslow"]).args(arguments).args(["--format", "json"]);
        let output = run(&mut command, PATIENCE).unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {}\n{}",
            String::from_utf8_lossy(&output.stderr),
            self.said()
        );
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The value of a function with what is inlined into it and what it calls.
    fn value(&self, metric: &str, function: &str) -> u64 {
        let report = self.report(&["functions", "--by", "self", "--metric", metric]);
        let rows = report["functions"].as_array().unwrap().iter();
        let named = rows.filter(|row| is_named(row["name"].as_str().unwrap_or(""), function));
        named.map(|row| row["total_value"].as_u64().unwrap()).sum()
    }

    /// The values of the lines of a file.
    fn lines(&self, metric: &str, file: &str) -> BTreeMap<u64, u64> {
        let report = self.report(&["lines", "--by", "self", "--metric", metric]);
        let mut lines = BTreeMap::new();
        for row in report["lines"].as_array().unwrap() {
            if row["file"].as_str().is_some_and(|name| name.ends_with(file)) {
                *lines.entry(row["line"].as_u64().unwrap_or(0)).or_default() +=
                    row["self_value"].as_u64().unwrap();
            }
        }
        lines.retain(|_, value| *value > 0);
        lines
    }
}

fn is_named(name: &str, function: &str) -> bool {
    name.rsplit("::").next() == Some(function)
}

/// The first accesses of a function can miss, what was there before can be evicted, or is still there.
fn assert_about(value: u64, known: u64, what: &str) {
    assert!(value.abs_diff(known) <= 20, "{what}: {value}, not {known}");
}

#[test]
fn misses_of_a_matrix_are_those_of_theory() {
    let (Some(matrix), Some(grid)) = (lab("matrix"), lab("grid")) else { return };
    for (program, along, across) in [(matrix, "by_row", "by_column"), (grid, "along", "across")] {
        for options in [&[][..], &["--no-stacks"]] {
            let simulated = simulate(&program, options, &[]);
            assert!(simulated.output.status.success(), "{}", simulated.said());
            let what = |function: &str| format!("{function} {options:?}\n{}", simulated.said());
            assert_about(simulated.value("D1mr", along), 250_000, &what(along));
            assert_about(simulated.value("D1mr", across), 4_000_000, &what(across));
            // One read per number, and a second one where the compiler keeps the sum in memory.
            let reads = simulated.value("Dr", across) / 4_000_000;
            assert!((1..=2).contains(&reads), "{reads} reads per number: {}", what(across));
        }
    }
}

#[test]
fn the_table_is_valgrinds() {
    let Some(matrix) = lab("matrix") else { return };
    let simulated = simulate(&matrix, &["--no-stacks"], &[]);
    let folder = tempfile::tempdir().unwrap();
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=cachegrind", "--branch-sim=yes", "--cache-sim=yes"]).current_dir(&folder);
    valgrind.args(["--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64"]).arg(&matrix);
    let said = run(&mut valgrind, PATIENCE).unwrap();
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    let numbers = |name: &str| -> Vec<u64> {
        let line =
            said.lines().find_map(|line| line.split_once(name)).unwrap_or_else(|| panic!("{name}: {said}")).1;
        line.replace(',', "")
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|word| word.parse().ok())
            .collect()
    };
    let cache = simulated.report(&["cache"]);
    let level =
        |name: &str| cache["caches"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
    // The environment of the program is on its stack, so a few numbers of its start differ.
    let near = |value: &Value, known: u64, what: &str| {
        let value = value.as_u64().unwrap();
        assert!(
            value.abs_diff(known) <= 2_000 + known / 1_000_000,
            "{what}: {value}, and {known} in\n{said}"
        );
    };
    near(&level("I1")["references"], numbers("I   refs:")[0], "I refs");
    let data = numbers("D   refs:");
    near(&level("D1")["references"], data[0], "D refs");
    near(&level("D1")["reads"]["references"], data[1], "D reads");
    let (first, last) = (numbers("D1  misses:"), numbers("LLd misses:"));
    for (name, numbers) in [("D1", first), ("LLd", last), ("LL", numbers("LL misses:"))] {
        near(&level(name)["misses"], numbers[0], name);
        near(&level(name)["reads"]["misses"], numbers[1], name);
        near(&level(name)["writes"]["misses"], numbers[2], name);
    }
    near(&cache["branches"]["conditional"]["references"], numbers("Branches:")[1], "branches");
    assert_eq!(cache["metric"]["simulated"], true);
    assert_eq!(cache["simulation"]["caches"][1]["bytes"], 32768);
    let said = simulated.said();
    for words in ["simulated by cachegrind", "20 to 100 times", "D1 32.0 KiB", "by_column", "why:"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

/// Costs per line of a source file in the output of cg_annotate or callgrind_annotate, one per event.
fn annotated(tool: &str, folder: &Path, file: &Path, source: &Path) -> Option<BTreeMap<u64, u64>> {
    if !is_installed(tool) {
        return None;
    }
    let mut command = Command::new(tool);
    // One takes the share that functions have to exceed, the other the share that is shown.
    let all = if tool == "cg_annotate" { "--threshold=0" } else { "--threshold=100" };
    command.current_dir(folder).args(["--show=D1mr", all]).arg(file).arg(source);
    let output = run(&mut command, PATIENCE).unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let source_lines: Vec<String> =
        std::fs::read_to_string(source).unwrap().lines().map(|line| line.trim().to_owned()).collect();
    let mut lines = BTreeMap::new();
    for row in text.lines() {
        let Some((number, rest)) = row.trim_start().split_once(' ') else { continue };
        let Ok(value) = number.replace(',', "").parse::<u64>() else { continue };
        let code = rest.trim_start();
        let code =
            code.split_once(")  ").filter(|_| code.starts_with('(')).map_or(code, |(_, code)| code).trim();
        let mut at = (1u64..).zip(&source_lines).filter(|(_, line)| !line.is_empty() && *line == code);
        if let (Some((line, _)), None) = (at.next(), at.next()) {
            lines.insert(line, value);
        }
    }
    assert!(!lines.is_empty(), "{tool}: {text}");
    Some(lines)
}

#[test]
fn lines_are_those_of_valgrinds_annotate_tools() {
    let Some(matrix) = lab("matrix") else { return };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/programs/matrix.c");
    for (tool, annotate, option) in
        [("cachegrind", "cg_annotate", "--no-stacks"), ("callgrind", "callgrind_annotate", "--no-children")]
    {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("out");
        let mut valgrind = Command::new("valgrind");
        valgrind.args([format!("--tool={tool}"), "--cache-sim=yes".to_owned()]).current_dir(&folder);
        valgrind.arg(format!("--{tool}-out-file={}", file.display()));
        valgrind.args(["--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64"]).arg(&matrix);
        assert!(run(&mut valgrind, PATIENCE).unwrap().status.success());
        let Some(expected) = annotated(annotate, folder.path(), &file, &source) else { return };
        let simulated = simulate(&matrix, &[option], &[]);
        let mut found = simulated.lines("D1mr", "matrix.c");
        assert!(found.values().any(|value| *value >= 4_000_000), "{found:?}");
        // Lines whose text is not unique in the file are left out of the other.
        found.retain(|line, _| expected.contains_key(line));
        let large = |lines: &BTreeMap<u64, u64>| -> BTreeMap<u64, u64> {
            lines.iter().filter(|(_, value)| **value > 100).map(|(line, value)| (*line, *value)).collect()
        };
        assert_eq!(large(&found), large(&expected), "{tool}");
    }
}

#[test]
fn a_finding_names_the_line_that_misses() {
    let Some(matrix) = lab("matrix") else { return };
    let simulated = simulate(&matrix, &[], &[]);
    let mut explain = whyslow(simulated.folder.path());
    let output = run(explain.args(["explain", "run.whyslow", "--format", "json"]), PATIENCE).unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = json["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["id"] == "poor-locality").unwrap();
    assert!(finding["file"].as_str().unwrap().ends_with("matrix.c"), "{finding:#}");
    let evidence = finding["evidence"][0]["text"].as_str().unwrap();
    assert!(evidence.contains("16 where 1 is needed"), "{evidence}");
    assert!(finding["share"].as_f64().unwrap() > 0.8, "{finding:#}");
}

#[test]
fn threads_children_crashes_and_kills_have_their_numbers() {
    let Some(matrix) = lab("matrix") else { return };
    let threads = simulate(&matrix, &[], &["threads"]);
    assert_about(threads.value("D1mr", "by_column"), 4_000_000, &threads.said());
    let fork = simulate(&matrix, &[], &["fork"]);
    assert_about(fork.value("D1mr", "by_column"), 4_000_000, &fork.said());
    assert_about(fork.value("D1mr", "by_row"), 250_000, "not counted again in the child");
    let crash = simulate(&matrix, &[], &["crash"]);
    assert_eq!(crash.output.status.code(), Some(128 + 6), "{}", crash.said());
    assert_about(crash.value("D1mr", "by_column"), 4_000_000, &crash.said());
    assert!(crash.said().contains("SIGABRT"), "{}", crash.said());
}

#[test]
fn only_the_wanted_function_is_simulated() {
    let Some(grid) = lab("grid") else { return };
    let simulated = simulate(&grid, &["--toggle", "across"], &[]);
    assert_about(simulated.value("D1mr", "across"), 4_000_000, &simulated.said());
    assert_eq!(simulated.value("Dr", "along"), 0);
    assert!(simulated.said().contains("only inside"), "{}", simulated.said());
    let wrong = simulate(&grid, &["--toggle", "acrss"], &[]);
    assert_eq!(wrong.output.status.code(), Some(125));
    assert!(wrong.said().contains("no such function"), "{}", wrong.said());
}

#[test]
fn reads_and_writes_of_blocks_are_counted_by_offset() {
    let Some(blocks) = lab("blocks") else { return };
    let simulated = simulate(&blocks, &["--heap"], &[]);
    assert!(simulated.output.status.success(), "{}", simulated.said());
    let heap = simulated.report(&["heap"]);
    let site = |function: &str| {
        let rows = heap["sites"].as_array().unwrap().iter();
        rows.into_iter()
            .find(|row| row["function"] == function)
            .unwrap_or_else(|| panic!("{function}: {heap:#}"))
            .clone()
    };
    let partly = site("make_partly");
    let of = |site: &Value, name: &str| site["accesses"][name].as_u64().unwrap();
    assert_eq!((of(&partly, "bytes_read"), of(&partly, "bytes_written")), (1000 * 40 * 8, 1000 * 88));
    let block = &partly["accesses"]["block"];
    let number = |name: &str| block[name].as_u64().unwrap();
    assert_eq!([number("bytes"), number("blocks")], [96, 1000]);
    assert_eq!([number("more_bytes"), number("once_bytes"), number("never_bytes")], [8, 80, 8]);
    assert_eq!(
        (of(&site("make_unread"), "bytes_read"), of(&site("make_unread"), "bytes_written")),
        (0, 6400)
    );
    assert_eq!(of(&site("make_untouched"), "bytes_written"), 0);
    let said = simulated.said().split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "of 96 bytes in each of 1,000 blocks: 8 used more than once (offsets 0-7)",
        "never read",
        "never touched",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn nothing_else_is_left_in_the_working_folder() {
    let Some(matrix) = lab("matrix") else { return };
    for mode in ["row", "crash"] {
        let simulated = simulate(&matrix, &[], &[mode]);
        let names = std::fs::read_dir(&simulated.folder).unwrap().map(|entry| entry.unwrap().file_name());
        // `cache` is the symbol cache of this test.
        let left = names.filter(|name| name != "cache");
        assert_eq!(left.collect::<Vec<_>>(), ["run.whyslow"], "{mode}");
    }
}
