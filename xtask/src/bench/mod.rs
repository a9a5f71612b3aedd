//! `cargo xtask bench`: whyslow and its peers on the same programs, in the same run, alternating in each
//! round.

mod answers;
mod causal;
mod formats;
mod goals;
mod heap;
mod measure;
mod memory;
mod pairs;
mod programs;
mod quality;
mod report;
mod samplers;
mod section;
mod tools;
mod usage;
mod verdicts;
mod waits;

use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::process;
use measure::Bench;
use report::{Results, Series};
use tools::{PLAIN, TOOLS};

struct Options {
    quick: bool,
    rounds: usize,
    programs: Vec<String>,
    tools: Vec<String>,
    /// Only files of other tools and the viewer.
    formats: bool,
    /// Only the heap.
    heap: bool,
    /// Only the samplers.
    samplers: bool,
    /// Only waits.
    waits: bool,
    /// Only verdicts.
    verdicts: bool,
    /// Only how long answers take.
    answers: bool,
    /// Only causal profiling.
    causal: bool,
}

impl Options {
    fn parse(arguments: &[&str]) -> Result<Self> {
        let mut options = Self {
            quick: false,
            rounds: 0,
            programs: Vec::new(),
            tools: Vec::new(),
            formats: false,
            heap: false,
            samplers: false,
            waits: false,
            verdicts: false,
            answers: false,
            causal: false,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
            match *argument {
                "--quick" => options.quick = true,
                "--formats" => options.formats = true,
                "--heap" => options.heap = true,
                "--samplers" => options.samplers = true,
                "--waits" => options.waits = true,
                "--verdicts" => options.verdicts = true,
                "--answers" => options.answers = true,
                "--causal" => options.causal = true,
                "--rounds" => options.rounds = value()?.parse()?,
                "--program" => options.programs.push((*value()?).to_owned()),
                "--tool" => options.tools.push((*value()?).to_owned()),
                _ => bail!("there is no option {argument}"),
            }
        }
        if options.rounds == 0 {
            options.rounds = if options.quick { 2 } else { 7 };
        }
        Ok(options)
    }

    /// Whether everything was requested, so that the result is worth keeping.
    fn is_whole(&self) -> bool {
        !self.quick && self.programs.is_empty() && self.tools.is_empty()
    }
}

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let options = Options::parse(arguments)?;
    let is_requested = |names: &[String], name: &str| names.is_empty() || names.iter().any(|it| it == name);
    let command = std::iter::once("cargo xtask bench").chain(arguments.iter().copied());
    let command = command.collect::<Vec<_>>().join(" ");
    if options.heap {
        return only(&options, &command, &["heaptrack", "valgrind"], heap::HEADING, heap::section);
    }
    if options.samplers {
        return only(&options, &command, &[], samplers::HEADING, samplers::section);
    }
    if options.waits {
        return only(&options, &command, &["perf"], waits::HEADING, waits::section);
    }
    if options.verdicts {
        return only(&options, &command, &["hyperfine"], verdicts::HEADING, verdicts::section);
    }
    if options.answers {
        return only(&options, &command, &[], answers::HEADING, answers::section);
    }
    if options.causal {
        let only_some = options.programs.clone();
        let section = move |bench: &Bench, quick, rounds, command: &str| {
            causal::section(bench, quick, rounds, command, &only_some)
        };
        return only(&options, &command, &[], causal::HEADING, section);
    }
    let path = tools::prepare()?;
    let milliseconds = if options.quick { 500 } else { 4000 };
    let mut programs = programs::all(milliseconds)?;
    programs.retain(|program| is_requested(&options.programs, program.name));

    let folder = tempfile::Builder::new().prefix("whyslow-bench-").tempdir()?;
    let bench = Bench::new(folder.path(), path)?;
    if options.formats {
        println!("{}", formats::section(&bench, options.rounds));
        return Ok(());
    }
    let tools = TOOLS.iter().filter(|tool| tool.name == PLAIN || is_requested(&options.tools, tool.name));
    let series = |tool| Series { tool, runs: Vec::new(), quality: None };
    let mut results = programs
        .into_iter()
        .map(|program| Results { program, series: tools.clone().map(series).collect() })
        .collect::<Vec<_>>();
    for round in 0..options.rounds {
        for results in &mut results {
            measure_round(&bench, results, round, options.rounds);
        }
    }

    let memory = memory::table(&bench, milliseconds)
        .inspect_err(|error| eprintln!("memory is left out: {error:#}"))
        .unwrap_or_default();
    eprintln!("formats and viewer");
    let formats = formats::section(&bench, options.rounds);
    eprintln!("heap");
    let heap = heap::section(&bench, options.quick, options.rounds, &command);
    eprintln!("samplers");
    let samplers = samplers::section(&bench, options.quick, options.rounds, &command);
    eprintln!("waits");
    let waits = waits::section(&bench, options.quick, options.rounds, &command);
    eprintln!("verdicts");
    let verdicts = verdicts::section(&bench, options.quick, options.rounds, &command);
    eprintln!("answers");
    let answers = answers::section(&bench, options.quick, options.rounds, &command);
    eprintln!("causal");
    let causal = causal::section(&bench, options.quick, options.rounds, &command, &[]);
    let extra = report::Extra {
        memory: &memory,
        formats: &formats,
        heap: &heap,
        samplers: &samplers,
        waits: &waits,
        verdicts: &verdicts,
        answers: &answers,
        causal: &causal,
    };
    let markdown =
        report::markdown(&results, &extra, &tools::versions(&bench.path), &command, options.rounds);
    println!("{markdown}");
    if options.is_whole() {
        std::fs::write(process::root().join("BENCHMARKS.md"), markdown)?;
    }
    Ok(())
}

/// Measures one section alone. A complete run replaces that section in BENCHMARKS.md.
fn only(
    options: &Options,
    command: &str,
    tools: &[&str],
    heading: &str,
    section: impl Fn(&Bench, bool, usize, &str) -> String,
) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("whyslow-bench-").tempdir()?;
    let bench = Bench::new(folder.path(), tools::prepare_only(tools)?)?;
    let text = section(&bench, options.quick, options.rounds, command);
    println!("{text}");
    if options.is_whole() {
        section::replace(heading, &text)?;
    }
    Ok(())
}

/// Runs every tool once on one program, starting with a different one in each round. A tool that fails is
/// left out and named.
fn measure_round(bench: &Bench, results: &mut Results, round: usize, rounds: usize) {
    let count = results.series.len();
    for step in 0..count {
        let series = &mut results.series[(round + step) % count];
        // One failure is enough: without all rounds, a median would not be comparable.
        if series.runs.len() != round {
            continue;
        }
        let start = Instant::now();
        let name = format!("{} / {}", results.program.name, series.tool.name);
        match bench.run(series.tool, &results.program) {
            Ok((run, out)) => {
                series.runs.push(run);
                eprintln!(
                    "round {}/{rounds}  {name:<34} program {:.2} s, recorder {:.3} s, exit to result {:.3} s  ({:.1} s)",
                    round + 1,
                    run.target_cpu,
                    run.recorder_cpu,
                    run.to_result,
                    start.elapsed().as_secs_f64()
                );
                if round == 0 && series.tool.name != PLAIN {
                    series.quality = quality::of(bench, series.tool, &out)
                        .inspect_err(|error| eprintln!("{name}: cannot read the recording: {error:#}"))
                        .ok();
                }
            }
            Err(error) => {
                series.runs.clear();
                eprintln!("{name} is left out: {error:#}");
            }
        }
    }
}
