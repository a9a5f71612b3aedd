//! Runs the benchmarks: each run of an executable gives one number.

use std::fs;

use whyslow_bench::foreign::criterion;
use whyslow_bench::harness::{Effort, Harness};
use whyslow_bench::padding;
use whyslow_bench::suite::{Measure, Turn};
use whyslow_capture::{Command, Input, Stopwatch, TimedCommand, Written};

use super::side::{End, Listed, Side, brief, end};
use crate::cli::Volume;
use crate::failure::{Failure, Result};
use crate::recording::explain;
use crate::series::Line;

/// Runs the benchmarks.
pub(super) struct Turns<'a> {
    stopwatch: Stopwatch,
    sides: &'a [Side],
    listed: &'a [Listed],
    effort: Effort,
    rounds: usize,
    line: Line,
    /// For the output of executables and criterion's files; the user's own results are not touched.
    folder: tempfile::TempDir,
}

impl<'a> Turns<'a> {
    pub(super) fn new(
        sides: &'a [Side],
        listed: &'a [Listed],
        effort: Effort,
        rounds: usize,
        volume: Volume,
    ) -> Result<Self> {
        let folder = tempfile::tempdir()
            .map_err(|error| Failure::new(format!("cannot create a folder for results: {error}")))?;
        let stopwatch = Stopwatch::new(&[]).map_err(explain)?;
        Ok(Self { stopwatch, sides, listed, effort, rounds, line: Line::new(volume), folder })
    }
}

impl Measure for Turns<'_> {
    type Error = Failure;

    fn measure(&mut self, benchmark: usize, side: usize, round: usize, padding: usize) -> Result<Turn> {
        let one = &self.listed[benchmark];
        let Some(executable) = one.places[side].map(|place| &self.sides[side].executables[place]) else {
            return Ok(Turn::Failed("the benchmark is missing".to_owned()));
        };
        if let Some(why) = executable.broken.get(&one.name) {
            return Ok(Turn::Failed(why.clone()));
        }
        self.line.show(&format!("round {} of {}: {}", round + 1, self.rounds, one.name));
        let (home, printed) = (self.folder.path().join("criterion"), self.folder.path().join("printed"));
        // Criterion must not compare with an earlier run.
        let _ = fs::remove_dir_all(&home);
        let args = executable.harness.measuring_args(&one.name, self.effort);
        let mut command =
            Command { args: args.into_iter().map(Into::into).collect(), ..brief(&executable.command) };
        command.env.push(("CRITERION_HOME".into(), home.clone().into()));
        command.env.push(padding::variable(padding));
        let output = Written::File(printed.clone());
        let timed = TimedCommand {
            command,
            file: None,
            input: Input::Null,
            output,
            timeout: None,
            keep_stderr: true,
        };
        let run = self.stopwatch.run(&timed).map_err(explain)?;
        match end(run.end, &run.stderr) {
            End::Succeeded => {}
            End::Interrupted => return Ok(Turn::Stop),
            End::Failed(why) => return Ok(Turn::Failed(why)),
        }
        let ns = match executable.harness {
            Harness::Criterion { .. } => {
                let stored = criterion::read_folder(&home, "new");
                stored.iter().find(|stored| stored.name == one.name).map(criterion::Stored::median_ns)
            }
            harness => harness.printed_ns(&one.name, &fs::read_to_string(&printed).unwrap_or_default()),
        };
        // A ratio needs times above 0.
        let ns = ns.filter(|ns| ns.is_finite() && *ns > 0.0);
        Ok(ns.map_or_else(|| Turn::Failed("it reported no time above 0".to_owned()), Turn::Nanoseconds))
    }
}
