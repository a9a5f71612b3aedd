//! System calls without a safe wrapper.

#![expect(unsafe_code, reason = "one function of libc has no safe interface")]

use std::io;

use rustix::fs::MemfdFlags;

pub(crate) use whyslow_agent_host::sys::{now, prefetch};

/// Returns freed memory to the system. The C library keeps the memory of exited threads, and the reader of
/// the profile needs as much again.
pub fn return_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it only returns pages without blocks.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// An empty in-memory file that is in no folder.
pub(crate) fn memory_file() -> io::Result<std::fs::File> {
    Ok(rustix::fs::memfd_create(c"whyslow-snapshot", MemfdFlags::CLOEXEC)?.into())
}
