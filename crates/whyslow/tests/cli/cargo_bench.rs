//! `cargo whyslow bench` on packages with fake harnesses that report given times.

use std::process::Command;

use crate::harness::{Folder, Outcome, can_record, outcome};

/// Acts like criterion: lists benchmarks, and writes `sample.json` into its home. The times are in the library.
const CRITERION: &str = r#"
use std::{env, fs};
fn main() {
    let args = env::args().skip(1).collect::<Vec<_>>();
    let has = |word: &str| args.iter().any(|arg| arg == word);
    if has("--help") {
        println!("  --save-baseline <NAME>\n  --exact");
    } else if has("--list") {
        for (name, _) in pack::TIMES { println!("{name}: benchmark"); }
    } else if has("--profile-time") {
        println!("{}", args.join(" "));
    } else {
        assert!(has("--bench") && has("--exact") && has("--noplot") && has("--measurement-time"));
        let (name, ns) = pack::TIMES.iter().find(|(name, _)| has(name)).unwrap();
        if *ns == 0.0 { panic!("out of memory"); }
        // Noise of a few thousandths that differs from run to run.
        let noise = env::var("WHYSLOW_PADDING").unwrap().len() as f64 / 4096.0 * 0.004;
        let folder = format!("{}/{}/new", env::var("CRITERION_HOME").unwrap(), name.replace('/', "_"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(format!("{folder}/benchmark.json"), format!("{{\"full_id\":\"{name}\"}}")).unwrap();
        let time = ns * 10.0 * (1.0 + noise);
        fs::write(format!("{folder}/sample.json"), format!("{{\"iters\":[10.0,20.0],\"times\":[{time},{}]}}", 2.0 * time)).unwrap();
    }
}
"#;

/// Acts like libtest.
const LIBTEST: &str = r#"
fn main() {
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    let has = |word: &str| args.iter().any(|arg| arg == word);
    if has("--help") {
        println!("--test-threads n_threads");
    } else if has("--list") {
        println!("plain: benchmark\ncheck: test\n\n1 test, 1 benchmark");
    } else {
        assert!(has("--bench") && has("--exact") && has("plain"));
        println!("\nrunning 1 test\ntest plain ... bench:       1,234.50 ns/iter (+/- 56)\n\ntest result: ok.");
    }
}
"#;

fn times(times: &[(&str, f64)]) -> String {
    format!("pub const TIMES: &[(&str, f64)] = &{times:?};")
}

fn package(folder: &Folder, library: &str) {
    let mut manifest = "[package]\nname = \"pack\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n[lib]\nbench = false\n".to_owned();
    for (name, text) in [("speed", CRITERION), ("plain", LIBTEST)] {
        manifest += &format!("[[bench]]\nname = \"{name}\"\nharness = false\n");
        folder.file(&format!("benches/{name}.rs"), text);
    }
    folder.file("Cargo.toml", manifest);
    folder.file("src/lib.rs", library);
    folder.file(".gitignore", "/target\n/.cache\nCargo.lock\n");
}

fn commit(folder: &Folder) {
    for args in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "x"]] {
        let mut git = Command::new("git");
        git.current_dir(folder.path()).args(["-c", "user.name=x", "-c", "user.email=x@x"]).args(args);
        outcome(&mut git).succeeds();
    }
}

fn cargo_whyslow_bench(folder: &Folder, args: &[&str]) -> Outcome {
    let mut command = folder.command_of(env!("CARGO_BIN_EXE_cargo-whyslow"));
    // The environment of this build must not leak into the builds of the tests.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_")) {
        if name != "CARGO_HOME" {
            command.env_remove(name);
        }
    }
    command.env_remove("RUSTFLAGS").env_remove("CRITERION_HOME");
    outcome(command.args(["whyslow", "bench", "--offline"]).args(args))
}

fn json(outcome: &Outcome) -> serde_json::Value {
    serde_json::from_str(&outcome.succeeds().stdout).unwrap()
}

/// The name and verdict of each benchmark.
fn verdicts(json: &serde_json::Value) -> Vec<(&str, &str)> {
    let rows = json["benchmarks"].as_array().unwrap().iter();
    rows.map(|row| (row["name"].as_str().unwrap(), row["verdict"].as_str().unwrap())).collect()
}

#[test]
fn comparing_with_a_commit_gives_a_verdict_per_benchmark() {
    let folder = Folder::new();
    package(&folder, &times(&[("same", 50.0), ("sum/10", 100.0), ("removed", 1.0), ("broken", 7.0)]));
    commit(&folder);
    folder.file("src/lib.rs", times(&[("same", 50.0), ("sum/10", 80.0), ("added", 1.0), ("broken", 0.0)]));
    let outcome =
        cargo_whyslow_bench(&folder, &["--git", "HEAD", "--format", "json", "--export-markdown", "table.md"]);
    let json = json(&outcome);
    assert_eq!(
        verdicts(&json),
        [
            ("plain", "equivalent"),
            ("same", "equivalent"),
            ("sum/10", "faster"),
            ("added", "new"),
            ("broken", "failed"),
            ("removed", "vanished"),
        ]
    );
    let faster = &json["benchmarks"][2];
    let ratio = |end: &str| faster[end].as_f64().unwrap();
    // A 95 % confidence interval may miss the true ratio.
    assert!((ratio("ratio") - 0.8).abs() < 0.01 && ratio("ratio_low") < ratio("ratio_high"), "{faster}");
    assert_eq!(
        (faster["pairs"].as_u64(), json["base"].as_str(), json["rounds"].as_u64()),
        (Some(10), Some("HEAD"), Some(10))
    );
    assert!(json["benchmarks"][4]["failure"].as_str().unwrap().contains("out of memory"), "{json}");
    assert_eq!(json["benchmarks"][0]["head_median_ns"], 1234.5);
    let table = folder.read("table.md");
    assert!(table.contains("| `speed: sum/10` | 100."), "{table}");
    assert!(table.contains("1 faster, 2 equivalent, 1 new, 1 vanished, 1 failed"), "{table}");
    // The repository is clean.
    let mut git = Command::new("git");
    let worktrees = crate::harness::outcome(git.current_dir(folder.path()).args(["worktree", "list"]));
    assert_eq!(worktrees.stdout.lines().count(), 1, "{worktrees:?}");
}

#[test]
fn without_a_commit_shows_medians_and_spreads() {
    let folder = Folder::new();
    package(&folder, &times(&[("same", 50.0), ("sum/10", 100.0)]));
    let outcome = cargo_whyslow_bench(&folder, &["--bench", "speed", "--rounds", "3", "sum"]);
    let shown = &outcome.succeeds().stdout;
    assert!(shown.contains("3 rounds of 1 benchmark") && shown.contains("sum/10  100."), "{shown}");
    assert!(!shown.contains("same") && !shown.contains("undecided"), "{shown}");
    cargo_whyslow_bench(&folder, &["--bench", "speed", "nope"])
        .fails(125, &["no benchmark has `nope` in its name", "same"]);
}

#[test]
fn compares_with_criterions_stored_results() {
    let folder = Folder::new();
    package(&folder, &times(&[("same", 50.0), ("sum/10", 100.0), ("added", 1.0)]));
    for (name, ns) in [("same", 50.0), ("sum/10", 200.0), ("removed", 3.0)] {
        let home = format!("target/criterion/{}/before", name.replace('/', "_"));
        folder.file(&format!("{home}/benchmark.json"), format!("{{\"full_id\":\"{name}\"}}"));
        let times = (0..20).map(|at| ns * (100.0 + 0.01 * f64::from(at))).collect::<Vec<_>>();
        folder.file(
            &format!("{home}/sample.json"),
            format!("{{\"iters\":{:?},\"times\":{times:?}}}", [100.0; 20]),
        );
    }
    let json = json(&cargo_whyslow_bench(
        &folder,
        &["--bench", "speed", "--baseline", "before", "--format", "json"],
    ));
    assert_eq!(
        verdicts(&json),
        [("same", "undecided"), ("sum/10", "undecided"), ("added", "new"), ("removed", "vanished")]
    );
    assert_eq!(
        (json["of_another_day"].as_bool(), json["benchmarks"][1]["pairs"].as_u64()),
        (Some(true), Some(0))
    );
    let missing = cargo_whyslow_bench(&folder, &["--bench", "speed", "--baseline", "nope"]);
    missing.fails(125, &["criterion stored nothing under `nope`", "cargo bench -- --save-baseline nope"]);
}

#[test]
fn a_package_without_benchmarks_is_refused_before_it_is_built() {
    let folder = Folder::new();
    folder.file(
        "Cargo.toml",
        "[package]\nname = \"pack\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
    );
    folder.file("src/main.rs", "this does not compile");
    let outcome = cargo_whyslow_bench(&folder, &[]);
    outcome.fails(125, &["there are no benchmarks", "whyslow bench --git main"]);
}

/// Acts like criterion without its parser's help.
#[test]
fn a_harness_without_help_is_known_by_its_list_and_the_dependencies() {
    let folder = Folder::new();
    package(&folder, &times(&[("same", 50.0)]));
    let bench =
        CRITERION.replace("println!(\"  --save-baseline <NAME>\\n  --exact\");", "std::process::exit(2);");
    assert_ne!(bench, CRITERION);
    folder.file("benches/speed.rs", bench);
    let manifest = folder.read("Cargo.toml") + "[dev-dependencies]\ncriterion = { path = \"criterion\" }\n";
    folder.file("Cargo.toml", manifest);
    folder.file(
        "criterion/Cargo.toml",
        "[package]\nname = \"criterion\"\nversion = \"0.5.1\"\nedition = \"2021\"\n",
    );
    folder.file("criterion/src/lib.rs", "");
    let json =
        json(&cargo_whyslow_bench(&folder, &["--bench", "speed", "--rounds", "1", "--format", "json"]));
    assert_eq!(
        (&json["benchmarks"][0]["name"], &json["benchmarks"][0]["harness"]),
        (&"same".into(), &"criterion".into())
    );
}

/// Acts like divan: lists a tree of functions, and runs them all unless one is chosen.
const DIVAN: &str = r#"
fn main() {
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    let has = |word: &str| args.iter().any(|arg| arg == word);
    let row = |name: &str| println!("╰─ {name}  1 ns      │ 1 ns      │ 1 ns      │ 1 ns      │ 1       │ 1");
    if has("--help") {
        println!("--skip-ext-time");
    } else if has("--list") {
        println!("deep\n├─ broken\n╰─ last\n");
    } else {
        println!("deep  fastest       │ slowest       │ median        │ mean          │ samples │ iters");
        // The benchmarks of `broken` are its arguments: its own name is none of them, and nothing runs.
        if has("--exact") && has("deep::broken") { return; }
        let chosen = args.iter().find(|arg| arg.contains("deep::"));
        if !chosen.is_some_and(|chosen| chosen.contains("last")) { panic!("no such file"); }
        row("last");
    }
}
"#;

#[test]
fn one_benchmark_that_panics_does_not_hide_the_others() {
    let folder = Folder::new();
    package(&folder, &times(&[("same", 50.0)]));
    folder.file("benches/plain.rs", DIVAN);
    let json =
        json(&cargo_whyslow_bench(&folder, &["--bench", "plain", "--rounds", "1", "--format", "json"]));
    assert_eq!(verdicts(&json), [("deep::broken", "failed"), ("deep::last", "measured")]);
    let why = json["benchmarks"][0]["failure"].as_str().unwrap();
    assert!(why.contains("exit code 101") && why.contains("no such file"), "{why}");
}

#[test]
fn records_one_benchmark_while_its_harness_repeats_it() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    package(&folder, &times(&[("same", 50.0), ("sum/10", 100.0)]));
    let recorded = cargo_whyslow_bench(&folder, &["--bench", "speed", "--record", "sum/10", "-q"]);
    assert_eq!(recorded.succeeds().stdout, "--bench --exact sum/10 --profile-time 5\n");
    assert!(folder.names().contains(&"sum-10.whyslow".to_owned()), "{:?}", folder.names());
    let unknown = cargo_whyslow_bench(&folder, &["--bench", "speed", "--record", "sum"]);
    unknown.fails(125, &["no benchmark is called `sum`", "--record 'sum/10'"]);
}
