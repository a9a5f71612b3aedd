//! `cargo whyslow bench`: measures the benchmarks of a package, and compares them with a commit or with
//! criterion's stored results.

mod side;
mod turns;

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use whyslow_bench::foreign::criterion;
use whyslow_bench::harness::Effort;
use whyslow_bench::suite::{self, BASE, Benchmark, HEAD, Plan, Series, Standing, Suite};
use whyslow_capture::{Options, Target};
use whyslow_render::bench::suite_markdown;
use whyslow_render::{json, text};

use self::side::{Listed, Side};
use self::turns::Turns;
use super::metadata::Metadata;
use super::{BuildArgs, refuse_other_machines};
use crate::cli::{Format, Volume};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::{self, Output};
use crate::recording::{Keep, Shown, record_and_answer};
use crate::series::{Trees, WORKING_TREE, Watched};
use crate::{terminal, values};

/// Build the benchmarks and measure them, or compare them with a commit
#[derive(Debug, Args)]
#[command(
    override_usage = "cargo whyslow bench [OPTIONS] [FILTER]\n       cargo whyslow bench --git REV [OPTIONS] [FILTER]\n       cargo whyslow bench --record BENCHMARK [OPTIONS]",
    after_help = "\
Examples:
  cargo whyslow bench                      every benchmark: median and spread
  cargo whyslow bench --git main           working tree against `main`
  cargo whyslow bench --git HEAD~1 --bench parse json    only some of them
  cargo whyslow bench --baseline before    against criterion's baseline `before`
  cargo whyslow bench --record parse/json  profile one benchmark

Works with criterion, divan and #[bench]. In each round, every benchmark runs
once per build, both builds next to each other and in random order; each run
gives one number, nanoseconds per iteration. whyslow judges all benchmarks
together (Benjamini-Hochberg): of those called faster or slower, at most 5 % are
wrong on average. Both builds have their own folders, without files that git
does not know.

Exit codes: 0 if measured, whatever the verdicts; cargo's own (101) if a build
fails; 125 if whyslow fails."
)]
pub(crate) struct CargoBenchArgs {
    /// Only benchmarks with this text in their name
    #[arg(value_name = "FILTER")]
    filter: Option<String>,
    /// Only this benchmark target (repeatable)
    #[arg(long = "bench", value_name = "NAME")]
    benches: Vec<String>,
    /// The package in the workspace
    #[arg(short, long, value_name = "PACKAGE")]
    package: Option<String>,
    /// Compare the working tree with this commit, or two commits: A..B
    #[arg(long, value_name = "REV", conflicts_with_all = ["baseline", "record", "manifest_path"])]
    git: Option<String>,
    /// Compare with criterion's stored results: base, new, or a saved baseline
    #[arg(long, value_name = "NAME", conflicts_with = "record")]
    baseline: Option<String>,
    /// Record a profile of this benchmark and print the answer
    #[arg(long, value_name = "BENCHMARK")]
    record: Option<String>,
    /// Number of rounds [default: 10; more with over 25 benchmarks]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Measuring time per run; a fifth of it is added to warm up
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = values::positive_duration)]
    time: Duration,
    /// Differences below this share do not matter, such as 0.5%
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = values::share)]
    margin: f64,
    /// Output format; JSON has every value
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Write everything, with every value, as JSON
    #[arg(long, value_name = "FILE")]
    export_json: Option<PathBuf>,
    /// Write a table for a pull request
    #[arg(long, value_name = "FILE")]
    export_markdown: Option<PathBuf>,
    #[command(flatten)]
    build: BuildArgs,
}

/// Default number of rounds.
const DEFAULT_ROUNDS: usize = 10;
/// How long a recorded benchmark runs.
const RECORDED: Duration = Duration::from_secs(5);

/// Builds, measures, judges, prints.
pub(crate) fn run(args: &CargoBenchArgs, volume: Volume) -> Result<Exit> {
    refuse_other_machines(&args.build)?;
    let exports = [&args.export_json, &args.export_markdown].map(|path| path.clone().map(Output::from));
    for file in exports.iter().flatten() {
        file.check()?;
    }
    let metadata = Metadata::load(&args.build, None)?;
    if !metadata.selected(args.package.as_deref()).iter().any(|package| package.may_have_benches()) {
        return Err(Failure::new("there are no benchmarks: no [[bench]] target, and no #[bench] function")
            .next(
                "whyslow bench --git main 'target/release/APP', to compare whole programs of two versions",
            ));
    }
    let trees = args.git.as_deref().map(Trees::check_out).transpose()?;
    let sides = match side::build(args, trees.as_ref(), volume)? {
        Ok(sides) => sides,
        // cargo has printed why.
        Err(code) => return Ok(Exit::Cargo(code)),
    };
    if let Some(benchmark) = &args.record {
        return record(benchmark, &sides[HEAD], volume);
    }
    let mut listed = side::pair(&sides, args.filter.as_deref());
    if listed.is_empty() {
        return Err(nothing(args, &sides));
    }
    let stored = args.baseline.as_deref().map(|name| stored(name, &sides[HEAD])).transpose()?;
    if trees.is_some() {
        // Benchmarks of only one side are listed but not measured.
        listed.iter_mut().filter(|one| one.places.contains(&None)).for_each(|one| one.is_measured = false);
    }
    let names = trees.as_ref().map(Trees::names);
    let suite = measure(args, &sides, listed, stored, names, volume)?;
    print_answer(args, &suite, &exports, volume)
}

fn nothing(args: &CargoBenchArgs, sides: &[Side]) -> Failure {
    let some =
        sides.iter().flat_map(|side| &side.executables).find_map(|executable| executable.names.first());
    match (&args.filter, some) {
        (Some(filter), Some(some)) => {
            Failure::new(format!("no benchmark has `{filter}` in its name")).next(some.clone())
        }
        _ => Failure::new("no benchmarks of criterion, divan or #[bench] found")
            .next("whyslow bench 'COMMAND' 'COMMAND', to compare whole programs"),
    }
}

/// Records one benchmark and prints the answer.
fn record(benchmark: &str, side: &Side, volume: Volume) -> Result<Exit> {
    let found =
        side.executables.iter().filter(|executable| executable.names.iter().any(|name| name == benchmark));
    match found.collect::<Vec<_>>().as_slice() {
        [one] => {
            let mut command = one.command.clone();
            command.args =
                one.harness.profiling_args(benchmark, RECORDED).into_iter().map(Into::into).collect();
            let name = benchmark.replace(|character: char| !character.is_alphanumeric(), "-");
            let target = Target::Command(command);
            let (how, keep, shown) = (Options::default(), Keep::default(), Shown::default());
            record_and_answer(&target, name.as_ref(), how, &keep, shown, volume)
        }
        [] => {
            let names = side.executables.iter().flat_map(|executable| &executable.names);
            let near = names.clone().find(|name| name.contains(benchmark)).or(names.clone().next());
            let failure = Failure::new(format!("no benchmark is called `{benchmark}`"));
            Err(match near {
                Some(near) => failure.next(format!("--record '{near}'")),
                None => failure,
            })
        }
        several => {
            let targets = several.iter().map(|one| one.target.as_str()).collect::<Vec<_>>();
            Err(Failure::new(format!(
                "several targets have a benchmark `{benchmark}`: {}",
                targets.join(", ")
            ))
            .next(format!("--bench {}", targets[0])))
        }
    }
}

/// Criterion's stored results under a name.
fn stored(name: &str, side: &Side) -> Result<Vec<criterion::Stored>> {
    let home = std::env::var_os("CRITERION_HOME")
        .map_or_else(|| side.target_directory.join("criterion"), PathBuf::from);
    let stored = criterion::read_folder(&home, name);
    if stored.is_empty() {
        return Err(Failure::new(format!("{}: criterion stored nothing under `{name}`", home.display()))
            .next(format!("cargo bench -- --save-baseline {name}")));
    }
    Ok(stored)
}

fn measure(
    args: &CargoBenchArgs,
    sides: &[Side],
    listed: Vec<Listed>,
    stored: Option<Vec<criterion::Stored>>,
    names: Option<[String; 2]>,
    volume: Volume,
) -> Result<Suite> {
    let measured = listed.iter().filter(|one| one.is_measured).count();
    let rounds =
        args.rounds.map_or(DEFAULT_ROUNDS.max(suite::min_rounds(measured)), |rounds| rounds as usize);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let has = |one: &Listed| one.places.map(|place| place.is_some() && one.is_measured);
    let plan = Plan { benchmarks: listed.iter().map(has).collect(), rounds, seed: now.as_nanos() as u64 };
    let effort = Effort { warm_up: args.time / 5, measured: args.time };
    let watched = Watched::new();
    let mut turns = Turns::new(sides, &listed, effort, rounds, volume)?;
    let (series, interrupted) = suite::run(&plan, &mut turns)?;
    drop(turns);
    let surroundings = watched.surroundings();
    if interrupted && series.iter().all(|series| series.sides_ns[HEAD].is_empty()) {
        return Err(Failure::new("stopped before anything was measured: no results"));
    }
    let [base, head] = match names {
        Some(names) => names.map(Some),
        None => [args.baseline.clone(), None],
    };
    let mut all = listed.into_iter().zip(series).collect::<Vec<_>>();
    if let Some(stored) = &stored {
        add_stored_base(&mut all, stored, args.filter.as_deref());
    }
    let is_compared = |(one, series): &&(Listed, Series)| {
        base.is_some() && has_both(one, series) && series.failed.is_none()
    };
    let together = all.iter().filter(is_compared).map(|(_, series)| series).collect::<Vec<_>>();
    let (judged, level) =
        if stored.is_some() { suite::judge_days(&together) } else { suite::judge(&together, args.margin) };
    let mut judged = judged.into_iter();
    let standings = all.iter().map(|both| match both {
        (_, Series { failed: Some(why), .. }) => Standing::Failed(why.clone()),
        _ if base.is_none() => Standing::Alone,
        both if is_compared(&both) => judged.next().map_or(Standing::Alone, Standing::Compared),
        (one, _) if one.places[HEAD].is_some() => Standing::New,
        _ => Standing::Vanished,
    });
    let standings = standings.collect::<Vec<_>>();
    let benchmarks = all.into_iter().zip(standings).map(|((one, series), standing)| Benchmark {
        target: one.target,
        name: one.name,
        harness: one.harness.label(),
        series,
        standing,
    });
    Ok(Suite {
        began_unix_s: now.as_secs(),
        host: whyslow_capture::this_host(),
        surroundings,
        base,
        head: head.unwrap_or_else(|| WORKING_TREE.to_owned()),
        of_another_day: stored.is_some(),
        rounds,
        interrupted,
        margin: args.margin,
        confidence: 1.0 - level,
        benchmarks: benchmarks.collect(),
    })
}

/// Whether both sides have results, measured or stored.
fn has_both(one: &Listed, series: &Series) -> bool {
    let has = |side: usize| one.places[side].is_some() || !series.sides_ns[side].is_empty();
    has(BASE) && has(HEAD)
}

/// Uses stored samples as the base of benchmarks with the same name. Stored benchmarks that no longer exist
/// are added as vanished.
fn add_stored_base(all: &mut Vec<(Listed, Series)>, stored: &[criterion::Stored], filter: Option<&str>) {
    for old in stored {
        let is_same =
            |(one, _): &&mut (Listed, Series)| one.name == old.name && one.harness.label() == "criterion";
        match all.iter_mut().find(is_same) {
            Some((_, series)) => series.sides_ns[BASE].clone_from(&old.samples_ns),
            None if filter.is_none_or(|filter| old.name.contains(filter)) => {
                let series = Series { sides_ns: [old.samples_ns.clone(), Vec::new()], failed: None };
                all.push((Listed::stored(&old.name), series));
            }
            None => {}
        }
    }
}

fn print_answer(
    args: &CargoBenchArgs,
    suite: &Suite,
    exports: &[Option<Output>; 2],
    volume: Volume,
) -> Result<Exit> {
    let as_json =
        || json::to_string(&json::suite(suite)).map_err(|error| Failure::new(format!("bench: {error}")));
    if volume > Volume::Quiet || args.format == Format::Json {
        output::print(&match args.format {
            Format::Text => text::suite(suite, terminal::width(std::io::stdout())),
            Format::Json => as_json()?,
        })?;
    }
    let [to_json, to_markdown] = exports;
    if let Some(file) = to_json {
        let text = as_json()?;
        file.write(|out| out.write_all(text.as_bytes()))?;
    }
    if let Some(file) = to_markdown {
        file.write(|out| out.write_all(suite_markdown(suite).as_bytes()))?;
    }
    Ok(if suite.interrupted { Exit::Interrupted } else { Exit::Success })
}
