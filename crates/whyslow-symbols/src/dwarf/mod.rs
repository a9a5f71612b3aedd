//! Debug info: finds the units that own the wanted addresses and searches them in parallel.
//!
//! Unlike a general symboliser, this one knows all addresses beforehand. It reads each unit once, from front
//! to back, keeps only what covers a wanted address, and never opens units without a wanted address.

mod index;
mod inlined;
mod lines;
mod names;
mod paths;
mod statements;
mod unit;

use std::borrow::Cow;
use std::path::Path;

use rayon::prelude::*;

use crate::answers::{Answers, RawFrame, RawFunction};
use crate::optimised::Evidence;
use crate::symtab::Symbols;
use whyslow_elf::Elf;
use whyslow_numbers::FileAddress;

pub(crate) use index::Units;
pub(crate) use inlined::InlinedCall;
pub(crate) use lines::files_of_code;

/// The reader for all DWARF here: ELF files of the supported machines are little-endian.
pub(crate) type Slice<'a> = gimli::EndianSlice<'a, gimli::LittleEndian>;
/// Sections of one file.
pub(crate) type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;
/// A unit of debug information.
pub(crate) type Unit<'a> = gimli::Unit<Slice<'a>>;
/// Bytes of the sections of one file, decompressed where needed.
pub(crate) type Sections<'a> = gimli::DwarfSections<Cow<'a, [u8]>>;

/// Reads the sections of a file that symbolising needs.
pub(crate) fn sections<'a>(elf: &Elf<'a>) -> Sections<'a> {
    load(elf, |id| Some(id.name()))
}

/// Reads the sections of a `.dwo` file.
pub(crate) fn dwo_sections<'a>(elf: &Elf<'a>) -> Sections<'a> {
    load(elf, gimli::SectionId::dwo_name)
}

fn load<'a>(elf: &Elf<'a>, name: impl Fn(gimli::SectionId) -> Option<&'static str>) -> Sections<'a> {
    use gimli::SectionId as Id;
    const NEEDED: [Id; 10] = [
        Id::DebugInfo,
        Id::DebugStr,
        Id::DebugLine,
        Id::DebugRanges,
        Id::DebugRngLists,
        Id::DebugAranges,
        Id::DebugAbbrev,
        Id::DebugAddr,
        Id::DebugLineStr,
        Id::DebugStrOffsets,
    ];
    let names: Vec<_> = NEEDED.iter().filter_map(|&id| Some((id, name(id)?))).collect();
    let mut loaded: Vec<_> = names.par_iter().map(|&(id, name)| (id, elf.section(name))).collect();
    let sections = Sections::load(|id| {
        let row = loaded.iter_mut().find(|(loaded, _)| *loaded == id);
        Ok::<_, std::convert::Infallible>(
            row.map_or(Cow::Borrowed(&[][..]), |(_, bytes)| std::mem::take(bytes)),
        )
    });
    match sections {
        Ok(sections) => sections,
        Err(never) => match never {},
    }
}

/// Sections as gimli expects them.
pub(crate) fn borrow<'a>(sections: &'a Sections<'_>) -> Dwarf<'a> {
    sections.borrow(|bytes| slice(bytes))
}

/// Bytes as gimli expects them.
pub(crate) fn slice(bytes: &[u8]) -> Slice<'_> {
    Slice::new(bytes, gimli::LittleEndian)
}

/// All debug info of one module.
pub(crate) struct DebugInfo<'a> {
    /// The units of the file.
    pub units: Units<'a>,
    /// The units of its supplementary file.
    pub supplementary: Option<Units<'a>>,
    /// The package of its split units.
    pub package: Option<gimli::DwarfPackage<Slice<'a>>>,
    /// Names for functions that debug info does not name.
    pub symbols: &'a Symbols<'a>,
    /// The module's file: split units are searched next to it.
    pub path: &'a Path,
}

/// The results of one unit, or of all.
#[derive(Default)]
pub(crate) struct Found {
    /// Addresses with at least one function.
    pub answers: Answers<FileAddress>,
    /// Addresses with a line but no function: address, file, line.
    pub lines: Vec<(u64, Option<String>, u32)>,
    /// The units' evidence about optimisation.
    pub evidence: Evidence,
    /// Split units that could not be found.
    pub missing_units: usize,
}

impl DebugInfo<'_> {
    /// Resolves sorted, distinct addresses.
    pub(crate) fn resolve(&self, addresses: &[FileAddress]) -> Found {
        let addresses: Vec<u64> = addresses.iter().map(|address| address.0).collect();
        let questions = self.units.questions(&addresses);
        let parts: Vec<Found> =
            questions.into_par_iter().map(|(unit, wanted)| unit::resolve(self, unit, &wanted)).collect();
        let mut seen = rustc_hash::FxHashSet::default();
        let mut all = Found::default();
        for part in &parts {
            all.answers.absorb(&part.answers, |site| seen.insert(site.address));
            all.evidence.add(&part.evidence);
            all.missing_units += part.missing_units;
        }
        for (address, file, line) in parts.into_iter().flat_map(|part| part.lines) {
            let address = FileAddress(address);
            let Some(symbol) = self.symbols.find(address) else { continue };
            if seen.insert(address) {
                let answers = &mut all.answers;
                let name = answers.text_id(symbol.name);
                let file = file.map(|file| answers.text_id(&file));
                let function = answers.function_id(RawFunction { name, file, line: 0, form: None });
                answers.add(address, (symbol.start, symbol.end), &[RawFrame { function, file, line }]);
            }
        }
        all
    }
}
