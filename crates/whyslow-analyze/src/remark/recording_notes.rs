//! What notes of any recording say.

use whyslow_events::{Kind, NotCounted, WhyNot};
use whyslow_profile::{IoCalls, NoSyscalls, RecordingNote};

use super::heap_notes::{left_out, left_out_fix};
use super::{About, Fact, Remark, Severity};
use crate::stat::{ALLOW_KERNEL, why_not};
use crate::units::{Count, bytes, duration, number_of};

impl Fact for RecordingNote {
    fn remark(&self) -> Remark {
        let note = |about, text: String| Remark::note(self.id(), about, text);
        match self {
            Self::MarksNotRecorded { error } => {
                note(About::Marks, format!("marks of the program could not be recorded: {error}"))
            }
            Self::MarksNotUnderstood { pid } => {
                note(About::Marks, format!("the marks of process {pid} are not understood"))
                    .or("let it use the whyslow-mark of this whyslow")
            }
            Self::MarksOfOtherVersion { pid } => {
                note(About::Marks, format!("process {pid} uses another version of whyslow-mark"))
                    .or("let it use the whyslow-mark of this whyslow")
            }
            Self::LostMarks { marks } => {
                let marks =
                    number_of(*marks, "mark of the program is missing", "marks of the program are missing");
                note(About::Marks, format!("{marks}: it made more than can be recorded"))
                    .or("mark longer spans")
            }
            Self::EventsRefused { level, looked, .. } => {
                let (why, fix) = match level {
                    Some(level) => (
                        format!("kernel.perf_event_paranoid is {level}"),
                        "`sudo sysctl kernel.perf_event_paranoid=1` allows more samples, and the kernel's functions in them",
                    ),
                    None => (
                        "a container or sandbox filters the call, or the kernel has none".to_owned(),
                        "`docker run --cap-add PERFMON --security-opt seccomp=unconfined` allows more samples, and the kernel's \
                         functions in them",
                    ),
                };
                let instead = if *looked {
                    "the program was stopped for a moment for each sample, at most a hundred times a second,"
                } else {
                    "the program sampled itself: at ticks of the kernel's clock,"
                };
                let text = format!(
                    "perf events are refused here ({why}), so {instead} and time in the kernel counts for the code that called it"
                );
                note(About::Recording, text).or(fix)
            }
            Self::SamplerConfined { processes } => note(
                About::Recording,
                format!(
                    "{} system calls (seccomp), and could not be sampled from then on",
                    number_of(*processes, "process forbade itself", "processes forbade themselves")
                ),
            )
            .or("switch the filter off, or allow perf events: `whyslow doctor` says how"),
            Self::ProgramNotSampled { program, why } => {
                let text = format!(
                    "{}. The CPU time of this program, which a sampled one started, is not in the recording",
                    left_out(program, why)
                );
                let remark = note(About::Recording, text);
                match left_out_fix(program, why) {
                    Some(fix) => remark.or(fix),
                    None => remark,
                }
            }
            Self::ThreadsUntimed { threads } => note(
                About::Recording,
                format!(
                    "{}: the limit of pending signals is reached",
                    number_of(
                        *threads,
                        "thread could not be given a timer to sample itself with",
                        "threads could not be given timers to sample themselves with"
                    )
                ),
            )
            .or("raise it with `ulimit -i`"),
            Self::WaitsNotRecorded => note(
                About::Recording,
                "waits were not recorded: when threads leave their CPU and come back only perf events tell".to_owned(),
            )
            .or("allow perf events: `whyslow doctor` says how"),
            Self::WaitsLookedAt => note(
                About::Recording,
                "the kernel gives no stacks of waits here, so threads were looked at while they waited, every 5 ms: shorter waits are \
                 counted and timed, most of them without a stack"
                    .to_owned(),
            )
            .or("`sudo sysctl kernel.perf_event_paranoid=1` gives the stack of every wait"),
            Self::WaitsSampled { stacks, waits } => note(
                About::Recording,
                format!(
                    "{} of {} waits have a stack: beyond 10,000 a second they are taken in turns, so that the program is not held up; all are counted and \
                     timed",
                    Count(*stacks),
                    Count(*waits)
                ),
            ),
            Self::WaitsAcrossLosses { waits, total_ns } => note(
                About::Waits,
                format!(
                    "{}, {} in all, may be too long: records were lost meanwhile, and with them maybe a moment in which the thread ran",
                    number_of(*waits, "wait", "waits"),
                    duration(*total_ns)
                ),
            ),
            Self::WakersNotRecorded => note(
                About::Recording,
                "who ended waits was not recorded: only root sees the kernel's tracepoints, and whole CPUs".to_owned(),
            )
            .or("`sudo whyslow …`, where tracefs is mounted (`sudo mount -t tracefs tracefs /sys/kernel/tracing`)"),
            Self::EventNotRecorded { event, kind, why, error, level } => {
                let not = NotCounted { why: WhyNot::from_label(why), error: *error };
                let (why, fix) = why_not(Kind::from_label(kind).unwrap_or(Kind::Unit), not, *level);
                let remark = note(About::Recording, format!("{event} is not recorded: {why}"));
                let remark = Remark { severity: Severity::Warning, ..remark };
                match fix {
                    Some(fix) => remark.or(fix),
                    None => remark,
                }
            }
            Self::EventsInUserMode { events, level } => {
                let level = level.map_or(String::new(), |level| format!(" (kernel.perf_event_paranoid is {level})"));
                let text = format!(
                    "{} recorded in user mode only: the kernel may not be watched{level}",
                    match &events[..] {
                        [event] => format!("{event} is"),
                        events => format!("{} are", events.join(", ")),
                    }
                );
                note(About::Recording, text).or(ALLOW_KERNEL)
            }
            Self::EventsMissed { event, happened, recorded, period } => {
                // As many samples as came through, and no more.
                let fits = happened.div_ceil((recorded / period.max(&1)).max(1));
                let remark = note(
                    About::Recording,
                    format!(
                        "{event} happened {} times, and {} of them are in the recording: the others came faster than they could be \
                         recorded, most of all where there are many at once",
                        Count(*happened),
                        Count(*recorded)
                    ),
                );
                let period = nice(fits.saturating_mul(2));
                Remark { severity: Severity::Warning, ..remark }
                    .or(format!("`-c {period}` takes one sample per {} of them", Count(period)))
            }
            Self::SyscallsNotRecorded { why, io } => {
                let (why, fix) = no_syscalls(*why);
                let counted = io.map_or_else(String::new, |io| format!(". {}", io_words(io)));
                note(About::Recording, format!("system calls were not recorded: {why}{counted}")).or(fix)
            }
            Self::SyscallsUnpaired { calls } => note(
                About::Recording,
                format!(
                    "{} not counted: their ends, or records in between, were lost",
                    number_of(*calls, "system call is", "system calls are")
                ),
            ),
            Self::OwnEvents => note(
                About::Recording,
                "the program has counted events of its own, without their times".to_owned(),
            ),
            Self::Pooled { recordings } => note(
                About::Recording,
                format!("pooled from {} recordings, one after the other", Count(*recordings)),
            ),
            Self::PooledCommands { others, first, other } => note(
                About::Recording,
                format!(
                    "{} of them ran another command than {first}, the first being {other}: shares are of all of them \
                     together",
                    Count(*others)
                ),
            ),
            Self::PooledWithoutHeap { files } => note(
                About::Heap,
                format!("the heap of {} is left out: peaks and leaks do not add up", files.join(", ")),
            )
            .or("`whyslow report` of each file has it"),
        }
    }
}

/// Why system calls could not be recorded, and what allows it.
fn no_syscalls(why: NoSyscalls) -> (String, &'static str) {
    match why {
        NoSyscalls::Hidden => (
            "the kernel shows its tracepoints to root only".to_owned(),
            "`sudo whyslow record --syscalls PROGRAM` records them",
        ),
        NoSyscalls::NoTracepoints => (
            "the tracepoints raw_syscalls:sys_enter and sys_exit are not there".to_owned(),
            "`sudo mount -t tracefs tracefs /sys/kernel/tracing` shows them where the kernel has them",
        ),
        NoSyscalls::Refused { error } => (
            format!("the kernel refuses events of tracepoints (error {error})"),
            "`sudo sysctl kernel.perf_event_paranoid=-1` allows them",
        ),
        NoSyscalls::NoEvents => (
            "that needs perf events, which are refused here".to_owned(),
            "allow perf events: `whyslow doctor` says how",
        ),
    }
}

/// What the kernel counts of every process.
fn io_words(io: IoCalls) -> String {
    let words = |calls: u64, verb: &str, moved: u64| {
        let each = match moved.checked_div(calls) {
            Some(each) => format!(", {} each on average", bytes(each)),
            None => String::new(),
        };
        format!("{} that {verb} {}{each}", number_of(calls, "call", "calls"), bytes(moved))
    };
    format!(
        "The kernel's own count, without where from: {}; {}",
        words(io.writes, "wrote", io.bytes_written),
        words(io.reads, "read", io.bytes_read)
    )
}

/// The next number that is 1, 2 or 5 with zeros behind it.
fn nice(number: u64) -> u64 {
    let mut step: u64 = 1;
    while step.saturating_mul(10) < number {
        step = step.saturating_mul(10);
    }
    [1, 2, 5, 10]
        .map(|factor| step.saturating_mul(factor))
        .into_iter()
        .find(|fits| *fits >= number)
        .unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(note: &RecordingNote) -> (String, String) {
        let remark = note.remark();
        (remark.text, remark.fix.unwrap_or_default().to_string())
    }

    #[test]
    fn an_event_that_is_refused_has_its_reason_and_its_command() {
        let said = |kind: &str, why: &str, error, level| {
            let note = RecordingNote::EventNotRecorded {
                event: "it".to_owned(),
                kind: kind.to_owned(),
                why: why.to_owned(),
                error,
                level: Some(level),
            };
            words(&note)
        };
        for (kind, why, error, level, text, fix) in [
            ("hardware", "not-there", 2, 2, "no such counter (No such file", "whyslow list"),
            ("hardware", "no-samples", 95, 2, "can be counted, but not sampled", "whyslow stat -e"),
            ("hardware", "busy", 16, 2, "all counters are taken", "perf"),
            ("software", "needs-kernel", 13, 2, "happens in the kernel", "perf_event_paranoid=1"),
            ("software", "refused", 13, 3, "perf_event_paranoid is 3", "perf_event_paranoid=1"),
            ("software", "filtered", 1, 2, "container or sandbox", "--cap-add PERFMON"),
            ("software", "too-many-files", 24, 2, "too many files", "ulimit -n"),
            ("uprobe", "refused", 13, 2, "root only", "sudo"),
            ("tracepoint", "hidden", 13, 2, "root only", "sudo"),
            ("tracepoint", "no-tracefs", 2, 2, "tracefs is not mounted", "mount -t tracefs"),
            ("unit", "whole-machine", 0, 2, "belongs to the whole machine", "whyslow stat -a"),
        ] {
            let said = said(kind, why, error, level);
            assert!(
                said.0.starts_with("it is not recorded: ") && said.0.contains(text),
                "{kind} {why}: {said:?}"
            );
            assert!(said.1.contains(fix), "{kind} {why}: {said:?}");
        }
    }

    #[test]
    fn a_period_is_named_that_is_slow_enough() {
        let missed = |happened, recorded, period| {
            words(&RecordingNote::EventsMissed {
                event: "page-faults".to_owned(),
                happened,
                recorded,
                period,
            })
        };
        let (text, fix) = missed(1_000_000, 40_000, 1);
        assert!(text.contains("1,000,000 times, and 40,000 of them"), "{text}");
        assert!(fix.contains("`-c 50`"), "{fix}");
        assert!(missed(1_000_000, 0, 1).1.contains("`-c 2000000`"));
        assert_eq!([1, 2, 3, 7, 10, 11, 99].map(nice), [1, 2, 5, 10, 10, 20, 100]);
    }
}
