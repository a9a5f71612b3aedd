//! Maps files into memory: the only place of this crate with unsafe code.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

/// A file's bytes, mapped read-only. Copies share the map, which outlives the file's name: a deleted or replaced file can
/// still be read.
#[derive(Debug, Clone)]
pub struct FileBytes {
    map: Arc<memmap2::Mmap>,
    modified: (i64, i64),
}

impl FileBytes {
    /// Maps a regular file.
    pub fn open(path: &Path) -> io::Result<Self> {
        // Opening a pipe would wait for its writer.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Self::map(&File::open(path)?)
    }

    /// Maps an open file.
    pub fn map(file: &File) -> io::Result<Self> {
        // SAFETY: the map is only read, and nothing here writes to executables or debug files. Linkers and package managers
        // replace files by rename, which leaves a map intact; a file that is cut short while it is mapped would raise
        // SIGBUS, as it does in the program that runs from it and in every tool that maps ELF files.
        #[expect(unsafe_code, reason = "mapping a file has no safe form")]
        let map = unsafe { memmap2::Mmap::map(file) }?;
        let metadata = file.metadata()?;
        Ok(Self { map: Arc::new(map), modified: (metadata.mtime(), metadata.mtime_nsec()) })
    }

    /// When the file was last changed before it was mapped: seconds and nanoseconds since 1970.
    pub fn modified(&self) -> (i64, i64) {
        self.modified
    }
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}
