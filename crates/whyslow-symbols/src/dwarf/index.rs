//! Maps addresses to units.

use std::sync::OnceLock;

use gimli::{Reader, Section, UnitType};
use rayon::prelude::*;

use super::unit::Ranges;
use super::{Dwarf, Slice, Unit};

/// Maximum number of overlapping units to search for one address.
const CANDIDATES: usize = 4;

/// A unit that is opened on demand.
struct Slot<'a> {
    header: gimli::UnitHeader<Slice<'a>>,
    offset: usize,
    unit: OnceLock<Option<Unit<'a>>>,
}

/// The units of one file.
pub(crate) struct Units<'a> {
    /// Its sections.
    pub dwarf: &'a Dwarf<'a>,
    slots: Vec<Slot<'a>>,
}

impl<'a> Units<'a> {
    /// Reads the headers; a damaged one ends the list.
    pub(crate) fn read(dwarf: &'a Dwarf<'a>) -> Self {
        let mut slots = Vec::new();
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            if let Some(offset) = header.debug_info_offset() {
                slots.push(Slot { header, offset: offset.0, unit: OnceLock::new() });
            }
        }
        Self { dwarf, slots }
    }

    /// Whether there is no unit.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// A unit by row.
    pub(crate) fn get(&self, row: usize) -> Option<&Unit<'a>> {
        let slot = self.slots.get(row)?;
        slot.unit.get_or_init(|| self.dwarf.unit(slot.header).ok()).as_ref()
    }

    /// The units that may have code: all except those that declare none.
    pub(crate) fn rows_with_code(&self) -> Vec<usize> {
        (0..self.slots.len()).filter(|&row| self.declares_code(row).unwrap_or(true)).collect()
    }

    /// The unit that contains an entry, and the entry's offset in it.
    pub(crate) fn holding(
        &self,
        offset: gimli::DebugInfoOffset<usize>,
    ) -> Option<(&Unit<'a>, gimli::UnitOffset<usize>)> {
        let row = self.slots.partition_point(|slot| slot.offset <= offset.0).checked_sub(1)?;
        let unit = self.get(row)?;
        Some((unit, offset.to_unit_offset(&unit.header)?))
    }

    /// For each unit that may cover some of the sorted addresses: its row and those addresses.
    pub(crate) fn questions(&self, addresses: &[u64]) -> Vec<(usize, Vec<u64>)> {
        let mut asked =
            Asked { addresses, times: vec![0; addresses.len()], units: vec![Vec::new(); self.slots.len()] };
        let mut indexed = vec![false; self.slots.len()];
        self.ask_by_aranges(&mut asked, &mut indexed);
        if asked.times.contains(&0) {
            // Some compilers write no .debug_aranges, or not for every unit.
            let any_indexed = indexed.contains(&true);
            let may_have_code =
                |&row: &usize| !indexed[row] && (!any_indexed || self.declares_code(row).unwrap_or(true));
            let others: Vec<usize> = (0..self.slots.len()).filter(may_have_code).collect();
            let ranges: Vec<(usize, Vec<gimli::Range>)> =
                others.into_par_iter().map(|row| (row, self.root_ranges(row))).collect();
            for (row, ranges) in ranges {
                ranges.into_iter().for_each(|range| asked.ask(row, range));
            }
        }
        let mut questions: Vec<_> =
            asked.units.into_iter().enumerate().filter(|(_, wanted)| !wanted.is_empty()).collect();
        for (_, wanted) in &mut questions {
            wanted.sort_unstable();
            wanted.dedup();
        }
        questions
    }

    fn ask_by_aranges(&self, asked: &mut Asked<'_>, indexed: &mut [bool]) {
        let mut headers = self.dwarf.debug_aranges.headers();
        while let Ok(Some(header)) = headers.next() {
            let offset = header.debug_info_offset().0;
            let Ok(row) = self.slots.binary_search_by_key(&offset, |slot| slot.offset) else { continue };
            let mut entries = header.entries();
            // An entry with an overflowing range is an error that can be skipped; others end the list.
            while let Some(entry) = entries.next().transpose() {
                let Ok(entry) = entry else { continue };
                if entry.length() > 0 {
                    indexed[row] = true;
                    asked.ask(row, entry.range());
                }
            }
        }
    }

    /// Whether a unit's root entry has an attribute for addresses. Reads only the start of the unit's list of
    /// abbreviations: most units of a Rust program have no code, and parsing all their lists would take
    /// longer than everything else.
    fn declares_code(&self, row: usize) -> Option<bool> {
        let header = &self.slots[row].header;
        let root = header.range_from(header.root_offset()..).ok()?.read_uleb128().ok()?;
        let mut list = *self.dwarf.debug_abbrev.reader();
        list.skip(header.debug_abbrev_offset().0).ok()?;
        // The root's abbreviation is the first one, or nearly so.
        for _ in 0..4 {
            let code = list.read_uleb128().ok()?;
            let _tag = list.read_uleb128().ok()?;
            let _children = list.read_u8().ok()?;
            let mut has_addresses = false;
            loop {
                let name = list.read_uleb128().ok()?;
                let form = list.read_uleb128().ok()?;
                if form == u64::from(gimli::DW_FORM_implicit_const.0) {
                    list.read_sleb128().ok()?;
                }
                if name == 0 && form == 0 {
                    break;
                }
                let addresses = [
                    gimli::DW_AT_low_pc,
                    gimli::DW_AT_ranges,
                    gimli::DW_AT_dwo_name,
                    gimli::DW_AT_GNU_dwo_name,
                ];
                has_addresses |= addresses.iter().any(|at| u64::from(at.0) == name);
            }
            if code == root {
                return Some(has_addresses);
            }
        }
        None
    }

    /// The ranges that a unit's root entry declares, else those of its line table.
    fn root_ranges(&self, row: usize) -> Vec<gimli::Range> {
        let mut found = Vec::new();
        if !matches!(self.slots[row].header.type_(), UnitType::Compilation | UnitType::Skeleton(_)) {
            return found;
        }
        let Some(unit) = self.get(row) else { return found };
        let unit_ref = unit.unit_ref(self.dwarf);
        let root = || {
            let mut entries = unit.entries_raw(None)?;
            let mut ranges = Ranges::default();
            if let Some(abbreviation) = entries.read_abbreviation()? {
                for &spec in abbreviation.attributes() {
                    ranges.attribute(unit_ref, &entries.read_attribute(spec)?);
                }
            }
            Ok::<_, gimli::Error>(ranges)
        };
        if let Ok(ranges) = root() {
            ranges.each(unit_ref, |range| found.push(range));
        }
        if found.is_empty() {
            super::lines::sequences(unit, |range| found.push(range));
        }
        found
    }
}

struct Asked<'q> {
    addresses: &'q [u64],
    times: Vec<usize>,
    units: Vec<Vec<u64>>,
}

impl Asked<'_> {
    fn ask(&mut self, row: usize, range: gimli::Range) {
        let first = self.addresses.partition_point(|&address| address < range.begin);
        for (times, &address) in self.times[first..].iter_mut().zip(&self.addresses[first..]) {
            if address >= range.end {
                break;
            }
            if *times < CANDIDATES {
                *times += 1;
                self.units[row].push(address);
            }
        }
    }
}
