//! The symbol table of a file.

use std::path::Path;

use object::{Object, ObjectSymbol, SymbolKind};
use whyslow_elf::ElfFile;

/// Functions by address, relative to where the file begins in memory.
#[derive(Debug, Default)]
pub(crate) struct Names {
    rows: Vec<(u64, u64, String)>,
}

impl Names {
    /// Reads a file's symbols. Empty if it cannot be read.
    pub(crate) fn of_file(path: &Path) -> Self {
        Self::read(path).unwrap_or_default()
    }

    fn read(path: &Path) -> Option<Self> {
        let file = ElfFile::open(path).ok()?;
        let elf = file.parse().ok()?;
        let base = elf.image_base();
        let mut rows: Vec<_> = elf
            .object()
            .symbols()
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
            .filter_map(|symbol| {
                let start = symbol.address().checked_sub(base.0.0)?;
                Some((start, start + symbol.size(), symbol.name().ok()?.to_owned()))
            })
            .collect();
        rows.sort_unstable();
        Some(Self { rows })
    }

    /// The function at a relative address.
    pub(crate) fn at(&self, address: u64) -> Option<String> {
        let before = self.rows.partition_point(|(start, ..)| *start <= address).checked_sub(1)?;
        let (_, end, name) = &self.rows[before];
        (address < *end).then(|| format!("{:#}", rustc_demangle::demangle(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules;

    #[test]
    fn finds_the_full_name_of_a_function() {
        let modules = modules::all();
        let program = modules.iter().find(|module| module.kind == modules::Kind::Program).unwrap();
        let names = Names::of_file(Path::new(&program.path));
        let here = finds_the_full_name_of_a_function as *const () as u64 - program.base;
        let name = names.at(here + 1).unwrap();
        std::assert_eq!(name, "whyslow_alloc::names::tests::finds_the_full_name_of_a_function");
        std::assert_eq!(names.at(u64::MAX), None);
        std::assert_eq!(Names::of_file(Path::new("/nothing/here")).at(here), None);
    }
}
