//! `cargo whyslow`: builds a target for profiling, then records it.

mod asm;
mod bench;
mod build;
mod environment;
mod metadata;
mod target;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use whyslow_capture::{Command, Target};

pub(crate) use self::asm::{CargoAsmArgs, run as run_asm};
pub(crate) use self::bench::{CargoBenchArgs, run as run_bench};
use self::build::{Build, Executable};
use self::metadata::Metadata;
use self::target::{Choice, TargetArgs};
use super::heap::HowArgs;
use super::size::ShowArgs;
use super::stat::CountArgs;
use crate::cli::Volume;
use crate::exit::Exit;
use crate::failure::{Failure, Result, warn};
use crate::recording::{AnswerOptions, record_and_answer};

/// What to build and how to record it.
#[derive(Debug, Args)]
pub(crate) struct CargoArgs {
    #[command(flatten)]
    what: WhatArgs,
    #[command(flatten)]
    options: AnswerOptions,
}

/// Build a target, run it, and show where its memory goes
#[derive(Debug, Args)]
#[command(override_usage = "cargo whyslow heap [OPTIONS] [-- ARGS...]")]
pub(crate) struct CargoHeapArgs {
    #[command(flatten)]
    what: WhatArgs,
    #[command(flatten)]
    how: HowArgs,
}

/// Build a target, run it, and count what it uses
#[derive(Debug, Args)]
#[command(override_usage = "cargo whyslow stat [OPTIONS] [-- ARGS...]", mut_arg("release", |arg| arg.short(None)))]
pub(crate) struct CargoStatArgs {
    #[command(flatten)]
    what: WhatArgs,
    // -r means --runs here, as in `whyslow stat`.
    #[command(flatten)]
    how: CountArgs,
}

/// Build a target, and show what takes the space in it
#[derive(Debug, Args)]
#[command(override_usage = "cargo whyslow size [OPTIONS]")]
pub(crate) struct CargoSizeArgs {
    #[command(flatten)]
    how: ShowArgs,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    build: BuildArgs,
}

/// What to build, and the program's arguments.
#[derive(Debug, Args)]
struct WhatArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    build: BuildArgs,
    /// Arguments for the program
    #[arg(value_name = "ARGS", last = true, hide = true)]
    args: Vec<OsString>,
}

/// How to build. These options mean the same as for cargo.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Build options")]
pub(crate) struct BuildArgs {
    /// Features to activate
    #[arg(long, value_name = "FEATURES")]
    features: Vec<String>,
    /// Activate all features
    #[arg(long)]
    all_features: bool,
    /// Leave out the default feature
    #[arg(long)]
    no_default_features: bool,
    /// Build with optimisations (the default)
    #[arg(short, long, conflicts_with_all = ["profile", "dev"])]
    release: bool,
    /// Build with this profile, plus line tables [default: release]
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
    /// Build without optimisations, to profile a debug build
    #[arg(long, conflicts_with = "profile")]
    dev: bool,
    /// Build for this target, which must run on this machine
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// Path to Cargo.toml
    #[arg(long, value_name = "PATH")]
    manifest_path: Option<PathBuf>,
    /// Folder for build results
    #[arg(long, value_name = "FOLDER")]
    target_dir: Option<PathBuf>,
    /// Number of parallel jobs
    #[arg(short, long, value_name = "N")]
    jobs: Option<String>,
    /// Do not use the network
    #[arg(long)]
    offline: bool,
    /// Do not change Cargo.lock
    #[arg(long)]
    locked: bool,
}

/// A checkout to build instead of the current folder.
struct Checkout {
    folder: PathBuf,
    /// cargo's output folder.
    target_dir: PathBuf,
}

/// Builds, then records.
pub(crate) fn run(args: CargoArgs, volume: Volume) -> Result<Exit> {
    match build(args.what, volume)? {
        Ok((target, name)) => {
            let how = args.options.record.resolved(&target)?;
            let (keep, shown) = (args.options.record.keep.resolved(), args.options.resolved());
            record_and_answer(&target, &name, how, &keep, shown, volume)
        }
        // cargo has printed why.
        Err(code) => Ok(Exit::Cargo(code)),
    }
}

/// Builds, then records the heap.
pub(crate) fn run_heap(args: CargoHeapArgs, volume: Volume) -> Result<Exit> {
    match build(args.what, volume)? {
        Ok((target, name)) => super::heap::run_target(&target, &name, &args.how, volume),
        Err(code) => Ok(Exit::Cargo(code)),
    }
}

/// Builds, then counts.
pub(crate) fn run_stat(args: CargoStatArgs, volume: Volume) -> Result<Exit> {
    match build(args.what, volume)? {
        Ok((target, _)) => super::stat::run_target(&target, &args.how, volume),
        Err(code) => Ok(Exit::Cargo(code)),
    }
}

/// Builds, then measures the program's file.
pub(crate) fn run_size(args: &CargoSizeArgs, volume: Volume) -> Result<Exit> {
    let metadata = Metadata::load(&args.build, None)?;
    let choice = target::choose(&args.target, &metadata)?;
    match build::run(&args.build, choice.build_args(), volume)? {
        Ok(built) => super::size::run_built(&built.executable(&choice)?.path, &args.how, volume),
        Err(code) => Ok(Exit::Cargo(code)),
    }
}

/// Builds the target. Returns what to run and its name. The inner error is cargo's exit code.
fn build(args: WhatArgs, volume: Volume) -> Result<std::result::Result<(Target, OsString), i32>> {
    refuse_other_machines(&args.build)?;
    let metadata = Metadata::load(&args.build, None)?;
    let choice = target::choose(&args.target, &metadata)?;
    let build = match build::run(&args.build, choice.build_args(), volume)? {
        Ok(build) => build,
        Err(code) => return Ok(Err(code)),
    };
    let executable = build.executable(&choice)?;
    if executable.is_unoptimised() {
        warn(&format!(
            "{} is built WITHOUT OPTIMISATION: its profile differs from that of the program you ship; \
             try: cargo whyslow without {}, for an optimised build",
            choice.name,
            if args.build.dev { "--dev" } else { "--profile" }
        ));
    }
    let target = Target::Command(command(&build, executable, &choice, &metadata, args.args));
    Ok(Ok((target, choice.name.into())))
}

fn refuse_other_machines(build: &BuildArgs) -> Result {
    let Some(triple) = build.target.as_deref().filter(|triple| !runs_here(triple)) else { return Ok(()) };
    Err(Failure::new(format!("--target {triple}: this machine cannot run programs for it")).next(format!(
        "a target of {} Linux, or recording on a machine of that kind",
        std::env::consts::ARCH
    )))
}

/// Whether programs for this target run on this machine. Target description files are left to cargo.
fn runs_here(triple: &str) -> bool {
    let is_file = triple.ends_with(".json");
    is_file || triple.split('-').next() == Some(std::env::consts::ARCH) && triple.contains("-linux-")
}

/// The command as cargo would run it: folder, environment and arguments.
fn command(
    build: &Build,
    executable: &Executable,
    choice: &Choice,
    metadata: &Metadata,
    args: Vec<OsString>,
) -> Command {
    let package = metadata.package(&executable.package_id);
    let mut args = args;
    if choice.is_bench() {
        args.push("--bench".into());
    }
    let folder = package.filter(|_| choice.runs_in_package()).and_then(|package| package.folder());
    Command {
        program: executable.path.clone().into(),
        args,
        env: environment::of(build, executable, package),
        folder: folder.map(Into::into),
        silent: false,
    }
}

/// The cargo that started whyslow, or the one in PATH.
fn cargo(at: Option<&Checkout>) -> std::process::Command {
    let mut command =
        whyslow_capture::restored_command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    if let Some(checkout) = at {
        command.current_dir(&checkout.folder);
    }
    command
}

fn cargo_cannot_start(error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot start cargo: {error}"))
        .next("installing Rust from https://rustup.rs, or recording a program that is built: whyslow ./app")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_targets_of_other_machines_early() {
        let here = std::env::consts::ARCH;
        assert!(runs_here(&format!("{here}-unknown-linux-gnu")));
        assert!(runs_here(&format!("{here}-unknown-linux-musl")));
        assert!(runs_here("specs/mine.json"));
        assert!(!runs_here("riscv64gc-unknown-linux-gnu"));
        assert!(!runs_here(&format!("{here}-pc-windows-gnu")));
    }
}
