//! What notes of any recording say.

use whyslow_profile::RecordingNote;

use super::heap_notes::{left_out, left_out_fix};
use super::{About, Fact, Remark};
use crate::units::{Count, number_of};

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
            Self::WakersNotRecorded => note(
                About::Recording,
                "who ended waits was not recorded: only root sees the kernel's tracepoints, and whole CPUs".to_owned(),
            )
            .or("`sudo whyslow …`, where tracefs is mounted (`sudo mount -t tracefs tracefs /sys/kernel/tracing`)"),
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
