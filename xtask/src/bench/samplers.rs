//! whyslow's two samplers, the kernel's perf events and the programs' own timers: how true both are, and what a sample costs.

mod accuracy;
mod cost;
mod starts;

use std::fmt::Write;

use super::measure::Bench;
use super::report::machine;

/// The heading of the section in BENCHMARKS.md.
pub(super) const HEADING: &str = "## Samplers";

/// The section. What cannot be measured here is said in its place.
pub(super) fn section(bench: &Bench, quick: bool, rounds: usize, command: &str) -> String {
    let mut out = format!("Made by `{command}`; {}.\n\n", machine());
    let parts = [
        ("accuracy", accuracy::section(bench, quick)),
        ("cost", cost::section(bench, quick, rounds)),
        ("starts", starts::section(bench, quick, rounds)),
    ];
    for (name, text) in parts {
        match text {
            Ok(text) => out.push_str(&text),
            Err(error) => {
                let _ = writeln!(out, "Not measured ({name}): {error:#}\n");
            }
        }
    }
    out
}
