//! What the agent knows of the processor: x86-64. Another one is a second folder with the same files.
//!
//! ```text
//! hooks, maps, exit   how calls come in: shims that keep the caller's registers
//! sampler             how a thread begins that is sampled
//! signals             what the kernel leaves for a handler
//! calls               system calls         thread    words per thread, and their base
//! counter             the time             imports   symbols that may be missing
//! bytes               memcpy and the like
//! ```

mod bytes;
pub mod calls;
pub mod counter;
pub mod exit;
pub mod hooks;
pub mod imports;
pub mod maps;
pub mod sampler;
pub mod signals;
pub mod thread;

/// What an ELF file for it says.
pub const ELF_MACHINE: u16 = 62;
