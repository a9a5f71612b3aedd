//! The x86-64 registers and their DWARF numbers.

/// A general register, by its DWARF number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Register(pub u8);

impl Register {
    /// Accumulator.
    pub const RAX: Self = Self(0);
    /// Callee-saved.
    pub const RBX: Self = Self(3);
    /// Frame pointer, or callee-saved.
    pub const RBP: Self = Self(6);
    /// Stack pointer.
    pub const RSP: Self = Self(7);
    /// Callee-saved.
    pub const R12: Self = Self(12);
    /// Callee-saved.
    pub const R15: Self = Self(15);
    /// The return address: the instruction pointer of the frame.
    pub const RIP: Self = Self(16);

    pub(crate) const COUNT: usize = 17;

    /// The registers that a function must restore, in the order of [`crate::Rule`]'s slots.
    pub(crate) const CALLEE_SAVED: [Self; 6] = [Self::RBX, Self::RBP, Self(12), Self(13), Self(14), Self(15)];
}

/// Register values; each may be unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    values: [u64; Register::COUNT],
    known: u32,
}

/// Registers that are preserved across a call.
const SURVIVORS: u32 = {
    let mut mask = 1 << Register::RSP.0 | 1 << Register::RIP.0;
    let mut at = 0;
    while at < Register::CALLEE_SAVED.len() {
        mask |= 1 << Register::CALLEE_SAVED[at].0;
        at += 1;
    }
    mask
};

impl Registers {
    /// Only the three that every frame has.
    pub fn new(ip: u64, sp: u64, bp: u64) -> Self {
        let mut registers = Self { values: [0; Register::COUNT], known: 0 };
        registers.set(Register::RIP, ip);
        registers.set(Register::RSP, sp);
        registers.set(Register::RBP, bp);
        registers
    }

    /// Only the two that the kernel reports for a waiting thread.
    pub fn of_waiting(ip: u64, sp: u64) -> Self {
        let mut registers = Self::new(ip, sp, 0);
        registers.forget(Register::RBP);
        registers
    }

    /// The value, if it is known.
    #[inline]
    pub fn get(&self, register: Register) -> Option<u64> {
        let known = self.known.checked_shr(u32::from(register.0)).unwrap_or(0) & 1 != 0;
        known.then(|| self.values[usize::from(register.0)])
    }

    /// Sets a value. Ignores numbers that are not general registers.
    #[inline]
    pub fn set(&mut self, register: Register, value: u64) {
        if let Some(slot) = self.values.get_mut(usize::from(register.0)) {
            *slot = value;
            self.known |= 1 << register.0;
        }
    }

    /// Marks a value as unknown.
    #[inline]
    pub fn forget(&mut self, register: Register) {
        if usize::from(register.0) < Register::COUNT {
            self.known &= !(1 << register.0);
        }
    }

    /// Keeps only the registers that a call preserves.
    #[inline]
    pub(crate) fn keep_survivors(&mut self) {
        self.known &= SURVIVORS;
    }

    /// Instruction pointer; 0 if unknown.
    #[inline]
    pub fn ip(&self) -> u64 {
        self.values[usize::from(Register::RIP.0)]
    }

    /// Stack pointer; 0 if unknown.
    #[inline]
    pub fn sp(&self) -> u64 {
        self.values[usize::from(Register::RSP.0)]
    }

    /// The frame pointer register, whatever it holds.
    #[inline]
    pub fn bp(&self) -> u64 {
        self.values[usize::from(Register::RBP.0)]
    }
}
