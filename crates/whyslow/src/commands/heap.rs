//! `whyslow heap`: where memory is allocated, what holds it at the peak, what leaks.

mod snapshot;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::Args;
use whyslow_analyze::remark_of;
use whyslow_capture::{HeapOptions, Options, Target};
use whyslow_heap::leaks::suppressions::Suppressions;
use whyslow_profile::{HeapFacts, HeapNote, LeakCheck, Note, Profile};
use whyslow_words::number_of;

use crate::cli::Volume;
use crate::exit::Exit;
use crate::failure::{Failure, Result, warn};
use crate::output::note;
use crate::recording::{self, KeepOptions, Recorded, name_of};
use crate::{answers, shell, suppress, targets, values};

/// Find where memory is allocated, what holds it at the peak, and leaks
#[derive(Debug, Args)]
#[command(
    override_usage = "whyslow heap [OPTIONS] [--] PROGRAM [ARGS]...\n       whyslow heap --snapshot PID",
    after_help = "\
Examples:
  whyslow heap -- ./app input.txt         every allocation: peak, growth, leaks
  whyslow heap --sample 512k -- ./server  one allocation per 512 kB, for servers
  whyslow heap --fail-on-leak -- ./tests  exit with 2 if memory is lost
  whyslow heap --unused -- ./app          also: bytes never written (slower)
  whyslow heap --snapshot 4711            what process 4711 holds now

--snapshot works on a process that runs under `whyslow heap`. It stops the
process for a few milliseconds; the recording continues. In its profile,
live-at-exit means live now.

Profiles are kept as NAME.heap.1.whyslow, NAME.heap.2.whyslow, and so on;
NAME.heap.whyslow is the latest. Snapshots are NAME.snapshot.1.whyslow.

The program runs unchanged: whyslow preloads an agent that hooks its allocator.
`report`, `flame`, `view` and `export` show these metrics with --metric:
bytes-allocated, allocations, live-at-peak, live-at-exit,
temporary-allocations, and live (with --live-at TIME).

Exit codes: the program's own; 125 if whyslow fails. With --fail-on-leak, if the
program exits with 0: 2 if memory is lost, 3 if not everything was checked."
)]
pub(crate) struct HeapArgs {
    /// Take a snapshot of a process under `whyslow heap`
    #[arg(
        long,
        value_name = "PID",
        conflicts_with_all = ["program", "sample", "unused", "mmap", "cpu", "temporary", "no_leak_check", "leak_check", "duration", "pid"]
    )]
    snapshot: Option<u32>,
    #[command(flatten)]
    how: HowArgs,
    /// Other profilers attach
    #[arg(short, long, value_name = "PID", hide = true)]
    pid: Option<String>,
    /// The program to run, and its arguments
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, hide = true)]
    program: Vec<OsString>,
}

/// How to record the heap.
#[derive(Debug, Args)]
#[command(next_help_heading = "Heap recording")]
pub(crate) struct HowArgs {
    /// Record about one allocation per this many bytes, such as 512k
    #[arg(long, value_name = "BYTES", value_parser = values::positive_bytes)]
    sample: Option<u64>,
    /// Find bytes that are never written (slower)
    #[arg(long, conflicts_with = "sample")]
    unused: bool,
    /// Also record memory that the program maps (mmap)
    #[arg(long)]
    mmap: bool,
    /// Also sample CPU time
    #[arg(long)]
    cpu: bool,
    /// Blocks freed within N allocations count as temporary
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    temporary: u64,
    /// Do not look for leaks at exit
    #[arg(long)]
    no_leak_check: bool,
    /// memcheck's option: `no` is --no-leak-check, all else is the default
    #[arg(long, value_name = "HOW", hide = true, num_args = 0..=1, require_equals = true)]
    leak_check: Option<Option<String>>,
    /// Valgrind or LeakSanitizer suppressions (repeatable)
    #[arg(long, value_name = "FILE")]
    suppressions: Vec<PathBuf>,
    /// Exit with 2 on definite leaks, 3 if not all was checked
    #[arg(long, conflicts_with_all = ["no_leak_check", "sample"])]
    fail_on_leak: bool,
    #[command(flatten)]
    keep: KeepOptions,
}

/// Runs the program, or takes a snapshot of a running one, and prints the answer.
pub(crate) fn run(args: &HeapArgs, volume: Volume) -> Result<Exit> {
    if let Some(pid) = args.snapshot {
        let suppressions = read_suppressions(&args.how.suppressions)?;
        let profile = snapshot::take(pid)?;
        let name = snapshot::name(&profile, pid);
        let recorded = recording::adopt(profile, &name, &args.how.keep.resolved(), volume, &suppressions)?;
        return print_answer(&args.how, recorded, volume);
    }
    if let Some(pid) = &args.pid {
        return Err(Failure::new(format!(
            "heap cannot attach to {pid}: what a process allocated before is not known"
        ))
        .next("whyslow heap -- PROGRAM, to start it under whyslow, then whyslow heap --snapshot PID at any time"));
    }
    if args.program.is_empty() {
        return Err(Failure::new("no program to run").next("whyslow heap [OPTIONS] -- PROGRAM [ARGS]..."));
    }
    run_target(&targets::command(&args.program), name_of(&args.program[0]), &args.how, volume)
}

/// Runs the target and prints the answer.
pub(crate) fn run_target(target: &Target, name: &OsStr, args: &HowArgs, volume: Volume) -> Result<Exit> {
    let suppressions = read_suppressions(&args.suppressions)?;
    let is_off = matches!(&args.leak_check, Some(Some(how)) if how == "no");
    let how = Options {
        cpu: args.cpu,
        heap: Some(HeapOptions {
            sample_bytes: args.sample,
            unused: args.unused,
            maps: args.mmap,
            leak_check: !args.no_leak_check && !is_off && args.sample.is_none(),
            temporary_within: args.temporary,
        }),
        ..Options::default()
    };
    // A CPU profile of the same program keeps its name: the two have no metric in common.
    let mut name = name.to_owned();
    name.push(".heap");
    let recorded = recording::run(target, &name, how, &args.keep.resolved(), volume, &suppressions)?;
    print_answer(args, recorded, volume)
}

/// Prints the answer, draws the flame graph, and applies `--fail-on-leak`.
fn print_answer(args: &HowArgs, recorded: Recorded, volume: Volume) -> Result<Exit> {
    if volume > Volume::Quiet {
        note(&answers::heap(&recorded.profile, recorded.saved()));
    }
    recorded.draw(&args.keep.resolved(), volume)?;
    let verdict = args.fail_on_leak.then(|| verdict(&recorded.profile));
    let path = recorded.path.clone();
    match (recorded.exit()?, verdict) {
        (Exit::Success | Exit::Program(0), Some(Verdict::Leaked { blocks, bytes })) => {
            let blocks = number_of(blocks, "block", "blocks");
            let what = format!(
                "--fail-on-leak: {} definitely lost in {blocks}",
                whyslow_render::units::bytes(bytes)
            );
            let next = format!("whyslow report {} leaks", shell::file(&path));
            Err(Failure::new(what).next(next).exit_with(Exit::Leaked))
        }
        (Exit::Success | Exit::Program(0), Some(Verdict::Unknown(why))) => {
            let next = format!("whyslow report {} heap", shell::file(&path));
            let what = format!("--fail-on-leak: cannot decide whether memory is lost: {why}");
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
    // Indirectly lost blocks hang on definitely lost ones, and are suppressed with them.
    let (blocks, bytes) = (totals.definitely_lost_blocks, totals.definitely_lost_bytes);
    match profile.meta.heap.as_ref().map(|facts| (&facts.leaks, facts)) {
        Some((LeakCheck::AtExit | LeakCheck::AtSnapshot(_), _)) if blocks > 0 => {
            Verdict::Leaked { blocks, bytes }
        }
        Some((LeakCheck::AtExit | LeakCheck::AtSnapshot(_), facts)) => {
            not_seen(facts, &profile.meta.notes).map_or(Verdict::Clean, Verdict::Unknown)
        }
        Some((LeakCheck::Impossible(why), _)) => {
            Verdict::Unknown(format!("no leak check: {}", whyslow_analyze::no_leak_check(why)))
        }
        Some((LeakCheck::NotDone, _)) | None => {
            Verdict::Unknown("no leak check: the agent was loaded into no program".to_owned())
        }
    }
}

/// Where a leak could have gone unnoticed.
fn not_seen(facts: &HeapFacts, notes: &[Note]) -> Option<String> {
    let mut parts = Vec::new();
    if facts.programs_left_out > 0 {
        parts.push(number_of(
            facts.programs_left_out,
            "program was not recorded",
            "programs were not recorded",
        ));
    }
    if facts.processes_not_checked > 0 {
        let (one, more) = ("process could not be checked", "processes could not be checked");
        parts.push(number_of(facts.processes_not_checked, one, more));
    }
    if facts.lost_events > 0 {
        parts.push(number_of(facts.lost_events, "event was lost", "events were lost"));
    }
    // The programs that were not recorded are counted above.
    let left_out = |note: &HeapNote| {
        matches!(note, HeapNote::ProgramLeftOut { .. } | HeapNote::MoreProgramsLeftOut { .. })
    };
    let hiding = notes.iter().filter(|note| match note {
        Note::Heap(note) => note.hides_allocations() && !left_out(note),
        _ => false,
    });
    parts.extend(hiding.map(|note| remark_of(note).text));
    if parts.is_empty() && facts.is_partly_seen() {
        parts.push("only a part of an allocator's calls is recorded".to_owned());
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn read_suppressions(files: &[PathBuf]) -> Result<Suppressions> {
    let mut all = Suppressions::default();
    for file in files {
        let (_, list) = suppress::read(file)?;
        if list.is_empty() {
            warn(&format!("{}: it has no leak suppressions", file.display()));
        }
        all.extend(list);
    }
    Ok(all)
}
