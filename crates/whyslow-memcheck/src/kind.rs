//! Kinds of findings: their ids never change.

/// What kind of error it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A read outside of allocated memory.
    InvalidRead,
    /// A write outside of allocated memory.
    InvalidWrite,
    /// A read or a write in a block that was freed.
    UseAfterFree,
    /// A jump to an address that is not code.
    InvalidJump,
    /// A signal ended the process, and no other finding is about its place.
    Crash,
    /// A decision, an address or an operand depends on memory that was never written.
    Uninitialised,
    /// A system call gets memory that is not allocated or was never written.
    SyscallArgument,
    /// A block is freed again.
    DoubleFree,
    /// Something is freed that is not the start of a block.
    InvalidFree,
    /// A block is freed by another function than the one for its allocation.
    MismatchedFree,
    /// A copy between regions that overlap.
    Overlap,
    /// A size or an alignment that cannot be meant.
    BadSize,
    /// Anything that this version does not know.
    Other,
    /// Nothing points to it any more.
    LeakDefinite,
    /// Only pointers into its middle are left.
    LeakPossible,
    /// Only lost memory points to it.
    LeakIndirect,
    /// Something still points to it.
    LeakReachable,
    /// A descriptor that is not open is used or closed.
    DescriptorMisuse,
    /// A descriptor is open at exit.
    DescriptorOpen,
}

/// How much a kind matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Undefined behaviour, a crash, or lost memory.
    Error,
    /// Probably one.
    Warning,
    /// Good to know: many correct programs do it.
    Note,
}

impl Severity {
    /// SARIF's word, also in JSON.
    pub fn label(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl Kind {
    /// All kinds: first those to look at first.
    pub const ALL: [Self; 19] = [
        Self::InvalidRead,
        Self::InvalidWrite,
        Self::UseAfterFree,
        Self::InvalidJump,
        Self::Crash,
        Self::Uninitialised,
        Self::SyscallArgument,
        Self::DoubleFree,
        Self::InvalidFree,
        Self::MismatchedFree,
        Self::Overlap,
        Self::BadSize,
        Self::Other,
        Self::LeakDefinite,
        Self::LeakPossible,
        Self::LeakIndirect,
        Self::LeakReachable,
        Self::DescriptorMisuse,
        Self::DescriptorOpen,
    ];

    /// Its name, which never changes.
    pub fn id(self) -> &'static str {
        match self {
            Self::InvalidRead => "invalid-read",
            Self::InvalidWrite => "invalid-write",
            Self::UseAfterFree => "use-after-free",
            Self::InvalidJump => "invalid-jump",
            Self::Crash => "crash",
            Self::Uninitialised => "uninitialised",
            Self::SyscallArgument => "syscall-argument",
            Self::DoubleFree => "double-free",
            Self::InvalidFree => "invalid-free",
            Self::MismatchedFree => "mismatched-free",
            Self::Overlap => "overlap",
            Self::BadSize => "bad-size",
            Self::Other => "other",
            Self::LeakDefinite => "leak-definite",
            Self::LeakPossible => "leak-possible",
            Self::LeakIndirect => "leak-indirect",
            Self::LeakReachable => "leak-reachable",
            Self::DescriptorMisuse => "descriptor-misuse",
            Self::DescriptorOpen => "descriptor-open",
        }
    }

    /// The kind of this id.
    pub fn of_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.id() == id)
    }

    /// How much it matters.
    pub fn severity(self) -> Severity {
        match self {
            Self::LeakPossible | Self::DescriptorMisuse => Severity::Warning,
            Self::LeakIndirect | Self::LeakReachable | Self::DescriptorOpen => Severity::Note,
            _ => Severity::Error,
        }
    }

    /// Whether it is memory that was not freed.
    pub fn is_leak(self) -> bool {
        matches!(self, Self::LeakDefinite | Self::LeakPossible | Self::LeakIndirect | Self::LeakReachable)
    }

    /// What it is, in one sentence.
    pub fn summary(self) -> &'static str {
        match self {
            Self::InvalidRead => "reads memory that is not allocated",
            Self::InvalidWrite => "writes memory that is not allocated",
            Self::UseAfterFree => "reads or writes a block that was freed",
            Self::InvalidJump => "jumps to an address that is not code",
            Self::Crash => "a signal ended the program",
            Self::Uninitialised => "a decision or an address depends on memory that was never written",
            Self::SyscallArgument => {
                "a system call is given memory that is not allocated or was never written"
            }
            Self::DoubleFree => "frees a block that was freed before",
            Self::InvalidFree => "frees memory that is not the start of a block",
            Self::MismatchedFree => {
                "frees a block with another function than the one that belongs to its allocation"
            }
            Self::Overlap => "copies between regions that overlap",
            Self::BadSize => "allocates with a size or an alignment that cannot be meant",
            Self::Other => "another error that memcheck reports",
            Self::LeakDefinite => "memory that nothing points to any more",
            Self::LeakPossible => "memory that only a pointer into its middle keeps",
            Self::LeakIndirect => "memory that only lost memory points to",
            Self::LeakReachable => "memory that is still in use at exit",
            Self::DescriptorMisuse => "uses or closes a descriptor that is not open",
            Self::DescriptorOpen => "a file descriptor that is open at exit",
        }
    }

    /// What to do.
    pub fn advice(self) -> &'static str {
        match self {
            Self::InvalidRead | Self::InvalidWrite => {
                "check the index or length against the size of the block; in Rust, look for unsafe code"
            }
            Self::UseAfterFree => "free the block later, or drop every pointer to it when it is freed",
            Self::InvalidJump => "check where the function pointer comes from: null, freed or overwritten",
            Self::Crash => "see the stack; an invalid access before it is often the cause",
            Self::Uninitialised => "initialise it where it comes from; --thorough shows where that is",
            Self::SyscallArgument => {
                "initialise all bytes that are handed over, also padding, or pass a smaller length"
            }
            Self::DoubleFree => "let one owner free it, and set other pointers to null",
            Self::InvalidFree => {
                "free only what the allocator returned: not the stack, a global or the middle of a block"
            }
            Self::MismatchedFree => "pair malloc with free, new with delete, new[] with delete[]",
            Self::Overlap => "use memmove (in Rust: ptr::copy)",
            Self::BadSize => "check the calculation of the size: a negative number became a huge one",
            Self::Other => "see memcheck's manual for this message",
            Self::LeakDefinite => "free it before the last pointer to it goes, or keep the pointer",
            Self::LeakPossible => "lost, unless something keeps only a pointer into its middle on purpose",
            Self::LeakIndirect => "free it together with the block that points to it",
            Self::LeakReachable => "nothing, if it is meant to live as long as the program",
            Self::DescriptorMisuse => "close each descriptor once, and do not use it afterwards",
            Self::DescriptorOpen => "close it where it is no longer needed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_an_id_of_its_own() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of_id(kind.id()), Some(kind));
        }
        assert_eq!(Kind::of_id("leak"), None);
    }
}
