//! `whyslow.toml`: what is measured, and what is allowed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde::de::Error as _;

use crate::failure::{Failure, Result};
use crate::values;

/// The part of the file that is about the gate.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct File {
    #[serde(default)]
    pub(super) gate: Gate,
}

/// What is measured, and what becomes of the results.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Gate {
    /// How base and head are built.
    pub(super) build: Option<String>,
    /// A difference below this share does not matter.
    pub(super) margin: Option<Share>,
    /// How many rounds are made.
    pub(super) runs: Option<u32>,
    /// What becomes of what is not decided.
    #[serde(default)]
    pub(super) undecided: Policy,
    /// What is measured, by name.
    #[serde(default)]
    pub(super) bench: BTreeMap<String, Bench>,
    /// Regressions that somebody has agreed to.
    #[serde(default)]
    pub(super) accept: Vec<Accept>,
}

/// What becomes of what is not decided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Policy {
    /// It passes.
    Pass,
    /// It does not: exit code 3.
    Fail,
    /// More rounds are made, up to 200; then exit code 3.
    #[default]
    Extend,
}

/// A command that is measured.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Bench {
    /// The command; a program that is named by a path is that of base or head.
    pub(super) command: String,
    /// A shell command before each run.
    pub(super) prepare: Option<String>,
    /// A shell command once before all runs.
    pub(super) setup: Option<String>,
    /// What it reads.
    pub(super) input: Option<String>,
    /// Its own margin.
    pub(super) margin: Option<Share>,
    /// Whether allocations and the peak are compared, too.
    #[serde(default)]
    pub(super) heap: bool,
    /// Whether instructions are compared, too.
    #[serde(default)]
    pub(super) instructions: bool,
    /// The most time that head may take, by the median.
    pub(super) max_time: Option<Time>,
    /// The most instructions that head may take.
    pub(super) max_instructions: Option<u64>,
    /// The most memory that head may have live.
    pub(super) max_peak: Option<Bytes>,
    /// The most allocations that head may make.
    pub(super) max_allocations: Option<u64>,
    /// The largest file that the program of head may be.
    pub(super) max_binary: Option<Bytes>,
}

/// A regression that somebody has agreed to.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Accept {
    /// Of which bench.
    pub(super) bench: String,
    /// By which metric; that which decides if it is left out.
    pub(super) metric: Option<String>,
    /// Up to which change.
    pub(super) up_to: Share,
    /// Why.
    pub(super) reason: String,
}

/// `2%`
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Share(pub(super) f64);
/// `500ms`
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Time(pub(super) Duration);
/// `10M`
#[derive(Debug, Clone, Copy, PartialEq)]
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

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<Gate> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::new(format!("{}: {error}", path.display()))
            .next("a whyslow.toml with [gate.bench.NAME] and command = \"…\"; docs/gate.md has one")
    })?;
    let gate = parse(&text).map_err(|why| Failure::new(format!("{}: {why}", path.display())).next("docs/gate.md"))?;
    if gate.bench.is_empty() {
        return Err(Failure::new(format!("{}: there is no [gate.bench.NAME] in it", path.display())).next("docs/gate.md has an example"));
    }
    Ok(gate)
}

fn parse(text: &str) -> std::result::Result<Gate, String> {
    let gate = toml::from_str::<File>(text).map_err(|error| one_line(&error.to_string()))?.gate;
    for accept in &gate.accept {
        if accept.reason.trim().is_empty() {
            return Err(format!("the accepted regression of `{}` has no reason", accept.bench));
        }
        if !gate.bench.contains_key(&accept.bench) {
            return Err(format!("a regression of `{}` is accepted, and there is no such bench", accept.bench));
        }
    }
    Ok(gate)
}

/// What is wrong, and where.
fn one_line(error: &str) -> String {
    let lines = error.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('|') && !line.starts_with('^'));
    lines.collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_file_is_read() {
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
    fn what_is_wrong_is_said_with_its_place() {
        for (text, says) in [
            ("[gate]\nmargin = \"2 apples\"", "not a share"),
            ("[gate]\nmargins = \"2%\"", "margins"),
            ("[gate", "line 1"),
            ("[[gate.accept]]\nbench = \"x\"\nup-to = \"8%\"\nreason = \" \"", "no reason"),
            ("[[gate.accept]]\nbench = \"x\"\nup-to = \"8%\"\nreason = \"y\"", "no such bench"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(says) && !error.contains('\n'), "{error}");
        }
    }
}
