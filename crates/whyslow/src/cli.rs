//! The arguments of `whyslow` and `cargo whyslow`, and which command they mean.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands::{Command, cargo, record};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output;

/// Why is this program slow? Run it under whyslow: it records where the CPU time goes, then prints the answer
#[derive(Debug, Parser)]
#[command(
    name = "whyslow",
    version,
    override_usage = "whyslow [OPTIONS] PROGRAM [ARGS]...\n       whyslow [OPTIONS] -p PID|NAME\n       whyslow COMMAND ...",
    after_help = EXAMPLES,
    subcommand_help_heading = "Commands",
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    volume: VolumeArgs,
    #[command(flatten)]
    run: record::RunArgs,
}

const EXAMPLES: &str = "\
Examples:
  whyslow ./target/release/app input.txt    record, then print where the time went
  whyslow --flame app.svg --open ./app      the same, and show a flame graph
  whyslow -p server --duration 10s          what the running `server` does
  whyslow report app.whyslow callers parse  who calls the function `parse`
  whyslow -- report                         run a program that has the name of a command

The program's input and output stay its own; the answer goes to stderr, and NAME.whyslow
keeps it for the other commands.

Exit codes: the program's own; 128+N when signal N killed it; 125 whyslow failed;
126 the program cannot be started; 127 it was not found.";

/// How much to say.
#[derive(Debug, Args)]
struct VolumeArgs {
    /// Say nothing but errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Say what is done and what it costs
    #[arg(short, long, global = true, action = ArgAction::SetTrue)]
    verbose: bool,
}

/// How much to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Volume {
    /// Errors only.
    Quiet,
    /// The answer.
    Normal,
    /// The answer and how it came about.
    Verbose,
}

impl From<VolumeArgs> for Volume {
    fn from(args: VolumeArgs) -> Self {
        match args {
            VolumeArgs { quiet: true, .. } => Self::Quiet,
            VolumeArgs { verbose: true, .. } => Self::Verbose,
            VolumeArgs { .. } => Self::Normal,
        }
    }
}

/// A parsed command line.
pub(crate) enum Request {
    /// Help or the version was printed, or the arguments were wrong and that was said.
    Answered(Exit),
    /// `whyslow PROGRAM`
    Run(Box<record::RunArgs>, Volume),
    /// `whyslow COMMAND`
    Command(Box<Command>, Volume),
    /// `cargo whyslow heap`
    CargoHeap(Box<cargo::CargoHeapArgs>, Volume),
    /// `cargo whyslow bench`
    CargoBench(Box<cargo::CargoBenchArgs>, Volume),
    /// `cargo whyslow asm`
    CargoAsm(Box<cargo::CargoAsmArgs>, Volume),
    /// `cargo whyslow stat`
    CargoStat(Box<cargo::CargoStatArgs>, Volume),
    /// `cargo whyslow`
    Cargo(Box<cargo::CargoArgs>, Volume),
}

/// Does what was asked.
pub(crate) fn run(request: Request) -> Result<Exit> {
    match request {
        Request::Answered(exit) => Ok(exit),
        Request::Run(args, volume) => record::run_and_answer(&args, volume),
        Request::Command(command, volume) => command.run(volume),
        Request::CargoHeap(args, volume) => cargo::run_heap(*args, volume),
        Request::CargoBench(args, volume) => cargo::run_bench(&args, volume),
        Request::CargoAsm(args, volume) => cargo::run_asm(&args, volume),
        Request::CargoStat(args, volume) => cargo::run_stat(*args, volume),
        Request::Cargo(args, volume) => cargo::run(*args, volume),
    }
}

/// Parses the arguments of `whyslow`.
pub(crate) fn parse(args: Vec<OsString>) -> Result<Request> {
    if args.len() < 2 {
        // Nothing was asked for: the short help is the most useful error.
        output::note(&Cli::command().render_help().ansi().to_string());
        return Ok(Request::Answered(Exit::Failed));
    }
    let matches = match Cli::command().try_get_matches_from(args) {
        Ok(matches) => matches,
        Err(error) => return Ok(answered(&error)),
    };
    let misplaced = recording_option_of(&matches);
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => return Ok(answered(&error)),
    };
    let volume = Volume::from(cli.volume);
    if let (Some(name), Some(option)) = (matches.subcommand_name(), misplaced) {
        return Err(Failure::new(format!("--{option} is for recording, and `{name}` is a command"))
            .next(format!("options after `{name}`, or `-- {name}` to record a program of that name")));
    }
    Ok(match cli.command {
        Some(command) => Request::Command(Box::new(command), volume),
        None => Request::Run(Box::new(cli.run), volume),
    })
}

/// The first recording option that was given before a command's name.
fn recording_option_of(matches: &clap::ArgMatches) -> Option<String> {
    let given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let options = record::RunArgs::augment_args(clap::Command::new("options"));
    options
        .get_arguments()
        .find(|arg| given(arg.get_id().as_str()))
        .and_then(|arg| arg.get_long())
        .map(str::to_owned)
}

/// Names of the commands, for "did you mean".
pub(crate) fn command_names() -> Vec<String> {
    Cli::command().get_subcommands().map(|command| command.get_name().to_owned()).collect()
}

/// Parses the arguments of `cargo whyslow`, which come with or without cargo's own word `whyslow` in front.
pub(crate) fn parse_cargo(mut args: Vec<OsString>) -> Result<Request> {
    if args.get(1).is_some_and(|word| word == "whyslow") {
        args.remove(1);
    }
    // What only reads profiles needs no build.
    let reads = |word: &OsString| {
        let builds = CargoCli::command().find_subcommand(word).is_some() || word == "record";
        !builds && Cli::command().find_subcommand(word).is_some()
    };
    if args.get(1).is_some_and(reads) {
        return parse(args);
    }
    Ok(match CargoCli::try_parse_from(args) {
        Ok(CargoCli { command: Some(CargoCommand::Heap(args)), volume, .. }) => {
            Request::CargoHeap(args, volume.into())
        }
        Ok(CargoCli { command: Some(CargoCommand::Bench(args)), volume, .. }) => {
            Request::CargoBench(args, volume.into())
        }
        Ok(CargoCli { command: Some(CargoCommand::Asm(args)), volume, .. }) => {
            Request::CargoAsm(args, volume.into())
        }
        Ok(CargoCli { command: Some(CargoCommand::Stat(args)), volume, .. }) => {
            Request::CargoStat(args, volume.into())
        }
        Ok(cli) => Request::Cargo(Box::new(cli.args), cli.volume.into()),
        Err(error) => answered(&error),
    })
}

/// Build a target of this package optimised and with line tables, run it, and print where the time went
#[derive(Debug, Parser)]
#[command(
    name = "cargo whyslow",
    bin_name = "cargo whyslow",
    version,
    override_usage = "cargo whyslow [OPTIONS] [-- ARGS...]\n       cargo whyslow heap [OPTIONS] [-- ARGS...]\n       cargo whyslow stat [OPTIONS] [-- ARGS...]\n       cargo whyslow bench [OPTIONS] [FILTER]\n       cargo whyslow asm [OPTIONS] FUNCTION",
    after_help = CARGO_EXAMPLES,
    subcommand_help_heading = "Commands",
    disable_help_subcommand = true,
    args_conflicts_with_subcommands = true
)]
struct CargoCli {
    #[command(subcommand)]
    command: Option<CargoCommand>,
    #[command(flatten)]
    volume: VolumeArgs,
    #[command(flatten)]
    args: cargo::CargoArgs,
}

/// Commands that build first; the others are the same as `whyslow`'s.
#[derive(Debug, Subcommand)]
enum CargoCommand {
    Heap(Box<cargo::CargoHeapArgs>),
    Stat(Box<cargo::CargoStatArgs>),
    Bench(Box<cargo::CargoBenchArgs>),
    Asm(Box<cargo::CargoAsmArgs>),
}

const CARGO_EXAMPLES: &str = "\
Examples:
  cargo whyslow -- input.txt                   the package's only (or default-run) binary
  cargo whyslow --bench parse --flame x.svg    a benchmark, with a flame graph
  cargo whyslow --test slow -- --nocapture     an integration test
  cargo whyslow heap --bin app -- input.txt    where its memory goes, as `whyslow heap`
  cargo whyslow stat -r 10 -- input.txt        what it uses, as `whyslow stat`
  cargo whyslow bench --git main               its benchmarks beside those of the commit `main`
  cargo whyslow asm parse                      the machine code of the function `parse`

Cargo.toml is not edited and your release build is not touched: the build uses a profile
of its own, `whyslow`, which inherits from `release`.

Exit codes: the program's own; 128+N when signal N killed it; cargo's own (101) when the
build fails; 125 whyslow failed.";

/// Prints help, version or a mistake in the arguments. Mistakes end with 125: 2 could be the program's own code.
fn answered(error: &clap::Error) -> Request {
    // A closed stdout or stderr leaves nobody to tell.
    let _ = error.print();
    Request::Answered(if error.use_stderr() { Exit::Failed } else { Exit::Success })
}

/// The file of a query command.
#[derive(Debug, Args)]
pub(crate) struct ProfileArg {
    /// The recorded profile
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// How to print an answer.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    #[default]
    Text,
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// clap takes `{n}` in a help text for a line end: an example with it would be torn apart.
    #[test]
    fn no_help_text_has_what_clap_takes_for_a_line_end() {
        for program in [Cli::command(), CargoCli::command()] {
            for command in program.get_subcommands().chain([&program]) {
                let own = [command.get_about(), command.get_long_about(), command.get_after_help()];
                let arguments = command
                    .get_arguments()
                    .flat_map(|argument| [argument.get_help(), argument.get_long_help()]);
                for text in own.into_iter().chain(arguments).flatten() {
                    assert!(!text.to_string().contains("{n}"), "{}: {text}", command.get_name());
                }
            }
        }
    }

    fn request(words: &[&str]) -> Result<Request> {
        parse(std::iter::once("whyslow").chain(words.iter().copied()).map(OsString::from).collect())
    }

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
        CargoCli::command().debug_assert();
    }

    #[test]
    fn a_first_word_that_is_a_command_is_a_command() {
        let is_report = |request: Result<Request>, volume| matches!(request, Ok(Request::Command(command, v)) if v == volume && matches!(*command, Command::Report(_)));
        assert!(is_report(request(&["report", "x.whyslow"]), Volume::Normal));
        assert!(is_report(request(&["-q", "report", "x.whyslow"]), Volume::Quiet));
    }

    #[test]
    fn everything_after_the_program_is_its_own() {
        let Ok(Request::Run(args, volume)) =
            request(&["-F", "99", "./app", "report", "-F", "7", "-q", "--", "--help"])
        else {
            panic!("not a run");
        };
        assert_eq!(args.program, ["./app", "report", "-F", "7", "-q", "--", "--help"]);
        assert_eq!((args.options.record.frequency, volume), (99, Volume::Normal));
    }

    #[test]
    fn after_two_dashes_a_command_name_is_a_program() {
        let Ok(Request::Run(args, _)) = request(&["--", "report", "x"]) else { panic!("not a run") };
        assert_eq!(args.program, ["report", "x"]);
    }

    #[test]
    fn recording_options_before_a_command_are_explained() {
        let Err(failure) = request(&["-F", "99", "report", "x"]) else { panic!("accepted") };
        assert!(failure.to_string().contains("`-- report`"), "{failure}");
    }
}
