//! What stands on a stack, or in a list of modules, without being a function or a file: a name in brackets.
//!
//! Files hold what such a frame is ([`ModuleKind`]); the texts are made here and only shown. Recorders, views and
//! importers never compare them.

use crate::ids::StringId;
use crate::tables::{Module, Optimised, SymbolState};

coded_enum! {
    /// What stands for a wait on a stack: what the system reported about a waiting thread, or why the stack of the wait
    /// is missing.
    WaitFrame {
        /// Only a name says it.
        #[default] Unknown = 0 / "[waiting]",
        /// The thread could run and was queued for a CPU.
        Queued = 1 / "[queued for a CPU]",
        /// A lock or a signal of another thread.
        Futex = 2 / "[futex]",
        /// A time to pass.
        Sleep = 3 / "[sleep]",
        /// The other end of a pipe.
        Pipe = 4 / "[pipe]",
        /// A socket.
        Socket = 5 / "[socket]",
        /// A file or a disk.
        File = 6 / "[file]",
        /// The terminal.
        Terminal = 7 / "[terminal]",
        /// The exit of a child process.
        Child = 8 / "[child]",
        /// Any of several files or sockets to be ready.
        Events = 9 / "[events]",
        /// A signal.
        Signal = 10 / "[signal]",
        /// A page of memory to be read.
        PageFault = 11 / "[page fault]",
        /// To be continued: the program was stopped.
        Stopped = 12 / "[stopped]",
        /// A system call that is none of these.
        OtherCall = 13 / "[another system call]",
        /// The whole stack is missing: the wait ended before it could be sampled.
        TooShort = 14 / "[wait too short to sample]",
        /// The whole stack is missing: only some waits got one.
        NoStack = 15 / "[wait without a stack]",
    }
}

impl WaitFrame {
    /// What a name in a file without numbers of wait frames means.
    pub(crate) fn named(name: &str) -> Self {
        let earlier =
            [("[waiting for a CPU]", Self::Queued), ("[wait too short to be looked at]", Self::TooShort)];
        let now = Self::ALL.iter().map(|frame| (frame.label(), *frame));
        now.chain(earlier).find(|(text, _)| *text == name).map_or(Self::Unknown, |(_, frame)| frame)
    }
}

/// What a module is. Some are not code: they stand for a [`SpecialFrame`].
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ModuleKind {
    /// Not known.
    #[default]
    Unknown,
    /// The executable.
    Program,
    /// A shared library.
    Library,
    /// The kernel and its modules.
    Kernel,
    /// The page of code that the kernel maps into each process.
    Vdso,
    /// Code generated at run time.
    Jit,
    /// Not code: the location of CPU time without a sample.
    NotSampled,
    /// Not code: what a thread waits for.
    Waiting(WaitFrame),
    /// Not code: a system call that the thread is in.
    SystemCall,
    /// Not code: frames of a deep recursion that are left out.
    LeftOut,
}

impl ModuleKind {
    /// Every kind, with every frame of waits.
    pub fn all() -> impl Iterator<Item = Self> {
        let waits = WaitFrame::ALL.iter().map(|frame| Self::Waiting(*frame));
        (0..).map_while(Self::of_number).filter(|kind| !matches!(kind, Self::Waiting(_))).chain(waits)
    }

    /// The number in the file.
    pub fn code(self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::Program => 1,
            Self::Library => 2,
            Self::Kernel => 3,
            Self::Vdso => 4,
            Self::Jit => 5,
            Self::NotSampled => 6,
            Self::Waiting(_) => 7,
            Self::SystemCall => 8,
            Self::LeftOut => 9,
        }
    }

    /// The kind for the numbers of a module in a file, which has this path. Earlier files have no number for what a
    /// thread waits for.
    pub(crate) fn from_codes(kind: u64, waiting: u64, path: &str) -> Self {
        match (Self::of_number(kind).unwrap_or_default(), waiting) {
            (Self::Waiting(_), 0) => Self::Waiting(WaitFrame::named(path)),
            (Self::Waiting(_), waiting) => Self::Waiting(WaitFrame::from_code(waiting)),
            (kind, _) => kind,
        }
    }

    /// The number of what a thread waits for.
    pub(crate) fn wait_code(self) -> u8 {
        if let Self::Waiting(frame) = self { frame.code() } else { 0 }
    }

    fn of_number(number: u64) -> Option<Self> {
        Some(match number {
            0 => Self::Unknown,
            1 => Self::Program,
            2 => Self::Library,
            3 => Self::Kernel,
            4 => Self::Vdso,
            5 => Self::Jit,
            6 => Self::NotSampled,
            7 => Self::Waiting(WaitFrame::Unknown),
            8 => Self::SystemCall,
            9 => Self::LeftOut,
            _ => return None,
        })
    }

    /// The word used in JSON.
    pub fn label(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Program => "program",
            Self::Library => "library",
            Self::Kernel => "kernel",
            Self::Vdso => "vdso",
            Self::Jit => "jit",
            Self::NotSampled => "not-sampled",
            Self::Waiting(_) => "waiting",
            Self::SystemCall => "system-call",
            Self::LeftOut => "left-out",
        }
    }
}

/// A frame that is no function, or a module that is no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpecialFrame {
    /// The missing outer frames of a truncated stack.
    Truncated,
    /// Code in no known module, or that another tool could not name.
    Unknown,
    /// A function without a name.
    NoName,
    /// CPU time without a sample.
    NotSampled,
    /// Frames of a deep recursion that are left out.
    LeftOut,
    /// All code of whyslow's own agent.
    Agent,
    /// Code generated at run time.
    Jit,
    /// The kernel.
    Kernel,
    /// The code that the kernel maps into every process.
    Vdso,
    /// A wait.
    Waiting(WaitFrame),
}

impl SpecialFrame {
    /// The text to show.
    pub fn text(self) -> &'static str {
        match self {
            Self::Truncated => "[truncated stack]",
            Self::Unknown => "[unknown]",
            Self::NoName => "[no name]",
            Self::NotSampled => "[not sampled]",
            Self::LeftOut => "[recursion left out]",
            Self::Agent => "[whyslow's agent]",
            Self::Jit => "[jit]",
            Self::Kernel => "[kernel]",
            Self::Vdso => "[vdso]",
            Self::Waiting(frame) => frame.label(),
        }
    }

    /// Whether a name in another tool's file is this frame: many tools write a frame as whyslow's folded files do.
    pub fn is_named(self, name: &str) -> bool {
        name == self.text() || self == Self::Truncated && name == "[truncated]"
    }

    /// The kind of its module.
    fn kind(self) -> ModuleKind {
        match self {
            Self::Truncated | Self::Unknown | Self::NoName | Self::Agent => ModuleKind::Unknown,
            Self::NotSampled => ModuleKind::NotSampled,
            Self::LeftOut => ModuleKind::LeftOut,
            Self::Jit => ModuleKind::Jit,
            Self::Kernel => ModuleKind::Kernel,
            Self::Vdso => ModuleKind::Vdso,
            Self::Waiting(frame) => ModuleKind::Waiting(frame),
        }
    }
}

impl Module {
    /// The module that stands for a special frame. `name` is its text.
    pub fn special(frame: SpecialFrame, name: StringId) -> Self {
        Self::without_code(frame.kind(), name)
    }

    /// A module that stands for something else than a file.
    pub fn without_code(kind: ModuleKind, name: StringId) -> Self {
        let (symbols, optimised) = (SymbolState::NotLoaded, Optimised::Unknown);
        Self { path: name, build_id: None, kind, symbols, optimised }
    }
}

/// The name of something that is no function, or that has no symbol: `[libz.so.1]`, `[write]`.
pub fn bracketed(name: &str) -> String {
    format!("[{name}]")
}

/// Whether a name is in brackets, so that it is not a function's and not a path.
pub fn is_bracketed(name: &str) -> bool {
    name.starts_with('[')
}

/// The name of the module of code that a process generates at run time: `[jit:7]`.
pub fn jit_module(pid: u32) -> String {
    bracketed(&format!("jit:{pid}"))
}

/// The process in the name of such a module.
pub fn pid_of_jit_module(name: &str) -> Option<u32> {
    name.strip_prefix("[jit:")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_kinds_are_read_back() {
        for kind in ModuleKind::all() {
            let waiting = kind.wait_code().into();
            assert_eq!(ModuleKind::from_codes(kind.code().into(), waiting, ""), kind);
        }
        assert_eq!(ModuleKind::all().count(), 9 + WaitFrame::ALL.len());
        assert_eq!(ModuleKind::from_codes(99, 3, "[sleep]"), ModuleKind::Unknown);
    }

    #[test]
    fn names_of_waits_in_earlier_files_have_a_meaning() {
        let of = |name| ModuleKind::from_codes(7, 0, name);
        for frame in &WaitFrame::ALL[1..] {
            assert_eq!(of(frame.label()), ModuleKind::Waiting(*frame));
        }
        assert_eq!(of("[waiting for a CPU]"), ModuleKind::Waiting(WaitFrame::Queued));
        assert_eq!(of("[wait too short to be looked at]"), ModuleKind::Waiting(WaitFrame::TooShort));
        assert_eq!(of("[a fortune teller]"), ModuleKind::Waiting(WaitFrame::Unknown));
    }

    #[test]
    fn the_process_of_generated_code_is_in_its_name() {
        assert_eq!(pid_of_jit_module(&jit_module(12)), Some(12));
        assert_eq!(pid_of_jit_module("[jit:../x]"), None);
        assert_eq!(pid_of_jit_module("/tmp/jit-12.dump"), None);
    }
}
