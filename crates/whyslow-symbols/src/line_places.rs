//! Where the code of a source line starts: once in its function, and once in each function that it is inlined into.

use std::path::Path;

use rustc_hash::FxHashSet;
use whyslow_elf::{DebugFolders, Elf, ElfFile};
use whyslow_numbers::FileAddress;

use crate::module::with_debug_info;
use crate::own_lines::with_frames;
use crate::symtab::Symbols;
use crate::{separate_debug_file, threads};

/// The code of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinePlaces {
    /// Its file.
    pub file: String,
    /// Its number.
    pub line: u32,
    /// The functions that have its code, from which it is not inlined any further. Sorted.
    pub functions: Vec<String>,
    /// The first instruction of each copy, sorted.
    pub addresses: Vec<FileAddress>,
}

/// Why a line has no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoLine {
    /// The file cannot be read: the reason.
    Unreadable(String),
    /// The file has no line tables.
    NoLines,
    /// No source file has such a path.
    NoFile,
    /// Several source files have that line and such a path.
    Ambiguous(Vec<String>),
    /// The line has no code: the source file, and the nearest lines that have code.
    NoCode(String, Vec<u32>),
}

/// How many other lines are offered.
const MOST_NEAR: usize = 3;

/// Finds the code of a line of the source file whose path ends so.
pub fn line_places(path: &Path, file: &str, line: u32) -> Result<LinePlaces, NoLine> {
    threads::apart(|| find(path, file, line))
}

fn find(path: &Path, file: &str, line: u32) -> Result<LinePlaces, NoLine> {
    let unreadable = |error: &dyn std::fmt::Display| NoLine::Unreadable(error.to_string());
    let main = ElfFile::open(path).map_err(|error| unreadable(&error))?;
    let elf = main.parse().map_err(|error| unreadable(&error))?;
    let separate = separate_debug_file(path, &elf, &DebugFolders::usual());
    let symbols = Symbols::read(&elf);
    let debug_file = separate.as_ref().unwrap_or(&main);
    let statements = with_debug_info(path, debug_file, &symbols, &DebugFolders::usual(), |info| {
        info.statements(|path| ends_with_path(path, file))
    });
    let Some(mut statements) = statements else { return Err(NoLine::NoLines) };
    // Code that the linker has removed.
    statements.retain(|statement| is_code(&elf, FileAddress(statement.address)));
    if statements.is_empty() {
        return Err(NoLine::NoFile);
    }
    let mut found: Vec<_> = statements.iter().filter(|statement| statement.line == line).collect();
    let mut files: Vec<&str> = found.iter().map(|statement| &*statement.file).collect();
    files.sort_unstable();
    files.dedup();
    let source = match files[..] {
        [] => {
            let mut near: Vec<u32> = statements.iter().map(|statement| statement.line).collect();
            near.sort_unstable_by_key(|near| (near.abs_diff(line), *near));
            near.dedup();
            near.truncate(MOST_NEAR);
            return Err(NoLine::NoCode(statements[0].file.clone(), near));
        }
        [source] => source.to_owned(),
        _ => return Err(NoLine::Ambiguous(files.into_iter().map(str::to_owned).collect())),
    };
    if found.iter().any(|statement| statement.is_start) {
        found.retain(|statement| statement.is_start);
    }
    let addresses: Vec<u64> = found.iter().map(|statement| statement.address).collect();
    let (functions, addresses) = copies(path, &elf, &symbols, addresses);
    Ok(LinePlaces { file: source, line, functions, addresses })
}

/// The functions that hold these addresses, and the first address of each copy.
fn copies(
    path: &Path,
    elf: &Elf<'_>,
    symbols: &Symbols<'_>,
    mut addresses: Vec<u64>,
) -> (Vec<String>, Vec<FileAddress>) {
    addresses.sort_unstable();
    addresses.dedup();
    let base = elf.image_base();
    let relative: Vec<u64> =
        addresses.iter().map(|address| base.relative_or_zero(FileAddress(*address)).0).collect();
    let (mut functions, mut firsts) = (Vec::new(), Vec::new());
    let Some((profile, locations)) = with_frames(path, &relative) else {
        return (functions, addresses.into_iter().map(FileAddress).collect());
    };
    let mut seen: FxHashSet<(u64, Vec<(usize, u32)>)> = FxHashSet::default();
    for (&address, location) in addresses.iter().zip(locations) {
        let frames = profile.frames.of(location);
        let mut chain: Vec<(usize, u32)> =
            frames.iter().map(|frame| (frame.function.index(), frame.line)).collect();
        // The line itself, which all of them have.
        if let Some(last) = chain.last_mut() {
            last.1 = 0;
        }
        let function = symbols.find(FileAddress(address)).map_or(0, |symbol| symbol.start.0);
        if seen.insert((function, chain)) {
            firsts.push(FileAddress(address));
            functions.extend(
                frames
                    .first()
                    .map(|frame| profile.text(profile.functions[frame.function.index()].name).to_owned()),
            );
        }
    }
    functions.sort();
    functions.dedup();
    (functions, firsts)
}

fn is_code(elf: &Elf<'_>, address: FileAddress) -> bool {
    elf.segments().any(|segment| {
        segment.executable
            && address.0.checked_sub(segment.address.0).is_some_and(|into| into < segment.file_len)
    })
}

/// Whether a path ends with these parts.
fn ends_with_path(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('/') || end.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(always)]
    fn inlined(number: u64) -> u64 {
        std::hint::black_box(number) + 1 // LINE: inlined
    }

    #[inline(never)]
    fn once(number: u64) -> u64 {
        std::hint::black_box(number) * 3 // LINE: once
    }

    #[inline(never)]
    fn first(number: u64) -> u64 {
        inlined(number) * 3
    }

    #[inline(never)]
    fn second(number: u64) -> u64 {
        inlined(number) * 5
    }

    fn line_of(mark: &str) -> u32 {
        let source = include_str!("line_places.rs");
        let found = source.lines().position(|line| line.ends_with(&format!("// LINE: {mark}")));
        found.unwrap() as u32 + 1
    }

    fn places(line: u32) -> Result<LinePlaces, NoLine> {
        line_places(&std::env::current_exe().unwrap(), "src/line_places.rs", line)
    }

    #[test]
    fn a_line_of_a_function_has_one_place_in_it() {
        assert_eq!((once(1), first(1), second(1)), (3, 6, 10));
        let found = places(line_of("once")).unwrap();
        let ([function], [address]) = (&found.functions[..], &found.addresses[..]) else {
            panic!("{found:?}");
        };
        assert!(function.ends_with("line_places::tests::once"), "{function}");
        let base = once as fn(u64) -> u64 as usize as u64;
        let file = ElfFile::open(&std::env::current_exe().unwrap()).unwrap();
        let elf = file.parse().unwrap();
        let symbols = Symbols::read(&elf);
        let symbol = symbols.find(*address).unwrap();
        assert_eq!(symbol.start.0 & 0xfff, base & 0xfff, "in the function's code");
    }

    #[test]
    fn an_inlined_line_has_a_place_in_each_function_that_has_it() {
        let found = places(line_of("inlined")).unwrap();
        let has = |name: &str| found.functions.iter().any(|function| function.ends_with(name));
        assert!(has("tests::first") && has("tests::second"), "{found:?}");
        assert!(found.addresses.len() >= 2, "{found:?}");
    }

    #[test]
    fn a_line_without_code_leads_to_the_nearest_that_has() {
        let once = line_of("once");
        let Err(NoLine::NoCode(file, near)) = places(once - 2) else { panic!("{:?}", places(once - 2)) };
        assert!(file.ends_with("src/line_places.rs") && near.contains(&(once - 1)), "{file} {near:?}");
    }

    #[test]
    fn a_source_file_that_the_program_does_not_have_is_said() {
        let found = line_places(&std::env::current_exe().unwrap(), "no_such_file.rs", 1);
        assert_eq!(found, Err(NoLine::NoFile));
    }

    #[test]
    fn only_whole_parts_of_a_path_count() {
        assert!(ends_with_path("/a/src/main.rs", "src/main.rs") && ends_with_path("main.rs", "main.rs"));
        assert!(!ends_with_path("/a/domain.rs", "main.rs"));
    }
}
