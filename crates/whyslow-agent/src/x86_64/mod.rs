//! The agent's code for x86-64. Another processor needs a second folder with the same files.
//!
//! ```text
//! hooks, maps, exit   shims that keep the caller's registers
//! sampler             the start of a sampled thread
//! points              the entry of a function that is a progress point
//! signals             what the kernel leaves for a handler
//! calls               system calls         thread    words per thread, and their base
//! counter             the time             imports   symbols that may be missing
//! bytes               memcpy and related functions
//! ```

mod bytes;
pub mod calls;
pub mod counter;
pub mod exit;
pub mod hooks;
pub mod imports;
pub mod maps;
pub mod points;
pub mod sampler;
pub mod signals;
pub mod thread;

/// The machine number in ELF files for it.
pub const ELF_MACHINE: u16 = 62;
