//! `whyslow bench`: runs commands in turn, in random order, and compares their times.

mod contenders;
mod saved;

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use whyslow_bench::document::{Measured, MeasuredCommand, SCHEMA};
use whyslow_bench::judge::{self, compare_days, judge};
use whyslow_bench::{BenchNote, Ended, Ignored, Metric, Plan, Rounds, Series};
use whyslow_capture::Written;
use whyslow_render::bench::{BenchView, Shown, TimeUnit, asciidoc, csv, markdown, orgmode, strip_plot};
use whyslow_render::{json, text};
use whyslow_stats::interim::{CHECKPOINTS, Question};
use whyslow_stats::witness::Witness;
use whyslow_words::{Fact, Remark};

use self::contenders::Contenders;
use crate::cli::{Format, Volume};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::{self, Output};
use crate::series::{Exact, How, NULL, Runnable, Runner, Trees, counted, input, seed};
use crate::{terminal, values};

/// Compare commands: run them in random order and say which is faster
#[derive(Debug, Args)]
#[command(
    override_usage = "whyslow bench [OPTIONS] 'COMMAND'...\n       whyslow bench --git REV [OPTIONS] 'COMMAND'\n       whyslow bench --baseline NAME [OPTIONS] 'COMMAND'",
    after_help = "\
Examples:
  whyslow bench './old input.txt' './new input.txt'    is the new one faster?
  whyslow bench --until-decided './old' './new'        at most 200 rounds
  whyslow bench --git main 'target/release/app x.txt'  against `main`
  whyslow bench --save before './app'                  and after a change:
  whyslow bench --baseline before './app'
  whyslow bench --aa './app'                           measure noise
  whyslow bench -L jobs 1,2,4 'sort --parallel={jobs} big'

Each round runs every command once, in a new random order, so that a disturbance
hits all commands alike. A verdict needs 6 rounds; the default is 12 or more.
whyslow splits a command into words like a shell; `|`, `>` and `$` need --shell.

Exit codes: 0 if measured, whatever the verdict (`whyslow gate` judges); 125 if
a command or whyslow fails; 126 if a command cannot be started; 127 if it is
not found; 130 after Ctrl-C, with the results so far."
)]
pub(crate) struct BenchArgs {
    /// The commands, each in quotes
    #[arg(value_name = "COMMAND", hide = true)]
    commands: Vec<String>,
    /// Run exactly this many rounds
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with_all = ["min_runs", "until_decided"], help_heading = "Rounds")]
    runs: Option<u32>,
    /// Run at least this many rounds [default: 12]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Rounds")]
    min_runs: Option<u32>,
    /// Run at most this many rounds [default: 1000; with --until-decided 200]
    #[arg(short = 'M', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "runs", help_heading = "Rounds")]
    max_runs: Option<u32>,
    /// Start no round after this time
    #[arg(long, value_name = "TIME", value_parser = values::positive_duration, help_heading = "Rounds")]
    max_time: Option<Duration>,
    /// Run until conclusive (corrected for repeated checks)
    #[arg(long, help_heading = "Rounds")]
    until_decided: bool,
    /// Warm-up rounds that do not count
    #[arg(short, long, value_name = "N", default_value_t = 1, help_heading = "Rounds")]
    warmup: u32,
    /// Differences below this share do not matter, such as 0.5%
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = values::share, help_heading = "Statistics")]
    margin: f64,
    /// The time that decides [default: chosen by what the runs do]
    #[arg(long, value_enum, value_name = "TIME", help_heading = "Statistics")]
    witness: Option<WitnessArg>,
    /// Run one command against itself, to measure noise
    #[arg(long, conflicts_with_all = ["git", "baseline", "reference"], help_heading = "Statistics")]
    aa: bool,
    /// Compare the working tree with this commit, or two (A..B); builds both
    #[arg(long, value_name = "REV", conflicts_with = "baseline", help_heading = "Compare with")]
    git: Vec<String>,
    /// The build command, with --git
    #[arg(
        long,
        value_name = "COMMAND",
        default_value = "cargo build --release",
        requires = "git",
        help_heading = "Compare with"
    )]
    build: String,
    /// Save the results and the program under this name or .json file
    #[arg(long, value_name = "NAME", help_heading = "Compare with")]
    save: Option<String>,
    /// Compare with saved results, or JSON of whyslow or hyperfine
    #[arg(long, value_name = "NAME", help_heading = "Compare with")]
    baseline: Option<String>,
    /// Count allocations and peak memory, in one more run each
    #[arg(long, help_heading = "Also count")]
    heap: bool,
    /// Count instructions, with CPU counters or else valgrind
    #[arg(long, help_heading = "Also count")]
    instructions: bool,
    /// Output format; JSON has every run
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// The unit of all times
    #[arg(short = 'u', long, value_enum, value_name = "UNIT")]
    time_unit: Option<UnitArg>,
    /// The order of the commands in tables
    #[arg(long, value_enum, value_name = "ORDER", default_value = "command")]
    sort: SortArg,
    /// Colours as hyperfine names them; `none` prints nothing
    #[arg(long, value_enum, value_name = "STYLE", default_value = "auto", hide = true)]
    style: StyleArg,
    #[command(flatten)]
    how: HowArgs,
    #[command(flatten)]
    exports: ExportArgs,
}

/// How to run commands.
#[derive(Debug, Args)]
#[command(next_help_heading = "Running commands")]
pub(crate) struct HowArgs {
    /// Name the commands, in their order
    #[arg(short = 'n', long = "name", visible_alias = "command-name", value_name = "NAME")]
    names: Vec<String>,
    /// Compare with this command instead of the first
    #[arg(long, value_name = "COMMAND")]
    reference: Option<String>,
    /// Run commands in a shell; its own start is subtracted
    #[arg(short = 'S', long, value_name = "SHELL", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    shell: Option<String>,
    /// The default: no shell
    #[arg(short = 'N', hide = true, conflicts_with = "shell")]
    no_shell: bool,
    /// Replace {VAR} in commands with the numbers from MIN to MAX
    #[arg(short = 'P', long, num_args = 3, value_names = ["VAR", "MIN", "MAX"], allow_negative_numbers = true)]
    parameter_scan: Vec<String>,
    /// The step between these numbers
    #[arg(
        short = 'D',
        long,
        value_name = "STEP",
        default_value = "1",
        requires = "parameter_scan",
        allow_negative_numbers = true
    )]
    parameter_step_size: String,
    /// Replace {VAR} in commands with these values
    #[arg(short = 'L', long, num_args = 2, value_names = ["VAR", "VALUES"])]
    parameter_list: Vec<String>,
    /// Shell command before each run, not timed; one for all, or one per command
    #[arg(short, long, value_name = "COMMAND")]
    prepare: Vec<String>,
    /// Shell command after each run
    #[arg(short = 'C', long, value_name = "COMMAND")]
    conclude: Vec<String>,
    /// Shell command once before all runs of a command
    #[arg(short, long, value_name = "COMMAND")]
    setup: Option<String>,
    /// Shell command once after all runs of a command
    #[arg(short, long, value_name = "COMMAND")]
    cleanup: Option<String>,
    /// stdin of the commands: null or a file
    #[arg(long, value_name = "WHERE", default_value = "null")]
    input: String,
    /// stdout of the commands: null, pipe, inherit or a file
    #[arg(long, value_name = "WHERE", default_value = "null")]
    output: String,
    /// Show what the commands print: --output inherit
    #[arg(long, conflicts_with = "output")]
    show_output: bool,
    /// Kill a run that takes longer than this, and fail
    #[arg(long, value_name = "TIME", value_parser = values::positive_duration)]
    timeout: Option<Duration>,
    /// Also count failing runs if all end alike; or only these exit codes
    #[arg(short, long, value_name = "CODES", num_args = 0..=1, require_equals = true, default_missing_value = "all-non-zero", value_parser = ignored)]
    ignore_failure: Option<Ignored>,
}

/// Which failures count: `all-non-zero`, or exit codes such as `1,2`.
fn ignored(text: &str) -> std::result::Result<Ignored, String> {
    if text == "all-non-zero" {
        return Ok(Ignored::All);
    }
    let codes = text.split(',').map(|code| code.trim().parse::<u8>().map(i32::from));
    codes
        .collect::<std::result::Result<Vec<_>, _>>()
        .map(Ignored::Codes)
        .map_err(|_| format!("`{text}` are not exit codes such as 1,2"))
}

impl HowArgs {
    /// What they mean.
    fn resolved(&self) -> How {
        How {
            prepare: self.prepare.clone(),
            conclude: self.conclude.clone(),
            setup: self.setup.clone(),
            cleanup: self.cleanup.clone(),
            input: input(&self.input),
            output: match self.output.as_str() {
                _ if self.show_output => Written::Inherit,
                NULL => Written::Null,
                "pipe" => Written::Pipe,
                "inherit" => Written::Inherit,
                path => Written::File(path.into()),
            },
            timeout: self.timeout,
            failures_count: self.ignore_failure.is_some(),
        }
    }
}

/// More files for the results.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Files")]
pub(crate) struct ExportArgs {
    /// Write everything, with every run, as JSON
    #[arg(long, value_name = "FILE")]
    export_json: Option<PathBuf>,
    /// Write a row per command
    #[arg(long, value_name = "FILE")]
    export_csv: Option<PathBuf>,
    /// Write a table for a pull request
    #[arg(long, value_name = "FILE")]
    export_markdown: Option<PathBuf>,
    /// Write a table for AsciiDoc
    #[arg(long, value_name = "FILE")]
    export_asciidoc: Option<PathBuf>,
    /// Write a table for Emacs org-mode
    #[arg(long, value_name = "FILE")]
    export_orgmode: Option<PathBuf>,
    /// Draw the pairs as dots with the interval, as SVG
    #[arg(long, value_name = "FILE")]
    export_svg: Option<PathBuf>,
}

/// The unit of all times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UnitArg {
    #[value(aliases = ["us", "µs"])]
    Microsecond,
    #[value(alias = "ms")]
    Millisecond,
    #[value(alias = "s")]
    Second,
}

impl From<UnitArg> for TimeUnit {
    fn from(unit: UnitArg) -> Self {
        match unit {
            UnitArg::Microsecond => Self::Microsecond,
            UnitArg::Millisecond => Self::Millisecond,
            UnitArg::Second => Self::Second,
        }
    }
}

/// The order of the commands in tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortArg {
    /// As they were given
    #[value(alias = "auto")]
    Command,
    /// The fastest first
    MeanTime,
}

/// hyperfine's styles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StyleArg {
    Auto,
    Basic,
    Full,
    Nocolor,
    Color,
    None,
}

impl StyleArg {
    /// Sets the colours. Returns the volume.
    fn apply(self, volume: Volume) -> Volume {
        match self {
            Self::Basic | Self::Nocolor => anstream::ColorChoice::Never.write_global(),
            Self::Color => anstream::ColorChoice::Always.write_global(),
            Self::Auto | Self::Full => {}
            Self::None => return Volume::Quiet,
        }
        volume
    }
}

/// The time that decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WitnessArg {
    Wall,
    Cpu,
}

impl From<WitnessArg> for Witness {
    fn from(witness: WitnessArg) -> Self {
        match witness {
            WitnessArg::Wall => Self::Wall,
            WitnessArg::Cpu => Self::Cpu,
        }
    }
}

/// Rounds beyond the minimum continue until this much time per command.
const DEFAULT_TIME: Duration = Duration::from_secs(3);
const DEFAULT_ROUNDS: u32 = 12;
const MAX_ROUNDS: u32 = 1000;

/// Runs, compares, prints.
pub(crate) fn run(args: &BenchArgs, volume: Volume) -> Result<Exit> {
    let volume = args.style.apply(volume);
    let exports = Exports::of(&args.exports)?;
    let save = args.save.as_deref().map(saved::Place::of).transpose()?;
    let baseline = args
        .baseline
        .as_deref()
        .map(|name| saved::read(name, &args.commands, &args.how.names))
        .transpose()?;
    let contenders = Contenders::of(args, baseline.as_ref(), volume)?;
    let measured = measure(args, contenders, volume)?;
    let Some(outcome) = measured else {
        // Interrupted during the first round.
        return Err(Failure::new("stopped before the first round was complete: no results"));
    };
    print_answer(args, outcome, baseline.as_ref(), &exports, save, volume)
}

/// All runs of all commands.
struct Outcome {
    measured: Measured,
    series: Series,
    runnables: Vec<Runnable>,
    reference: usize,
    notes: Vec<BenchNote>,
    /// Keeps the folders of `--git` until the end.
    _trees: Option<Trees>,
}

fn measure(args: &BenchArgs, contenders: Contenders, volume: Volume) -> Result<Option<Outcome>> {
    let Contenders { runnables, reference, trees, shell } = contenders;
    let plan = plan(args, runnables.len(), reference);
    let began_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let how = args.how.resolved();
    let mut runner = Runner::new(&runnables, &how, &plan, volume)?;
    runner.set_up()?;
    let mut notes = Vec::new();
    if let Some(shell) = &shell {
        notes.extend(runner.calibrate(shell)?);
    }
    let series = Series::run(&plan, &mut runner);
    let surroundings = runner.surroundings();
    runner.clean_up()?;
    let series = series?;
    if series.rounds.is_empty() {
        return Ok(None);
    }
    let wanted = Exact { heap: args.heap, instructions: args.instructions };
    let exact = counted(wanted, &runnables, &series, &mut notes, volume)?;
    let host = runner.host();
    drop(runner);
    let commands = runnables.iter().zip(exact).enumerate().map(|(command, (runnable, exact))| {
        let of =
            |rounds: &[Vec<whyslow_bench::Run>]| rounds.iter().map(|round| round[command].clone()).collect();
        MeasuredCommand {
            contender: runnable.contender.clone(),
            words: runnable.words.clone(),
            runs: of(&series.rounds),
            warmup: of(&series.warmup),
            exact,
            kept_program: None,
        }
    });
    let measured = Measured {
        schema: SCHEMA.to_owned(),
        began_unix_s,
        host,
        surroundings,
        commands: commands.collect(),
    };
    Ok(Some(Outcome { measured, series, runnables, reference, notes, _trees: trees }))
}

fn plan(args: &BenchArgs, commands: usize, reference: usize) -> Plan {
    let min = args.min_runs.unwrap_or(DEFAULT_ROUNDS) as usize;
    let rounds = match (args.runs, args.until_decided && commands > 1) {
        (Some(runs), _) => Rounds::Fixed(runs as usize),
        (None, true) => Rounds::UntilDecided {
            max: args.max_runs.map_or(CHECKPOINTS[CHECKPOINTS.len() - 1], |max| max as usize),
        },
        (None, false) => Rounds::ForTime {
            min: min.min(args.max_runs.map_or(usize::MAX, |max| max as usize)),
            max: args.max_runs.unwrap_or(MAX_ROUNDS.max(min as u32)) as usize,
            time: DEFAULT_TIME * commands as u32,
        },
    };
    Plan {
        commands,
        reference,
        warmup: args.warmup as usize,
        rounds,
        max_time: args.max_time,
        ignored: args.how.ignore_failure.clone().unwrap_or_default(),
        margin: args.margin,
        question: Question::Differs,
        witness: args.witness.map(Witness::from),
        seed: seed(),
    }
}

/// Judges the runs, prints the answer and writes the files.
fn print_answer(
    args: &BenchArgs,
    outcome: Outcome,
    baseline: Option<&saved::Baseline>,
    exports: &Exports,
    save: Option<saved::Place>,
    volume: Volume,
) -> Result<Exit> {
    let Outcome { mut measured, series, runnables, mut reference, notes, .. } = outcome;
    let contenders = measured.commands.iter().map(|command| command.contender.clone()).collect::<Vec<_>>();
    let exact = measured.commands.iter().map(|command| command.exact.clone()).collect::<Vec<_>>();
    let options = judge::Options {
        contenders: &contenders,
        reference,
        margin: args.margin,
        exact: &exact,
        itself: args.aa,
    };
    let mut answer = judge(&series, options);
    answer.notes.extend(notes);
    if let Some(baseline) = baseline {
        answer.notes.extend(baseline.notes.iter().cloned());
        if let Some(old) = baseline.saved_runs() {
            // Saved runs are compared with the new ones, but not in pairs.
            let metric = answer.witness.map_or(Metric::Wall, |(witness, _)| witness.into());
            let of = |runs: &[whyslow_bench::Run]| {
                runs.iter().filter_map(|run| metric.of(run)).collect::<Vec<_>>()
            };
            let (before, after) = (of(&old.runs), of(&measured.commands[0].runs));
            answer.summaries.push(
                Metric::USUAL
                    .iter()
                    .filter_map(|metric| {
                        let values = old.runs.iter().filter_map(|run| metric.of(run)).collect::<Vec<_>>();
                        judge::summary(metric.clone(), &values)
                    })
                    .collect(),
            );
            let quiet = !baseline.is_from_another_machine(&measured.host)
                && baseline.surroundings().is_quiet_like(&measured.surroundings);
            answer.comparisons.push(compare_days(&before, &after, &metric, [1, 0], quiet));
            measured.commands.push(old);
            reference = 1;
        }
    }
    let remarks: Vec<Remark> = answer.notes.iter().map(Fact::remark).collect();
    let shown =
        Shown { unit: args.time_unit.map(TimeUnit::from), fastest_first: args.sort == SortArg::MeanTime };
    let view = BenchView {
        measured: &measured,
        answer: &answer,
        reference,
        margin: args.margin,
        remarks: &remarks,
        shown,
    };
    if volume > Volume::Quiet || args.format == Format::Json {
        let shown = match args.format {
            Format::Text => text::bench(&view, terminal::width(std::io::stdout())),
            Format::Json => json_of(&view)?,
        };
        output::print(&shown)?;
    }
    exports.write(&view)?;
    if let Some(place) = save {
        let mut kept = measured.clone();
        kept.commands.truncate(runnables.len());
        place.save(kept, &runnables)?;
        if volume > Volume::Quiet {
            output::note(&format!("saved as {}\n", place.path.display()));
        }
    }
    // The results so far are printed, but a script must not take them for all of them.
    Ok(if series.ended == Ended::Interrupted { Exit::Interrupted } else { Exit::Success })
}

fn json_of(view: &BenchView<'_>) -> Result<String> {
    json::to_string(&json::bench(view)).map_err(|error| Failure::new(format!("bench: {error}")))
}

/// Builds the text of a file.
type Write = fn(&BenchView<'_>) -> Result<String>;

/// The files to write, checked before anything runs.
struct Exports(Vec<(Output, Write)>);

impl Exports {
    fn of(args: &ExportArgs) -> Result<Self> {
        let wanted: [(&Option<PathBuf>, Write); 6] = [
            (&args.export_json, |view| json_of(view)),
            (&args.export_csv, |view| Ok(csv(view))),
            (&args.export_markdown, |view| Ok(markdown(view))),
            (&args.export_asciidoc, |view| Ok(asciidoc(view))),
            (&args.export_orgmode, |view| Ok(orgmode(view))),
            (&args.export_svg, |view| Ok(strip_plot(view))),
        ];
        let mut files = Vec::new();
        for (path, write) in wanted {
            if let Some(path) = path {
                let file = Output::from(path.clone());
                file.check()?;
                files.push((file, write));
            }
        }
        Ok(Self(files))
    }

    fn write(&self, view: &BenchView<'_>) -> Result {
        for (file, render) in &self.0 {
            let text = render(view)?;
            file.write(|out| out.write_all(text.as_bytes()))?;
        }
        Ok(())
    }
}
