//! Which function or variable an address belongs to.

use std::ops::Range;

use object::{Object, ObjectSymbol, ObjectSymbolTable, SymbolKind};
use whyslow_elf::Elf;

use crate::layout::{Layout, Section};
use crate::owners::{Owner, OwnerId, Owners};
use crate::partition::partition;

/// A symbol in a section.
#[derive(Debug, Clone)]
pub(crate) struct Symbol<'a> {
    pub range: Range<u64>,
    pub name: &'a str,
    pub function: bool,
    /// Better names of an address come first.
    rank: u8,
}

/// The symbols of each section, sorted by address.
#[derive(Debug, Default)]
pub(crate) struct Symbols<'a> {
    /// By row of `Layout::sections`.
    pub of_section: Vec<Vec<Symbol<'a>>>,
    /// How many further names there are for a range that has one.
    pub other_names: usize,
    /// Whether there are more names than those for the dynamic linker.
    pub full: bool,
}

impl<'a> Symbols<'a> {
    /// Reads the symbol table of the file or, if it has none, of its debug file; the table of a Go program's
    /// runtime; or the names for the dynamic linker.
    pub(crate) fn read(layout: &Layout, elf: &Elf<'a>, debug: Option<&Elf<'a>>) -> Self {
        let mut symbols = Self { of_section: vec![Vec::new(); layout.sections.len()], ..Self::default() };
        let own = elf.object().symbol_table();
        if own.as_ref().is_some_and(|table| table.symbols().next().is_some()) {
            symbols.take(layout, own, true);
        } else if let Some(debug) = debug {
            symbols.take(layout, debug.object().symbol_table(), false);
        }
        symbols.full = symbols.of_section.iter().any(|section| !section.is_empty());
        if !symbols.full {
            for (range, name) in whyslow_symbols::named_go_code(elf) {
                symbols.add(layout, None, Symbol { range, name, function: true, rank: 0 });
                symbols.full = true;
            }
        }
        if !symbols.full {
            symbols.take(layout, elf.object().dynamic_symbol_table(), true);
        }
        symbols.finish(layout);
        symbols
    }

    fn take(
        &mut self,
        layout: &Layout,
        table: Option<object::read::elf::ElfSymbolTable64<'a, '_, object::LittleEndian>>,
        same_file: bool,
    ) {
        for symbol in table.iter().flat_map(ObjectSymbolTable::symbols) {
            let (function, untyped) = match symbol.kind() {
                SymbolKind::Text => (true, false),
                SymbolKind::Data => (false, false),
                SymbolKind::Unknown | SymbolKind::Label => (false, true),
                _ => continue,
            };
            let Some(name) = symbol.name().ok().filter(|name| is_name(name)) else { continue };
            let Some(index) = symbol.section_index() else { continue };
            let start = symbol.address();
            let range = start..start.saturating_add(symbol.size());
            let rank = u8::from(untyped) * 4 + u8::from(symbol.size() == 0) * 2 + u8::from(symbol.is_weak());
            let index = same_file.then_some(index.0);
            self.add(layout, index, Symbol { range, name, function, rank });
        }
    }

    /// Adds a symbol to its section; in another file, sections have other numbers.
    fn add(&mut self, layout: &Layout, index: Option<usize>, symbol: Symbol<'a>) {
        let holds = |section: &Section| {
            let len = section.file.end - section.file.start;
            symbol.range.start.checked_sub(section.address).is_some_and(|into| into < len)
        };
        let row = layout.sections.iter().position(|section| {
            let is_it =
                index.is_none_or(|index| section.index == index) && (section.loaded || index.is_some());
            is_it && section.index > 0 && holds(section)
        });
        if let Some(row) = row {
            self.of_section[row].push(symbol);
        }
    }

    fn finish(&mut self, layout: &Layout) {
        for (section, symbols) in layout.sections.iter().zip(&mut self.of_section) {
            symbols.sort_by(|a, b| {
                let key = |symbol: &Symbol<'_>| (symbol.range.start, symbol.rank, symbol.name.len());
                key(a).cmp(&key(b)).then_with(|| a.name.cmp(b.name))
            });
            // Variables without a size are marks of the linker: `_edata`.
            symbols.retain(|symbol| !symbol.range.is_empty() || section.code);
            let end = section.address.saturating_add(section.file.end - section.file.start);
            let mut next = end;
            for at in (0..symbols.len()).rev() {
                let start = symbols[at].range.start;
                if symbols[at].range.is_empty() {
                    symbols[at].range.end = next;
                }
                if at > 0 && symbols[at - 1].range.start < start {
                    next = start;
                }
            }
            let before = symbols.len();
            symbols.dedup_by(|later, first| later.range == first.range && later.function == first.function);
            self.other_names += before - symbols.len();
        }
    }
}

/// Mapping symbols of ARM, labels of the assembler and numbers of constants (`anon.0123….7`) are no names.
fn is_name(name: &str) -> bool {
    let is_numbered =
        name.strip_prefix("anon.").and_then(|rest| rest.split_once('.')).is_some_and(|(hash, number)| {
            hash.len() == 32
                && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
                && number.starts_with(|first: char| first.is_ascii_digit())
        });
    !(name.is_empty()
        || name.starts_with("$x")
        || name.starts_with("$d")
        || name.starts_with(".L")
        || is_numbered)
}

/// Which owner each address has.
#[derive(Debug, Default)]
pub(crate) struct Map {
    /// Sorted, without overlap.
    ranges: Vec<(Range<u64>, OwnerId)>,
}

impl Map {
    /// The owner of an address; `None` if it has none with a name.
    pub(crate) fn owner(&self, address: u64) -> Option<OwnerId> {
        let after = self.ranges.partition_point(|(range, _)| range.start <= address);
        let (range, owner) = self.ranges.get(after.checked_sub(1)?)?;
        (address < range.end).then_some(*owner)
    }
}

/// Divides a region of a section among its symbols and functions without a name. The parts are addresses.
pub(crate) fn divide<'a>(
    section: &Section,
    region: &Range<u64>,
    bytes: &[u8],
    symbols: &[Symbol<'a>],
    unnamed: &[Range<u64>],
    owners: &mut Owners<'a>,
) -> Vec<(Range<u64>, OwnerId)> {
    let address = |offset: u64| section.address.saturating_add(offset - section.file.start);
    let whole = address(region.start)..address(region.end);
    let bytes = &bytes[region.start as usize..region.end as usize];
    let named =
        symbols.iter().map(|symbol| (symbol.range.clone(), Owner::Symbol(symbol.name, symbol.range.start)));
    let mut claims: Vec<(Range<u64>, Owner<'a>)> = named.collect();
    let has_stubs = section.name.starts_with(".plt");
    if section.code && !has_stubs {
        // A symbol wins against the entry of the unwind tables at its address: the sort is stable.
        let first = unnamed.partition_point(|range| range.start < whole.start);
        let inside = unnamed[first..].iter().take_while(|range| range.start < whole.end);
        claims.extend(inside.map(|range| (range.clone(), Owner::Unnamed(range.start))));
        claims.sort_by_key(|(range, _)| range.start);
    }
    let parts = partition(whole.clone(), claims, |gap| {
        let at = |address: u64| (address - whole.start) as usize;
        let inside = &bytes[at(gap.start)..at(gap.end)];
        Owner::Nobody(match section.code {
            true if has_stubs => "stubs of imported functions",
            true if is_filler(inside) => "alignment of functions",
            true => "code without a name",
            false => "",
        })
    });
    parts.into_iter().map(|(range, owner)| (range, owners.id(owner))).collect()
}

/// Whether code is only what fills the space up to the next function: less than an alignment, or one byte again and
/// again.
fn is_filler(bytes: &[u8]) -> bool {
    bytes.len() < 16 || bytes.iter().all(|byte| *byte == bytes[0])
}

/// The map of all ranges with a named owner.
pub(crate) fn map(ranges: impl IntoIterator<Item = (Range<u64>, OwnerId)>, owners: &Owners<'_>) -> Map {
    let named = |owner: OwnerId| !matches!(owners.rows()[owner.0 as usize], Owner::Nobody(_));
    let mut ranges: Vec<_> = ranges.into_iter().filter(|(_, owner)| named(*owner)).collect();
    ranges.sort_by_key(|(range, _)| range.start);
    Map { ranges }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_compilers_are_no_names() {
        for name in [
            "",
            "$x",
            "$d.1",
            ".Lanon",
            "anon.86a702d1c436ab48a4173751bcf5ac88.3064",
            "anon.86a702d1c436ab48a4173751bcf5ac88.7.llvm.99",
        ] {
            assert!(!is_name(name), "{name}");
        }
        assert!(is_name("main") && is_name("anon.cache.1") && is_name("anon"));
    }

    #[test]
    fn fillers_are_short_or_one_byte_again_and_again() {
        assert!(is_filler(&[0xcc; 100]) && is_filler(b"\x66\x2e\x0f\x1f\x84\0\0\0\0\0"));
        assert!(!is_filler(b"\x55\x48\x89\xe5\x41\x57\x41\x56\x53\x50\x48\x83\xec\x18\xc3\x90"));
    }
}
