//! The supported processors: the kind that a program, a file or a recording is made for.
//!
//! A processor is a value. A recording of another machine is unwound, decoded and named by the rules of its own
//! processor; [`Processor::HOST`] is the only place where the compiler's target decides.

#![no_std]

/// A kind of processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Processor {
    /// 64-bit x86.
    X86_64,
    /// 64-bit Arm.
    Aarch64,
}

/// The smallest page of every supported processor, and the page of nearly every machine. Mappings are multiples of
/// it.
pub const PAGE: u64 = 4096;

impl Processor {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// The one that this program runs on.
    pub const HOST: Self = if cfg!(target_arch = "x86_64") {
        Self::X86_64
    } else if cfg!(target_arch = "aarch64") {
        Self::Aarch64
    } else {
        panic!("this processor is not supported")
    };

    /// The processor by its [`Self::name`].
    ///
    /// ```
    /// use whyslow_processor::Processor;
    ///
    /// assert_eq!(Processor::of("aarch64"), Some(Processor::Aarch64));
    /// assert_eq!(Processor::of("s390x"), None);
    /// ```
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|processor| processor.name() == name)
    }

    /// The processor of a file, by the number in its ELF header.
    pub fn of_elf(machine: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|processor| processor.elf_machine() == machine)
    }

    /// The kernel's name, which is also that in `std::env::consts::ARCH`. Profiles store it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// The name for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::X86_64 => "x86-64",
            Self::Aarch64 => "AArch64",
        }
    }

    /// Its number in ELF headers (`e_machine`).
    const fn elf_machine(self) -> u16 {
        match self {
            Self::X86_64 => 62,
            Self::Aarch64 => 183,
        }
    }

    /// The largest page that a kernel may use. Linkers align segments so that it does not matter.
    pub const fn largest_page(self) -> u64 {
        match self {
            Self::X86_64 => PAGE,
            Self::Aarch64 => 64 << 10,
        }
    }

    /// The name of the folder in `/lib` and `/usr/lib` in which Debian and Ubuntu have its libraries.
    pub const fn library_folder(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-linux-gnu",
            Self::Aarch64 => "aarch64-linux-gnu",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_back_to_their_processor() {
        for processor in Processor::ALL {
            assert_eq!(Processor::of(processor.name()), Some(processor));
            assert_eq!(Processor::of_elf(processor.elf_machine()), Some(processor));
            assert!(processor.largest_page().is_multiple_of(PAGE));
        }
        assert_eq!((Processor::of(""), Processor::of_elf(0)), (None, None));
    }
}
