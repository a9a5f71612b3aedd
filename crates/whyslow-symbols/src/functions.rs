//! Functions of a file by a part of their name, in one pass over its symbols: large files have hundreds of thousands.

use object::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, SymbolKind};
use whyslow_elf::{Elf, FileBytes};

use crate::demangle::shown_name;
use crate::unnamed::Bounds;

/// A function of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FunctionSymbol {
    /// Its name, demangled.
    pub name: String,
    /// Its first byte, relative to the file's image base.
    pub start: u64,
    /// How many bytes it has.
    pub size: u64,
}

/// The functions whose name has this part, whether letters are large or small; all of them for an empty part. Sorted by name.
pub fn functions(elf: &Elf<'_>, debug: Option<&Elf<'_>>, part: &str) -> Vec<FunctionSymbol> {
    // Mangled names have every identifier in them as it is, and demangling is what takes long.
    let identifiers = part.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let longest = identifiers.max_by_key(|word| word.len()).unwrap_or_default();
    let found = matching(elf, debug, part, |raw| raw.contains(longest));
    if found.is_empty() { matching(elf, debug, part, |_| true) } else { found }
}

fn matching(
    elf: &Elf<'_>,
    debug: Option<&Elf<'_>>,
    part: &str,
    may_be: impl Fn(&str) -> bool,
) -> Vec<FunctionSymbol> {
    let base = elf.image_base();
    let wanted = part.to_lowercase();
    let mut found = Vec::new();
    for elf in std::iter::once(elf).chain(debug) {
        let tables = [elf.object().symbol_table(), elf.object().dynamic_symbol_table()];
        for symbol in tables.iter().flatten().flat_map(ObjectSymbolTable::symbols) {
            if symbol.kind() != SymbolKind::Text || !symbol.is_definition() {
                continue;
            }
            let Some(raw) = symbol.name().ok().filter(|raw| !raw.is_empty() && may_be(raw)) else { continue };
            let name = shown_name(raw);
            if is_part(&wanted, &name.to_lowercase()) || raw == part {
                let start = symbol.address().wrapping_sub(base);
                found.push(FunctionSymbol { name, start, size: symbol.size() });
            }
        }
    }
    for function in found.iter_mut().filter(|function| function.size == 0) {
        function.size = until_next(elf, function.start.wrapping_add(base));
    }
    found.sort_unstable();
    found.dedup();
    // One name per place: the first in the alphabet.
    let mut seen = rustc_hash::FxHashSet::default();
    found.retain(|function| function.size > 0 && seen.insert(function.start));
    found
}

/// Whether a name has this part; `Reader::read` is a part of `<app::Reader>::read`.
fn is_part(part: &str, name: &str) -> bool {
    name.contains(part) || name.contains(['<', '>']) && name.replace(['<', '>'], "").contains(part)
}

/// Bytes up to the next symbol, or to the end of the section.
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

/// The function around an address of a file, relative to its image base: start and end, by its symbols or, where those have no name for it,
/// by its unwind tables.
pub fn function_at(elf: &Elf<'_>, file: &FileBytes, address: u64) -> Option<(u64, u64)> {
    let base = elf.image_base();
    let symbols = crate::symtab::Symbols::read(elf);
    if let Some(symbol) = symbols.find(address.checked_add(base)?) {
        return Some((symbol.start.saturating_sub(base), symbol.end.saturating_sub(base)));
    }
    Bounds::of(file).find(address).map(|range| (range.start, range.end))
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
        for part in ["quite_unmistakable", "functions::tests::quite_unmist", "QUITE_UNMISTAK"] {
            let found = functions(&elf, None, part);
            let [one] = &found[..] else { panic!("{part}: {found:?}") };
            assert!(one.name.ends_with("functions::tests::quite_unmistakable") && one.size > 0);
            let around = function_at(&elf, file.map(), one.start + 1);
            assert_eq!(around, Some((one.start, one.start + one.size)));
        }
        assert!(is_part("reader::read", "<app::reader>::read_line") && !is_part("read::x", "<app::read>::y"));
        assert!(functions(&elf, None, "no such function anywhere").is_empty());
        assert!(functions(&elf, None, "").len() > 100);
    }
}
