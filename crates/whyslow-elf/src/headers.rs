//! The headers of a file: segments and sections.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;

use object::LittleEndian;
use object::elf::{self, FileHeader64, ProgramHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _, SectionTable};

use whyslow_numbers::{FileAddress, ImageBase};
use whyslow_processor::{PAGE, Processor};

use crate::{BuildId, ElfError};

const ENDIAN: LittleEndian = LittleEndian;

/// The address that relative addresses count from: the page of the lowest loaded segment, whatever the order
/// of segments. The loader also uses the lowest one as the start of a module. 0 if nothing is loaded.
pub fn image_base(load_addresses: impl IntoIterator<Item = FileAddress>) -> ImageBase {
    let lowest = load_addresses.into_iter().min().unwrap_or_default();
    ImageBase(FileAddress(lowest.0 & !(PAGE - 1)))
}

/// A loaded part of the file (`PT_LOAD`), or another part that a program header describes.
///
/// ```text
/// file [file_offset, file_offset + file_len) → addresses [address, address + file_len), zeros up to memory_len
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Its address.
    pub address: FileAddress,
    /// Its size in memory.
    pub memory_len: u64,
    /// Its offset in the file.
    pub file_offset: u64,
    /// Its size in the file.
    pub file_len: u64,
    /// Whether it may be written.
    pub writable: bool,
    /// Whether it is code.
    pub executable: bool,
}

impl Segment {
    fn new(header: &ProgramHeader64<LittleEndian>) -> Self {
        let flags = header.p_flags(ENDIAN);
        Self {
            address: FileAddress(header.p_vaddr(ENDIAN)),
            memory_len: header.p_memsz(ENDIAN),
            file_offset: header.p_offset(ENDIAN),
            file_len: header.p_filesz(ENDIAN),
            writable: flags.contains(elf::PF_W),
            executable: flags.contains(elf::PF_X),
        }
    }

    /// Its bytes in the file; `None` if the file is truncated.
    pub fn bytes<'a>(&self, file: &'a [u8]) -> Option<&'a [u8]> {
        let start = usize::try_from(self.file_offset).ok()?;
        file.get(start..start.checked_add(usize::try_from(self.file_len).ok()?)?)
    }

    /// The file offset of an address; `None` if the file does not hold it.
    pub fn file_offset_of(&self, address: FileAddress) -> Option<u64> {
        let into = address.0.checked_sub(self.address.0).filter(|into| *into < self.file_len)?;
        self.file_offset.checked_add(into)
    }
}

/// A section with bytes in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its address.
    pub address: FileAddress,
    /// The range of its bytes in the file.
    pub range: Range<usize>,
    /// Whether they are compressed.
    pub compressed: bool,
}

/// The headers of a file. Damaged section headers leave the segments usable, as for the loader.
#[derive(Debug, Clone)]
pub struct Headers<'a> {
    bytes: &'a [u8],
    header: &'a FileHeader64<LittleEndian>,
    programs: &'a [ProgramHeader64<LittleEndian>],
    sections: SectionTable<'a, FileHeader64<LittleEndian>>,
}

impl<'a> Headers<'a> {
    /// Reads the headers.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ElfError> {
        let header = FileHeader64::<LittleEndian>::parse(bytes)?;
        let endian = header.endian()?;
        let programs = header.program_headers(endian, bytes)?;
        let sections = header.sections(endian, bytes).unwrap_or_default();
        Ok(Self { bytes, header, programs, sections })
    }

    /// All bytes of the file.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The processor that the code is for; `None` if it is not supported.
    pub fn processor(&self) -> Option<Processor> {
        Processor::of_elf(self.header.e_machine(ENDIAN).0)
    }

    /// Whether the code is for the processor that this program runs on.
    pub fn is_for_host(&self) -> bool {
        self.processor() == Some(Processor::HOST)
    }

    /// Whether it can be loaded at any address.
    pub fn is_position_independent(&self) -> bool {
        self.header.e_type(ENDIAN) == elf::ET_DYN
    }

    /// The kind of file: a program, a library, an object file.
    pub fn kind(&self) -> elf::FileType {
        self.header.e_type(ENDIAN)
    }

    /// The entry point; 0 if there is none.
    pub fn entry(&self) -> FileAddress {
        FileAddress(self.header.e_entry(ENDIAN))
    }

    /// See [`image_base`].
    pub fn image_base(&self) -> ImageBase {
        image_base(self.segments().map(|segment| segment.address))
    }

    /// The loaded segments, in file order.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + Clone + use<'a> {
        let programs = self.programs;
        programs.iter().filter(|header| header.p_type(ENDIAN) == elf::PT_LOAD).map(Segment::new)
    }

    /// The first segment of a kind, such as the unwind table.
    pub fn segment(&self, kind: elf::ProgramType) -> Option<Segment> {
        self.programs.iter().find(|header| header.p_type(ENDIAN) == kind).map(Segment::new)
    }

    /// Whether the file requests the dynamic loader.
    pub fn has_interpreter(&self) -> bool {
        self.segment(elf::PT_INTERP).is_some()
    }

    /// The path of the dynamic loader that the file requests.
    pub fn interpreter(&self) -> Option<&'a OsStr> {
        let segment = self.segment(elf::PT_INTERP)?;
        let bytes = segment.bytes(self.bytes)?;
        bytes.split(|byte| *byte == 0).next().map(OsStr::from_bytes)
    }

    /// Whether it has a library's name.
    pub fn has_soname(&self) -> bool {
        use object::read::elf::Dyn as _;
        let mut tables = self.programs.iter().filter_map(|header| header.dynamic(ENDIAN, self.bytes).ok()?);
        tables.any(|entries| entries.iter().any(|entry| entry.d_tag(ENDIAN) == elf::DT_SONAME))
    }

    /// The file offset of an address.
    pub fn file_offset_of(&self, address: FileAddress) -> Option<u64> {
        self.segments().find_map(|segment| segment.file_offset_of(address))
    }

    /// The file's bytes at an address; `None` if there are fewer.
    pub fn bytes_at(&self, address: FileAddress, len: u64) -> Option<&'a [u8]> {
        self.segments().find_map(|segment| {
            let into = usize::try_from(address.0.checked_sub(segment.address.0)?).ok()?;
            segment.bytes(self.bytes)?.get(into..into.checked_add(usize::try_from(len).ok()?)?)
        })
    }

    /// The sections that have bytes.
    pub fn sections(&self) -> impl Iterator<Item = Section<'a>> {
        self.sections.iter().filter_map(|section| {
            let (start, len) = section.file_range(ENDIAN)?;
            let (start, len) = (usize::try_from(start).ok()?, usize::try_from(len).ok()?);
            let end = start.checked_add(len).filter(|end| *end <= self.bytes.len())?;
            Some(Section {
                name: self.sections.section_name(ENDIAN, section).ok()?,
                address: FileAddress(section.sh_addr(ENDIAN)),
                range: start..end,
                compressed: section.sh_flags(ENDIAN).contains(elf::SHF_COMPRESSED),
            })
        })
    }

    /// The build id. Sections are searched first: the program headers of a separate debug file have no bytes
    /// in it. Files without section headers have the id in a segment.
    pub fn build_id(&self) -> Option<BuildId> {
        let in_section = |section: &elf::SectionHeader64<LittleEndian>| {
            BuildId::first(section.notes(ENDIAN, self.bytes).ok()??)
        };
        let in_segment =
            |header: &ProgramHeader64<LittleEndian>| BuildId::first(header.notes(ENDIAN, self.bytes).ok()??);
        let of_sections = self.sections.iter().find_map(in_section);
        of_sections.or_else(|| self.programs.iter().find_map(in_segment))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{Built, note};

    #[test]
    fn the_image_base_is_the_lowest_page_whatever_the_segment_order() {
        for order in [[0x40_1234, 0x50_0000, 0x60_0000], [0x60_0000, 0x40_1234, 0x50_0000]] {
            let file = order.into_iter().fold(Built::default(), |file, at| file.load(at, b"code")).bytes();
            let headers = Headers::parse(&file).unwrap();
            assert_eq!(headers.image_base().0.0, 0x40_1000, "{order:x?}");
            assert_eq!(headers.segments().map(|segment| segment.address.0).collect::<Vec<_>>(), order);
        }
        assert_eq!(Headers::parse(&Built::default().bytes()).unwrap().image_base(), ImageBase::default());
        assert_eq!(image_base([]), ImageBase::default());
        assert_eq!(image_base([FileAddress(0xfff)]), ImageBase::default());
    }

    #[test]
    fn bytes_are_found_by_address() {
        let file = Built::default().load(0x2000, b"second").load(0x1000, b"first").bytes();
        let headers = Headers::parse(&file).unwrap();
        assert_eq!(headers.bytes_at(FileAddress(0x1001), 3), Some(&b"irs"[..]));
        assert_eq!(headers.bytes_at(FileAddress(0x2000), 6), Some(&b"second"[..]));
        for (address, len) in
            [(0x1000, 6), (0x1005, 1), (0xfff, 1), (0, 0), (0x1000, u64::MAX), (u64::MAX, 1)]
        {
            assert_eq!(headers.bytes_at(FileAddress(address), len), None, "{len} at {address:#x}");
        }
        let offset = headers.file_offset_of(FileAddress(0x2003)).unwrap() as usize;
        assert_eq!(&file[offset..offset + 3], b"ond");
        assert_eq!(headers.file_offset_of(FileAddress(0x2006)), None);
    }

    #[test]
    fn the_build_id_is_found_without_section_headers() {
        let file = Built::default().load(0, b"code").notes(&note(b"GNU\0", 3, &[0xab, 0xcd])).bytes();
        assert_eq!(Headers::parse(&file).unwrap().build_id().unwrap().to_string(), "abcd");
        let damaged = Built::default().notes(&note(b"GNU\0", 3, &[1; 8])[..20]).bytes();
        assert_eq!(Headers::parse(&damaged).unwrap().build_id(), None);
    }

    #[test]
    fn a_damaged_section_table_leaves_the_segments() {
        let mut file = Built::default().load(0x1000, b"code").notes(&note(b"GNU\0", 3, &[1])).bytes();
        // e_shoff, e_shentsize, e_shnum, e_shstrndx: a table beyond the end of the file.
        file[0x28..0x30].copy_from_slice(&u64::MAX.to_le_bytes());
        file[0x3a..0x3c].copy_from_slice(&64u16.to_le_bytes());
        file[0x3c..0x3e].copy_from_slice(&9u16.to_le_bytes());
        let headers = Headers::parse(&file).unwrap();
        assert_eq!(headers.sections().count(), 0);
        assert_eq!(
            (headers.image_base().0.0, headers.build_id().unwrap().to_string().as_str()),
            (0x1000, "01")
        );
    }

    #[test]
    fn truncated_files_give_an_error_or_nothing() {
        let file = Built::default().load(0x1000, &[7; 100]).notes(&note(b"GNU\0", 3, &[1; 20])).bytes();
        for len in 0..file.len() {
            let Ok(headers) = Headers::parse(&file[..len]) else { continue };
            assert_eq!(headers.image_base().0.0, 0x1000);
            headers.build_id();
            headers.bytes_at(FileAddress(0x1000), 100);
            let whole = |segment: Segment| segment.bytes(&file[..len]).is_none_or(|bytes| bytes == [7; 100]);
            assert!(headers.segments().all(whole));
        }
    }

    proptest! {
        #[test]
        fn damaged_files_never_panic(at in 0usize..256, value: u8, len in 0usize..400) {
            let mut file = Built::default().load(0x1000, &[7; 100]).notes(&note(b"GNU\0", 3, &[1; 20])).bytes();
            let at = at % file.len();
            file[at] = value;
            file.truncate(len.max(1));
            if let Ok(headers) = Headers::parse(&file) {
                let (_, _, _) = (headers.image_base().0.0, headers.build_id(), headers.has_soname());
                headers.bytes_at(FileAddress(0x1000), 10);
                headers.sections().for_each(|section| assert!(file.get(section.range).is_some()));
            }
        }
    }
}
