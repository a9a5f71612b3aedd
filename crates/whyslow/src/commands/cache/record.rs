//! Runs Valgrind's simulators and turns their files into one profile.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use whyslow_capture::Command;
use whyslow_formats::import::{Format, Simulated, access_counts, simulated};
use whyslow_profile::{ExitStatus, Profile};
use whyslow_valgrind::{Job, ProcessRun, Run, Tool, Valgrind};

use super::{CacheArgs, program};
use crate::cli::Volume;
use crate::failure::{Failure, Result, warn};
use crate::output::note;
use crate::recording::{self, Keep, Recorded, name_of};
use crate::{profile_file, valgrind};

/// Simulates the program, and writes the profile.
pub(super) fn run(args: &CacheArgs, keep: &Keep, volume: Volume) -> Result<Recorded> {
    let installed = valgrind::find()?;
    let command = command(&args.program);
    whyslow_capture::can_start(&command).map_err(recording::explain)?;
    let file = command.file().unwrap_or_default();
    let (inside, symbols) = toggles(args, &file)?;
    let program = command.program.to_string_lossy().into_owned();
    let job = job(args, command, &symbols);
    let mut name = name_of(&args.program[0]).to_owned();
    name.push(if args.heap { ".accesses" } else { ".cache" });
    let expected = expected(&name, &job.command);
    if let Some(warning) = program::avx512(&file).filter(|_| volume > Volume::Quiet) {
        warn(&warning);
    }
    if volume > Volume::Quiet {
        note(&format!("whyslow: {}\n", announcement(job.tool, expected)));
    }
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let run = valgrind::run(&installed, &job, &format!("simulating {program}"), expected, volume)?;
    if let Some(failure) = unknown_instruction(&run) {
        return Err(failure);
    }
    let mut profile = profile(&run, job.tool, keep)?;
    profile.meta.simulation.get_or_insert_default().only_inside = inside;
    describe(&mut profile, &run, &job, &installed, started);
    recording::adopt_named(profile, &name, keep, volume)
}

fn command(words: &[OsString]) -> Command {
    Command { program: words[0].clone(), args: words[1..].to_vec(), ..Command::default() }
}

/// The functions that `--toggle` names, as they are shown, and their symbols.
fn toggles(args: &CacheArgs, file: &Path) -> Result<(Vec<String>, Vec<String>)> {
    let mut shown = Vec::new();
    let mut symbols = Vec::new();
    for name in &args.toggle {
        for (name, symbol) in program::symbols(file, name)? {
            shown.push(name);
            symbols.push(symbol);
        }
    }
    shown.dedup();
    Ok((shown, symbols))
}

fn job(args: &CacheArgs, command: Command, symbols: &[String]) -> Job {
    let children = !args.no_children;
    if args.heap {
        // Valgrind keeps 12 callers unless more are wanted.
        let options = ["--num-callers=64", "--demangle=no"].map(OsString::from).to_vec();
        return Job { options, children, ..Job::new(Tool::Dhat, command) };
    }
    let tool = if args.no_stacks { Tool::Cachegrind } else { Tool::Callgrind };
    let mut options: Vec<OsString> = vec!["--cache-sim=yes".into(), "--branch-sim=yes".into()];
    if tool == Tool::Callgrind {
        options.extend(["--dump-instr=yes", "--demangle=no"].map(OsString::from));
    }
    options.extend(symbols.iter().map(|symbol| OsString::from(format!("--toggle-collect={symbol}"))));
    for (option, size) in [("--I1=", &args.i1), ("--D1=", &args.d1), ("--LL=", &args.ll)] {
        options.extend(size.iter().map(|size| OsString::from(format!("{option}{size}"))));
    }
    Job { options, children, ..Job::new(tool, command) }
}

/// What to know before it starts.
fn announcement(tool: Tool, expected: Option<Duration>) -> String {
    let end = match expected {
        Some(time) => {
            let time = whyslow_render::units::duration(time.as_nanos() as u64);
            format!("about {time}, as long as the last time")
        }
        None => "20 to 100 times as long as without".to_owned(),
    };
    format!("simulating with {}: it takes {end}", tool.name())
}

/// How long the same command took the last time.
fn expected(name: &OsStr, command: &Command) -> Option<Duration> {
    let mut file = name.to_owned();
    file.push(".whyslow");
    let last = whyslow_profile::file::read(Path::new(&file)).ok()?;
    let elapsed = Duration::from_nanos(last.meta.simulation?.elapsed_ns);
    let same = last.meta.command == words(command) && !elapsed.is_zero();
    same.then_some(elapsed)
}

fn words(command: &Command) -> Vec<String> {
    let words = std::iter::once(&command.program).chain(&command.args);
    words.map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Whether the program died of an instruction that Valgrind does not know.
fn unknown_instruction(run: &Run) -> Option<Failure> {
    const SIGILL: i32 = 4;
    let words = run.processes.first()?.words();
    let line = words.lines().find(|line| line.contains("unhandled instruction bytes"));
    if run.exit != ExitStatus::Signal(SIGILL) {
        return None;
    }
    let line = line?;
    let bytes = line.rsplit(':').next().unwrap_or_default().trim();
    let what = match bytes.split_whitespace().next() {
        Some("0x62") => "an AVX-512 instruction",
        _ => "an instruction",
    };
    let place = words.lines().find_map(|line| line.trim().strip_prefix("at 0x")?.split_once(": "));
    let place = place.map_or(String::new(), |(_, place)| format!(" in {place}"));
    Some(
        Failure::new(format!(
            "the program ended with SIGILL at {what} that Valgrind cannot execute{place} ({bytes})"
        ))
        .next(program::REBUILD),
    )
}

/// Reads the files of all processes.
fn profile(run: &Run, tool: Tool, keep: &Keep) -> Result<Profile> {
    let format = match tool {
        Tool::Cachegrind => Format::Cachegrind,
        Tool::Dhat => Format::Dhat,
        Tool::Callgrind | Tool::Memcheck => Format::Callgrind,
    };
    let mut files: Vec<(&ProcessRun, Vec<u8>)> = Vec::new();
    for process in &run.processes {
        let Some(file) = &process.output else { continue };
        let bytes = std::fs::read(file)
            .map_err(|error| Failure::new(format!("valgrind's results cannot be read: {error}")))?;
        if !bytes.is_empty() {
            files.push((process, bytes));
        }
    }
    let processes: Vec<Simulated<'_>> = files
        .iter()
        .map(|(process, bytes)| Simulated {
            pid: process.pid,
            parent: process.parent,
            command: &process.command,
            format,
            bytes,
        })
        .collect();
    if processes.is_empty() {
        return Err(nothing(run, tool));
    }
    let options = profile_file::symbol_options(!keep.no_symbol_cache, !keep.no_source);
    let imported = match format {
        Format::Dhat => access_counts(&processes),
        _ => simulated(&processes, &options),
    };
    let imported = imported
        .map_err(|error| Failure::new(format!("valgrind's results {error}")).next("running it again"))?;
    Ok(imported.profile)
}

/// Why there are no results.
fn nothing(run: &Run, tool: Tool) -> Failure {
    let how = whyslow_bench::note::words(run.exit);
    Failure::new(format!("{} wrote no results: the program ended with {how} before it could", tool.name()))
        .next("a program that ends by itself, on SIGTERM or Ctrl-C: SIGKILL leaves no time to write")
}

/// Adds what is known of the run.
fn describe(profile: &mut Profile, run: &Run, job: &Job, installed: &Valgrind, started: Duration) {
    let meta = &mut profile.meta;
    meta.command = words(&job.command);
    meta.recorder = format!("whyslow {}", env!("CARGO_PKG_VERSION"));
    meta.started_unix_ns = started.as_nanos() as u64;
    meta.exit = Some(run.exit);
    meta.host = whyslow_capture::this_host();
    let facts = meta.simulation.get_or_insert_default();
    facts.tool = job.tool.name().to_owned();
    facts.version = installed.version().to_string();
    facts.elapsed_ns = run.elapsed.as_nanos() as u64;
    let lost = run.processes.iter().filter(|process| process.output.is_none());
    facts.lost_processes = lost
        .map(|process| match process.command.first() {
            Some(program) => format!("{program} ({})", process.pid),
            None => format!("process {}", process.pid),
        })
        .collect();
}
