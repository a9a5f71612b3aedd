//! The heap agent as bytes: a shared library for the inside of other programs, built by this crate's build script.

/// The agent: an ELF shared library for x86-64 Linux that needs no other library.
pub static AGENT: &[u8] = include_bytes!(env!("WHYSLOW_AGENT"));
