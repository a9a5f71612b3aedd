//! Symbol tables: names of functions without debug info.

use object::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, SectionFlags, SymbolKind};

use whyslow_elf::Elf;
use whyslow_numbers::FileAddress;

/// A named range of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Symbol<'a> {
    /// Its first byte.
    pub start: FileAddress,
    /// One past its last byte.
    pub end: FileAddress,
    /// The linkage name.
    pub name: &'a str,
}

/// Functions sorted by address.
#[derive(Debug, Default)]
pub(crate) struct Symbols<'a> {
    rows: Vec<Symbol<'a>>,
    /// Whether there is a full table, not only names for the dynamic linker.
    pub full: bool,
}

/// A symbol before its end is known.
struct Candidate<'a> {
    symbol: Symbol<'a>,
    section: usize,
    /// Better symbols come first among those at one address.
    rank: u8,
}

impl<'a> Symbols<'a> {
    /// Reads `.symtab`, or the table of Go's runtime, or `.dynsym` if both are missing or empty.
    pub(crate) fn read(elf: &Elf<'a>) -> Self {
        let object = elf.object();
        let mut code_ends = Vec::new();
        for section in object.sections() {
            let index = section.index().0;
            if index >= code_ends.len() {
                code_ends.resize(index + 1, None);
            }
            if is_code(section.flags()) {
                code_ends[index] = Some(section.address().saturating_add(section.size()));
            }
        }
        let gather = |table: Option<object::read::elf::ElfSymbolTable64<'a, '_, object::LittleEndian>>| {
            let mut rows: Vec<Candidate<'a>> = Vec::new();
            for symbol in table.iter().flat_map(ObjectSymbolTable::symbols) {
                rows.extend(candidate(&symbol, &code_ends));
            }
            rows
        };
        let rows = gather(object.symbol_table());
        if !rows.is_empty() {
            return Self { rows: with_ends(rows, &code_ends), full: true };
        }
        let rows = crate::go::functions(elf);
        if !rows.is_empty() {
            return Self { rows, full: true };
        }
        Self { rows: with_ends(gather(object.dynamic_symbol_table()), &code_ends), full: false }
    }

    /// The function that contains an address; `None` in the gaps between functions.
    pub(crate) fn find(&self, address: FileAddress) -> Option<&Symbol<'a>> {
        let after = self.rows.partition_point(|row| row.start <= address);
        // Functions rarely overlap: a few steps back find an enclosing one.
        self.rows[..after].iter().rev().take(8).find(|row| address < row.end)
    }

    /// Whether there is no name at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// The number of functions with names in a full symbol table; 0 if there are only names for the dynamic
/// linker.
pub fn named_functions(elf: &Elf<'_>) -> usize {
    let symbols = Symbols::read(elf);
    if symbols.full { symbols.rows.len() } else { 0 }
}

/// Checks the flag, not the type: in a separate debug file, code sections have no bytes.
fn is_code(flags: SectionFlags) -> bool {
    matches!(flags, SectionFlags::Elf { sh_flags, .. } if sh_flags.0 & object::elf::SHF_EXECINSTR.0 != 0)
}

fn candidate<'a>(
    symbol: &object::read::elf::ElfSymbol64<'a, '_, object::LittleEndian>,
    code_ends: &[Option<u64>],
) -> Option<Candidate<'a>> {
    let section = symbol.section_index()?.0;
    let code_end = (*code_ends.get(section)?)?;
    let untyped = match symbol.kind() {
        SymbolKind::Text => false,
        // Hand-written assembly often omits the type.
        SymbolKind::Unknown | SymbolKind::Label => true,
        _ => return None,
    };
    let name = symbol.name().ok()?;
    if name.is_empty() || name.starts_with("$x") || name.starts_with("$d") || name.starts_with(".L") {
        return None;
    }
    let start = symbol.address();
    if start >= code_end {
        return None;
    }
    let end = start.saturating_add(symbol.size()).min(code_end);
    let rank = u8::from(untyped) * 4 + u8::from(symbol.size() == 0) * 2 + u8::from(symbol.is_weak());
    let [start, end] = [start, end].map(FileAddress);
    Some(Candidate { symbol: Symbol { start, end, name }, section, rank })
}

/// Keeps one symbol per address; symbols without a size extend to the next one in their section.
fn with_ends<'a>(mut rows: Vec<Candidate<'a>>, code_ends: &[Option<u64>]) -> Vec<Symbol<'a>> {
    rows.sort_by(|a, b| {
        (a.symbol.start, a.rank, a.symbol.name.len(), a.symbol.name).cmp(&(
            b.symbol.start,
            b.rank,
            b.symbol.name.len(),
            b.symbol.name,
        ))
    });
    rows.dedup_by_key(|row| row.symbol.start);
    let starts: Vec<(usize, FileAddress)> = rows.iter().map(|row| (row.section, row.symbol.start)).collect();
    rows.into_iter()
        .enumerate()
        .map(|(index, row)| {
            let mut symbol = row.symbol;
            if symbol.end == symbol.start {
                let section_end = code_ends.get(row.section).copied().flatten();
                let section_end = section_end.map_or(symbol.start, FileAddress);
                symbol.end = match starts.get(index + 1) {
                    Some(&(section, start)) if section == row.section => start,
                    _ => section_end,
                };
            }
            symbol
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_vdso_has_the_clock() {
        let image = whyslow_proc::kernel::vdso().unwrap();
        assert!(!Symbols::read(&Elf::parse(&image).unwrap()).is_empty());
    }

    fn row(start: u64, end: u64, name: &'static str, rank: u8) -> Candidate<'static> {
        let [start, end] = [start, end].map(FileAddress);
        Candidate { symbol: Symbol { start, end, name }, section: 1, rank }
    }

    #[test]
    fn gaps_stay_unresolved_and_sizeless_symbols_extend() {
        let ends = [None, Some(100)];
        let rows =
            vec![row(10, 20, "a", 0), row(40, 40, "asm", 2), row(50, 60, "b", 0), row(90, 90, "last", 2)];
        let table = Symbols { rows: with_ends(rows, &ends), full: true };
        let name = |address| table.find(FileAddress(address)).map(|symbol| symbol.name);
        assert_eq!(name(9), None);
        assert_eq!(name(10), Some("a"));
        assert_eq!(name(19), Some("a"));
        assert_eq!(name(20), None);
        assert_eq!(name(45), Some("asm"));
        assert_eq!(name(59), Some("b"));
        assert_eq!(name(70), None);
        assert_eq!(name(99), Some("last"));
        assert_eq!(name(100), None);
    }

    #[test]
    fn the_better_name_of_an_address_wins() {
        let ends = [None, Some(100)];
        let rows = vec![row(10, 20, "weak", 1), row(10, 20, "strong", 0), row(10, 10, "label", 6)];
        assert_eq!(
            with_ends(rows, &ends),
            [Symbol { start: FileAddress(10), end: FileAddress(20), name: "strong" }]
        );
    }
}
