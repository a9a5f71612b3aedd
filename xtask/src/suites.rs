//! `cargo xtask suites`: checks that test suites of real crates pass as usual while their heap is recorded
//! and while they sample themselves. Also runs a minute of threads that allocate and fork, and a minute of
//! threads, forks and signals.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use whyslow_lab_harness::{Truth, Variant, build};
use whyslow_profile::Profile;

use crate::process::{self, cargo, target_folder};

/// Crates with many tests that allocate, and few dependencies.
const CRATES: [(&str, &str); 3] = [("bytes", "1.12.1"), ("hashbrown", "0.17.1"), ("indexmap", "2.14.2")];

/// The result of a test binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Outcome {
    passed: u64,
    failed: u64,
    code: Option<i32>,
}

/// A way to record.
struct Way {
    name: &'static str,
    arguments: &'static [&'static str],
    /// What to count in the recording, to show that it is not empty.
    counted: &'static str,
    count: fn(&Profile) -> u64,
}

const WAYS: [Way; 2] = [
    Way {
        name: "whyslow heap",
        arguments: &["heap", "-q"],
        counted: "allocations",
        count: |profile| profile.heap.totals().allocations,
    },
    Way {
        name: "whyslow record --sampler timer",
        arguments: &["record", "-q", "--sampler", "timer"],
        counted: "samples",
        count: |profile| profile.samples.iter().map(|samples| samples.len() as u64).sum(),
    },
];

pub(crate) fn run() -> Result<bool> {
    process::must(cargo().args(["build", "--quiet", "--release", "--package", "whyslow"]))?;
    let whyslow = target_folder().join("release/whyslow");
    let folder = target_folder().join("lab/suites");
    std::fs::create_dir_all(folder.join("fetch/src"))?;
    let mut all_passed = true;
    println!(
        "| crate | test binaries | recorded by | passed plain | passed recorded | in the recording | same |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (name, sources) in fetch(&folder)? {
        let copy = folder.join(&name);
        copy_suite(&sources, &copy)?;
        let binaries = test_binaries(&copy, &folder)?;
        let plain = binaries.iter().map(|binary| outcome(Command::new(binary).current_dir(&copy)));
        let plain = plain.collect::<Result<Vec<_>>>()?;
        for way in &WAYS {
            all_passed &= suite(&name, &copy, &binaries, &plain, way, &whyslow)?;
        }
    }
    all_passed &= fork_stress(&whyslow, &folder)?;
    all_passed &= storm(&whyslow, &folder)?;
    Ok(all_passed)
}

/// Runs all tests of a crate under a recorder. Returns whether the results are the same as without.
fn suite(
    name: &str,
    copy: &Path,
    binaries: &[PathBuf],
    plain: &[Outcome],
    way: &Way,
    whyslow: &Path,
) -> Result<bool> {
    let mut recorded = Vec::new();
    let mut counted = 0;
    for binary in binaries {
        let out = copy.with_extension("whyslow");
        let mut under = Command::new(whyslow);
        under.args(way.arguments).arg("-o").arg(&out).arg("--").arg(binary).current_dir(copy);
        recorded.push(outcome(&mut under)?);
        counted += (way.count)(&whyslow_profile::file::read(&out)?);
    }
    let passed = |outcomes: &[Outcome]| outcomes.iter().map(|outcome| outcome.passed).sum::<u64>();
    let same = plain == recorded && passed(plain) > 0 && counted > 0;
    println!(
        "| {name} | {} | {} | {} | {} | {counted} {} | {} |",
        plain.len(),
        way.name,
        passed(plain),
        passed(&recorded),
        way.counted,
        if same { "yes" } else { "no" }
    );
    if !same {
        eprintln!("{name}: plain {plain:?}\n{name}: under {} {recorded:?}", way.name);
    }
    Ok(same)
}

/// A minute of forks, threads and signals in a program that samples itself. Returns whether it succeeded and
/// received all of its signals.
fn storm(whyslow: &Path, folder: &Path) -> Result<bool> {
    let program = build("timer_hostile", Variant::Release)?;
    let out = folder.join("storm.whyslow");
    let mut command = Command::new(whyslow);
    command.args(["record", "-q", "--sampler", "timer", "-o"]).arg(&out).arg("--").arg(program);
    let output = whyslow_lab_harness::run(command.args(["storm", "60000"]), Duration::from_secs(300))?;
    let counts = Truth::parse(&String::from_utf8_lossy(&output.stdout)).counts;
    let count = |name: &str| counts.get(name).copied().unwrap_or(0);
    let profile = whyslow_profile::file::read(&out)?;
    println!(
        "\nA minute of forks, threads and signals from 4 threads that sample themselves: {} processes, {} threads, {} signals sent, {} received; \
         {} samples, {} lost; {}.",
        count("processes"),
        count("threads"),
        count("sent"),
        count("received"),
        (WAYS[1].count)(&profile),
        profile.meta.counters.lost_samples,
        output.status
    );
    Ok(output.status.success() && count("sent") > 0 && count("sent") == count("received"))
}

/// Eight threads that allocate and fork for a minute, with children that do the same. Returns whether all of
/// them succeeded.
fn fork_stress(whyslow: &Path, folder: &Path) -> Result<bool> {
    let program = build("heap_forks", Variant::Release)?;
    let mut command = Command::new(whyslow);
    command
        .args(["heap", "-q", "-o"])
        .arg(folder.join("stress.whyslow"))
        .arg("--")
        .arg(program)
        .args(["60", "8"]);
    let output = whyslow_lab_harness::run(&mut command, Duration::from_secs(300))?;
    let truth = Truth::parse(&String::from_utf8_lossy(&output.stdout));
    let processes = truth.counts.get("processes").copied().unwrap_or(0);
    println!("\nA minute of forks from 8 threads that allocate: {processes} processes, {}.", output.status);
    Ok(output.status.success() && processes > 1)
}

/// The source folders of the crates, fetched through a project that depends on them.
fn fetch(folder: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let project = folder.join("fetch");
    let mut manifest = String::from(
        "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n",
    );
    for (name, version) in CRATES {
        manifest.push_str(&format!("{name}_suite = {{ package = \"{name}\", version = \"={version}\" }}\n"));
    }
    std::fs::write(project.join("Cargo.toml"), manifest)?;
    std::fs::write(project.join("src/lib.rs"), "")?;
    let mut metadata = cargo();
    metadata.args(["metadata", "--format-version", "1"]).current_dir(&project);
    let metadata: Value = serde_json::from_str(&process::output(&mut metadata)?)?;
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    let mut folders = BTreeMap::new();
    for (name, version) in CRATES {
        let package =
            packages.iter().find(|package| package["name"] == name && package["version"] == version);
        let manifest = package.and_then(|package| package["manifest_path"].as_str());
        let sources = manifest.and_then(|path| Path::new(path).parent());
        folders
            .insert(name.to_owned(), sources.with_context(|| format!("{name} was not fetched"))?.to_owned());
    }
    Ok(folders)
}

/// Creates a writable copy that is a separate workspace.
fn copy_suite(sources: &Path, copy: &Path) -> Result<()> {
    let _ = std::fs::remove_dir_all(copy);
    process::must(process::command("cp").args(["-r", "--no-preserve=mode"]).arg(sources).arg(copy))?;
    // The crate's lock file may name versions that have been yanked.
    let _ = std::fs::remove_file(copy.join("Cargo.lock"));
    let manifest = copy.join("Cargo.toml");
    let mut text = std::fs::read_to_string(&manifest)?;
    if !text.contains("[workspace]") {
        text.push_str("\n[workspace]\n");
    }
    Ok(std::fs::write(manifest, text)?)
}

/// Builds the tests of a crate and returns their executables.
fn test_binaries(copy: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut build = cargo();
    build.args([
        "test",
        "--quiet",
        "--no-run",
        "--lib",
        "--tests",
        "--all-features",
        "--message-format=json",
    ]);
    build.arg("--target-dir").arg(folder.join("target")).current_dir(copy);
    // The second attempt leaves out features that need a nightly compiler.
    let said = process::output(&mut build).or_else(|_| {
        let mut build = cargo();
        build.args(["test", "--quiet", "--no-run", "--lib", "--tests", "--message-format=json"]);
        process::output(build.arg("--target-dir").arg(folder.join("target")).current_dir(copy))
    })?;
    let messages = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let binaries: Vec<PathBuf> =
        messages.filter_map(|message| Some(message["executable"].as_str()?.into())).collect();
    ensure!(!binaries.is_empty(), "{} has no tests", copy.display());
    Ok(binaries)
}

fn outcome(command: &mut Command) -> Result<Outcome> {
    let output = command.stdin(Stdio::null()).output().context("cannot run the tests")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let (passed, failed) = counts(&text);
    Ok(Outcome { passed, failed, code: output.status.code() })
}

/// The numbers in `test result: ok. 12 passed; 0 failed; …`.
fn counts(text: &str) -> (u64, u64) {
    let Some(line) = text.lines().find(|line| line.starts_with("test result:")) else { return (0, 0) };
    let before = |word: &str| {
        let at = line.find(word)?;
        line[..at].split_whitespace().next_back()?.parse().ok()
    };
    (before(" passed").unwrap_or(0), before(" failed").unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_summary_of_a_test_run() {
        let text = "running 3 tests\n...\ntest result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured\n";
        assert_eq!(counts(text), (12, 3));
        assert_eq!(counts("killed"), (0, 0));
    }
}
