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
        CausalNote::CausalOverloaded { queued_permille, limit_permille, cpus, .. } => {
            let per_second = |permille: u64| duration(permille.saturating_mul(1_000_000));
            format!(
                "the machine is overloaded: while other programs used the CPUs, the program's threads queued for {} per second, \
                 added up (limit {}; {}). Experiments say nothing under such load",
                per_second(*queued_permille),
                per_second(*limit_permille),
                number_of(*cpus, "CPU", "CPUs")
            )
        }
        CausalNote::CausalFewInScope { samples, of, scope } => {
            let scope = match scope.as_str() {
                "own" => "your own code".to_owned(),
                "all" => "code with lines".to_owned(),
                name => format!("crate {name}"),
            };
            let all = number_of(*of, "sample", "samples");
            let are = if *samples == 1 { "is" } else { "are" };
            match samples {
                0 if *of == 0 => "no sample of the program's own threads: it ran too briefly, or its work is in processes that it starts, \
                                  or it handles signal 32 itself"
                    .to_owned(),
                0 => format!("none of {all} is in {scope}, so there is no target"),
                few if few.saturating_mul(10) < *of => {
                    format!("only {} of {all} {are} in {scope}: too few to choose targets by", Count(*few))
                }
                few if *few < FEW => {
                    format!("only {}: too few to choose targets by", number_of(*few, "sample", "samples"))
                }
                few => format!(
                    "{} of {all} {are} in {scope}, but no line or function has 2 % of all samples, so there is no target",
                    Count(*few)
                ),
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
            "threads block {} times per second, but samples are {} apart: effects of code between two waits are blurred, \
             and their intervals wider",
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
        CausalNote::CausalFewInScope { samples, of, .. } if samples.saturating_mul(10) >= *of => {
            "let the program run for longer, name code that uses CPU time (--line, --function), or widen the scope with --scope all"
        }
        CausalNote::CausalFewInScope { .. } => {
            "build with line tables (Cargo: debug = \"line-tables-only\"), or widen the scope with --scope all"
        }
        CausalNote::CausalCoarseTimers { .. } => "allow perf events: `whyslow doctor` says how",
        CausalNote::CausalWholeRuns { .. } => {
            "name a function that runs once per request or item: --progress FUNCTION; `whyslow causal --suggest` proposes some"
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

#[cfg(test)]
mod tests {
    use super::*;

    fn few(samples: u64, of: u64) -> Remark {
        remark(&CausalNote::CausalFewInScope { samples, of, scope: "own".to_owned() })
    }

    #[test]
    fn only_a_program_without_lines_is_told_to_get_some() {
        let ended = few(0, 0);
        assert!(ended.text.contains("ran too briefly"), "{}", ended.text);
        assert!(!ended.fix.unwrap().contains("line-tables"));
        assert!(few(0, 300).fix.unwrap().contains("line-tables"));
        assert_eq!(
            few(3, 300).text,
            "only 3 of 300 samples are in your own code: too few to choose targets by"
        );
    }

    #[test]
    fn queued_time_of_several_threads_is_in_seconds_per_second() {
        let (queued_permille, limit_permille) = (1800, 300);
        let text = remark(&CausalNote::CausalOverloaded {
            queued_permille,
            limit_permille,
            busy_threads: 0,
            cpus: 2,
        })
        .text;
        assert!(text.contains("queued for 1.80 s per second, added up (limit 300 ms; 2 CPUs)"), "{text}");
    }
}
