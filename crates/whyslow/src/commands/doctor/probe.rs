//! Checks that need a try: what a recording gets, and the space for symbols. The recorder itself tries.

use std::path::{Path, PathBuf};

use rustix::fs::Access;
use whyslow_capture::{Granted, Refused, Trial};

use crate::failure::{Failure, Result};

/// What the recorder got.
#[derive(Debug, Clone)]
pub(super) struct Probe {
    /// The perf events of a recording, or why there are none.
    pub(super) events: std::result::Result<Granted, Refused>,
    /// Timer samples per second of CPU time, or why timers do not work.
    pub(super) timers: std::result::Result<u32, String>,
    /// Whether the memory of programs that whyslow starts is readable.
    pub(super) memory_is_readable: bool,
    /// The folder for symbols, and its free bytes if it is writable.
    pub(super) cache: Option<(PathBuf, Option<u64>)>,
}

impl Probe {
    /// Starts a recording and discards it.
    pub(super) fn run() -> Result<Self> {
        let Trial { events, timers, memory_is_readable } =
            whyslow_capture::trial().map_err(|error| Failure::new(format!("doctor: {error}")))?;
        let cache = whyslow_symbols::default_cache_folder();
        let cache = cache.map(|folder| (folder.clone(), free_space(&folder)));
        Ok(Self { events, timers, memory_is_readable, cache })
    }
}

/// Bytes that this user may write in a folder, or in its nearest existing parent; `None` if it is not
/// writable.
fn free_space(folder: &Path) -> Option<u64> {
    let existing = folder.ancestors().find(|folder| folder.is_dir())?;
    rustix::fs::access(existing, Access::WRITE_OK).ok()?;
    let space = rustix::fs::statvfs(existing).ok()?;
    Some(space.f_bavail.saturating_mul(space.f_frsize))
}
