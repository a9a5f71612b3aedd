//! Notes about any recording.

use serde::{Deserialize, Serialize};

use super::WhyLeftOut;

/// Why system calls could not be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoSyscalls {
    /// Only root may see tracepoints.
    Hidden,
    /// There are no tracepoints, or tracefs is not mounted.
    NoTracepoints,
    /// The kernel refuses them.
    Refused {
        /// The errno.
        error: i32,
    },
    /// There are no perf events at all.
    NoEvents,
}

/// The kernel's counts for every process: read and write calls of all kinds, and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoCalls {
    /// Calls that read.
    pub reads: u64,
    /// Bytes that they read.
    pub bytes_read: u64,
    /// Calls that write.
    pub writes: u64,
    /// Bytes that they wrote.
    pub bytes_written: u64,
}

crate::facts! {
    /// A note about whyslow's own recording, or about several merged ones.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(tag = "id", rename_all = "kebab-case")]
    pub enum RecordingNote {
        /// The program's marks could not be collected.
        "marks-not-recorded" => MarksNotRecorded {
            /// The system's error.
            error: String,
        },
        /// A process wrote something other than marks.
        "marks-not-understood" => MarksNotUnderstood {
            /// The process.
            pid: u32,
        },
        /// A process uses another version of whyslow-mark.
        "marks-of-other-version" => MarksOfOtherVersion {
            /// The process.
            pid: u32,
        },
        /// The program emitted more marks than could be recorded.
        "lost-marks" => LostMarks {
            /// How many are missing.
            marks: u64,
        },
        /// Perf events are not permitted, so timer or ptrace sampling was used.
        "events-refused" => EventsRefused {
            /// `kernel.perf_event_paranoid`, if that is the reason.
            level: Option<i64>,
            /// The errno.
            error: i32,
            /// Whether it was ptrace sampling.
            #[serde(default, rename = "looked")]
            ptrace: bool,
        },
        /// Processes that sampled themselves restricted their system calls, and were not sampled from then
        /// on.
        "sampler-confined" => SamplerConfined {
            /// How many.
            processes: u64,
        },
        /// A program started by a sampled one could not sample itself.
        "program-not-sampled" => ProgramNotSampled {
            /// Its file.
            program: String,
            /// Why.
            why: WhyLeftOut,
        },
        /// Threads that should have sampled themselves got no timer.
        "threads-untimed" => ThreadsUntimed {
            /// How many.
            threads: u64,
            /// The errno; 0 if unknown.
            #[serde(default)]
            error: i32,
        },
        /// Without perf events, waits were derived from the kernel's accounts of threads.
        "waits-from-accounts" => WaitsFromAccounts,
        /// Waits were requested but could not be recorded: no perf events, and no accounts of threads.
        "waits-not-recorded" => WaitsNotRecorded,
        /// The kernel provides no stacks of waits, so snapshots were taken of waiting threads.
        #[serde(rename = "waits-looked-at")]
        "waits-looked-at" => WaitSnapshots,
        /// There were too many waits to record the stacks of all.
        "waits-sampled" => WaitsSampled {
            /// The number of waits with a stack.
            stacks: u64,
            /// The number of waits.
            waits: u64,
        },
        /// The stacks of some waits were estimated: each is that of a wait which is alike.
        "waits-estimated" => WaitsEstimated {
            /// How many.
            estimated: u64,
            /// Their total length.
            estimated_ns: u64,
            /// The total length of all waits.
            total_ns: u64,
            /// The number of waits with a stack of their own.
            stacks: u64,
        },
        /// Records were lost while threads waited, so the threads may have run in between.
        "waits-across-losses" => WaitsAcrossLosses {
            /// How many waits may be too long.
            waits: u64,
            /// Their total length.
            total_ns: u64,
        },
        /// Wakers were requested but could not be recorded.
        "wakers-not-recorded" => WakersNotRecorded,
        /// A requested event is not in the recording.
        "event-not-recorded" => EventNotRecorded {
            /// The event.
            event: String,
            /// The kind of event, in one word.
            kind: String,
            /// The reason, in one word.
            why: String,
            /// The errno.
            error: i32,
            /// `kernel.perf_event_paranoid`
            level: Option<i64>,
        },
        /// Requested events were recorded in user mode only, since the kernel may not be observed.
        "events-in-user-mode" => EventsInUserMode {
            /// The events.
            events: Vec<String>,
            /// `kernel.perf_event_paranoid`
            level: Option<i64>,
        },
        /// An event happened more often than it could be recorded.
        "events-missed" => EventsMissed {
            /// The event.
            event: String,
            /// How often it happened, by the kernel's count.
            happened: u64,
            /// How often it is in the recording.
            recorded: u64,
            /// How many occurrences one sample stands for.
            period: u64,
        },
        /// System calls were requested but could not be recorded.
        "syscalls-not-recorded" => SyscallsNotRecorded {
            /// Why.
            why: NoSyscalls,
            /// The kernel's own counts.
            io: Option<IoCalls>,
        },
        /// Exits of system calls are missing.
        "syscalls-unpaired" => SyscallsUnpaired {
            /// How many.
            calls: u64,
        },
        /// The program counted its own events, whose times are unknown.
        "own-events" => OwnEvents,
        /// Several recordings are merged.
        "pooled" => Pooled {
            /// How many.
            recordings: u64,
        },
        /// Recordings of different commands are merged.
        "pooled-commands" => PooledCommands {
            /// How many have another command than the first.
            others: u64,
            /// The first file.
            first: String,
            /// The first file with another command.
            other: String,
        },
        /// Recordings are merged without their heaps.
        "pooled-without-heap" => PooledWithoutHeap {
            /// The files with a heap.
            files: Vec<String>,
        },
    }
}
