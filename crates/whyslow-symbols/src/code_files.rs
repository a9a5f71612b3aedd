//! The source file of every byte of code, from line tables.

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use whyslow_elf::Elf;

use crate::dwarf;

/// The ranges of code that line tables describe: sorted, without overlap.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct CodeFiles {
    /// The paths of the source files.
    pub files: Vec<String>,
    /// First address, end, and row in `files`.
    pub ranges: Vec<(u64, u64, u32)>,
}

/// The source files of the code of a program or of its separate debug file; empty without line tables. A damaged
/// line table ends the ranges of its unit.
pub fn code_files(elf: &Elf<'_>) -> CodeFiles {
    if !elf.has_debug_info() {
        return CodeFiles::default();
    }
    let sections = dwarf::sections(elf);
    let dwarf = dwarf::borrow(&sections);
    let units = dwarf::Units::read(&dwarf);
    let rows = units.rows_with_code();
    let found: Vec<Vec<(u64, u64, String)>> = rows
        .into_par_iter()
        .filter_map(|row| units.get(row).map(|unit| dwarf::files_of_code(units.dwarf, unit)))
        .collect();
    let mut all = CodeFiles::default();
    let mut numbers: FxHashMap<String, u32> = FxHashMap::default();
    for (start, end, file) in found.into_iter().flatten() {
        let next = all.files.len() as u32;
        let number = *numbers.entry(file).or_insert_with_key(|file| {
            all.files.push(file.clone());
            next
        });
        all.ranges.push((start, end, number));
    }
    all.ranges.sort_unstable();
    let mut covered = 0;
    for range in &mut all.ranges {
        range.0 = range.0.max(covered);
        covered = covered.max(range.1);
    }
    all.ranges.retain(|(start, end, _)| start < end);
    all
}

#[cfg(test)]
mod tests {
    use whyslow_elf::ElfFile;

    use super::*;

    #[test]
    fn code_of_this_file_is_found_and_ranges_do_not_overlap() {
        let file = ElfFile::open(&std::env::current_exe().unwrap()).unwrap();
        let found = code_files(&file.parse().unwrap());
        let here = found.files.iter().position(|file| file.ends_with("whyslow-symbols/src/code_files.rs"));
        let here = here.expect("this file has code") as u32;
        assert!(found.ranges.iter().any(|range| range.2 == here));
        assert!(found.ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }

    #[test]
    fn a_file_without_line_tables_has_none() {
        let file = whyslow_elf::testing::Built::default().load(0x1000, &[0x90; 16]).bytes();
        assert_eq!(code_files(&Elf::parse(&file).unwrap()), CodeFiles::default());
    }
}
