//! The file as headers and sections: every byte in one region.

use std::ops::Range;

use object::LittleEndian;
use object::elf::{self, FileHeader64, SectionHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _};
use whyslow_profile::size::Part;

use crate::SizeError;
use crate::partition::partition;

const ENDIAN: LittleEndian = LittleEndian;

/// A section, or another range that a header describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Section {
    /// Its name; in brackets if it is no section.
    pub name: String,
    /// What it holds.
    pub part: Part,
    /// Its address in memory.
    pub address: u64,
    /// Its bytes in the file, before anything overlaps it.
    pub file: Range<u64>,
    /// Its number in the section table; 0 if it is no section.
    pub index: usize,
    /// Whether it is code.
    pub code: bool,
    /// Whether it is loaded.
    pub loaded: bool,
}

/// A range of the file, and the row of `Layout::sections` that it belongs to.
pub(crate) type Region = (Range<u64>, usize);

/// The whole file.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub sections: Vec<Section>,
    /// In order, without gap or overlap, from 0 to the length of the file.
    pub regions: Vec<Region>,
    /// Memory that the file only reserves: zeros of `.bss`.
    pub zeros: u64,
    /// Whether it is an object file, whose addresses are not final.
    pub is_object: bool,
    /// Whether there is a table of sections.
    pub has_sections: bool,
}

impl Layout {
    pub(crate) fn of(bytes: &[u8]) -> Result<Self, SizeError> {
        let header = FileHeader64::<LittleEndian>::parse(bytes)?;
        let endian = header.endian()?;
        let len = bytes.len() as u64;
        let mut layout = Self { is_object: header.e_type(ENDIAN) == elf::ET_REL, ..Self::default() };
        let mut claims: Vec<(Range<u64>, usize)> = Vec::new();
        let headers = [
            ("[ELF header]", 0, u64::from(header.e_ehsize(ENDIAN))),
            (
                "[program headers]",
                header.e_phoff(ENDIAN),
                u64::from(header.e_phentsize(ENDIAN)) * header.phnum(endian, bytes)? as u64,
            ),
            (
                "[section headers]",
                header.e_shoff(ENDIAN),
                u64::from(header.e_shentsize(ENDIAN)) * header.shnum(endian, bytes)? as u64,
            ),
        ];
        for (name, start, size) in headers {
            let file = within(name, start, size, len)?;
            if !file.is_empty() {
                let row = layout.other(name, Part::Headers, file.clone());
                claims.push((file, row));
            }
        }
        let table = header.sections(endian, bytes)?;
        for (index, section) in table.enumerate() {
            let kind = section.sh_type(ENDIAN);
            if kind == elf::SHT_NULL {
                continue;
            }
            let name =
                String::from_utf8_lossy(table.section_name(endian, section).unwrap_or(b"")).into_owned();
            let name = if name.is_empty() { format!("[section {}]", index.0) } else { name };
            let loaded = section.sh_flags(ENDIAN).contains(elf::SHF_ALLOC);
            let Some((start, size)) = section.file_range(ENDIAN) else {
                let is_tls = section.sh_flags(ENDIAN).contains(elf::SHF_TLS);
                if loaded && !is_tls {
                    layout.zeros = layout.zeros.saturating_add(section.sh_size(ENDIAN));
                }
                continue;
            };
            layout.has_sections = true;
            let file = within(&name, start, size, len)?;
            claims.push((file.clone(), layout.sections.len()));
            layout.sections.push(Section {
                part: part_of(&name, section),
                name,
                address: section.sh_addr(ENDIAN),
                file,
                index: index.0,
                code: section.sh_flags(ENDIAN).contains(elf::SHF_EXECINSTR),
                loaded,
            });
        }
        for (number, segment) in header.program_headers(endian, bytes)?.iter().enumerate() {
            if segment.p_type(ENDIAN) != elf::PT_LOAD {
                continue;
            }
            let name = format!("[segment {}]", number + 1);
            let file = within(&name, segment.p_offset(ENDIAN), segment.p_filesz(ENDIAN), len)?;
            if layout.has_sections || file.is_empty() {
                continue;
            }
            let flags = segment.p_flags(ENDIAN);
            let code = flags.contains(elf::PF_X);
            let part = match (code, flags.contains(elf::PF_W)) {
                (true, _) => Part::Code,
                (_, true) => Part::Data,
                _ => Part::ReadOnly,
            };
            claims.push((file.clone(), layout.sections.len()));
            let address = segment.p_vaddr(ENDIAN);
            layout.sections.push(Section { name, part, address, file, index: 0, code, loaded: true });
        }
        claims.sort_by_key(|(file, _)| (file.start, file.end));
        let padding = layout.other("[padding between sections]", Part::Padding, 0..0);
        let unknown = layout.other("[no header]", Part::Undescribed, 0..0);
        layout.regions = partition(0..len, claims, |gap| {
            let zeros = bytes[gap.start as usize..gap.end as usize].iter().all(|byte| *byte == 0);
            if zeros { padding } else { unknown }
        });
        Ok(layout)
    }

    fn other(&mut self, name: &str, part: Part, file: Range<u64>) -> usize {
        let name = name.to_owned();
        let section = Section { name, part, address: 0, file, index: 0, code: false, loaded: false };
        self.sections.push(section);
        self.sections.len() - 1
    }
}

/// A range that must be in the file.
fn within(name: &str, start: u64, size: u64, len: u64) -> Result<Range<u64>, SizeError> {
    if size == 0 {
        return Ok(0..0);
    }
    match start.checked_add(size) {
        Some(end) if end <= len => Ok(start..end),
        _ => Err(SizeError::CutOff { what: name.to_owned(), end: u128::from(start) + u128::from(size), len }),
    }
}

fn part_of(name: &str, section: &SectionHeader64<LittleEndian>) -> Part {
    const DEBUG: [&str; 7] =
        [".debug", ".zdebug", ".gdb_index", ".gnu_debugdata", ".gnu_debuglink", ".gnu_debugaltlink", ".stab"];
    const UNWIND: [&str; 3] = [".eh_frame", ".gcc_except_table", ".ARM.ex"];
    let flags = section.sh_flags(ENDIAN);
    let (loaded, writable) = (flags.contains(elf::SHF_ALLOC), flags.contains(elf::SHF_WRITE));
    let starts = |names: &[&str]| names.iter().any(|start| name.starts_with(start));
    match section.sh_type(ENDIAN) {
        _ if !loaded && starts(&DEBUG) => Part::Debug,
        _ if flags.contains(elf::SHF_EXECINSTR) => Part::Code,
        elf::SHT_REL | elf::SHT_RELA | elf::SHT_RELR => Part::Relocations,
        _ if starts(&UNWIND) => Part::Unwind,
        elf::SHT_SYMTAB | elf::SHT_SYMTAB_SHNDX => Part::Symbols,
        elf::SHT_STRTAB if !loaded && name != ".shstrtab" => Part::Symbols,
        elf::SHT_DYNSYM
        | elf::SHT_DYNAMIC
        | elf::SHT_HASH
        | elf::SHT_GNU_HASH
        | elf::SHT_GNU_VERSYM
        | elf::SHT_GNU_VERNEED
        | elf::SHT_GNU_VERDEF
        | elf::SHT_STRTAB
            if loaded =>
        {
            Part::Dynamic
        }
        elf::SHT_NOTE => Part::Headers,
        _ if name == ".interp" => Part::Dynamic,
        _ if loaded && writable => Part::Data,
        _ if loaded => Part::ReadOnly,
        _ => Part::Headers,
    }
}
