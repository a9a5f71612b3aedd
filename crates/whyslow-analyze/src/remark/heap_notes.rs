//! The messages of heap recordings' notes.

use whyslow_profile::{HeapNote, Unwatched, WhyLeftOut};

use super::leak_check::{leak_check_fix, no_leak_check};
use whyslow_words::{About, Remark};
use whyslow_words::{Count, number_of};

/// The fix for allocators that whyslow finds by their symbols.
const SYMBOLS: &str =
    "build it with symbols (Cargo: strip = \"none\"), install its debug file, or use the crate whyslow-alloc";

/// The remark for a note.
pub(super) fn remark(note: &HeapNote) -> Remark {
    let about = match note {
        HeapNote::UnreadablePages { .. }
        | HeapNote::ProcessNotChecked { .. }
        | HeapNote::MoreProcessesNotChecked { .. } => About::Leaks,
        HeapNote::StacksNotKept => About::Stacks,
        _ => About::Heap,
    };
    let fix = fix(note);
    Remark { fix, ..Remark::note(note.id(), about, text(note)) }
}

fn text(note: &HeapNote) -> String {
    match note {
        HeapNote::ProcessesWentOn { pid, name, more } => {
            let more = if *more == 0 { String::new() } else { format!(" and {} more", Count(*more)) };
            format!(
                "process {pid} ({name}){more} kept running after the program exited: the recording stops there"
            )
        }
        HeapNote::UnreadablePages { pid, pages } => {
            let pages = number_of(*pages, "page", "pages");
            format!(
                "the leak check could not read {pages} of process {pid}: a block that only they point to is reported as lost"
            )
        }
        HeapNote::LiveBlocksNotExamined { error } => {
            format!("blocks live at exit were not checked for unused bytes: {error}")
        }
        HeapNote::ProcessNotChecked { process, why } => {
            format!("{process} has no leak check: {}. Its leaks are not in the recording", no_leak_check(why))
        }
        HeapNote::MoreProcessesNotChecked { processes } => {
            number_of(*processes, "more process has no leak check", "more processes have no leak check")
        }
        HeapNote::ProgramLeftOut { program, why } => {
            format!("{}. Its heap is not in the recording", left_out(program, why))
        }
        HeapNote::MoreProgramsLeftOut { programs } => {
            let programs = number_of(*programs, "more program was started", "more programs were started");
            // This note also appears where only CPU time is recorded.
            format!("{programs} where whyslow cannot follow: they are not in the recording")
        }
        HeapNote::DamagedRecords { threads } => {
            let threads = number_of(*threads, "thread", "threads");
            format!("the records of {threads} are damaged: everything after the damage is missing")
        }
        HeapNote::CollectorFailed => {
            "the heap collector failed before the program exited: numbers cover the time until then"
                .to_owned()
        }
        HeapNote::TooManyPatches { pid } => format!(
            "process {pid} needs more patches than fit into one message: allocators inside its files are not recorded"
        ),
        HeapNote::MappingsUnreadable { pid, error } => {
            format!(
                "cannot read the mappings of process {pid} ({error}): allocators inside its files are not recorded"
            )
        }
        HeapNote::FileUnreadable { path, error } => {
            format!("cannot read {path} ({error}): allocators inside it are not recorded")
        }
        HeapNote::FileNotUnderstood { path } => {
            format!("cannot parse {path}: allocators inside it are not recorded")
        }
        HeapNote::NoExitFunction => {
            "_exit was not found in the C library: the end of the process is not recorded".to_owned()
        }
        HeapNote::RustAllocator { path } => format!(
            "{path} has an allocator written in Rust: calls that the compiler inlined are not recorded"
        ),
        HeapNote::GoHeap { path } => {
            format!("{path} is written in Go: its heap has no functions to hook and is not recorded")
        }
        HeapNote::AllocatorWithoutSymbols { path, allocator } => {
            format!("{path} contains {allocator} but has no symbols: its allocations are not recorded")
        }
        HeapNote::StaticWithoutSymbols { path } => {
            format!("{path} is statically linked and has no symbols: its allocations are not recorded")
        }
        HeapNote::NoSymbolsNoMalloc { path } => {
            format!(
                "{path} has no symbols and does not import malloc: an allocator inside it is not recorded"
            )
        }
        HeapNote::NoKnownAllocator { path } => {
            format!(
                "{path} is statically linked and contains no known allocator: its allocations are not recorded"
            )
        }
        HeapNote::FunctionNotWatched { function, why, unseen: effect } => match effect {
            Unwatched::Calls => format!("calls of {function} are not recorded: {why}"),
            effect => format!("cannot hook {function} ({why}): {}", unwatched(*effect)),
        },
        HeapNote::OnlyGlobalAllocator => {
            "only allocations of the Rust global allocator are counted, from the start of the profiler on"
                .to_owned()
        }
        HeapNote::StacksNotKept => {
            "there was no room for some stacks: they are shown as truncated".to_owned()
        }
    }
}

fn unwatched(effect: Unwatched) -> &'static str {
    match effect {
        Unwatched::Calls => "its calls are not recorded",
        Unwatched::FreedBefore => "blocks that it frees a second time count as unknown frees",
        Unwatched::StaticPrograms => "static programs that it starts are not recorded",
        Unwatched::Ends => "an exit by a signal or a system call is not recorded",
        Unwatched::HiddenLeaks => "old pointers on the stack may hide a leak",
        Unwatched::LaterLibraries => "allocators in libraries that are loaded later are not recorded",
        Unwatched::BoundToLibc => "calls from libraries opened with RTLD_DEEPBIND are not recorded",
    }
}

/// The sentence that says why a program is not recorded.
pub(super) fn left_out(program: &str, why: &WhyLeftOut) -> String {
    match why {
        WhyLeftOut::OtherUser => {
            format!("{program} and its children run as a user who may not open whyslow's private folder")
        }
        WhyLeftOut::OtherRoot => format!(
            "{program} and its children run in another root folder (chroot) or with other mounts, without whyslow's folder"
        ),
        WhyLeftOut::Confined => format!(
            "{program} and its children run under a system call filter (seccomp), where whyslow does nothing"
        ),
        WhyLeftOut::TwoUsers => format!(
            "{program} has an effective user or group that is not the real one, so it ignores LD_PRELOAD"
        ),
        WhyLeftOut::OtherCollector => format!("{program} is recorded by another whyslow"),
        WhyLeftOut::NoMemory => {
            format!("whyslow could not preload its agent into {program}: no memory for its environment")
        }
        WhyLeftOut::NoAnswer => format!("{program} started while whyslow did not answer"),
        WhyLeftOut::NoAgent => format!("whyslow could not preload its agent into {program}"),
        WhyLeftOut::Silent => format!(
            "{program} started, but the agent inside it never reported: the program exited before its first instruction, or \
             could not load the agent, for example under a limit of memory or files (`ulimit -a`)"
        ),
        WhyLeftOut::UnseenStart => format!(
            "{program} was started by a direct system call, which whyslow cannot intercept: it and its children are not recorded"
        ),
        WhyLeftOut::FewFiles { files, .. } => {
            format!("{program} could not be recorded: its limit of open files (`ulimit -n`) is {files}")
        }
        WhyLeftOut::LittleSpace { bytes, .. } => format!(
            "{program} could not be recorded: its limit of address space (`ulimit -v`) is {} MiB",
            bytes >> 20
        ),
        WhyLeftOut::NoRoom => {
            format!("{program} could not be recorded: no memory or no file descriptor was left")
        }
        WhyLeftOut::StaticLaterThread => {
            format!(
                "{program} is statically linked, and a thread other than the first of its process executed it"
            )
        }
        WhyLeftOut::Static { error } => {
            format!("{program} is statically linked, and the agent could not be injected: {error}")
        }
        WhyLeftOut::StaticNoCollector => format!(
            "{program} is statically linked, and the agent injected into it could not reach the collector"
        ),
        WhyLeftOut::Refused { why } => why.clone(),
    }
}

fn fix(note: &HeapNote) -> Option<String> {
    Some(match note {
        HeapNote::ProcessesWentOn { .. } => {
            "if the program goes into the background, use its option to run in the foreground".to_owned()
        }
        HeapNote::ProcessNotChecked { why, .. } => return leak_check_fix(why).map(str::to_owned),
        HeapNote::ProgramLeftOut { program, why } => return left_out_fix(program, why),
        HeapNote::DamagedRecords { .. } => {
            "the program may have written over the agent's memory: run it under a memory checker".to_owned()
        }
        HeapNote::CollectorFailed => "this is a bug in whyslow: please report it".to_owned(),
        HeapNote::TooManyPatches { .. } => "build it with the system allocator".to_owned(),
        HeapNote::RustAllocator { .. } => {
            "wrap it in the crate whyslow-alloc, which records every call".to_owned()
        }
        HeapNote::AllocatorWithoutSymbols { .. }
        | HeapNote::StaticWithoutSymbols { .. }
        | HeapNote::NoSymbolsNoMalloc { .. } => SYMBOLS.to_owned(),
        HeapNote::OnlyGlobalAllocator => {
            "`whyslow heap -- PROGRAM` also records C code and the whole run".to_owned()
        }
        _ => return None,
    })
}

pub(super) fn left_out_fix(program: &str, why: &WhyLeftOut) -> Option<String> {
    Some(match why {
        WhyLeftOut::OtherUser => format!(
            "switch to that user first, then start whyslow: `setpriv --reuid USER whyslow heap -- {program}`"
        ),
        WhyLeftOut::OtherRoot => {
            format!("start whyslow inside it: `chroot FOLDER whyslow heap -- {program}`")
        }
        WhyLeftOut::Confined => "switch the filter off, then record again".to_owned(),
        WhyLeftOut::TwoUsers => "start whyslow as the user that the program runs as".to_owned(),
        WhyLeftOut::NoAnswer => "leave a CPU free for whyslow, then record again".to_owned(),
        WhyLeftOut::UnseenStart => {
            "start it through libc (exec, posix_spawn), or record it by itself: `whyslow heap -- PROGRAM`"
                .to_owned()
        }
        WhyLeftOut::FewFiles { enough, .. } => format!("raise the limit: `ulimit -n {enough}`"),
        WhyLeftOut::LittleSpace { more, .. } => {
            format!("raise the limit by {} MiB (`ulimit -v` counts KiB)", more >> 20)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The agent counts them even where only CPU time is recorded.
    #[test]
    fn programs_left_out_does_not_mention_the_heap() {
        let words = text(&HeapNote::MoreProgramsLeftOut { programs: 2 });
        assert!(words.starts_with("2 more programs were started") && !words.contains("heap"), "{words}");
    }
}
