//! The code of the user's own lines: where in a module instructions are that were written in a line, also if the
//! line calls something that was inlined, and also if the line itself was inlined.

use std::path::Path;

use rustc_hash::FxHashMap;
use whyslow_elf::ElfFile;
use whyslow_profile::{
    Builder, CodeKind, Frame, LocationId, Meta, Module, ModuleKind, Optimised, Profile, RelativeAddress,
    SymbolState,
};

use crate::symtab::Symbols;
use crate::unnamed::Bounds;
use crate::{Options, symbolize};

/// Whose lines count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// The user's own code.
    Own,
    /// The code of a crate.
    Crate(String),
    /// All code with lines.
    All,
}

/// A line of source code.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceLine {
    /// The function that it belongs to.
    pub function: String,
    /// Its file.
    pub file: String,
    /// Its number.
    pub line: u32,
}

/// The code of a line in a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineCode {
    /// The line.
    pub line: SourceLine,
    /// Its functions: that of the line, and those that it is inlined into, from the inside out.
    pub functions: Vec<String>,
    /// Start and end of its code, relative to the image base: sorted, without overlap.
    pub ranges: Vec<(u64, u64)>,
    /// Samples in it.
    pub samples: u64,
}

/// Longer functions are looked at only around samples.
const LONGEST: u64 = 1 << 16;

/// The lines in the functions that were sampled, by samples. `samples` are addresses relative to the image base, and
/// how often each was sampled. Each byte of code belongs to the innermost line in the scope.
pub fn own_lines(path: &Path, samples: &[(u64, u64)], scope: &Scope) -> Vec<LineCode> {
    let extents = extents(path, samples);
    let mut addresses: Vec<u64> = extents.iter().flat_map(|&(start, end)| start..end).collect();
    addresses.extend(samples.iter().map(|&(address, _)| address));
    addresses.sort_unstable();
    addresses.dedup();
    let Some((profile, locations)) = with_frames(path, &addresses) else { return Vec::new() };
    let mut rows: FxHashMap<SourceLine, LineCode> = FxHashMap::default();
    for (&address, &location) in addresses.iter().zip(&locations) {
        let Some((line, functions)) = line_of(&profile, location, scope) else { continue };
        let count = samples.binary_search_by_key(&address, |&(address, _)| address);
        let count = count.map_or(0, |row| samples[row].1);
        let row = rows.entry(line.clone()).or_insert_with(|| LineCode {
            line,
            functions: Vec::new(),
            ranges: Vec::new(),
            samples: 0,
        });
        row.samples += count;
        for function in functions {
            if !row.functions.contains(&function) {
                row.functions.push(function);
            }
        }
        match row.ranges.last_mut() {
            Some((_, end)) if *end == address => *end += 1,
            _ => row.ranges.push((address, address + 1)),
        }
    }
    let mut rows: Vec<LineCode> = rows.into_values().collect();
    rows.sort_by(|a, b| b.samples.cmp(&a.samples).then_with(|| a.line.cmp(&b.line)));
    rows
}

/// The functions around samples, relative to the image base: sorted, without overlap.
fn extents(path: &Path, samples: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let Ok(file) = ElfFile::open(path) else { return Vec::new() };
    let Ok(elf) = file.parse() else { return Vec::new() };
    let (base, symbols) = (elf.image_base(), Symbols::read(&elf));
    let mut bounds = Bounds::of(file.map());
    let mut extents: Vec<(u64, u64)> = Vec::new();
    for &(address, _) in samples {
        if extents.last().is_some_and(|&(_, end)| address < end) {
            continue;
        }
        let here = RelativeAddress(address);
        let of_symbol = base.checked_file(here).and_then(|address| symbols.find(address));
        let of_symbol =
            of_symbol.map(|symbol| base.relative_or_zero(symbol.start)..base.relative_or_zero(symbol.end));
        let around = of_symbol.or_else(|| bounds.find(here)).filter(|around| around.contains(&here));
        let Some((start, end)) = around.map(|around| (around.start.0, around.end.0)) else {
            continue;
        };
        let first = extents.last().map_or(0, |&(_, end)| end).max(start).max(address.saturating_sub(LONGEST));
        extents.push((first, end.min(address + LONGEST)));
    }
    extents
}

/// A profile that consists of these addresses, with frames.
pub(crate) fn with_frames(path: &Path, addresses: &[u64]) -> Option<(Profile, Vec<LocationId>)> {
    let mut rows = Builder::new();
    let kind = kind_of(path);
    let path = rows.string(&path.to_string_lossy());
    let module = rows.module(Module {
        path,
        build_id: None,
        kind,
        symbols: SymbolState::default(),
        optimised: Optimised::default(),
    });
    let locations =
        addresses.iter().map(|&address| rows.location(Some(module), RelativeAddress(address))).collect();
    let mut profile = rows.into_profile(Meta::default())?;
    let options = Options { cache: None, keep_sources: false, keep_code: false, ..Options::default() };
    symbolize(&mut profile, &options);
    Some((profile, locations))
}

/// Libraries are known by their names: those of the system are not the user's code, even if they have lines.
fn kind_of(path: &Path) -> ModuleKind {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match name.ends_with(".so") || name.contains(".so.") {
        true => ModuleKind::Library,
        false => ModuleKind::Program,
    }
}

/// The innermost line in the scope, and the functions in the scope from there outwards.
fn line_of(profile: &Profile, location: LocationId, scope: &Scope) -> Option<(SourceLine, Vec<String>)> {
    let is_in_scope = |frame: &&Frame| {
        let function = &profile.functions[frame.function.index()];
        match scope {
            Scope::All => true,
            Scope::Own => function.kind == CodeKind::Yours,
            Scope::Crate(name) => function.crate_name.is_some_and(|id| profile.text(id) == name),
        }
    };
    let mut frames = profile.frames.of(location).iter().rev().filter(is_in_scope);
    let frame = frames.next().filter(|frame| frame.line > 0)?;
    let name = |frame: &Frame| profile.text(profile.functions[frame.function.index()].name).to_owned();
    let line =
        SourceLine { function: name(frame), file: profile.text(frame.file?).to_owned(), line: frame.line };
    let functions = std::iter::once(frame).chain(frames).map(name).collect();
    Some((line, functions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn sums(numbers: &[u64]) -> u64 {
        numbers.iter().map(|number| number * 3).sum()
    }

    #[test]
    fn the_code_of_a_function_belongs_to_its_lines() {
        assert_eq!(sums(&[1, 2]), 9);
        let path = std::env::current_exe().unwrap();
        let file = ElfFile::open(&path).unwrap();
        let elf = file.parse().unwrap();
        let wanted = whyslow_names::Wanted::new("own_lines::tests::sums");
        let found = crate::functions(&elf, None, &wanted);
        let function = found.iter().find(|found| found.name.ends_with("sums")).unwrap();
        let lines = own_lines(&path, &[(function.start.0, 5)], &Scope::All);
        assert!(lines.iter().all(|line| !line.ranges.is_empty()));
        let hottest = &lines[0];
        assert_eq!(hottest.samples, 5);
        assert!(hottest.ranges.iter().any(|&(start, end)| (start..end).contains(&function.start.0)));
        assert!(hottest.line.file.ends_with("own_lines.rs") && hottest.line.function.ends_with("sums"));
    }

    #[test]
    fn a_library_of_the_system_with_lines_is_not_the_users_own_code() {
        let path = std::env::current_exe().unwrap();
        let file = ElfFile::open(&path).unwrap();
        let elf = file.parse().unwrap();
        let found = crate::functions(&elf, None, &whyslow_names::Wanted::new("own_lines::tests::sums"));
        let samples = [(found[0].start.0, 5)];
        let folder = tempfile::tempdir().unwrap();
        let own = |name: &str| {
            let path = folder.path().join(name);
            std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &path).unwrap();
            own_lines(&path, &samples, &Scope::Own)
        };
        assert!(own("libc.so.6").is_empty());
        assert!(!own("app").is_empty() && !own("libplugin.so").is_empty());
    }
}
