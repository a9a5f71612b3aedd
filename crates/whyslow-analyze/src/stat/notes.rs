//! Notes on counting: limits of the numbers, and how to lift them.

use whyslow_events::{Kind, Measured, NotCounted, WhyNot};
use whyslow_profile::facts;

use super::Scope;
use crate::perf_level::PerfLevel;
use whyslow_words::{About, Fact, Remark, Severity};
use whyslow_words::{Percent, duration, number_of};

facts! {
    /// A note on counting.
    #[derive(Debug, Clone, PartialEq)]
    pub enum CountNote {
        /// The kernel refuses all counters.
        "counters-refused" => Refused {
            /// What was to be counted.
            scope: Scope,
            /// What this user may count.
            allowed: Permission,
        },
        /// The machine has no CPU counters.
        "no-cpu-counters" => NoCpuCounters,
        /// The kernel refuses the CPU's counters but allows others.
        "cpu-counters-refused" => CpuCountersRefused {
            /// The system's number for the reason.
            error: i32,
        },
        /// Events in the kernel are not counted.
        "kernel-not-counted" => KernelNotCounted {
            /// Events that are counted in user mode only.
            user_only: Vec<String>,
            /// Events that are not counted because of that.
            missing: Vec<String>,
            /// `kernel.perf_event_paranoid`
            level: Option<i64>,
        },
        /// The counters did not cover all programs.
        "programs-not-counted" => ProgramsNotCounted {
            /// The CPU time that they did not cover.
            unseen_ns: u64,
        },
        /// A requested event is not counted.
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
        /// Events took turns on the counters.
        "multiplexed" => Multiplexed {
            /// How many.
            events: u64,
            /// The smallest share of the time for which one was counted.
            least: f64,
        },
        /// Events that never had a turn.
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
        /// Fewer runs than requested.
        "runs-ended" => RunsEnded {
            /// How many ran.
            made: u64,
            /// How many were requested.
            wanted: u64,
        },
        /// Standard input is a pipe, which only the first run can read.
        "input-used-up" => InputUsedUp,
        /// The kernel's tracepoints cannot be listed.
        "no-tracepoints" => NoTracepoints {
            /// Whether the list exists but this user may not read it.
            hidden: bool,
        },
        /// There are no per-thread rows.
        "threads-not-counted" => ThreadsNotCounted,
        /// Counts of some threads did not arrive.
        "threads-incomplete" => ThreadsIncomplete {
            /// How many.
            threads: u64,
        },
    }
}

/// What this user may count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Permission {
    /// `kernel.perf_event_paranoid`
    pub level: Option<i64>,
    /// Whether the user's own programs can be counted.
    pub own: bool,
}

/// Allows events in the kernel.
const ALLOW_KERNEL: &str = PerfLevel::Kernel.command();
/// For what only root may do.
const AS_ROOT: &str = "run whyslow with sudo";
/// Makes the kernel's tracepoints visible.
const MOUNT_TRACEFS: &str = "sudo mount -t tracefs tracefs /sys/kernel/tracing";
/// Allows perf events in a container.
const ALLOW_IN_CONTAINER: &str =
    "start the container with --cap-add PERFMON --security-opt seccomp=unconfined, or count on the host";

impl CountNote {
    /// The notes of a run. Events from index `asked` on were requested by the user.
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
        if measured.uncounted_ns > 0 {
            notes.push(Self::ProgramsNotCounted { unseen_ns: measured.uncounted_ns });
        }
        notes.extend(of_turns(measured));
        notes
    }
}

/// Whether an event's counter is its only source: the kernel accounts the others itself.
fn has_no_account(name: &str) -> bool {
    !matches!(name, "task-clock" | "context-switches" | "minor-faults" | "major-faults" | "page-faults")
}

fn of_turns(measured: &Measured) -> Vec<CountNote> {
    /// Switching counters on and off takes some time. What is missed then is not multiplexing.
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
                        " for the whole machine",
                        format!("kernel.perf_event_paranoid is {level} and must be 0 or less without root"),
                        PerfLevel::WholeCpus.command(),
                    ),
                    (Scope::Processes, true) => (
                        " for these processes",
                        "they belong to another user, or changed their user".to_owned(),
                        "run whyslow as that user, or with sudo",
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
                    "no perf events{whose} here ({why}): CPU migrations and CPU counters are missing; all other numbers come from \
                     the kernel's own accounting"
                );
                note(text).or(fix)
            }
            Self::NoCpuCounters => note(
                "cycles, instructions, cache, branch and TLB misses are missing: the kernel offers no CPU counters, as in \
                 most virtual machines"
                    .to_owned(),
            )
            .or("pass the host's PMU through to the virtual machine, or count on real hardware"),
            Self::CpuCountersRefused { error } => note(format!(
                "cycles, instructions, cache, branch and TLB misses are missing: no permission for CPU counters ({})",
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
                note(format!("no permission to count in the kernel{level}: {}", parts.join(", "))).or(ALLOW_KERNEL)
            }
            Self::ProgramsNotCounted { unseen_ns } => {
                let remark = note(format!(
                    "events were not counted for {} of the CPU time: a program ran that is set-uid or that this user may not read",
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
                "{} shared the CPU's counters, each counting {} of the time or more: their numbers are scaled up",
                number_of(*events, "event", "events"),
                Percent(*least)
            ))
            .or("name fewer events with `-e`: then each counts all the time"),
            Self::NeverCounted { events } => note(format!(
                "{} never had a turn on a counter: there is no number",
                events.join(", ")
            ))
            .or("run longer, or name fewer events with `-e`"),
            Self::FailedRuns { failed, runs } => {
                let remark = note(format!("{failed} of {runs} runs failed (exit code other than 0, or a signal); all of them count"));
                Remark { severity: Severity::Warning, ..remark }
            }
            Self::RunsEnded { made, wanted } => {
                let remark = note(format!("only {made} of {wanted} runs: a signal ended the last one"));
                Remark { severity: Severity::Warning, ..remark }
            }
            Self::InputUsedUp => {
                let remark = note("standard input is a pipe: the first run reads it, and the others find it empty".to_owned());
                Remark { severity: Severity::Warning, ..remark }.or("redirect a file instead: `< FILE`")
            }
            Self::NoTracepoints { hidden: true } => {
                note("tracepoints are not listed: only root may read them".to_owned()).or("sudo whyslow list")
            }
            Self::NoTracepoints { hidden: false } => {
                note("tracepoints are not listed: tracefs is not mounted".to_owned())
                    .or(MOUNT_TRACEFS)
            }
            Self::ThreadsNotCounted => {
                note("no per-thread numbers: they need perf events".to_owned()).or("`whyslow doctor` says how to allow perf events")
            }
            Self::ThreadsIncomplete { threads } => {
                let remark = note(format!(
                    "the counts of {} or more did not arrive because many exited at once: they are in the row of the first thread, `… and others`",
                    number_of(*threads, "thread", "threads")
                ));
                Remark { severity: Severity::Warning, ..remark }.or("count again: it depends on timing")
            }
        }
    }
}

/// Why an event is not counted, and the command that fixes it.
pub fn why_not(kind: Kind, not: NotCounted, level: Option<i64>) -> (String, Option<&'static str>) {
    let error = words(not.error);
    match not.why {
        WhyNot::NotThere if kind.is_of_hardware() => {
            let fix = "`whyslow list` shows the events of this machine";
            (format!("this machine has no such counter ({error})"), Some(fix))
        }
        WhyNot::NotThere => (format!("this kernel has no such event ({error})"), None),
        WhyNot::Refused if not.error == ENOSYS => ("this kernel has no perf events".to_owned(), None),
        WhyNot::Refused if level.is_some_and(|level| level > 2) => {
            (format!("kernel.perf_event_paranoid is {} ({error})", level.unwrap_or(0)), Some(ALLOW_KERNEL))
        }
        WhyNot::Refused if kind == Kind::Uprobe => {
            (format!("only root may probe functions ({error})"), Some(AS_ROOT))
        }
        WhyNot::Refused if level.is_some_and(|level| level > 0) => {
            (format!("no permission ({error})"), Some(PerfLevel::WholeCpus.command()))
        }
        WhyNot::Refused => (format!("no permission ({error})"), Some(ALLOW_IN_CONTAINER)),
        WhyNot::NeedsKernel => (
            "it happens in the kernel, and there is no permission to count there".to_owned(),
            Some(ALLOW_KERNEL),
        ),
        WhyNot::WholeMachine => ("it counts for the whole machine only".to_owned(), Some("whyslow stat -a")),
        WhyNot::Busy => (
            format!("all counters are in use ({error})"),
            Some("stop other tools that use counters, such as perf"),
        ),
        WhyNot::TooManyFiles => ("too many files would be open".to_owned(), Some("ulimit -n 65536")),
        WhyNot::Function => ("functions cannot be counted".to_owned(), None),
        WhyNot::Filtered => {
            (format!("a container or sandbox filters perf events ({error})"), Some(ALLOW_IN_CONTAINER))
        }
        WhyNot::NoSamples => {
            (format!("it can be counted, but not sampled ({error})"), Some("`whyslow stat -e` counts it"))
        }
        WhyNot::Hidden => ("only root may read tracepoints".to_owned(), Some(AS_ROOT)),
        WhyNot::NoTracefs => ("tracefs is not mounted".to_owned(), Some(MOUNT_TRACEFS)),
        WhyNot::Other => (error, None),
    }
}

/// The system's message for an error.
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
    fn reports_a_machine_without_counters_once() {
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
    fn reports_a_refusal_once_with_the_command_that_allows_it() {
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
    fn reports_which_events_a_hidden_kernel_affects() {
        let mut run =
            with_states(&[("task-clock", Ok(1)), ("cpu-migrations", Err(NEEDS_KERNEL)), ("cycles", Ok(1))]);
        run.events[2].state = Ok(true);
        let notes = notes(&run, 3, 2);
        let [note] = &notes[..] else { panic!("{notes:?}") };
        let text = note.remark().text;
        assert!(text.contains("cycles in user mode only, cpu-migrations not at all"), "{text}");
    }

    #[test]
    fn reports_multiplexed_events() {
        let mut run = measured(&[("cycles", 5), ("instructions", 5), ("branches", 5)]);
        let share = |running_ns| Some(Count { value: 5, enabled_ns: 100, running_ns });
        run.total.counts = vec![share(100), share(40), share(0)];
        let notes = notes(&run, 3, 2);
        let least = CountNote::Multiplexed { events: 1, least: 0.4 };
        assert_eq!(notes, [least, CountNote::NeverCounted { events: vec!["branches".to_owned()] }]);
    }
}
