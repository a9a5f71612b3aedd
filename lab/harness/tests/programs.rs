//! Builds every lab program, runs each briefly, and checks what it says about itself.

use std::process::{Command, Output};
use std::time::Duration;

use whyslow_lab_harness::{ChurnPaths, Truth, Variant, build_or_skip, programs, run};

/// A short run of a program, and what its output must claim.
struct Case {
    name: &'static str,
    arguments: &'static [&'static str],
    shares: &'static [(&'static str, f64)],
    counts: &'static [(&'static str, u64)],
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { name: "bigframe", arguments: &["20"], shares: &[("spin", 1.0)], counts: &[] },
    Case { name: "churn", arguments: &["1", "20"], shares: &[], counts: &[("rounds", 20)] },
    Case { name: "churn", arguments: &["1", "20", "mix"], shares: &[], counts: &[("rounds", 20)] },
    Case { name: "deep", arguments: &["500", "20"], shares: &[("leaf", 1.0)], counts: &[] },
    Case { name: "exits", arguments: &["print"], shares: &[], counts: &[] },
    Case { name: "forktree", arguments: &["20"], shares: &[("root_work", 0.1), ("forked_work", 0.1), ("branch_work", 0.2), ("leaf_work", 0.6)], counts: &[("processes", 10)] },
    Case { name: "inlined", arguments: &["20"], shares: &[("plain", 0.6), ("generic", 0.4)], counts: &[] },
    Case { name: "ratio", arguments: &["1", "20"], shares: &[("alpha", 0.5), ("beta", 0.3), ("gamma", 0.2)], counts: &[] },
    Case { name: "ratio", arguments: &["4", "20"], shares: &[("alpha", 0.5), ("beta", 0.3), ("gamma", 0.2)], counts: &[] },
    Case { name: "threads", arguments: &["40", "20"], shares: &[("even_work", 0.75), ("odd_work", 0.25)], counts: &[("threads", 40)] },
];

fn start(name: &str, arguments: &[&str]) -> Option<Output> {
    let program = build_or_skip(name, Variant::Release)?;
    Some(run(Command::new(program).args(arguments), Duration::from_secs(60)).expect("it ends in time"))
}

#[test]
fn every_program_runs_and_claims_its_known_answer() {
    for case in CASES {
        let Some(output) = start(case.name, case.arguments) else { continue };
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{} {:?}: {output:?}", case.name, case.arguments);
        let truth = Truth::parse(&stdout);
        assert_eq!(truth.shares.len(), case.shares.len(), "{}: {stdout}", case.name);
        for (function, share) in case.shares {
            assert!((truth.shares[*function] - share).abs() < 1e-9, "{}: {stdout}", case.name);
        }
        for (what, count) in case.counts {
            assert_eq!(truth.counts.get(*what), Some(count), "{}: {stdout}", case.name);
        }
    }
}

#[test]
fn every_program_has_a_case() {
    let without: Vec<String> =
        programs().unwrap().into_iter().filter(|p| !CASES.iter().any(|c| c.name == p)).collect();
    assert!(without.is_empty(), "add a case for {without:?}");
}

#[test]
fn churn_paths_are_all_different() {
    let Some(churn) = build_or_skip("churn", Variant::Release) else { return };
    for mode in ["same", "mix"] {
        ChurnPaths::read(&churn, mode).unwrap();
        let output = run(Command::new(&churn).args(["paths", mode]), Duration::from_secs(20)).unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        // Even the outermost ten frames alone tell the paths apart.
        let outermost: std::collections::HashSet<Vec<&str>> =
            text.lines().map(|line| line.split(' ').skip(1).take(10).collect()).collect();
        assert_eq!(outermost.len(), 64, "{mode}");
    }
}

#[test]
fn exits_ends_as_it_is_told() {
    use std::os::unix::process::ExitStatusExt;
    let Some(code) = start("exits", &["code", "42"]) else { return };
    assert_eq!(code.status.code(), Some(42));
    assert_eq!(start("exits", &["signal", "15"]).unwrap().status.signal(), Some(15));
    assert_eq!(start("exits", &["abort"]).unwrap().status.signal(), Some(6));
    let print = start("exits", &["print"]).unwrap();
    assert_eq!((&print.stdout[..], &print.stderr[..]), (&b"to stdout\n"[..], &b"to stderr\n"[..]));
    let report = String::from_utf8(start("exits", &["report"]).unwrap().stdout).unwrap();
    for word in ["argv 1 \"report\"", "cwd ", "env \"PATH\"", "status SigBlk", "files 0 1 2"] {
        assert!(report.contains(word), "{word}: {report}");
    }
}
