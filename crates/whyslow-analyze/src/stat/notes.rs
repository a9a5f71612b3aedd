//! What is to be said of counting besides numbers.

use whyslow_events::{Kind, Measured, NotCounted, WhyNot};
use whyslow_profile::facts;

use super::Scope;
use crate::remark::{About, Fact, Remark, Severity};
use crate::units::{Percent, duration, number_of};

facts! {
    /// What is to be said of counting besides numbers.
    #[derive(Debug, Clone, PartialEq)]
    pub enum CountNote {
        /// The kernel refuses all counters.
        "counters-refused" => Refused {
            /// Whose.
            scope: Scope,
            /// Who may count what.
            allowed: Permission,
        },
        /// The CPU's counters are not there.
        "no-cpu-counters" => NoCpuCounters,
        /// The CPU's counters are refused, and others are not.
        "cpu-counters-refused" => CpuCountersRefused {
            /// The system's number for the reason.
            error: i32,
        },
        /// The kernel's part is missing.
        "kernel-not-counted" => KernelNotCounted {
            /// Events that are counted in user mode only.
            user_only: Vec<String>,
            /// Events that are not counted because of that.
            missing: Vec<String>,
            /// `kernel.perf_event_paranoid`
            level: Option<i64>,
        },
        /// The counters did not see all programs.
        "programs-not-counted" => ProgramsNotCounted {
            /// The CPU time that they did not see.
            unseen_ns: u64,
        },
        /// An event that was asked for is not counted.
        "event-not-counted" => NotCounted {
            /// The event.
            event: String,
            /// Its kind.
            kind: Kind,
            /// Why not.
            not: NotCounted,
            /// `kernel.perf_event_paranoid`
            level: Option<i64>,
        },
        /// Events took turns.
        "multiplexed" => Multiplexed {
            /// How many.
            events: u64,
            /// The smallest share of the time that one was counted.
            least: f64,
        },
        /// An event never had its turn.
        "never-counted" => NeverCounted {
            /// Which.
            events: Vec<String>,
        },
        /// Runs of the program failed.
        "failed-runs" => FailedRuns {
            /// How many.
            failed: u64,
            /// Of how many.
            runs: u64,
        },
        /// Fewer runs were made than asked for.
        "runs-ended" => RunsEnded {
            /// How many were made.
            made: u64,
            /// How many were asked for.
            wanted: u64,
        },
        /// Standard input is a pipe, which only the first run can read.
        "input-used-up" => InputUsedUp,
        /// The kernel's tracepoints are not known.
        "no-tracepoints" => NoTracepoints {
            /// Whether their list is there, but not for this user.
            hidden: bool,
        },
        /// There are no rows of threads.
        "threads-not-counted" => ThreadsNotCounted,
        /// Threads did not tell everything.
        "threads-incomplete" => ThreadsIncomplete {
            /// How many.
            threads: u64,
        },
    }
}

/// Who may count what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Permission {
    /// `kernel.perf_event_paranoid`
    pub level: Option<i64>,
    /// Whether one's own programs can be counted.
    pub own: bool,
}

/// What allows the kernel to be watched.
pub(crate) const ALLOW_KERNEL: &str = "sudo sysctl kernel.perf_event_paranoid=1";
/// What root alone may do.
const AS_ROOT: &str = "run whyslow with sudo";
/// What shows the kernel's tracepoints.
const MOUNT_TRACEFS: &str = "sudo mount -t tracefs tracefs /sys/kernel/tracing";
/// What a container needs.
const ALLOW_IN_CONTAINER: &str =
    "start the container with --cap-add PERFMON --security-opt seccomp=unconfined, or count on the host";

impl CountNote {
    /// What a run has to say. The events from `asked` on are those that somebody named.
    pub fn of_run(measured: &Measured, scope: Scope, asked: usize, allowed: Permission) -> Vec<Self> {
        let level = allowed.level;
        let mut notes = Vec::new();
        let not = |event: &whyslow_events::CountedEvent| event.state.err();
        let all_refused = !measured.events.is_empty()
            && measured.events.iter().all(|event| not(event).is_some())
            && measured.events.iter().any(|event| not(event).is_some_and(|not| not.why == WhyNot::Refused));
        if all_refused {
            notes.push(Self::Refused { scope, allowed });
        }
        let (usual, named) = measured.events.split_at(asked.min(measured.events.len()));
        if !all_refused {
            let mut hardware = usual.iter().filter(|event| event.event.kind.is_of_hardware()).peekable();
            if hardware.peek().is_some() {
                let why: Vec<NotCounted> = hardware.clone().filter_map(not).collect();
                if why.len() == hardware.count() {
                    match why.iter().find(|not| not.why == WhyNot::Refused) {
                        Some(refused) => notes.push(Self::CpuCountersRefused { error: refused.error }),
                        None => notes.push(Self::NoCpuCounters),
                    }
                }
            }
            let name = |event: &whyslow_events::CountedEvent| event.event.name.clone();
            let user_only = measured
                .events
                .iter()
                .filter(|event| event.state == Ok(true) && has_no_account(&event.event.name));
            let missing = usual.iter().filter(|event| {
                not(event).is_some_and(|not| not.why == WhyNot::NeedsKernel)
                    && has_no_account(&event.event.name)
            });
            let (user_only, missing): (Vec<String>, Vec<String>) =
                (user_only.map(name).collect(), missing.map(name).collect());
            if !user_only.is_empty() || !missing.is_empty() {
                notes.push(Self::KernelNotCounted { user_only, missing, level });
            }
            for event in named {
                if let Some(not) = not(event) {
                    let kind = event.event.kind;
                    notes.push(Self::NotCounted { event: name(event), kind, not, level });
                }
            }
        }
        if measured.unseen_ns > 0 {
            notes.push(Self::ProgramsNotCounted { unseen_ns: measured.unseen_ns });
        }
        notes.extend(of_turns(measured));
        notes
    }
}

/// Whether an event is known from nothing but its counter.
fn has_no_account(name: &str) -> bool {
    !matches!(name, "task-clock" | "context-switches" | "minor-faults" | "major-faults" | "page-faults")
}

fn of_turns(measured: &Measured) -> Vec<CountNote> {
    /// Switching counters on and off takes its moments: what is missed then is no turn of another event.
    const ALL: f64 = 0.995;
    let counted = measured.events.iter().zip(&measured.total.counts);
    let shares = counted
        .filter_map(|(event, count)| Some((event.event.name.clone(), count.as_ref()?.running_share()?)));
    let shares: Vec<(String, f64)> = shares.filter(|(_, share)| *share < ALL).collect();
    let (never, some): (Vec<_>, Vec<_>) = shares.into_iter().partition(|(_, share)| *share == 0.0);
    let mut notes = Vec::new();
    if let Some(least) = some.iter().map(|(_, share)| *share).reduce(f64::min) {
        notes.push(CountNote::Multiplexed { events: some.len() as u64, least });
    }
    if !never.is_empty() {
        notes.push(CountNote::NeverCounted { events: never.into_iter().map(|(name, _)| name).collect() });
    }
    notes
}

impl Fact for CountNote {
    fn remark(&self) -> Remark {
        let note = |text: String| Remark::note(self.id(), About::Counters, text);
        match self {
            Self::Refused { scope, allowed } => {
                let level = allowed.level.map_or_else(|| "unknown".to_owned(), |level| level.to_string());
                let (whose, why, fix) = match (scope, allowed.own) {
                    (Scope::Machine, true) => (
                        "of the whole machine ",
                        format!("kernel.perf_event_paranoid is {level} and must be 0 or less without root"),
                        "sudo sysctl kernel.perf_event_paranoid=0",
                    ),
                    (Scope::Processes, true) => (
                        "of these processes ",
                        "they belong to another user or changed their user".to_owned(),
                        "run whyslow as that user or with sudo",
                    ),
                    _ if allowed.level.is_some_and(|level| level > 2) => {
                        ("", format!("kernel.perf_event_paranoid is {level}"), ALLOW_KERNEL)
                    }
                    _ => (
                        "",
                        "a container or sandbox filters the call, or the kernel has none".to_owned(),
                        ALLOW_IN_CONTAINER,
                    ),
                };
                let text = format!(
                    "events {whose}cannot be counted here ({why}): CPU migrations and the CPU's own counters are missing; the rest is \
                     what the kernel accounts by itself"
                );
                note(text).or(fix)
            }
            Self::NoCpuCounters => note(
                "cycles, instructions, cache, branch and TLB misses are missing: the kernel offers no counters of the CPU, as in \
                 most virtual machines"
                    .to_owned(),
            )
            .or("let the host pass its PMU on to this virtual machine, or count on real hardware"),
            Self::CpuCountersRefused { error } => note(format!(
                "cycles, instructions, cache, branch and TLB misses are missing: the kernel refuses the CPU's counters ({})",
                words(*error)
            ))
            .or(ALLOW_KERNEL),
            Self::KernelNotCounted { user_only, missing, level } => {
                let level = level.map_or(String::new(), |level| format!(" (kernel.perf_event_paranoid is {level})"));
                let mut parts = Vec::new();
                if !user_only.is_empty() {
                    parts.push(format!("{} in user mode only", user_only.join(", ")));
                }
                if !missing.is_empty() {
                    parts.push(format!("{} not at all", missing.join(", ")));
                }
                note(format!("what the kernel does may not be counted{level}: {}", parts.join(", "))).or(ALLOW_KERNEL)
            }
            Self::ProgramsNotCounted { unseen_ns } => {
                let remark = note(format!(
                    "events were not counted during {} of the CPU time: a program ran that this user may not observe (it is set-uid or may \
                     not be read)",
                    duration(*unseen_ns)
                ));
                Remark { severity: Severity::Warning, ..remark }.or("run whyslow with sudo")
            }
            Self::NotCounted { event, kind, not, level } => {
                let (why, fix) = why_not(*kind, *not, *level);
                let remark = note(format!("{event} is not counted: {why}"));
                let remark = Remark { severity: Severity::Warning, ..remark };
                match fix {
                    Some(fix) => remark.or(fix),
                    None => remark,
                }
            }
            Self::Multiplexed { events, least } => note(format!(
                "{} took turns on the CPU's counters, each for {} of the time or more: their numbers are scaled up",
                number_of(*events, "event", "events"),
                Percent(*least)
            ))
            .or("-e with fewer events counts each all the time"),
            Self::NeverCounted { events } => note(format!(
                "{} never had a turn on a counter, so nothing is known of it",
                events.join(", ")
            ))
            .or("let it run longer, or count fewer events with -e"),
            Self::FailedRuns { failed, runs } => {
                let remark = note(format!("{failed} of {runs} runs did not end with 0; all of them count"));
                Remark { severity: Severity::Warning, ..remark }
            }
            Self::RunsEnded { made, wanted } => {
                let remark = note(format!("only {made} of {wanted} runs were made: a signal ended the last one"));
                Remark { severity: Severity::Warning, ..remark }
            }
            Self::InputUsedUp => {
                let remark = note("standard input is a pipe: the first run reads it, and all others find it empty".to_owned());
                Remark { severity: Severity::Warning, ..remark }.or("give the input as a file: < FILE")
            }
            Self::NoTracepoints { hidden: true } => {
                note("tracepoints are not listed: only root may read their list".to_owned()).or("sudo whyslow list")
            }
            Self::NoTracepoints { hidden: false } => {
                note("tracepoints are not listed: tracefs is not mounted".to_owned())
                    .or(MOUNT_TRACEFS)
            }
            Self::ThreadsNotCounted => {
                note("threads cannot be told apart: that needs perf events".to_owned()).or("`whyslow doctor` says how to allow them")
            }
            Self::ThreadsIncomplete { threads } => {
                let remark = note(format!(
                    "the counts of {} or more did not arrive: many ended at the same moment. They are in the row of the first thread, `… and others`",
                    number_of(*threads, "thread", "threads")
                ));
                Remark { severity: Severity::Warning, ..remark }.or("count again: it is a matter of chance")
            }
        }
    }
}

/// Why an event is not counted, and the one command that would change that.
pub fn why_not(kind: Kind, not: NotCounted, level: Option<i64>) -> (String, Option<&'static str>) {
    let error = words(not.error);
    match not.why {
        WhyNot::NotThere if kind.is_of_hardware() => {
            let fix = "`whyslow list` shows what is counted here";
            (format!("this machine has no such counter ({error})"), Some(fix))
        }
        WhyNot::NotThere => (format!("this kernel has no such event ({error})"), None),
        WhyNot::Refused if not.error == ENOSYS => ("this kernel has no perf events".to_owned(), None),
        WhyNot::Refused if level.is_some_and(|level| level > 2) => {
            (format!("kernel.perf_event_paranoid is {} ({error})", level.unwrap_or(0)), Some(ALLOW_KERNEL))
        }
        WhyNot::Refused if kind == Kind::Uprobe => {
            (format!("functions are probed by root only ({error})"), Some(AS_ROOT))
        }
        WhyNot::Refused if level.is_some_and(|level| level > 0) => {
            (format!("it is not allowed ({error})"), Some("sudo sysctl kernel.perf_event_paranoid=0"))
        }
        WhyNot::Refused => (format!("it is not allowed ({error})"), Some(ALLOW_IN_CONTAINER)),
        WhyNot::NeedsKernel => {
            ("it happens in the kernel, which may not be watched".to_owned(), Some(ALLOW_KERNEL))
        }
        WhyNot::WholeMachine => ("it belongs to the whole machine".to_owned(), Some("whyslow stat -a")),
        WhyNot::Busy => {
            (format!("all counters are taken ({error})"), Some("end other tools that count, such as perf"))
        }
        WhyNot::TooManyFiles => ("too many files would be open".to_owned(), Some("ulimit -n 65536")),
        WhyNot::Function => ("functions are not counted".to_owned(), None),
        WhyNot::Filtered => {
            (format!("a container or sandbox filters perf events ({error})"), Some(ALLOW_IN_CONTAINER))
        }
        WhyNot::NoSamples => {
            (format!("it can be counted, but not sampled ({error})"), Some("`whyslow stat -e` counts it"))
        }
        WhyNot::Hidden => ("tracepoints may be read by root only".to_owned(), Some(AS_ROOT)),
        WhyNot::NoTracefs => ("tracefs is not mounted".to_owned(), Some(MOUNT_TRACEFS)),
        WhyNot::Other => (error, None),
    }
}

/// The system's words for an error.
fn words(error: i32) -> String {
    let words = std::io::Error::from_raw_os_error(error).to_string();
    words.split(" (os error").next().unwrap_or_default().to_owned()
}

/// The system's number for "there is no such call".
const ENOSYS: i32 = 38;

#[cfg(test)]
mod tests {
    use whyslow_events::Count;

    use super::super::testing::{measured, with_states};
    use super::*;

    const REFUSED: NotCounted = NotCounted { why: WhyNot::Refused, error: 13 };
    const NOT_THERE: NotCounted = NotCounted { why: WhyNot::NotThere, error: 2 };
    const NEEDS_KERNEL: NotCounted = NotCounted { why: WhyNot::NeedsKernel, error: 13 };

    fn notes(run: &Measured, asked: usize, level: i64) -> Vec<CountNote> {
        CountNote::of_run(run, Scope::Program, asked, Permission { level: Some(level), own: false })
    }

    #[test]
    fn a_machine_without_counters_is_told_once() {
        let run = with_states(&[
            ("task-clock", Ok(1)),
            ("cycles", Err(NOT_THERE)),
            ("instructions", Err(NOT_THERE)),
        ]);
        assert_eq!(notes(&run, 3, 2), [CountNote::NoCpuCounters]);
        let named = notes(&run, 1, 2);
        assert!(
            matches!(&named[..], [CountNote::NotCounted { .. }, CountNote::NotCounted { .. }]),
            "{named:?}"
        );
        assert!(
            named[0].remark().text.starts_with("cycles is not counted: this machine has no such counter")
        );
        assert!(notes(&measured(&[("task-clock", 1), ("cycles", 5)]), 2, 2).is_empty());
    }

    #[test]
    fn a_refusal_is_told_once_with_the_command_that_would_allow_it() {
        let run = with_states(&[
            ("task-clock", Err(REFUSED)),
            ("cpu-migrations", Err(REFUSED)),
            ("cycles", Err(NOT_THERE)),
        ]);
        let [note] = &notes(&run, 3, 3)[..] else { panic!() };
        let remark = note.remark();
        assert!(remark.text.contains("kernel.perf_event_paranoid is 3"), "{remark:?}");
        assert_eq!(remark.fix.as_deref(), Some("sudo sysctl kernel.perf_event_paranoid=1"));
        let [note] = &notes(&run, 3, 2)[..] else { panic!() };
        assert!(note.remark().text.contains("a container or sandbox"), "{note:?}");
        let allowed = Permission { level: Some(2), own: true };
        for (scope, words) in [(Scope::Processes, "another user"), (Scope::Machine, "must be 0 or less")] {
            let [note] = &CountNote::of_run(&run, scope, 3, allowed)[..] else { panic!() };
            assert!(note.remark().text.contains(words), "{note:?}");
        }
    }

    #[test]
    fn a_hidden_kernel_is_told_with_what_is_missing_by_it() {
        let mut run =
            with_states(&[("task-clock", Ok(1)), ("cpu-migrations", Err(NEEDS_KERNEL)), ("cycles", Ok(1))]);
        run.events[2].state = Ok(true);
        let told = notes(&run, 3, 2);
        let [note] = &told[..] else { panic!("{told:?}") };
        let text = note.remark().text;
        assert!(text.contains("cycles in user mode only, cpu-migrations not at all"), "{text}");
    }

    #[test]
    fn events_that_take_turns_are_told() {
        let mut run = measured(&[("cycles", 5), ("instructions", 5), ("branches", 5)]);
        let share = |running_ns| Some(Count { value: 5, enabled_ns: 100, running_ns });
        run.total.counts = vec![share(100), share(40), share(0)];
        let told = notes(&run, 3, 2);
        let least = CountNote::Multiplexed { events: 1, least: 0.4 };
        assert_eq!(told, [least, CountNote::NeverCounted { events: vec!["branches".to_owned()] }]);
    }
}
