//! Notes about experiments of causal profiling.

use serde::{Deserialize, Serialize};

crate::facts! {
    /// A note about the experiments of causal profiling.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(tag = "id", rename_all = "kebab-case")]
    pub enum CausalNote {
        /// The program's threads queued for CPUs that other programs used. Its experiments say nothing.
        "causal-overloaded" => CausalOverloaded {
            /// The time for which threads queued, in thousandths of the experiments' length.
            queued_permille: u64,
            /// From which on experiments are refused.
            limit_permille: u64,
            /// The usual number of busy threads.
            busy_threads: u64,
            /// The number of CPUs.
            cpus: u64,
        },
        /// Few CPU samples were in the code that may be a target.
        "causal-few-in-scope" => CausalFewInScope {
            /// How many.
            samples: u64,
            /// All CPU samples.
            of: u64,
            /// Where targets were sought: a crate's name, `own` or `all`.
            scope: String,
        },
        /// Perf events are not permitted: samples come from timers, which are too coarse for precise delays.
        "causal-coarse-timers" => CausalCoarseTimers {
            /// Timer samples per second and thread.
            per_second: u64,
        },
        /// The program has more busy threads than there are CPUs.
        "causal-threads-beyond-cpus" => CausalThreadsBeyondCpus {
            /// The usual number of busy threads.
            threads: u64,
            /// The number of CPUs.
            cpus: u64,
        },
        /// There is no progress point, so whole runs are compared.
        "causal-whole-runs" => CausalWholeRuns {
            /// How many.
            runs: u64,
        },
        /// Progress points that were never visited.
        "causal-unvisited" => CausalUnvisited {
            /// Their names.
            points: Vec<String>,
        },
        /// Visits of a progress point slow the program down.
        "causal-costly-point" => CausalCostlyPoint {
            /// Its name.
            point: String,
            /// How often it was visited, per second.
            per_second: u64,
            /// What a visit costs, in nanoseconds.
            visit_ns: u64,
            /// What all visits cost, in thousandths of a CPU's time.
            cost_permille: u64,
        },
        /// The program synchronises so often that a sample is longer than a round of it.
        "causal-fine-grained" => CausalFineGrained {
            /// How often threads block, per second.
            per_second: u64,
            /// The sampling interval, in nanoseconds.
            period_ns: u64,
        },
        /// For functions with all that they call: stacks of which not all callers could be seen.
        "causal-stacks-cut" => CausalStacksCut {
            /// How many.
            cut: u64,
            /// All stacks that were looked through.
            of: u64,
        },
        /// The budget ended before all targets were decided.
        "causal-budget-ended" => CausalBudgetEnded {
            /// How many targets are undecided.
            undecided: u64,
        },
        /// What the delays cost the program, over all experiments.
        "causal-delays" => CausalDelays {
            /// The delays, in thousandths of the experiments' length.
            delayed_permille: u64,
        },
    }
}
