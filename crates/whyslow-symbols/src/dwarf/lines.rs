//! Line tables: the file and line of each wanted address.

use rustc_hash::FxHashMap;

use super::{Dwarf, Unit};

/// The file (an index of the unit's table) and line of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line {
    /// Index in the unit's list of files.
    pub file: u64,
    /// The line, 0 for code without one.
    pub line: u32,
}

/// The line of each of the sorted addresses. Runs the unit's line program once and stores nothing else.
pub(crate) fn lines_of(unit: &Unit<'_>, wanted: &[u64]) -> Vec<Option<Line>> {
    let mut found = vec![None; wanted.len()];
    let Some(program) = unit.line_program.clone() else { return found };
    let mut rows = program.rows();
    let mut previous: Option<(u64, Line)> = None;
    // A damaged program ends here; earlier results remain valid.
    while let Ok(Some((_, row))) = rows.next_row() {
        let address = row.address();
        if let Some((start, line)) = previous {
            // The row before describes the bytes from its address up to this one.
            if start < address {
                let first = wanted.partition_point(|&wanted| wanted < start);
                for (slot, &wanted) in found[first..].iter_mut().zip(&wanted[first..]) {
                    if wanted >= address {
                        break;
                    }
                    slot.get_or_insert(line);
                }
            }
        }
        previous = (!row.end_sequence()).then(|| {
            let line = row.line().map_or(0, |line| u32::try_from(line.get()).unwrap_or(0));
            (address, Line { file: row.file_index(), line })
        });
    }
    found
}

/// The address ranges that a unit's line table covers.
pub(crate) fn sequences(unit: &Unit<'_>, mut each: impl FnMut(gimli::Range)) {
    let Some(program) = unit.line_program.clone() else { return };
    let mut rows = program.rows();
    let mut begin = None;
    while let Ok(Some((_, row))) = rows.next_row() {
        let start = *begin.get_or_insert(row.address());
        if row.end_sequence() {
            if start < row.address() {
                each(gimli::Range { begin: start, end: row.address() });
            }
            begin = None;
        }
    }
}

/// The ranges of code of each file of a unit: first address, end, path. Neighbouring rows of one file are one range.
pub(crate) fn files_of_code(dwarf: &Dwarf<'_>, unit: &Unit<'_>) -> Vec<(u64, u64, String)> {
    let mut ranges: Vec<(u64, u64, u64)> = Vec::new();
    let Some(program) = unit.line_program.clone() else { return Vec::new() };
    let mut rows = program.rows();
    let mut previous: Option<(u64, u64)> = None;
    while let Ok(Some((_, row))) = rows.next_row() {
        let address = row.address();
        if let Some((start, file)) = previous.filter(|(start, _)| *start < address) {
            match ranges.last_mut() {
                Some((_, end, last)) if *end == start && *last == file => *end = address,
                _ => ranges.push((start, address, file)),
            }
        }
        // Of several rows at one address, the last one counts.
        previous = (!row.end_sequence()).then(|| (address, row.file_index()));
    }
    let mut paths: FxHashMap<u64, Option<String>> = FxHashMap::default();
    let mut named = |(start, end, file): (u64, u64, u64)| {
        let path = paths.entry(file).or_insert_with(|| super::paths::file_path(dwarf, unit, file));
        Some((start, end, path.clone()?))
    };
    // Code that the linker removed has addresses from 0 on, or at the end of the address space.
    ranges
        .into_iter()
        .filter(|(start, end, _)| *start > 0 && *end < u64::MAX - 1)
        .filter_map(&mut named)
        .collect()
}
