//! What the dynamic loader gives the agent: two words per thread, and what may be missing.
//!
//! In a static program nobody does: there the words read 0.

use core::arch::{asm, global_asm};

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
    ($($(#[$doc:meta])* $name:ident = $symbol:literal;)*) => {$(
        $(#[$doc])*
        pub fn $name() -> u64 {
            let address: u64;
            // SAFETY: reads a word that the loader has filled.
            unsafe {
                asm!(concat!("mov {}, qword ptr [rip + ", $symbol, "@GOTPCREL]"), out(reg) address,
                    options(nostack, readonly, preserves_flags));
            }
            address
        }
    )*};
}

imports! {
    /// `void *dlsym(void *, const char *)`
    dlsym = "dlsym";
    /// `int dl_iterate_phdr(int (*)(dl_phdr_info *, size_t, void *), void *)`
    dl_iterate_phdr = "dl_iterate_phdr";
    /// `int _dl_find_object(void *, dl_find_object *)`
    dl_find_object = "_dl_find_object";
    /// `void __libc_freeres(void)`
    libc_freeres = "__libc_freeres";
    /// `void __gnu_cxx::__freeres()`: libstdc++ has it.
    libstdcxx_freeres = "_ZN9__gnu_cxx9__freeresEv";
    /// `const char *gnu_get_libc_version(void)`: only glibc has it.
    glibc_version = "gnu_get_libc_version";
    /// `struct r_debug _r_debug`: glibc's loader has it.
    loaders_list = "_r_debug";
}

/// Where the thread's word for sampling lies behind its `fs` base; 0 if it has none.
#[inline(always)]
pub fn countdown_offset() -> u64 {
    let offset: u64;
    // SAFETY: reads a word that the loader has filled.
    unsafe {
        asm!("mov {}, qword ptr [rip + whyslow_countdown@GOTTPOFF]", out(reg) offset,
            options(nostack, readonly, pure, preserves_flags));
    }
    offset
}

/// Where the thread's word lies behind its `fs` base; 0 if it has none.
#[inline(always)]
pub fn thread_word_offset() -> u64 {
    let offset: u64;
    // SAFETY: reads a word that the loader has filled.
    unsafe {
        asm!("mov {}, qword ptr [rip + whyslow_thread@GOTTPOFF]", out(reg) offset,
            options(nostack, readonly, pure, preserves_flags));
    }
    offset
}

/// A word of the thread.
#[inline(always)]
pub fn thread_word(offset: u64) -> u64 {
    let word: u64;
    // SAFETY: the offset is that of one of the thread's words.
    unsafe {
        asm!("mov {}, qword ptr fs:[{}]", out(reg) word, in(reg) offset, options(nostack, readonly, preserves_flags));
    }
    word
}

/// Sets a word of the thread.
pub fn set_thread_word(offset: u64, word: u64) {
    // SAFETY: the offset is that of one of the thread's words.
    unsafe {
        asm!("mov qword ptr fs:[{}], {}", in(reg) offset, in(reg) word, options(nostack, preserves_flags));
    };
}
