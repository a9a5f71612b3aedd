//! Registers and their values.

use whyslow_processor::Processor;

use crate::arch::Arch;
use crate::{Aarch64, X86_64};

/// A general register, by its DWARF number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Register(pub u8);

/// Register values; each may be unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers<A: Arch> {
    values: A::Values,
    known: u64,
}

/// A set of registers, as bits.
pub(crate) const fn mask(registers: &[Register]) -> u64 {
    let (mut mask, mut at) = (0, 0);
    while at < registers.len() {
        mask |= 1 << registers[at].0;
        at += 1;
    }
    mask
}

impl<A: Arch> Registers<A> {
    const NONE: Self = Self { values: A::ZEROS, known: 0 };

    /// Only the three that every frame has.
    pub fn new(ip: u64, sp: u64, fp: u64) -> Self {
        let mut registers = Self::NONE;
        registers.set(A::IP, ip);
        registers.set(A::SP, sp);
        registers.set(A::FP, fp);
        registers
    }

    /// Only the two that the kernel reports for a waiting thread.
    pub fn of_waiting(ip: u64, sp: u64) -> Self {
        let mut registers = Self::new(ip, sp, 0);
        registers.forget(A::FP);
        registers
    }

    /// The registers of a sample, by the kernel's numbers. `None` without the three that every frame has, as for kernel
    /// threads and tasks that are exiting.
    pub fn of_sample(value: impl Fn(u64) -> Option<u64>) -> Option<Self> {
        let mut registers = Self::NONE;
        for &(bit, register) in A::PERF {
            if let Some(value) = value(bit) {
                registers.set(register, value);
            }
        }
        registers.get(A::SP)?;
        registers.get(A::FP)?;
        (registers.get(A::IP)? != 0).then_some(registers)
    }

    /// The registers that the kernel has saved for a signal handler, in the order of its `ucontext`.
    pub fn of_context(values: &[u64]) -> Self {
        let mut registers = Self::NONE;
        for (register, value) in A::CONTEXT.iter().zip(values) {
            registers.set(*register, *value);
        }
        registers
    }

    /// The value, if it is known.
    #[inline]
    pub fn get(&self, register: Register) -> Option<u64> {
        let known = self.known.checked_shr(u32::from(register.0)).unwrap_or(0) & 1 != 0;
        known.then(|| self.values.as_ref()[usize::from(register.0)])
    }

    /// Sets a value. Ignores numbers that are not general registers.
    #[inline]
    pub fn set(&mut self, register: Register, value: u64) {
        if let Some(slot) = self.values.as_mut().get_mut(usize::from(register.0)) {
            *slot = value;
            self.known |= 1 << register.0;
        }
    }

    /// Marks a value as unknown.
    #[inline]
    pub fn forget(&mut self, register: Register) {
        if usize::from(register.0) < self.values.as_ref().len() {
            self.known &= !(1 << register.0);
        }
    }

    /// Keeps only the registers that a call preserves.
    #[inline]
    pub(crate) fn keep_survivors(&mut self) {
        self.known &= A::SURVIVORS;
    }

    /// Instruction pointer; 0 if unknown.
    #[inline]
    pub fn ip(&self) -> u64 {
        self.values.as_ref()[usize::from(A::IP.0)]
    }

    /// Stack pointer; 0 if unknown.
    #[inline]
    pub fn sp(&self) -> u64 {
        self.values.as_ref()[usize::from(A::SP.0)]
    }

    /// The frame pointer register, whatever it holds.
    #[inline]
    pub fn fp(&self) -> u64 {
        self.values.as_ref()[usize::from(A::FP.0)]
    }

    /// Whether the frame pointer register is known.
    #[inline]
    pub fn has_fp(&self) -> bool {
        self.get(A::FP).is_some()
    }
}

/// The registers of a thread, of any processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnyRegisters {
    /// Of an x86-64 thread.
    X86_64(Registers<X86_64>),
    /// Of an AArch64 thread.
    Aarch64(Registers<Aarch64>),
}

impl AnyRegisters {
    /// See [`Registers::of_waiting`].
    pub fn of_waiting(processor: Processor, ip: u64, sp: u64) -> Self {
        match processor {
            Processor::X86_64 => Self::X86_64(Registers::of_waiting(ip, sp)),
            Processor::Aarch64 => Self::Aarch64(Registers::of_waiting(ip, sp)),
        }
    }

    /// See [`Registers::of_sample`].
    pub fn of_sample(processor: Processor, value: impl Fn(u64) -> Option<u64>) -> Option<Self> {
        Some(match processor {
            Processor::X86_64 => Self::X86_64(Registers::of_sample(value)?),
            Processor::Aarch64 => Self::Aarch64(Registers::of_sample(value)?),
        })
    }

    /// See [`Registers::of_context`].
    pub fn of_context(processor: Processor, values: &[u64]) -> Self {
        match processor {
            Processor::X86_64 => Self::X86_64(Registers::of_context(values)),
            Processor::Aarch64 => Self::Aarch64(Registers::of_context(values)),
        }
    }

    /// The kernel's numbers of a processor's registers in the masks of its samples.
    pub fn perf_mask(processor: Processor) -> u64 {
        let registers = match processor {
            Processor::X86_64 => X86_64::PERF,
            Processor::Aarch64 => Aarch64::PERF,
        };
        registers.iter().fold(0, |mask, (bit, _)| mask | 1 << bit)
    }

    /// Instruction pointer; 0 if unknown.
    pub fn ip(&self) -> u64 {
        match self {
            Self::X86_64(registers) => registers.ip(),
            Self::Aarch64(registers) => registers.ip(),
        }
    }

    /// Stack pointer; 0 if unknown.
    pub fn sp(&self) -> u64 {
        match self {
            Self::X86_64(registers) => registers.sp(),
            Self::Aarch64(registers) => registers.sp(),
        }
    }
}

impl From<Registers<X86_64>> for AnyRegisters {
    fn from(registers: Registers<X86_64>) -> Self {
        Self::X86_64(registers)
    }
}

impl From<Registers<Aarch64>> for AnyRegisters {
    fn from(registers: Registers<Aarch64>) -> Self {
        Self::Aarch64(registers)
    }
}
