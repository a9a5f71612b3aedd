//! `whyslow causal`: what would making a line or a function faster buy?

use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clap::Args;
use whyslow_capture::{
    CausalOptions, CausalShared, Command, Conditions, Options, RecordError, Target, experiments_refused,
};
use whyslow_profile::ExitStatus;
use whyslow_render::json;
use whyslow_render::text::{self, Page};
use whyslow_symbols::{Scope, Wanted as WantedFunction, function_code};
use whyslow_words::number_of;

use crate::causal::modules::{Modules, is_shell};
use crate::causal::points::{self, NamedPoint};
use crate::causal::{Experimenter, Proposal, Wanted, WholeFunction, Wish, propose};
use crate::cli::{Format, Volume};
use crate::exit::Exit;
use crate::failure::{Failure, Result, warn};
use crate::input::Input;
use crate::output::{self, note};
use crate::recording::{self, KeepOptions, Recorded, name_of};
use crate::{answers, targets, terminal, values};

/// Find out what making a line or a function faster would buy
#[derive(Debug, Args)]
#[command(
    override_usage = "whyslow causal [OPTIONS] [--] PROGRAM [ARGS]...",
    after_help = "\
Examples:
  whyslow causal --progress handle_request -- ./server
  whyslow causal --latency handle_request -- ./server
  whyslow causal --progress step --function solve -- ./simulation
  whyslow causal --progress step --with-callees parse -- ./simulation
  whyslow causal --progress main.rs:88 --line main.rs:120 -- ./app
  whyslow causal -- ./app                 with progress points of the coz crate
  whyslow causal -- ./convert in.png      without any: compares whole runs
  whyslow causal --suggest -- ./server    proposes progress points

While the program runs, experiments slow everything down but one line, which
has the effect of making that line faster. The answer says by how much less
time each unit of progress would take. Without a progress point, each run of
the program is an experiment: the answer is about the time of a whole run.

A program that ends before the budget is started again, with its input file
from the start, and prints its output again. One that still runs then is
ended. Ctrl-C ends the experiments, and the answer so far is printed.

Exit codes: the program's own, or 0 if whyslow ended it; 125 if whyslow fails."
)]
pub(crate) struct CausalArgs {
    /// A unit of progress: FUNCTION, FUNCTION@return, FILE:LINE or syscall:NAME (repeatable)
    #[arg(long, value_name = "POINT")]
    progress: Vec<String>,
    /// Also ask for the time from this function's entry to its return (repeatable)
    #[arg(long, value_name = "FUNCTION")]
    latency: Vec<String>,
    /// Speed up this function (repeatable)
    #[arg(long, value_name = "FUNCTION")]
    function: Vec<String>,
    /// Speed up this function with all that it calls (repeatable)
    #[arg(long, value_name = "FUNCTION")]
    with_callees: Vec<String>,
    /// Speed up this line (repeatable)
    #[arg(long, value_name = "FILE:LINE", value_parser = line)]
    line: Vec<(String, u32)>,
    /// Propose progress points: functions that are entered at a steady rate
    #[arg(long, conflicts_with_all = ["progress", "latency", "function", "line", "runs", "output", "flame", "open"])]
    suggest: bool,
    /// Whose lines to try: own, all, or the name of a crate
    #[arg(long, value_name = "SCOPE", default_value = "own")]
    scope: String,
    /// How long to experiment [default: 60s; --suggest: 6s]
    #[arg(long, value_name = "TIME", value_parser = values::positive_duration)]
    budget: Option<Duration>,
    /// Start the program at most so often
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// CPU time between two samples of a thread, at most
    #[arg(long, value_name = "TIME", default_value = "500us", value_parser = values::positive_duration, hide = true)]
    period: Duration,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    keep: KeepOptions,
    /// The program to run, and its arguments
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, hide = true)]
    program: Vec<OsString>,
}

fn line(text: &str) -> std::result::Result<(String, u32), String> {
    let parsed = text.rsplit_once(':').and_then(|(file, line)| Some((file.to_owned(), line.parse().ok()?)));
    parsed.ok_or_else(|| format!("{text} is not FILE:LINE, such as main.rs:120"))
}

/// Runs the program with experiments and prints the answer.
pub(crate) fn run(args: &CausalArgs, volume: Volume) -> Result<Exit> {
    if args.program.is_empty() {
        return Err(Failure::new("no program to run").next("whyslow causal [OPTIONS] -- PROGRAM [ARGS]..."));
    }
    let target = targets::command(&args.program);
    if args.suggest {
        return suggest(args, &target, volume);
    }
    if let Some(refused) = experiments_refused() {
        return Err(Failure::new(refused));
    }
    let are_named = !(args.progress.is_empty() && args.latency.is_empty());
    let modules = match &target {
        Target::Command(command) if are_named => Modules::of(command),
        _ => None,
    };
    let points = match modules {
        Some(modules) => points::find(&modules, &args.progress, &args.latency)?,
        None => Vec::new(),
    };
    let code = points.iter().flat_map(|point| point.code.clone()).collect();
    let with_callees = match &target {
        Target::Command(command) => whole_functions(command, &args.with_callees)?,
        _ => Vec::new(),
    };
    let wish = wish(args, points, with_callees, volume);
    let director = Arc::new(Mutex::new(Experimenter::new(wish)));
    let causal = CausalOptions {
        period: args.period,
        director: Arc::clone(&director) as _,
        points: code,
        ends_program: true,
        shared: CausalShared::default(),
    };
    let mut name = name_of(&args.program[0]).to_owned();
    name.push(".causal");
    let keep = args.keep.resolved();
    let shared = causal.shared.clone();
    let _held = shared.hold_signals().map_err(recording::explain)?;
    let how = Options { frequency_hz: SAMPLES_HZ, causal: Some(causal), ..Options::default() };
    let (input, mut runs) = (Input::of_runs(args.runs), 0);
    // The last profile holds the experiments of all runs.
    let recorded = recording::run_several(&target, &name, how, &keep, volume, |recording| {
        runs += 1;
        let director = lock(&director);
        let failed = recording.exit != Some(ExitStatus::Code(0));
        let is_last = runs >= args.runs || keep.duration.is_some() || shared.is_interrupted();
        if failed && runs > 1 && !director.has_ended_program() && !shared.is_interrupted() {
            warn_of_failure(runs, recording.exit, volume);
        }
        if director.is_over() || failed || is_last || !director.conditions().has_begun {
            return false;
        }
        if input == Input::UsedUp && runs == 1 && volume > Volume::Quiet {
            warn(
                "the program is started again, and standard input is a pipe: the first run has read it; try: < FILE",
            );
        }
        input.rewind();
        true
    })?;
    let director = lock(&director);
    if let (Some(problem), false) = (director.problem(), shared.is_interrupted()) {
        return Err(problem.failure());
    }
    print_answer(args, &recorded, director.conditions(), volume)?;
    recorded.draw(&keep, volume)?;
    let exit = recorded.exit()?;
    Ok(match (shared.is_interrupted(), director.has_ended_program()) {
        (true, _) => Exit::Interrupted,
        (_, true) => Exit::Success,
        _ => exit,
    })
}

/// Says why the program is not started again.
fn warn_of_failure(run: u32, exit: Option<ExitStatus>, volume: Volume) {
    if let Some(how) = exit.and_then(failure_of).filter(|_| volume > Volume::Quiet) {
        warn(&format!("run {run} of the program {how}, so it is not started again"));
    }
}

/// How a program failed.
fn failure_of(exit: ExitStatus) -> Option<String> {
    match exit {
        ExitStatus::Code(0) => None,
        ExitStatus::Code(code) => Some(format!("ended with exit code {code}")),
        ExitStatus::Signal(signal) => Some(format!("was killed by signal {signal}")),
    }
}

/// Proposes progress points.
fn suggest(args: &CausalArgs, target: &Target, volume: Volume) -> Result<Exit> {
    let shared = CausalShared::default();
    let _held = shared.hold_signals().map_err(recording::explain)?;
    let path = target.command().and_then(Command::file).map(|path| path.canonicalize().unwrap_or(path));
    let Some(path) = path else {
        let program = args.program[0].to_string_lossy().into_owned();
        return Err(recording::explain(RecordError::NotFound { program }));
    };
    // Half of it for each of the two runs.
    let time = args.budget.unwrap_or(SUGGEST_BUDGET) / 2;
    let Proposal { mut found, exit } = propose(target, &path, time, &shared, volume)?;
    if shared.is_interrupted() {
        return Ok(Exit::Interrupted);
    }
    if let Some(how) = exit.and_then(failure_of).filter(|_| found.rows.is_empty()) {
        let failure = Failure::new(format!("no proposal: the program {how}"));
        return Err(failure
            .next("arguments with which it works")
            .exit_with(exit.map_or(Exit::Failed, Exit::from)));
    }
    found.program = args.program.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    found.command = found.rows.first().filter(|best| best.suits.is_suitable).map(|best| {
        let words = ["whyslow", "causal", "--progress", &best.function, "--"].map(str::to_owned);
        words.into_iter().chain(found.program.iter().cloned()).collect()
    });
    match args.format {
        Format::Json => {
            let answer = json::suggestions(&found);
            let answer = answer.map_err(|error| Failure::new(format!("the answer as JSON: {error}")))?;
            output::print(&answer)?;
        }
        Format::Text => {
            let page = Page::of_width(terminal::width(std::io::stderr()));
            note(&text::suggestions(&found, SUGGESTIONS, page));
        }
    }
    Ok(exit.map_or(Exit::Success, Exit::from))
}

/// Prints what the experiments say, or why there are none.
fn print_answer(
    args: &CausalArgs,
    recorded: &Recorded,
    conditions: &Conditions,
    volume: Volume,
) -> Result<()> {
    if !conditions.has_begun {
        let (threads, error) = conditions.unsampled;
        let why = match threads {
            0 => "the agent did not start in it".to_owned(),
            _ => format!("its threads cannot be sampled: {}", std::io::Error::from_raw_os_error(error)),
        };
        return Err(Failure::new(format!("no experiments with {}: {why}", args.program[0].display()))
            .next("whyslow doctor"));
    }
    let (threads, error) = conditions.unsampled;
    if volume > Volume::Quiet && threads > 0 {
        warn(&format!(
            "{} could not be sampled and ran at full speed, so effects may be wrong: {}; a limit of open files is raised by \
             ulimit -n",
            number_of(u64::from(threads), "thread", "threads"),
            std::io::Error::from_raw_os_error(error)
        ));
    }
    if let (threads @ 1.., error) = conditions.unwatched {
        warn(&format!(
            "progress points were not watched in {}: {}",
            number_of(u64::from(threads), "thread", "threads"),
            std::io::Error::from_raw_os_error(error)
        ));
    }
    if volume > Volume::Quiet && conditions.others > 0 {
        warn(&format!(
            "{} that the program started ran at full speed: only the program itself is experimented on, and what it executes \
             in its place. Start the program without a shell around it",
            number_of(conditions.others, "other program", "other programs")
        ));
    }
    if volume > Volume::Quiet && conditions.forks > 0 {
        warn(&format!(
            "{} that the program forked ran at full speed: only the program itself is experimented on",
            number_of(u64::from(conditions.forks), "process", "processes")
        ));
    }
    let answer = answers::causal(&recorded.profile, recorded.saved(), args.format)?;
    match args.format {
        Format::Json => output::print(&answer)?,
        Format::Text if volume > Volume::Quiet => note(&answer),
        Format::Text => {}
    }
    Ok(())
}

/// Samples per second beside the experiments, for the flame graph.
const SAMPLES_HZ: u32 = 97;
/// The time for experiments, and for proposals.
const BUDGET: Duration = Duration::from_secs(60);
const SUGGEST_BUDGET: Duration = Duration::from_secs(6);
/// Rows of proposals on a screen.
const SUGGESTIONS: usize = 10;

fn lock(director: &Mutex<Experimenter>) -> MutexGuard<'_, Experimenter> {
    director.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wish(
    args: &CausalArgs,
    points: Vec<NamedPoint>,
    with_callees: Vec<WholeFunction>,
    volume: Volume,
) -> Wish {
    let scope = match args.scope.as_str() {
        "own" => Scope::Own,
        "all" => Scope::All,
        name => Scope::Crate(name.to_owned()),
    };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    Wish {
        wanted: Wanted { lines: args.line.clone(), functions: args.function.clone(), with_callees, scope },
        budget: args.budget.unwrap_or(BUDGET),
        runs: args.runs,
        period: args.period,
        cpus,
        points,
        shows_progress: volume > Volume::Quiet,
    }
}

/// The code of the functions with these names, inlined or not.
fn whole_functions(command: &Command, names: &[String]) -> Result<Vec<WholeFunction>> {
    let Some(path) = command.file().filter(|_| !names.is_empty()) else { return Ok(Vec::new()) };
    let module = path.canonicalize().unwrap_or(path);
    let cannot_read = |error: &dyn std::fmt::Display| {
        Failure::new(format!("{}: no functions for --with-callees: {error}", module.display()))
    };
    let file = whyslow_elf::ElfFile::open(&module).map_err(|error| cannot_read(&error))?;
    let whole = |name: &String| match function_code(&file, &WantedFunction::new(name)) {
        Some(code) => Ok(WholeFunction { module: module.clone(), code }),
        None => Err(not_found("--with-callees", &module, name, "whyslow asm PROGRAM lists functions")),
    };
    names.iter().map(whole).collect()
}

fn not_found(option: &str, path: &Path, name: &str, next: &str) -> Failure {
    let next = if is_shell(path) { "start the program without a shell around it" } else { next };
    Failure::new(format!("{option} {name}: {} has no such function", path.display())).next(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_file_and_a_number() {
        assert_eq!(line("src/main.rs:12"), Ok(("src/main.rs".to_owned(), 12)));
        assert!(line("main.rs").is_err() && line("main.rs:x").is_err());
    }
}
