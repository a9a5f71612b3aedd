//! Resolves a module's addresses with the right source: ELF file, kernel, vdso, JIT files.

use std::path::Path;

use whyslow_elf::{BuildId, DebugFolders, Elf, ElfFile, FileBytes};
use whyslow_numbers::{FileAddress, ImageBase, RelativeAddress};
use whyslow_proc::DELETED;
use whyslow_profile::{ModuleId, ModuleKind, Optimised, Profile, SymbolState};

use crate::Options;
use crate::answers::{Answers, RawFrame, RawFunction};
use crate::dwarf::{self, DebugInfo, Units};
use crate::optimised::Evidence;
use crate::plt::{self, Stub};
use crate::symtab::Symbols;
use crate::unnamed::{self, Bounds};
use crate::{agent, jit, kernel, split};

/// Addresses of a module to resolve.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    /// Its path in the profile.
    pub path: String,
    /// Its build id in the profile.
    pub build_id: Option<String>,
    /// Its kind.
    pub kind: ModuleKind,
    /// The executed file, if it is still open.
    pub file: Option<FileBytes>,
    /// Sorted and distinct.
    pub addresses: Vec<RelativeAddress>,
}

impl Question {
    /// Creates a question about these addresses of a module.
    pub(crate) fn of(
        profile: &Profile,
        module: ModuleId,
        file: Option<FileBytes>,
        addresses: Vec<RelativeAddress>,
    ) -> Self {
        let row = &profile.modules[module.index()];
        Self {
            path: profile.text(row.path).to_owned(),
            build_id: row.build_id.map(|id| profile.text(id).to_owned()),
            kind: row.kind,
            file,
            addresses,
        }
    }

    /// The path without the mark for deleted files.
    pub(crate) fn path(&self) -> &Path {
        Path::new(self.path.strip_suffix(DELETED).unwrap_or(&self.path))
    }

    /// Whether a file has the recorded build id; true if none was recorded.
    fn has_build_id(&self, found: Option<&BuildId>) -> bool {
        self.build_id.as_ref().is_none_or(|recorded| found.is_some_and(|id| id.is(recorded)))
    }
}

/// The symbols from a module's files.
#[derive(Debug, Default, Clone)]
pub(crate) struct Answer {
    /// One site per address, some without frames.
    pub answers: Answers,
    /// The source of the names.
    pub source: Source,
    /// The units' evidence about optimisation.
    pub evidence: Evidence,
    /// Whether another attempt could not find more: every split unit was found.
    pub complete: bool,
    /// A description of the problem, if there is one.
    pub problem: Option<String>,
    /// Whether the path no longer leads to the executed file.
    pub replaced: bool,
}

/// The source of names, before it is known how many addresses they cover.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Nothing could be read.
    #[default]
    Missing,
    /// Names for the dynamic linker.
    Stripped,
    /// A symbol table.
    Names,
    /// Debug info.
    Lines,
}

impl Answer {
    fn missing(problem: impl Into<String>) -> Self {
        Self { problem: Some(problem.into()), ..Self::default() }
    }

    /// The module's state. A program without its own debug info still contains that of the standard library;
    /// it has names, not lines.
    pub(crate) fn state(&self) -> SymbolState {
        match self.source {
            Source::Missing if self.replaced => return SymbolState::Replaced,
            Source::Missing => return SymbolState::Missing,
            Source::Stripped => return SymbolState::Stripped,
            Source::Names => return SymbolState::Names,
            Source::Lines => {}
        }
        let mut own_lines = 0_usize;
        let mut only_names = 0_usize;
        for site in self.answers.sites() {
            let frames = self.answers.frames_of(site);
            let Some(outermost) = frames.first() else { continue };
            let function = self.answers.functions().get(outermost.function as usize);
            let file = function.and_then(|function| function.file).or(outermost.file);
            if file.is_none() && frames.iter().all(|frame| frame.line == 0) {
                only_names += 1;
                continue;
            }
            own_lines +=
                usize::from(!file.is_some_and(|file| crate::kind::is_std_path(self.answers.text(file))));
        }
        if own_lines > 0 || only_names == 0 { SymbolState::Lines } else { SymbolState::Names }
    }

    /// Whether the module was optimised.
    pub(crate) fn optimised(&self) -> Optimised {
        self.evidence.verdict()
    }
}

/// Answers a question.
pub(crate) fn resolve(question: &Question, options: &Options) -> Answer {
    match question.kind {
        ModuleKind::Library if agent::is_path(&question.path) => {
            let answers = agent::resolve(&question.addresses);
            Answer { answers, source: Source::Names, ..Answer::default() }
        }
        ModuleKind::Kernel if !question.has_build_id(whyslow_proc::kernel::build_id().as_ref()) => {
            Answer::missing("it was recorded under another kernel")
        }
        ModuleKind::Kernel => match kernel::resolve(&question.addresses, options.cache.as_deref()) {
            Some(answers) => Answer { answers, source: Source::Names, complete: true, ..Answer::default() },
            None => Answer::missing("the kernel hides its symbols (kernel.kptr_restrict)"),
        },
        ModuleKind::Vdso => match whyslow_proc::kernel::vdso() {
            Ok(image) => resolve_image(&image, question),
            Err(error) => Answer::missing(error.to_string()),
        },
        ModuleKind::Jit => match jit::resolve(&question.path, &question.addresses) {
            Some(answers) => {
                let has_lines = answers.functions().iter().any(|function| function.line > 0);
                let source = if has_lines { Source::Lines } else { Source::Names };
                Answer { answers, source, ..Answer::default() }
            }
            None => Answer::missing("no perf map or jitdump file"),
        },
        ModuleKind::Program | ModuleKind::Library | ModuleKind::Unknown => resolve_file(question, options),
        ModuleKind::NotSampled | ModuleKind::Waiting(_) | ModuleKind::SystemCall | ModuleKind::LeftOut => {
            Answer::default()
        }
    }
}

fn resolve_image(image: &[u8], question: &Question) -> Answer {
    match Elf::parse(image) {
        Ok(elf) if !question.has_build_id(elf.build_id().as_ref()) => {
            Answer::missing("it was recorded under another kernel")
        }
        Ok(elf) => {
            let symbols = Symbols::read(&elf);
            let mut answers = Answers::default();
            name_the_rest(&symbols, &[], None, &question.addresses, elf.image_base(), &mut answers);
            Answer { answers, source: Source::Names, ..Answer::default() }
        }
        Err(error) => Answer::missing(error.to_string()),
    }
}

/// Why a module's file cannot be used.
#[derive(Debug)]
pub(crate) struct NoFile {
    problem: String,
    /// The path leads to no file any more, or to another one.
    replaced: bool,
}

/// Opens the module's file: the one that is already open, or the one at its path if that is the executed
/// file.
pub(crate) fn open(question: &Question) -> Result<ElfFile, NoFile> {
    if let Some(file) = &question.file {
        return Ok(ElfFile::new(question.path(), file.clone()));
    }
    let deleted = question.path.ends_with(DELETED);
    let unusable = |problem: String| NoFile { problem, replaced: deleted };
    let file = ElfFile::open(question.path()).map_err(|error| unusable(error.to_string()))?;
    let on_disk = file.parse().map_err(|error| unusable(error.to_string()))?.build_id();
    match &question.build_id {
        Some(_) if !question.has_build_id(on_disk.as_ref()) => {
            Err(NoFile { problem: "the file was rebuilt since the recording".to_owned(), replaced: true })
        }
        None if deleted => Err(unusable("the file was deleted".to_owned())),
        _ => Ok(file),
    }
}

/// The separate debug file of a file without its own debug info, if one is found.
pub fn separate_debug_file(path: &Path, elf: &Elf<'_>, folders: &DebugFolders) -> Option<ElfFile> {
    if elf.has_debug_info() {
        return None;
    }
    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the method is of one lifetime, the closure of any"
    )]
    folders.find(path, elf, |debug| debug.has_debug_info())
}

fn resolve_file(question: &Question, options: &Options) -> Answer {
    let file = match open(question) {
        Ok(file) => file,
        Err(NoFile { problem, replaced }) => return Answer { replaced, ..Answer::missing(problem) },
    };
    let elf = match file.parse() {
        Ok(elf) => elf,
        Err(error) => return Answer::missing(error.to_string()),
    };
    let base = elf.image_base();
    let separate = separate_debug_file(question.path(), &elf, &options.debug_folders);
    let debug_file = separate.as_ref().unwrap_or(&file);
    let Ok(debug_elf) = debug_file.parse() else { return Answer::missing("damaged debug file") };

    let mut symbols = Symbols::read(&elf);
    if !symbols.full && separate.is_some() {
        let others = Symbols::read(&debug_elf);
        if others.full {
            symbols = others;
        }
    }

    let mut answer = Answer { source: Source::of(&symbols), complete: true, ..Answer::default() };
    let wanted: Vec<FileAddress> =
        question.addresses.iter().filter_map(|address| base.checked_file(*address)).collect();
    let found = with_debug_info(question.path(), debug_file, &symbols, &options.debug_folders, |info| {
        info.resolve(&wanted)
    });
    if let Some(found) = found {
        answer.source = Source::Lines;
        answer.answers = found.answers.relative_to(base);
        answer.evidence = found.evidence;
        answer.complete = found.missing_units == 0;
        if found.missing_units > 0 {
            answer.problem =
                Some(format!("split debug info is missing: {} units were not found", found.missing_units));
        }
    }
    let stubs = plt::stubs(&elf);
    name_the_rest(&symbols, &stubs, Some(file.map()), &question.addresses, base, &mut answer.answers);
    answer
}

/// Opens the debug info of a module, including its parts in other files, and passes it on. `None` if there is
/// none.
pub(crate) fn with_debug_info<T>(
    path: &Path,
    debug_file: &ElfFile,
    symbols: &Symbols<'_>,
    folders: &DebugFolders,
    then: impl FnOnce(&DebugInfo<'_>) -> T,
) -> Option<T> {
    let sections = dwarf::sections(&debug_file.parse().ok()?);
    let supplementary_file = folders.find_supplementary(debug_file);
    let supplementary_elf = supplementary_file.as_ref().and_then(|file| file.parse().ok());
    let supplementary_sections = supplementary_elf.as_ref().map(dwarf::sections);
    let mut dwarf = dwarf::borrow(&sections);
    let supplementary_dwarf = supplementary_sections.as_ref().map(dwarf::borrow);
    if let Some(sections) = &supplementary_sections {
        dwarf.set_sup(dwarf::borrow(sections));
    }
    let package_file = split::package_file(path);
    let package_elf = package_file.as_ref().and_then(|file| file.parse().ok());
    let package_sections = package_elf.as_ref().and_then(split::package_sections);
    let empty = dwarf::Slice::new(&[], gimli::LittleEndian);
    let package = package_sections
        .as_ref()
        .and_then(|sections| sections.borrow(|bytes| dwarf::slice(bytes), empty).ok());
    let units = Units::read(&dwarf);
    if units.is_empty() {
        return None;
    }
    let supplementary = supplementary_dwarf.as_ref().map(Units::read);
    Some(then(&DebugInfo { units, supplementary, package, symbols, path }))
}

impl Source {
    /// The source if there are only symbols.
    fn of(symbols: &Symbols<'_>) -> Self {
        if symbols.full && !symbols.is_empty() { Self::Names } else { Self::Stripped }
    }
}

/// Adds the addresses without a site: with the name of a symbol or stub if there is one, else with the bounds
/// of their function from the file's unwind tables.
fn name_the_rest(
    symbols: &Symbols<'_>,
    stubs: &[Stub],
    file: Option<&FileBytes>,
    addresses: &[RelativeAddress],
    base: ImageBase,
    answers: &mut Answers,
) {
    let known: rustc_hash::FxHashSet<RelativeAddress> =
        answers.sites().iter().map(|site| site.address).collect();
    let mut bounds: Option<Bounds> = None;
    for &address in addresses.iter().filter(|address| !known.contains(address)) {
        let named = base.checked_file(address).and_then(|address| {
            let symbol = symbols.find(address).map(|symbol| (symbol.name, symbol.start, symbol.end));
            symbol.or_else(|| plt::find(stubs, address).map(|stub| (&*stub.name, stub.start, stub.end)))
        });
        let (name, extent) = if let Some((name, start, end)) = named {
            (answers.text_id(name), (base.relative_or_zero(start), base.relative_or_zero(end)))
        } else if let Some(range) =
            file.and_then(|file| bounds.get_or_insert_with(|| Bounds::of(file)).find(address))
        {
            (answers.text_id(&unnamed::placeholder(range.start)), (range.start, range.end))
        } else {
            answers.add(address, Default::default(), &[]);
            continue;
        };
        let function = answers.function_id(RawFunction { name, file: None, line: 0, form: None });
        answers.add(address, extent, &[RawFrame { function, file: None, line: 0 }]);
    }
}

#[cfg(test)]
mod tests {
    use whyslow_elf::testing::Built;
    use whyslow_unwind::Image;

    use super::*;

    /// The recorder makes a module's addresses relative to the base that unwinding uses, and symbols are
    /// found by the file's own addresses. Both must use the same base, whatever the order of segments.
    #[test]
    fn recorder_and_symboliser_use_the_same_base() {
        for order in [[0x1000, 0x9000], [0x9000, 0x1000]] {
            let code = |at: u64| if at == 0x9000 { b"upper" } else { b"lower" };
            let file = order.iter().fold(Built::default(), |file, &at| file.load(at, code(at))).bytes();
            let elf = Elf::parse(&file).unwrap();
            let image = Image::from_bytes(file.clone()).unwrap();
            let offset = elf.file_offset_of(FileAddress(0x9000)).unwrap();
            let relative = image.relative_address(offset).unwrap();
            assert_eq!(elf.image_base().file(relative), FileAddress(0x9000), "{order:x?}");
            assert_eq!(elf.bytes_at(elf.image_base().file(relative), 5), Some(&b"upper"[..]));
            assert_eq!(image.code_at(relative, 5), b"upper");
        }
    }
}
