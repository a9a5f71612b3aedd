//! What the dynamic loader gives the agent: two words per thread, and what may be missing.
//!
//! In a static program nobody does: there the words read 0.

use core::arch::{asm, global_asm};
use core::ffi::{c_char, c_void};
use core::mem;
use core::num::NonZeroU64;

use crate::loaded::List;
use crate::modules::{Found, Loaded};

global_asm!(
    ".weak dlsym",
    ".weak dl_iterate_phdr",
    ".weak _dl_find_object",
    ".weak __libc_freeres",
    ".weak _ZN9__gnu_cxx9__freeresEv",
    ".weak gnu_get_libc_version",
    ".weak _r_debug",
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
    ".text",
);

macro_rules! imports {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $symbol:literal;)*) => {$(
        $(#[$doc])*
        pub fn $name() -> Option<$type> {
            let address: u64;
            // SAFETY: reads a word that the loader has filled with the symbol's address, or left 0. That is how an optional function
            // or reference is laid out, and what the symbol stands for has this type in every library that has it.
            unsafe {
                asm!(concat!("mov {}, qword ptr [rip + ", $symbol, "@GOTPCREL]"), out(reg) address,
                    options(nostack, readonly, preserves_flags));
                mem::transmute::<u64, Option<$type>>(address)
            }
        }
    )*};
}

/// What [`dl_iterate_phdr`] calls.
pub type Visit = unsafe extern "C" fn(*const Loaded, usize, *mut c_void) -> i32;

imports! {
    /// `void *dlsym(void *, const char *)`
    dlsym: unsafe extern "C" fn(usize, *const c_char) -> u64 = "dlsym";
    /// `int dl_iterate_phdr(int (*)(dl_phdr_info *, size_t, void *), void *)`
    dl_iterate_phdr: unsafe extern "C" fn(Visit, *mut c_void) -> i32 = "dl_iterate_phdr";
    /// `int _dl_find_object(void *, dl_find_object *)`
    dl_find_object: unsafe extern "C" fn(u64, *mut Found) -> i32 = "_dl_find_object";
    /// `void __libc_freeres(void)`
    libc_freeres: unsafe extern "C" fn() = "__libc_freeres";
    /// `void __gnu_cxx::__freeres()`: libstdc++ has it.
    libstdcxx_freeres: unsafe extern "C" fn() = "_ZN9__gnu_cxx9__freeresEv";
    /// `const char *gnu_get_libc_version(void)`: only glibc has it.
    glibc_version: unsafe extern "C" fn() -> *const c_char = "gnu_get_libc_version";
    /// `struct r_debug _r_debug`: glibc's loader has it.
    loaders_list: &'static List = "_r_debug";
}

/// A word of the calling thread's storage, by its distance from the `fs` base.
#[derive(Clone, Copy)]
pub struct ThreadWord(NonZeroU64);

impl ThreadWord {
    /// The word that leads to the thread's state; none if the thread has no storage for the agent.
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

    /// The word that counts down to the next sample; none likewise.
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

    /// What is in it.
    #[inline(always)]
    pub fn get(self) -> u64 {
        let word: u64;
        // SAFETY: the loader gave the distance of a word of ours, which every thread has from its first instruction to its last.
        unsafe {
            asm!("mov {}, qword ptr fs:[{}]", out(reg) word, in(reg) self.0.get(),
                options(nostack, readonly, preserves_flags));
        }
        word
    }

    /// Puts something into it.
    #[inline(always)]
    pub fn set(self, word: u64) {
        // SAFETY: as in `get`; only this type knows the word.
        unsafe {
            asm!("mov qword ptr fs:[{}], {}", in(reg) self.0.get(), in(reg) word, options(nostack, preserves_flags));
        };
    }
}
