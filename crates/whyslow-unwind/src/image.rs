//! The parts of an ELF file (or the vDSO) that unwinding needs.

use std::io;
use std::ops::Range;
use std::path::Path;

use object::elf::PT_GNU_EH_FRAME;
use whyslow_elf::{BuildId, Elf, ElfError, FileBytes, Headers};
use whyslow_numbers::{FileAddress, ImageBase, RelativeAddress};
use whyslow_processor::Processor;

use crate::go::{GO_TABLES, go_functions};

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is damaged, or not a 64-bit little-endian ELF file.
    #[error("not a usable ELF file: {0}")]
    Elf(ElfError),
}

impl From<ElfError> for ImageError {
    fn from(error: ElfError) -> Self {
        match error {
            ElfError::Io(error) => Self::Io(error),
            ElfError::Format(_) => Self::Elf(error),
        }
    }
}

/// A mapped part of the file: `[file_offset, file_offset + file_len)` → `relative`.
#[derive(Debug, Clone, Copy)]
struct Segment {
    file_offset: u64,
    file_len: u64,
    relative: RelativeAddress,
    memory_len: u64,
    writable: bool,
    executable: bool,
}

/// A section that unwinding uses.
#[derive(Debug, Clone, Default)]
pub(crate) struct Section {
    /// The range of its bytes in the file.
    pub(crate) bytes: Range<usize>,
    /// Its address.
    pub(crate) address: RelativeAddress,
}

impl Section {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Which unwind tables an image has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnwindTables {
    /// `.eh_frame`
    pub eh_frame: bool,
    /// `.eh_frame_hdr`, a search table for `.eh_frame`; in files without section headers it suffices alone.
    pub index: bool,
    /// `.debug_frame`
    pub debug_frame: bool,
}

#[derive(Debug)]
enum Data {
    Mapped(FileBytes),
    Owned(Vec<u8>),
}

/// An ELF image. All its addresses are relative to the image base, [`whyslow_elf::image_base`].
#[derive(Debug)]
pub struct Image {
    data: Data,
    processor: Processor,
    base: ImageBase,
    segments: Vec<Segment>,
    build_id: Option<BuildId>,
    entry: RelativeAddress,
    pub(crate) eh_frame: Section,
    pub(crate) eh_frame_hdr: Section,
    pub(crate) debug_frame: Section,
    pub(crate) text: Section,
    pub(crate) got: Section,
    pub(crate) plt: Section,
    pub(crate) plt_other: Vec<Section>,
    /// Code in which stacks start although its tables do not say so.
    stack_starts: Vec<Range<RelativeAddress>>,
    /// A decompressed `.debug_frame`.
    pub(crate) debug_frame_unpacked: Option<Vec<u8>>,
}

impl Image {
    /// Maps a file.
    pub fn open(path: &Path) -> Result<Self, ImageError> {
        Self::from_file(FileBytes::open(path)?)
    }

    /// Uses a file that is already mapped.
    pub fn from_file(bytes: FileBytes) -> Result<Self, ImageError> {
        Self::parse(Data::Mapped(bytes))
    }

    /// Uses bytes in memory, such as the vDSO.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, ImageError> {
        Self::parse(Data::Owned(bytes))
    }

    fn parse(data: Data) -> Result<Self, ImageError> {
        let bytes: &[u8] = match &data {
            Data::Mapped(map) => map,
            Data::Owned(bytes) => bytes,
        };
        let headers = Headers::parse(bytes)?;
        let Some(processor) = headers.processor() else {
            return Err(io::Error::other("for a processor that is not supported").into());
        };
        let base = headers.image_base();
        let segments = headers
            .segments()
            .map(|segment| Segment {
                file_offset: segment.file_offset,
                file_len: segment.file_len,
                relative: base.relative(segment.address),
                memory_len: segment.memory_len,
                writable: segment.writable,
                executable: segment.executable,
            })
            .collect();
        let mut image = Self {
            processor,
            base,
            segments,
            build_id: headers.build_id(),
            entry: base.relative(headers.entry()),
            eh_frame: Section::default(),
            eh_frame_hdr: Section::default(),
            debug_frame: Section::default(),
            text: Section::default(),
            got: Section::default(),
            plt: Section::default(),
            plt_other: Vec::new(),
            stack_starts: Vec::new(),
            debug_frame_unpacked: None,
            data: Data::Owned(Vec::new()),
        };
        image.find_sections(&headers);
        if image.eh_frame_hdr.is_empty() {
            image.find_unwind_segment(&headers);
        }
        image.data = data;
        Ok(image)
    }

    fn find_sections(&mut self, headers: &Headers<'_>) {
        let mut go_table = 0..0;
        for section in headers.sections() {
            let found = Section { bytes: section.range, address: self.base.relative(section.address) };
            match section.name {
                b".eh_frame" => self.eh_frame = found,
                b".eh_frame_hdr" => self.eh_frame_hdr = found,
                b".debug_frame" if section.compressed => {
                    self.debug_frame_unpacked = unpacked_debug_frame(headers.bytes());
                }
                b".debug_frame" => self.debug_frame = found,
                b".text" => self.text = found,
                name if GO_TABLES.iter().any(|table| table.as_bytes() == name) => go_table = found.bytes,
                b".got" => self.got = found,
                b".plt" => self.plt = found,
                b".plt.got" | b".plt.sec" | b".iplt" => self.plt_other.push(found),
                _ => {}
            }
        }
        self.find_go_stacks(headers.bytes().get(go_table).unwrap_or_default());
    }

    /// Finds where a Go program's stacks start.
    fn find_go_stacks(&mut self, table: &[u8]) {
        let base = self.base;
        let text = base.file(self.text.address).0;
        let functions = go_functions(table, text..text.saturating_add(self.text.bytes.len() as u64));
        let starts = functions.iter().filter(|function| function.starts_stack());
        let relative =
            |code: &Range<u64>| base.relative(FileAddress(code.start))..base.relative(FileAddress(code.end));
        self.stack_starts = starts.map(|function| relative(&function.code)).collect();
    }

    /// Whether stacks start in the code at an address, although no table says so.
    pub fn starts_stack(&self, relative: RelativeAddress) -> bool {
        self.stack_starts.iter().any(|code| code.contains(&relative))
    }

    /// Finds the unwind table of a file without section headers.
    fn find_unwind_segment(&mut self, headers: &Headers<'_>) {
        let Some(segment) = headers.segment(PT_GNU_EH_FRAME) else { return };
        let offset = headers.file_offset_of(segment.address).and_then(|offset| usize::try_from(offset).ok());
        let Some(start) = offset else { return };
        let file_len = headers.bytes().len();
        let end = start.saturating_add(usize::try_from(segment.file_len).unwrap_or(0)).min(file_len);
        let address = self.base.relative(segment.address);
        self.eh_frame_hdr = Section { bytes: start.min(end)..end, address };
    }

    /// The processor that its code is for.
    pub fn processor(&self) -> Processor {
        self.processor
    }

    /// The mapped file, if there is one.
    pub fn file(&self) -> Option<&FileBytes> {
        match &self.data {
            Data::Mapped(file) => Some(file),
            Data::Owned(_) => None,
        }
    }

    /// All bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Mapped(map) => map,
            Data::Owned(bytes) => bytes,
        }
    }

    pub(crate) fn section(&self, section: &Section) -> &[u8] {
        self.bytes().get(section.bytes.clone()).unwrap_or_default()
    }

    /// The unwind tables that it has.
    pub fn unwind_tables(&self) -> UnwindTables {
        UnwindTables {
            eh_frame: !self.eh_frame.is_empty(),
            index: !self.eh_frame_hdr.is_empty(),
            debug_frame: !self.debug_frame.is_empty() || self.debug_frame_unpacked.is_some(),
        }
    }

    /// The build id, if the linker wrote one.
    pub fn build_id(&self) -> Option<&BuildId> {
        self.build_id.as_ref()
    }

    pub(crate) fn base(&self) -> ImageBase {
        self.base
    }

    /// Whether this is entry code: that of the loader and of some static programs has no caller, but its
    /// tables do not say so.
    pub fn is_entry_code(&self, relative: RelativeAddress) -> bool {
        const ENTRY_CODE: u64 = 64;
        relative.behind(self.entry) < ENTRY_CODE
    }

    /// The relative address at which an executable mapping of this file offset starts.
    pub fn relative_address(&self, file_offset: u64) -> Option<RelativeAddress> {
        // Mappings start at page boundaries, so one page of the file can belong to two segments that are
        // mapped to different addresses (lld packs them so). Take the executable one.
        let covers = |segment: &&Segment| {
            let first = segment.file_offset & !(self.processor.largest_page() - 1);
            let end = segment.file_offset.saturating_add(segment.file_len);
            (first..end).contains(&file_offset)
        };
        let executable = self.segments.iter().filter(|segment| segment.executable).find(covers);
        let segment = executable.or_else(|| self.segments.iter().find(covers))?;
        Some(segment.relative.plus(file_offset).minus(segment.file_offset))
    }

    /// Whether an address is in the module's writable data, including the zeros that are not in the file.
    pub fn is_data(&self, relative: RelativeAddress) -> bool {
        let data = self.segments.iter().filter(|segment| segment.writable && !segment.executable);
        data.into_iter().any(|segment| relative.behind(segment.relative) < segment.memory_len)
    }

    fn file_offset(&self, relative: RelativeAddress) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let into = relative.0.checked_sub(segment.relative.0)?;
            (into < segment.file_len).then(|| segment.file_offset.checked_add(into))?
        })
    }

    /// Up to `len` bytes before a relative address, limited by its segment.
    pub(crate) fn code_before(&self, relative: RelativeAddress, len: usize) -> &[u8] {
        let into = |segment: &Segment| {
            relative.0.checked_sub(segment.relative.0).filter(|into| *into < segment.file_len)
        };
        let into = self.segments.iter().find_map(into).and_then(|into| usize::try_from(into).ok());
        let len = len.min(into.unwrap_or(0));
        self.code_at(relative.minus(len as u64), len)
    }

    /// Up to `len` bytes at a relative address, limited by its segment.
    pub fn code_at(&self, relative: RelativeAddress, len: usize) -> &[u8] {
        let Some(start) = self.file_offset(relative).and_then(|offset| usize::try_from(offset).ok()) else {
            return &[];
        };
        let bytes = self.bytes();
        bytes.get(start..start.saturating_add(len).min(bytes.len())).unwrap_or_default()
    }
}

/// A compressed `.debug_frame` is small, and is decompressed once.
fn unpacked_debug_frame(file: &[u8]) -> Option<Vec<u8>> {
    Some(Elf::parse(file).ok()?.section(".debug_frame").into_owned()).filter(|bytes| !bytes.is_empty())
}
