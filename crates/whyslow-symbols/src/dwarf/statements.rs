//! Line tables: the code of a file's lines.

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::paths::file_path;
use super::{DebugInfo, Dwarf, Unit};

/// A row of a line table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    /// Its file.
    pub file: String,
    /// Its line, not 0.
    pub line: u32,
    /// Where its code starts.
    pub address: u64,
    /// Whether a debugger would stop here.
    pub is_start: bool,
}

impl DebugInfo<'_> {
    /// The rows with code of all files whose path is `wanted`.
    pub(crate) fn statements(&self, wanted: impl Fn(&str) -> bool + Sync) -> Vec<Statement> {
        let rows = self.units.rows_with_code();
        let of_unit = |row: usize| {
            let mut found = Vec::new();
            if let Some(unit) = self.units.get(row) {
                statements(self.units.dwarf, unit, &wanted, &mut found);
            }
            found
        };
        rows.into_par_iter().flat_map_iter(of_unit).collect()
    }
}

fn statements(dwarf: &Dwarf<'_>, unit: &Unit<'_>, wanted: impl Fn(&str) -> bool, found: &mut Vec<Statement>) {
    let Some(program) = unit.line_program.clone() else { return };
    let mut files: FxHashMap<u64, Option<String>> = FxHashMap::default();
    let mut rows = program.rows();
    let mut previous: Option<Statement> = None;
    // A damaged program ends here; earlier results remain valid.
    while let Ok(Some((_, row))) = rows.next_row() {
        // The row before describes the bytes from its address up to this one.
        found.extend(previous.take().filter(|before| before.address < row.address()));
        let line = row.line().and_then(|line| u32::try_from(line.get()).ok());
        let (Some(line), false) = (line, row.end_sequence()) else { continue };
        let index = row.file_index();
        let file =
            files.entry(index).or_insert_with(|| file_path(dwarf, unit, index).filter(|path| wanted(path)));
        previous = file.as_ref().map(|file| Statement {
            file: file.clone(),
            line,
            address: row.address(),
            is_start: row.is_stmt(),
        });
    }
}
