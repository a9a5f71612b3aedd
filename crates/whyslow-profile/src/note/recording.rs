//! Notes of any recording.

use serde::{Deserialize, Serialize};

use super::WhyLeftOut;

/// Why system calls could not be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoSyscalls {
    /// Tracepoints are for root's eyes only.
    Hidden,
    /// There are no tracepoints, or their list is not mounted.
    NoTracepoints,
    /// The kernel refuses them.
    Refused {
        /// The system's number for the reason.
        error: i32,
    },
    /// There are no perf events at all.
    NoEvents,
}

/// What the kernel counts for every process: calls of reading and writing, of all kinds, and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoCalls {
    /// Calls that read.
    pub reads: u64,
    /// What they read.
    pub bytes_read: u64,
    /// Calls that write.
    pub writes: u64,
    /// What they wrote.
    pub bytes_written: u64,
}

crate::facts! {
    /// What whyslow tells of a recording of its own, and of several as one.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(tag = "id", rename_all = "kebab-case")]
    pub enum RecordingNote {
        /// The program could not be given a place for its marks.
        "marks-not-recorded" => MarksNotRecorded {
            /// What the system said.
            error: String,
        },
        /// What a process wrote are no marks.
        "marks-not-understood" => MarksNotUnderstood {
            /// The process.
            pid: u32,
        },
        /// A process marks with another version of whyslow-mark.
        "marks-of-other-version" => MarksOfOtherVersion {
            /// The process.
            pid: u32,
        },
        /// The program made more marks than could be recorded.
        "lost-marks" => LostMarks {
            /// How many are missing.
            marks: u64,
        },
        /// The kernel refused perf events, so the program sampled itself or was looked at from the outside.
        "events-refused" => EventsRefused {
            /// `kernel.perf_event_paranoid`, where that is why.
            level: Option<i64>,
            /// The system's number for the reason.
            error: i32,
            /// Whether it was looked at.
            #[serde(default)]
            looked: bool,
        },
        /// Processes that sampled themselves forbade themselves system calls, and were not sampled from then on.
        "sampler-confined" => SamplerConfined {
            /// How many.
            processes: u64,
        },
        /// A program that a sampled one started could not be made to sample itself.
        "program-not-sampled" => ProgramNotSampled {
            /// Its file.
            program: String,
            /// Why.
            why: WhyLeftOut,
        },
        /// Threads that should have sampled themselves were given no timer.
        "threads-untimed" => ThreadsUntimed {
            /// How many.
            threads: u64,
        },
        /// Waits were to be recorded, and could not be without perf events.
        "waits-not-recorded" => WaitsNotRecorded,
        /// The kernel gave no stacks of waits, so threads were looked at while they waited.
        "waits-looked-at" => WaitsLookedAt,
        /// There were too many waits to take the stacks of all.
        "waits-sampled" => WaitsSampled {
            /// Of how many there is a stack.
            stacks: u64,
            /// How many there were.
            waits: u64,
        },
        /// Records were lost while threads waited, so that those may have run in between.
        "waits-across-losses" => WaitsAcrossLosses {
            /// How many waits may be too long.
            waits: u64,
            /// How long they are in all.
            total_ns: u64,
        },
        /// Those who end waits were to be recorded, and could not be.
        "wakers-not-recorded" => WakersNotRecorded,
        /// An event that was asked for is not in the recording.
        "event-not-recorded" => EventNotRecorded {
            /// The event.
            event: String,
            /// What kind of event it is, in a word.
            kind: String,
            /// Why not, in a word.
            why: String,
            /// The system's number for the reason.
            error: i32,
            /// `kernel.perf_event_paranoid`
            level: Option<i64>,
        },
        /// Events that were asked for were recorded in user mode only, since the kernel may not be watched.
        "events-in-user-mode" => EventsInUserMode {
            /// Which.
            events: Vec<String>,
            /// `kernel.perf_event_paranoid`
            level: Option<i64>,
        },
        /// An event happened more often than it could be recorded.
        "events-missed" => EventsMissed {
            /// Which.
            event: String,
            /// How often it happened, by the kernel's count.
            happened: u64,
            /// How often it is in the recording.
            recorded: u64,
            /// How many occurrences one sample stands for.
            period: u64,
        },
        /// System calls were to be recorded, and could not be.
        "syscalls-not-recorded" => SyscallsNotRecorded {
            /// Why.
            why: NoSyscalls,
            /// What the kernel counts anyway.
            io: Option<IoCalls>,
        },
        /// The ends of system calls are missing.
        "syscalls-unpaired" => SyscallsUnpaired {
            /// How many.
            calls: u64,
        },
        /// The program counted events of its own, whose times are not known.
        "own-events" => OwnEvents,
        /// Several recordings are one.
        "pooled" => Pooled {
            /// How many.
            recordings: u64,
        },
        /// Recordings of different commands are one.
        "pooled-commands" => PooledCommands {
            /// How many have another command than the first.
            others: u64,
            /// The first file.
            first: String,
            /// The first file with another command.
            other: String,
        },
        /// Recordings are one without their heaps.
        "pooled-without-heap" => PooledWithoutHeap {
            /// The files with a heap.
            files: Vec<String>,
        },
    }
}
