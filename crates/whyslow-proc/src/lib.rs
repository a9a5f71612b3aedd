//! Processes and the kernel as Linux exposes them. Other crates ask here, so that no two of them read the
//! same file of `/proc` or `/sys` in two ways.
//!
//! ```text
//! process   one process: names, threads, children, state, limits, paths to its files
//! accounts  the kernel's accounting of a process or of the machine: time, faults, switches, bytes
//! maps      its mappings, and what their names mean
//! memory    its memory
//! tracee    ptrace: stops it, reads and changes its registers and memory
//! watch     whether it has exited; signals
//! kernel    the running kernel: release, build id, settings, code addresses; the vdso
//! machine   CPUs
//! surroundings  how busy the machine is
//! ```
//!
//! Everything is a plain function of numbers and paths, without state: code that must work without a live
//! system (on a recording from a file) puts a trait in front of them. Answers describe the time of the call.
//! A process can exit at any time; that is an answer too, never a panic.

use whyslow_numbers::ClockNs;

pub mod accounts;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64/mod.rs"]
mod arch;
pub mod kernel;
pub mod machine;
pub mod maps;
mod memory;
pub mod process;
pub mod surroundings;
pub mod tracee;
mod watch;

pub use maps::{Mapping, MappingKind};
pub use memory::read_memory;
pub use watch::{ends_within, has_ended, send_signal, watch};

/// The suffix that the kernel adds to the name of an unlinked file.
pub const DELETED: &str = " (deleted)";

/// The time now, of `CLOCK_MONOTONIC`.
pub fn now() -> ClockNs {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    ClockNs::new(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}

/// Whether the address space of this process is limited, as by `ulimit -v`.
pub fn is_address_space_limited() -> bool {
    rustix::process::getrlimit(rustix::process::Resource::As).current.is_some()
}

/// The effective user id of this process.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}
