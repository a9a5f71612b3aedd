//! The functions of the allocator, as the program calls them.
//!
//! A shim comes first: it puts the caller's registers on the stack where the walk begins (see [`Entry`]) and calls the body with
//! the four arguments, the address of the registers, and the hook's number. So no frame of the agent has to be walked. What frees
//! has no stack to walk: its shim only adds the number.

use core::arch::naked_asm;

use whyslow_heap_wire::area::FILTER_FACTOR;
use whyslow_heap_wire::handshake::hook;
use whyslow_heap_wire::handshake::hook::{COUNT, GROUPS, PER_GROUP};
use whyslow_selfwalk::Entry;

use crate::real::{self, other};
use crate::{arena, events, exec, exit, loaded, sample, signals, unused};

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
        /// libc's function of this name.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub extern "C" fn $name() {
            shim!(hook::$slot, $body)
        }
    )*};
}

/// libc's `malloc`. An allocation that a sampled recording does not take goes on to the real one from here, without a frame. Where
/// nothing is sampled the thread's word is 0.
#[unsafe(no_mangle)]
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
    realloc REALLOC => realloc_body;
    posix_memalign POSIX_MEMALIGN => posix_memalign_body;
    aligned_alloc ALIGNED_ALLOC => aligned_body;
    memalign MEMALIGN => aligned_body;
    valloc VALLOC => malloc_body;
    pvalloc PVALLOC => malloc_body;
    reallocarray REALLOCARRAY => reallocarray_body;
}

/// Where patched functions jump to, once per group.
macro_rules! patched {
    ($($hook:ident $slot:ident => $body:ident;)*) => {$(
        #[unsafe(naked)]
        extern "C" fn $hook<const GROUP: usize>() {
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
extern "C" fn hook_free<const GROUP: usize, const SLOT: usize>() {
    naked_asm!(
        ".cfi_startproc",
        "mov r9d, {slot}",
        "jmp {body}",
        ".cfi_endproc",
        slot = const GROUP * PER_GROUP + SLOT,
        body = sym free_body,
    )
}

#[unsafe(naked)]
extern "C" fn hook_masked() {
    naked_asm!(".cfi_startproc", "jmp {body}", ".cfi_endproc", body = sym masked_body)
}

/// Where all hooks are.
pub fn all() -> [u64; COUNT] {
    let mut all = [0; COUNT];
    fill::<0>(&mut all);
    fill::<1>(&mut all);
    fill::<2>(&mut all);
    fill::<3>(&mut all);
    fill::<4>(&mut all);
    fill::<5>(&mut all);
    fill::<6>(&mut all);
    fill::<7>(&mut all);
    const { assert!(GROUPS == 8) };
    all[hook::EXIT] = exit::patched as *const () as u64;
    all[hook::MASKED] = hook_masked as *const () as u64;
    all[hook::EXECVE] = exec::execve as *const () as u64;
    all[hook::EXECVEAT] = exec::execveat as *const () as u64;
    all[hook::FEXECVE] = exec::fexecve as *const () as u64;
    all[hook::LOADED] = loaded::changed as *const () as u64;
    all[hook::SIGACTION] = signals::sigaction as *const () as u64;
    all[hook::SYSCALL] = exit::syscall as *const () as u64;
    all[hook::ORDERLY_EXIT] = exit::orderly as *const () as u64;
    all[hook::QUICK_EXIT] = exit::quick as *const () as u64;
    all
}

fn fill<const GROUP: usize>(all: &mut [u64; COUNT]) {
    let rows: [(usize, extern "C" fn()); PER_GROUP] = [
        (hook::MALLOC, hook_malloc::<GROUP>),
        (hook::CALLOC, hook_calloc::<GROUP>),
        (hook::REALLOC, hook_realloc::<GROUP>),
        (hook::FREE, hook_free::<GROUP, { hook::FREE }>),
        (hook::POSIX_MEMALIGN, hook_posix_memalign::<GROUP>),
        (hook::ALIGNED_ALLOC, hook_aligned_alloc::<GROUP>),
        (hook::MEMALIGN, hook_memalign::<GROUP>),
        (hook::VALLOC, hook_valloc::<GROUP>),
        (hook::PVALLOC, hook_pvalloc::<GROUP>),
        (hook::REALLOCARRAY, hook_reallocarray::<GROUP>),
        (hook::ALLOC_LIKE, hook_alloc_like::<GROUP>),
        (hook::ALLOC_LIKE_2, hook_alloc_like_2::<GROUP>),
        (hook::REALLOC_LIKE, hook_realloc_like::<GROUP>),
        (hook::RUST_REALLOC, hook_rust_realloc::<GROUP>),
        (hook::FREE_LIKE, hook_free::<GROUP, { hook::FREE_LIKE }>),
        (hook::FREE_LIKE_2, hook_free::<GROUP, { hook::FREE_LIKE_2 }>),
    ];
    for (slot, shim) in rows {
        all[GROUP * PER_GROUP + slot] = shim as *const () as u64;
    }
}

extern "C" fn malloc_body(size: u64, b: u64, c: u64, d: u64, entry: *const Entry, slot: usize) -> u64 {
    let real = real::of(slot);
    if real == 0 {
        return early(slot, size, 16);
    }
    // SAFETY: the function that the hook stands in for, with the caller's own arguments.
    events::allocation(slot, entry, size, false, || unsafe { real::call(real, size, b, c, d) })
}

extern "C" fn alloc_like_body(size: u64, b: u64, c: u64, d: u64, entry: *const Entry, slot: usize) -> u64 {
    let real = real::of(slot);
    let zeroed = slot % PER_GROUP == hook::ALLOC_LIKE_2;
    // SAFETY: the function that the hook stands in for, with the caller's own arguments.
    events::allocation(slot, entry, size, zeroed, || unsafe { real::call(real, size, b, c, d) })
}

extern "C" fn calloc_body(count: u64, each: u64, c: u64, d: u64, entry: *const Entry, slot: usize) -> u64 {
    let real = real::of(slot);
    let size = count.saturating_mul(each);
    if real == 0 {
        return early(slot, size, 16);
    }
    // SAFETY: the shim's, on the stack.
    let caller = unsafe { (*entry).return_address };
    let size = size.saturating_sub(loaded::own_share(each, caller));
    // SAFETY: the function that the hook stands in for, with the caller's own arguments.
    events::allocation(slot, entry, size, true, || unsafe { real::call(real, count, each, c, d) })
}

extern "C" fn aligned_body(
    alignment: u64,
    size: u64,
    c: u64,
    d: u64,
    entry: *const Entry,
    slot: usize,
) -> u64 {
    let real = real::of(slot);
    if real == 0 {
        return early(slot, size, alignment);
    }
    // SAFETY: the function that the hook stands in for, with the caller's own arguments.
    events::allocation(slot, entry, size, false, || unsafe { real::call(real, alignment, size, c, d) })
}

extern "C" fn posix_memalign_body(
    to: *mut u64,
    alignment: u64,
    size: u64,
    d: u64,
    entry: *const Entry,
    slot: usize,
) -> u64 {
    const ENOMEM: u64 = 12;
    let real = real::of(slot);
    if real == 0 {
        let block = early(slot, size, alignment);
        if block == 0 {
            return ENOMEM;
        }
        // SAFETY: the caller's promise.
        unsafe { *to = block };
        return 0;
    }
    let mut code = 0;
    events::allocation(slot, entry, size, false, || {
        // SAFETY: the function that the hook stands in for, with the caller's own arguments; it sets `to` when it returns 0.
        unsafe {
            code = real::call(real, to as u64, alignment, size, d);
            if code as i32 == 0 { *to } else { 0 }
        }
    });
    code
}

extern "C" fn realloc_body(old: u64, size: u64, c: u64, d: u64, entry: *const Entry, slot: usize) -> u64 {
    let real = real::of(slot);
    if real == 0 || arena::holds(old) {
        return early_realloc(old, size, entry);
    }
    // SAFETY: the function that the hook stands in for, with the caller's own arguments.
    resize(slot, entry, old, size, slot != hook::REALLOC, || unsafe { real::call(real, old, size, c, d) })
}

extern "C" fn reallocarray_body(
    old: u64,
    count: u64,
    each: u64,
    d: u64,
    entry: *const Entry,
    slot: usize,
) -> u64 {
    let real = real::of(slot);
    let size = count.saturating_mul(each);
    if real == 0 {
        return realloc_body(old, size, 0, 0, entry, slot - hook::REALLOCARRAY + hook::REALLOC);
    }
    if arena::holds(old) {
        return early_realloc(old, size, entry);
    }
    // SAFETY: the function that the hook stands in for, with the caller's own arguments.
    resize(slot, entry, old, size, true, || unsafe { real::call(real, old, count, each, d) })
}

extern "C" fn realloc_like_body(
    old: u64,
    size: u64,
    c: u64,
    d: u64,
    entry: *const Entry,
    slot: usize,
) -> u64 {
    let real = real::of(slot);
    // SAFETY: the function that the hook stands in for, with the caller's own arguments.
    resize(slot, entry, old, size, true, || unsafe { real::call(real, old, size, c, d) })
}

extern "C" fn rust_realloc_body(
    old: u64,
    b: u64,
    c: u64,
    size: u64,
    entry: *const Entry,
    slot: usize,
) -> u64 {
    let real = real::of(slot);
    // SAFETY: the function that the hook stands in for, with the caller's own arguments.
    resize(slot, entry, old, size, false, || unsafe { real::call(real, old, b, c, size) })
}

#[inline(always)]
fn resize(
    slot: usize,
    entry: *const Entry,
    old: u64,
    size: u64,
    zeroed: bool,
    call: impl FnOnce() -> u64,
) -> u64 {
    if old == 0 {
        events::allocation(slot, entry, size, zeroed, call)
    } else {
        events::reallocation(entry, old, size, zeroed, call)
    }
}

/// libc's `free`. A block that no sampled recording has goes on to the real one from here.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub extern "C" fn free() {
    naked_asm!(
        ".cfi_startproc",
        "mov rdx, qword ptr [rip + {filter}]",
        "test rdx, rdx",
        "je {slow}",
        "movabs rcx, {factor}",
        "mov rax, rdi",
        "shr rax, 3",
        "imul rax, rcx",
        "shr rax, 48",
        "cmp byte ptr [rdx + rax], 0",
        "jne {slow}",
        "jmp qword ptr [rip + {real} + {free}]",
        ".cfi_endproc",
        slow = sym free_preloaded,
        filter = sym sample::FILTER,
        factor = const FILTER_FACTOR,
        real = sym real::REAL,
        free = const 8 * hook::FREE,
    )
}

/// The old name of `free`.
#[unsafe(no_mangle)]
pub extern "C" fn cfree(block: u64) {
    free_preloaded(block);
}

extern "C" fn free_preloaded(block: u64) {
    if block == 0 || arena::holds(block) {
        return;
    }
    events::free(block);
    let real = real::of(hook::FREE);
    if real != 0 {
        // SAFETY: the function that this stands in for, with the caller's own argument.
        unsafe { real::call(real, block, 0, 0, 0) };
    }
}

extern "C" fn free_body(block: u64, b: u64, c: u64, d: u64, _entry: u64, slot: usize) -> u64 {
    if block != 0 {
        events::free(block);
    }
    let real = real::of(slot);
    // SAFETY: the function that the hook stands in for, with the caller's own arguments.
    events::masked(|| unsafe { real::call(real, block, b, c, d) })
}

/// libc's `malloc_usable_size`.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_usable_size(block: u64) -> u64 {
    if block != 0 && arena::holds(block) {
        return arena::size_of(block);
    }
    // Who asks may use all of it.
    unused::forget_if_any(block);
    match real::of_other(other::USABLE_SIZE) {
        0 => 0,
        // SAFETY: the function that this stands in for, with the caller's own argument.
        real => unsafe { real::call(real, block, 0, 0, 0) },
    }
}

extern "C" fn masked_body(a: u64, b: u64, c: u64, d: u64) -> u64 {
    let real = real::of(hook::MASKED);
    // SAFETY: the function that the hook stands in for, with the caller's own arguments.
    events::masked(|| unsafe { real::call(real, a, b, c, d) })
}

/// Memory for who asks before the real functions are known: the loader, while it looks for them.
#[cold]
fn early(slot: usize, size: u64, alignment: u64) -> u64 {
    let block = if slot < PER_GROUP { arena::allocate(size, alignment) } else { 0 };
    sample::keep_from_free(block);
    block
}

#[cold]
fn early_realloc(old: u64, size: u64, entry: *const Entry) -> u64 {
    let new = malloc_body(size, 0, 0, 0, entry, hook::MALLOC);
    if new != 0 && arena::holds(old) {
        arena::copy_out(old, new, size);
    }
    new
}
