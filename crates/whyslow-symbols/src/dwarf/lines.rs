//! Line tables: the file and line of each wanted address.

use super::Unit;

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
