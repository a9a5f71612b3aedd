//! The arguments of `whyslow` and `cargo whyslow`: parsing, and the help of both.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands::{Command, GROUPS, cargo, record};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output;

/// Find out why a program is slow or big: record it, then print the answer
#[derive(Debug, Parser)]
#[command(
    name = "whyslow",
    version,
    override_usage = "whyslow [OPTIONS] PROGRAM [ARGS]...\n       whyslow [OPTIONS] -p PID|NAME\n       whyslow COMMAND ...",
    after_help = EXAMPLES,
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
  whyslow ./target/release/app input.txt    record, then print the answer
  whyslow --flame app.svg --open ./app      the same, with a flame graph
  whyslow -p server --duration 10s          record the running `server`
  whyslow report app.whyslow callers parse  show the callers of `parse`
  whyslow -- report                         record a program named `report`

`whyslow record --help` lists all recording options; they work here too.
`whyslow COMMAND --help` shows the help of a command.

whyslow leaves the program's input and output alone. It prints the answer to
stderr and keeps every profile: NAME.1.whyslow, NAME.2.whyslow, and so on;
NAME.whyslow is the latest.

Exit codes: the program's own; 128+N if signal N killed it; 125 if whyslow
fails; 126 if the program cannot be started; 127 if it is not found.";

/// Recording options that the help of `whyslow` shows. The others are in the help of `whyslow record`.
const COMMON_OPTIONS: [&str; 5] = ["pid", "output", "duration", "by", "format"];

/// The arguments of `whyslow`, with its commands listed in groups.
pub(crate) fn whyslow_command() -> clap::Command {
    let command = Cli::command();
    let rare: Vec<clap::Id> = record::RunArgs::augment_args(clap::Command::new("options"))
        .get_arguments()
        .map(|argument| argument.get_id().clone())
        .filter(|id| !COMMON_OPTIONS.contains(&id.as_str()))
        .collect();
    let template = format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}{{options}}{{after-help}}",
        command_groups(&command)
    );
    let command = rare.into_iter().fold(command, |command, id| command.mut_arg(id, |arg| arg.hide(true)));
    let command =
        COMMON_OPTIONS.iter().fold(command, |command, id| command.mut_arg(id, |arg| arg.help_heading(None)));
    command.help_template(template)
}

/// The list of commands as the help shows it: a heading per group, a line per command.
fn command_groups(command: &clap::Command) -> String {
    let styles = command.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let width = GROUPS.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (group, names) in GROUPS {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{header}{group}:{header:#}");
        for name in *names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {literal}{name:width$}{literal:#}  {about}");
        }
        text.push('\n');
    }
    let _ = writeln!(text, "{header}Options:{header:#}");
    text
}

/// How much to print.
#[derive(Debug, Args)]
struct VolumeArgs {
    /// Print errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Print each step and its cost
    #[arg(short, long, global = true, action = ArgAction::SetTrue)]
    verbose: bool,
}

/// How much to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Volume {
    /// Errors only.
    Quiet,
    /// The answer.
    Normal,
    /// The answer, and each step with its cost.
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
    /// The help, the version or an error about the arguments is already printed.
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
    /// `cargo whyslow size`
    CargoSize(Box<cargo::CargoSizeArgs>, Volume),
    /// `cargo whyslow`
    Cargo(Box<cargo::CargoArgs>, Volume),
}

/// Runs a parsed command line.
pub(crate) fn run(request: Request) -> Result<Exit> {
    match request {
        Request::Answered(exit) => Ok(exit),
        Request::Run(args, volume) => record::run_and_answer(&args, volume),
        Request::Command(command, volume) => command.run(volume),
        Request::CargoHeap(args, volume) => cargo::run_heap(*args, volume),
        Request::CargoBench(args, volume) => cargo::run_bench(&args, volume),
        Request::CargoAsm(args, volume) => cargo::run_asm(&args, volume),
        Request::CargoStat(args, volume) => cargo::run_stat(*args, volume),
        Request::CargoSize(args, volume) => cargo::run_size(&args, volume),
        Request::Cargo(args, volume) => cargo::run(*args, volume),
    }
}

/// Parses the arguments of `whyslow`.
pub(crate) fn parse(args: Vec<OsString>) -> Result<Request> {
    if args.len() < 2 {
        // Without arguments, the short help is the most useful error.
        output::note(&whyslow_command().render_help().ansi().to_string());
        return Ok(Request::Answered(Exit::Failed));
    }
    let matches = match whyslow_command().try_get_matches_from(&args) {
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
        return Err(Failure::new(format!("--{option} is a recording option, and `{name}` is a command"))
            .next(format!(
                "put options after `{name}`, or use `-- {name}` to record a program of that name"
            )));
    }
    if cli.command.is_none() {
        refuse_foreign_word(&cli.run.program, &args)?;
    }
    Ok(match cli.command {
        Some(command) => Request::Command(Box::new(command), volume),
        None => Request::Run(Box::new(cli.run), volume),
    })
}

/// Commands of other profilers, with what they are here. They are not run as programs, unless after `--`:
/// whoever types `whyslow top` does not mean to record `top`.
const FOREIGN_WORDS: [(&str, &str); 8] = [
    ("leaks", "whyslow heap -- PROGRAM, then whyslow report FILE leaks"),
    ("massif", "whyslow heap -- PROGRAM"),
    ("flamegraph", "whyslow flame FILE, or whyslow --flame x.svg PROGRAM"),
    ("annotate", "whyslow asm FILE FUNCTION, or whyslow report FILE lines FUNCTION"),
    ("disasm", "whyslow asm FILE FUNCTION"),
    ("top", "whyslow -p PID --duration 10s, or whyslow report FILE"),
    ("attach", "whyslow -p PID"),
    ("profile", "whyslow PROGRAM, or whyslow record -- PROGRAM"),
];

fn refuse_foreign_word(program: &[OsString], args: &[OsString]) -> Result {
    let Some(word) = program.first() else { return Ok(()) };
    let is_after_dashes = args[..args.len() - program.len()].last().is_some_and(|before| before == "--");
    match FOREIGN_WORDS.iter().find(|(foreign, _)| word == foreign) {
        Some((foreign, here)) if !is_after_dashes => {
            Err(Failure::new(format!("there is no command `{foreign}`"))
                .next(format!("{here}; `whyslow -- {foreign}` records a program of that name")))
        }
        _ => Ok(()),
    }
}

/// The first recording option before a command's name.
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

/// Parses the arguments of `cargo whyslow`. Cargo puts the word `whyslow` in front of them.
pub(crate) fn parse_cargo(mut args: Vec<OsString>) -> Result<Request> {
    if args.get(1).is_some_and(|word| word == "whyslow") {
        args.remove(1);
    }
    // Commands that only read profiles need no build.
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
        Ok(CargoCli { command: Some(CargoCommand::Size(args)), volume, .. }) => {
            Request::CargoSize(args, volume.into())
        }
        Ok(cli) => Request::Cargo(Box::new(cli.args), cli.volume.into()),
        Err(error) => answered(&error),
    })
}

/// Build a target of this package for profiling, run it, and print the answer
#[derive(Debug, Parser)]
#[command(
    name = "cargo whyslow",
    bin_name = "cargo whyslow",
    version,
    override_usage = "cargo whyslow [OPTIONS] [-- ARGS...]\n       cargo whyslow heap [OPTIONS] [-- ARGS...]\n       cargo whyslow stat [OPTIONS] [-- ARGS...]\n       cargo whyslow bench [OPTIONS] [FILTER]\n       cargo whyslow asm [OPTIONS] FUNCTION\n       cargo whyslow size [OPTIONS]",
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
    Size(Box<cargo::CargoSizeArgs>),
}

const CARGO_EXAMPLES: &str = "\
Examples:
  cargo whyslow -- input.txt                 the only (or default-run) binary
  cargo whyslow --bench parse --flame x.svg  a benchmark, with a flame graph
  cargo whyslow --test slow -- --nocapture   an integration test
  cargo whyslow heap --bin app -- input.txt  build, then `whyslow heap`
  cargo whyslow stat -r 10 -- input.txt      build, then `whyslow stat`
  cargo whyslow bench --git main             compare benchmarks with `main`
  cargo whyslow asm parse                    machine code of `parse`
  cargo whyslow size --bin app               what takes the space in `app`

The build is optimised and has line tables. It uses its own cargo profile,
`whyslow`, which inherits from `release`: Cargo.toml and your release build
stay untouched.

Exit codes: the program's own; 128+N if signal N killed it; cargo's own (101)
if the build fails; 125 if whyslow fails.";

/// Prints the help, the version or an error about the arguments. Errors exit with 125, because 2 could be the
/// program's own exit code.
fn answered(error: &clap::Error) -> Request {
    // If stdout or stderr is closed, there is no place left to print to.
    let _ = error.print();
    Request::Answered(if error.use_stderr() { Exit::Failed } else { Exit::Success })
}

/// The file that a command reads.
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

    /// clap replaces `{n}` in a help text with a line break, which would break an example in two.
    #[test]
    fn no_help_text_contains_claps_line_break() {
        for program in [whyslow_command(), CargoCli::command()] {
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
    fn clap_accepts_the_definitions() {
        whyslow_command().debug_assert();
        CargoCli::command().debug_assert();
    }

    #[test]
    fn every_command_is_in_one_group_of_the_help() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        grouped.sort_unstable();
        let mut names = command_names();
        names.sort_unstable();
        assert_eq!(grouped, names);
    }

    #[test]
    fn summaries_fit_one_line_and_options_two() {
        for program in [whyslow_command(), CargoCli::command()] {
            for command in program.get_subcommands() {
                let about = command.get_about().map(ToString::to_string).unwrap_or_default();
                assert!(about.len() <= 69, "{}: {} columns: {about}", command.get_name(), about.len());
                assert!(!about.is_empty() && !about.ends_with('.'), "{}: {about}", command.get_name());
                for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                    assert!(
                        help.len() <= 110,
                        "{} {argument}: {} columns: {help}",
                        command.get_name(),
                        help.len()
                    );
                }
            }
        }
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
    fn commands_of_other_profilers_are_never_run_as_programs() {
        for (word, here) in [
            ("leaks", "report FILE leaks"),
            ("flamegraph", "whyslow flame"),
            ("annotate", "whyslow asm"),
            ("top", "-p PID"),
        ] {
            let Err(failure) = request(&[word, "x"]) else { panic!("{word} is run") };
            assert!(failure.to_string().contains(here), "{failure}");
            assert!(matches!(request(&["--", word]), Ok(Request::Run(..))), "{word} after two dashes");
            assert!(matches!(request(&[&format!("./{word}")]), Ok(Request::Run(..))), "{word} with a path");
        }
    }

    #[test]
    fn options_of_other_profilers_are_understood() {
        for words in [
            &["-g", "./app"][..],
            &["record", "-g", "--", "./app"],
            &["record", "--call-graph", "dwarf", "./app"],
            &["heap", "--leak-check=full", "./app"],
            &["heap", "-p", "7"],
            &["record", "-p", "7", "--", "sleep", "10"],
            &["report", "x.whyslow", "--sort", "self"],
        ] {
            assert!(!matches!(request(words), Err(_) | Ok(Request::Answered(_))), "{words:?}");
        }
    }

    #[test]
    fn recording_options_before_a_command_are_explained() {
        let Err(failure) = request(&["-F", "99", "report", "x"]) else { panic!("accepted") };
        assert!(failure.to_string().contains("`-- report`"), "{failure}");
    }
}
