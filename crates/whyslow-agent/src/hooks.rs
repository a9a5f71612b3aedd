//! Hooks for the allocator's functions, as the program calls them.
//!
//! The shims of `arch::hooks` call them with the caller's registers.

use whyslow_agent_wire::handshake::hook;
use whyslow_agent_wire::handshake::hook::{COUNT, GROUPS, PER_GROUP};

use crate::arch::hooks::{
    LIBC, hook_aligned_alloc, hook_alloc_like, hook_alloc_like_2, hook_calloc, hook_free, hook_malloc,
    hook_masked, hook_memalign, hook_posix_memalign, hook_pvalloc, hook_realloc, hook_realloc_like,
    hook_reallocarray, hook_rust_realloc, hook_valloc,
};
use crate::arch::{exit as ends, points as entries};
use crate::real::{self, other};
use crate::walk::Caller;
use crate::{arena, causal, events, exec, loaded, sample, sampler, signals, unused};

/// The addresses of all hooks.
pub fn all() -> [u64; COUNT] {
    let mut all = [0; COUNT];
    if cfg!(feature = "heap") {
        of_heap(&mut all);
    }
    all[hook::EXECVE] = exec::execve as *const () as u64;
    all[hook::EXECVEAT] = exec::execveat as *const () as u64;
    all[hook::FEXECVE] = exec::fexecve as *const () as u64;
    all[hook::LOADED] = loaded::changed as *const () as u64;
    all[hook::THREAD] = sampler::pthread_create as *const () as u64;
    all[hook::FORK] = sampler::fork as *const () as u64;
    all[hook::CANCEL] = sampler::pthread_cancel as *const () as u64;
    all[hook::PRCTL] = sampler::prctl as *const () as u64;
    all[hook::SYSCALL] = ends::syscall as *const () as u64;
    for (slot, hook) in causal::waits::HOOKS {
        all[*slot] = *hook as *const () as u64;
    }
    all[hook::ENTERED] = entries::entered as *const () as u64;
    all
}

/// Adds the hooks that only heap recording needs.
fn of_heap(all: &mut [u64; COUNT]) {
    fill::<0>(all);
    fill::<1>(all);
    fill::<2>(all);
    fill::<3>(all);
    fill::<4>(all);
    fill::<5>(all);
    fill::<6>(all);
    fill::<7>(all);
    const { assert!(GROUPS == 8) };
    for (slot, hook) in LIBC {
        all[hook::LIBC + slot] = hook as *const () as u64;
    }
    all[hook::EXIT] = ends::patched as *const () as u64;
    all[hook::MASKED] = hook_masked as *const () as u64;
    all[hook::SIGACTION] = signals::sigaction as *const () as u64;
    all[hook::ORDERLY_EXIT] = ends::orderly as *const () as u64;
    all[hook::QUICK_EXIT] = ends::quick as *const () as u64;
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

// Only the shims call the bodies below.
//
// SAFETY, for each: the shim passes on its caller's own arguments, and the program upholds the contract of
// the hooked function. So the real function may be called with them and returns what it documents, and the
// caller owns `old` or `block`.

pub unsafe extern "C" fn malloc_body(size: u64, b: u64, c: u64, d: u64, caller: Caller, slot: usize) -> u64 {
    let Some(real) = real::of(slot) else { return early(slot, size, 16) };
    // SAFETY: see above.
    unsafe { events::allocation(slot, caller, size, false, || real.call([size, b, c, d])) }
}

pub unsafe extern "C" fn alloc_like_body(
    size: u64,
    b: u64,
    c: u64,
    d: u64,
    caller: Caller,
    slot: usize,
) -> u64 {
    let Some(real) = real::of(slot) else { return 0 };
    let zeroed = slot % PER_GROUP == hook::ALLOC_LIKE_2;
    // SAFETY: see above.
    unsafe { events::allocation(slot, caller, size, zeroed, || real.call([size, b, c, d])) }
}

pub unsafe extern "C" fn calloc_body(
    count: u64,
    each: u64,
    c: u64,
    d: u64,
    caller: Caller,
    slot: usize,
) -> u64 {
    let size = count.saturating_mul(each);
    let Some(real) = real::of(slot) else { return early(slot, size, 16) };
    let size = size.saturating_sub(loaded::own_share(each, caller.return_address()));
    // SAFETY: see above.
    unsafe { events::allocation(slot, caller, size, true, || real.call([count, each, c, d])) }
}

pub unsafe extern "C" fn aligned_body(
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

pub unsafe extern "C" fn posix_memalign_body(
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
        // SAFETY: see above. The program has room for an address there.
        unsafe { *to = block };
        return 0;
    };
    let mut code = 0;
    let call = || {
        // SAFETY: see above. The function sets `to` when it returns 0.
        unsafe {
            code = real.call([to as u64, alignment, size, d]);
            if code as i32 == 0 { *to } else { 0 }
        }
    };
    // SAFETY: see above.
    unsafe { events::allocation(slot, caller, size, false, call) };
    code
}

pub unsafe extern "C" fn realloc_body(
    old: u64,
    size: u64,
    c: u64,
    d: u64,
    caller: Caller,
    slot: usize,
) -> u64 {
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

pub unsafe extern "C" fn reallocarray_body(
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

pub unsafe extern "C" fn realloc_like_body(
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

pub unsafe extern "C" fn rust_realloc_body(
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
/// Same as [`events::reallocation`], except that `old` may be null.
#[inline(always)]
unsafe fn resize(
    slot: usize,
    caller: Caller,
    old: u64,
    size: u64,
    zeroed: bool,
    call: impl FnOnce() -> u64,
) -> u64 {
    // SAFETY: the caller upholds the same contract.
    unsafe {
        if old == 0 {
            events::allocation(slot, caller, size, zeroed, call)
        } else {
            events::reallocation(caller, old, size, zeroed, call)
        }
    }
}

/// The old name of `free`.
///
/// # Safety
/// Same as libc's.
#[cfg_attr(feature = "heap", unsafe(no_mangle))]
pub unsafe extern "C" fn cfree(block: u64) {
    // SAFETY: the caller's own argument.
    unsafe { free_preloaded(block) };
}

pub unsafe extern "C" fn free_preloaded(block: u64) {
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

pub unsafe extern "C" fn free_body(block: u64, b: u64, c: u64, d: u64, _caller: u64, slot: usize) -> u64 {
    if arena::holds(block) {
        return 0;
    }
    if block != 0 {
        // SAFETY: see above.
        unsafe { events::free(block) };
    }
    let Some(real) = real::of(slot) else { return 0 };
    // SAFETY: see above.
    events::masked(|| unsafe { real.call([block, b, c, d]) })
}

/// Hook for libc's `malloc_usable_size`.
///
/// # Safety
/// Same as libc's.
#[cfg_attr(feature = "heap", unsafe(no_mangle))]
pub unsafe extern "C" fn malloc_usable_size(block: u64) -> u64 {
    if block != 0 && arena::holds(block) {
        return arena::size_of(block);
    }
    // The caller may now use the whole block.
    unused::forget_if_any(block);
    match real::of_other(other::USABLE_SIZE) {
        None => 0,
        // SAFETY: the hooked function, with the caller's own argument.
        Some(real) => unsafe { real.call([block]) },
    }
}

pub unsafe extern "C" fn masked_body(a: u64, b: u64, c: u64, d: u64) -> u64 {
    let Some(real) = real::of(hook::MASKED) else { return 0 };
    // SAFETY: see above.
    events::masked(|| unsafe { real.call([a, b, c, d]) })
}

/// Memory for calls before the real functions are known. They come from the loader while it looks these up.
#[cold]
fn early(slot: usize, size: u64, alignment: u64) -> u64 {
    let block = if slot < PER_GROUP { arena::allocate(size, alignment) } else { 0 };
    sample::keep_from_free(block);
    block
}

/// # Safety
/// Same as the bodies.
#[cold]
unsafe fn early_realloc(old: u64, size: u64, caller: Caller) -> u64 {
    // SAFETY: `malloc` needs no promise.
    let new = unsafe { malloc_body(size, 0, 0, 0, caller, hook::MALLOC) };
    if new != 0 && arena::holds(old) {
        // SAFETY: the new block has this size, and no other code has it yet.
        unsafe { arena::copy_out(old, new, size) };
    }
    new
}
