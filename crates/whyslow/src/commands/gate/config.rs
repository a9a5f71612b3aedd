//! `whyslow.toml`: the benches, their budgets and accepted regressions.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde::de::Error as _;
use whyslow_bench::run::{ALLOCATED, ALLOCATIONS, PEAK, SIMULATED_INSTRUCTIONS};

use crate::failure::{Failure, Result};
use crate::values;

/// The section of the file about the gate.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct File {
    #[serde(default)]
    pub(super) gate: Gate,
}

/// What to measure and how to judge it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Gate {
    /// The build command for base and head.
    pub(super) build: Option<String>,
    /// Differences below this share do not matter.
    pub(super) margin: Option<Share>,
    /// The number of rounds.
    pub(super) runs: Option<u32>,
    /// How to treat undecided results.
    #[serde(default)]
    pub(super) undecided: Policy,
    /// The benches by name.
    #[serde(default)]
    pub(super) bench: BTreeMap<String, Bench>,
    /// Accepted regressions.
    #[serde(default)]
    pub(super) accept: Vec<Accept>,
}

/// How to treat undecided results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Policy {
    /// They pass.
    Pass,
    /// They fail: exit code 3.
    Fail,
    /// Run more rounds, up to 200; if still undecided, exit code 3.
    #[default]
    Extend,
}

/// A command to measure.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Bench {
    /// The command. A program with a relative path is that of base or head.
    pub(super) command: String,
    /// A shell command before each run.
    pub(super) prepare: Option<String>,
    /// A shell command once before all runs.
    pub(super) setup: Option<String>,
    /// A file for stdin.
    pub(super) input: Option<String>,
    /// Its own margin.
    pub(super) margin: Option<Share>,
    /// Also compare allocations and peak memory.
    #[serde(default)]
    pub(super) heap: bool,
    /// Also compare instructions.
    #[serde(default)]
    pub(super) instructions: bool,
    /// The maximum time of head (median of the time that decides).
    pub(super) max_time: Option<Time>,
    /// The maximum instructions of head.
    pub(super) max_instructions: Option<u64>,
    /// The maximum live memory of head.
    pub(super) max_peak: Option<Bytes>,
    /// The maximum allocations of head.
    pub(super) max_allocations: Option<u64>,
    /// The maximum file size of head's program.
    pub(super) max_binary: Option<Bytes>,
    /// The maximum size of crates in head's program, by name.
    #[serde(default)]
    pub(super) max_crates: BTreeMap<String, Bytes>,
}

/// An accepted regression.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Accept {
    /// The bench.
    pub(super) bench: String,
    /// The metric; by default the one that decides.
    pub(super) metric: Option<String>,
    /// The largest accepted change.
    pub(super) up_to: Share,
    /// The reason.
    pub(super) reason: String,
}

/// `2%`
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Share(pub(super) f64);
/// `500ms`
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Time(pub(super) Duration);
/// `10M`
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Bytes(pub(super) u64);

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        values::share(&String::deserialize(from)?).map(Self).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        values::positive_duration(&String::deserialize(from)?).map(Self).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        values::bytes(&String::deserialize(from)?).map(Self).map_err(D::Error::custom)
    }
}

/// The metrics that a regression can be accepted for.
const ACCEPTABLE: [&str; 7] =
    ["wall-time", "cpu-time", "instructions", SIMULATED_INSTRUCTIONS, ALLOCATIONS, ALLOCATED, PEAK];

/// Reads the file.
pub(super) fn read(path: &Path) -> Result<Gate> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::new(format!("{}: {error}", path.display()))
            .next("a whyslow.toml with [gate.bench.NAME] and command = \"…\"; docs/gate.md has one")
    })?;
    let gate = parse(&text)
        .map_err(|why| Failure::new(format!("{}: {why}", path.display())).next("docs/gate.md"))?;
    if gate.bench.is_empty() {
        return Err(Failure::new(format!("{}: it has no [gate.bench.NAME]", path.display()))
            .next("the example in docs/gate.md"));
    }
    Ok(gate)
}

pub(super) fn parse(text: &str) -> std::result::Result<Gate, String> {
    let gate = toml::from_str::<File>(text).map_err(|error| one_line(&error.to_string()))?.gate;
    if gate.runs == Some(0) {
        return Err(
            "runs = 0: nothing would be measured; 6 is the least for a verdict, 20 the default".to_owned()
        );
    }
    for accept in &gate.accept {
        if let Some(metric) = accept.metric.as_deref().filter(|metric| !ACCEPTABLE.contains(metric)) {
            let known = ACCEPTABLE.join(", ");
            return Err(format!(
                "a regression of `{}` is accepted, but there is no metric `{metric}`; the metrics are {known}",
                accept.bench
            ));
        }
        if accept.reason.trim().is_empty() {
            return Err(format!("the accepted regression of `{}` has no reason", accept.bench));
        }
        if !gate.bench.contains_key(&accept.bench) {
            return Err(format!(
                "a regression of `{}` is accepted, but there is no such bench",
                accept.bench
            ));
        }
    }
    Ok(gate)
}

/// The error on one line, with its position.
fn one_line(error: &str) -> String {
    let lines = error
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('|') && !line.starts_with('^'));
    lines.collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_a_complete_file() {
        let gate = parse(
            "[gate]\nbuild = \"make\"\nmargin = \"2%\"\nundecided = \"fail\"\n\
             [gate.bench.parse]\ncommand = \"target/release/app big.json\"\nheap = true\nmax-time = \"1.5s\"\nmax-peak = \"100M\"\n\
             [[gate.accept]]\nbench = \"parse\"\nup-to = \"8%\"\nreason = \"checks signatures now\"\n[other]\nx = 1\n",
        )
        .unwrap();
        assert_eq!((gate.margin, gate.undecided), (Some(Share(0.02)), Policy::Fail));
        assert_eq!(gate.bench["parse"].max_peak, Some(Bytes(100 << 20)));
        assert_eq!(gate.accept[0].up_to, Share(0.08));
        assert_eq!(parse("").unwrap().undecided, Policy::Extend);
    }

    #[test]
    fn errors_name_the_problem_and_its_position() {
        for (text, says) in [
            ("[gate]\nmargin = \"2 apples\"", "not a share"),
            ("[gate]\nmargins = \"2%\"", "margins"),
            ("[gate", "line 1"),
            ("[gate]\nruns = 0", "nothing would be measured"),
            (
                "[gate.bench.x]\ncommand = \"x\"\n[[gate.accept]]\nbench = \"x\"\nmetric = \"alocations\"\nup-to = \"8%\"\nreason = \"y\"",
                "no metric `alocations`",
            ),
            ("[[gate.accept]]\nbench = \"x\"\nup-to = \"8%\"\nreason = \" \"", "no reason"),
            ("[[gate.accept]]\nbench = \"x\"\nup-to = \"8%\"\nreason = \"y\"", "no such bench"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(says) && !error.contains('\n'), "{error}");
        }
    }
}
