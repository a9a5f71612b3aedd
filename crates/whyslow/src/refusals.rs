//! The words for questions without an answer: what is wrong with which file, and what to try next.

use std::path::Path;

use whyslow_analyze::heap::LIVE;
use whyslow_analyze::{FindError, SelectionError};
use whyslow_answers::{FilterError, FilterName, Missing, Refusal};
use whyslow_profile::heap;

use crate::failure::Failure;
use crate::shell;

/// The error for a query about a file.
pub(crate) fn of(path: &Path, refusal: Refusal) -> Failure {
    let file = shell::file(path);
    let plain = Failure::new(refusal.to_string());
    let of_file = Failure::new(format!("{}: {refusal}", path.display()));
    match refusal {
        Refusal::NeedsFunction { view } => plain.next(format!("whyslow report {file} {view} main")),
        Refusal::TakesNoFunction { function } => {
            let option = format!("--function {}", shell::quoted(&function));
            plain.next(format!("{option}, to keep only samples with it on the stack"))
        }
        Refusal::Filter(error) => of_filter(path, error),
        Refusal::Function(FindError::Ambiguous { candidates, .. }) => {
            let first = candidates.first().map_or("", String::as_str);
            of_file.next(format!("more of the name, such as {}", shell::quoted(first)))
        }
        // The message names similar functions.
        Refusal::Function(FindError::Unknown { .. }) => of_file,
        // The same command as before would not help.
        Refusal::NotRecorded { noted: Some(remark), .. } => match remark.fix {
            Some(fix) => of_file.next(fix),
            None => of_file,
        },
        Refusal::NotRecorded { missing, noted: None } => of_file.next(recorded_by(missing)),
        Refusal::HeapNotSummedUp => {
            of_file.next(format!("whyslow report {file} functions, for the samples saved before that"))
        }
        Refusal::OnlyLiveBytes { .. } => {
            of_file.next(format!("whyslow report {file} functions --metric {}", heap::metric::LIVE_AT_PEAK))
        }
        Refusal::HeapOfAPart | Refusal::SummaryOfAPart => {
            plain.next(format!("whyslow report {file} functions with the same options"))
        }
        Refusal::CausalOfAPart => plain.next(format!("whyslow report {file} causal")),
        Refusal::LinesHaveNoTotal => {
            plain.next("--by own or --by self, or `lines FUNCTION` for one function")
        }
    }
}

/// The error for filters that select nothing in a file.
pub(crate) fn of_filter(path: &Path, error: FilterError) -> Failure {
    match error {
        FilterError::NoRegex { filter, text, reason } => {
            let option = match filter {
                FilterName::Thread => "--thread",
                FilterName::Process => "--process",
                FilterName::Function => "--function",
            };
            Failure::new(format!("{option} '{text}': not a regular expression: {reason}"))
                .next(format!("{option} {}, to search for this text", shell::quoted(&regex::escape(&text))))
        }
        FilterError::LiveAtInARange => Failure::new("--live-at is one point in time, and --time is a range")
            .next("--live-at alone, or --metric live with --time ..END"),
        FilterError::LiveAtOfAnotherMetric { metric } => {
            Failure::new(format!("--live-at shows live bytes, but --metric asks for '{metric}'"))
                .next("--live-at without --metric")
        }
        FilterError::Selection(error) => {
            let failure = Failure::new(format!("{}: {error}", path.display()));
            match &error {
                SelectionError::UnknownMetric { name, .. } => match metric_recorded_by(name) {
                    Some(command) => failure.next(command),
                    None => failure,
                },
                _ => failure,
            }
        }
    }
}

/// The command that records what a view consists of.
fn recorded_by(missing: Missing) -> &'static str {
    match missing {
        Missing::CpuTime => "whyslow record PROGRAM",
        Missing::Waits => "whyslow record --off-cpu -- PROGRAM",
        Missing::Locks => "whyslow locks -- PROGRAM",
        Missing::Wakers => "whyslow record --wakers -- PROGRAM",
        Missing::Syscalls => "sudo whyslow record --syscalls -- PROGRAM",
        Missing::Simulation => "whyslow cache -- PROGRAM",
        Missing::Experiments => "whyslow causal -- PROGRAM",
        Missing::Heap => "`whyslow heap -- PROGRAM`, or `whyslow record --heap PROGRAM`",
    }
}

/// The command that records a metric, for the well-known ones.
fn metric_recorded_by(metric: &str) -> Option<&'static str> {
    const HEAP: [&str; 7] = [
        LIVE,
        "allocations",
        "bytes-allocated",
        "bytes-freed",
        "live-at-exit",
        "live-at-peak",
        "temporary-allocations",
    ];
    match metric {
        "off-cpu-time" | "wall-time" => Some("whyslow record --off-cpu -- PROGRAM"),
        "page-faults" => Some("whyslow record --faults -- PROGRAM"),
        "syscalls" | "syscall-time" | "syscall-bytes" => Some("sudo whyslow record --syscalls -- PROGRAM"),
        metric if HEAP.contains(&metric) => Some("whyslow heap -- PROGRAM"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_analyze::FunctionFilter;
    use whyslow_answers::unless_regex;

    #[test]
    fn a_bad_regex_is_explained_on_one_line() {
        let error = unless_regex(&FunctionFilter::new("Vec<(")).unwrap_err();
        assert_eq!(
            of_filter(Path::new("x"), error).to_string(),
            "--function 'Vec<(': not a regular expression: unclosed group; \
             try: --function 'Vec<\\(', to search for this text"
        );
    }
}
