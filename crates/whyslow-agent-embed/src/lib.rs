//! The agent as bytes: a shared library for the inside of other programs, built twice by this crate's build script.

/// The agent that watches the heap, and takes samples of CPU time if asked to: an ELF shared library for x86-64 Linux that needs no other library.
pub static AGENT: &[u8] = include_bytes!(env!("WHYSLOW_AGENT"));

/// The same without anything that stands in for the allocator: it only takes samples.
pub static SAMPLER: &[u8] = include_bytes!(env!("WHYSLOW_SAMPLER"));
