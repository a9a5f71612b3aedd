//! Maps files into memory: the only unsafe code in this crate.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

/// A file's bytes, mapped read-only. Copies share the map, which outlives the file's name: a deleted or
/// replaced file remains readable.
#[derive(Debug, Clone)]
pub struct FileBytes {
    map: Arc<memmap2::Mmap>,
    modified: (i64, i64),
}

impl FileBytes {
    /// Maps a regular file.
    pub fn open(path: &Path) -> io::Result<Self> {
        // Opening a pipe would block until it has a writer.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Self::map(&File::open(path)?)
    }

    /// Maps an open file.
    pub fn map(file: &File) -> io::Result<Self> {
        Self::map_with(file, &memmap2::MmapOptions::new())
    }

    /// Maps an open file and loads all its pages at once: if all of it is read, one call is cheaper than a
    /// page fault every 64 KB.
    pub fn map_all_pages(file: &File) -> io::Result<Self> {
        Self::map_with(file, memmap2::MmapOptions::new().populate())
    }

    fn map_with(file: &File, options: &memmap2::MmapOptions) -> io::Result<Self> {
        // SAFETY: the map is only read, and nothing here writes to executables, debug files or recordings.
        // Linkers and package managers replace files by rename, which leaves a map intact, and recorders have
        // finished with a file before it is imported. Truncating a mapped file would raise SIGBUS, as it does
        // in the program that runs from it and in every tool that maps files.
        #[expect(unsafe_code, reason = "mapping a file has no safe form")]
        let map = unsafe { options.map(file) }?;
        let metadata = file.metadata()?;
        Ok(Self { map: Arc::new(map), modified: (metadata.mtime(), metadata.mtime_nsec()) })
    }

    /// The file's modification time when it was mapped: seconds and nanoseconds since 1970.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_readable_after_it_was_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"bytes").unwrap();
        let maps =
            [FileBytes::open(&path).unwrap(), FileBytes::map_all_pages(&File::open(&path).unwrap()).unwrap()];
        std::fs::remove_file(&path).unwrap();
        for map in maps {
            assert_eq!(&*map, b"bytes");
            assert!(map.modified().0 > 0);
        }
        assert!(FileBytes::open(&path).is_err());
    }

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let refused = FileBytes::open(folder.path()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        assert!(FileBytes::open(Path::new("/dev/zero")).is_err());
        let empty = folder.path().join("empty");
        std::fs::write(&empty, b"").unwrap();
        assert_eq!(&*FileBytes::open(&empty).unwrap(), b"");
    }
}
