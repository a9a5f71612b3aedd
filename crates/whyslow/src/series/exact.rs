//! Counts that are the same in every run, so that one more run of each command is enough: allocations, and
//! instructions counted by valgrind.

use std::path::Path;
use std::process::{Command, Stdio};

use whyslow_bench::rounds::{Series, values};
use whyslow_bench::run::{ALLOCATED, ALLOCATIONS, PEAK, SIMULATED_INSTRUCTIONS};
use whyslow_bench::{BenchNote, Metric};
use whyslow_valgrind::{Job, ProcessRun, Streams, Tool, Valgrind};

use super::Runnable;
use crate::cli::Volume;
use crate::failure::{Failure, Result};
use crate::{profile_file, valgrind};

/// What to count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exact {
    pub(crate) heap: bool,
    pub(crate) instructions: bool,
}

/// The requested counts of each command.
pub(crate) fn counted(
    wanted: Exact,
    runnables: &[Runnable],
    series: &Series,
    notes: &mut Vec<BenchNote>,
    volume: Volume,
) -> Result<Vec<Vec<(String, f64)>>> {
    let mut all = vec![Vec::new(); runnables.len()];
    if wanted.heap {
        for (counted, runnable) in all.iter_mut().zip(runnables) {
            counted.extend(heap(runnable)?);
        }
    }
    let instructions = Metric::Event("instructions".to_owned());
    if wanted.instructions && values(&series.rounds, 0, &instructions).is_none() {
        match Valgrind::find() {
            Ok(installed) => {
                for (counted, runnable) in all.iter_mut().zip(runnables) {
                    let count = simulated(&installed, runnable, volume)?;
                    counted.push((SIMULATED_INSTRUCTIONS.to_owned(), count));
                }
            }
            Err(error) => notes.push(BenchNote::NotMeasured {
                metric: "instructions".to_owned(),
                why: format!("CPU counters are not available here, and {error}"),
                fix: "sudo apt install valgrind, or a machine with CPU counters".to_owned(),
            }),
        }
    }
    Ok(all)
}

/// Another program that runs the command, without its output.
fn around(program: &Path, runnable: &Runnable) -> Command {
    let mut command = whyslow_capture::restored_command(program);
    if let Some(folder) = &runnable.folder {
        command.current_dir(folder);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Records every allocation of one run with `whyslow heap`.
fn heap(runnable: &Runnable) -> Result<Vec<(String, f64)>> {
    let name = &runnable.contender.name;
    let failed = |why: String| Failure::new(format!("--heap: cannot record `{name}`: {why}"));
    let folder = tempfile::tempdir().map_err(|error| failed(error.to_string()))?;
    let file = folder.path().join("run.whyslow");
    let own = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let mut command = around(&own, runnable);
    command.args(["-q", "heap", "--no-leak-check", "-o"]).arg(&file).arg("--").args(&runnable.words);
    command.status().map_err(|error| failed(error.to_string()))?;
    let profile = profile_file::read(&file)
        .map_err(|_| failed("try: whyslow heap -- COMMAND, to see why".to_owned()))?;
    let sum = |of: fn(&whyslow_profile::HeapCounts) -> u64| {
        profile.heap.sites.iter().map(|site| of(&site.counts)).sum::<u64>() as f64
    };
    let peak = profile.meta.heap.as_ref().map_or(0, |facts| facts.peak_bytes);
    Ok(vec![
        (ALLOCATIONS.to_owned(), sum(|counts| counts.allocations)),
        (ALLOCATED.to_owned(), sum(|counts| counts.bytes_allocated)),
        (PEAK.to_owned(), peak as f64),
    ])
}

/// The instructions of one run.
fn simulated(installed: &Valgrind, runnable: &Runnable, volume: Volume) -> Result<f64> {
    let name = &runnable.contender.name;
    let job = Job {
        options: vec!["--cache-sim=no".into()],
        children: false,
        streams: Streams::Null,
        ..Job::new(Tool::Cachegrind, runnable.command())
    };
    let doing = format!("counting the instructions of {name}");
    let run = valgrind::run(installed, &job, &doing, None, volume)?;
    if run.asked_to_end {
        return Err(Failure::new(format!("{doing}: stopped before the end")));
    }
    let words = run.processes.first().map(ProcessRun::words).unwrap_or_default();
    refs(&words).ok_or_else(|| {
        Failure::new(format!("--instructions: `{name}`: valgrind's log has no instruction count"))
            .next(format!("valgrind --tool=cachegrind --cache-sim=no {name}"))
    })
}

/// `I refs:        1,234`
fn refs(log: &str) -> Option<f64> {
    let line =
        log.lines().find_map(|line| line.split_once("I refs:").or_else(|| line.split_once("I   refs:")))?;
    line.1.trim().replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_spellings_in_valgrinds_log() {
        assert_eq!(refs("==1== \n==1== I   refs:      1,234,567\n"), Some(1_234_567.0));
        assert_eq!(refs("==1== I refs:        12"), Some(12.0));
        assert_eq!(refs("valgrind: no such file"), None);
    }
}
