//! Processes and the kernel as Linux shows them. Whoever records, patches, counts, symbolises or judges asks here, so that no two of them
//! read the same file in two ways.
//!
//! ```text
//! process   one process: names, threads, children, state, limits, the ways to its files
//! accounts  what the kernel accounts of a process or of the machine: time, faults, switches, bytes
//! maps      its mappings, and what their names say of them
//! memory    its memory
//! tracee    it is stopped, looked at, changed, as a debugger does
//! watch     whether it has ended; signals
//! kernel    the running kernel: release, build id, settings, where its code is; the vdso
//! machine   CPUs
//! surroundings  how busy the machine is
//! ```
//!
//! Everything is a plain function of numbers and paths without state of its own: code that must work without a system (a recording
//! that is read from a file) puts a trait before them. What such functions answer is what was true when they looked; a process can end
//! at any time, which is an answer too, never a panic.

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
pub use watch::{has_ended, send_signal, watch};

/// What the kernel adds to the name of a file that has been unlinked.
pub const DELETED: &str = " (deleted)";

/// Nanoseconds of the clock that never goes back.
pub fn monotonic_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// The user whose rights this process has.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}
