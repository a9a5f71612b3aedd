//! Shims for the program's mapping calls.
//!
//! These functions take up to six arguments, so their shims pass the caller's registers as the seventh.

use core::arch::naked_asm;

use crate::maps::{mmap_body, mremap_body, munmap_body};

macro_rules! exported {
    ($($name:ident => $body:ident;)*) => {$(
        /// Hook for libc's function of this name.
        #[cfg_attr(feature = "heap", unsafe(no_mangle))]
        #[unsafe(naked)]
        pub extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "push rbx",
                ".cfi_adjust_cfa_offset 8",
                "push rbp",
                ".cfi_adjust_cfa_offset 8",
                "push rsp",
                ".cfi_adjust_cfa_offset 8",
                "call {body}",
                "add rsp, 24",
                ".cfi_adjust_cfa_offset -24",
                "ret",
                ".cfi_endproc",
                body = sym $body,
            )
        }
    )*};
}

exported! {
    mmap => mmap_body;
    mmap64 => mmap_body;
    munmap => munmap_body;
    mremap => mremap_body;
}
