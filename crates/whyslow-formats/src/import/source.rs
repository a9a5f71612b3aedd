//! The bytes of a file: mapped, read from a pipe, unpacked. The only unsafe code of this crate is here.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::{ImportError, ImportOptions};

/// The most that is read from a pipe.
const PIPE_LIMIT: u64 = 4 << 30;

/// Files up to this length are mapped with all their pages.
const MAPPED_AT_ONCE: u64 = 512 << 20;

/// A packed file may always unpack to this much; beyond it, to [`RATIO`] times its length.
const ALWAYS_UNPACKED: u64 = 64 << 20;
const RATIO: u64 = 200;

/// Bytes that are unpacked at a time.
const STEP: u64 = 1 << 20;

/// A file's bytes.
pub(super) enum Source {
    Mapped(memmap2::Mmap),
    Read(Vec<u8>),
}

impl Source {
    /// Opens a file. What is not a regular file (a pipe) is read to its end.
    pub(super) fn open(path: &Path) -> Result<Self, ImportError> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
        }
        if !metadata.is_file() || metadata.len() == 0 {
            let mut bytes = Vec::new();
            file.take(PIPE_LIMIT + 1).read_to_end(&mut bytes)?;
            if bytes.len() as u64 > PIPE_LIMIT {
                return Err(too_large("the pipe gives", PIPE_LIMIT));
            }
            return Ok(Self::Read(bytes));
        }
        let mut options = memmap2::MmapOptions::new();
        if metadata.len() <= MAPPED_AT_ONCE {
            // All of it is read: one call is cheaper than a page fault every 64 KB.
            options.populate();
        }
        // SAFETY: the map is private and read-only. Another process that truncates the file while it is imported would
        // raise SIGBUS; recorders write a file once and are done with it.
        #[expect(unsafe_code, reason = "mapping a file cannot be proven safe by the type system")]
        let map = unsafe { options.map(&file) }?;
        Ok(Self::Mapped(map))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Read(bytes) => bytes,
        }
    }
}

fn too_large(what: &str, limit: u64) -> ImportError {
    ImportError::TooLarge { what: format!("{what} more than {} MB", limit >> 20) }
}

fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b, 8])
}

/// The first bytes of what a gzip file holds; `None` when it is no gzip file. The input may be cut anywhere.
pub(super) fn unpack_start(start: &[u8], most: usize) -> Option<Vec<u8>> {
    if !is_gzip(start) {
        return None;
    }
    let mut bytes = Vec::new();
    // What could be unpacked before an error is in `bytes`; the rest is not needed.
    let _ = MultiGzDecoder::new(start).take(most as u64).read_to_end(&mut bytes);
    Some(bytes)
}

/// What a gzip file holds; `None` when it is no gzip file.
pub(super) fn unpack(packed: &[u8], options: &ImportOptions) -> Result<Option<Vec<u8>>, ImportError> {
    if !is_gzip(packed) {
        return Ok(None);
    }
    let by_ratio = (packed.len() as u64).saturating_mul(RATIO).max(ALWAYS_UNPACKED);
    let limit = options.unpacked_limit.min(by_ratio);
    let mut decoder = MultiGzDecoder::new(packed);
    let mut bytes = Vec::new();
    loop {
        let room = (limit + 1).saturating_sub(bytes.len() as u64).min(STEP);
        if room == 0 {
            return Err(too_large("it unpacks to", limit));
        }
        match (&mut decoder).take(room).read_to_end(&mut bytes) {
            Ok(0) => return Ok(Some(bytes)),
            Ok(_) => {}
            Err(error) => {
                let offset = (packed.len() - decoder.get_ref().len()) as u64;
                return Err(ImportError::Gzip { offset, what: error.to_string() });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    #[test]
    fn packed_files_are_unpacked_up_to_the_limit() {
        let options = ImportOptions { unpacked_limit: 1000, ..ImportOptions::default() };
        assert_eq!(unpack(&packed(&[7; 1000]), &options).expect("fits"), Some(vec![7; 1000]));
        assert!(matches!(unpack(&packed(&[7; 1001]), &options), Err(ImportError::TooLarge { .. })));
        assert_eq!(unpack(b"plain", &options).expect("plain"), None);
    }

    #[test]
    fn a_cut_packed_file_is_an_error_with_an_offset() {
        let whole = packed(&(0..=255).cycle().take(5000).collect::<Vec<u8>>());
        let cut = &whole[..whole.len() - 20];
        let error = unpack(cut, &ImportOptions::default()).expect_err("cut");
        assert!(matches!(error, ImportError::Gzip { offset, .. } if offset <= cut.len() as u64), "{error}");
        assert_eq!(unpack_start(cut, 10), Some((0..10).collect()));
    }
}
