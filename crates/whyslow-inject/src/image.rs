//! An ELF file as it is mapped in a process: its functions by name, and their bytes.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::Path;

use object::elf::{PT_GNU_EH_FRAME, STB_LOCAL, STT_FUNC};
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationTarget};
use whyslow_elf::{DebugFolders, Elf, ElfFile, Segment};
use whyslow_numbers::{Bias, FileAddress, RunTimeAddress};

use crate::arch::{Body, Code64, Prologue, Refusal};
use crate::functions::{Functions, Placed};
use crate::maps::Maps;
use crate::{landing_pads, unwind_table};

/// How the rarely used part of a function is named, which the compiler placed elsewhere.
const COLD: &str = ".cold";
/// How many symbols before an address may be the function that has it.
const MOST_ALIASES: usize = 16;

/// A module's file, and its separate debug file if its symbols are stripped.
#[derive(Debug)]
pub(crate) struct Files {
    main: ElfFile,
    debug: Option<ElfFile>,
}

/// Which function names of a module to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Symbols {
    /// The exported ones, which are in the file itself.
    Public,
    /// All, from a debug file if necessary.
    All,
}

impl Files {
    /// Opens a module. `name` is the file's name in the file system; `path` is where it can be read.
    pub(crate) fn open(path: &Path, name: &Path, symbols: Symbols) -> io::Result<Self> {
        let main = ElfFile::open(path)?;
        let debug = parse(main.bytes())
            .filter(|elf| symbols == Symbols::All && !elf.has_symbols())
            .and_then(|elf| separate_symbols(&elf, name));
        Ok(Self { main, debug })
    }

    /// Its loadable segments.
    pub(crate) fn loads(&self) -> Option<Vec<Segment>> {
        Some(parse(self.main.bytes())?.segments().collect())
    }

    /// Whether the module defines one of these functions. For libraries with very many functions, this is
    /// faster than reading all of them.
    pub(crate) fn define_any(&self, names: &[String]) -> bool {
        let files = [Some(&self.main), self.debug.as_ref()];
        files.into_iter().flatten().filter_map(|file| parse(file.bytes())).any(|elf| {
            let tables = [elf.object().symbol_table(), elf.object().dynamic_symbol_table()];
            tables.into_iter().flatten().flat_map(|table| table.symbols()).any(|symbol| {
                let name = symbol.name_bytes().unwrap_or_default();
                names.iter().any(|known| known.as_bytes() == name) && symbol.is_definition()
            })
        })
    }
}

/// A function of a module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function<'d> {
    pub(crate) name: &'d str,
    pub(crate) address: FileAddress,
    size: u64,
    pub(crate) is_local: bool,
}

/// What a word of the global offset table will hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot<'d> {
    /// A function of another module.
    Import(&'d str),
    /// An address in this module.
    Here(FileAddress),
}

/// A module in a process.
#[derive(Debug)]
pub(crate) struct Image<'d> {
    pub(crate) bias: Bias,
    pub(crate) range: Range<FileAddress>,
    /// Whether it requests the dynamic loader.
    pub(crate) has_interpreter: bool,
    /// Whether there is a full symbol table, in the file or in a debug file.
    pub(crate) has_symbols: bool,
    data: &'d [u8],
    /// Address, bytes, whether it is executable.
    segments: Vec<(FileAddress, &'d [u8], bool)>,
    /// In address order.
    functions: Vec<Function<'d>>,
    by_name: HashMap<&'d str, usize>,
    imports: Vec<&'d str>,
    /// Read on first use: large libraries have hundreds of thousands.
    slots: OnceCell<HashMap<FileAddress, Slot<'d>>>,
}

impl<'d> Image<'d> {
    /// A search table for its unwind information, if the file has none.
    pub(crate) fn unwind_table(&self) -> Vec<u8> {
        let Some(elf) = parse(self.data) else { return Vec::new() };
        if elf.segment(PT_GNU_EH_FRAME).is_some() {
            return Vec::new();
        }
        let Some(section) = elf.object().section_by_name(".eh_frame") else { return Vec::new() };
        let bytes = section.data().unwrap_or_default();
        unwind_table::build(bytes, self.bias.run_time(FileAddress(section.address())).0)
    }

    /// Reads a module that is mapped under this path. `None` if it is not an ELF file for x86-64, or not
    /// mapped.
    pub(crate) fn read(files: &'d Files, maps: &Maps, path: &str) -> Option<Self> {
        Self::at(files, bias(maps, path, &files.loads()?)?)
    }

    /// Reads a module with this bias.
    pub(crate) fn at(files: &'d Files, bias: Bias) -> Option<Self> {
        let data = files.main.bytes();
        let elf = parse(data)?;
        let loads: Vec<Segment> = elf.segments().collect();
        if !elf.is_position_independent() && bias != Bias::NONE {
            return None;
        }
        let start = loads.iter().map(|load| load.address).min()?;
        let end =
            loads.iter().map(|load| FileAddress(load.address.0.saturating_add(load.memory_len))).max()?;
        let segments = loads
            .iter()
            .filter_map(|load| Some((load.address, load.bytes(data)?, load.executable)))
            .collect();
        let debug = files.debug.as_ref().and_then(|debug| parse(debug.bytes()));
        let mut functions = Vec::new();
        collect(elf.object(), &mut functions);
        if let Some(debug) = &debug {
            collect(debug.object(), &mut functions);
        }
        functions.sort_by_key(|function: &Function<'_>| function.address);
        let mut by_name = HashMap::new();
        for (row, function) in functions.iter().enumerate() {
            // An exported function wins over a local one with the same name.
            let known = by_name.entry(function.name).or_insert(row);
            if functions[*known].is_local && !function.is_local {
                *known = row;
            }
        }
        let imports = elf
            .object()
            .dynamic_symbols()
            .filter(object::ObjectSymbol::is_undefined)
            .filter_map(|symbol| symbol.name().ok())
            .collect();
        Some(Self {
            bias,
            range: start..end,
            has_interpreter: elf.has_interpreter(),
            has_symbols: elf.has_symbols() || debug.is_some(),
            data,
            segments,
            functions,
            by_name,
            imports,
            slots: OnceCell::new(),
        })
    }

    /// The function with this name.
    pub(crate) fn function(&self, name: &str) -> Option<Function<'d>> {
        self.by_name.get(name).map(|row| self.functions[*row])
    }

    /// A function at its address in the process, with the instructions that a patch would cover.
    pub(crate) fn place(&self, function: Function<'_>) -> Placed {
        let prologue = match self.code(function) {
            Some(code) => Prologue::of(code, &self.cold_parts(function)),
            None => Err(Refusal::NoCode),
        };
        let address = self.bias.run_time(function.address).0;
        Placed { name: function.name.to_owned(), address, prologue }
    }

    /// The first function with a name that ends so. Compiler-generated names start with a hash.
    pub(crate) fn function_ending(&self, end: &str) -> Option<Function<'d>> {
        self.functions.iter().copied().find(|function| function.name.ends_with(end))
    }

    /// The functions that start at an address.
    pub(crate) fn functions_at(&self, address: FileAddress) -> impl Iterator<Item = Function<'d>> {
        let first = self.functions.partition_point(|function| function.address < address);
        self.functions[first..].iter().copied().take_while(move |function| function.address == address)
    }

    /// A function's code, at the addresses where it runs. `None` if the file has no code for it.
    pub(crate) fn code(&self, function: Function<'_>) -> Option<Code64<'d>> {
        let rest = self.executable_from(function.address)?;
        let after = self.functions.partition_point(|other| other.address <= function.address);
        let to_next =
            self.functions.get(after).map_or(u64::MAX, |next| next.address.behind(function.address));
        let to_next = (rest.len() as u64).min(to_next) as usize;
        // Hand-written functions may have no size: they end where the next one starts.
        let size = if function.size == 0 { to_next } else { (function.size as usize).min(rest.len()) };
        Some(Code64 {
            address: self.bias.run_time(function.address).0,
            bytes: &rest[..size],
            gap: rest.get(size..to_next).unwrap_or(&[]),
        })
    }

    /// The function that has an address, with its pieces.
    pub(crate) fn body_at(&self, address: FileAddress) -> Option<Body<'d>> {
        let after = self.functions.partition_point(|function| function.address <= address);
        let holds = |function: &&Function<'d>| {
            self.code(**function).is_some_and(|code| code.holds(self.bias.run_time(address).0))
        };
        // Several symbols may be at one address, some without a size.
        let function = *self.functions[..after].iter().rev().take(MOST_ALIASES).find(holds)?;
        // A part of a function: the whole function is meant.
        let function =
            function.name.strip_suffix(COLD).and_then(|name| self.function(name)).unwrap_or(function);
        let code = self.code(function)?;
        let cold = self.function(&format!("{}{COLD}", function.name)).and_then(|cold| self.code(cold));
        let parts: Vec<Code64<'d>> = cold.into_iter().collect();
        let mut landings = self.landings(&code);
        for part in &parts {
            landings = landings.zip(self.landings(part)).map(|(all, more)| [all, more].concat());
        }
        Some(Body { code, parts, landings })
    }

    /// Where exceptions land in the functions of this code, at the addresses where it runs.
    fn landings(&self, code: &Code64<'_>) -> Option<Vec<u64>> {
        let elf = parse(self.data)?;
        let section = elf.object().section_by_name(".eh_frame")?;
        let start = self.bias.file(RunTimeAddress(code.address)).0;
        let bytes = |at: u64| {
            self.segments.iter().find_map(|(first, bytes, _)| {
                bytes.get(usize::try_from(at.checked_sub(first.0)?).ok()?..).filter(|rest| !rest.is_empty())
            })
        };
        let frames = (section.data().ok()?, section.address());
        let found = landing_pads::of(frames, &(start..start + code.bytes.len() as u64), bytes)?;
        Some(found.into_iter().map(|pad| self.bias.run_time(FileAddress(pad)).0).collect())
    }

    /// Code without a symbol, at most `len` bytes.
    pub(crate) fn code_at(&self, address: FileAddress, len: usize) -> Option<Code64<'d>> {
        let rest = self.executable_from(address)?;
        Some(Code64 { address: self.bias.run_time(address).0, bytes: &rest[..len.min(rest.len())], gap: &[] })
    }

    fn executable_from(&self, address: FileAddress) -> Option<&'d [u8]> {
        self.segments.iter().find_map(|(start, bytes, executable)| {
            let offset = address.0.checked_sub(start.0).filter(|_| *executable)?;
            bytes.get(usize::try_from(offset).ok()?..).filter(|rest| !rest.is_empty())
        })
    }

    /// The pieces of a function that the compiler placed elsewhere.
    pub(crate) fn cold_parts(&self, function: Function<'_>) -> Vec<Code64<'d>> {
        let names = [format!("{}{COLD}", function.name), format!("{}.part.0", function.name)];
        names.iter().filter_map(|name| self.code(self.function(name)?)).collect()
    }

    /// Whether the module imports a function of this name.
    pub(crate) fn imports(&self, name: &str) -> bool {
        self.imports.contains(&name)
    }

    /// Its address range in the process.
    pub(crate) fn placed_range(&self) -> Range<u64> {
        placed_range(&self.range, self.bias)
    }

    /// What the word at an address in the process will hold.
    pub(crate) fn slot(&self, address: RunTimeAddress) -> Option<Slot<'d>> {
        let read = || parse(self.data).map(|elf| slots(elf.object())).unwrap_or_default();
        self.slots.get_or_init(read).get(&self.bias.file(address)).copied()
    }

    /// Whether the file's read-only parts contain a text.
    pub(crate) fn contains(&self, text: &str) -> bool {
        let text = text.as_bytes();
        self.segments.iter().any(|(_, bytes, _)| bytes.windows(text.len()).any(|window| window == text))
    }

    /// Whether the file has a section with this name.
    pub(crate) fn has_section(&self, name: &str) -> bool {
        parse(self.data).is_some_and(|elf| elf.object().section_by_name(name).is_some())
    }
}

impl Functions for Image<'_> {
    fn placed(&self, name: &str) -> Option<Placed> {
        self.function(name).map(|function| self.place(function))
    }
}

fn parse(data: &[u8]) -> Option<Elf<'_>> {
    Elf::parse(data).ok().filter(|elf| elf.is_for_host())
}

/// The bias of a file, from its first mapping that is a loadable segment.
pub(crate) fn bias(maps: &Maps, path: &str, loads: &[Segment]) -> Option<Bias> {
    let page = |value: u64| value & !4095;
    maps.0.iter().filter(|mapping| mapping.name == path).find_map(|mapping| {
        let load = loads.iter().find(|load| page(load.file_offset) == mapping.offset)?;
        Some(Bias::between(RunTimeAddress(mapping.start), FileAddress(page(load.address.0))))
    })
}

/// The addresses of a range of the file in the process.
pub(crate) fn placed_range(range: &Range<FileAddress>, bias: Bias) -> Range<u64> {
    bias.run_time(range.start).0..bias.run_time(range.end).0
}

fn collect<'d>(elf: &ElfFile64<'d, LittleEndian>, functions: &mut Vec<Function<'d>>) {
    for table in [elf.symbol_table(), elf.dynamic_symbol_table()].into_iter().flatten() {
        functions.extend(table.symbols().filter_map(|symbol| {
            let raw = symbol.elf_symbol();
            // The symbol of an indirect function names the resolver, which does not need a patch.
            if raw.st_type() != STT_FUNC || symbol.is_undefined() {
                return None;
            }
            let (name, address) = (symbol.name().ok()?, FileAddress(symbol.address()));
            Some(Function { name, address, size: symbol.size(), is_local: raw.st_bind() == STB_LOCAL })
        }));
    }
}

fn slots<'d>(elf: &ElfFile64<'d, LittleEndian>) -> HashMap<FileAddress, Slot<'d>> {
    let names = elf.dynamic_symbol_table();
    let named = |index| names.as_ref()?.symbol_by_index(index).ok();
    elf.dynamic_relocations()
        .into_iter()
        .flatten()
        .filter_map(|(address, relocation)| {
            let slot = match relocation.target() {
                RelocationTarget::Symbol(index) => {
                    let symbol = named(index)?;
                    if symbol.is_undefined() {
                        Slot::Import(symbol.name().ok()?)
                    } else {
                        Slot::Here(FileAddress(symbol.address()))
                    }
                }
                RelocationTarget::Absolute => Slot::Here(FileAddress(relocation.addend() as u64)),
                _ => return None,
            };
            Some((FileAddress(address), slot))
        })
        .collect()
}

/// The debug file with the symbols of a stripped file. It must have the same build id: a patch with another
/// build's addresses would hit arbitrary code.
fn separate_symbols(elf: &Elf<'_>, name: &Path) -> Option<ElfFile> {
    let id = elf.build_id()?;
    let useful = |debug: &Elf<'_>| {
        debug.is_for_host() && debug.has_symbols() && debug.build_id().as_ref() == Some(&id)
    };
    DebugFolders::usual().find(name, elf, useful)
}
