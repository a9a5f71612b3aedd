//! `whyslow gate`, as a CI job runs it.

use std::os::unix::fs::PermissionsExt as _;

use crate::harness::{Folder, Outcome, can_record, outcome};

/// Two folders with a program that sleeps for this long, and the same whyslow.toml in both.
fn folders(base: f64, head: f64, config: &str) -> Folder {
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

/// What the gate decides about programs that sleep for this long. A busy machine delays them by chance, so they sleep
/// longer where the gate cannot decide.
fn decided(base: f64, head: f64, change: impl Fn(&Folder), more: &[&str]) -> (Folder, Outcome) {
    const UNDECIDED: Option<i32> = Some(3);
    let mut times = 1.0;
    loop {
        let folder = folders(base * times, head * times, ONE);
        change(&folder);
        let outcome = gate(&folder, more);
        if outcome.code != UNDECIDED || times > 20.0 {
            return (folder, outcome);
        }
        times *= 3.0;
    }
}

/// The same rules for both.
fn both(config: &str) -> impl Fn(&Folder) {
    move |folder| {
        for side in ["base", "head"] {
            folder.file(&format!("{side}/whyslow.toml"), config);
        }
    }
}

const ONE: &str =
    "[gate]\nruns = 8\nundecided = \"fail\"\nmargin = \"10%\"\n[gate.bench.start]\ncommand = \"./app\"\n";

#[test]
fn every_format_reports_a_regression() {
    let files = ["--markdown", "x.md", "--json", "x.json", "--junit", "x.xml"];
    let (folder, outcome) = decided(0.01, 0.2, |_| (), &files);
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
    let (_, outcome) = decided(0.01, 0.2, both(&accepted), &[]);
    assert_eq!(outcome.code, Some(2), "{outcome:#?}");
    let (_, outcome) = decided(0.15, 0.25, both(&accepted), &[]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    assert!(outcome.stdout.contains("accepted: it says hello now"), "{outcome:#?}");
    let (_, better) = decided(0.2, 0.01, |_| (), &[]);
    assert!(better.code == Some(0) && better.stdout.contains("better"), "{better:#?}");
}

#[test]
fn vanished_benches_and_exceeded_budgets_fail() {
    let folder = folders(0.01, 0.01, ONE);
    folder.file("base/whyslow.toml", format!("{ONE}[gate.bench.gone]\ncommand = \"./app\"\n"));
    let outcome = gate(&folder, &[]);
    assert_eq!(outcome.code, Some(2), "{outcome:#?}");
    assert!(outcome.stdout.contains("gone") && outcome.stdout.contains("vanished"), "{outcome:#?}");
    let budgets = format!("{ONE}max-time = \"1ms\"\nmax-binary = \"1M\"\n");
    let outcome = gate(&folders(0.01, 0.01, &budgets), &[]);
    assert_eq!(outcome.code, Some(2), "{outcome:#?}");
    assert!(outcome.stdout.contains("over budget: at most 1.00 ms"), "{outcome:#?}");
    // A new bench has no base, but its budget applies.
    let folder = folders(0.01, 0.01, &format!("{ONE}max-time = \"10s\"\n"));
    folder.file("base/whyslow.toml", ONE.replace("start", "other"));
    let outcome = gate(&folder, &["--bench", "start"]);
    assert!(outcome.code == Some(0) && outcome.stdout.contains("new"), "{outcome:#?}");
}

#[test]
fn the_policy_decides_about_undecided_results() {
    // Two rounds are too few for a verdict.
    let of = |policy: &str| ONE.replace("runs = 8", "runs = 2").replace("\"fail\"", policy);
    assert_eq!(gate(&folders(0.01, 0.01, &of("\"fail\"")), &[]).code, Some(3));
    let passed = gate(&folders(0.01, 0.01, &of("\"pass\"")), &[]);
    assert!(passed.code == Some(0) && !passed.stdout.contains("nothing got worse"), "{passed:#?}");
    assert!(passed.stdout.contains("pass, but undecided: 1 of 1"), "{passed:#?}");
}

#[test]
fn explains_what_cannot_be_judged() {
    let folder = folders(0.01, 0.01, ONE);
    gate(&folder, &["--bench", "nothing"]).fails(125, &["no bench `nothing`", "one of start"]);
    folder
        .whyslow(["gate", "--base", "base", "--head", "base", "--config", "nothing.toml"])
        .fails(125, &["nothing.toml", "docs/gate.md"]);
    folder.file("head/app", "#!/bin/sh\nexit 4\n");
    gate(&folder, &[]).fails(125, &["`head` ended with exit code 4"]);
    // A program that is not there has no exit code of its own.
    folder.file("head/whyslow.toml", ONE.replace("./app", "./missing"));
    gate(&folder, &[]).fails(125, &["missing"]);
    folder.file("head/whyslow.toml", "[gate]\nmargin = 3\n");
    gate(&folder, &[]).fails(125, &["whyslow.toml", "margin"]);
    folder.file("head/whyslow.toml", "");
    gate(&folder, &[]).fails(125, &["it has no [gate.bench.NAME]"]);
}

#[test]
fn a_change_cannot_loosen_its_own_margin() {
    let loosen = |folder: &Folder| {
        folder.file("head/whyslow.toml", ONE.replace("10%", "100%"));
    };
    let (folder, outcome) = decided(0.1, 0.15, loosen, &["--markdown", "x.md"]);
    assert_eq!(outcome.code, Some(2), "{outcome:#?}");
    let says = "head changes the rule margin from `10%` to `100%`";
    assert!(outcome.stdout.split_whitespace().collect::<Vec<_>>().join(" ").contains(says), "{outcome:#?}");
    assert!(folder.read("x.md").contains("head changes the rule margin"), "{}", folder.read("x.md"));
}

#[test]
fn another_file_is_compared_with_the_same_file_of_base() {
    let folder = folders(0.01, 0.01, &ONE.replace("start", "usual"));
    let of = |policy: &str| ONE.replace("\"fail\"", policy).replace("runs = 8", "runs = 1");
    folder.file("head/ci/gate.toml", of("\"pass\""));
    let outcome = gate(&folder, &["--config", "head/ci/gate.toml"]);
    assert!(outcome.code == Some(0) && !outcome.stdout.contains("vanished"), "{outcome:#?}");
    folder.file("base/ci/gate.toml", format!("{}[gate.bench.gone]\ncommand = \"./app\"\n", of("\"pass\"")));
    let outcome = gate(&folder, &["--config", "head/ci/gate.toml"]);
    assert!(outcome.code == Some(2) && outcome.stdout.contains("gone"), "{outcome:#?}");
    // A file outside of head is that of both.
    folder.file("elsewhere.toml", of("\"pass\""));
    assert_eq!(gate(&folder, &["--config", "elsewhere.toml"]).code, Some(0));
}

/// The line of the workflow in docs/gate.md, as a CI job runs it.
#[test]
fn the_documented_workflow_judges_a_pull_request() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    let git = |args: &[&str]| {
        let mut git = folder.command_of("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]).args(args);
        assert_eq!(outcome(&mut git).code, Some(0), "{args:?}");
    };
    let busy = |count: u32| format!("i=0; while [ $i -lt {count} ]; do i=$((i+1)); done");
    folder.file("whyslow.toml", format!("{}[other]\n", ONE.replace("[gate]", "[gate]\nbuild = \"true\"")));
    folder.script("app", &busy(20_000));
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "base"]);
    git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
    folder.script("app", &busy(200_000));
    git(&["commit", "-q", "-a", "-m", "head"]);

    let documented =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/gate.md")).unwrap();
    let line = documented.lines().find_map(|line| line.trim().strip_prefix("- run: whyslow gate")).unwrap();
    let line = line.replace("${{ github.base_ref }}", "main");
    let mut shell = folder.command_of("sh");
    shell.args(["-c", &format!("\"$0\" gate {line}"), env!("CARGO_BIN_EXE_whyslow")]);
    let judged = outcome(&mut shell);
    assert_eq!(judged.code, Some(2), "{judged:#?}");
    for file in ["comment.md", "gate.json", "gate.xml", "start.txt", "start.svg"] {
        assert!(folder.path().join("gate").join(file).is_file(), "{file}: {judged:#?}");
    }
}
