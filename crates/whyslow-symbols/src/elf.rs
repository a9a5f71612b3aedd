//! Opens ELF files: image base, build id, sections (decompressed where needed), bytes at an address.

use std::borrow::Cow;
use std::io::Read;
use std::path::{Path, PathBuf};

use object::read::elf::{ElfFile64, ProgramHeader};
use object::{CompressionFormat, LittleEndian, Object, ObjectSection, ObjectSegment};
use whyslow_unwind::FileBytes;

/// Sections larger than this when decompressed are damaged or hostile.
const LARGEST_SECTION: u64 = 4 << 30;
const PAGE: u64 = 4096;

/// Why a file could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ElfError {
    /// The file could not be opened.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The file is not a 64-bit little-endian ELF file, or is damaged.
    #[error("{0}")]
    Format(#[from] object::Error),
}

/// A mapped ELF file.
#[derive(Debug)]
pub(crate) struct ElfBytes {
    /// Where it was found.
    pub path: PathBuf,
    map: FileBytes,
}

impl ElfBytes {
    /// Maps a file; nothing is parsed yet.
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        Ok(Self { path: path.to_owned(), map: FileBytes::open(path)? })
    }

    /// A file that is mapped already; `path` is what it was called.
    pub(crate) fn new(path: &Path, map: FileBytes) -> Self {
        Self { path: path.to_owned(), map }
    }

    /// The map.
    pub(crate) fn map(&self) -> &FileBytes {
        &self.map
    }

    /// All bytes of the file.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Parses the headers.
    pub(crate) fn parse(&self) -> Result<Elf<'_>, ElfError> {
        Elf::parse(self.bytes())
    }
}

/// The parsed headers of an ELF file.
#[derive(Debug)]
pub(crate) struct Elf<'a> {
    file: ElfFile64<'a, LittleEndian>,
}

impl<'a> Elf<'a> {
    /// Parses the headers.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, ElfError> {
        Ok(Self { file: ElfFile64::parse(bytes)? })
    }

    /// The object crate's view.
    pub(crate) fn object(&self) -> &ElfFile64<'a, LittleEndian> {
        &self.file
    }

    /// Virtual address of the first `PT_LOAD`, rounded down to a page: what relative addresses count from.
    pub(crate) fn image_base(&self) -> u64 {
        let endian = self.file.endian();
        let first = self
            .file
            .elf_program_headers()
            .iter()
            .find(|header| header.p_type(endian) == object::elf::PT_LOAD);
        first.map_or(0, |header| header.p_vaddr(endian) & !(PAGE - 1))
    }

    /// The GNU build id in hexadecimal.
    pub(crate) fn build_id(&self) -> Option<String> {
        let id = self.file.build_id().ok()??;
        Some(hex(id))
    }

    /// File name and CRC of the separate debug file.
    pub(crate) fn debuglink(&self) -> Option<(&'a [u8], u32)> {
        self.file.gnu_debuglink().ok()?
    }

    /// File name and build id of the supplementary debug file.
    pub(crate) fn debugaltlink(&self) -> Option<(&'a [u8], &'a [u8])> {
        self.file.gnu_debugaltlink().ok()?
    }

    /// Whether there are units of debug information in this very file.
    pub(crate) fn has_debug_info(&self) -> bool {
        let present = |name| self.file.section_by_name(name).is_some_and(|section| has_bytes(&section));
        present(".debug_info") || present(".zdebug_info")
    }

    /// The bytes of a section, decompressed; empty when it is missing or damaged.
    pub(crate) fn section(&self, name: &str) -> Cow<'a, [u8]> {
        let section = self.file.section_by_name(name).or_else(|| {
            let old = name.strip_prefix(".debug_")?;
            self.file.section_by_name(&format!(".zdebug_{old}"))
        });
        let Some(section) = section else { return Cow::Borrowed(&[]) };
        let Ok(data) = section.compressed_data() else { return Cow::Borrowed(&[]) };
        if data.format == CompressionFormat::None {
            return Cow::Borrowed(data.data);
        }
        Cow::Owned(decompress(data.format, data.data, data.uncompressed_size).unwrap_or_default())
    }

    /// The file's bytes at a virtual address; `None` where the file holds none.
    pub(crate) fn bytes_at(&self, address: u64, size: u64) -> Option<&'a [u8]> {
        self.file.segments().find_map(|segment| segment.data_range(address, size).ok()?)
    }
}

fn has_bytes<'a>(section: &impl ObjectSection<'a>) -> bool {
    section.file_range().is_some_and(|(_, size)| size > 0)
}

/// Decompresses at most as many bytes as the header announces; memory grows with real output only.
fn decompress(format: CompressionFormat, data: &[u8], size: u64) -> Option<Vec<u8>> {
    if size > LARGEST_SECTION {
        return None;
    }
    let expected = size.min(data.len() as u64 * 16 + 4096) as usize;
    let mut bytes = Vec::with_capacity(expected);
    match format {
        CompressionFormat::Zlib => {
            flate2::read::ZlibDecoder::new(data).take(size).read_to_end(&mut bytes).ok()?;
        }
        CompressionFormat::Zstandard => {
            zstd::stream::read::Decoder::new(data).ok()?.take(size).read_to_end(&mut bytes).ok()?;
        }
        _ => return None,
    }
    (bytes.len() as u64 == size).then_some(bytes)
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_that_lies_about_its_size_is_refused() {
        let packed = zstd::encode_all(&[7u8; 1000][..], 1).unwrap();
        assert_eq!(decompress(CompressionFormat::Zstandard, &packed, 1000).unwrap().len(), 1000);
        assert!(decompress(CompressionFormat::Zstandard, &packed, 2000).is_none());
        assert!(decompress(CompressionFormat::Zstandard, &packed, u64::MAX).is_none());
        assert!(decompress(CompressionFormat::Zlib, &packed, 1000).is_none());
    }

    #[test]
    fn bytes_that_are_no_elf_file_are_an_error() {
        assert!(Elf::parse(b"hello").is_err());
        assert!(Elf::parse(&[]).is_err());
    }
}
