//! What notes of heap recordings say.

use whyslow_profile::{HeapNote, Unwatched, WhyLeftOut};

use super::leak_check::{leak_check_fix, no_leak_check};
use super::{About, Fact, Remark};
use crate::units::{Count, number_of};

/// The fix for allocators that symbols would show.
const SYMBOLS: &str =
    "build it with symbols (Cargo: strip = \"none\"), install its debug file, or use whyslow-alloc";

impl Fact for HeapNote {
    fn remark(&self) -> Remark {
        let about = match self {
            Self::UnreadablePages { .. }
            | Self::ProcessNotChecked { .. }
            | Self::MoreProcessesNotChecked { .. } => About::Leaks,
            Self::StacksNotKept => About::Stacks,
            _ => About::Heap,
        };
        let fix = fix(self);
        Remark { fix, ..Remark::note(self.id(), about, text(self)) }
    }
}

fn text(note: &HeapNote) -> String {
    match note {
        HeapNote::ProcessesWentOn { pid, name, more } => {
            let more = if *more == 0 { String::new() } else { format!(" and {} more", Count(*more)) };
            format!("process {pid} ({name}){more} went on when the program ended: what is recorded of it ends there")
        }
        HeapNote::UnreadablePages { pid, pages } => {
            let pages = number_of(*pages, "page", "pages");
            format!(
                "{pages} of process {pid} could not be read in the leak check; a block that only they point to seems lost"
            )
        }
        HeapNote::LiveBlocksNotExamined { error } => {
            format!("blocks that were live at the end were not examined: {error}")
        }
        HeapNote::ProcessNotChecked { process, why } => format!(
            "{process} was not looked at for leaks: {}. What it lost is not in the recording",
            no_leak_check(why)
        ),
        HeapNote::MoreProcessesNotChecked { processes } => {
            number_of(*processes, "more process was not looked at for leaks", "more processes were not looked at for leaks")
        }
        HeapNote::ProgramLeftOut { program, why } => format!(
            "{}. The heap of this program, which a watched one started, is not in the recording",
            left_out(program, why)
        ),
        HeapNote::MoreProgramsLeftOut { programs } => {
            let programs = number_of(*programs, "more program was started", "more programs were started");
            // Where only CPU time is recorded it is said as well.
            format!("{programs} where whyslow cannot follow: nothing of such is in the recording")
        }
        HeapNote::DamagedRecords { threads } => {
            let threads = number_of(*threads, "thread", "threads");
            format!("the records of {threads} are damaged and were left out from there on")
        }
        HeapNote::CollectorFailed => {
            "the heap collector stopped before the program's end because of a fault of its own; numbers end there"
                .to_owned()
        }
        HeapNote::TooManyPatches { pid } => format!(
            "process {pid} needs more patches than fit into one message, so its own allocators are not watched"
        ),
        HeapNote::MappingsUnreadable { pid, error } => {
            format!("the mappings of process {pid} cannot be read ({error}): nothing was patched in it")
        }
        HeapNote::FileUnreadable { path, error } => {
            format!("{path} cannot be read ({error}): allocators inside of it are not seen")
        }
        HeapNote::FileNotUnderstood { path } => {
            format!("{path} is not understood: allocators inside of it are not seen")
        }
        HeapNote::NoExitFunction => {
            "the C library's _exit was not found: the last moment of the process is not seen".to_owned()
        }
        HeapNote::RustAllocator { path } => format!(
            "{path} has an allocator written in Rust, which is watched where the compiler calls it: calls that were \
             inlined are not seen"
        ),
        HeapNote::GoHeap { path } => {
            format!("{path} is written in Go: its heap has no functions that could be watched")
        }
        HeapNote::AllocatorWithoutSymbols { path, allocator } => {
            format!("{path} has {allocator} inside, but no symbols to find it by: its blocks are not seen")
        }
        HeapNote::StaticWithoutSymbols { path } => {
            format!("{path} is static and has no symbols: its allocator is not found")
        }
        HeapNote::NoSymbolsNoMalloc { path } => {
            format!("{path} has no symbols and does not ask for malloc: an allocator inside of it is not seen")
        }
        HeapNote::NoKnownAllocator { path } => {
            format!("{path} is static, and no allocator that is known was found in it")
        }
        HeapNote::FunctionNotWatched { function, why, unseen } => match unseen {
            Unwatched::Calls => format!("calls of {function} are not seen: {why}"),
            unseen => format!("{function} cannot be watched ({why}): {}", unwatched(*unseen)),
        },
        HeapNote::OnlyGlobalAllocator => {
            "only what went through the Rust program's global allocator is counted, from the start of the profiler on"
                .to_owned()
        }
        HeapNote::StacksNotKept => "some stacks could not be noted and are shown as truncated".to_owned(),
    }
}

fn unwatched(unseen: Unwatched) -> &'static str {
    match unseen {
        Unwatched::Calls => "its calls are not seen",
        Unwatched::FreedBefore => "what it frees once more is counted as unknown",
        Unwatched::StaticPrograms => "static programs that it starts are not seen",
        Unwatched::Ends => "an end by a signal or a system call is not seen",
        Unwatched::HiddenLeaks => "what lies on the stack behind it may hide a leak",
        Unwatched::LaterLibraries => "allocators in libraries that are loaded later are not seen",
    }
}

/// The sentence that says why a program is not recorded.
pub(super) fn left_out(program: &str, why: &WhyLeftOut) -> String {
    match why {
        WhyLeftOut::OtherUser => format!(
            "{program} runs as another user, who may not open whyslow's private folder, and so does all that it starts"
        ),
        WhyLeftOut::OtherRoot => format!(
            "{program} runs behind another root folder (chroot) or other mounts, where whyslow's folder is not, and so does \
             all that it starts"
        ),
        WhyLeftOut::Confined => format!(
            "{program} was started behind a filter of system calls (seccomp), under which whyslow does nothing, and so is \
             all that it starts"
        ),
        WhyLeftOut::TwoUsers => format!(
            "{program} was started with an effective user or group that is not the real one, and preloads nothing then"
        ),
        WhyLeftOut::OtherCollector => format!("{program} is recorded by another whyslow"),
        WhyLeftOut::NoMemory => {
            format!("{program} could not be given the agent: there was no memory for its environment")
        }
        WhyLeftOut::NoAnswer => format!("{program} was started while whyslow did not answer"),
        WhyLeftOut::NoAgent => format!("{program} could not be given the agent"),
        WhyLeftOut::Silent => format!(
            "{program} was started, but nothing was heard from inside of it: it ended before its first own instruction, or \
             could not load whyslow's agent, as under a limit of memory or files (`ulimit -a`)"
        ),
        WhyLeftOut::UnseenStart => format!(
            "{program} was started by a system call that whyslow does not see, and is not recorded, nor is what it starts"
        ),
        WhyLeftOut::FewFiles { files, .. } => {
            format!("{program} could not be recorded: it may open only {files} files at a time (`ulimit -n`)")
        }
        WhyLeftOut::LittleSpace { bytes, .. } => format!(
            "{program} could not be recorded: its limit of address space (`ulimit -v`) is {} MiB",
            bytes >> 20
        ),
        WhyLeftOut::NoRoom => {
            format!("{program} could not be recorded: there was no memory or no descriptor for it")
        }
        WhyLeftOut::StaticLaterThread => {
            format!("{program} is static, and not the first thread of its process executed it")
        }
        WhyLeftOut::Static { error } => {
            format!("{program} is static, and the agent could not be brought in: {error}")
        }
        WhyLeftOut::StaticNoCollector => format!(
            "{program} is static, and the agent could not be brought in: its agent could not reach the collector"
        ),
        WhyLeftOut::Refused { why } => why.clone(),
    }
}

fn fix(note: &HeapNote) -> Option<String> {
    Some(match note {
        HeapNote::ProcessesWentOn { .. } => {
            "for a program that goes into the background, use its option to stay in the foreground".to_owned()
        }
        HeapNote::ProcessNotChecked { why, .. } => return leak_check_fix(why).map(str::to_owned),
        HeapNote::ProgramLeftOut { program, why } => return left_out_fix(program, why),
        HeapNote::DamagedRecords { .. } => {
            "the program may have written over the agent's memory: run it under a memory checker".to_owned()
        }
        HeapNote::CollectorFailed => "please report it".to_owned(),
        HeapNote::TooManyPatches { .. } => "build it with the system's allocator".to_owned(),
        HeapNote::RustAllocator { .. } => "put whyslow-alloc around it: then all are seen".to_owned(),
        HeapNote::AllocatorWithoutSymbols { .. }
        | HeapNote::StaticWithoutSymbols { .. }
        | HeapNote::NoSymbolsNoMalloc { .. } => SYMBOLS.to_owned(),
        HeapNote::OnlyGlobalAllocator => "`whyslow heap` sees C code and the whole run".to_owned(),
        _ => return None,
    })
}

pub(super) fn left_out_fix(program: &str, why: &WhyLeftOut) -> Option<String> {
    Some(match why {
        WhyLeftOut::OtherUser => format!(
            "become that user first and start whyslow then, as in `setpriv --reuid USER whyslow heap -- {program}`"
        ),
        WhyLeftOut::OtherRoot => {
            format!("start whyslow in there, as in `chroot FOLDER whyslow heap -- {program}`")
        }
        WhyLeftOut::Confined => "switch the filter off to record them".to_owned(),
        WhyLeftOut::TwoUsers => "start whyslow as the user that it runs as".to_owned(),
        WhyLeftOut::NoAnswer => "leave a core to whyslow, and record again".to_owned(),
        WhyLeftOut::UnseenStart => {
            "start it by libc's functions, or under a `whyslow heap` of its own".to_owned()
        }
        WhyLeftOut::FewFiles { enough, .. } => format!("allow it {enough}"),
        WhyLeftOut::LittleSpace { more, .. } => format!("allow it {} MiB more", more >> 20),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The agent counts them whatever it records.
    #[test]
    fn programs_that_are_left_out_are_counted_without_a_word_of_the_heap() {
        let words = text(&HeapNote::MoreProgramsLeftOut { programs: 2 });
        assert!(words.starts_with("2 more programs were started") && !words.contains("heap"), "{words}");
    }
}
