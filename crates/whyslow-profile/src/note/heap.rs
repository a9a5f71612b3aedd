//! Notes of heap recordings.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::words_of_unknown;

crate::facts! {
    /// A note about a heap recording.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(tag = "id", rename_all = "kebab-case")]
    pub enum HeapNote {
        /// Processes outlived the program that started them.
        "processes-went-on" => ProcessesWentOn {
            /// The first of them.
            pid: u32,
            /// Its name.
            name: String,
            /// How many more there are.
            more: u64,
        },
        /// A leak check could not read all of a process's memory.
        "unreadable-pages" => UnreadablePages {
            /// The process.
            pid: u32,
            /// How many pages.
            pages: u64,
        },
        /// Blocks live at the end were not examined for unused bytes.
        "live-blocks-not-examined" => LiveBlocksNotExamined {
            /// The error message.
            error: String,
        },
        /// The leaks of a process were not checked, while those of others were.
        "process-not-checked" => ProcessNotChecked {
            /// The process, such as `process 7 (app)`.
            process: String,
            /// Why.
            why: NoLeakCheck,
        },
        /// Further processes were not checked.
        "more-processes-not-checked" => MoreProcessesNotChecked {
            /// How many.
            processes: u64,
        },
        /// A program started by a recorded one is not recorded.
        "program-left-out" => ProgramLeftOut {
            /// The program.
            program: String,
            /// Why.
            why: WhyLeftOut,
        },
        /// Further programs are not recorded.
        "more-programs-left-out" => MoreProgramsLeftOut {
            /// How many.
            programs: u64,
        },
        /// Threads wrote invalid records.
        "damaged-records" => DamagedRecords {
            /// How many threads.
            threads: u64,
        },
        /// The collector failed and stopped before the end.
        "collector-failed" => CollectorFailed,
        /// A process needs more patches than fit into a message.
        "too-many-patches" => TooManyPatches {
            /// The process.
            pid: u32,
        },
        /// Nothing was patched in a process.
        "mappings-unreadable" => MappingsUnreadable {
            /// The process.
            pid: u32,
            /// The system's error.
            error: String,
        },
        /// A file was not searched for allocators, because it cannot be read.
        "file-unreadable" => FileUnreadable {
            /// The file.
            path: String,
            /// The system's error.
            error: String,
        },
        /// A file was not searched for allocators, because its format is invalid.
        "file-not-understood" => FileNotUnderstood {
            /// The file.
            path: String,
        },
        /// The C library has no function that ends a process.
        "no-exit-function" => NoExitFunction,
        /// Calls of an allocator that the compiler inlined are not recorded.
        "rust-allocator" => RustAllocator {
            /// The program.
            path: String,
        },
        /// Go's heap has no functions that could be hooked.
        "go-heap" => GoHeap {
            /// The program.
            path: String,
        },
        /// A program contains an allocator that cannot be located.
        "allocator-without-symbols" => AllocatorWithoutSymbols {
            /// The program.
            path: String,
            /// The allocator.
            allocator: String,
        },
        /// The allocator of a static program cannot be located.
        "static-without-symbols" => StaticWithoutSymbols {
            /// The program.
            path: String,
        },
        /// A program without symbols does not import malloc, so it may have its own allocator.
        "no-symbols-no-malloc" => NoSymbolsNoMalloc {
            /// The program.
            path: String,
        },
        /// A static program has symbols, but none of a known allocator.
        "no-known-allocator" => NoKnownAllocator {
            /// The program.
            path: String,
        },
        /// A function cannot be hooked.
        "function-not-watched" => FunctionNotWatched {
            /// The function.
            function: String,
            /// The error message.
            why: String,
            /// What is not recorded because of that.
            unseen: Unwatched,
        },
        /// whyslow-alloc hooked only the global allocator of a Rust program.
        "only-global-allocator" => OnlyGlobalAllocator,
        /// There was no room for some stacks.
        "stacks-not-kept" => StacksNotKept,
    }
}

impl HeapNote {
    /// Whether it says that allocations are missing from the recording.
    pub fn hides_allocations(&self) -> bool {
        match self {
            Self::ProgramLeftOut { .. }
            | Self::MoreProgramsLeftOut { .. }
            | Self::DamagedRecords { .. }
            | Self::CollectorFailed
            | Self::TooManyPatches { .. }
            | Self::MappingsUnreadable { .. }
            | Self::FileUnreadable { .. }
            | Self::FileNotUnderstood { .. }
            | Self::RustAllocator { .. }
            | Self::GoHeap { .. }
            | Self::AllocatorWithoutSymbols { .. }
            | Self::StaticWithoutSymbols { .. }
            | Self::NoSymbolsNoMalloc { .. }
            | Self::NoKnownAllocator { .. } => true,
            Self::FunctionNotWatched { unseen, .. } => *unseen == Unwatched::Calls,
            Self::ProcessesWentOn { .. }
            | Self::UnreadablePages { .. }
            | Self::LiveBlocksNotExamined { .. }
            | Self::ProcessNotChecked { .. }
            | Self::MoreProcessesNotChecked { .. }
            | Self::NoExitFunction
            | Self::OnlyGlobalAllocator
            | Self::StacksNotKept => false,
        }
    }
}

/// What is not recorded if a function cannot be hooked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unwatched {
    /// Its calls.
    Calls,
    /// Whether the blocks that it frees were freed before.
    FreedBefore,
    /// Static programs that it starts.
    StaticPrograms,
    /// Exits by a signal or a system call.
    Ends,
    /// Leaks that stale data on the stack points to.
    HiddenLeaks,
    /// Allocators in libraries that are loaded later.
    LaterLibraries,
    /// Its calls by libraries that are bound to libc itself.
    BoundToLibc,
}

/// Why a program that a recorded one started is not recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "id", rename_all = "kebab-case")]
pub enum WhyLeftOut {
    /// It runs as a user without access to whyslow's folder.
    OtherUser,
    /// It runs where whyslow's folder does not exist.
    OtherRoot,
    /// A system call filter is active.
    Confined,
    /// Its effective user differs from the real one.
    TwoUsers,
    /// Another whyslow records it.
    OtherCollector,
    /// There was no memory for its environment.
    NoMemory,
    /// The collector did not answer.
    NoAnswer,
    /// The agent could not be loaded into it.
    NoAgent,
    /// No agent reported from inside it.
    Silent,
    /// It was started in a way that whyslow does not hook.
    UnseenStart,
    /// Its limit of open files is too low.
    FewFiles {
        /// The limit.
        files: u64,
        /// The number that it needs.
        enough: u64,
    },
    /// Its limit of address space is too low.
    LittleSpace {
        /// The limit, in bytes.
        bytes: u64,
        /// The additional bytes that it needs.
        more: u64,
    },
    /// There was no memory or no descriptor for its agent.
    NoRoom,
    /// It is static, and another thread than the first of its process executed it.
    StaticLaterThread,
    /// It is static, and the agent could not be injected.
    Static {
        /// The error message.
        error: String,
    },
    /// It is static, and its agent could not reach the collector.
    StaticNoCollector,
    /// The agent may not be loaded.
    Refused {
        /// A sentence that names the program and says why.
        why: String,
    },
}

/// Why leaks were not checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "id", rename_all = "kebab-case")]
pub enum NoLeakCheck {
    /// The user did not request it.
    NotWanted,
    /// The recording ended before the program did.
    RecordingEnded,
    /// A signal killed the program.
    EndedBySignal {
        /// The signal.
        signal: i32,
    },
    /// The program ended without calling exit.
    EndedWithoutExit,
    /// Only samples of the blocks were recorded.
    OnlySamples,
    /// The program runs in a container.
    InContainer,
    /// It was forked with more blocks than are kept.
    TooManyInherited,
    /// No thread could be started for the check.
    NoThread,
    /// The check itself failed.
    CheckFailed,
    /// The process could not be stopped or read.
    OutOfReach {
        /// The error message.
        error: String,
    },
    /// Another tool made the recording, and it does not search for pointers.
    OtherTool {
        /// The tool.
        tool: String,
    },
    /// A sentence from a file of another version.
    Text {
        /// The sentence.
        text: String,
    },
}

impl NoLeakCheck {
    /// The reason in a file: a known one, or a description of an unknown one.
    pub(crate) fn from_json(value: &Value) -> Self {
        Self::deserialize(value).unwrap_or_else(|_| Self::Text { text: words_of_unknown(value) })
    }
}
