//! One build of all benchmarks: its executables, their harnesses, and the benchmarks they list.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use whyslow_bench::harness::Harness;
use whyslow_bench::note::words;
use whyslow_bench::suite::{BASE, HEAD, SIDES};
use whyslow_capture::{Command, Input, RunEnd, Stopwatch, TimedCommand, Written};
use whyslow_profile::ExitStatus;

use super::super::build::{self, Build, Executable};
use super::super::metadata::{Metadata, Package};
use super::super::{Checkout, environment};
use super::CargoBenchArgs;
use crate::cli::Volume;
use crate::failure::{Failure, Result, warn};
use crate::output::note;
use crate::recording::explain;
use crate::series::{Trees, stderr_tail};

/// A build. Base has no executables if there is no comparison.
#[derive(Default)]
pub(super) struct Side {
    pub(super) executables: Vec<Harnessed>,
    /// Where cargo builds.
    pub(super) target_directory: PathBuf,
}

/// An executable with a known harness.
pub(super) struct Harnessed {
    pub(super) target: String,
    pub(super) harness: Harness,
    /// Its benchmarks.
    pub(super) names: Vec<String>,
    /// Those that failed when they were listed, and why.
    pub(super) broken: BTreeMap<String, String>,
    /// The command that starts it, without arguments.
    pub(super) command: Command,
}

/// A benchmark, and the executable that has it on each side.
pub(super) struct Listed {
    pub(super) target: String,
    pub(super) name: String,
    pub(super) harness: Harness,
    /// The index of its executable, per side.
    pub(super) places: [Option<usize>; SIDES],
    pub(super) is_measured: bool,
}

impl Listed {
    /// A benchmark that exists only in criterion's folder.
    pub(super) fn stored(name: &str) -> Self {
        let harness = Harness::Criterion { exact: true };
        Self {
            target: String::new(),
            name: name.to_owned(),
            harness,
            places: [None; SIDES],
            is_measured: false,
        }
    }
}

/// Builds the sides. The inner error is cargo's exit code.
pub(super) fn build(
    args: &CargoBenchArgs,
    trees: Option<&Trees>,
    volume: Volume,
) -> Result<std::result::Result<[Side; SIDES], i32>> {
    let mut sides = <[Side; SIDES]>::default();
    let Some(trees) = trees else {
        match build_one(args, None, volume)? {
            Ok(side) => sides[HEAD] = side,
            Err(code) => return Ok(Err(code)),
        }
        return Ok(Ok(sides));
    };
    for (place, folder) in [BASE, HEAD].into_iter().zip(trees.folders()) {
        if volume > Volume::Quiet {
            note(&format!("building {}\n", trees.names()[place]));
        }
        keep_lock(&folder);
        // One target folder for both would be wrong: cargo names its output by the path within the workspace. The
        // second begins with a copy of the first, so that equal dependencies are built once.
        let target_dirs = ["build-0", "build-1"].map(|name| trees.sibling(name));
        if place == HEAD {
            trees.share(&target_dirs[0], &target_dirs[1]);
        }
        let checkout = Checkout { folder, target_dir: target_dirs[place].clone() };
        match build_one(args, Some(&checkout), volume)? {
            Ok(side) => sides[place] = side,
            Err(code) => return Ok(Err(code)),
        }
    }
    Ok(Ok(sides))
}

/// If git does not track the lock file, copies the current one to both sides, so that they have the same
/// dependencies.
fn keep_lock(folder: &Path) {
    let lock = folder.join("Cargo.lock");
    if !lock.exists() && Path::new("Cargo.lock").is_file() {
        // Without it, cargo chooses the versions.
        let _ = std::fs::copy("Cargo.lock", lock);
    }
}

fn build_one(
    args: &CargoBenchArgs,
    at: Option<&Checkout>,
    volume: Volume,
) -> Result<std::result::Result<Side, i32>> {
    let metadata = Metadata::load(&args.build, at)?;
    let mut words = vec!["build".to_owned()];
    if args.benches.is_empty() {
        words.push("--benches".to_owned());
    }
    for bench in &args.benches {
        words.extend(["--bench".to_owned(), bench.clone()]);
    }
    if let Some(package) = &args.package {
        words.extend(["--package".to_owned(), package.clone()]);
    }
    let built = match build::run_with(&args.build, at, words, &[], volume)? {
        Ok(built) => built,
        Err(code) => return Ok(Err(code)),
    };
    let executables =
        built.executables.iter().filter(|executable| executable.has_harness()).collect::<Vec<_>>();
    let one_package = executables.windows(2).all(|two| two[0].package_id == two[1].package_id);
    let stopwatch = Stopwatch::new(&[]).map_err(explain)?;
    let mut side = Side { executables: Vec::new(), target_directory: metadata.target_directory.clone() };
    for executable in executables {
        let package = metadata.package(&executable.package_id).filter(|_| !one_package);
        let target = match package {
            Some(package) => format!("{}/{}", package.name, executable.name),
            None => executable.name.clone(),
        };
        let package = metadata.package(&executable.package_id);
        let requirements = package.map_or(Vec::new(), Package::requirements);
        let command = command(&built, executable, &metadata);
        side.executables.extend(harnessed(&stopwatch, target, command, &requirements)?);
    }
    Ok(Ok(side))
}

/// The command as cargo would run it.
fn command(build: &Build, executable: &Executable, metadata: &Metadata) -> Command {
    let package = metadata.package(&executable.package_id);
    Command {
        program: executable.path.clone().into(),
        env: environment::of(build, executable, package),
        folder: package.and_then(|package| package.folder()).map(Into::into),
        ..Command::default()
    }
}

/// Asks an executable for its harness and its benchmarks. `None` if it has none, or if the harness is not
/// known.
fn harnessed(
    stopwatch: &Stopwatch,
    target: String,
    command: Command,
    requirements: &[(&str, &str)],
) -> Result<Option<Harnessed>> {
    /// No harness takes longer to print its help.
    const HELP: Duration = Duration::from_secs(10);
    let help = ask(stopwatch, &command, &["--help"], Some(HELP))?;
    let mut harness = help.ok().and_then(|help| Harness::of_help(&help));
    if harness.is_none() && requirements.iter().any(|(name, _)| ["criterion", "divan"].contains(name)) {
        // A library without its parser's help.
        let list = ask(stopwatch, &command, &["--bench", "--list"], Some(HELP))?;
        harness = Harness::of_list(list.ok().as_deref(), requirements);
    }
    let Some(harness) = harness else {
        warn(&format!("{target}: left out: its harness is not criterion, divan or libtest"));
        return Ok(None);
    };
    let (names, broken) = match ask(stopwatch, &command, harness.list_args(), None)? {
        Ok(printed) => (harness.listed(&printed), BTreeMap::new()),
        Err(why) => match one_by_one(stopwatch, &command, harness)? {
            (names, _) if names.is_empty() => {
                return Err(Failure::new(format!("{target}: cannot list its benchmarks: {why}")));
            }
            listed => listed,
        },
    };
    Ok((!names.is_empty()).then_some(Harnessed { target, harness, names, broken, command }))
}

/// The benchmarks of an executable of which one fails: each function is asked on its own. One that fails keeps its
/// name, so that it is reported with its reason.
fn one_by_one(
    stopwatch: &Stopwatch,
    command: &Command,
    harness: Harness,
) -> Result<(Vec<String>, BTreeMap<String, String>)> {
    let (mut names, mut broken) = (Vec::new(), BTreeMap::new());
    let Some(args) = harness.functions_args() else { return Ok((names, broken)) };
    let functions = ask(stopwatch, command, args, None)?.unwrap_or_default();
    for function in Harness::functions(&functions) {
        let args = harness.list_function_args(&function);
        let listed = ask(stopwatch, command, &args.iter().map(String::as_str).collect::<Vec<_>>(), None)?;
        match listed {
            Ok(printed) => names.extend(harness.listed(&printed)),
            Err(why) => {
                broken.insert(function.clone(), why);
                names.push(function);
            }
        }
    }
    Ok((names, broken))
}

/// The output of an executable; the inner error says how it failed.
fn ask(
    stopwatch: &Stopwatch,
    command: &Command,
    args: &[&str],
    timeout: Option<Duration>,
) -> Result<std::result::Result<String, String>> {
    let file = tempfile::NamedTempFile::new()
        .map_err(|error| Failure::new(format!("cannot create a file for its output: {error}")))?;
    let command = Command { args: args.iter().map(Into::into).collect(), ..brief(command) };
    let output = Written::File(file.path().to_owned());
    let run = stopwatch
        .run(&TimedCommand { command, file: None, input: Input::Null, output, timeout, keep_stderr: true })
        .map_err(explain)?;
    Ok(match end(run.end, &run.stderr) {
        End::Succeeded => Ok(std::fs::read_to_string(file.path()).unwrap_or_default()),
        End::Interrupted => return Err(Failure::new("stopped before anything was measured: no results")),
        End::Failed(why) => Err(why),
    })
}

/// The command, with the reason at the end of its stderr instead of a backtrace.
pub(super) fn brief(command: &Command) -> Command {
    let mut command = command.clone();
    command.env.push(("RUST_BACKTRACE".into(), "0".into()));
    command
}

/// How a run of an executable ended.
pub(super) enum End {
    Succeeded,
    Interrupted,
    /// With the reason.
    Failed(String),
}

pub(super) fn end(end: RunEnd, stderr: &str) -> End {
    match end {
        RunEnd::ByItself(ExitStatus::Code(0)) => End::Succeeded,
        RunEnd::Interrupted => End::Interrupted,
        RunEnd::ByItself(exit) => {
            End::Failed(format!("it ended with {}{}", words(exit), stderr_tail(stderr)))
        }
        RunEnd::TimedOut => End::Failed("it timed out".to_owned()),
    }
}

/// The benchmarks of both sides, sorted by target, because cargo lists targets in the order in which it built
/// them. Within a target they have the order of the new side; those of only the old side come last.
pub(super) fn pair(sides: &[Side; SIDES], filter: Option<&str>) -> Vec<Listed> {
    let mut all: Vec<Listed> = Vec::new();
    for side in [HEAD, BASE] {
        for (place, executable) in sides[side].executables.iter().enumerate() {
            for name in
                executable.names.iter().filter(|name| filter.is_none_or(|filter| name.contains(filter)))
            {
                match all.iter_mut().find(|one| one.target == executable.target && one.name == *name) {
                    Some(one) => one.places[side] = one.places[side].or(Some(place)),
                    None => {
                        let mut places = [None; SIDES];
                        places[side] = Some(place);
                        let (target, name) = (executable.target.clone(), name.clone());
                        all.push(Listed {
                            target,
                            name,
                            harness: executable.harness,
                            places,
                            is_measured: true,
                        });
                    }
                }
            }
        }
    }
    all.sort_by(|one, other| one.target.cmp(&other.target));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(targets: &[(&str, &[&str])]) -> Side {
        let executables = targets.iter().map(|(target, names)| Harnessed {
            target: (*target).to_owned(),
            harness: Harness::Libtest,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            broken: BTreeMap::new(),
            command: Command::default(),
        });
        Side { executables: executables.collect(), target_directory: PathBuf::new() }
    }

    #[test]
    fn benchmarks_match_by_target_and_name() {
        let sides = [side(&[("a", &["x", "gone"])]), side(&[("b", &["x"]), ("a", &["new", "x"])])];
        let pairs = |filter| {
            let listed = pair(&sides, filter).into_iter();
            listed.map(|one| (format!("{}:{}", one.target, one.name), one.places)).collect::<Vec<_>>()
        };
        let expected = [
            ("a:new", [None, Some(1)]),
            ("a:x", [Some(0), Some(1)]),
            ("a:gone", [Some(0), None]),
            ("b:x", [None, Some(0)]),
        ];
        assert_eq!(pairs(None), expected.map(|(name, places)| (name.to_owned(), places)));
        assert_eq!(pairs(Some("gon")).len(), 1);
    }
}
