//! `whyslow gate`: checks a change for regressions, base against head, in turn on the same machine.

mod config;
mod rules;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use clap::Args;
use whyslow_bench::gate::{Accepted, Measured, Outcome, Row, RuleChange, State, outcome};
use whyslow_bench::judge::{Options, judge};
use whyslow_bench::run::{ALLOCATIONS, BINARY_SIZE, PEAK, SIMULATED_INSTRUCTIONS};
use whyslow_bench::words::quoted;
use whyslow_bench::{Answer, Contender, Metric, Series};
use whyslow_render::bench::{GateView, gate_json, gate_junit, gate_markdown};
use whyslow_render::units::{Count, bytes, duration};
use whyslow_render::{json, text};

use whyslow_stats::order::median_interval;
use whyslow_stats::pairs::ALPHA;

use self::config::{Bench, Gate, Policy};
use crate::cli::Volume;
use crate::exit::Exit;
use crate::failure::{Failure, Result, warn};
use crate::output::{self, Output, note};
use crate::series::{Exact, How, Runnable, Trees, counted, input, run_series, words};
use crate::sizes::Program;
use crate::terminal;

/// Check a change for performance regressions (CI gate)
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whyslow gate --base main              build both, measure all benches
  whyslow gate --base ../base --head .  two folders that are already built
  whyslow gate --base origin/main --markdown comment.md --artefacts out
  git bisect run sh -c \\
    'whyslow gate --base v1.2; case $? in 0) ;; 2) exit 1;; *) exit 125;; esac'

The benches are in whyslow.toml. docs/gate.md has an example, a workflow for
GitHub Actions, and how to comment on pull requests from forks.

Exit codes: 0 pass; 2 if a bench regressed, exceeded its budget or vanished;
3 undecided (unless whyslow.toml lets that pass); 125 if whyslow cannot judge.
Limits are the stricter ones of base and head: a change cannot loosen its own.")]
pub(crate) struct GateArgs {
    /// The base: a commit to build, or a folder that is already built
    #[arg(long, value_name = "REV|FOLDER")]
    base: String,
    /// The folder of head, if the base is a folder [default: this folder]
    #[arg(long, value_name = "FOLDER")]
    head: Option<PathBuf>,
    /// The file with the benches [default: whyslow.toml of head]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Run only this bench (repeatable)
    #[arg(long, value_name = "NAME")]
    bench: Vec<String>,
    /// Write a comment for the pull request
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write everything as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the results as JUnit tests
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Record both sides of each regression and write the diff into this folder
    #[arg(long, value_name = "FOLDER")]
    artefacts: Option<PathBuf>,
}

/// Default number of rounds.
const DEFAULT_RUNS: u32 = 20;
/// Default margin: differences below this share do not matter.
const DEFAULT_MARGIN: f64 = 0.02;

/// Measures, judges, writes. Whatever prevents a verdict has one exit code, also a program that is not found.
pub(crate) fn run(args: &GateArgs, volume: Volume) -> Result<Exit> {
    judge_all(args, volume).map_err(|failure| failure.exit_with(Exit::Failed))
}

fn judge_all(args: &GateArgs, volume: Volume) -> Result<Exit> {
    let files = [&args.markdown, &args.json, &args.junit];
    for folder in
        files.into_iter().flatten().filter_map(|file| file.parent()).chain(args.artefacts.as_deref())
    {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::new(format!("{}: {error}", folder.display())))?;
    }
    let files = files.map(|path| path.clone().map(Output::from));
    files.iter().flatten().try_for_each(Output::check)?;
    let here = args.head.clone().unwrap_or_else(|| PathBuf::from("."));
    let path = args.config.clone().unwrap_or_else(|| here.join("whyslow.toml"));
    let gate = config::read(&path)?;
    for name in &args.bench {
        if !gate.bench.contains_key(name) {
            let names = gate.bench.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            return Err(Failure::new(format!("{}: no bench `{name}`", path.display()))
                .next(format!("one of {names}")));
        }
    }
    let sides = Sides::of(args, &gate, &here, volume)?;
    let (gate, rule_changes) = sides.rules(gate);
    let mut rows = Vec::new();
    let mut artefacts = Vec::new();
    for (name, bench) in &gate.bench {
        if !args.bench.is_empty() && !args.bench.contains(name) {
            continue;
        }
        if volume > Volume::Quiet {
            note(&format!("{name}: {}\n", bench.command));
        }
        let of_bench = measure(name, bench, &gate, &sides, volume)?;
        if let Some(folder) =
            args.artefacts.as_deref().filter(|_| of_bench.iter().any(|row| row.state == State::Regression))
        {
            artefacts.extend(explain(folder, name, bench, &sides)?);
        }
        rows.extend(of_bench);
    }
    if args.bench.is_empty() {
        rows.extend(sides.vanished(&gate).iter().map(|name| Row::alone(name, State::Vanished)));
    }
    let outcome = outcome(&rows, gate.undecided == Policy::Pass);
    let view = GateView {
        base: &args.base,
        rows: &rows,
        outcome,
        artefacts: &artefacts,
        rule_changes: &rule_changes,
    };
    if volume > Volume::Quiet {
        output::print(&text::gate(&view, terminal::width(std::io::stdout())))?;
    }
    let [markdown, as_json, junit] = files;
    let texts = [
        (markdown, gate_markdown(&view)),
        (
            as_json,
            json::to_string(&gate_json(&view)).map_err(|error| Failure::new(format!("gate: {error}")))?,
        ),
        (junit, gate_junit(&view)),
    ];
    for (file, text) in texts {
        if let Some(file) = file {
            file.write(|out| out.write_all(text.as_bytes()))?;
        }
    }
    Ok(match outcome {
        Outcome::Pass => Exit::Success,
        Outcome::Regression => Exit::Worse,
        Outcome::Undecided => Exit::Undecided,
    })
}

/// The folders of base and head.
struct Sides {
    folders: [PathBuf; 2],
    base: Option<Gate>,
    /// Kept until the end of the run.
    _trees: Option<Trees>,
}

impl Sides {
    fn of(args: &GateArgs, gate: &Gate, here: &Path, volume: Volume) -> Result<Self> {
        let is_folder = Path::new(&args.base).is_dir();
        if args.head.is_some() && !is_folder {
            return Err(Failure::new(format!(
                "--head needs a base that is a folder, and `{}` is not one",
                args.base
            )));
        }
        let absolute = |folder: &Path| {
            folder.canonicalize().map_err(|error| Failure::new(format!("{}: {error}", folder.display())))
        };
        let (folders, trees) = if is_folder {
            ([absolute(Path::new(&args.base))?, absolute(here)?], None)
        } else {
            let build = gate.build.as_deref().unwrap_or("cargo build --release");
            let trees = Trees::build(&args.base, build, volume)?;
            (trees.folders(), Some(trees))
        };
        let file = match &args.config {
            None => Some(folders[0].join("whyslow.toml")),
            // A file of head has its counterpart in base; any other file is that of both.
            Some(file) => {
                let (file, roots) =
                    (absolute(file)?, trees.as_ref().map_or_else(|| folders.clone(), Trees::roots));
                let root = trees.as_ref().map_or(roots[1].as_path(), Trees::repository);
                file.strip_prefix(absolute(root)?).ok().map(|inside| roots[0].join(inside))
            }
        };
        let base = file.filter(|file| file.is_file()).and_then(|file| match config::read(&file) {
            Ok(base) => Some(base),
            Err(failure) => {
                warn(&format!("base's benches and limits are not known: {failure}"));
                None
            }
        });
        Ok(Self { folders, base, _trees: trees })
    }

    /// The rules that apply, and what head changes in them.
    fn rules(&self, head: Gate) -> (Gate, Vec<RuleChange>) {
        match &self.base {
            Some(base) => rules::stricter(base, head),
            None => (head, Vec::new()),
        }
    }

    /// Benches of base that head no longer has.
    fn vanished(&self, gate: &Gate) -> Vec<String> {
        let before = self.base.iter().flat_map(|base| base.bench.keys());
        before.filter(|name| !gate.bench.contains_key(*name)).cloned().collect()
    }

    /// Whether base has this bench. Without a file in base, all benches count as present.
    fn has(&self, name: &str) -> bool {
        self.base.as_ref().is_none_or(|base| base.bench.contains_key(name))
    }

    fn runnables(&self, bench: &Bench) -> Result<Vec<Runnable>> {
        let of = |folder: &PathBuf, name: &str| {
            let contender =
                Contender { name: name.to_owned(), command: bench.command.clone(), parameters: Vec::new() };
            Ok(Runnable {
                contender,
                words: words(&bench.command, None)?,
                folder: None,
                parameters: Vec::new(),
                given: 0,
            }
            .inside(folder))
        };
        Ok(vec![of(&self.folders[0], "base")?, of(&self.folders[1], "head")?])
    }
}

/// Measures one bench: all rows of the result.
fn measure(name: &str, bench: &Bench, gate: &Gate, sides: &Sides, volume: Volume) -> Result<Vec<Row>> {
    let margin = bench.margin.or(gate.margin).map_or(DEFAULT_MARGIN, |margin| margin.0);
    let mut runnables = sides.runnables(bench)?;
    let is_new = !sides.has(name);
    if is_new {
        runnables.remove(0);
    }
    let how = How {
        prepare: bench.prepare.iter().cloned().collect(),
        setup: bench.setup.clone(),
        input: bench.input.as_deref().map(input).unwrap_or_default(),
        ..How::default()
    };
    let extend = gate.undecided == Policy::Extend;
    // An accepted regression is judged by its own limit.
    let limit = gate.accept.iter().filter(|accept| accept.bench == name && accept.metric.is_none());
    let limit = limit.map(|accept| accept.up_to.0).fold(margin, f64::max);
    let series = run_series(&runnables, &how, limit, gate.runs.unwrap_or(DEFAULT_RUNS), extend, volume)?;
    let Some(series) = series else {
        return Err(Failure::new(format!("{name}: stopped before it was measured: no verdict")));
    };
    let wanted = Exact {
        heap: bench.heap || bench.max_peak.is_some() || bench.max_allocations.is_some(),
        instructions: bench.instructions || bench.max_instructions.is_some(),
    };
    let mut notes = Vec::new();
    let mut exact = counted(wanted, &runnables, &series, &mut notes, volume)?;
    for (counted, runnable) in exact.iter_mut().zip(&runnables) {
        if let Some(size) =
            runnable.command().file().and_then(|file| file.metadata().ok()).map(|about| about.len())
        {
            counted.push((BINARY_SIZE.to_owned(), size as f64));
        }
    }
    for remark in notes.iter().map(whyslow_words::Fact::remark) {
        warn(&format!("{name}: {}", remark.text));
    }
    let contenders = runnables.iter().map(|runnable| runnable.contender.clone()).collect::<Vec<_>>();
    let options = Options { contenders: &contenders, reference: 0, margin, exact: &exact, itself: false };
    let answer = judge(&series, options);
    let mut rows = if is_new {
        vec![Row::alone(name, State::New)]
    } else {
        compared(name, gate, &answer, bench, margin)
    };
    rows.extend(budgets(name, bench, &series, answer.summaries.len() - 1, &exact));
    if let Some(runnable) = runnables.last().filter(|_| !bench.max_crates.is_empty()) {
        rows.extend(crate_budgets(name, bench, runnable)?);
    }
    Ok(rows)
}

/// The rows for the sizes of crates in head's program. A crate that is not in it has no bytes.
fn crate_budgets(name: &str, bench: &Bench, head: &Runnable) -> Result<Vec<Row>> {
    let path = head.command().file().ok_or_else(|| {
        Failure::new(format!("{name}: max-crates: the program's file was not found"))
            .next("a command with the path of the program")
    })?;
    let program = Program::open(&path)?;
    let row = |(of, most): (&String, &config::Bytes)| {
        let used = program.sizes.group(of).unwrap_or(0);
        let metric = Metric::Event(format!("{of}-bytes"));
        Row::budget(name, &metric, Measured::exactly(used as f64), most.0 as f64, &bytes(most.0))
    };
    Ok(bench.max_crates.iter().map(row).collect())
}

/// The rows that compare head with base.
fn compared(name: &str, gate: &Gate, answer: &Answer, bench: &Bench, margin: f64) -> Vec<Row> {
    let is_compared = |metric: &Metric| match metric {
        Metric::Event(name) if name == "instructions" => bench.instructions,
        // A few bytes more are not a regression; `max-binary` is the budget for that.
        Metric::Event(name) => name != BINARY_SIZE && metric.is_exact(),
        _ => false,
    };
    let value = |command: usize, metric: &Metric| {
        let summary = answer.summaries[command].iter().find(|summary| summary.metric == *metric);
        summary.map(|summary| summary.median)
    };
    let wanted = answer.comparisons.iter().filter(|one| one.decides || is_compared(&one.metric));
    let row = |one: &whyslow_bench::Comparison| {
        let accepted = gate.accept.iter().find(|accept| {
            accept.bench == name
                && accept.metric.as_deref().map_or(one.decides, |metric| metric == one.metric.label())
        });
        let accepted =
            accepted.map(|accept| Accepted { up_to: accept.up_to.0, reason: accept.reason.clone() });
        Row::of(name, one, [value(0, &one.metric), value(1, &one.metric)], margin, accepted.as_ref())
    };
    wanted.map(row).collect()
}

/// The rows for the budgets of head.
fn budgets(
    name: &str,
    bench: &Bench,
    series: &Series,
    head: usize,
    exact: &[Vec<(String, f64)>],
) -> Vec<Row> {
    let measured = |metric: &Metric| {
        let values = whyslow_bench::rounds::values(&series.rounds, head, metric)?;
        let interval = median_interval(&values, ALPHA).map(Measured::Within);
        Some(interval.unwrap_or_else(|| Measured::Roughly(whyslow_stats::median(&values))))
    };
    let counted = |name: &str| {
        exact[head].iter().find(|(known, _)| known == name).map(|(_, value)| Measured::exactly(*value))
    };
    let event = |name: &str| Metric::Event(name.to_owned());
    // The time that decides: on a busy machine, wall time is not the program's own.
    let time = series.witness.map_or(Metric::Wall, |(witness, _)| witness.into());
    let spent = measured(&time);
    let instructions = measured(&event("instructions")).or_else(|| counted(SIMULATED_INSTRUCTIONS));
    let wanted = [
        (
            time,
            spent,
            bench.max_time.map(|time| (time.0.as_nanos() as f64, duration(time.0.as_nanos() as u64))),
        ),
        (
            event("instructions"),
            instructions,
            bench.max_instructions.map(|most| (most as f64, Count(most).to_string())),
        ),
        (event(PEAK), counted(PEAK), bench.max_peak.map(|most| (most.0 as f64, bytes(most.0)))),
        (
            event(ALLOCATIONS),
            counted(ALLOCATIONS),
            bench.max_allocations.map(|most| (most as f64, Count(most).to_string())),
        ),
        (
            event(BINARY_SIZE),
            counted(BINARY_SIZE),
            bench.max_binary.map(|most| (most.0 as f64, bytes(most.0))),
        ),
    ];
    let row = |(metric, value, limit): (Metric, Option<Measured>, Option<(f64, String)>)| {
        let (limit, shown) = limit?;
        Some(Row::budget(name, &metric, value.unwrap_or(Measured::Not), limit, &shown))
    };
    wanted.into_iter().filter_map(row).collect()
}

/// Records both sides and writes what changed.
fn explain(folder: &Path, name: &str, bench: &Bench, sides: &Sides) -> Result<Vec<String>> {
    let cannot = |error: std::io::Error| Failure::new(format!("{}: {error}", folder.display()));
    let safe =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect::<String>();
    let [report, picture] = ["txt", "svg"].map(|end| folder.join(format!("{safe}.{end}")));
    let own = std::env::current_exe().map_err(cannot)?;
    let absolute_picture = std::path::absolute(&picture).map_err(cannot)?;
    let commands = sides.runnables(bench)?;
    let output = whyslow_capture::restored_command(own)
        .args(["-q", "diff", "--runs", "5", "--flame"])
        .arg(&absolute_picture)
        .args(commands.iter().map(|runnable| quoted(&runnable.words)))
        .current_dir(&sides.folders[1])
        .stdin(Stdio::null())
        .output()
        .map_err(cannot)?;
    if !output.status.success() {
        let printed = String::from_utf8_lossy(&output.stderr);
        warn(&format!(
            "{name}: cannot record what changed: {}",
            printed.trim().lines().last().unwrap_or_default()
        ));
        return Ok(Vec::new());
    }
    std::fs::write(&report, &output.stdout).map_err(cannot)?;
    Ok([report, picture]
        .iter()
        .filter(|file| file.is_file())
        .map(|file| file.display().to_string())
        .collect())
}
