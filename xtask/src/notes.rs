//! Notes that tests write while they run: collected in a file, shown at the end of `cargo xtask test`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use serde_json::Value;

use crate::process;

/// The file with the notes of this run. Tests find it through [`whyslow_lab_harness::NOTES_FILE`].
pub(crate) fn file() -> PathBuf {
    process::target_folder().join("test-notes.txt")
}

/// Deletes the notes and reports of earlier runs.
pub(crate) fn begin() -> Result<()> {
    std::fs::create_dir_all(process::target_folder())?;
    for report in BROWSERS.map(browser_results).into_iter().chain([last_report(), all_reports()]) {
        let _ = std::fs::remove_file(report);
    }
    Ok(std::fs::write(file(), "")?)
}

/// The browsers that pages are tested in.
const BROWSERS: [&str; 2] = ["chromium", "firefox"];

/// Notes that these tests passed only on a retry.
pub(crate) fn passed_on_retry(tests: &[String]) -> Result<()> {
    let mut notes = std::fs::OpenOptions::new().append(true).open(file())?;
    for test in tests {
        notes.write_all(format!("{PASSED_ON_RETRY}\t{test}\t\n").as_bytes())?;
    }
    Ok(())
}

const PASSED_ON_RETRY: &str = "passed on retry";

/// The notes for a reader: retries by name, and skipped tests by reason.
pub(crate) fn summary() -> String {
    summary_of(&std::fs::read_to_string(file()).unwrap_or_default())
}

fn summary_of(notes: &str) -> String {
    let mut tries = Vec::new();
    let mut skipped: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in notes.lines() {
        let mut columns = line.splitn(3, '\t');
        let (what, test, why) =
            (columns.next().unwrap_or(""), columns.next().unwrap_or("?"), columns.next().unwrap_or(""));
        match what {
            "skipped" => {
                let tests = skipped.entry(why).or_default();
                if !tests.contains(&test) {
                    tests.push(test);
                }
            }
            _ if why.is_empty() => tries.push(format!("{what}: {test}\n")),
            _ => tries.push(format!("{what}: {test}: {why}\n")),
        }
    }
    let skipped = skipped.iter().map(|(why, tests)| match tests[..] {
        [test] => format!("skipped: {test}: {why}\n"),
        [first, ..] => format!("skipped: {} tests, for example {first}: {why}\n", tests.len()),
        [] => String::new(),
    });
    tries.into_iter().chain(skipped).collect()
}

/// The report that nextest writes.
fn last_report() -> PathBuf {
    process::target_folder().join("nextest/default/junit.xml")
}

/// The reports of all runs of nextest, one after the other.
fn all_reports() -> PathBuf {
    process::target_folder().join("nextest/reports.xml")
}

/// Keeps the report of nextest's last run, and notes which of its tests passed only on a retry.
pub(crate) fn keep_report() -> Result<()> {
    let report = std::fs::read_to_string(last_report()).unwrap_or_default();
    let _ = std::fs::remove_file(last_report());
    let mut all = std::fs::OpenOptions::new().create(true).append(true).open(all_reports())?;
    all.write_all(report.as_bytes())?;
    passed_on_retry(&flaky_tests(&report))
}

/// The results that `browser-tests/run.mjs` writes.
pub(crate) fn browser_results(browser: &str) -> PathBuf {
    process::target_folder().join(format!("browser-tests/{browser}.json"))
}

/// The slowest tests of this run, with their seconds.
pub(crate) fn slowest() -> String {
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let mut times = times(&read(all_reports()));
    for browser in BROWSERS {
        times.extend(browser_times(browser, &read(browser_results(browser))));
    }
    slowest_of(times)
}

fn slowest_of(mut times: Vec<(f64, String)>) -> String {
    const SHOWN: usize = 10;
    times.sort_by(|one, other| other.0.total_cmp(&one.0));
    let mut text = String::new();
    for (seconds, test) in times.iter().take(SHOWN) {
        text.push_str(&format!("slow: {seconds:>5.1} s  {test}\n"));
    }
    text
}

/// The tests of nextest's JUnit report that failed first and then passed.
fn flaky_tests(junit: &str) -> Vec<String> {
    let flaky = cases(junit).filter(|case| case.contains("<flakyFailure") || case.contains("<flakyError"));
    flaky.filter_map(name).collect()
}

/// The seconds of each test in nextest's report.
fn times(junit: &str) -> Vec<(f64, String)> {
    cases(junit).filter_map(|case| Some((attribute(case, " time")?.parse().ok()?, name(case)?))).collect()
}

fn cases(junit: &str) -> impl Iterator<Item = &str> {
    junit.split("<testcase").skip(1)
}

fn name(case: &str) -> Option<String> {
    Some(format!("{} {}", attribute(case, "classname")?, attribute(case, " name")?))
}

fn attribute<'a>(case: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = case.split_once(&format!("{name}=\""))?;
    Some(rest.split_once('"')?.0)
}

/// The browser tests that failed first and then passed.
pub(crate) fn flaky_browser_tests(browser: &str, results: &str) -> Vec<String> {
    let rows = browser_rows(results);
    let is = |row: &&Value, passed: bool, retry: bool| row["passed"] == passed && row["retry"] == retry;
    let failed_again = |row: &Value| {
        let is_same = |other: &&Value| other["test"] == row["test"] && other["file"] == row["file"];
        rows.iter().filter(|other| is(other, false, true)).any(|other| is_same(&other))
    };
    let failed = rows.iter().filter(|row| is(row, false, false) && !failed_again(row));
    failed.map(|row| browser_name(browser, row)).collect()
}

/// The seconds of each browser test.
fn browser_times(browser: &str, results: &str) -> Vec<(f64, String)> {
    let rows = browser_rows(results);
    rows.iter().filter_map(|row| Some((row["seconds"].as_f64()?, browser_name(browser, row)))).collect()
}

fn browser_rows(results: &str) -> Vec<Value> {
    serde_json::from_str(results).unwrap_or_default()
}

fn browser_name(browser: &str, row: &Value) -> String {
    let word = |name: &str| row[name].as_str().unwrap_or("?").to_owned();
    format!("{browser} {}: {}", word("file"), word("test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_flaky_tests_from_nextests_report() {
        let junit = r#"<testsuites name="nextest-run" tests="3"><testsuite name="whyslow::truth" tests="3">
            <testcase name="abuse::first" classname="whyslow::truth" time="1.0"></testcase>
            <testcase name="abuse::second" classname="whyslow::truth" time="0.5">
                <flakyFailure timestamp="x" message="thread panicked" type="test failure"><system-err>no</system-err></flakyFailure>
            </testcase>
            <testcase name="abuse::third" classname="whyslow::truth"><failure type="test failure"/></testcase>
        </testsuite></testsuites>"#;
        assert_eq!(flaky_tests(junit), ["whyslow::truth abuse::second"]);
        assert_eq!(flaky_tests(""), Vec::<String>::new());
    }

    #[test]
    fn reads_flaky_browser_tests_and_times() {
        let results = r#"[
            { "test": "opens", "file": "view.test.mjs", "seconds": 1.5, "passed": false, "retry": false },
            { "test": "prints", "file": "view.test.mjs", "seconds": 0.5, "passed": false, "retry": false },
            { "test": "opens", "file": "view.test.mjs", "seconds": 1.0, "passed": true, "retry": true },
            { "test": "prints", "file": "view.test.mjs", "seconds": 0.5, "passed": false, "retry": true }
        ]"#;
        assert_eq!(flaky_browser_tests("firefox", results), ["firefox view.test.mjs: opens"]);
        assert_eq!(flaky_browser_tests("firefox", ""), Vec::<String>::new());
        assert_eq!(
            slowest_of(browser_times("firefox", results)).lines().next(),
            Some("slow:   1.5 s  firefox view.test.mjs: opens")
        );
    }

    #[test]
    fn the_slowest_tests_of_nextests_report_come_first() {
        let junit = r#"<testcase name="a" classname="whyslow::truth" time="1.0"/><testcase name="b" classname="whyslow::cli" time="12.34">"#;
        assert_eq!(
            slowest_of(times(junit)),
            "slow:  12.3 s  whyslow::cli b\nslow:   1.0 s  whyslow::truth a\n"
        );
        let many = (0..20).map(|n| (f64::from(n), n.to_string())).collect();
        assert_eq!(slowest_of(many).lines().count(), 10);
    }

    #[test]
    fn summary_names_retries_and_counts_skips_by_reason() {
        let notes = "passed on retry\twhyslow::truth a\t\ntried again\tshares::b\tround 3: 49 %\n\
            skipped\tc\tgo is not installed\nskipped\td\tgo is not installed\nskipped\td\tgo is not installed\n";
        assert_eq!(
            summary_of(notes),
            "passed on retry: whyslow::truth a\ntried again: shares::b: round 3: 49 %\n\
            skipped: 2 tests, for example c: go is not installed\n"
        );
        assert_eq!(summary_of(""), "");
    }
}
