//! A whole ELF file: headers, symbol tables, sections, links to debug files.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection};

use crate::{ElfError, FileBytes, Headers};

/// A mapped ELF file with its path.
#[derive(Debug, Clone)]
pub struct ElfFile {
    /// Where it was found.
    pub path: PathBuf,
    map: FileBytes,
}

impl ElfFile {
    /// Maps a file without parsing it.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        Ok(Self { path: path.to_owned(), map: FileBytes::open(path)? })
    }

    /// Wraps a file that is already mapped; `path` is its name.
    pub fn new(path: &Path, map: FileBytes) -> Self {
        Self { path: path.to_owned(), map }
    }

    /// The map.
    pub fn map(&self) -> &FileBytes {
        &self.map
    }

    /// All bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Parses the headers.
    pub fn parse(&self) -> Result<Elf<'_>, ElfError> {
        Elf::parse(self.bytes())
    }
}

/// The parsed headers and tables of a whole ELF file.
#[derive(Debug)]
pub struct Elf<'a> {
    headers: Headers<'a>,
    object: ElfFile64<'a, LittleEndian>,
}

impl<'a> Elf<'a> {
    /// Parses the headers and finds the symbol tables.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ElfError> {
        Ok(Self { headers: Headers::parse(bytes)?, object: ElfFile64::parse(bytes)? })
    }

    /// The object crate's view: symbols, relocations, sections.
    pub fn object(&self) -> &ElfFile64<'a, LittleEndian> {
        &self.object
    }

    /// File name and CRC of the separate debug file.
    pub fn debuglink(&self) -> Option<(&'a [u8], u32)> {
        self.object.gnu_debuglink().ok()?
    }

    /// File name and build id of the supplementary debug file.
    pub fn debugaltlink(&self) -> Option<(&'a [u8], &'a [u8])> {
        self.object.gnu_debugaltlink().ok()?
    }

    /// Whether this file itself has debug info units.
    pub fn has_debug_info(&self) -> bool {
        self.has_section(".debug_info") || self.has_section(".zdebug_info")
    }

    /// Whether there is a full symbol table.
    pub fn has_symbols(&self) -> bool {
        self.object.symbol_table().is_some()
    }

    /// Whether a section exists and is not empty.
    pub fn has_section(&self, name: &str) -> bool {
        let section = self.object.section_by_name(name);
        section.and_then(|section| section.file_range()).is_some_and(|(_, size)| size > 0)
    }

    /// The decompressed bytes of a section; empty if it is missing or damaged.
    #[cfg(feature = "unpack")]
    pub fn section(&self, name: &str) -> std::borrow::Cow<'a, [u8]> {
        use object::CompressionFormat;
        use std::borrow::Cow;
        let section = self.object.section_by_name(name).or_else(|| {
            let old = name.strip_prefix(".debug_")?;
            self.object.section_by_name(&format!(".zdebug_{old}"))
        });
        let Some(section) = section else { return Cow::Borrowed(&[]) };
        let Ok(data) = section.compressed_data() else { return Cow::Borrowed(&[]) };
        if data.format == CompressionFormat::None {
            return Cow::Borrowed(data.data);
        }
        let unpacked = crate::unpack::decompress(data.format, data.data, data.uncompressed_size);
        Cow::Owned(unpacked.unwrap_or_default())
    }
}

impl<'a> Deref for Elf<'a> {
    type Target = Headers<'a>;

    fn deref(&self) -> &Headers<'a> {
        &self.headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_an_elf_file_are_an_error() {
        assert!(Elf::parse(b"hello").is_err());
        assert!(Elf::parse(&[]).is_err());
        assert!(Elf::parse(b"\x7fELF").is_err());
    }

    #[test]
    fn our_own_program_is_read() {
        let file = ElfFile::open(&std::env::current_exe().unwrap()).unwrap();
        let elf = file.parse().unwrap();
        assert!(elf.has_symbols() && elf.has_debug_info() && elf.is_for_host() && elf.has_interpreter());
        assert!(!elf.section(".text").is_empty() && elf.section(".no_such_section").is_empty());
        let text = elf.sections().find(|section| section.name == b".text").unwrap();
        let len = text.range.len() as u64;
        assert_eq!(elf.bytes_at(text.address, len), file.bytes().get(text.range));
    }
}
