//! The inputs that sources feed to the converter.

use std::borrow::Cow;
use std::ops::Range;

use whyslow_numbers::{ClockNs, RunTimeAddress};
use whyslow_profile::batch::{Batch, SiteEnd, Transfer};
use whyslow_profile::{MetricId, WaitFrame};
use whyslow_unwind::AnyRegisters;

use crate::world::FileMapping;

/// A thread and its process, by the system's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Task {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
}

impl Task {
    /// The first thread of a process.
    pub fn first_of(pid: u32) -> Self {
        Self { pid, tid: pid }
    }
}

/// One event.
#[derive(Debug)]
pub enum Input<'a> {
    /// The recording begins: time 0 of the profile, for sources that learn it from their first record.
    Begins {
        /// When.
        time_ns: ClockNs,
    },
    /// A sample was taken.
    Sample(Sample<'a>),
    /// CPU time of a thread that no sample stands for, from a source that computes it itself.
    Unsampled {
        /// The metric that was measured.
        metric: MetricId,
        /// The thread.
        task: Task,
        /// When.
        time_ns: ClockNs,
        /// How much, in the unit of the metric.
        value: u64,
    },
    /// A process mapped a file.
    Mapped(Mapped<'a>),
    /// The kernel's own code starts at the first address, that of its `_text`, and ends before the second.
    KernelMapped(RunTimeAddress, RunTimeAddress),
    /// A thread is about to leave its CPU.
    Leaves(Sample<'a>),
    /// A thread enters a system call.
    Enters(Enters<'a>),
    /// A system call returns.
    Returns(Returns),
    /// A waiting thread is woken.
    Wakes(Wakes<'a>),
    /// A thread got a name.
    Named {
        /// Which.
        task: Task,
        /// The name.
        name: Cow<'a, str>,
        /// Whether it executed a program: then nothing is mapped any more, and no other thread is left.
        by_exec: bool,
        /// When.
        time_ns: ClockNs,
    },
    /// A thread started another, possibly in a new process.
    Forked {
        /// The new thread.
        task: Task,
        /// The thread that started it.
        parent: Task,
        /// When.
        time_ns: ClockNs,
    },
    /// A thread exited.
    Ended {
        /// Which.
        task: Task,
        /// When.
        time_ns: ClockNs,
    },
    /// A thread was switched onto a CPU or off it.
    Switched {
        /// Which.
        tid: u32,
        /// Whether it runs from now on.
        runs: bool,
        /// Whether it was preempted and is still runnable.
        preempted: bool,
        /// Which CPU.
        cpu: Option<u32>,
        /// When.
        time_ns: ClockNs,
    },
    /// A thread already runs when its recording starts or goes on.
    Runs {
        /// Which.
        tid: u32,
        /// When.
        time_ns: ClockNs,
    },
    /// A thread already waits when its recording starts or goes on.
    Waits {
        /// Which.
        tid: u32,
        /// When.
        time_ns: ClockNs,
    },
    /// A snapshot of a waiting thread was taken.
    WaitSnapshot(WaitSnapshot<'a>),
    /// The run-queue delay of a thread by the kernel's account, before anything else was recorded of it.
    QueuedAtStart {
        /// Which.
        tid: u32,
        /// The delay of its life so far.
        queued_ns: u64,
    },
    /// Its run-queue delay later.
    Queued {
        /// Which.
        tid: u32,
        /// The delay of its life so far.
        queued_ns: u64,
        /// When.
        time_ns: ClockNs,
    },
    /// New rows of a recorded heap.
    Heap(&'a Batch),
    /// The final numbers of one of its sites.
    HeapSite(&'a SiteEnd<'a>),
    /// Blocks that another thread freed than the one that allocated them.
    HeapTransfer(Transfer),
    /// Records were lost.
    Lost {
        /// How many.
        records: u64,
        /// Of which CPU, if known.
        cpu: Option<u32>,
        /// The time of the first record that fit again.
        time_ns: ClockNs,
    },
    /// The kernel paused sampling to protect the machine.
    Throttled,
}

impl Input<'_> {
    /// When a thread was observed, for inputs that a pause leaves out. Processes, mappings and losses are
    /// followed at any time.
    pub(crate) fn observed_ns(&self) -> Option<ClockNs> {
        match self {
            Self::Sample(sample) | Self::Leaves(sample) => Some(sample.time_ns),
            Self::Enters(enters) => Some(enters.time_ns),
            Self::Returns(returns) => Some(returns.time_ns),
            Self::Wakes(wakes) => Some(wakes.by.time_ns),
            Self::Switched { time_ns, .. } => Some(*time_ns),
            Self::Begins { .. }
            | Self::Unsampled { .. }
            | Self::Runs { .. }
            | Self::Waits { .. }
            | Self::WaitSnapshot(_)
            | Self::QueuedAtStart { .. }
            | Self::Queued { .. }
            | Self::Heap(_)
            | Self::HeapSite(_)
            | Self::HeapTransfer(_)
            | Self::Mapped(_)
            | Self::KernelMapped(..)
            | Self::Named { .. }
            | Self::Forked { .. }
            | Self::Ended { .. }
            | Self::Lost { .. }
            | Self::Throttled => None,
        }
    }
}

/// One sample of one event.
#[derive(Debug)]
pub struct Sample<'a> {
    /// The metric that was measured.
    pub metric: MetricId,
    /// When.
    pub time_ns: ClockNs,
    /// The sampled thread. Process 0 is the idle loop; thread -1 has already left its process.
    pub task: Task,
    /// Its weight, in the unit of the metric.
    pub value: u64,
    /// The thread's stack in the program.
    pub user: UserStack<'a>,
    /// Its stack in the kernel, innermost first: addresses, of which all but the first are return addresses.
    pub kernel: &'a [u64],
}

/// The entry of a system call. Reported once without the stack, and possibly a second time with it.
#[derive(Debug)]
pub struct Enters<'a> {
    /// The thread.
    pub task: Task,
    /// When.
    pub time_ns: ClockNs,
    /// The kernel's number of the call.
    pub number: i64,
    /// Its arguments.
    pub arguments: [u64; 6],
    /// The thread's stack in the program, if this record has it.
    pub stack: Option<UserStack<'a>>,
    /// Whether the number is one of a 32-bit program. Known only with the stack.
    pub is_32_bit: bool,
}

/// The exit of a system call.
#[derive(Debug, Clone, Copy)]
pub struct Returns {
    /// The thread.
    pub task: Task,
    /// When.
    pub time_ns: ClockNs,
    /// The kernel's number of the call.
    pub number: i64,
    /// Its result; negative for an error.
    pub result: i64,
}

/// The end of a wait.
#[derive(Debug)]
pub struct Wakes<'a> {
    /// The thread that is woken.
    pub tid: u32,
    /// The thread that runs at the wakeup, and its stack.
    pub by: Sample<'a>,
    /// Whether that thread is unrelated: a timer or a device interrupted it.
    pub in_interrupt: bool,
}

/// The state of a waiting thread, where the kernel does not provide its stack.
#[derive(Debug)]
pub struct WaitSnapshot<'a> {
    /// The thread.
    pub task: Task,
    /// Its stack in the program.
    pub user: UserStack<'a>,
    /// The first argument of its system call; 0 if there is none.
    pub argument: u64,
    /// What it waits for, according to the system.
    pub frame: WaitFrame,
    /// The time that it took.
    pub taken: Range<ClockNs>,
}

/// The user stack of a sample.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one at a time, and not moved")]
pub enum UserStack<'a> {
    /// Everything needed to unwind it.
    Dump(AnyRegisters, Dump<'a>),
    /// Addresses, innermost first, of which all but the first are return addresses.
    Frames(&'a [u64]),
    /// An event without stacks: at most one address.
    Address(Option<u64>),
    /// Nothing: a kernel thread, or one that is exiting.
    None,
}

/// The copied bytes of a stack, from the stack pointer outwards.
#[derive(Debug, Clone, Copy)]
pub struct Dump<'a> {
    /// The stack pointer.
    pub sp: u64,
    /// The bytes.
    pub bytes: &'a [u8],
    /// Whether the stack continues beyond the copied bytes.
    pub cut: bool,
}

/// A new mapping of a process.
#[derive(Debug)]
pub struct Mapped<'a> {
    /// The process.
    pub pid: u32,
    /// The thread that created it, if known.
    pub tid: Option<u32>,
    /// When.
    pub time_ns: ClockNs,
    /// The path, or the kernel's name of the mapping.
    pub path: Cow<'a, str>,
    /// The major and minor number of its device; 0 if unknown.
    pub device: (u32, u32),
    /// The file's inode; 0 if unknown.
    pub inode: u64,
    /// Distinguishes files that had the same inode one after the other; 0 if unknown.
    pub generation: u64,
    /// The file's build id, if the record has it.
    pub build_id: Option<Vec<u8>>,
    /// The first address.
    pub start: RunTimeAddress,
    /// One past the last address.
    pub end: RunTimeAddress,
    /// The file offset of `start`.
    pub offset: u64,
    /// Whether it is code.
    pub executable: bool,
}

impl Mapped<'_> {
    /// The mapping of code and its file.
    pub(crate) fn file_mapping(&self) -> FileMapping {
        let Self { device, inode, generation, start, end, offset, .. } = *self;
        let key = crate::FileKey { path: self.path.as_ref().to_owned(), device, inode };
        FileMapping { key, generation, start, end, offset }
    }
}
