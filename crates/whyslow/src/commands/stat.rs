//! `whyslow stat`: counts what a program uses.

mod answer;
mod wanted;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use whyslow_analyze::stat::{self, CountNote, Permission, Scope};
use whyslow_capture::{CountOptions, Counted, Target, count};
use whyslow_events::{Machine, Measured};
use whyslow_proc::kernel::Settings;
use whyslow_profile::ExitStatus;
use whyslow_render::text;
use whyslow_words::{Fact, Remark};

use self::answer::Answer;
use self::wanted::Events;
use crate::cli::{Format, Volume};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::Input;
use crate::output::{self, Output, note};
use crate::recording::explain;
use crate::targets::Wanted;
use crate::{targets, values};

/// Count time, memory, page faults, context switches, I/O and CPU events
#[derive(Debug, Args)]
#[command(
    override_usage = "whyslow stat [OPTIONS] [--] PROGRAM [ARGS]...\n       whyslow stat [OPTIONS] -p PID|NAME\n       whyslow stat [OPTIONS] -a [--] [PROGRAM [ARGS]...]",
    after_help = "\
Examples:
  whyslow stat -- ./app input.txt        counts, and what each suggests
  whyslow stat -r 10 -- ./app            ten runs: means with intervals
  whyslow stat -e cycles:u,LLC-load-misses -- ./app
  whyslow stat -I 100ms -- ./app         a line every 100 ms
  whyslow stat --per-thread -- ./app     a row per thread
  whyslow stat -p server --duration 10s  a running program
  whyslow stat --format json -o stat.json -- ./app

whyslow leaves the program's input and output alone. The answer goes to stderr
if whyslow runs a program, otherwise to stdout; -o writes it to a file (`-o -`
is stdout). No number is good or bad by itself: compare it with another run.

Exit codes: the program's own (of several runs, the first that is not 0); 128+N
if signal N killed it; 125 if whyslow fails; 126 if the program cannot be
started; 127 if it is not found."
)]
pub(crate) struct StatArgs {
    /// Count running processes by PID or name, comma-separated
    #[arg(short, long, value_name = "PID|NAME", value_delimiter = ',', conflicts_with = "runs")]
    pid: Vec<Wanted>,
    /// Count every process; with PROGRAM, until it exits
    #[arg(short, long, conflicts_with_all = ["pid", "runs", "per_thread"])]
    all: bool,
    #[command(flatten)]
    how: CountArgs,
    /// The program to run, and its arguments
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, hide = true, conflicts_with = "pid")]
    program: Vec<OsString>,
}

/// What to count, and how to print it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Counting")]
pub(crate) struct CountArgs {
    /// Count these events, such as cycles:u,page-faults (see `whyslow list`)
    #[arg(short, long = "event", value_name = "EVENTS")]
    events: Vec<String>,
    /// Run N times and show means with 95 % confidence intervals
    #[arg(short, long, value_name = "N", default_value_t = 1, hide_default_value = true, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Also print a line per interval, such as 100ms
    #[arg(short = 'I', long, value_name = "TIME", value_parser = values::positive_duration, conflicts_with = "runs")]
    interval: Option<Duration>,
    /// Also print a row per thread
    #[arg(long, conflicts_with = "runs")]
    per_thread: bool,
    /// Stop counting after this time, such as 10s
    #[arg(long, value_name = "TIME", value_parser = values::positive_duration, conflicts_with = "runs")]
    duration: Option<Duration>,
    /// Output format
    #[arg(long, value_enum, default_value_t, help_heading = "Output")]
    format: Format,
    /// Write the answer to this file
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
}

/// Counts and prints.
pub(crate) fn run(args: &StatArgs, volume: Volume) -> Result<Exit> {
    let Some((target, _)) = targets::target(&args.pid, args.all, &args.program, volume)? else {
        return Err(Failure::new("nothing to count").next("whyslow stat -- PROGRAM, -p PID, or -a"));
    };
    run_target(&target, &args.how, volume)
}

/// Counts the target and prints.
pub(crate) fn run_target(target: &Target, args: &CountArgs, volume: Volume) -> Result<Exit> {
    let scope = match target {
        Target::Command(_) => Scope::Program,
        Target::Processes(_) => Scope::Processes,
        Target::System { .. } => Scope::Machine,
    };
    let file = args.output.clone().map(Output::from);
    if let Some(file) = &file {
        file.check()?;
    }
    let events = Events::choose(&Machine::this(), &args.events)?;
    let options = CountOptions {
        events: events.wanted.clone(),
        interval: args.interval,
        per_thread: args.per_thread,
        duration: args.duration,
    };
    let lines = args.interval.is_some() && args.format == Format::Text && volume > Volume::Quiet;
    let (runs, mut notes) = all_runs(target, &options, args.runs, events.asked, lines)?;
    let Some(first) = runs.first() else { return Ok(Exit::Success) };
    let allowed = Permission { level: Settings::now().perf_event_paranoid, own: wanted::own_is_allowed() };
    // All runs miss the same events.
    notes.splice(0..0, CountNote::of_run(&first.measured, scope, events.asked, allowed));
    if args.per_thread {
        notes.extend(first.measured.threads.is_empty().then_some(CountNote::ThreadsNotCounted));
        let threads = first.threads_incomplete;
        notes.extend((threads > 0).then_some(CountNote::ThreadsIncomplete { threads }));
    }
    let remarks: Vec<Remark> = notes.iter().map(Fact::remark).collect();
    let answer = Answer::new(&runs, scope, events.asked, &remarks);
    if volume > Volume::Quiet || file.is_some() || args.format == Format::Json {
        let runs_a_program = target_runs_a_program(target);
        print_answer(&answer, args.format, file.as_ref(), runs_a_program, args.interval.is_some())?;
    }
    Ok(exit_of(&runs))
}

fn target_runs_a_program(target: &Target) -> bool {
    match target {
        Target::Command(_) => true,
        Target::System { while_runs } => while_runs.is_some(),
        Target::Processes(_) => false,
    }
}

fn print_answer(
    answer: &Answer<'_>,
    format: Format,
    file: Option<&Output>,
    runs_a_program: bool,
    below_lines: bool,
) -> Result {
    let text = match format {
        Format::Json => answer.json()?,
        Format::Text if file.is_some() || !runs_a_program => answer.text(std::io::stdout()),
        Format::Text => answer.text(std::io::stderr()),
    };
    // The lines of the intervals are above.
    let gap = if below_lines && format == Format::Text { "\n" } else { "" };
    match file {
        Some(file) => file.write(|out| {
            let plain = anstream::adapter::strip_str(&text).to_string();
            out.write_all(plain.as_bytes())
        }),
        None if runs_a_program => {
            note(&format!("{gap}{text}"));
            Ok(())
        }
        None => output::print(&format!("{gap}{text}")),
    }
}

/// All runs, and notes on them together.
fn all_runs(
    target: &Target,
    options: &CountOptions,
    wanted: u32,
    asked: usize,
    lines: bool,
) -> Result<(Vec<Counted>, Vec<CountNote>)> {
    let mut runs: Vec<Counted> = Vec::new();
    let mut notes = Vec::new();
    let input = Input::of_runs(wanted);
    notes.extend((input == Input::UsedUp).then_some(CountNote::InputUsedUp));
    while runs.len() < wanted as usize {
        input.rewind();
        let mut each = |measured: &Measured| {
            if lines {
                show_interval(measured, asked, target_runs_a_program(target));
            }
        };
        let run = count(target, options, &mut each).map_err(explain)?;
        let was_stopped = run.stopped || matches!(run.exit, Some(ExitStatus::Signal(_)));
        runs.push(run);
        if was_stopped {
            break;
        }
    }
    let (made, wanted) = (runs.len() as u64, u64::from(wanted));
    notes.extend((made < wanted).then_some(CountNote::RunsEnded { made, wanted }));
    let failed =
        runs.iter().filter(|run| run.exit.is_some_and(|exit| exit != ExitStatus::Code(0))).count() as u64;
    notes.extend((failed > 0 && made > 1).then_some(CountNote::FailedRuns { failed, runs: made }));
    Ok((runs, notes))
}

/// The exit code of the first run that failed, else success.
fn exit_of(runs: &[Counted]) -> Exit {
    let ends = runs.iter().filter_map(|run| run.exit);
    ends.into_iter().find(|exit| *exit != ExitStatus::Code(0)).map_or(Exit::Success, Exit::from)
}

/// Prints the interval that has just ended.
fn show_interval(measured: &Measured, asked: usize, on_stderr: bool) {
    let from = measured.series.len().saturating_sub(1);
    for interval in stat::intervals(measured, asked, from) {
        let head = if from == 0 { text::interval_head(&interval) } else { String::new() };
        let lines = format!("{head}{}", text::interval_line(&interval));
        if on_stderr {
            note(&lines);
        } else {
            // A reader that stops early does not stop the counting.
            let _ = output::print(&lines);
        }
    }
}
