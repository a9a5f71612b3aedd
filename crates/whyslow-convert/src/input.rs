//! The inputs that sources feed to the converter.

use std::borrow::Cow;

use whyslow_profile::MetricId;
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

/// One event. Times are nanoseconds of the recording's clock.
#[derive(Debug)]
pub enum Input<'a> {
    /// A sample was taken.
    Sample(Sample<'a>),
    /// A process mapped a file.
    Mapped(Mapped<'a>),
    /// The kernel's own code starts at the first address, that of its `_text`, and ends before the second.
    KernelMapped(u64, u64),
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
        time_ns: u64,
    },
    /// A thread started another, possibly in a new process.
    Forked {
        /// The new thread.
        task: Task,
        /// The thread that started it.
        parent: Task,
        /// When.
        time_ns: u64,
    },
    /// A thread exited.
    Ended {
        /// Which.
        task: Task,
        /// When.
        time_ns: u64,
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
        time_ns: u64,
    },
    /// Records were lost.
    Lost {
        /// How many.
        records: u64,
        /// Of which CPU, if known.
        cpu: Option<u32>,
        /// The time of the first record that fit again.
        time_ns: u64,
    },
    /// The kernel paused sampling to protect the machine.
    Throttled,
}

impl Input<'_> {
    /// When a thread was observed, for inputs that a pause leaves out. Processes, mappings and losses are
    /// followed at any time.
    pub(crate) fn observed_ns(&self) -> Option<u64> {
        match self {
            Self::Sample(sample) | Self::Leaves(sample) => Some(sample.time_ns),
            Self::Enters(enters) => Some(enters.time_ns),
            Self::Returns(returns) => Some(returns.time_ns),
            Self::Wakes(wakes) => Some(wakes.by.time_ns),
            Self::Switched { time_ns, .. } => Some(*time_ns),
            Self::Mapped(_)
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
    pub time_ns: u64,
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
    pub time_ns: u64,
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
    pub time_ns: u64,
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
    pub time_ns: u64,
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
    pub start: u64,
    /// One past the last address.
    pub end: u64,
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
