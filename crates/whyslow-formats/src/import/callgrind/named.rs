//! The code that costs belong to: functions and lines by the names in the file, or addresses, which are named
//! from the programs' own files.

use rustc_hash::FxHashMap;
use whyslow_elf::{Headers, ImageBase};
use whyslow_numbers::FileAddress;
use whyslow_profile::{Frame, FunctionId, LocationId, ModuleId, ModuleKind, StringId, SymbolState};

use super::super::assemble::{Assembly, FunctionText};
use super::parse::{Costs, Place};

/// The modules and files of the profile, for the names in a file.
pub(super) struct Named<'a> {
    costs: &'a Costs<'a>,
    objects: Vec<Option<Object>>,
    files: Vec<Option<StringId>>,
    functions: Vec<Option<Code>>,
    /// The function and place of each location that has an address and no name yet.
    addresses: FxHashMap<LocationId, (usize, Place)>,
}

/// A program or library.
#[derive(Clone, Copy)]
struct Object {
    module: ModuleId,
    /// What addresses in the file are relative to; none if the file cannot be read.
    base: Option<ImageBase>,
}

/// A function of the profile, or an address without a function.
#[derive(Debug, Clone, Copy)]
enum Code {
    Function(FunctionId),
    Unnamed(ModuleId, u64),
}

/// The modules of all files of a recording.
#[derive(Default)]
pub(super) struct Modules {
    by_path: FxHashMap<String, ModuleId>,
    bases: FxHashMap<String, Option<ImageBase>>,
}

impl Modules {
    fn module(&mut self, assembly: &mut Assembly, path: &str, program: &str) -> ModuleId {
        if let Some(&module) = self.by_path.get(path) {
            return module;
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        let kind = if name == program { ModuleKind::Program } else { ModuleKind::Library };
        let module = assembly.module(path, None, kind);
        assembly.profile.modules[module.index()].symbols = SymbolState::Lines;
        self.by_path.insert(path.to_owned(), module);
        module
    }

    fn base(&mut self, path: &str) -> Option<ImageBase> {
        *self.bases.entry(path.to_owned()).or_insert_with(|| {
            let file = std::fs::read(path).ok()?;
            Some(Headers::parse(&file).ok()?.image_base())
        })
    }
}

impl<'a> Named<'a> {
    /// The names of a file. With `addresses`, instructions keep theirs.
    pub(super) fn new(
        assembly: &mut Assembly,
        costs: &'a Costs<'a>,
        modules: &mut Modules,
        addresses: bool,
    ) -> Self {
        let program = program(costs);
        let object = |path: &str| {
            is_known(path).then(|| Object {
                module: modules.module(assembly, path, &program),
                base: if addresses { modules.base(path) } else { None },
            })
        };
        let objects = costs.objects.names().map(object).collect();
        let files = costs.files.names().map(|file| is_known(file).then(|| assembly.text(file))).collect();
        let functions = vec![None; costs.functions.len()];
        Self { costs, objects, files, functions, addresses: FxHashMap::default() }
    }

    /// The location of a place in a function.
    pub(super) fn location(&mut self, assembly: &mut Assembly, function: usize, place: Place) -> LocationId {
        let object = self.objects.get(self.costs.functions[function].object).copied().flatten();
        if let Some(Object { module, base: Some(base) }) = object
            && place.address > 0
        {
            let address = base.relative_or_zero(FileAddress(place.address));
            let location = assembly.location(Some(module), address.0, &[]);
            self.addresses.entry(location).or_insert((function, place));
            return location;
        }
        match self.code(assembly, function) {
            Code::Unnamed(module, address) => assembly.location(Some(module), address, &[]),
            Code::Function(id) => {
                let module = assembly.profile.functions.get(id.index()).and_then(|function| function.module);
                assembly.location(module, 0, &[self.frame(id, place)])
            }
        }
    }

    /// Names the addresses for which the programs' own files had no name.
    pub(super) fn name_the_rest(&mut self, assembly: &mut Assembly) {
        let mut rest: Vec<(LocationId, (usize, Place))> = self.addresses.drain().collect();
        rest.retain(|(location, _)| assembly.profile.frames.of(*location).is_empty());
        rest.sort_unstable();
        for (location, (function, place)) in rest {
            if let Code::Function(id) = self.code(assembly, function) {
                let frame = self.frame(id, place);
                assembly.profile.frames.set(location, &[frame]);
            }
        }
    }

    fn frame(&self, function: FunctionId, place: Place) -> Frame {
        Frame { function, file: self.files.get(place.file).copied().flatten(), line: place.line }
    }

    fn code(&mut self, assembly: &mut Assembly, at: usize) -> Code {
        if let Some(code) = self.functions[at] {
            return code;
        }
        let function = &self.costs.functions[at];
        let module = self.objects.get(function.object).copied().flatten().map(|object| object.module);
        let address = function.name.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let code = match (module, address) {
            (Some(module), Some(address)) => Code::Unnamed(module, address),
            _ => {
                let file = Some(self.costs.files.name(function.file)).filter(|file| is_known(file));
                let text = FunctionText { name: function.name, file, line: 0, module };
                Code::Function(assembly.function(&text))
            }
        };
        self.functions[at] = Some(code);
        code
    }
}

/// The file name of the program.
pub(super) fn program(costs: &Costs<'_>) -> String {
    let program = costs.command.split_whitespace().next().unwrap_or("");
    program.rsplit('/').next().unwrap_or(program).to_owned()
}

fn is_known(name: &str) -> bool {
    !name.is_empty() && name != "???"
}
