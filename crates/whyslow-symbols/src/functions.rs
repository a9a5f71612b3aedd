//! Searches functions of a file by a part of their name, in one pass over its symbols: large files have
//! hundreds of thousands.

use std::ops::Range;

use object::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, SymbolKind};
use whyslow_elf::{Elf, FileBytes};
use whyslow_names::{Fit, Wanted};
use whyslow_numbers::{FileAddress, RelativeAddress};

use crate::demangle::shown_name;
use crate::unnamed::Bounds;

/// A function of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FunctionSymbol {
    /// Its demangled name.
    pub name: String,
    /// Its first byte.
    pub start: RelativeAddress,
    /// Its size in bytes.
    pub size: u64,
}

/// The functions that fit this text in any way; all functions for an empty text. Sorted by name.
pub fn functions(elf: &Elf<'_>, debug: Option<&Elf<'_>>, wanted: &Wanted) -> Vec<FunctionSymbol> {
    // Demangling is the slow part, and mangled names contain nearly every word unchanged.
    let (word, is_certain) = wanted.longest_word();
    let lower = word.to_ascii_lowercase();
    let found = matching(elf, debug, wanted, |raw| raw.contains(word));
    if !found.is_empty() || word.is_empty() {
        return found;
    }
    if is_certain {
        return matching(elf, debug, wanted, |raw| raw.to_ascii_lowercase().contains(&lower));
    }
    matching(elf, debug, wanted, |_| true)
}

fn matching(
    elf: &Elf<'_>,
    debug: Option<&Elf<'_>>,
    wanted: &Wanted,
    may_be: impl Fn(&str) -> bool,
) -> Vec<FunctionSymbol> {
    let base = elf.image_base();
    let mut found = Vec::new();
    each_symbol(elf, debug, |raw, address, size| {
        if !may_be(raw) {
            return;
        }
        let name = shown_name(raw);
        if raw == wanted.text() || wanted.fit(&name).is_some() {
            found.push(FunctionSymbol { name, start: base.relative(address), size });
        }
    });
    for function in found.iter_mut().filter(|function| function.size == 0) {
        function.size = until_next(elf, base.file(function.start).0);
    }
    found.sort_unstable();
    found.dedup();
    // Keep one name per address: the first in the alphabet.
    let mut seen = rustc_hash::FxHashSet::default();
    found.retain(|function| function.size > 0 && seen.insert(function.start));
    found
}

/// The symbols of the functions that this text names, each with the demangled name: those that fit best. Sorted.
pub fn symbols_named(elf: &Elf<'_>, debug: Option<&Elf<'_>>, wanted: &Wanted) -> Vec<(String, String)> {
    let mut found: Vec<(Option<Fit>, String, String)> = Vec::new();
    each_symbol(elf, debug, |raw, _, _| {
        let name = shown_name(raw);
        if raw == wanted.text() {
            found.push((None, name, raw.to_owned()));
        } else if let Some(fit) = wanted.fit(&name) {
            found.push((Some(fit), name, raw.to_owned()));
        }
    });
    let class = |fit: &Option<Fit>| fit.map_or(0, |fit| 1 + fit.class());
    let Some(best) = found.iter().map(|(fit, ..)| class(fit)).min() else { return Vec::new() };
    let mut best: Vec<(String, String)> =
        found.into_iter().filter(|(fit, ..)| class(fit) == best).map(|(_, name, raw)| (name, raw)).collect();
    best.sort_unstable();
    best.dedup();
    best
}

/// Functions that a misspelt name may mean: those that contain one half of its last word.
pub fn similar_functions(elf: &Elf<'_>, debug: Option<&Elf<'_>>, wanted: &Wanted) -> Vec<String> {
    /// Demangling this many takes about 20 ms.
    const MOST: usize = 8192;
    let mut names = Vec::new();
    let Some((first, second)) = wanted.halves() else { return names };
    each_symbol(elf, debug, |raw, _, _| {
        if names.len() < MOST {
            let lower = raw.to_ascii_lowercase();
            if lower.contains(first) || lower.contains(second) {
                names.push(shown_name(raw));
            }
        }
    });
    names
}

/// Calls `each` with the linkage name, address and size of every function.
fn each_symbol(elf: &Elf<'_>, debug: Option<&Elf<'_>>, mut each: impl FnMut(&str, FileAddress, u64)) {
    for elf in std::iter::once(elf).chain(debug) {
        let tables = [elf.object().symbol_table(), elf.object().dynamic_symbol_table()];
        for symbol in tables.iter().flatten().flat_map(ObjectSymbolTable::symbols) {
            if symbol.kind() != SymbolKind::Text || !symbol.is_definition() {
                continue;
            }
            if let Some(raw) = symbol.name().ok().filter(|raw| !raw.is_empty()) {
                each(raw, FileAddress(symbol.address()), symbol.size());
            }
        }
    }
}

/// Bytes up to the next symbol or the end of the section.
fn until_next(elf: &Elf<'_>, start: u64) -> u64 {
    let tables = [elf.object().symbol_table(), elf.object().dynamic_symbol_table()];
    let starts = tables.iter().flatten().flat_map(ObjectSymbolTable::symbols).map(|symbol| symbol.address());
    let ends = elf
        .object()
        .sections()
        .filter(|section| start.checked_sub(section.address()).is_some_and(|into| into < section.size()));
    let ends = ends.map(|section| section.address().saturating_add(section.size()));
    starts.chain(ends).filter(|end| *end > start).min().map_or(0, |end| end - start)
}

/// The function around an address: from the file's symbols or, if those have no name for it, from its unwind
/// tables.
pub fn function_at(
    elf: &Elf<'_>,
    file: &FileBytes,
    address: RelativeAddress,
) -> Option<Range<RelativeAddress>> {
    let base = elf.image_base();
    let symbols = crate::symtab::Symbols::read(elf);
    if let Some(symbol) = symbols.find(base.checked_file(address)?) {
        return Some(base.relative_or_zero(symbol.start)..base.relative_or_zero(symbol.end));
    }
    Bounds::of(file).find(address)
}

#[cfg(test)]
mod tests {
    use whyslow_elf::ElfFile;

    use super::*;

    #[inline(never)]
    fn quite_unmistakable(number: u64) -> u64 {
        std::hint::black_box(number) * 3
    }

    #[test]
    fn functions_are_found_by_a_part_of_their_name() {
        assert_eq!(quite_unmistakable(1), 3);
        let file = ElfFile::open(&std::env::current_exe().unwrap()).unwrap();
        let elf = file.parse().unwrap();
        for part in [
            "quite_unmistakable",
            "functions::tests::quite_unmist",
            "QUITE_UNMISTAK",
            "whyslow_symbols::quite_unmistakable",
        ] {
            let found = functions(&elf, None, &Wanted::new(part));
            let [one] = &found[..] else { panic!("{part}: {found:?}") };
            assert!(one.name.ends_with("functions::tests::quite_unmistakable") && one.size > 0);
            let around = function_at(&elf, file.map(), one.start.plus(1));
            assert_eq!(around, Some(one.start..one.start.plus(one.size)));
        }
        assert!(functions(&elf, None, &Wanted::new("no such function anywhere")).is_empty());
        assert!(functions(&elf, None, &Wanted::new("")).len() > 100);
        let similar = similar_functions(&elf, None, &Wanted::new("quite_unmistackable"));
        assert!(similar.iter().any(|name| name.ends_with("::quite_unmistakable")), "{similar:?}");
    }
}
