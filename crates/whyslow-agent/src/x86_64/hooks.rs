//! Shims for the program's allocator calls.
//!
//! A shim puts the caller's registers on the stack where the walk starts (see `walk::Caller`) and calls the
//! body with the four arguments, the address of the registers, and the hook's number. So no frame of the
//! agent has to be walked. Functions that free need no stack: their shim only adds the number.

use core::arch::naked_asm;

use whyslow_agent_wire::area::{FILTER_LEN, FILTER_SHIFTS};
use whyslow_agent_wire::handshake::hook;
use whyslow_agent_wire::handshake::hook::PER_GROUP;

use crate::hooks::{
    aligned_body, alloc_like_body, calloc_body, free_body, free_preloaded, malloc_body, masked_body,
    posix_memalign_body, realloc_body, realloc_like_body, reallocarray_body, rust_realloc_body,
};
use crate::{real, sample};

macro_rules! shim {
    ($slot:expr, $body:ident) => {
        naked_asm!(
            ".cfi_startproc",
            "push rbx",
            ".cfi_adjust_cfa_offset 8",
            "push rbp",
            ".cfi_adjust_cfa_offset 8",
            "mov r8, rsp",
            "mov r9d, {slot}",
            "sub rsp, 8",
            ".cfi_adjust_cfa_offset 8",
            "call {body}",
            "add rsp, 24",
            ".cfi_adjust_cfa_offset -24",
            "ret",
            ".cfi_endproc",
            slot = const $slot,
            body = sym $body,
        )
    };
}

/// libc's functions, which the loader finds by name.
macro_rules! exported {
    ($($name:ident $slot:ident => $body:ident;)*) => {$(
        /// Hook for libc's function of this name.
        #[cfg_attr(feature = "heap", unsafe(no_mangle))]
        #[unsafe(naked)]
        pub extern "C" fn $name() {
            shim!(hook::$slot, $body)
        }
    )*};
}

/// Hook for libc's `malloc`. An allocation that is not sampled goes from here to the real function without a
/// frame. If nothing is sampled, the thread's word is 0.
#[cfg_attr(feature = "heap", unsafe(no_mangle))]
#[unsafe(naked)]
pub extern "C" fn malloc() {
    naked_asm!(
        ".cfi_startproc",
        "mov rax, qword ptr [rip + whyslow_countdown@GOTTPOFF]",
        "mov rcx, qword ptr fs:[rax]",
        "sub rcx, rdi",
        "jbe {slow}",
        "mov qword ptr fs:[rax], rcx",
        "jmp qword ptr [rip + {real} + {malloc}]",
        ".cfi_endproc",
        slow = sym malloc_shim,
        real = sym real::REAL,
        malloc = const 8 * hook::MALLOC,
    )
}

#[unsafe(naked)]
extern "C" fn malloc_shim() {
    shim!(hook::MALLOC, malloc_body)
}

exported! {
    calloc CALLOC => calloc_body;
    posix_memalign POSIX_MEMALIGN => posix_memalign_body;
    aligned_alloc ALIGNED_ALLOC => aligned_body;
    memalign MEMALIGN => aligned_body;
    valloc VALLOC => malloc_body;
    pvalloc PVALLOC => malloc_body;
    reallocarray REALLOCARRAY => reallocarray_body;
}

/// Jumps to `slow` if the block may be sampled. The filter is in `rdx`.
macro_rules! check_filter {
    () => {
        concat!(
            "test rdx, rdx\n",
            "je {slow}\n",
            "mov rax, rdi\n",
            "shr rax, {low}\n",
            "mov rcx, rdi\n",
            "shr rcx, {high}\n",
            "xor eax, ecx\n",
            "and eax, {most}\n",
            "cmp byte ptr [rdx + rax], 0\n",
            "jne {slow}",
        )
    };
}

/// Hook for libc's `realloc`. A block that is not sampled goes from here to glibc's own function, unless its
/// new size is sampled. glibc's calls no other function that counts down, except `malloc` for a null pointer.
#[cfg_attr(feature = "heap", unsafe(no_mangle))]
#[unsafe(naked)]
pub extern "C" fn realloc() {
    naked_asm!(
        ".cfi_startproc",
        "test rdi, rdi",
        "je {slow}",
        "mov rdx, qword ptr [rip + {filter}]",
        check_filter!(),
        "mov rax, qword ptr [rip + whyslow_countdown@GOTTPOFF]",
        "mov rcx, qword ptr fs:[rax]",
        "sub rcx, rsi",
        "jbe {slow}",
        "mov qword ptr fs:[rax], rcx",
        "jmp qword ptr [rip + {real} + {realloc}]",
        ".cfi_endproc",
        slow = sym realloc_shim,
        filter = sym sample::FILTER_OF_REALLOC,
        low = const FILTER_SHIFTS[0],
        high = const FILTER_SHIFTS[1],
        most = const FILTER_LEN - 1,
        real = sym real::REAL,
        realloc = const 8 * hook::REALLOC,
    )
}

#[unsafe(naked)]
extern "C" fn realloc_shim() {
    shim!(hook::REALLOC, realloc_body)
}

/// Targets of patched functions, once per group.
macro_rules! patched {
    ($($hook:ident $slot:ident => $body:ident;)*) => {$(
        #[unsafe(naked)]
        pub extern "C" fn $hook<const GROUP: usize>() {
            shim!(GROUP * PER_GROUP + hook::$slot, $body)
        }
    )*};
}

patched! {
    hook_malloc MALLOC => malloc_body;
    hook_calloc CALLOC => calloc_body;
    hook_realloc REALLOC => realloc_body;
    hook_posix_memalign POSIX_MEMALIGN => posix_memalign_body;
    hook_aligned_alloc ALIGNED_ALLOC => aligned_body;
    hook_memalign MEMALIGN => aligned_body;
    hook_valloc VALLOC => malloc_body;
    hook_pvalloc PVALLOC => malloc_body;
    hook_reallocarray REALLOCARRAY => reallocarray_body;
    hook_alloc_like ALLOC_LIKE => alloc_like_body;
    hook_alloc_like_2 ALLOC_LIKE_2 => alloc_like_body;
    hook_realloc_like REALLOC_LIKE => realloc_like_body;
    hook_rust_realloc RUST_REALLOC => rust_realloc_body;
}

#[unsafe(naked)]
pub extern "C" fn hook_free<const GROUP: usize, const SLOT: usize>() {
    naked_asm!(
        ".cfi_startproc",
        "mov r9d, {slot}",
        "jmp {body}",
        ".cfi_endproc",
        slot = const GROUP * PER_GROUP + SLOT,
        body = sym free_body,
    )
}

/// Targets of libc's own functions. The preloaded functions call past the patches, so these see callers that
/// are bound to libc itself, and libc: when a thread ends, it frees what its cache holds. The program has
/// freed those blocks before, so libc's calls pass.
macro_rules! of_libc {
    ($($name:ident $slot:ident => $hook:expr;)*) => {
        /// These targets, with their rows in the group.
        pub const LIBC: [(usize, extern "C" fn()); 12] = [$((hook::$slot, $name)),*];

        $(#[unsafe(naked)]
        extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "mov rax, qword ptr [rsp]",
                "cmp rax, qword ptr [rip + {real} + {start}]",
                "jb {hook}",
                "cmp rax, qword ptr [rip + {real} + {end}]",
                "jae {hook}",
                "jmp qword ptr [rip + {real} + {slot}]",
                ".cfi_endproc",
                real = sym real::REAL,
                start = const 8 * hook::LIBC_START,
                end = const 8 * hook::LIBC_END,
                slot = const 8 * (hook::LIBC + hook::$slot),
                hook = sym $hook,
            )
        })*
    };
}

const LIBC_GROUP: usize = hook::LIBC / PER_GROUP;

of_libc! {
    libc_malloc MALLOC => hook_malloc::<LIBC_GROUP>;
    libc_calloc CALLOC => hook_calloc::<LIBC_GROUP>;
    libc_realloc REALLOC => hook_realloc::<LIBC_GROUP>;
    libc_free FREE => hook_free::<LIBC_GROUP, { hook::FREE }>;
    libc_posix_memalign POSIX_MEMALIGN => hook_posix_memalign::<LIBC_GROUP>;
    libc_aligned_alloc ALIGNED_ALLOC => hook_aligned_alloc::<LIBC_GROUP>;
    libc_memalign MEMALIGN => hook_memalign::<LIBC_GROUP>;
    libc_valloc VALLOC => hook_valloc::<LIBC_GROUP>;
    libc_pvalloc PVALLOC => hook_pvalloc::<LIBC_GROUP>;
    libc_reallocarray REALLOCARRAY => hook_reallocarray::<LIBC_GROUP>;
    libc_free_sized FREE_LIKE => hook_free::<LIBC_GROUP, { hook::FREE_LIKE }>;
    libc_free_aligned_sized FREE_LIKE_2 => hook_free::<LIBC_GROUP, { hook::FREE_LIKE_2 }>;
}

#[unsafe(naked)]
pub extern "C" fn hook_masked() {
    naked_asm!(".cfi_startproc", "jmp {body}", ".cfi_endproc", body = sym masked_body)
}

/// Hook for libc's `free`. A block that is not sampled goes from here to the real function.
#[cfg_attr(feature = "heap", unsafe(no_mangle))]
#[unsafe(naked)]
pub extern "C" fn free() {
    naked_asm!(
        ".cfi_startproc",
        "mov rdx, qword ptr [rip + {filter}]",
        check_filter!(),
        "jmp qword ptr [rip + {real} + {free}]",
        ".cfi_endproc",
        slow = sym free_preloaded,
        filter = sym sample::FILTER,
        low = const FILTER_SHIFTS[0],
        high = const FILTER_SHIFTS[1],
        most = const FILTER_LEN - 1,
        real = sym real::REAL,
        free = const 8 * hook::FREE,
    )
}
