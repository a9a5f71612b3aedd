//! `whyslow explain` against pairs of functions: one has a pattern that must be found with its line; the
//! other must not be reported.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use whyslow_explain::{ALL, RuleId};
use whyslow_lab_harness::{build_patterns_or_skip, run};

use crate::recorded::{PATIENCE, has_perf_events, whyslow};
use crate::syscalls::has_tracepoints;

/// Rules that no function of the lab program can show on every machine: they need CPU counters, a CPU with larger
/// vectors than the usual target, another build, or C. They are tested on synthetic profiles and on code.
const WITHOUT_PAIR: [RuleId; 7] = [
    RuleId::BranchMisses,
    RuleId::CacheMisses,
    RuleId::NarrowVectors,
    RuleId::NoFusedMultiplyAdd,
    RuleId::OverflowChecks,
    RuleId::StrlenInLoop,
    RuleId::UnpredictableBranches,
];

fn lab() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/patterns")
}

/// Ids and what their recording needs, as the program lists them.
fn pairs(program: &Path) -> Vec<(String, Vec<String>)> {
    let listed = run(std::process::Command::new(program).arg("list"), PATIENCE).unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let pair = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        Some((words.next()?, words.collect()))
    };
    listed.lines().filter_map(pair).collect()
}

/// The responsible lines: file and line by id.
fn places() -> BTreeMap<String, Vec<(String, u64)>> {
    let mut places: BTreeMap<String, Vec<(String, u64)>> = BTreeMap::new();
    for file in std::fs::read_dir(lab().join("src")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        for (line, text) in (1..).zip(std::fs::read_to_string(&path).unwrap().lines()) {
            if let Some((_, ids)) = text.split_once("// here: ") {
                for id in ids.split(", ") {
                    places.entry(id.trim().to_owned()).or_default().push((name.clone(), line));
                }
            }
        }
    }
    places
}

/// The findings in one half of a pair.
fn findings(program: &Path, id: &str, half: &str, options: &[String]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let mut record = whyslow(folder.path());
    let is_command = options.first().is_some_and(|option| !option.starts_with('-'));
    let usual = if is_command { &["-q"][..] } else { &["-q", "record", "-F", "2999"] };
    record.args(usual).args(options).args(["-o", "run.whyslow", "--"]);
    record.arg(program).args([id, half, "300"]);
    let recorded = run(&mut record, PATIENCE).unwrap();
    assert!(recorded.status.success(), "{id}: {}", String::from_utf8_lossy(&recorded.stderr));
    let explained =
        run(whyslow(folder.path()).args(["explain", "--format", "json", "run.whyslow"]), PATIENCE).unwrap();
    assert!(explained.status.success(), "{id}: {}", String::from_utf8_lossy(&explained.stderr));
    let mut json: Value = serde_json::from_slice(&explained.stdout).unwrap();
    json["findings"].as_array_mut().unwrap().drain(..).collect()
}

fn check(part: usize, of: usize) {
    if !has_perf_events() {
        return;
    }
    let Some(program) = build_patterns_or_skip() else { return };
    let places = places();
    let mut wrong = Vec::new();
    for (id, options) in pairs(&program).into_iter().skip(part).step_by(of) {
        if options.iter().any(|option| option == "--syscalls") && !has_tracepoints() {
            continue;
        }
        let try_once = || {
            let slow = findings(&program, &id, "slow", &options);
            let Some(finding) = slow.iter().find(|finding| finding["id"] == id.as_str()) else {
                return Some(format!("{id}: not found; {slow:#?}"));
            };
            let (file, line) =
                (finding["file"].as_str().unwrap_or(""), finding["line"].as_u64().unwrap_or(0));
            let is_there =
                |(name, at): &(String, u64)| file.ends_with(&format!("patterns/src/{name}")) && *at == line;
            if !places[&id].iter().any(is_there) {
                return Some(format!("{id}: at {file}:{line}, and not at {:?}", places[&id]));
            }
            let clean = findings(&program, &id, "clean", &options);
            clean
                .iter()
                .find(|finding| finding["id"] == id.as_str())
                .map(|finding| format!("{id}: {finding:#}"))
        };
        // A line misses a sample by chance now and then; a wrong rule is wrong twice.
        if try_once().is_some() {
            wrong.extend(try_once());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_pattern_is_found_with_its_line_and_only_there_1() {
    check(0, 3);
}

#[test]
fn every_pattern_is_found_with_its_line_and_only_there_2() {
    check(1, 3);
}

#[test]
fn every_pattern_is_found_with_its_line_and_only_there_3() {
    check(2, 3);
}

/// This test generates the documentation's table of rules and their pairs: `UPDATE_DOCS=1` writes it.
#[test]
fn every_rule_has_a_pair_and_a_page_and_the_table_is_current() {
    let sources = std::fs::read_dir(lab().join("src")).unwrap().map(|file| file.unwrap().path());
    let sources = sources.map(|path| std::fs::read_to_string(path).unwrap()).collect::<String>();
    let places = places();
    let mut table = String::from("| finding | what it says | found in | and not in |\n|---|---|---|---|\n");
    for rule in ALL {
        let pair = sources.lines().find_map(|line| line.trim().strip_prefix(&format!("(\"{}\", ", rule.id)));
        let (slow, clean) = match pair {
            Some(pair) => {
                let mut functions = pair.trim_end_matches("),").rsplit(", ").map(|name| format!("`{name}`"));
                let (clean, slow) = (functions.next().unwrap(), functions.next().unwrap());
                (format!("{slow}, `{}`", places[rule.id.as_str()][0].0), clean)
            }
            None if WITHOUT_PAIR.contains(&rule.id) => {
                ("tested without a program".to_owned(), "-".to_owned())
            }
            None => panic!("{} has no pair in lab/patterns", rule.id),
        };
        table.push_str(&format!("| [{0}]({0}.md) | {1} | {slow} | {clean} |\n", rule.id, rule.title));
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/findings/{}.md", rule.id));
        let page = std::fs::read_to_string(page).unwrap();
        for part in [&format!("# {}\n", rule.id), "## Why it costs", "## What to do", "## When to ignore it"]
        {
            assert!(page.contains(part), "docs/findings/{}.md has no `{part}`", rule.id);
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/findings/README.md");
    let written = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = written.split_once("<!-- table -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- end -->").unwrap();
    let made = format!("{before}<!-- table -->\n{table}<!-- end -->{after}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    assert!(written == made, "docs/findings/README.md is of another day: UPDATE_DOCS=1 writes it");
}
