//! `cargo xtask test`: runs every check, and prints a table of what passed, failed and was skipped.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::process::{self, cargo, command};
use crate::{notes, setup};

enum Outcome {
    Ok,
    Failed,
    Skipped(String),
}

struct Step {
    name: &'static str,
    run: fn() -> Result<Outcome>,
}

/// First of all: later steps need what these install and build.
const FIRST: &[Step] = &[
    Step { name: "tools", run: tools },
    Step { name: "format", run: format },
    Step { name: "build", run: build },
];

/// Then these, one after the other.
const RUST: &[Step] = &[
    Step { name: "lints", run: lints },
    Step { name: "documentation", run: documentation },
    Step { name: "examples in documentation", run: doc_tests },
    Step { name: "tests", run: tests },
];

/// And beside them these, which mostly wait for browsers.
const BROWSERS: &[Step] =
    &[Step { name: "viewer bundle", run: viewer_bundle }, Step { name: "browser tests", run: browser_tests }];

/// And these, while lints and documentation leave CPUs idle.
const LAB: &[Step] = &[Step { name: "lab programs", run: lab_programs }];

/// In the end, what needs the CPUs for itself.
const ALONE: &[Step] = &[Step { name: "tests of patterns", run: tests_alone }];

/// What a step gave, and how long it took.
type Done = (&'static str, Outcome, Duration);

/// Runs all steps, even after one has failed. Returns whether all passed.
pub(crate) fn run() -> Result<bool> {
    notes::begin()?;
    let start = Instant::now();
    let mut results = run_steps(FIRST);
    std::thread::scope(|scope| {
        let beside = [LAB, BROWSERS].map(|steps| scope.spawn(|| run_steps(steps)));
        results.extend(run_steps(RUST));
        for steps in beside {
            let panicked = |_| vec![("a step that panicked", Outcome::Failed, start.elapsed())];
            results.extend(steps.join().unwrap_or_else(panicked));
        }
    });
    results.extend(run_steps(ALONE));
    print_table(&results, start.elapsed());
    print!("{}{}", notes::slowest(), notes::summary());
    Ok(!results.iter().any(|(_, outcome, _)| matches!(outcome, Outcome::Failed)))
}

fn run_steps(steps: &[Step]) -> Vec<Done> {
    let run_step = |step: &Step| {
        eprintln!("\n== {} ==", step.name);
        let start = Instant::now();
        let outcome = (step.run)().unwrap_or_else(|error| {
            eprintln!("{error:#}");
            Outcome::Failed
        });
        let outcome = match outcome {
            Outcome::Skipped(why) if is_ci() => {
                eprintln!("skipped under CI: {why}");
                Outcome::Failed
            }
            other => other,
        };
        (step.name, outcome, start.elapsed())
    };
    steps.iter().map(run_step).collect()
}

/// Whether nothing may be skipped: under CI, everything that is needed can be installed.
fn is_ci() -> bool {
    std::env::var_os("CI").is_some()
}

fn print_table(results: &[Done], elapsed: Duration) {
    println!();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (name, outcome, time) in results {
        let (word, why) = match outcome {
            Outcome::Ok => ("ok", ""),
            Outcome::Failed => ("FAILED", ""),
            Outcome::Skipped(why) => ("skipped", why.as_str()),
        };
        match outcome {
            Outcome::Ok => passed += 1,
            Outcome::Failed => failed += 1,
            Outcome::Skipped(_) => skipped += 1,
        }
        println!("{}", format!("{word:<8} {name:<26} {:>5.0} s  {why}", time.as_secs_f64()).trim_end());
    }
    let seconds = elapsed.as_secs_f64();
    println!("\nsteps: {passed} passed, {failed} failed, {skipped} skipped in {seconds:.0} s");
}

fn check(command: &mut Command) -> Result<Outcome> {
    Ok(if process::succeeds(command)? { Outcome::Ok } else { Outcome::Failed })
}

/// Whether a cargo command really exists. rustup installs placeholders for missing ones.
fn cargo_has(subcommand: &str) -> bool {
    let probe = cargo().args([subcommand, "--version"]).output();
    probe.is_ok_and(|output| output.status.success())
}

fn tools() -> Result<Outcome> {
    let missing = setup::install_missing();
    if missing.is_empty() {
        return Ok(Outcome::Ok);
    }
    let why = missing.iter().map(|tool| format!("no {}: {}", tool.command, tool.without_it));
    Ok(Outcome::Skipped(why.collect::<Vec<_>>().join("; ")))
}

fn format() -> Result<Outcome> {
    if !cargo_has("fmt") {
        return Ok(Outcome::Skipped("rustfmt is not installed (rustup component add rustfmt)".into()));
    }
    both(cargo().args(["fmt", "--all", "--check"]), agent_cargo().args(["fmt", "--check"]))
}

/// The agent is a separate workspace.
fn agent_cargo() -> Command {
    let mut cargo = cargo();
    cargo.current_dir(process::root().join("crates/whyslow-agent"));
    cargo
}

fn both(first: &mut Command, second: &mut Command) -> Result<Outcome> {
    Ok(match check(first)? {
        Outcome::Ok => check(second)?,
        failed => failed,
    })
}

/// Builds everything that later steps run, once and with the same features: tests, examples, the executable.
fn build() -> Result<Outcome> {
    let mut build = cargo();
    if cargo_has("nextest") {
        build.args(["nextest", "run", "--workspace", "--no-run", "--cargo-quiet"]);
    } else {
        build.args(["test", "--quiet", "--workspace", "--no-run"]);
    }
    check(&mut build)
}

/// Builds the packages of `lab/`. Tests build its small programs when they need them.
fn lab_programs() -> Result<Outcome> {
    whyslow_lab_harness::build_packages().map(|()| Outcome::Ok)
}

fn lints() -> Result<Outcome> {
    if !cargo_has("clippy") {
        return Ok(Outcome::Skipped("clippy is not installed (rustup component add clippy)".into()));
    }
    let agent_target = process::target_folder().join("agent");
    both(
        cargo().args(["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        agent_cargo()
            .args(["clippy", "--quiet", "--locked", "--release", "--target-dir"])
            .arg(agent_target)
            .args(["--", "-D", "warnings"]),
    )
}

fn documentation() -> Result<Outcome> {
    check(cargo().args(["doc", "--quiet", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
}

fn doc_tests() -> Result<Outcome> {
    check(cargo().args(["test", "--quiet", "--doc", "--workspace"]))
}

const SEED: &str = "PROPTEST_RNG_SEED";

/// The seed of property tests. Under CI they use the same inputs in every run, so that a passing test passes
/// again. Elsewhere every run tries new inputs. A seed set by the user takes precedence.
fn seed(set: Option<String>, ci: bool) -> String {
    match set {
        Some(seed) => seed,
        None if ci => "1".to_owned(),
        None => std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), SEED).to_string(),
    }
}

/// Patterns of threads only show while nothing else uses the CPUs.
const NEED_ALL_CPUS: &str = "binary(truth) & test(/^patterns::every_pattern/)";

fn tests() -> Result<Outcome> {
    if cargo_has("nextest") {
        return nextest(&format!("not ({NEED_ALL_CPUS})"));
    }
    let mut tests = cargo();
    tests.args(["test", "--quiet", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"]);
    check_seeded(&mut tests)
}

fn tests_alone() -> Result<Outcome> {
    if cargo_has("nextest") {
        return nextest(NEED_ALL_CPUS);
    }
    // `cargo test` has run them with the others.
    Ok(Outcome::Ok)
}

/// Runs the tests that a filter selects, and keeps their report.
fn nextest(filter: &str) -> Result<Outcome> {
    let mut tests = cargo();
    tests.args(["nextest", "run", "--workspace", "--no-fail-fast", "--cargo-quiet", "-E", filter]);
    if is_ci() {
        // One line per failure and a summary, instead of a line per test.
        tests.args(["--status-level", "slow", "--final-status-level", "fail"]);
    }
    let outcome = check_seeded(&mut tests)?;
    notes::keep_report()?;
    Ok(outcome)
}

/// Runs tests with a seed for property tests, and with the file for notes.
fn check_seeded(tests: &mut Command) -> Result<Outcome> {
    let seed = seed(std::env::var(SEED).ok(), is_ci());
    let outcome = check(tests.env(SEED, &seed).env(whyslow_lab_harness::NOTES_FILE, notes::file()))?;
    if matches!(outcome, Outcome::Failed) {
        eprintln!("to repeat with the same property test inputs: {SEED}={seed}");
    }
    Ok(outcome)
}

fn browser_tests() -> Result<Outcome> {
    let folder = process::root().join("browser-tests");
    for tool in ["chromium", "node", "npm"] {
        if process::find(tool).is_none() {
            return Ok(Outcome::Skipped(format!("{tool} is not installed")));
        }
    }
    let picture = flame_graph()?;
    if !process::succeeds_quietly(npm(&folder).args(["ci", "--silent", "--no-audit", "--no-fund"]))? {
        return Ok(Outcome::Skipped("npm ci failed: is there a network?".into()));
    }
    let has_firefox = process::find("firefox-esr").is_some();
    let browsers = if has_firefox { &["chromium", "firefox"][..] } else { &["chromium"] };
    let passed: Vec<Result<bool>> = std::thread::scope(|scope| {
        let run = |browser: &'static str| {
            let (folder, picture) = (folder.as_path(), picture.as_deref());
            scope.spawn(move || run_browser(folder, browser, picture))
        };
        let started: Vec<_> = browsers.iter().map(|browser| run(browser)).collect();
        let ended = |run: std::thread::ScopedJoinHandle<'_, _>| {
            run.join().unwrap_or_else(|_| Err(anyhow!("a test runner panicked")))
        };
        started.into_iter().map(ended).collect()
    });
    if !passed.into_iter().collect::<Result<Vec<_>>>()?.into_iter().all(|passed| passed) {
        return Ok(Outcome::Failed);
    }
    if !has_firefox {
        return Ok(Outcome::Skipped("firefox-esr is not installed; the tests passed in Chromium".into()));
    }
    Ok(Outcome::Ok)
}

/// Runs the tests in one browser.
fn run_browser(folder: &Path, browser: &str, picture: Option<&Path>) -> Result<bool> {
    let results = notes::browser_results(browser);
    let mut tests = npm(folder);
    tests.args(["run", "--silent", "test"]).env("TEST_BROWSER", browser).env("TEST_RESULTS", &results);
    tests.env("WHYSLOW", whyslow()).env("EXAMPLES", process::target_folder().join("debug/examples"));
    if let Some(picture) = picture {
        tests.env("FLAME_SVG", picture);
    }
    let passed = process::succeeds_quietly(&mut tests)?;
    let results = std::fs::read_to_string(results).unwrap_or_default();
    notes::passed_on_retry(&notes::flaky_browser_tests(browser, &results))?;
    Ok(passed)
}

/// Checks, tests and builds the viewer. The committed bundle must match its sources.
fn viewer_bundle() -> Result<Outcome> {
    let folder = process::root().join("viewer");
    for tool in ["node", "npm"] {
        if process::find(tool).is_none() {
            return Ok(Outcome::Skipped(format!("{tool} is not installed")));
        }
    }
    if !process::succeeds_quietly(npm(&folder).args(["ci", "--silent", "--no-audit", "--no-fund"]))? {
        return Ok(Outcome::Skipped("npm ci failed: is there a network?".into()));
    }
    for script in ["check", "test", "build"] {
        if !process::succeeds_quietly(npm(&folder).args(["run", "--silent", script]))? {
            return Ok(Outcome::Failed);
        }
    }
    check(command("git").args(["diff", "--exit-code", "--stat", "--", "viewer/dist"]))
}

fn npm(folder: &Path) -> Command {
    let mut npm = command("npm");
    npm.current_dir(folder);
    npm
}

/// The executable that tests build.
fn whyslow() -> PathBuf {
    process::target_folder().join("debug/whyslow")
}

/// A flame graph of a lab program, complete so that it has many rows. `None` if this machine cannot record:
/// the tests then draw their own.
fn flame_graph() -> Result<Option<PathBuf>> {
    let folder = process::target_folder().join("browser-tests");
    std::fs::create_dir_all(&folder)?;
    let (file, picture) = (folder.join("ratio.whyslow"), folder.join("flame.svg"));
    let whyslow = whyslow();
    let program = whyslow_lab_harness::build("ratio", whyslow_lab_harness::Variant::Release)?;
    let mut record = command(&whyslow);
    record.arg("record").arg("-o").arg(&file);
    record.arg("--").arg(program).args(["2", "500"]);
    let mut draw = command(&whyslow);
    draw.arg("flame").arg(&file).arg("--unfolded").arg("-o").arg(&picture);
    let _ = std::fs::remove_file(&picture);
    let drawn = process::succeeds_quietly(&mut record)? && process::succeeds_quietly(&mut draw)?;
    let recorded = drawn && picture.exists();
    Ok(recorded.then_some(picture))
}

#[cfg(test)]
mod tests {
    use super::seed;

    #[test]
    fn property_tests_use_new_inputs_except_under_ci() {
        assert_eq!(seed(None, true), seed(None, true));
        assert_ne!(seed(None, false), seed(None, false));
        for ci in [false, true] {
            assert_eq!(seed(Some("4711".to_owned()), ci), "4711");
            assert!(seed(None, ci).parse::<u64>().is_ok(), "a number that the tests can read");
        }
    }
}
