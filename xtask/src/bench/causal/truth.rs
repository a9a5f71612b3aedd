//! What less work in a function really saves.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use whyslow_lab_harness::Truth;
use whyslow_stats::pairs::{ALPHA, Interval, Walsh, log_ratios};

use super::SPEEDUPS;
use super::cases::Case;

/// No run takes nearly as long.
const LONGEST: Duration = Duration::from_secs(60);

/// What runs of a program without causal profiling say.
pub(super) struct Measured {
    /// What a function that is faster saves.
    pub(super) savings: Vec<Saving>,
    /// Nanoseconds per unit, or of latency, with all of the work.
    pub(super) whole_ns: f64,
}

/// What a function that is faster saves.
pub(super) struct Saving {
    /// By how much the function is faster.
    pub(super) percent: u32,
    /// The share of the time per unit, or of the latency, that this saves.
    pub(super) share: Interval,
}

/// Runs the program with all of the work and with less of it, in turn, beginning with another one in each round.
pub(super) fn measure(case: &Case, program: &Path, function: &str, rounds: usize) -> Result<Measured> {
    let percents: Vec<u32> = std::iter::once(0).chain(SPEEDUPS).collect();
    let mut times = vec![Vec::new(); percents.len()];
    for round in 0..rounds {
        for step in 0..percents.len() {
            let which = (round + step) % percents.len();
            times[which].push(time(case, program, function, percents[which])?);
        }
    }
    let (whole, faster) = times.split_first().context("no speed-up is measured")?;
    let savings = SPEEDUPS.iter().zip(faster).map(|(&percent, times)| {
        let share = saving(whole, times).context("too few rounds for an interval")?;
        Ok(Saving { percent, share })
    });
    Ok(Measured { savings: savings.collect::<Result<_>>()?, whole_ns: whyslow_stats::median(whole) })
}

/// One run: nanoseconds per unit, or of latency.
fn time(case: &Case, program: &Path, function: &str, percent: u32) -> Result<f64> {
    let scale = f64::from(100 - percent) / 100.0;
    let mut command = Command::new(program);
    command.args(case.arguments.iter().map(OsString::from));
    command.args(["--units", &case.units.to_string(), "--scale", &format!("{function}={scale}")]);
    let output = whyslow_lab_harness::run(&mut command, LONGEST)?;
    ensure!(output.status.success(), "{} failed", program.display());
    let truth = Truth::parse(&String::from_utf8_lossy(&output.stdout));
    let line = case.measure.line();
    truth.counts.get(line).map(|ns| *ns as f64).with_context(|| format!("it does not print {line}"))
}

/// The share of the time that is saved: 1 - faster / whole. With few rounds, the interval is as wide as they
/// spread.
fn saving(whole: &[f64], faster: &[f64]) -> Option<Interval> {
    let differences = log_ratios(whole, faster)?;
    let walsh = Walsh::new(&differences);
    let spread = || {
        let low = differences.iter().copied().reduce(f64::min)?;
        let high = differences.iter().copied().reduce(f64::max)?;
        Some(Interval { estimate: walsh.estimate(), low, high })
    };
    let ratio = walsh.interval(ALPHA).or_else(spread)?.exp();
    Some(Interval { estimate: 1.0 - ratio.estimate, low: 1.0 - ratio.high, high: 1.0 - ratio.low })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saving_is_the_share_of_the_time_that_is_gone() {
        let saved = saving(&[100.0, 110.0, 90.0], &[75.0, 82.5, 67.5]).unwrap();
        for share in [saved.estimate, saved.low, saved.high] {
            assert!((share - 0.25).abs() < 1e-9, "{saved:?}");
        }
        let spread = saving(&[100.0, 100.0], &[50.0, 60.0]).unwrap();
        assert!(spread.low < 0.41 && spread.high > 0.49, "{spread:?}");
    }
}
