//! Where all code of a function is: its symbols, the parts that the compiler split off, and its inlined copies.

use whyslow_elf::{DebugFolders, ElfFile};
use whyslow_names::{Fit, Wanted};
use whyslow_numbers::FileAddress;

use crate::functions::functions;
use crate::inlined::each_call;
use crate::module::separate_debug_file;
use crate::own_lines::{SourceLine, with_frames};
use crate::threads;

/// The code of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionCode {
    /// Its name, and the line where it begins. Without line tables, the file is empty and the line 0.
    pub line: SourceLine,
    /// Start and end of its code, relative to the image base: sorted, without overlap.
    pub ranges: Vec<(u64, u64)>,
}

/// The code of the functions with this name. Several have it if the function is generic. `None` if the file has none.
pub fn function_code(file: &ElfFile, wanted: &Wanted) -> Option<FunctionCode> {
    threads::apart(|| find(file, wanted))
}

fn find(file: &ElfFile, wanted: &Wanted) -> Option<FunctionCode> {
    let elf = file.parse().ok()?;
    let debug = separate_debug_file(&file.path, &elf, &DebugFolders::usual());
    let debug_elf = debug.as_ref().and_then(|debug| debug.parse().ok());
    let base = elf.image_base();
    // Fit, name, start, end.
    let mut found: Vec<(Fit, String, u64, u64)> = Vec::new();
    for function in functions(&elf, debug_elf.as_ref(), wanted) {
        let fit = wanted.fit(whole(&function.name));
        found.extend(fit.map(|fit| (fit, function.name, function.start.0, function.start.0 + function.size)));
    }
    each_call(file, debug.as_ref(), wanted, |_, call| {
        let Some(fit) = wanted.fit(&call.name) else { return };
        for &(start, end) in &call.ranges {
            let at = |address| base.relative_or_zero(FileAddress(address)).0;
            found.push((fit, call.name.clone(), at(start), at(end)));
        }
    });
    let best = found.iter().map(|(fit, ..)| fit.class()).min()?;
    found.retain(|(fit, _, start, end)| fit.class() == best && start < end);
    found.sort();
    let (_, name, start, _) = found.first()?;
    let name = whole(name).to_owned();
    let line = begin(&file.path, *start, &name).unwrap_or(SourceLine {
        function: name,
        file: String::new(),
        line: 0,
    });
    Some(FunctionCode { line, ranges: joined(found.iter().map(|&(.., start, end)| (start, end)).collect()) })
}

/// The function's name without the mark of a part that the compiler split off: `parse.cold`, `parse [clone .cold]`.
fn whole(name: &str) -> &str {
    let name =
        name.strip_suffix(']').and_then(|name| name.split_once(" [clone .")).map_or(name, |(name, _)| name);
    name.split_once(".cold").or_else(|| name.split_once(".part.")).map_or(name, |(name, _)| name)
}

/// The function's frame at its first address, which may be in code that it is inlined into.
fn begin(path: &std::path::Path, start: u64, name: &str) -> Option<SourceLine> {
    let (profile, locations) = with_frames(path, &[start])?;
    let frames = profile.frames.of(*locations.first()?);
    let is_it = |frame: &&whyslow_profile::Frame| {
        profile.text(profile.functions[frame.function.index()].name) == name
    };
    let frame = frames.iter().find(is_it).or(frames.first())?;
    let file = profile.text(frame.file?).to_owned();
    Some(SourceLine { function: name.to_owned(), file, line: frame.line })
}

/// Sorted, and without overlap.
fn joined(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (start, end) in ranges {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn outer_of_function_code(number: u64) -> u64 {
        inlined_of_function_code(number) + 1
    }

    #[inline(always)]
    fn inlined_of_function_code(number: u64) -> u64 {
        (0..std::hint::black_box(number)).fold(7, |sum, next| sum ^ std::hint::black_box(next))
    }

    fn code_of(name: &str) -> Option<FunctionCode> {
        function_code(&ElfFile::open(&std::env::current_exe().unwrap()).unwrap(), &Wanted::new(name))
    }

    #[test]
    fn an_inlined_function_has_code_inside_of_its_callers() {
        assert_eq!((outer_of_function_code(0), inlined_of_function_code(0)), (8, 7));
        let outer = code_of("outer_of_function_code").unwrap();
        assert!(outer.line.function.ends_with("tests::outer_of_function_code"), "{outer:?}");
        assert!(outer.line.file.ends_with("function_code.rs") && outer.line.line > 0, "{outer:?}");
        let inlined = code_of("inlined_of_function_code").unwrap();
        let is_inside =
            |&(start, end): &(u64, u64)| outer.ranges.iter().any(|all| all.0 <= start && end <= all.1);
        assert!(inlined.ranges.iter().any(is_inside), "{inlined:?} in {outer:?}");
        // Line tables without other debug information name it without its path.
        assert!(inlined.line.function.ends_with("inlined_of_function_code"), "{inlined:?}");
        assert_eq!(code_of("no_function_has_this_name"), None);
    }

    #[test]
    fn parts_that_were_split_off_belong_to_their_function() {
        assert_eq!(["parse.cold", "parse.part.0", "parse [clone .cold]", "parse"].map(whole), ["parse"; 4]);
        assert_eq!(whole("<app::Map [u8]>::get"), "<app::Map [u8]>::get");
    }

    #[test]
    fn ranges_that_overlap_become_one() {
        assert_eq!(joined(vec![(8, 9), (1, 4), (4, 6), (2, 3)]), [(1, 6), (8, 9)]);
    }
}
