//! The calling thread's words of storage, and the base that their offsets are relative to.

use core::arch::{asm, global_asm};
use core::num::NonZeroU64;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use super::calls::{ARCH_PRCTL, call};
use crate::sys;

global_asm!(
    ".section .tbss.whyslow,\"awT\",@nobits",
    ".balign 8",
    ".type whyslow_thread, @tls_object",
    ".size whyslow_thread, 8",
    "whyslow_thread:",
    ".zero 8",
    ".type whyslow_countdown, @tls_object",
    ".size whyslow_countdown, 8",
    "whyslow_countdown:",
    ".zero 8",
    ".type whyslow_causal, @tls_object",
    ".size whyslow_causal, 8",
    "whyslow_causal:",
    ".zero 8",
    ".text",
);

/// A word of the calling thread's storage, by its offset from the `fs` base.
#[derive(Clone, Copy)]
pub struct ThreadWord(NonZeroU64);

impl ThreadWord {
    /// The word that points to the thread's state. `None` if the thread has no storage for the agent.
    #[inline(always)]
    pub fn of_state() -> Option<Self> {
        let offset: u64;
        // SAFETY: reads a word that the loader has filled.
        unsafe {
            asm!("mov {}, qword ptr [rip + whyslow_thread@GOTTPOFF]", out(reg) offset,
                options(nostack, readonly, pure, preserves_flags));
        }
        NonZeroU64::new(offset).map(Self)
    }

    /// The word that counts down to the next sample. `None` if the thread has no storage for the agent.
    #[inline(always)]
    pub fn of_countdown() -> Option<Self> {
        let offset: u64;
        // SAFETY: reads a word that the loader has filled.
        unsafe {
            asm!("mov {}, qword ptr [rip + whyslow_countdown@GOTTPOFF]", out(reg) offset,
                options(nostack, readonly, pure, preserves_flags));
        }
        NonZeroU64::new(offset).map(Self)
    }

    /// The word with the row of the thread's delays. `None` if the thread has no storage for the agent.
    #[inline(always)]
    pub fn of_causal() -> Option<Self> {
        let offset: u64;
        // SAFETY: reads a word that the loader has filled.
        unsafe {
            asm!("mov {}, qword ptr [rip + whyslow_causal@GOTTPOFF]", out(reg) offset,
                options(nostack, readonly, pure, preserves_flags));
        }
        NonZeroU64::new(offset).map(Self)
    }

    /// Its value.
    #[inline(always)]
    pub fn get(self) -> u64 {
        let word: u64;
        // SAFETY: the loader set the offset of a word of the agent, which every thread has from its first
        // instruction to its last.
        unsafe {
            asm!("mov {}, qword ptr fs:[{}]", out(reg) word, in(reg) self.0.get(),
                options(nostack, readonly, preserves_flags));
        }
        word
    }

    /// Sets its value.
    #[inline(always)]
    pub fn set(self, word: u64) {
        // SAFETY: as in `get`. Only this type accesses the word.
        unsafe {
            asm!("mov qword ptr fs:[{}], {}", in(reg) self.0.get(), in(reg) word, options(nostack, preserves_flags));
        };
    }
}

/// Whether user code may read the base with an instruction.
static BASE_READABLE: AtomicU32 = AtomicU32::new(0);

/// Finds out how to read the `fs` base.
pub fn detect_base_access() {
    const AT_HWCAP2: u64 = 26;
    const HWCAP2_FSGSBASE: u64 = 2;
    let file = sys::open(c"/proc/self/auxv");
    let mut bytes = [0u8; 1024];
    let len = if file >= 0 { sys::read(file, &mut bytes) } else { 0 };
    sys::close(file);
    for pair in bytes[..len].as_chunks::<16>().0 {
        let (kind, value) = (u64_at(pair, 0), u64_at(pair, 8));
        if kind == AT_HWCAP2 && value & HWCAP2_FSGSBASE != 0 {
            BASE_READABLE.store(1, Relaxed);
        }
    }
}

fn u64_at(bytes: &[u8; 16], at: usize) -> u64 {
    let mut word = 0;
    for byte in bytes[at..at + 8].iter().rev() {
        word = word << 8 | u64::from(*byte);
    }
    word
}

/// The base, read in the fastest way that the kernel allows.
pub fn base() -> u64 {
    if BASE_READABLE.load(Relaxed) == 0 {
        return base_by_call();
    }
    let base: u64;
    // SAFETY: the kernel allows this instruction.
    unsafe { asm!("rdfsbase {}", out(reg) base, options(nomem, nostack, preserves_flags)) };
    base
}

/// The thread's `fs` base, from the kernel.
pub fn base_by_call() -> u64 {
    const ARCH_GET_FS: usize = 0x1003;
    let mut base = 0u64;
    // SAFETY: writes `base` only.
    unsafe { call(ARCH_PRCTL, [ARCH_GET_FS, &raw mut base as usize, 0, 0, 0, 0]) };
    base
}
