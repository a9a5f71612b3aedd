//! Gives every byte of a file its owner.

use std::ops::Range;
use std::path::Path;

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use whyslow_analyze::size::{Alike, LongText};
use whyslow_elf::{Elf, ElfError};
use whyslow_profile::Profile;
use whyslow_profile::size::Part;
use whyslow_symbols::{CodeFiles, code_files};

use crate::layout::{Layout, Section};
use crate::owners::{Owner, OwnerId, Owners};
use crate::partition::partition;
use crate::symbols::{Map, Symbols, divide, map};
use crate::unwind::Entry;
use crate::{SizeError, alike, check_kind, profile, relocations, strings, unwind};

/// The space in a file.
#[derive(Debug)]
pub struct Measured {
    /// One sample per part, section, function and source file; they add up to the file's size.
    pub profile: Profile,
    /// Functions with the same machine code, those that waste most first.
    pub alike: Vec<Alike>,
    /// The longest texts in read-only data, longest first.
    pub texts: Vec<LongText>,
    /// Memory that the file only reserves: zeros of `.bss`.
    pub zeros: u64,
    /// Whether functions have names; a stripped file has only those for the dynamic linker.
    pub has_names: bool,
    /// Whether code has source files.
    pub has_lines: bool,
}

/// A range of the file with one owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Offsets in the file.
    pub file: Range<u64>,
    /// The row of `Layout::sections`.
    pub section: usize,
    pub owner: OwnerId,
    /// The row of the source file, for code with line tables.
    pub source: Option<u32>,
}

/// What the pieces refer to.
#[derive(Debug)]
pub(crate) struct Pieces<'a> {
    pub layout: Layout,
    pub owners: Owners<'a>,
    /// In order, without gap or overlap.
    pub rows: Vec<Piece>,
    pub sources: CodeFiles,
}

/// Measures a file by its bytes; `path` is its name. Names and lines that it lacks come from its separate debug file.
pub fn measure(path: &Path, bytes: &[u8], debug: Option<&[u8]>) -> Result<Measured, SizeError> {
    check_kind(bytes)?;
    let layout = Layout::of(bytes)?;
    let elf = Elf::parse(bytes).map_err(|error| match error {
        ElfError::Format(error) => SizeError::Damaged(error),
        ElfError::Io(_) => SizeError::NotElf,
    })?;
    let debug = debug.and_then(|bytes| Elf::parse(bytes).ok());
    let (symbols, sources) =
        rayon::join(|| Symbols::read(&layout, &elf, debug.as_ref()), || lines(&layout, &elf, debug.as_ref()));
    let has_names = symbols.full;
    let pieces = pieces(layout, bytes, &symbols, sources);
    let alike = alike::functions(&pieces, &symbols, bytes);
    let texts = strings::longest(&pieces, bytes);
    Ok(Measured {
        profile: profile::of(path, &elf, &pieces, bytes.len() as u64),
        alike,
        texts,
        zeros: pieces.layout.zeros,
        has_names,
        has_lines: !pieces.sources.files.is_empty(),
    })
}

/// The line tables of the file, or of its debug file. Those of object files have no addresses yet.
fn lines(layout: &Layout, elf: &Elf<'_>, debug: Option<&Elf<'_>>) -> CodeFiles {
    if layout.is_object {
        return CodeFiles::default();
    }
    let own = code_files(elf);
    match debug {
        Some(debug) if own.files.is_empty() => code_files(debug),
        _ => own,
    }
}

pub(crate) fn pieces<'a>(
    layout: Layout,
    bytes: &[u8],
    symbols: &Symbols<'a>,
    sources: CodeFiles,
) -> Pieces<'a> {
    let mut owners = Owners::default();
    let entries = unwind::entries(&layout, bytes);
    let mut unnamed: Vec<Range<u64>> = entries.iter().map(|entry| entry.code.clone()).collect();
    unnamed.sort_by_key(|range| (range.start, range.end));

    let mut rows: Vec<Piece> = Vec::new();
    let mut named = Vec::new();
    for (region, row) in &layout.regions {
        let section = &layout.sections[*row];
        if !is_divided(section) {
            continue;
        }
        let parts = divide(section, region, bytes, &symbols.of_section[*row], &unnamed, &mut owners);
        for (range, owner) in parts {
            let file = in_file(section, &range);
            if section.code {
                split_by_source(&sources, section, *row, &range, owner, &mut rows);
            } else {
                rows.push(Piece { file, section: *row, owner, source: None });
            }
            named.push((range, owner));
        }
    }
    let map = if layout.is_object { Map::default() } else { map(named, &owners) };
    for (region, row) in &layout.regions {
        let section = &layout.sections[*row];
        if is_divided(section) {
            continue;
        }
        let claims = charged(section, bytes, &entries, &map);
        let nobody = owners.id(Owner::Nobody(""));
        for (file, owner) in partition(region.clone(), claims, |_| nobody) {
            rows.push(Piece { file, section: *row, owner, source: None });
        }
    }
    rows.par_sort_unstable_by_key(|piece| piece.file.start);
    Pieces { layout, owners, rows, sources }
}

/// Whether symbols say what is in a section.
fn is_divided(section: &Section) -> bool {
    matches!(section.part, Part::Code | Part::ReadOnly | Part::Data)
}

/// The parts of unwind and relocation tables that belong to a function or variable.
fn charged(section: &Section, bytes: &[u8], entries: &[Entry], map: &Map) -> Vec<(Range<u64>, OwnerId)> {
    match section.part {
        Part::Unwind => {
            let claims = unwind::claims(section, bytes, entries);
            claims.into_iter().filter_map(|(range, code)| Some((range, map.owner(code)?))).collect()
        }
        Part::Relocations => relocations::claims(section, bytes, map),
        _ => Vec::new(),
    }
}

fn in_file(section: &Section, addresses: &Range<u64>) -> Range<u64> {
    let offset = |address: u64| address - section.address + section.file.start;
    offset(addresses.start)..offset(addresses.end)
}

/// Divides code among the source files that it comes from, also those that it was inlined from.
fn split_by_source(
    sources: &CodeFiles,
    section: &Section,
    row: usize,
    addresses: &Range<u64>,
    owner: OwnerId,
    rows: &mut Vec<Piece>,
) {
    let first = sources.ranges.partition_point(|(_, end, _)| *end <= addresses.start);
    let claims = sources.ranges[first..]
        .iter()
        .take_while(|(start, ..)| *start < addresses.end)
        .map(|(start, end, file)| (*start..*end, Some(*file)));
    for (range, source) in partition(addresses.clone(), claims, |_| None) {
        rows.push(Piece { file: in_file(section, &range), section: row, owner, source });
    }
}

/// The bytes of each section, owner and source file.
pub(crate) fn sums(pieces: &Pieces<'_>) -> FxHashMap<(usize, OwnerId, Option<u32>), u64> {
    let mut sums = FxHashMap::default();
    for piece in &pieces.rows {
        *sums.entry((piece.section, piece.owner, piece.source)).or_insert(0) +=
            piece.file.end - piece.file.start;
    }
    sums
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use proptest::prelude::*;
    use whyslow_analyze::size::Sizes;
    use whyslow_elf::FileBytes;
    use whyslow_elf::testing::{Built, note};

    use super::*;

    fn own() -> &'static (FileBytes, Measured, Sizes) {
        static OWN: OnceLock<(FileBytes, Measured, Sizes)> = OnceLock::new();
        OWN.get_or_init(|| {
            let path = std::env::current_exe().unwrap();
            let bytes = FileBytes::open(&path).unwrap();
            let measured = measure(&path, &bytes, None).unwrap();
            let sizes = Sizes::of(&measured.profile).unwrap();
            (bytes, measured, sizes)
        })
    }

    fn sum(measured: &Measured) -> u64 {
        measured.profile.samples[0].value.iter().sum()
    }

    #[test]
    fn every_table_adds_up_to_the_file() {
        let (bytes, measured, sizes) = own();
        let len = bytes.len() as u64;
        assert_eq!((sum(measured), sizes.total), (len, len));
        for rows in [&sizes.parts, &sizes.sections, &sizes.groups] {
            assert_eq!(rows.iter().map(|row| row.bytes.total()).sum::<u64>(), len);
        }
    }

    #[test]
    fn pieces_are_the_file_from_front_to_back() {
        let (bytes, ..) = own();
        let elf = Elf::parse(bytes).unwrap();
        let layout = Layout::of(bytes).unwrap();
        let symbols = Symbols::read(&layout, &elf, None);
        let pieces = pieces(layout, bytes, &symbols, code_files(&elf));
        let mut at = 0;
        for piece in &pieces.rows {
            assert!(piece.file.start == at && piece.file.end > at, "{piece:?} after {at:#x}");
            at = piece.file.end;
        }
        assert_eq!(at, bytes.len() as u64);
    }

    #[inline(never)]
    fn instance<T: std::fmt::Debug>(value: &T) -> String {
        format!("{value:?} has an unmistakable name")
    }

    #[test]
    fn instances_of_a_generic_function_are_one_row_with_their_unwind_tables() {
        assert_ne!(instance(&1_u8), instance(&"text"));
        let (_, measured, sizes) = own();
        assert!(measured.has_names && measured.has_lines);
        let row = sizes.functions.iter().find(|row| row.name.ends_with("measure::tests::instance")).unwrap();
        assert_eq!((row.instances, row.group.as_str()), (2, "whyslow_size"));
        assert!(row.bytes.code > 20 && row.bytes.unwind > 40, "{row:?}");
        assert!(sizes.files.iter().any(|row| row.name.ends_with("whyslow-size/src/measure.rs")));
    }

    #[test]
    fn a_file_without_sections_is_told_by_its_segments() {
        let file = Built::default().load(0x1000, &[7; 100]).notes(&note(b"GNU\0", 3, &[1; 20])).bytes();
        let measured = measure(Path::new("a"), &file, None).unwrap();
        assert_eq!(sum(&measured), file.len() as u64);
    }

    #[test]
    fn other_files_and_cut_off_files_are_errors() {
        let error = |bytes: &[u8]| measure(Path::new("a"), bytes, None).unwrap_err().to_string();
        assert_eq!(error(b""), "not an ELF file");
        assert_eq!(error(b"#!/bin/sh\n"), "not an ELF file");
        assert!(error(b"\x7fELF\x01\x01").contains("32-bit"));
        assert!(error(b"\x7fELF\x02\x02").contains("big-endian"));
        let (bytes, ..) = own();
        assert!(error(&bytes[..bytes.len() / 2]).starts_with("cut off or damaged: "));
        assert!(error(&bytes[..40]).starts_with("a damaged ELF file: "));
    }

    proptest! {
        #[test]
        fn damaged_files_add_up_or_are_errors(damage: Vec<(u16, u8)>, len in 0usize..500) {
            let mut file = Built::default().load(0x1000, &[7; 100]).notes(&note(b"GNU\0", 3, &[1; 20])).bytes();
            for (at, value) in damage {
                let at = usize::from(at) % file.len();
                file[at] = value;
            }
            file.truncate(file.len().saturating_sub(len / 10));
            if let Ok(measured) = measure(Path::new("a"), &file, None) {
                prop_assert_eq!(sum(&measured), file.len() as u64);
            }
        }
    }
}
