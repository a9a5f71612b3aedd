//! Maps files into memory.

use std::fs::File;
use std::io;
use std::path::Path;

/// A file's bytes, mapped privately and read-only.
#[derive(Debug)]
pub(crate) struct Mapped(memmap2::Mmap);

impl Mapped {
    /// Maps a regular file.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        // Opening a pipe would wait for its writer.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let file = File::open(path)?;
        // SAFETY: the map is private and read-only, and nothing here writes to executables. Another process that truncates
        // the file meanwhile would raise SIGBUS, as in every tool that maps ELF files; linkers and package managers
        // replace files by rename, which leaves a map intact.
        #[expect(unsafe_code, reason = "mapping a file cannot be proven safe by the type system")]
        let map = unsafe { memmap2::Mmap::map(&file) }?;
        Ok(Self(map))
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}
