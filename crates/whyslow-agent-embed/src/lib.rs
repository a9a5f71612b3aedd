//! The agent as bytes: a shared library that runs inside other programs, built in three variants by this
//! crate's build script.

/// The agent that records the heap and, if requested, samples CPU time: an ELF shared library for x86-64
/// Linux without dependencies.
pub static AGENT: &[u8] = include_bytes!(env!("WHYSLOW_AGENT"));

/// The agent without any allocator hooks: it only samples CPU time.
pub static SAMPLER: &[u8] = include_bytes!(env!("WHYSLOW_SAMPLER"));

/// The agent for experiments: without allocator hooks, with the functions that programs with coz's progress points
/// look up.
pub static CAUSAL: &[u8] = include_bytes!(env!("WHYSLOW_CAUSAL"));
