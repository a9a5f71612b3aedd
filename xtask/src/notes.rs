//! Notes that tests write while they run: collected in a file, shown at the end of `cargo xtask test`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;

use crate::process;

/// The file with the notes of this run. Tests find it through [`whyslow_lab_harness::NOTES_FILE`].
pub(crate) fn file() -> PathBuf {
    process::target_folder().join("test-notes.txt")
}

/// Deletes the notes of earlier runs.
pub(crate) fn begin() -> Result<()> {
    std::fs::create_dir_all(process::target_folder())?;
    Ok(std::fs::write(file(), "")?)
}

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

/// The tests of nextest's JUnit report that failed first and then passed.
pub(crate) fn flaky_tests(junit: &str) -> Vec<String> {
    let cases = junit.split("<testcase").skip(1);
    let flaky = cases.filter(|case| case.contains("<flakyFailure") || case.contains("<flakyError"));
    let attribute = |case: &str, name: &str| {
        let (_, rest) = case.split_once(&format!("{name}=\""))?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    flaky
        .filter_map(|case| Some(format!("{} {}", attribute(case, "classname")?, attribute(case, " name")?)))
        .collect()
}

/// The tests that failed in the output of node's runner, in either of its forms.
pub(crate) fn failed_browser_tests(output: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for line in output.lines().map(str::trim) {
        let spec = line.strip_prefix("✖ ").and_then(|rest| Some(rest.rsplit_once(" (")?.0));
        let tap = line.strip_prefix("not ok ").and_then(|rest| Some(rest.split_once(" - ")?.1));
        if let Some(name) = spec.or(tap).map(str::to_owned)
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
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
    fn reads_names_of_failed_browser_tests() {
        let spec = "▶ the viewer\n  ✔ opens (5.1ms)\n  ✖ prints (on paper) (12.5ms)\n▶ the viewer (20ms)\n✖ failing tests:\n";
        assert_eq!(failed_browser_tests(spec), ["prints (on paper)"]);
        let tap = "TAP version 13\n    ok 1 - opens\n    not ok 2 - prints\nnot ok 1 - the viewer\n";
        assert_eq!(failed_browser_tests(tap), ["prints", "the viewer"]);
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
