//! Reads from an ELF file how it was built, as far as unwinding and symbols need it.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use gimli::{EndianSlice, LittleEndian};
use object::elf;
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use whyslow_elf::{DebugFolders, Elf, ElfFile, FileAddress, FileBytes, Headers};
use whyslow_unwind::{Image, UnwindTables};

/// Units of debug info to read; a sample is enough.
const MAX_UNITS: usize = 4000;
/// Functions to check for frame pointers.
const MAX_FUNCTIONS: usize = 20_000;

/// How a file was built.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Binary {
    pub(super) kind: Kind,
    pub(super) arch: String,
    pub(super) is_rust: bool,
    pub(super) debug: DebugInfo,
    /// Definitions in the full symbol table, and in the dynamic one.
    pub(super) symbols: (usize, usize),
    pub(super) tables: UnwindTables,
    pub(super) build_id: Option<String>,
    pub(super) is_static: bool,
    pub(super) optimised: Option<bool>,
    /// The share of functions that set up a frame pointer; `None` without functions to check.
    pub(super) frame_pointers: Option<f64>,
}

/// What an ELF file is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Program,
    Library,
    /// An object file or a core dump: it does not run.
    Other,
}

/// The debug info of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum DebugInfo {
    /// None.
    #[default]
    None,
    /// Line tables.
    Lines,
    /// Line tables of Rust's standard library only.
    OnlyStd,
    /// In other files (.dwo, .dwp).
    Split,
    /// Line tables in another file, which was found.
    Separate(PathBuf),
    /// In another file of this name, which was not found.
    Link(String),
}

/// Why a file cannot be read as ELF.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotElf {
    /// `#!interpreter`
    Script(String),
    /// Something else.
    Other(String),
}

impl Binary {
    /// Reads a file, and looks for its debug file in these folders.
    pub(super) fn parse(path: &Path, bytes: &FileBytes, folders: &DebugFolders) -> Result<Self, NotElf> {
        if let Some(script) = bytes.strip_prefix(b"#!") {
            let line = script.split(|byte| *byte == b'\n').next().unwrap_or_default();
            return Err(NotElf::Script(String::from_utf8_lossy(line).trim().to_owned()));
        }
        let file = object::File::parse(&**bytes).map_err(|error| NotElf::Other(error.to_string()))?;
        let mut binary =
            Self { arch: arch(file.architecture()), is_rust: mentions_rust(&file), ..Self::default() };
        binary.symbols = (definitions(file.symbols()), definitions(file.dynamic_symbols()));
        binary.frame_pointers = frame_pointers(&file);
        // Only 64-bit files run on the supported machines.
        let Ok(elf) = Elf::parse(bytes) else { return Ok(binary) };
        let separate = whyslow_symbols::separate_debug_file(path, &elf, folders);
        binary.look_for_debug_info(&elf, separate.as_ref());
        (binary.kind, binary.is_static) = kind(&elf);
        binary.build_id = elf.build_id().map(|id| id.to_string());
        binary.tables =
            Image::from_file(bytes.clone()).map(|image| image.unwind_tables()).unwrap_or_default();
        let names = Names::read(&file);
        binary.optimised = names.optimised(binary.is_rust).or(binary.optimised);
        Ok(binary)
    }

    /// Reads debug info and names, from the file or its separate debug file.
    fn look_for_debug_info(&mut self, elf: &Elf<'_>, separate: Option<&ElfFile>) {
        let debug = separate.and_then(|file| file.parse().ok());
        let units = Units::read(debug.as_ref().unwrap_or(elf));
        self.is_rust |= units.rust > 0;
        self.optimised = units.optimised;
        self.debug = match (separate, elf.debuglink()) {
            _ if units.split > 0 => DebugInfo::Split,
            (Some(file), _) => DebugInfo::Separate(file.path.clone()),
            _ if units.own > 0 => DebugInfo::Lines,
            _ if units.std > 0 => DebugInfo::OnlyStd,
            (None, Some((name, _))) => DebugInfo::Link(String::from_utf8_lossy(name).into_owned()),
            (None, None) => DebugInfo::None,
        };
        if self.symbols.0 == 0 {
            let in_other = |debug: &Elf<'_>| whyslow_symbols::named_functions(debug);
            self.symbols.0 = whyslow_symbols::named_functions(elf).max(debug.as_ref().map_or(0, in_other));
        }
    }
}

fn definitions<'a>(symbols: impl Iterator<Item = object::Symbol<'a, 'a>>) -> usize {
    symbols.filter(ObjectSymbol::is_definition).count()
}

fn arch(architecture: object::Architecture) -> String {
    match architecture {
        object::Architecture::X86_64 => "x86_64".to_owned(),
        object::Architecture::Aarch64 => "aarch64".to_owned(),
        object::Architecture::I386 => "x86".to_owned(),
        other => format!("{other:?}").to_lowercase(),
    }
}

/// The kind of file, and whether it needs no dynamic linker.
fn kind(headers: &Headers<'_>) -> (Kind, bool) {
    let interpreted = headers.has_interpreter();
    match headers.kind() {
        elf::ET_EXEC => (Kind::Program, !interpreted),
        elf::ET_DYN if interpreted => (Kind::Program, false),
        // Static position-independent programs look like libraries, but have an entry point and no soname.
        elf::ET_DYN if headers.entry() != FileAddress(0) && !headers.has_soname() => (Kind::Program, true),
        elf::ET_DYN => (Kind::Library, false),
        _ => (Kind::Other, false),
    }
}

fn mentions_rust(file: &object::File<'_>) -> bool {
    // Panic messages name files of the standard library.
    let text = file.section_by_name(".rodata").and_then(|section| section.data().ok()).unwrap_or_default();
    contains(text, b"/rustc/") || contains(text, b"library/std/src")
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    let Some(first) = word.first() else { return true };
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        rest = &rest[at..];
        if rest.starts_with(word) {
            return true;
        }
        rest = &rest[1..];
    }
    false
}

/// Counts over the units of debug info.
#[derive(Debug, Default)]
struct Units {
    rust: usize,
    own: usize,
    std: usize,
    split: usize,
    optimised: Option<bool>,
}

impl Units {
    fn read(elf: &Elf<'_>) -> Self {
        let mut units = Self::default();
        let load = |id: gimli::SectionId| Ok::<_, gimli::Error>(elf.section(id.name()));
        let Ok(sections) = gimli::DwarfSections::<Cow<'_, [u8]>>::load(load) else { return units };
        let dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, LittleEndian));
        let mut headers = dwarf.units();
        for _ in 0..MAX_UNITS {
            match headers.next() {
                Ok(Some(header)) => units.add(&dwarf, header),
                _ => break,
            }
        }
        units
    }

    fn add(
        &mut self,
        dwarf: &gimli::Dwarf<EndianSlice<'_, LittleEndian>>,
        header: gimli::UnitHeader<EndianSlice<'_, LittleEndian>>,
    ) {
        let Ok(unit) = dwarf.unit(header) else { return };
        let mut entries = unit.entries();
        let Ok(Some(root)) = entries.next_dfs() else { return };
        if unit.dwo_name().is_ok_and(|name| name.is_some()) {
            self.split += 1;
            return;
        }
        let text = |name| {
            let value = root.attr_value(name)?;
            dwarf.attr_string(&unit, value).ok().map(|text| text.to_string_lossy().into_owned())
        };
        let folder = text(gimli::DW_AT_comp_dir).unwrap_or_default();
        let file = text(gimli::DW_AT_name).unwrap_or_default();
        let producer = text(gimli::DW_AT_producer).unwrap_or_default();
        let is_rust = producer.contains("rustc");
        self.rust += usize::from(is_rust);
        if is_rust
            && ["/rustc/", "/rust/deps/"]
                .iter()
                .any(|of_std| folder.starts_with(of_std) || file.starts_with(of_std))
        {
            self.std += 1;
        } else {
            self.own += 1;
            self.optimised = self.optimised.or(whyslow_symbols::producer_flag(&producer));
        }
    }
}

/// Function names that show whether Rust code was optimised.
///
/// | functions that exist | optimised |
/// |---|---|
/// | steps of ranges, which any optimisation inlines | no |
/// | only checks of debug assertions | unknown: they are on, with or without optimisation |
/// | neither | yes |
#[derive(Debug, Default)]
struct Names {
    functions: usize,
    steps: usize,
    assertions: usize,
}

impl Names {
    fn read(file: &object::File<'_>) -> Self {
        let functions =
            file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition());
        functions.filter_map(|symbol| symbol.name().ok()).fold(Self::default(), |names, name| Self {
            functions: names.functions + 1,
            steps: names.steps
                + usize::from(name.contains("spec_next") || name.contains("forward_unchecked")),
            assertions: names.assertions + usize::from(name.contains("precondition_check")),
        })
    }

    fn optimised(&self, is_rust: bool) -> Option<bool> {
        match self {
            Self { functions: 0, .. } => None,
            _ if !is_rust => None,
            Self { steps: 1.., .. } => Some(false),
            Self { assertions: 1.., .. } => None,
            _ => Some(true),
        }
    }
}

/// `endbr64? push rbp; mov rbp, rsp` on x86-64; `stp x29, x30, [sp, …]` within the first instructions on aarch64.
fn frame_pointers(file: &object::File<'_>) -> Option<f64> {
    let text = file.section_by_name(".text")?;
    let (start, code) = (text.address(), text.data().ok()?);
    let starts_with_frame: fn(&[u8]) -> bool = match file.architecture() {
        object::Architecture::X86_64 => |code| {
            let code = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(code);
            code.starts_with(&[0x55, 0x48, 0x89, 0xe5])
        },
        object::Architecture::Aarch64 => |code| {
            let words = code.chunks_exact(4).take(3);
            words.into_iter().any(|word| {
                let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
                // stp x29, x30, [sp, #imm] and its pre-indexed form.
                word & 0xfe40_7fff == 0xa800_7bfd & 0xfe40_7fff && word & 0x3e0 == 0x3e0
            })
        },
        _ => return None,
    };
    let functions = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() >= 32);
    let (mut all, mut with) = (0u32, 0u32);
    for symbol in functions.take(MAX_FUNCTIONS) {
        let at = symbol.address().checked_sub(start).and_then(|at| usize::try_from(at).ok());
        if let Some(code) = at.and_then(|at| code.get(at..)) {
            all += 1;
            with += u32::from(starts_with_frame(code));
        }
    }
    (all > 0).then(|| f64::from(with) / f64::from(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8]) -> Result<Binary, NotElf> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let bytes = FileBytes::open(file.path()).unwrap();
        Binary::parse(file.path(), &bytes, &DebugFolders::default())
    }

    #[test]
    fn reads_this_test_program() {
        let binary = parse(&std::fs::read(std::env::current_exe().unwrap()).unwrap()).unwrap();
        assert_eq!((binary.kind, binary.is_rust, binary.is_static), (Kind::Program, true, false));
        assert_eq!(binary.arch, std::env::consts::ARCH);
        assert_eq!(binary.debug, DebugInfo::Lines);
        assert!(binary.symbols.0 > 100 && binary.tables.eh_frame && binary.tables.index, "{binary:?}");
    }

    #[test]
    fn recognises_scripts_and_other_files() {
        assert_eq!(parse(b"#!/bin/sh -e\nexit"), Err(NotElf::Script("/bin/sh -e".to_owned())));
        assert!(matches!(parse(b"hello"), Err(NotElf::Other(_))));
        assert!(matches!(parse(b"\x7fELF"), Err(NotElf::Other(_))));
    }

    #[test]
    fn finds_words() {
        assert!(contains(b"aab", b"ab"));
        assert!(!contains(b"aaa", b"ab"));
    }
}
