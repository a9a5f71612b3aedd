//! The messages of notes that any recording can have.

use whyslow_events::{Kind, NotCounted, WhyNot};
use whyslow_profile::{IoCalls, NoSyscalls, RecordingNote};

use super::heap_notes::{left_out, left_out_fix};
use crate::perf_level::PerfLevel;
use crate::quality::wait_error;
use crate::stat::why_not;
use crate::units::share;
use whyslow_words::{About, Count, Percent, Remark, Severity, bytes, duration, number_of};

/// The errno of a resource that is used up for now.
const EAGAIN: i32 = 11;

/// The remark for a note.
pub(super) fn remark(of: &RecordingNote) -> Remark {
    let severity = if is_refusal(of) { Severity::Warning } else { Severity::Note };
    let note = |about, text: String| Remark { severity, ..Remark::note(of.id(), about, text) };
    match of {
        RecordingNote::MarksNotRecorded { error } => {
            note(About::Marks, format!("the program's marks were not recorded: {error}"))
        }
        RecordingNote::MarksNotUnderstood { pid } => {
            note(About::Marks, format!("the marks of process {pid} are not valid and were skipped"))
                .or("build it with the whyslow-mark of this whyslow version")
        }
        RecordingNote::MarksOfOtherVersion { pid } => {
            note(About::Marks, format!("process {pid} uses another version of whyslow-mark: its marks were skipped"))
                .or("build it with the whyslow-mark of this whyslow version")
        }
        RecordingNote::LostMarks { marks } => {
            let marks =
                number_of(*marks, "mark of the program was lost", "marks of the program were lost");
            note(About::Marks, format!("{marks}: there were more than whyslow can record"))
                .or("mark fewer and longer spans")
        }
        RecordingNote::EventsRefused { level, ptrace, .. } => {
            let (why, fix) = match level {
                Some(level) => (
                    format!("kernel.perf_event_paranoid is {level}"),
                    format!(
                        "`{}` allows more samples, and kernel functions in them",
                        PerfLevel::Kernel.command()
                    ),
                ),
                None => (
                    "a container or sandbox filters the call, or the kernel has none".to_owned(),
                    "`docker run --cap-add PERFMON --security-opt seccomp=unconfined` allows more samples, and kernel \
                     functions in them"
                        .to_owned(),
                ),
            };
            let instead = if *ptrace {
                "whyslow stopped the program briefly for each sample, at most a hundred times a second,"
            } else {
                "the program sampled itnote with CPU timers, at ticks of the kernel's clock,"
            };
            let text = format!(
                "perf events are not permitted here ({why}): {instead} and kernel time counts for the code that called the kernel"
            );
            note(About::Recording, text).or(fix)
        }
        RecordingNote::SamplerConfined { processes } => note(
            About::Recording,
            format!(
                "{} seccomp filter and could not be sampled from then on",
                number_of(*processes, "process installed a", "processes each installed a")
            ),
        )
        .or("switch the filter off, or allow perf events: `whyslow doctor` says how"),
        RecordingNote::ProgramNotSampled { program, why } => {
            let text = format!(
                "{}. Its CPU time is not in the recording",
                left_out(program, why)
            );
            let remark = note(About::Recording, text);
            match left_out_fix(program, why) {
                Some(fix) => remark.or(fix),
                None => remark,
            }
        }
        RecordingNote::ThreadsUntimed { threads, error } => {
            let threads = number_of(
                *threads,
                "thread has no sampling timer",
                "threads have no sampling timer",
            );
            // The kernel's answer if no signal can be reserved for the timer.
            let (why, fix) = if matches!(*error, 0 | EAGAIN) {
                ("the limit of pending signals is reached".to_owned(), "raise the limit with `ulimit -i`")
            } else {
                let error = std::io::Error::from_raw_os_error(*error).to_string();
                let error = error.split(" (os error").next().unwrap_or_default();
                (
                    format!("timer_create is refused ({error})"),
                    "a container or sandbox filters the system call: allow it, or record on the host",
                )
            };
            note(About::Recording, format!("{threads}: {why}, so their CPU time has no samples")).or(fix)
        }
        RecordingNote::WaitsNotRecorded => note(
            About::Recording,
            "waits were not recorded: perf events are not permitted, and the kernel's accounts of threads (/proc/PID/schedstat) \
             cannot be read"
                .to_owned(),
        )
        .or("allow perf events: `whyslow doctor` says how"),
        RecordingNote::WaitsFromAccounts => note(
            About::Recording,
            "without perf events, waits come from the kernel's accounts of threads and from snapshots of blocked threads, every few \
             milliseconds: their number and total are right, and the length of a single wait to a few milliseconds"
                .to_owned(),
        )
        .or("allow perf events: `whyslow doctor` says how"),
        RecordingNote::WaitSnapshots => note(
            About::Recording,
            "the kernel gives no stacks for waits here, so whyslow sampled blocked threads every few milliseconds: all waits are \
             counted and timed; the place of a short one is that of a sampled wait of about its length"
                .to_owned(),
        )
        .or(format!("`{}` allows a stack for every wait", PerfLevel::Kernel.command())),
        RecordingNote::WaitsSampled { stacks, waits } => note(
            About::Recording,
            format!(
                "{} of {} waits have a stack: above 10,000 waits a second whyslow takes only some stacks, to keep the overhead low; all \
                 waits are counted and timed",
                Count(*stacks),
                Count(*waits)
            ),
        ),
        RecordingNote::WaitsEstimated { estimated, estimated_ns, total_ns, stacks } => note(
            About::Waits,
            format!(
                "the places of {} ({} of the waiting time) are estimated from the {} that have a stack of their own: a place's \
                 share of the waiting time is right to about ±{}",
                number_of(*estimated, "wait", "waits"),
                Percent(share(*estimated_ns, *total_ns)),
                Count(*stacks),
                Percent(wait_error(*estimated_ns, *total_ns, *stacks))
            ),
        ),
        RecordingNote::WaitsAcrossLosses { waits, total_ns } => note(
            About::Waits,
            format!(
                "{} ({} in all) may be shown too long: records were lost while the thread waited, so it may have run in between",
                number_of(*waits, "wait", "waits"),
                duration(*total_ns)
            ),
        ),
        RecordingNote::WakersNotRecorded => note(
            About::Recording,
            "wakers were not recorded: only root may read the kernel's tracepoints and whole CPUs".to_owned(),
        )
        .or("`sudo whyslow record --wakers PROGRAM`, with tracefs mounted (`sudo mount -t tracefs tracefs /sys/kernel/tracing`)"),
        RecordingNote::EventNotRecorded { event, kind, why, error, level } => {
            let not = NotCounted { why: WhyNot::from_label(why), error: *error };
            let (why, fix) = why_not(Kind::from_label(kind).unwrap_or(Kind::Unit), not, *level);
            let remark = note(About::Recording, format!("{event} is not recorded: {why}"));
            match fix {
                Some(fix) => remark.or(fix),
                None => remark,
            }
        }
        RecordingNote::EventsInUserMode { events, level } => {
            let level = level.map_or(String::new(), |level| format!(" (kernel.perf_event_paranoid is {level})"));
            let text = format!(
                "{} recorded in user mode only: no permission to record the kernel{level}",
                match &events[..] {
                    [event] => format!("{event} is"),
                    events => format!("{} are", events.join(", ")),
                }
            );
            note(About::Recording, text).or(PerfLevel::Kernel.command())
        }
        RecordingNote::EventsMissed { event, happened, recorded, period } => {
            // The period that gives as many samples as got through.
            let fits = happened.div_ceil((recorded / period.max(&1)).max(1));
            let remark = note(
                About::Recording,
                format!(
                    "{event} happened {} times, and {} of them are in the recording: the kernel dropped the rest, mostly where many \
                     happen at once",
                    Count(*happened),
                    Count(*recorded)
                ),
            );
            let period = nice(fits.saturating_mul(2));
            let severity =
                if recorded.saturating_mul(2) < *happened { Severity::Serious } else { Severity::Warning };
            Remark { severity, ..remark }.or(format!("`-c {period}` takes one sample per {} events", Count(period)))
        }
        RecordingNote::SyscallsNotRecorded { why, io } => {
            let (why, fix) = no_syscalls(*why);
            let counted = io.map_or_else(String::new, |io| format!(". {}", io_words(io)));
            note(About::Recording, format!("system calls were not recorded: {why}{counted}")).or(fix)
        }
        RecordingNote::SyscallsUnpaired { calls } => note(
            About::Recording,
            format!(
                "{} not counted: records of their start, their end or the time in between were lost",
                number_of(*calls, "system call is", "system calls are")
            ),
        ),
        RecordingNote::OwnEvents => note(
            About::Recording,
            "the program counted its own events (whyslow-alloc), without their times".to_owned(),
        ),
        RecordingNote::Pooled { recordings } => note(
            About::Recording,
            format!("pooled from {} recordings, one after another", Count(*recordings)),
        ),
        RecordingNote::PooledCommands { others, first, other } => note(
            About::Recording,
            format!(
                "{} of them ran a command other than {first} ({other} is the first): shares are of all recordings \
                 together",
                Count(*others)
            ),
        ),
        RecordingNote::PooledWithoutHeap { files } => note(
            About::Heap,
            format!("the heap of {} is left out: peaks and leaks cannot be added up", files.join(", ")),
        )
        .or("`whyslow report FILE heap` shows it for each file"),
    }
}

/// Whether something that the user requested is missing from the recording.
pub(crate) fn is_refusal(note: &RecordingNote) -> bool {
    matches!(
        note,
        RecordingNote::WaitsNotRecorded
            | RecordingNote::WakersNotRecorded
            | RecordingNote::EventNotRecorded { .. }
            | RecordingNote::SyscallsNotRecorded { .. }
    )
}

/// Why system calls were not recorded, and the command that allows it.
fn no_syscalls(why: NoSyscalls) -> (String, String) {
    match why {
        NoSyscalls::Hidden => (
            "the kernel shows its tracepoints to root only".to_owned(),
            "`sudo whyslow record --syscalls PROGRAM` records them".to_owned(),
        ),
        NoSyscalls::NoTracepoints => (
            "the tracepoints raw_syscalls:sys_enter and sys_exit do not exist".to_owned(),
            "`sudo mount -t tracefs tracefs /sys/kernel/tracing` shows them if the kernel has them"
                .to_owned(),
        ),
        NoSyscalls::Refused { error } => (
            format!("the kernel refuses tracepoint events (error {error})"),
            format!("`{}` allows them", PerfLevel::Tracepoints.command()),
        ),
        NoSyscalls::NoEvents => (
            "they need perf events, which are not permitted here".to_owned(),
            "allow perf events: `whyslow doctor` says how".to_owned(),
        ),
    }
}

/// The kernel's own I/O counts of the process.
fn io_words(io: IoCalls) -> String {
    let words = |calls: u64, verb: &str, moved: u64| {
        let each = match moved.checked_div(calls) {
            Some(each) => format!(", {} each on average", bytes(each)),
            None => String::new(),
        };
        format!("{} {verb} {}{each}", number_of(calls, "call", "calls"), bytes(moved))
    };
    format!(
        "The kernel's totals, without call sites: {}; {}",
        words(io.writes, "wrote", io.bytes_written),
        words(io.reads, "read", io.bytes_read)
    )
}

/// The next number that is 1, 2 or 5 followed by zeros.
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
        let remark = remark(note);
        (remark.text, remark.fix.unwrap_or_default().to_string())
    }

    #[test]
    fn a_refused_timer_is_not_called_a_limit() {
        let remark = |error| super::remark(&RecordingNote::ThreadsUntimed { threads: 2, error });
        assert!(remark(11).text.contains("the limit of pending signals is reached"));
        assert!(remark(0).text.contains("the limit of pending signals is reached"), "older files");
        let refused = remark(1);
        assert_eq!(
            refused.text,
            "2 threads have no sampling timer: timer_create is refused (Operation not permitted), so their CPU time has no samples"
        );
        assert!(refused.fix.is_some_and(|fix| fix.contains("sandbox")));
    }

    #[test]
    fn refused_event_says_why_and_how_to_allow_it() {
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
            ("hardware", "busy", 16, 2, "all counters are in use", "perf"),
            ("software", "needs-kernel", 13, 2, "happens in the kernel", "perf_event_paranoid=1"),
            ("software", "refused", 13, 3, "perf_event_paranoid is 3", "perf_event_paranoid=1"),
            ("software", "filtered", 1, 2, "container or sandbox", "--cap-add PERFMON"),
            ("software", "too-many-files", 24, 2, "too many files", "ulimit -n"),
            ("uprobe", "refused", 13, 2, "only root", "sudo"),
            ("tracepoint", "hidden", 13, 2, "only root", "sudo"),
            ("tracepoint", "no-tracefs", 2, 2, "tracefs is not mounted", "mount -t tracefs"),
            ("unit", "whole-machine", 0, 2, "for the whole machine only", "whyslow stat -a"),
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
    fn suggests_a_period_that_is_long_enough() {
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
