//! `whyslow heap`: where memory is allocated, what holds it at the peak, what leaks.

mod snapshot;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::Args;
use whyslow_capture::{HeapOptions, Options, Target};
use whyslow_heap::leaks::suppressions::Suppressions;
use whyslow_profile::{HeapFacts, LeakCheck, Profile};

use super::{record, report};
use crate::cli::Volume;
use crate::exit::Exit;
use crate::failure::{Failure, Result, warn};
use crate::output::note;
use crate::recording::{self, KeepOptions, Recorded, name_of};
use crate::values;

/// Where memory is allocated, what holds it at the peak, what leaks
#[derive(Debug, Args)]
#[command(
    override_usage = "whyslow heap [OPTIONS] [--] PROGRAM [ARGS]...\n       whyslow heap --snapshot PID",
    after_help = "\
Examples:
  whyslow heap -- ./app input.txt                   every allocation, peak, growth, leaks
  whyslow heap --sample 512k -- ./server            about one allocation per 512 kB: for servers
  whyslow heap --fail-on-leak -- ./tests            exit with 2 when memory is lost
  whyslow heap --unused -- ./app                    also: bytes that are never written (slower)
  whyslow heap --snapshot 4711                      what process 4711, under whyslow heap, holds now

With --snapshot the process stands still for some milliseconds, then goes on, and its recording goes on undisturbed.
The profile is NAME.snapshot.whyslow; in it, live-at-exit is what is live now, in this process.

The program runs unchanged; an agent is loaded into it that stands in for its allocator's functions.
`report`, `flame`, `view` and `export` show any of the metrics: --metric bytes-allocated, allocations,
live-at-peak, live-at-exit, temporary-allocations, or live with --live-at TIME.

Exit codes: the program's own; with --fail-on-leak, when it succeeded, 2 if it lost memory, and 3 if
leaks could not be looked for or not everything was seen; 125 whyslow failed."
)]
pub(crate) struct HeapArgs {
    /// Look at a process that runs under `whyslow heap` now
    #[arg(
        long,
        value_name = "PID",
        conflicts_with_all = ["program", "sample", "unused", "mmap", "cpu", "temporary", "no_leak_check", "duration"]
    )]
    snapshot: Option<u32>,
    #[command(flatten)]
    how: HowArgs,
    /// The program to run, and its arguments
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, hide = true)]
    program: Vec<OsString>,
}

/// How to record the heap.
#[derive(Debug, Args)]
pub(crate) struct HowArgs {
    /// Record about one allocation per so many bytes, such as 512k, and estimate the rest
    #[arg(long, value_name = "BYTES", value_parser = values::some_bytes)]
    sample: Option<u64>,
    /// Fill new blocks with a pattern, to find bytes that are never written (slower)
    #[arg(long, conflicts_with = "sample")]
    unused: bool,
    /// Record memory that the program maps itself (mmap) too
    #[arg(long)]
    mmap: bool,
    /// Sample CPU time too, on the same timeline
    #[arg(long)]
    cpu: bool,
    /// A block is temporary when it is freed before its thread has allocated so many others
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    temporary: u64,
    /// Do not look for leaks at the end
    #[arg(long)]
    no_leak_check: bool,
    /// Leaks that are not to be reported, in Valgrind's or LeakSanitizer's syntax; may be given several times
    #[arg(long, value_name = "FILE")]
    suppressions: Vec<PathBuf>,
    /// Exit with 2 when blocks are definitely lost and no suppression names them, 3 if not all was seen
    #[arg(long, conflicts_with_all = ["no_leak_check", "sample"])]
    fail_on_leak: bool,
    #[command(flatten)]
    keep: KeepOptions,
}

/// Runs the program, or looks at one that runs, and prints the one-screen answer.
pub(crate) fn run(args: &HeapArgs, volume: Volume) -> Result<Exit> {
    if let Some(pid) = args.snapshot {
        let suppressions = read_suppressions(&args.how.suppressions)?;
        let profile = snapshot::take(pid)?;
        let name = snapshot::name(&profile, pid);
        let recorded = recording::adopt(profile, &name, &args.how.keep, volume, &suppressions)?;
        return tell(&args.how, recorded, volume);
    }
    if args.program.is_empty() {
        return Err(
            Failure::new("there is no program to run").next("whyslow heap [OPTIONS] -- PROGRAM [ARGS]...")
        );
    }
    run_target(&record::command(&args.program), name_of(&args.program[0]), &args.how, volume)
}

/// Runs what was chosen and prints the one-screen answer.
pub(crate) fn run_target(target: &Target, name: &OsStr, args: &HowArgs, volume: Volume) -> Result<Exit> {
    let suppressions = read_suppressions(&args.suppressions)?;
    let how = Options {
        cpu: args.cpu,
        heap: Some(HeapOptions {
            sample_bytes: args.sample,
            unused: args.unused,
            maps: args.mmap,
            leak_check: !args.no_leak_check && args.sample.is_none(),
            temporary_within: args.temporary,
            cpu_period_ns: None,
        }),
        ..Options::default()
    };
    let recorded = recording::make_as(target, name, how, &args.keep, volume, &suppressions)?;
    tell(args, recorded, volume)
}

/// Prints the screen, draws, judges.
fn tell(args: &HowArgs, recorded: Recorded, volume: Volume) -> Result<Exit> {
    if volume > Volume::Quiet {
        note(&report::heap_summary(&recorded.profile, recorded.saved()));
    }
    recorded.draw(&args.keep, volume)?;
    let verdict = args.fail_on_leak.then(|| verdict(&recorded.profile));
    let path = recorded.path.clone();
    match (recorded.end()?, verdict) {
        (Exit::Success | Exit::Program(0), Some(Verdict::Leaked { blocks, bytes })) => {
            let blocks = if blocks == 1 {
                "1 block".to_owned()
            } else {
                format!("{} blocks", whyslow_analyze::Count(blocks))
            };
            let what = format!(
                "--fail-on-leak: {} definitely lost in {blocks}",
                whyslow_render::units::bytes(bytes)
            );
            let next = format!("whyslow report {} heap", path.display());
            Err(Failure::new(what).next(next).exit_with(Exit::Leaked))
        }
        (Exit::Success | Exit::Program(0), Some(Verdict::Unknown(why))) => {
            let next = format!("whyslow report {} heap", path.display());
            let what = format!("--fail-on-leak: whether memory is lost is not known: {why}");
            Err(Failure::new(what).next(next).exit_with(Exit::NotEverythingSeen))
        }
        (exit, _) => Ok(exit),
    }
}

enum Verdict {
    Clean,
    Leaked { blocks: u64, bytes: u64 },
    Unknown(String),
}

fn verdict(profile: &Profile) -> Verdict {
    let totals = profile.heap.totals();
    // What is lost indirectly hangs on blocks that are lost definitely: it goes with them when they are suppressed.
    let (blocks, bytes) = (totals.definitely_lost_blocks, totals.definitely_lost_bytes);
    match profile.meta.heap.as_ref().map(|facts| (&facts.leaks, facts)) {
        Some((LeakCheck::AtExit | LeakCheck::AtSnapshot(_), _)) if blocks > 0 => {
            Verdict::Leaked { blocks, bytes }
        }
        Some((LeakCheck::AtExit | LeakCheck::AtSnapshot(_), facts)) => {
            not_seen(facts).map_or(Verdict::Clean, Verdict::Unknown)
        }
        Some((LeakCheck::Impossible(why), _)) => Verdict::Unknown(format!(
            "leaks could not be looked for: {}",
            whyslow_analyze::no_leak_check(why)
        )),
        Some((LeakCheck::NotDone, _)) | None => {
            Verdict::Unknown("leaks could not be looked for: no program was entered".to_owned())
        }
    }
}

/// What a leak could hide in.
fn not_seen(facts: &HeapFacts) -> Option<String> {
    let number = |count: u64, one: &str, more: &str| {
        let count_of = whyslow_analyze::Count(count);
        if count == 1 { format!("1 {one}") } else { format!("{count_of} {more}") }
    };
    let mut parts = Vec::new();
    if facts.programs_left_out > 0 {
        parts.push(number(facts.programs_left_out, "program was not recorded", "programs were not recorded"));
    }
    if facts.processes_not_checked > 0 {
        let (one, more) = ("process could not be looked at", "processes could not be looked at");
        parts.push(number(facts.processes_not_checked, one, more));
    }
    if facts.lost_events > 0 {
        parts.push(number(facts.lost_events, "event was lost", "events were lost"));
    }
    if parts.is_empty() && facts.is_partly_seen() {
        parts.push("an allocator is seen only in part".to_owned());
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn read_suppressions(files: &[PathBuf]) -> Result<Suppressions> {
    let mut all = Suppressions::default();
    for file in files {
        let text = std::fs::read_to_string(file)
            .map_err(|error| Failure::new(format!("{}: cannot be read: {error}", file.display())))?;
        let list = Suppressions::parse(&text, &file.to_string_lossy())
            .map_err(|error| Failure::new(error.to_string()).next("Valgrind's or LeakSanitizer's syntax"))?;
        if list.is_empty() {
            warn(&format!("{}: no suppression of leaks is in it", file.display()));
        }
        all.extend(list);
    }
    Ok(all)
}
