//! What only trying can tell: what a recording gets, and the space for symbols. The recorder itself does the trying.

use std::path::{Path, PathBuf};

use rustix::fs::Access;
use whyslow_capture::{Granted, Refused, Trial};

use crate::failure::{Failure, Result};

/// What was granted when asked.
#[derive(Debug, Clone)]
pub(super) struct Probe {
    /// What a recording's events are like.
    pub(super) events: std::result::Result<Granted, Refused>,
    /// How often a thread can sample itself in a second of its CPU time, or why it cannot.
    pub(super) timers: std::result::Result<u32, String>,
    /// Whether memory of programs that whyslow starts can be read.
    pub(super) memory_is_readable: bool,
    /// Where symbols are kept, and the bytes that are free there if it can be written.
    pub(super) cache: Option<(PathBuf, Option<u64>)>,
}

impl Probe {
    /// Begins a recording and gives it up.
    pub(super) fn run() -> Result<Self> {
        let Trial { events, timers, memory_is_readable } =
            whyslow_capture::trial().map_err(|error| Failure::new(format!("doctor: {error}")))?;
        let cache = whyslow_symbols::default_cache_folder();
        let cache = cache.map(|folder| (folder.clone(), free_space(&folder)));
        Ok(Self { events, timers, memory_is_readable, cache })
    }
}

/// Bytes that this user may still write in a folder, or in the nearest one above it that exists; `None` when nothing.
fn free_space(folder: &Path) -> Option<u64> {
    let existing = folder.ancestors().find(|folder| folder.is_dir())?;
    rustix::fs::access(existing, Access::WRITE_OK).ok()?;
    let space = rustix::fs::statvfs(existing).ok()?;
    Some(space.f_bavail.saturating_mul(space.f_frsize))
}
