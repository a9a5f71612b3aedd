//! `cargo whyslow bench`: the benchmarks of a package, beside those of a commit or beside what criterion stored.

mod side;
mod turns;

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, FromArgMatches as _};
use whyslow_bench::foreign::criterion;
use whyslow_bench::harness::Effort;
use whyslow_bench::suite::{self, BASE, Benchmark, HEAD, Plan, Series, Standing, Suite};
use whyslow_capture::Target;
use whyslow_render::bench::suite_markdown;
use whyslow_render::{json, text};

use self::side::{Listed, Side};
use self::turns::Turns;
use super::super::bench::git::Trees;
use super::super::bench::watched::Watched;
use super::{BuildArgs, refuse_other_machines};
use crate::cli::{Format, Volume};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::{self, Output};
use crate::recording::AnswerOptions;
use crate::{terminal, values};

/// Build the benchmarks of this package and measure them, beside those of a commit, with a verdict for each
#[derive(Debug, Args)]
#[command(
    override_usage = "cargo whyslow bench [OPTIONS] [FILTER]\n       cargo whyslow bench --git REV [OPTIONS] [FILTER]\n       cargo whyslow bench --record BENCHMARK [OPTIONS]",
    after_help = "\
Examples:
  cargo whyslow bench                           every benchmark: its median and spread
  cargo whyslow bench --git main                the working tree beside the commit `main`
  cargo whyslow bench --git HEAD~1 --bench parse json    some of them only
  cargo whyslow bench --baseline before         beside what criterion stored under `before`
  cargo whyslow bench --record parse/json       where the time of one goes

Benchmarks of criterion, divan and #[bench] are driven by their own arguments. In each round every
benchmark has a turn of both builds, next to each other and in random order; one turn gives one
number, nanoseconds per iteration. Which benchmarks changed is decided over all of them together
(Benjamini and Hochberg): of those that are called faster or slower, at most 5 % are wrong
on average. Both builds are made in folders of their own. Files that git does not know are not in
them.

Exit codes: 0 measured, whatever the verdicts; cargo's own (101) when a build fails; 125 whyslow failed."
)]
pub(crate) struct CargoBenchArgs {
    /// Only benchmarks with this in their name
    #[arg(value_name = "FILTER")]
    filter: Option<String>,
    /// This target with benchmarks; may be given several times [default: all]
    #[arg(long = "bench", value_name = "NAME")]
    benches: Vec<String>,
    /// In this package of the workspace
    #[arg(short, long, value_name = "PACKAGE")]
    package: Option<String>,
    /// Compare the working tree with this commit
    #[arg(long, value_name = "REV", conflicts_with_all = ["baseline", "record", "manifest_path"])]
    git: Option<String>,
    /// Compare with what criterion stored: `base`, `new`, or a name of its --save-baseline
    #[arg(long, value_name = "NAME", conflicts_with = "record")]
    baseline: Option<String>,
    /// Record a profile of this benchmark, and print where its time goes
    #[arg(long, value_name = "BENCHMARK")]
    record: Option<String>,
    /// How many rounds to make [default: 10, or more where there are more than 25 benchmarks]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// How long a benchmark is measured in each turn; a fifth of it is added to warm up
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = values::positive_duration)]
    time: Duration,
    /// A difference below this share does not matter, such as 0.5%
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = values::share)]
    margin: f64,
    /// Text for people or JSON for programs, which has every value
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

/// Rounds unless somebody says otherwise.
const USUAL_ROUNDS: usize = 10;
/// What a recorded benchmark runs for.
const RECORDED: Duration = Duration::from_secs(5);

/// Builds, measures, judges, prints.
pub(crate) fn run(args: &CargoBenchArgs, volume: Volume) -> Result<Exit> {
    refuse_other_machines(&args.build)?;
    let exports = [&args.export_json, &args.export_markdown].map(|path| path.clone().map(Output::from));
    for file in exports.iter().flatten() {
        file.check()?;
    }
    let trees = args.git.as_deref().map(Trees::check_out).transpose()?;
    let sides = match side::build(args, trees.as_ref(), volume)? {
        Ok(sides) => sides,
        // cargo has said why.
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
        // What only one side has is told, and costs no time.
        listed.iter_mut().filter(|one| one.places.contains(&None)).for_each(|one| one.is_measured = false);
    }
    let suite = measure(args, &sides, listed, stored, volume)?;
    tell(args, &suite, &exports, volume)
}

fn nothing(args: &CargoBenchArgs, sides: &[Side]) -> Failure {
    let some =
        sides.iter().flat_map(|side| &side.executables).find_map(|executable| executable.names.first());
    match (&args.filter, some) {
        (Some(filter), Some(some)) => {
            Failure::new(format!("no benchmark has `{filter}` in its name")).next(some.clone())
        }
        _ => Failure::new("there are no benchmarks of criterion, divan or #[bench]")
            .next("whyslow bench 'COMMAND' 'COMMAND', for whole programs"),
    }
}

/// Records one benchmark and prints the usual answer.
fn record(benchmark: &str, side: &Side, volume: Volume) -> Result<Exit> {
    let found =
        side.executables.iter().filter(|executable| executable.names.iter().any(|name| name == benchmark));
    match found.collect::<Vec<_>>().as_slice() {
        [one] => {
            let mut command = one.command.clone();
            command.args =
                one.harness.profiling_args(benchmark, RECORDED).into_iter().map(Into::into).collect();
            let name = benchmark.replace(|character: char| !character.is_alphanumeric(), "-");
            let usual =
                AnswerOptions::augment_args(clap::Command::new("record")).get_matches_from(["record"]);
            let usual =
                AnswerOptions::from_arg_matches(&usual).map_err(|error| Failure::new(error.to_string()))?;
            super::super::record::record_and_answer(&Target::Command(command), name.as_ref(), &usual, volume)
        }
        [] => {
            let names = side.executables.iter().flat_map(|executable| &executable.names);
            let near = names.clone().find(|name| name.contains(benchmark)).or(names.clone().next());
            let failure = Failure::new(format!("there is no benchmark `{benchmark}`"));
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

/// What criterion stored under a name.
fn stored(name: &str, side: &Side) -> Result<Vec<criterion::Stored>> {
    let home = std::env::var_os("CRITERION_HOME")
        .map_or_else(|| side.target_directory.join("criterion"), PathBuf::from);
    let stored = criterion::read_folder(&home, name);
    if stored.is_empty() {
        return Err(Failure::new(format!("{}: criterion has stored nothing under `{name}`", home.display()))
            .next(format!("cargo bench -- --save-baseline {name}")));
    }
    Ok(stored)
}

fn measure(
    args: &CargoBenchArgs,
    sides: &[Side],
    listed: Vec<Listed>,
    stored: Option<Vec<criterion::Stored>>,
    volume: Volume,
) -> Result<Suite> {
    let measured = listed.iter().filter(|one| one.is_measured).count();
    let rounds =
        args.rounds.map_or(USUAL_ROUNDS.max(suite::least_rounds(measured)), |rounds| rounds as usize);
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
        return Err(Failure::new("stopped before anything was measured: there is nothing to tell"));
    }
    let base = args.git.clone().or_else(|| args.baseline.clone());
    let mut all = listed.into_iter().zip(series).collect::<Vec<_>>();
    if let Some(stored) = &stored {
        put_beside(&mut all, stored, args.filter.as_deref());
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
        head: "working tree".to_owned(),
        of_another_day: stored.is_some(),
        rounds,
        interrupted,
        margin: args.margin,
        confidence: 1.0 - level,
        benchmarks: benchmarks.collect(),
    })
}

/// Whether there is something of both sides, measured now or stored.
fn has_both(one: &Listed, series: &Series) -> bool {
    let has = |side: usize| one.places[side].is_some() || !series.sides_ns[side].is_empty();
    has(BASE) && has(HEAD)
}

/// Makes stored samples the base of the benchmarks of the same name; those that nobody has now are added as vanished.
fn put_beside(all: &mut Vec<(Listed, Series)>, stored: &[criterion::Stored], filter: Option<&str>) {
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

fn tell(args: &CargoBenchArgs, suite: &Suite, exports: &[Option<Output>; 2], volume: Volume) -> Result<Exit> {
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
    Ok(Exit::Success)
}
