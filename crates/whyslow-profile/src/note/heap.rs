//! Notes of heap recordings.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::words_of_unknown;

crate::facts! {
    /// What is to be known of a heap recording.
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
        /// Blocks that were live at the end were not examined for unused bytes.
        "live-blocks-not-examined" => LiveBlocksNotExamined {
            /// Why, in the words of the error.
            error: String,
        },
        /// A process was not looked at for leaks, where others were.
        "process-not-checked" => ProcessNotChecked {
            /// The process, such as `process 7 (app)`.
            process: String,
            /// Why.
            why: NoLeakCheck,
        },
        /// More processes were not looked at than are named.
        "more-processes-not-checked" => MoreProcessesNotChecked {
            /// How many.
            processes: u64,
        },
        /// A program was started by a watched one and is not recorded.
        "program-left-out" => ProgramLeftOut {
            /// The program.
            program: String,
            /// Why.
            why: WhyLeftOut,
        },
        /// More programs are not recorded than are named.
        "more-programs-left-out" => MoreProgramsLeftOut {
            /// How many.
            programs: u64,
        },
        /// Threads wrote records that do not keep to the rules.
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
            /// What the system said.
            error: String,
        },
        /// A file was not searched for allocators, because it cannot be read.
        "file-unreadable" => FileUnreadable {
            /// The file.
            path: String,
            /// What the system said.
            error: String,
        },
        /// A file was not searched for allocators, because it is not as files should be.
        "file-not-understood" => FileNotUnderstood {
            /// The file.
            path: String,
        },
        /// The C library has no function that ends a process.
        "no-exit-function" => NoExitFunction,
        /// Calls of an allocator that the compiler inlined are not seen.
        "rust-allocator" => RustAllocator {
            /// The program.
            path: String,
        },
        /// Go's heap has no functions that could be watched.
        "go-heap" => GoHeap {
            /// The program.
            path: String,
        },
        /// An allocator is in a program and cannot be found there.
        "allocator-without-symbols" => AllocatorWithoutSymbols {
            /// The program.
            path: String,
            /// The allocator.
            allocator: String,
        },
        /// The allocator of a static program cannot be found.
        "static-without-symbols" => StaticWithoutSymbols {
            /// The program.
            path: String,
        },
        /// A program without symbols does not ask for malloc, so it may have an allocator of its own.
        "no-symbols-no-malloc" => NoSymbolsNoMalloc {
            /// The program.
            path: String,
        },
        /// A static program has symbols, and none is of a known allocator.
        "no-known-allocator" => NoKnownAllocator {
            /// The program.
            path: String,
        },
        /// A function cannot be watched.
        "function-not-watched" => FunctionNotWatched {
            /// The function.
            function: String,
            /// Why, in the words of who tried.
            why: String,
            /// What is not seen because of that.
            unseen: Unwatched,
        },
        /// Only the global allocator of a Rust program was watched, by whyslow-alloc.
        "only-global-allocator" => OnlyGlobalAllocator,
        /// There was no room for some stacks.
        "stacks-not-kept" => StacksNotKept,
    }
}

/// What is not seen when a function cannot be watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unwatched {
    /// Its calls.
    Calls,
    /// That what it frees was freed before.
    FreedBefore,
    /// Static programs that it starts.
    StaticPrograms,
    /// An end by a signal or a system call.
    Ends,
    /// A leak that something on the stack behind it points to.
    HiddenLeaks,
    /// Allocators in libraries that are loaded later.
    LaterLibraries,
}

/// Why a program that a watched one started is not recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "id", rename_all = "kebab-case")]
pub enum WhyLeftOut {
    /// It runs as a user who may not open whyslow's folder.
    OtherUser,
    /// It runs where whyslow's folder is not.
    OtherRoot,
    /// A filter of system calls is on.
    Confined,
    /// Its effective user is not the real one.
    TwoUsers,
    /// Another whyslow records it.
    OtherCollector,
    /// There was no memory for its environment.
    NoMemory,
    /// The collector did not answer.
    NoAnswer,
    /// It could not be given the agent.
    NoAgent,
    /// Nothing was heard from inside of it.
    Silent,
    /// It was started in a way that whyslow does not see.
    UnseenStart,
    /// It may open only so few files.
    FewFiles {
        /// So many.
        files: u64,
        /// What it needs.
        enough: u64,
    },
    /// It may have only so little address space.
    LittleSpace {
        /// So much, in bytes.
        bytes: u64,
        /// What it needs on top, in bytes.
        more: u64,
    },
    /// There was no memory or no descriptor for its agent.
    NoRoom,
    /// It is static, and another thread than the first of its process executed it.
    StaticLaterThread,
    /// It is static, and the agent could not be brought in.
    Static {
        /// Why, in the words of the error.
        error: String,
    },
    /// It is static, and its agent could not reach the collector.
    StaticNoCollector,
    /// The agent may not come in.
    Refused {
        /// A sentence that names the program and says why.
        why: String,
    },
}

/// Why nobody looked for leaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "id", rename_all = "kebab-case")]
pub enum NoLeakCheck {
    /// The user did not want it.
    NotWanted,
    /// The recording ended before the program did.
    RecordingEnded,
    /// A signal ended the program.
    EndedBySignal {
        /// Which.
        signal: i32,
    },
    /// The program ended without calling exit.
    EndedWithoutExit,
    /// Only samples of the blocks are known.
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
        /// Why, in the words of the error.
        error: String,
    },
    /// Another tool made the recording, and does not look for pointers.
    OtherTool {
        /// Which.
        tool: String,
    },
    /// A sentence of a file of another version.
    Text {
        /// The sentence.
        text: String,
    },
}

impl NoLeakCheck {
    /// The reason in a file: one that is known, or what can be said of one that is not.
    pub(crate) fn from_json(value: &Value) -> Self {
        Self::deserialize(value).unwrap_or_else(|_| Self::Text { text: words_of_unknown(value) })
    }
}
