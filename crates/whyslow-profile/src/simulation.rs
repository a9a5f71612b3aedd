//! A simulated machine: its caches, and the names of what is counted in it.

use serde::{Deserialize, Serialize};

/// The metric of instructions.
pub const INSTRUCTIONS: &str = "instructions";
/// The metric of misses of the first-level data cache.
pub const D1_MISSES: &str = "D1-misses";
/// The metric of misses of the first-level instruction cache.
pub const I1_MISSES: &str = "I1-misses";
/// The metric of misses of the last-level cache.
pub const LL_MISSES: &str = "LL-misses";
/// The metric of mispredicted branches.
pub const BRANCH_MISSES: &str = "branch-misses";

/// Valgrind's events: instructions; reads and writes of data; misses of the first level (I1, D1) and of the last
/// (IL, DL) by instructions, reads and writes; conditional and indirect branches and those mispredicted.
pub const EVENTS: [&str; 13] =
    ["Ir", "Dr", "Dw", "I1mr", "D1mr", "D1mw", "ILmr", "DLmr", "DLmw", "Bc", "Bcm", "Bi", "Bim"];

/// whyslow's metrics, each the sum of Valgrind's events, in the order in which they are shown.
pub const SUMS: [(&str, &[&str]); 5] = [
    (INSTRUCTIONS, &["Ir"]),
    (D1_MISSES, &["D1mr", "D1mw"]),
    (LL_MISSES, &["ILmr", "DLmr", "DLmw"]),
    (BRANCH_MISSES, &["Bcm", "Bim"]),
    (I1_MISSES, &["I1mr"]),
];

/// How a program was simulated.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Simulation {
    /// Valgrind's tool; empty for a file of another tool.
    pub tool: String,
    /// Valgrind's version.
    pub version: String,
    /// The caches: I1, D1 and LL.
    pub caches: Vec<Cache>,
    /// How long the simulation took.
    pub elapsed_ns: u64,
    /// The functions that were simulated with all they call; none if everything was.
    pub only_inside: Vec<String>,
    /// Processes that ended before Valgrind could write their numbers.
    pub lost_processes: Vec<String>,
}

/// A cache.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cache {
    /// `I1`, `D1` or `LL`.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The size of a line.
    pub line_bytes: u64,
    /// Lines per set.
    pub ways: u64,
}
