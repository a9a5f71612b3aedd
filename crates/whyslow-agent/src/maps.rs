//! The program's own anonymous mappings, if requested.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use whyslow_agent_wire::record::op;

use crate::real::{self, other};
use crate::state::{self, Inside};
use crate::sys;
use crate::walk::{self, Caller};

/// Whether mappings are recorded.
static WANTED: AtomicU32 = AtomicU32::new(0);

/// Starts to record mappings.
pub fn record() {
    WANTED.store(1, Relaxed);
}

const FAILED: u64 = u64::MAX;
const MREMAP_MAYMOVE: u64 = 1;

/// # Safety
/// Same as libc's function of this name. Only the shim calls it.
pub unsafe extern "C" fn mmap_body(
    at: u64,
    len: u64,
    rights: u64,
    how: u64,
    file: u64,
    offset: u64,
    caller: Caller,
) -> u64 {
    // SAFETY: the program's own arguments.
    let call = || unsafe { call(other::MMAP, [at, len, rights, how, file, offset]) };
    if how & sys::MAP_ANONYMOUS as u64 == 0 {
        return call();
    }
    let Some(mut inside) = enter() else { return call() };
    let noted = walk::note(&mut inside, caller);
    let start = inside.masked(call);
    if start != FAILED && noted {
        inside.writer().map(op::MAP, start, len);
    }
    start
}

/// # Safety
/// Same as libc's function of this name. Only the shim calls it.
pub unsafe extern "C" fn munmap_body(
    at: u64,
    len: u64,
    c: u64,
    d: u64,
    e: u64,
    f: u64,
    _caller: Caller,
) -> u64 {
    // SAFETY: the program's own arguments.
    let call = || unsafe { call(other::MUNMAP, [at, len, c, d, e, f]) };
    if let Some(inside) = enter() {
        inside.writer().map(op::UNMAP, at, len);
    }
    call()
}

/// # Safety
/// Same as libc's function of this name. Only the shim calls it.
pub unsafe extern "C" fn mremap_body(
    old: u64,
    was: u64,
    len: u64,
    how: u64,
    to: u64,
    f: u64,
    caller: Caller,
) -> u64 {
    // SAFETY: the program's own arguments.
    let call = || unsafe { call(other::MREMAP, [old, was, len, how, to, f]) };
    let Some(mut inside) = enter() else { return call() };
    let noted = walk::note(&mut inside, caller);
    // When a mapping moves, another thread may take its old place before this call returns.
    let moves = how & MREMAP_MAYMOVE != 0;
    if moves {
        inside.writer().map(op::UNMAP, old, was);
    }
    let start = inside.masked(call);
    if start != FAILED {
        if !moves {
            inside.writer().map(op::UNMAP, old, was);
        }
        if noted {
            inside.writer().map(op::MAP, start, len);
        }
    } else if moves && noted {
        inside.writer().map(op::MAP, old, was);
    }
    start
}

/// Goes inside to record a mapping. `None` if mappings are not requested.
fn enter() -> Option<Inside> {
    if WANTED.load(Relaxed) == 0 { None } else { state::enter() }
}

/// Calls libc's function.
///
/// # Safety
/// The arguments are those of the program's own call.
unsafe fn call(function: usize, arguments: [u64; 6]) -> u64 {
    match real::of_other(function) {
        None => FAILED,
        // SAFETY: the hooked function. The caller guarantees the arguments.
        Some(real) => unsafe { real.call(arguments) },
    }
}
