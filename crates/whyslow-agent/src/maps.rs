//! The program's own mappings, when they are asked for: memory without a file.
//!
//! These functions take up to six arguments, so their shims pass the caller's registers as the seventh.

use core::arch::naked_asm;
use core::mem;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use whyslow_heap_wire::record::op;
use whyslow_selfwalk::Entry;

use crate::real::{self, other};
use crate::state::{self, State, gate};
use crate::{ring, sys, walk};

/// Whether mappings are recorded.
static WANTED: AtomicU32 = AtomicU32::new(0);

/// Begins to record mappings.
pub fn record() {
    WANTED.store(1, Relaxed);
}

const FAILED: u64 = u64::MAX;
const MREMAP_MAYMOVE: u64 = 1;

macro_rules! exported {
    ($($name:ident => $body:ident;)*) => {$(
        /// libc's function of this name.
        #[unsafe(no_mangle)]
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

extern "C" fn mmap_body(
    at: u64,
    len: u64,
    rights: u64,
    how: u64,
    file: u64,
    offset: u64,
    entry: *const Entry,
) -> u64 {
    let call = || call(other::MMAP, [at, len, rights, how, file, offset]);
    if how & sys::MAP_ANONYMOUS as u64 == 0 {
        return call();
    }
    let Some(state) = enter() else { return call() };
    let noted = walk::note(state, entry);
    let start = masked(state, call);
    if start != FAILED && noted {
        ring::map(state, op::MAP, start, len);
    }
    state.leave();
    start
}

extern "C" fn munmap_body(at: u64, len: u64, c: u64, d: u64, e: u64, f: u64, _entry: *const Entry) -> u64 {
    let call = || call(other::MUNMAP, [at, len, c, d, e, f]);
    if let Some(state) = enter() {
        ring::map(state, op::UNMAP, at, len);
        state.leave();
    }
    call()
}

extern "C" fn mremap_body(
    old: u64,
    was: u64,
    len: u64,
    how: u64,
    to: u64,
    f: u64,
    entry: *const Entry,
) -> u64 {
    let call = || call(other::MREMAP, [old, was, len, how, to, f]);
    let Some(state) = enter() else { return call() };
    let noted = walk::note(state, entry);
    // A mapping that moves leaves a place that others may take before this returns.
    let moves = how & MREMAP_MAYMOVE != 0;
    if moves {
        ring::map(state, op::UNMAP, old, was);
    }
    let start = masked(state, call);
    if start != FAILED {
        if !moves {
            ring::map(state, op::UNMAP, old, was);
        }
        if noted {
            ring::map(state, op::MAP, start, len);
        }
    } else if moves && noted {
        ring::map(state, op::MAP, old, was);
    }
    state.leave();
    start
}

/// The state to record a mapping with; none if that is not asked for.
fn enter() -> Option<&'static State> {
    if WANTED.load(Relaxed) == 0 { None } else { state::enter() }
}

fn masked(state: &State, call: impl FnOnce() -> u64) -> u64 {
    state.set_gate(gate::MASKED);
    let result = call();
    state.set_gate(gate::BUSY);
    result
}

fn call(function: usize, a: [u64; 6]) -> u64 {
    match real::of_other(function) {
        0 => FAILED,
        // SAFETY: the function that this stands in for, with the caller's own arguments.
        real => unsafe {
            let real: extern "C" fn(u64, u64, u64, u64, u64, u64) -> u64 = mem::transmute(real);
            real(a[0], a[1], a[2], a[3], a[4], a[5])
        },
    }
}
