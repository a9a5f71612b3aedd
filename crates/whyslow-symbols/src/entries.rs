//! Finds the entry points of a function in a file, by its display name.

use std::path::Path;

use object::elf::STT_FUNC;
use object::{Object, ObjectSymbol, SymbolFlags};
use rustc_hash::FxHashMap;
use whyslow_elf::{DebugFolders, Elf, ElfFile};
use whyslow_numbers::FileAddress;
use whyslow_words::nearest;

use crate::demangle::{shown_name, without_suffixes};
use crate::{go, separate_debug_file};

/// The entry points of a function: one per instance if it is generic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entries {
    /// Its full name.
    pub name: String,
    /// Offsets from the start of the file.
    pub offsets: Vec<u64>,
}

/// Why a function is not found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoEntry {
    /// The file cannot be read.
    Unreadable(String),
    /// It is not an ELF file, but for example a script.
    NotElf,
    /// It has no function names, or only those for the dynamic linker.
    NoSymbols,
    /// The names of several functions end like this.
    Ambiguous(Vec<String>),
    /// Debug info has it, but it has no code of its own: every call is inlined.
    Inlined,
    /// No such name; similar names.
    Absent(Vec<String>),
}

/// Finds the entries of a function: by its full name, by the linkage name, or by the end of its path if only
/// one function has it. C++ names may omit their parameters.
pub fn entries(path: &Path, wanted: &str) -> Result<Entries, NoEntry> {
    let file = ElfFile::open(path).map_err(|error| NoEntry::Unreadable(error.to_string()))?;
    let elf = file.parse().map_err(|_| NoEntry::NotElf)?;
    let debug_file = separate_debug_file(path, &elf, &DebugFolders::usual());
    let debug = debug_file.as_ref().and_then(|file| file.parse().ok());
    let functions = Functions::read(&elf, debug.as_ref());
    if functions.rows.is_empty() {
        return Err(NoEntry::NoSymbols);
    }
    match functions.find(wanted) {
        Found::One(name, addresses) => {
            let offsets: Vec<u64> = addresses
                .into_iter()
                .filter_map(|address| elf.file_offset_of(FileAddress(address)))
                .collect();
            Ok(Entries { name, offsets })
        }
        Found::Several(names) => Err(NoEntry::Ambiguous(names)),
        Found::None if is_in_debug_info(debug.as_ref().unwrap_or(&elf), wanted) => Err(NoEntry::Inlined),
        Found::None if !functions.full => Err(NoEntry::NoSymbols),
        Found::None => Err(NoEntry::Absent(functions.similar(wanted))),
    }
}

/// The functions of a file: linkage name, display name, address.
#[derive(Debug, Default)]
struct Functions {
    rows: Vec<(String, String, u64)>,
    /// Whether there are more names than those for the dynamic linker.
    full: bool,
}

enum Found {
    One(String, Vec<u64>),
    Several(Vec<String>),
    None,
}

impl Functions {
    /// Reads the symbol tables of a file and of its separate debug file.
    fn read(elf: &Elf<'_>, debug: Option<&Elf<'_>>) -> Self {
        let mut functions = Self { rows: Vec::new(), full: elf.has_symbols() || debug.is_some() };
        for elf in std::iter::once(elf).chain(debug) {
            for symbol in elf.object().symbols().chain(elf.object().dynamic_symbols()) {
                let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { continue };
                let Ok(name) = symbol.name() else { continue };
                // A resolver (ifunc) that chooses an implementation runs once and is not the function.
                let is_function = st_info.st_type() == STT_FUNC;
                if is_function && symbol.is_definition() && !is_part(name) {
                    functions.rows.push((name.to_owned(), shown_name(name), symbol.address()));
                }
            }
        }
        if functions.rows.is_empty() {
            let rows = go::functions(elf).into_iter();
            functions.rows =
                rows.map(|row| (row.name.to_owned(), shown_name(row.name), row.start.0)).collect();
            functions.full |= !functions.rows.is_empty();
        }
        functions
    }

    fn find(&self, wanted: &str) -> Found {
        let exact = |(raw, shown, _): &&(String, String, u64)| {
            raw == wanted || without_suffixes(raw) == wanted || names(shown, wanted)
        };
        let end = format!("::{wanted}");
        let ends = |(_, shown, _): &&(String, String, u64)| {
            shown.ends_with(&end) || without_parameters(shown).ends_with(&end)
        };
        let mut found = by_name(self.rows.iter().filter(exact));
        if found.is_empty() {
            found = by_name(self.rows.iter().filter(ends));
        }
        let mut places: Vec<&Vec<u64>> = found.values().collect();
        places.sort();
        places.dedup();
        match places[..] {
            [] => Found::None,
            // Several names for one address are one function.
            [addresses] => {
                let name = found.keys().min().map(|name| (*name).to_owned()).unwrap_or_default();
                Found::One(name, addresses.clone())
            }
            _ => {
                let mut names: Vec<String> = found.into_keys().map(str::to_owned).collect();
                names.sort();
                Found::Several(names)
            }
        }
    }

    /// Names that the wanted one may misspell.
    fn similar(&self, wanted: &str) -> Vec<String> {
        nearest(wanted, self.rows.iter().map(|(_, shown, _)| shown.clone()))
    }
}

/// The addresses of each name.
fn by_name<'a>(rows: impl Iterator<Item = &'a (String, String, u64)>) -> FxHashMap<&'a str, Vec<u64>> {
    let mut by_name: FxHashMap<&str, Vec<u64>> = FxHashMap::default();
    for (_, shown, address) in rows {
        let addresses = by_name.entry(shown).or_default();
        if !addresses.contains(address) {
            addresses.push(*address);
        }
    }
    by_name
}

fn names(shown: &str, wanted: &str) -> bool {
    shown == wanted || without_parameters(shown) == wanted
}

/// `Foo::bar(int)` → `Foo::bar`.
fn without_parameters(shown: &str) -> &str {
    match shown.strip_suffix(')').and_then(|_| shown.find('(')) {
        Some(at) if at > 0 => &shown[..at],
        _ => shown,
    }
}

fn last_part(name: &str) -> &str {
    without_parameters(name).rsplit("::").next().unwrap_or(name)
}

/// Whether a symbol is a part of a function that the compiler moved elsewhere: it is not an entry of the
/// function.
fn is_part(raw: &str) -> bool {
    [".cold", ".part."].iter().any(|part| raw.contains(part))
}

/// Whether a name is a complete string of the debug info.
fn is_in_debug_info(elf: &Elf<'_>, wanted: &str) -> bool {
    let name = last_part(wanted).as_bytes();
    let whole = [b"\0", name, b"\0"].concat();
    !name.is_empty()
        && [".debug_str", ".debug_info"].iter().any(|section| {
            let bytes = elf.section(section);
            bytes.windows(whole.len()).any(|window| window == whole)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions(rows: &[(&str, u64)]) -> Functions {
        let rows = rows.iter().map(|(raw, at)| ((*raw).to_owned(), shown_name(raw), *at)).collect();
        Functions { rows, full: true }
    }

    fn found(functions: &Functions, wanted: &str) -> Result<Vec<u64>, Vec<String>> {
        match functions.find(wanted) {
            Found::One(_, addresses) => Ok(addresses),
            Found::Several(names) => Err(names),
            Found::None => Err(Vec::new()),
        }
    }

    #[test]
    fn a_function_is_found_by_its_name_or_by_the_end_of_its_path() {
        let all = functions(&[
            ("_ZN3app5parse17h0123456789abcdefE", 0x10),
            ("_ZN3app5parse17hfedcba9876543210E", 0x20),
            ("_ZN3app4load4read17h0123456789abcdefE", 0x30),
            ("_ZN5other4read17h0123456789abcdefE", 0x40),
            ("_ZN3Foo3barEi", 0x50),
            ("main", 0x60),
            ("__libc_malloc", 0x70),
            ("malloc", 0x70),
        ]);
        assert_eq!(found(&all, "app::parse"), Ok(vec![0x10, 0x20]), "instances of a generic function");
        assert_eq!(found(&all, "parse"), Ok(vec![0x10, 0x20]));
        assert_eq!(found(&all, "load::read"), Ok(vec![0x30]));
        assert_eq!(found(&all, "read"), Err(vec!["app::load::read".to_owned(), "other::read".to_owned()]));
        assert_eq!(found(&all, "Foo::bar"), Ok(vec![0x50]));
        assert_eq!(found(&all, "bar"), Ok(vec![0x50]));
        assert_eq!(found(&all, "_ZN3Foo3barEi"), Ok(vec![0x50]));
        assert_eq!(found(&all, "main"), Ok(vec![0x60]));
        assert_eq!(found(&all, "malloc"), Ok(vec![0x70]));
        assert_eq!(found(&all, "arse"), Err(Vec::new()), "a part of a word is none");
        assert_eq!(all.similar("app::pars"), ["app::parse"]);
    }

    #[test]
    fn parts_of_functions_are_not_entries() {
        assert!(is_part("work.cold") && is_part("work.part.0") && is_part("_ZN1a1bEv.cold.12"));
        assert!(!is_part("work") && !is_part("work.constprop.0") && !is_part("_ZN1a1bEv.llvm.123"));
    }

    #[inline(never)]
    fn probed_by_the_test() -> u32 {
        std::hint::black_box(7)
    }

    #[test]
    fn our_own_functions_are_found() {
        let program = std::env::current_exe().unwrap();
        assert_eq!(probed_by_the_test(), 7);
        let entries_found = entries(&program, "entries::tests::probed_by_the_test").unwrap();
        assert_eq!(entries_found.offsets.len(), 1, "{entries_found:?}");
        assert!(matches!(entries(&program, "no_such_function_anywhere"), Err(NoEntry::Absent(_))));
        assert!(matches!(entries(Path::new("/no/such/file"), "main"), Err(NoEntry::Unreadable(_))));
    }
}
