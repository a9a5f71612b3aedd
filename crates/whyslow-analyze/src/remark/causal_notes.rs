//! The messages of notes about causal profiling.

use whyslow_profile::CausalNote;
use whyslow_words::{About, Count, Percent, Remark, Severity, duration, number_of};

/// The remark for a note.
pub(super) fn remark(of: &CausalNote) -> Remark {
    let severity = match of {
        CausalNote::CausalOverloaded { .. } => Severity::Serious,
        CausalNote::CausalFewInScope { .. }
        | CausalNote::CausalCoarseTimers { .. }
        | CausalNote::CausalUnvisited { .. }
        | CausalNote::CausalStacksCut { .. }
        | CausalNote::CausalCostlyPoint { .. }
        | CausalNote::CausalFineGrained { .. } => Severity::Warning,
        _ => Severity::Note,
    };
    let fix = fix(of);
    Remark { severity, fix, ..Remark::note(of.id(), About::Experiments, text(of)) }
}

/// So few samples in the scope say little.
const FEW: u64 = 200;

fn permille(thousandths: u64) -> Percent {
    Percent(thousandths as f64 / 1000.0)
}

fn text(of: &CausalNote) -> String {
    match of {
        CausalNote::CausalOverloaded { queued_permille, limit_permille, busy_threads, cpus } => {
            let cpus = number_of(*cpus, "CPU", "CPUs");
            let threads = number_of(*busy_threads, "busy thread", "busy threads");
            format!(
                "the machine is overloaded: the program's threads queued for {} of the time (limit {}) while other \
                 programs used the CPUs ({threads}, {cpus}). Experiments say nothing under such load",
                permille(*queued_permille),
                permille(*limit_permille)
            )
        }
        CausalNote::CausalFewInScope { samples, of, scope } => {
            let scope = match scope.as_str() {
                "own" => "your own code".to_owned(),
                "all" => "code with lines".to_owned(),
                name => format!("crate {name}"),
            };
            let all = number_of(*of, "sample", "samples");
            match samples {
                0 if *of == 0 => "no sample of the program's own threads: it ran too briefly, or its work is in processes that it starts, \
                                  or it handles signal 32 itself"
                    .to_owned(),
                0 => format!("none of {all} is in {scope}, so there is no target"),
                few if few * 10 < *of => {
                    format!("only {} of {all} are in {scope}: too few to choose targets by", Count(*few))
                }
                few if *few < FEW => {
                    format!("only {}: too few to choose targets by", number_of(*few, "sample", "samples"))
                }
                _ => "no sample is in the lines and functions that were named, so there is no target".to_owned(),
            }
        }
        CausalNote::CausalCoarseTimers { per_second } => {
            let samples = number_of(*per_second, "sample", "samples");
            format!(
                "perf events are not permitted: experiments used CPU timers with {samples} per second and thread. Intervals are \
                 wider, and short critical sections are not resolved"
            )
        }
        CausalNote::CausalThreadsBeyondCpus { threads, cpus } => {
            let cpus = number_of(*cpus, "CPU", "CPUs");
            format!(
                "{} busy threads share {cpus}: waiting for a CPU counts as waiting for the others",
                Count(*threads)
            )
        }
        CausalNote::CausalWholeRuns { runs } => {
            format!(
                "there is no progress point: {} were compared",
                number_of(*runs, "whole run", "whole runs")
            )
        }
        CausalNote::CausalUnvisited { points } => {
            format!("progress points that were never visited: {}", points.join(", "))
        }
        CausalNote::CausalCostlyPoint { point, per_second, visit_ns, cost_permille } => format!(
            "progress point {point} is visited {} times per second, at {} each: that takes {} of a CPU's time, and blurs \
             the effects of code near it",
            Count(*per_second),
            duration(*visit_ns),
            permille(*cost_permille)
        ),
        CausalNote::CausalFineGrained { per_second, period_ns } => format!(
            "threads block {} times per second, but samples are {} apart: effects of code between two waits are blurred",
            Count(*per_second),
            duration(*period_ns)
        ),
        CausalNote::CausalStacksCut { cut, of } => format!(
            "the outer callers of {} of {} are not known: functions with all that they call may have more effect",
            Count(*cut),
            number_of(*of, "stack", "stacks")
        ),
        CausalNote::CausalBudgetEnded { undecided } => {
            format!("the budget ended with {} undecided", number_of(*undecided, "target", "targets"))
        }
        CausalNote::CausalDelays { delayed_permille } => {
            format!(
                "the delays of the experiments slowed the program down by {}",
                permille(*delayed_permille)
            )
        }
    }
}

fn fix(of: &CausalNote) -> Option<String> {
    let fix = match of {
        CausalNote::CausalOverloaded { .. } => "stop other programs, or use a machine with free CPUs",
        CausalNote::CausalFewInScope { of: 0, .. } => {
            "let the program run for seconds, without a shell around it"
        }
        CausalNote::CausalFewInScope { samples, of, .. } if samples * 10 >= *of => {
            "let the program run for longer, and name code that uses CPU time, as `whyslow report FILE` shows"
        }
        CausalNote::CausalFewInScope { .. } => {
            "build with line tables (Cargo: debug = \"line-tables-only\"), or widen the scope with --scope all"
        }
        CausalNote::CausalCoarseTimers { .. } => "allow perf events: `whyslow doctor` says how",
        CausalNote::CausalWholeRuns { .. } => {
            "name a function that runs once per request or item: --progress FUNCTION"
        }
        CausalNote::CausalUnvisited { .. } => "choose a function that the program calls again and again",
        CausalNote::CausalCostlyPoint { .. } => {
            "take a function's entry, which costs nanoseconds, or a point that is visited less often"
        }
        CausalNote::CausalFineGrained { .. } => "sample more often, or count progress per batch",
        CausalNote::CausalStacksCut { .. } => "build all code with unwind tables, on glibc 2.35 or newer",
        CausalNote::CausalBudgetEnded { .. } => "allow more time: --budget 300s",
        CausalNote::CausalThreadsBeyondCpus { .. } | CausalNote::CausalDelays { .. } => return None,
    };
    Some(fix.to_owned())
}
