//! What an ELF file tells about how it was built. Pure: bytes in, facts out.

use gimli::{EndianSlice, LittleEndian};
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{CompressionFormat, Object, ObjectSection, ObjectSymbol, SymbolKind};

/// Units of debug information that are looked at; a sample is enough to tell.
const UNITS_LOOKED_AT: usize = 4000;
/// Functions whose first bytes are looked at.
const FUNCTIONS_LOOKED_AT: usize = 20_000;

/// How a file was built.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Binary {
    pub(super) kind: Kind,
    pub(super) arch: String,
    pub(super) is_rust: bool,
    pub(super) debug: DebugInfo,
    /// Names in the full symbol table, and in the dynamic one.
    pub(super) symbols: (usize, usize),
    pub(super) eh_frame: bool,
    pub(super) eh_frame_hdr: bool,
    pub(super) debug_frame: bool,
    pub(super) build_id: Option<String>,
    pub(super) is_static: bool,
    pub(super) optimised: Option<bool>,
    /// Share of functions that set up a frame pointer first; `None` without functions to look at.
    pub(super) frame_pointers: Option<f64>,
}

/// What an ELF file is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Program,
    Library,
    /// An object file, a core dump: nothing that runs.
    Other,
}

/// What there is of debug information.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum DebugInfo {
    /// Nothing.
    #[default]
    None,
    /// Lines.
    Lines,
    /// Lines, but only of Rust's standard library.
    OnlyStd,
    /// In other files (.dwo, .dwp).
    Split,
    /// In one other file, named here.
    Link(String),
}

/// Why a file cannot be looked into.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotElf {
    /// `#!interpreter`
    Script(String),
    /// Something else.
    Other(String),
}

impl Binary {
    /// Looks into the bytes of a file.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, NotElf> {
        if let Some(script) = bytes.strip_prefix(b"#!") {
            let line = script.split(|byte| *byte == b'\n').next().unwrap_or_default();
            return Err(NotElf::Script(String::from_utf8_lossy(line).trim().to_owned()));
        }
        let file = object::File::parse(bytes).map_err(|error| NotElf::Other(error.to_string()))?;
        let (units, symbols) =
            (Units::read(&file), file.symbols().filter(ObjectSymbol::is_definition).count());
        let is_rust = units.rust > 0 || mentions_rust(&file);
        let names = Names::read(&file);
        let has = |name: &str| file.section_by_name(name).is_some_and(|section| section.size() > 0);
        let link = file.gnu_debuglink().ok().flatten();
        let debug = match link {
            _ if units.split > 0 => DebugInfo::Split,
            _ if units.own > 0 || units.unreadable => DebugInfo::Lines,
            Some((name, _)) => DebugInfo::Link(String::from_utf8_lossy(name).into_owned()),
            None if units.std > 0 => DebugInfo::OnlyStd,
            None => DebugInfo::None,
        };
        let (kind, is_static) = kind(bytes);
        Ok(Self {
            kind,
            arch: arch(file.architecture()),
            is_rust,
            debug,
            symbols: (symbols, file.dynamic_symbols().filter(ObjectSymbol::is_definition).count()),
            eh_frame: has(".eh_frame"),
            eh_frame_hdr: has(".eh_frame_hdr"),
            debug_frame: has(".debug_frame"),
            build_id: file
                .build_id()
                .ok()
                .flatten()
                .map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect()),
            is_static,
            optimised: names.optimised(is_rust).or(units.optimised),
            frame_pointers: frame_pointers(&file),
        })
    }
}

fn arch(architecture: object::Architecture) -> String {
    match architecture {
        object::Architecture::X86_64 => "x86_64".to_owned(),
        object::Architecture::Aarch64 => "aarch64".to_owned(),
        object::Architecture::I386 => "x86".to_owned(),
        other => format!("{other:?}").to_lowercase(),
    }
}

/// Kind of file, and whether it needs no dynamic linker.
fn kind(bytes: &[u8]) -> (Kind, bool) {
    let Ok(header) = elf::FileHeader64::<object::LittleEndian>::parse(bytes) else {
        return (Kind::Program, false);
    };
    let endian = object::LittleEndian;
    let segments = header.program_headers(endian, bytes).unwrap_or_default();
    let interpreted = segments.iter().any(|segment| segment.p_type(endian) == elf::PT_INTERP);
    match header.e_type.get(endian) {
        elf::ET_EXEC => (Kind::Program, !interpreted),
        elf::ET_DYN if interpreted => (Kind::Program, false),
        // Static programs that can be loaded anywhere look like libraries; only they have an entry point and no name.
        elf::ET_DYN if header.e_entry.get(endian) != 0 && !has_soname(bytes) => (Kind::Program, true),
        elf::ET_DYN => (Kind::Library, false),
        _ => (Kind::Other, false),
    }
}

fn has_soname(bytes: &[u8]) -> bool {
    use object::read::elf::Dyn;
    let endian = object::LittleEndian;
    let Ok(header) = elf::FileHeader64::<object::LittleEndian>::parse(bytes) else { return false };
    let segments = header.program_headers(endian, bytes).unwrap_or_default();
    let dynamic = segments.iter().find_map(|segment| segment.dynamic(endian, bytes).ok().flatten());
    dynamic.unwrap_or_default().iter().any(|entry| entry.d_tag(endian) == elf::DT_SONAME)
}

fn mentions_rust(file: &object::File<'_>) -> bool {
    // Messages of panics name the files of the standard library.
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

/// Counts over the units of debug information.
#[derive(Debug, Default)]
struct Units {
    rust: usize,
    own: usize,
    std: usize,
    split: usize,
    optimised: Option<bool>,
    /// There is debug information, compressed or of a form not read here.
    unreadable: bool,
}

impl Units {
    fn read(file: &object::File<'_>) -> Self {
        let mut units = Self::default();
        let Some(info) = file.section_by_name(".debug_info").filter(|section| section.size() > 0) else {
            return units;
        };
        let compressed = |section: &object::Section<'_, '_>| {
            section.compressed_file_range().is_ok_and(|range| range.format != CompressionFormat::None)
        };
        if compressed(&info) || !file.is_little_endian() {
            return Self { unreadable: true, ..units };
        }
        let load = |id: gimli::SectionId| {
            let section = file.section_by_name(id.name()).filter(|section| !compressed(section));
            let data = section.and_then(|section| section.data().ok()).unwrap_or_default();
            Ok::<_, gimli::Error>(EndianSlice::new(data, LittleEndian))
        };
        let Ok(dwarf) = gimli::Dwarf::load(load) else { return units };
        let mut headers = dwarf.units();
        for _ in 0..UNITS_LOOKED_AT {
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
            self.optimised = self.optimised.or(gcc_optimised(&producer));
        }
    }
}

/// gcc repeats its code generation flags in its name; other compilers do not.
fn gcc_optimised(producer: &str) -> Option<bool> {
    let has_flags =
        producer.starts_with("GNU ") && !producer.starts_with("GNU AS") && producer.contains(" -");
    has_flags
        .then(|| producer.split(' ').rfind(|flag| flag.starts_with("-O")).is_some_and(|flag| flag != "-O0"))
}

/// Names that tell whether Rust code was optimised.
///
/// | functions that exist | answer |
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
    for symbol in functions.take(FUNCTIONS_LOOKED_AT) {
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

    #[test]
    fn this_very_test_program_is_understood() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let binary = Binary::parse(&bytes).unwrap();
        assert_eq!((binary.kind, binary.is_rust, binary.is_static), (Kind::Program, true, false));
        assert_eq!(binary.arch, std::env::consts::ARCH);
        assert_eq!(binary.debug, DebugInfo::Lines);
        assert!(binary.symbols.0 > 100 && binary.eh_frame, "{binary:?}");
    }

    #[test]
    fn scripts_and_other_files_are_told_apart() {
        assert_eq!(Binary::parse(b"#!/bin/sh -e\nexit"), Err(NotElf::Script("/bin/sh -e".to_owned())));
        assert!(matches!(Binary::parse(b"hello"), Err(NotElf::Other(_))));
        assert!(matches!(Binary::parse(b"\x7fELF"), Err(NotElf::Other(_))));
    }

    #[test]
    fn words_are_found() {
        assert!(contains(b"aab", b"ab"));
        assert!(!contains(b"aaa", b"ab"));
    }
}
