//! The agent as bytes: a shared library that runs inside other programs, built in two variants by this
//! crate's build script.

/// The agent that records the heap and, if requested, samples CPU time: an ELF shared library for x86-64
/// Linux without dependencies.
pub static AGENT: &[u8] = include_bytes!(env!("WHYSLOW_AGENT"));

/// The agent without any allocator hooks: it only samples CPU time.
pub static SAMPLER: &[u8] = include_bytes!(env!("WHYSLOW_SAMPLER"));
