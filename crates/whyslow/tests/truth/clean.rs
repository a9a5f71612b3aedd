//! Programs without problems: `whyslow explain` finds nothing in them.
//!
//! The system programs were written by others, in other languages, and have been optimised for decades; the
//! lab programs only compute.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use whyslow_lab_harness::{Variant, build_or_skip, is_installed, run};

use crate::recorded::{PATIENCE, has_perf_events, whyslow};

/// Common system programs with their arguments, and how often each reads `text`, lines of words and numbers, at
/// first. On a fast machine they read it more often, until there are enough samples.
const OF_THE_SYSTEM: [(&[&str], usize); 11] = [
    (&["gzip", "-6", "-c"], 1),
    (&["expand"], 10),
    (&["cksum"], 80),
    (&["sort"], 2),
    (&["sha256sum"], 30),
    (&["grep", "-c", "ab[1-4]*5.*cde[0-9]*7.*rs"], 40),
    (&["awk", "{ n += length($0) } END { print n }"], 10),
    (&["perl", "-ne", "$seen{substr($_, 0, 3)}++; END { print scalar keys %seen }"], 6),
    (&["wc"], 20),
    // Writing text is what it is for.
    (&["od", "-c"], 2),
    (&["cut", "-d ", "-f2-4"], 10),
];

/// Lab programs that only compute.
const OF_THE_LAB: [(&str, &[&str]); 4] =
    [("ratio", &["1", "400"]), ("chain", &["400"]), ("inlined", &["400"]), ("threads", &["4", "200"])];

/// `whyslow explain` needs about this many samples to find something.
const ENOUGH_SAMPLES: u64 = 200;

fn write_text(folder: &Path) {
    let mut text = String::new();
    let mut state = 1_u64;
    for line in 0..200_000 {
        for _ in 0..6 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let word = state >> 40;
            let letters = ["ab", "cde", "f", "gh", "ijk", "lmno", "pq", "rs", "tuv", "wxyz"];
            let _ = write!(text, "{}{} ", letters[(word % 10) as usize], word % 1000);
        }
        let _ = writeln!(text, "{line}");
    }
    std::fs::write(folder.join("text"), text).unwrap();
}

/// The ids of all findings, each with its share and its location. `None` if the program ran too short to find
/// anything.
fn findings(folder: &Path, command: &mut Command) -> Option<Vec<String>> {
    let recorded = run(command, PATIENCE).unwrap();
    let said = String::from_utf8_lossy(&recorded.stderr).into_owned();
    assert!(recorded.status.success(), "{command:?}: {said}");
    let explained =
        run(whyslow(folder).args(["explain", "--format", "json", "run.whyslow"]), PATIENCE).unwrap();
    let json: Value = serde_json::from_slice(&explained.stdout).unwrap();
    let found = json["findings"].as_array().unwrap();
    let in_words =
        |one: &Value| format!("{} {} {} {}", one["id"], one["share"], one["function"], one["line"]);
    let is_enough = json["quality"]["samples"].as_u64() >= Some(ENOUGH_SAMPLES);
    is_enough.then(|| found.iter().map(in_words).collect())
}

#[test]
fn finds_nothing_in_system_programs() {
    if !has_perf_events() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    write_text(folder.path());
    let found = |(words, times): (&[&str], usize)| {
        if !is_installed(words[0]) {
            return Vec::new();
        }
        let recorded = |times: usize| {
            let mut record = whyslow(folder.path());
            record.args(["record", "-q", "-F", "2999", "-o", "run.whyslow", "--"]);
            record.args(words).args(vec!["text"; times]).stdout(std::process::Stdio::null());
            findings(folder.path(), &mut record)
        };
        [1, 4, 16]
            .into_iter()
            .find_map(|longer| recorded(times * longer))
            .unwrap_or_else(|| panic!("{words:?} has too few samples, even with {} files", times * 16))
    };
    for program in OF_THE_SYSTEM {
        assert_eq!(found(program), Vec::<String>::new(), "{program:?}");
    }
}

#[test]
fn finds_nothing_in_programs_that_only_compute() {
    if !has_perf_events() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for (name, arguments) in OF_THE_LAB {
        let Some(program) = build_or_skip(name, Variant::Release) else { continue };
        let mut record = whyslow(folder.path());
        record.args(["record", "-q", "-F", "2999", "-o", "run.whyslow", "--"]).arg(program).args(arguments);
        let found = findings(folder.path(), &mut record).expect("enough samples");
        wrong.extend(found.into_iter().map(|found| format!("{name}: {found}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
