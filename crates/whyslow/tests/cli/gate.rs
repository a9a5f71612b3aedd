//! `whyslow gate`, as a CI job runs it.

use std::os::unix::fs::PermissionsExt as _;

use crate::harness::{Folder, Outcome};

/// Two folders with a program that sleeps for this long, and the same whyslow.toml in both.
fn folders(base: &str, head: &str, config: &str) -> Folder {
    let folder = Folder::new();
    for (name, seconds) in [("base", base), ("head", head)] {
        let inside = folder.path().join(name);
        std::fs::create_dir(&inside).unwrap();
        let app = inside.join("app");
        std::fs::write(&app, format!("#!/bin/sh\nsleep {seconds}\n")).unwrap();
        std::fs::set_permissions(&app, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(inside.join("whyslow.toml"), config).unwrap();
    }
    folder
}

fn gate(folder: &Folder, more: &[&str]) -> Outcome {
    folder.whyslow([&["gate", "--base", "base", "--head", "head"], more].concat())
}

const ONE: &str =
    "[gate]\nruns = 8\nundecided = \"fail\"\nmargin = \"10%\"\n[gate.bench.start]\ncommand = \"./app\"\n";

#[test]
fn every_format_reports_a_regression() {
    let folder = folders("0.01", "0.2", ONE);
    let outcome = gate(&folder, &["--markdown", "x.md", "--json", "x.json", "--junit", "x.xml"]);
    assert_eq!(outcome.code, Some(2), "{outcome:#?}");
    assert!(outcome.stdout.contains("regression: 1 of 1 did not pass"), "{outcome:#?}");
    assert!(folder.read("x.md").contains("| **regression** |"), "{}", folder.read("x.md"));
    assert!(folder.read("x.xml").contains("failures=\"1\""));
    let json: serde_json::Value = serde_json::from_str(&folder.read("x.json")).unwrap();
    assert_eq!((&json["outcome"], &json["rows"][0]["state"]), (&"regression".into(), &"regression".into()));
    assert!(json["rows"][0]["ratio_low"].as_f64().unwrap() > 1.1);
}

#[test]
fn accepted_regressions_and_improvements_pass() {
    let accepted = format!(
        "{ONE}[[gate.accept]]\nbench = \"start\"\nup-to = \"100%\"\nreason = \"it says hello now\"\n"
    );
    // Twenty times the time is over the accepted doubling.
    assert_eq!(gate(&folders("0.01", "0.2", &accepted), &[]).code, Some(2));
    let folder = folders("0.15", "0.25", &accepted);
    let outcome = gate(&folder, &[]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    assert!(outcome.stdout.contains("accepted: it says hello now"), "{outcome:#?}");
    let better = gate(&folders("0.2", "0.01", ONE), &[]);
    assert!(better.code == Some(0) && better.stdout.contains("better"), "{better:#?}");
}

#[test]
fn vanished_benches_and_exceeded_budgets_fail() {
    let folder = folders("0.01", "0.01", ONE);
    folder.file("base/whyslow.toml", format!("{ONE}[gate.bench.gone]\ncommand = \"./app\"\n"));
    let outcome = gate(&folder, &[]);
    assert_eq!(outcome.code, Some(2), "{outcome:#?}");
    assert!(outcome.stdout.contains("gone") && outcome.stdout.contains("vanished"), "{outcome:#?}");
    let budgets = format!("{ONE}max-time = \"1ms\"\nmax-binary = \"1M\"\n");
    let outcome = gate(&folders("0.01", "0.01", &budgets), &[]);
    assert_eq!(outcome.code, Some(2), "{outcome:#?}");
    assert!(outcome.stdout.contains("over budget: at most 1.00 ms"), "{outcome:#?}");
    // A new bench has no base, but its budget applies.
    let folder = folders("0.01", "0.01", &format!("{ONE}max-time = \"10s\"\n"));
    folder.file("base/whyslow.toml", ONE.replace("start", "other"));
    let outcome = gate(&folder, &["--bench", "start"]);
    assert!(outcome.code == Some(0) && outcome.stdout.contains("new"), "{outcome:#?}");
}

#[test]
fn the_policy_decides_about_undecided_results() {
    // Two rounds are too few for a verdict.
    let of = |policy: &str| ONE.replace("runs = 8", "runs = 2").replace("\"fail\"", policy);
    assert_eq!(gate(&folders("0.01", "0.01", &of("\"fail\"")), &[]).code, Some(3));
    assert_eq!(gate(&folders("0.01", "0.01", &of("\"pass\"")), &[]).code, Some(0));
}

#[test]
fn explains_what_cannot_be_judged() {
    let folder = folders("0.01", "0.01", ONE);
    gate(&folder, &["--bench", "nothing"]).fails(125, &["no bench `nothing`", "one of start"]);
    folder
        .whyslow(["gate", "--base", "base", "--head", "base", "--config", "nothing.toml"])
        .fails(125, &["nothing.toml", "docs/gate.md"]);
    folder.file("head/app", "#!/bin/sh\nexit 4\n");
    gate(&folder, &[]).fails(125, &["`head` ended with exit code 4"]);
    folder.file("head/whyslow.toml", "[gate]\nmargin = 3\n");
    gate(&folder, &[]).fails(125, &["whyslow.toml", "margin"]);
    folder.file("head/whyslow.toml", "");
    gate(&folder, &[]).fails(125, &["it has no [gate.bench.NAME]"]);
}
