//! What sources hand to the converter.

use std::borrow::Cow;

use whyslow_profile::MetricId;
use whyslow_unwind::Registers;

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

/// One thing that happened. Times are nanoseconds of the recording's clock.
#[derive(Debug)]
pub enum Input<'a> {
    /// Something was measured.
    Sample(Sample<'a>),
    /// A process mapped a file.
    Mapped(Mapped<'a>),
    /// The kernel's own code is from the first address, that of its `_text`, to before the second.
    KernelMapped(u64, u64),
    /// A thread is about to leave its CPU.
    Leaves(Sample<'a>),
    /// A thread begins a system call.
    Enters(Enters<'a>),
    /// A system call is over.
    Returns(Returns),
    /// A thread that waits can go on.
    Wakes(Wakes<'a>),
    /// A thread got a name.
    Named {
        /// Which.
        task: Task,
        /// The name.
        name: Cow<'a, str>,
        /// Because it executed a program: nothing is mapped any more, and no other thread is left.
        by_exec: bool,
        /// When.
        time_ns: u64,
    },
    /// A thread started another, maybe in a new process.
    Forked {
        /// The new one.
        task: Task,
        /// The one that started it.
        parent: Task,
        /// When.
        time_ns: u64,
    },
    /// A thread ended.
    Ended {
        /// Which.
        task: Task,
        /// When.
        time_ns: u64,
    },
    /// A thread came onto a CPU or left it.
    Switched {
        /// Which.
        tid: u32,
        /// Whether it runs from now on.
        runs: bool,
        /// Whether it would go on if it had not been taken off its CPU.
        preempted: bool,
        /// Which CPU.
        cpu: Option<u32>,
        /// When.
        time_ns: u64,
    },
    /// Records could not be kept.
    Lost {
        /// How many.
        records: u64,
        /// Of which CPU, if that is known.
        cpu: Option<u32>,
        /// When the first one after them could be kept.
        time_ns: u64,
    },
    /// The kernel paused sampling to protect the machine.
    Throttled,
}

/// One sample of one event.
#[derive(Debug)]
pub struct Sample<'a> {
    /// What was measured.
    pub metric: MetricId,
    /// When.
    pub time_ns: u64,
    /// Whose it is. Process 0 is the idle loop; thread -1 has left its process already.
    pub task: Task,
    /// How much it weighs, in the unit of the metric.
    pub value: u64,
    /// Where the thread was in the program.
    pub user: UserStack<'a>,
    /// Where it was in the kernel, innermost first: addresses, of which all but the first are return addresses.
    pub kernel: &'a [u64],
}

/// The beginning of a system call. It is told once without the stack, and maybe once more with it.
#[derive(Debug)]
pub struct Enters<'a> {
    /// Who.
    pub task: Task,
    /// When.
    pub time_ns: u64,
    /// The kernel's number of the call.
    pub number: i64,
    /// What it was given.
    pub arguments: [u64; 6],
    /// Where the thread was in the program, if this tells it.
    pub stack: Option<UserStack<'a>>,
    /// Whether the number is one of a 32-bit program; told with the stack.
    pub is_32_bit: bool,
}

/// The end of a system call.
#[derive(Debug, Clone, Copy)]
pub struct Returns {
    /// Who.
    pub task: Task,
    /// When.
    pub time_ns: u64,
    /// The kernel's number of the call.
    pub number: i64,
    /// What it gave; negative for an error.
    pub result: i64,
}

/// The end of a wait.
#[derive(Debug)]
pub struct Wakes<'a> {
    /// The thread that can go on.
    pub tid: u32,
    /// Who runs where that is decided, and where it is.
    pub by: Sample<'a>,
    /// Whether that one has nothing to do with it: a timer or a device has interrupted it.
    pub in_interrupt: bool,
}

/// What a sample has of the user's stack.
#[derive(Debug)]
pub enum UserStack<'a> {
    /// All that is needed to unwind it.
    Dump(Registers, Dump<'a>),
    /// Addresses, innermost first, of which all but the first are return addresses.
    Frames(&'a [u64]),
    /// The event has no stacks: at most the one address.
    Address(Option<u64>),
    /// Nothing: a thread of the kernel, or one that is on its way out.
    None,
}

/// The copied bytes of a stack, from the stack pointer outwards.
#[derive(Debug, Clone, Copy)]
pub struct Dump<'a> {
    /// The stack pointer.
    pub sp: u64,
    /// What is there.
    pub bytes: &'a [u8],
    /// Whether more of the stack lies beyond the copied bytes.
    pub cut: bool,
}

/// A mapping that a process made.
#[derive(Debug)]
pub struct Mapped<'a> {
    /// The process.
    pub pid: u32,
    /// The thread that did it, if it is known.
    pub tid: Option<u32>,
    /// When.
    pub time_ns: u64,
    /// The path or the kernel's name of what is mapped.
    pub path: Cow<'a, str>,
    /// The major and minor number of its device; 0 when not known.
    pub device: (u32, u32),
    /// The file's number there; 0 when not known.
    pub inode: u64,
    /// Tells files apart that had the same number one after the other; 0 when not known.
    pub generation: u64,
    /// The file's build id, if the record has it.
    pub build_id: Option<Vec<u8>>,
    /// The first address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// The offset in the file of `start`.
    pub offset: u64,
    /// Whether it is code.
    pub executable: bool,
}

impl Mapped<'_> {
    /// The mapping of code, and its file.
    pub(crate) fn file_mapping(&self) -> FileMapping {
        let Self { device, inode, generation, start, end, offset, .. } = *self;
        let key = crate::FileKey { path: self.path.as_ref().to_owned(), device, inode };
        FileMapping { key, generation, start, end, offset }
    }
}
