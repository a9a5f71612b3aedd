//! The functions of the allocator, as the program calls them.
//!
//! A shim comes first: it puts the caller's registers on the stack where the walk begins (see [`Caller`]) and calls the body with
//! the four arguments, the address of the registers, and the hook's number. So no frame of the agent has to be walked. What frees
//! has no stack to walk: its shim only adds the number.

use core::arch::naked_asm;

use whyslow_heap_wire::area::FILTER_FACTOR;
use whyslow_heap_wire::handshake::hook;
use whyslow_heap_wire::handshake::hook::{COUNT, GROUPS, PER_GROUP};

use crate::real::{self, other};
use crate::walk::Caller;
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

// The bodies below are called by the shims alone.
//
// SAFETY, of each: the shim passes its caller's own arguments on, and what the program promises of them is the promise of the function that
// the hook stands in for. So that one may be called with them, returns what it says, and `old` or `block` is the caller's.

unsafe extern "C" fn malloc_body(size: u64, b: u64, c: u64, d: u64, caller: Caller, slot: usize) -> u64 {
    let Some(real) = real::of(slot) else { return early(slot, size, 16) };
    // SAFETY: see above.
    unsafe { events::allocation(slot, caller, size, false, || real.call([size, b, c, d])) }
}

unsafe extern "C" fn alloc_like_body(size: u64, b: u64, c: u64, d: u64, caller: Caller, slot: usize) -> u64 {
    let Some(real) = real::of(slot) else { return 0 };
    let zeroed = slot % PER_GROUP == hook::ALLOC_LIKE_2;
    // SAFETY: see above.
    unsafe { events::allocation(slot, caller, size, zeroed, || real.call([size, b, c, d])) }
}

unsafe extern "C" fn calloc_body(count: u64, each: u64, c: u64, d: u64, caller: Caller, slot: usize) -> u64 {
    let size = count.saturating_mul(each);
    let Some(real) = real::of(slot) else { return early(slot, size, 16) };
    let size = size.saturating_sub(loaded::own_share(each, caller.return_address()));
    // SAFETY: see above.
    unsafe { events::allocation(slot, caller, size, true, || real.call([count, each, c, d])) }
}

unsafe extern "C" fn aligned_body(
    alignment: u64,
    size: u64,
    c: u64,
    d: u64,
    caller: Caller,
    slot: usize,
) -> u64 {
    let Some(real) = real::of(slot) else { return early(slot, size, alignment) };
    // SAFETY: see above.
    unsafe { events::allocation(slot, caller, size, false, || real.call([alignment, size, c, d])) }
}

unsafe extern "C" fn posix_memalign_body(
    to: *mut u64,
    alignment: u64,
    size: u64,
    d: u64,
    caller: Caller,
    slot: usize,
) -> u64 {
    const ENOMEM: u64 = 12;
    let Some(real) = real::of(slot) else {
        let block = early(slot, size, alignment);
        if block == 0 {
            return ENOMEM;
        }
        // SAFETY: see above: the program has room for an address there.
        unsafe { *to = block };
        return 0;
    };
    let mut code = 0;
    let call = || {
        // SAFETY: see above; the function sets `to` when it returns 0.
        unsafe {
            code = real.call([to as u64, alignment, size, d]);
            if code as i32 == 0 { *to } else { 0 }
        }
    };
    // SAFETY: see above.
    unsafe { events::allocation(slot, caller, size, false, call) };
    code
}

unsafe extern "C" fn realloc_body(old: u64, size: u64, c: u64, d: u64, caller: Caller, slot: usize) -> u64 {
    // SAFETY: see above.
    unsafe {
        match real::of(slot) {
            Some(real) if !arena::holds(old) => {
                resize(slot, caller, old, size, slot != hook::REALLOC, || real.call([old, size, c, d]))
            }
            _ => early_realloc(old, size, caller),
        }
    }
}

unsafe extern "C" fn reallocarray_body(
    old: u64,
    count: u64,
    each: u64,
    d: u64,
    caller: Caller,
    slot: usize,
) -> u64 {
    let size = count.saturating_mul(each);
    // SAFETY: see above.
    unsafe {
        match real::of(slot) {
            None => realloc_body(old, size, 0, 0, caller, slot - hook::REALLOCARRAY + hook::REALLOC),
            Some(_) if arena::holds(old) => early_realloc(old, size, caller),
            Some(real) => resize(slot, caller, old, size, true, || real.call([old, count, each, d])),
        }
    }
}

unsafe extern "C" fn realloc_like_body(
    old: u64,
    size: u64,
    c: u64,
    d: u64,
    caller: Caller,
    slot: usize,
) -> u64 {
    let Some(real) = real::of(slot) else { return 0 };
    // SAFETY: see above.
    unsafe { resize(slot, caller, old, size, true, || real.call([old, size, c, d])) }
}

unsafe extern "C" fn rust_realloc_body(
    old: u64,
    b: u64,
    c: u64,
    size: u64,
    caller: Caller,
    slot: usize,
) -> u64 {
    let Some(real) = real::of(slot) else { return 0 };
    // SAFETY: see above.
    unsafe { resize(slot, caller, old, size, false, || real.call([old, b, c, size])) }
}

/// # Safety
/// As for [`events::reallocation`], but that `old` may be null.
#[inline(always)]
unsafe fn resize(
    slot: usize,
    caller: Caller,
    old: u64,
    size: u64,
    zeroed: bool,
    call: impl FnOnce() -> u64,
) -> u64 {
    // SAFETY: passed on.
    unsafe {
        if old == 0 {
            events::allocation(slot, caller, size, zeroed, call)
        } else {
            events::reallocation(caller, old, size, zeroed, call)
        }
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
///
/// # Safety
/// As for libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfree(block: u64) {
    // SAFETY: the caller's own argument.
    unsafe { free_preloaded(block) };
}

unsafe extern "C" fn free_preloaded(block: u64) {
    if block == 0 || arena::holds(block) {
        return;
    }
    // SAFETY: see above.
    unsafe {
        events::free(block);
        if let Some(real) = real::of(hook::FREE) {
            real.call([block]);
        }
    }
}

unsafe extern "C" fn free_body(block: u64, b: u64, c: u64, d: u64, _caller: u64, slot: usize) -> u64 {
    if block != 0 {
        // SAFETY: see above.
        unsafe { events::free(block) };
    }
    let Some(real) = real::of(slot) else { return 0 };
    // SAFETY: see above.
    events::masked(|| unsafe { real.call([block, b, c, d]) })
}

/// libc's `malloc_usable_size`.
///
/// # Safety
/// As for libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: u64) -> u64 {
    if block != 0 && arena::holds(block) {
        return arena::size_of(block);
    }
    // Who asks may use all of it.
    unused::forget_if_any(block);
    match real::of_other(other::USABLE_SIZE) {
        None => 0,
        // SAFETY: the function that this stands in for, with the caller's own argument.
        Some(real) => unsafe { real.call([block]) },
    }
}

unsafe extern "C" fn masked_body(a: u64, b: u64, c: u64, d: u64) -> u64 {
    let Some(real) = real::of(hook::MASKED) else { return 0 };
    // SAFETY: see above.
    events::masked(|| unsafe { real.call([a, b, c, d]) })
}

/// Memory for who asks before the real functions are known: the loader, while it looks for them.
#[cold]
fn early(slot: usize, size: u64, alignment: u64) -> u64 {
    let block = if slot < PER_GROUP { arena::allocate(size, alignment) } else { 0 };
    sample::keep_from_free(block);
    block
}

/// # Safety
/// As for the bodies.
#[cold]
unsafe fn early_realloc(old: u64, size: u64, caller: Caller) -> u64 {
    // SAFETY: `malloc` needs no promise.
    let new = unsafe { malloc_body(size, 0, 0, 0, caller, hook::MALLOC) };
    if new != 0 && arena::holds(old) {
        // SAFETY: the new block is so long, and nobody has it yet.
        unsafe { arena::copy_out(old, new, size) };
    }
    new
}
