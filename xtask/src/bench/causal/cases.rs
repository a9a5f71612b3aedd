//! The programs with known answers: their functions, and how many units of progress take about half a second.

use std::path::PathBuf;

use anyhow::Result;
use whyslow_lab_harness::{Variant, build, build_runtime};

use crate::process;

/// A program whose functions can be made faster.
pub(super) struct Case {
    /// Its name in tables.
    pub(super) name: &'static str,
    program: Program,
    /// Its first arguments.
    pub(super) arguments: &'static [&'static str],
    /// Units of progress in a run for the truth.
    pub(super) units: u32,
    /// The functions whose work can be changed.
    pub(super) functions: &'static [&'static str],
    /// Functions that are made faster with all that they call.
    pub(super) whole: &'static [&'static str],
    /// What is measured of it.
    pub(super) measure: Measure,
    /// How far a right estimate may be from the truth, as a share.
    pub(super) tolerance: f64,
}

enum Program {
    /// In `lab/programs`.
    Small(&'static str),
    /// In `lab/runtimes`.
    Runtime(&'static str),
}

/// What becomes better when a function is faster.
#[derive(Clone, Copy)]
pub(super) enum Measure {
    /// The wall time per unit, by the progress point `progress_unit`.
    Unit,
    /// The mean latency, by coz's latency point `request`.
    Latency,
}

impl Measure {
    /// The line of the program's output with this number.
    pub(super) fn line(self) -> &'static str {
        match self {
            Self::Unit => "ns_per_unit",
            Self::Latency => "latency_ns",
        }
    }
}

impl Case {
    pub(super) fn build(&self) -> Result<PathBuf> {
        match self.program {
            Program::Small(name) => build(name, Variant::Release),
            Program::Runtime(name) => build_runtime(name),
        }
    }

    /// Its source, if that is C.
    pub(super) fn c_source(&self) -> Option<PathBuf> {
        let Program::Small(name) = self.program else { return None };
        Some(process::root().join(format!("lab/programs/{name}.c"))).filter(|source| source.is_file())
    }
}

const LOCK: &[&str] = &["long_section", "short_section", "outside"];
const BARRIER: &[&str] = &["work_a", "work_b"];

const fn case(name: &'static str, program: Program, units: u32, functions: &'static [&'static str]) -> Case {
    Case {
        name,
        program,
        arguments: &[],
        units,
        functions,
        whole: &[],
        measure: Measure::Unit,
        tolerance: 0.05,
    }
}

/// Latencies of this length.
const fn short(name: &'static str, arguments: &'static [&'static str], units: u32) -> Case {
    const FUNCTIONS: &[&str] = &["check", "handle", "after", "burn"];
    Case {
        arguments,
        measure: Measure::Latency,
        ..case(name, Program::Small("causal_short"), units, FUNCTIONS)
    }
}

pub(super) const ALL: &[Case] = &[
    case("causal_barrier", Program::Small("causal_barrier"), 250, BARRIER),
    Case {
        whole: &["front"],
        ..case("causal_sequence", Program::Small("causal_sequence"), 125, &["parse", "check", "render"])
    },
    case("causal_sleeper", Program::Small("causal_sleeper"), 250, &["work", "burn"]),
    case("causal_queue", Program::Small("causal_queue"), 500, &["produce", "consume"]),
    Case {
        measure: Measure::Latency,
        ..case("causal_latency", Program::Small("causal_latency"), 125, &["check", "handle", "after"])
    },
    short("causal_short 0.2 ms", &["--us", "200"], 1250),
    short("causal_short 1 ms", &["--us", "1000"], 250),
    short("causal_short 5 ms", &["--us", "5000"], 50),
    Case { tolerance: 0.08, ..case("causal_lock", Program::Small("causal_lock"), 1000, LOCK) },
    Case {
        arguments: &["lock"],
        tolerance: 0.08,
        ..case("causal_pthread lock", Program::Small("causal_pthread"), 1000, LOCK)
    },
    Case {
        arguments: &["barrier"],
        ..case("causal_pthread barrier", Program::Small("causal_pthread"), 250, BARRIER)
    },
    Case {
        tolerance: 0.08,
        ..case("causal_parking_lot", Program::Runtime("causal_parking_lot"), 1000, LOCK)
    },
    Case {
        tolerance: 0.08,
        ..case("causal_rayon", Program::Runtime("causal_rayon"), 200, &["heavy_task", "light_task"])
    },
    case("causal_tokio", Program::Runtime("causal_tokio"), 200, &["slow_handler", "fast_handler"]),
];
