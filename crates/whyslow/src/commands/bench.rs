//! `whyslow bench`: commands side by side, in random order, with a verdict.

mod contenders;
mod exact;
pub(super) mod execute;
pub(super) mod git;
pub(super) mod progress;
mod saved;
pub(super) mod watched;

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use whyslow_analyze::{Fact, Remark};
use whyslow_bench::document::{Measured, MeasuredCommand, SCHEMA};
use whyslow_bench::judge::{self, compare_days, judge};
use whyslow_bench::{BenchNote, Course, Ended, Metric, Plan, Rounds};
use whyslow_render::bench::{BenchView, asciidoc, csv, markdown, strip_plot};
use whyslow_render::{json, text};
use whyslow_stats::looks::LOOKS;
use whyslow_stats::witness::Witness;

use self::contenders::Contenders;
pub(super) use self::contenders::{Runnable, words};
pub(super) use self::exact::{Exact, counted as exact};
use self::execute::Runner;
pub(super) use self::git::Trees;
use crate::cli::{Format, Volume};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::{self, Output};
use crate::{terminal, values};

/// Run commands side by side in random order, and say which is faster, or that it is not decided
#[derive(Debug, Args)]
#[command(
    override_usage = "whyslow bench [OPTIONS] 'COMMAND'...\n       whyslow bench --git REV [OPTIONS] 'COMMAND'\n       whyslow bench --baseline NAME [OPTIONS] 'COMMAND'",
    after_help = "\
Examples:
  whyslow bench './old input.txt' './new input.txt'    is the new one faster?
  whyslow bench --until-decided './old' './new'        as many rounds as it takes, at most 200
  whyslow bench --git main 'target/release/app x.txt'  the working tree beside the commit `main`
  whyslow bench --save before './app'                  and later, after a change:
  whyslow bench --baseline before './app'
  whyslow bench --aa './app'                           what can this machine tell apart?
  whyslow bench -L jobs 1,2,4 'sort --parallel={jobs} big'   one command, several values

Each round runs every command once, in an order that is drawn anew: what disturbs the machine
disturbs all of them alike. A verdict needs 6 rounds; 12 or more are made unless you say otherwise.
A command is split into words as a shell does; `|`, `>`, `$` and the like need --shell.

Exit codes: 0 measured, whatever the verdict (`whyslow gate` judges); 125 a command failed,
or whyslow did; 126 a command cannot be started; 127 it was not found."
)]
pub(crate) struct BenchArgs {
    /// The commands, each quoted as one word
    #[arg(value_name = "COMMAND", hide = true)]
    commands: Vec<String>,
    /// Make exactly this many rounds
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with_all = ["min_runs", "until_decided"])]
    runs: Option<u32>,
    /// Make at least this many rounds [default: 12]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    min_runs: Option<u32>,
    /// Make at most this many rounds [default: 1000; with --until-decided 200]
    #[arg(short = 'M', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "runs")]
    max_runs: Option<u32>,
    /// Begin no round after this time
    #[arg(long, value_name = "TIME", value_parser = values::positive_duration)]
    max_time: Option<Duration>,
    /// Go on until it is decided, looking at fixed moments so that looking does not make it wrong
    #[arg(long)]
    until_decided: bool,
    /// Rounds before the first that counts
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    warmup: u32,
    /// A difference below this share does not matter, such as 0.5%
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = values::share)]
    margin: f64,
    /// Which time decides [default: chosen by what the runs do]
    #[arg(long, value_enum, value_name = "TIME")]
    witness: Option<WitnessArg>,
    /// Run the one command against itself: shows what this machine can tell apart
    #[arg(long, conflicts_with_all = ["git", "baseline", "reference"])]
    aa: bool,
    /// Compare the working tree with this commit: both are built in folders of their own, and the command runs there
    #[arg(long, value_name = "REV", conflicts_with = "baseline")]
    git: Option<String>,
    /// How to build, with --git
    #[arg(long, value_name = "COMMAND", default_value = "cargo build --release", requires = "git")]
    build: String,
    /// Keep the results, and a copy of the program, under this name or in this .json file
    #[arg(long, value_name = "NAME")]
    save: Option<String>,
    /// Compare with results that were kept, or with a JSON file of whyslow or hyperfine
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// Count allocations and the most memory that is live, exactly, in one more run of each command
    #[arg(long)]
    heap: bool,
    /// Count instructions: with the CPU's counters, else with valgrind in one more run of each command
    #[arg(long)]
    instructions: bool,
    /// Text for people or JSON for programs, which has every run
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    how: HowArgs,
    #[command(flatten)]
    exports: ExportArgs,
}

/// How commands are run.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "How commands are run")]
pub(crate) struct HowArgs {
    /// Give a command this name; several in the order of the commands
    #[arg(short = 'n', long = "name", visible_alias = "command-name", value_name = "NAME")]
    names: Vec<String>,
    /// Compare the others with this command instead of the first
    #[arg(long, value_name = "COMMAND")]
    reference: Option<String>,
    /// Let a shell read the commands; its own start is in the times
    #[arg(short = 'S', long, value_name = "SHELL", num_args = 0..=1, require_equals = true, default_missing_value = "sh")]
    shell: Option<String>,
    /// As it is anyway: no shell reads the commands
    #[arg(short = 'N', hide = true, conflicts_with = "shell")]
    no_shell: bool,
    /// A parameter, in commands `{VAR}`, with the numbers from MIN to MAX
    #[arg(short = 'P', long, num_args = 3, value_names = ["VAR", "MIN", "MAX"])]
    parameter_scan: Vec<String>,
    /// The step from one number to the next
    #[arg(short = 'D', long, value_name = "STEP", default_value = "1", requires = "parameter_scan")]
    parameter_step_size: String,
    /// A parameter, in commands `{VAR}`, with these values
    #[arg(short = 'L', long, num_args = 2, value_names = ["VAR", "VALUES"])]
    parameter_list: Vec<String>,
    /// A shell command before each run, not timed; one for all commands or one for each
    #[arg(short, long, value_name = "COMMAND")]
    prepare: Vec<String>,
    /// A shell command after each run
    #[arg(short = 'C', long, value_name = "COMMAND")]
    conclude: Vec<String>,
    /// A shell command once before all runs of a command
    #[arg(short, long, value_name = "COMMAND")]
    setup: Option<String>,
    /// A shell command once after all runs of a command
    #[arg(short, long, value_name = "COMMAND")]
    cleanup: Option<String>,
    /// What the commands read: `null` or a file
    #[arg(long, value_name = "WHERE", default_value = "null")]
    input: String,
    /// Where the commands write to: null, pipe, inherit or a file
    #[arg(long, value_name = "WHERE", default_value = "null")]
    output: String,
    /// End a run that takes longer than this, and fail
    #[arg(long, value_name = "TIME", value_parser = values::positive_duration)]
    timeout: Option<Duration>,
    /// Count runs that fail, too, as long as all end in the same way
    #[arg(short, long)]
    ignore_failure: bool,
}

impl HowArgs {
    /// With these hooks, and this file as input.
    pub(super) fn of_hooks(prepare: Option<&str>, setup: Option<&str>, input: Option<&str>) -> Self {
        Self {
            prepare: prepare.map(str::to_owned).into_iter().collect(),
            setup: setup.map(str::to_owned),
            input: input.unwrap_or(NULL).to_owned(),
            output: NULL.to_owned(),
            ..Self::default()
        }
    }
}

/// Where nothing comes from and everything may go.
const NULL: &str = "null";

/// Where else the results go.
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
    /// Draw the pairs as dots with the interval, as SVG
    #[arg(long, value_name = "FILE")]
    export_svg: Option<PathBuf>,
}

/// Which time decides.
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

/// How long rounds are made beyond the least number.
const USUAL_TIME: Duration = Duration::from_secs(3);
const USUAL_ROUNDS: u32 = 12;
const MOST_ROUNDS: u32 = 1000;

/// Runs, judges, prints.
pub(crate) fn run(args: &BenchArgs, volume: Volume) -> Result<Exit> {
    let exports = Exports::of(&args.exports)?;
    let save = args.save.as_deref().map(saved::Place::of).transpose()?;
    let baseline = args.baseline.as_deref().map(saved::read).transpose()?;
    let contenders = Contenders::of(args, baseline.as_ref(), volume)?;
    let measured = measure(args, contenders, volume)?;
    let Some(outcome) = measured else {
        // Stopped before a single round was whole.
        return Err(Failure::new("stopped before the first round was whole: there is nothing to tell"));
    };
    tell(args, outcome, baseline.as_ref(), &exports, save, volume)
}

/// All runs of all commands.
struct Outcome {
    measured: Measured,
    course: Course,
    runnables: Vec<Runnable>,
    reference: usize,
    notes: Vec<BenchNote>,
    /// What keeps the folders of --git.
    _trees: Option<Trees>,
}

fn measure(args: &BenchArgs, contenders: Contenders, volume: Volume) -> Result<Option<Outcome>> {
    let Contenders { runnables, reference, trees } = contenders;
    let plan = plan(args, runnables.len(), reference);
    let began_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut runner = Runner::new(&runnables, &args.how, &plan, volume)?;
    runner.set_up()?;
    let course = Course::run(&plan, &mut runner);
    let surroundings = runner.surroundings();
    runner.clean_up()?;
    let course = course?;
    if course.rounds.is_empty() {
        return Ok(None);
    }
    let mut notes = Vec::new();
    let wanted = Exact { heap: args.heap, instructions: args.instructions };
    let exact = exact(wanted, &runnables, &course, &mut notes)?;
    let host = runner.host();
    drop(runner);
    let commands = runnables.iter().zip(exact).enumerate().map(|(command, (runnable, exact))| {
        let of = |rounds: &[Vec<whyslow_bench::Run>]| rounds.iter().map(|round| round[command].clone()).collect();
        MeasuredCommand {
            contender: runnable.contender.clone(),
            words: runnable.words.clone(),
            runs: of(&course.rounds),
            warmup: of(&course.warmup),
            exact,
            kept_program: None,
        }
    });
    let measured =
        Measured { schema: SCHEMA.to_owned(), began_unix_s, host, surroundings, commands: commands.collect() };
    Ok(Some(Outcome { measured, course, runnables, reference, notes, _trees: trees }))
}

/// Rounds of base and head: so many, or until it is decided. `None`: somebody stopped it before a round was whole.
pub(super) fn course(
    runnables: &[Runnable],
    how: &HowArgs,
    margin: f64,
    runs: u32,
    until_decided: bool,
    volume: Volume,
) -> Result<Option<Course>> {
    let rounds = match until_decided && runnables.len() > 1 {
        true => Rounds::UntilDecided { most: LOOKS[LOOKS.len() - 1] },
        false => Rounds::Fixed(runs as usize),
    };
    let plan = Plan {
        commands: runnables.len(),
        reference: 0,
        warmup: 1,
        rounds,
        max_time: None,
        ignore_failure: false,
        margin,
        witness: None,
        seed: seed(),
    };
    let mut runner = Runner::new(runnables, how, &plan, volume)?;
    runner.set_up()?;
    let course = Course::run(&plan, &mut runner);
    runner.clean_up()?;
    Ok(Some(course?).filter(|course| !course.rounds.is_empty() && course.ended != Ended::Interrupted))
}

/// Another one each time.
fn seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64)
}

fn plan(args: &BenchArgs, commands: usize, reference: usize) -> Plan {
    let least = args.min_runs.unwrap_or(USUAL_ROUNDS) as usize;
    let rounds = match (args.runs, args.until_decided && commands > 1) {
        (Some(runs), _) => Rounds::Fixed(runs as usize),
        (None, true) => {
            Rounds::UntilDecided { most: args.max_runs.map_or(LOOKS[LOOKS.len() - 1], |most| most as usize) }
        }
        (None, false) => Rounds::ForTime {
            least: least.min(args.max_runs.map_or(usize::MAX, |most| most as usize)),
            most: args.max_runs.unwrap_or(MOST_ROUNDS.max(least as u32)) as usize,
            time: USUAL_TIME * commands as u32,
        },
    };
    Plan {
        commands,
        reference,
        warmup: args.warmup as usize,
        rounds,
        max_time: args.max_time,
        ignore_failure: args.how.ignore_failure,
        margin: args.margin,
        witness: args.witness.map(Witness::from),
        seed: seed(),
    }
}

/// Judges and writes.
fn tell(
    args: &BenchArgs,
    outcome: Outcome,
    baseline: Option<&saved::Baseline>,
    exports: &Exports,
    save: Option<saved::Place>,
    volume: Volume,
) -> Result<Exit> {
    let Outcome { mut measured, course, runnables, mut reference, notes, .. } = outcome;
    let contenders = measured.commands.iter().map(|command| command.contender.clone()).collect::<Vec<_>>();
    let exact = measured.commands.iter().map(|command| command.exact.clone()).collect::<Vec<_>>();
    let options = judge::Options {
        contenders: &contenders,
        reference,
        margin: args.margin,
        exact: &exact,
        itself: args.aa,
    };
    let mut answer = judge(&course, options);
    answer.notes.extend(notes);
    if let Some(baseline) = baseline {
        answer.notes.extend(baseline.notes.iter().cloned());
        if let Some(old) = baseline.of_another_day(&contenders) {
            // Saved runs stand beside the new ones, without being pairs.
            let metric = answer.witness.map_or(Metric::Wall, |(witness, _)| witness.into());
            let of = |runs: &[whyslow_bench::Run]| runs.iter().filter_map(|run| metric.of(run)).collect::<Vec<_>>();
            let (before, after) = (of(&old.runs), of(&measured.commands[0].runs));
            answer.summaries.push(Metric::USUAL.iter().filter_map(|metric| {
                let values = old.runs.iter().filter_map(|run| metric.of(run)).collect::<Vec<_>>();
                judge::summary(metric.clone(), &values)
            }).collect());
            let mut comparison = compare_days(&before, &after, &metric, [1, 0]);
            if baseline.is_of_another_machine(&measured.host) {
                comparison.verdict = whyslow_stats::verdict::Verdict::Undecided;
            }
            answer.comparisons.push(comparison);
            measured.commands.push(old);
            reference = 1;
        }
    }
    let remarks: Vec<Remark> = answer.notes.iter().map(Fact::remark).collect();
    let view =
        BenchView { measured: &measured, answer: &answer, reference, margin: args.margin, remarks: &remarks };
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
            output::note(&format!("kept as {}\n", place.path.display()));
        }
    }
    Ok(Exit::Success)
}

fn json_of(view: &BenchView<'_>) -> Result<String> {
    json::to_string(&json::bench(view)).map_err(|error| Failure::new(format!("bench: {error}")))
}

/// Makes the text of a file.
type Write = fn(&BenchView<'_>) -> Result<String>;

/// The files to write, known to be writable before anything runs.
struct Exports(Vec<(Output, Write)>);

impl Exports {
    fn of(args: &ExportArgs) -> Result<Self> {
        let wanted: [(&Option<PathBuf>, Write); 5] = [
            (&args.export_json, |view| json_of(view)),
            (&args.export_csv, |view| Ok(csv(view))),
            (&args.export_markdown, |view| Ok(markdown(view))),
            (&args.export_asciidoc, |view| Ok(asciidoc(view))),
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
        for (file, made) in &self.0 {
            let text = made(view)?;
            file.write(|out| out.write_all(text.as_bytes()))?;
        }
        Ok(())
    }
}
