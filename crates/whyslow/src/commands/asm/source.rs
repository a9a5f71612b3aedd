//! Reads code: from a profile, or from the file of a program.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use whyslow_asm::{Body, Callee, Language, Names, Processor, Target};
use whyslow_elf::{BuildId, Elf, ElfFile};
use whyslow_profile::{
    Code, LocationId, Module, ModuleId, ModuleKind, Optimised, Profile, RelativeAddress, SymbolState,
};
use whyslow_symbols::{
    DebugFolders, FunctionSymbol, Wanted, callees, functions, inlined_functions, separate_debug_file,
    similar_functions,
};

use super::lookup::Inlined;
use crate::failure::{Failure, Result};

/// A file with code, and the file with its debug info.
pub(super) struct Binary {
    file: ElfFile,
    debug: Option<ElfFile>,
}

impl Binary {
    /// Opens a program or a library.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let cannot = |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", path.display()));
        // Separate debug files are searched for next to the real path.
        let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let file = ElfFile::open(path).map_err(|error| cannot(&error))?;
        let elf = file.parse().map_err(|error| cannot(&error).next("a program or a .whyslow profile"))?;
        let debug = separate_debug_file(path, &elf, &DebugFolders::usual());
        Ok(Self { file, debug })
    }

    /// The file of a module, if it is still the recorded build.
    pub(super) fn of_module(profile: &Profile, module: ModuleId) -> Option<Self> {
        let row = profile.modules.get(module.index())?;
        if !matches!(row.kind, ModuleKind::Program | ModuleKind::Library | ModuleKind::Unknown) {
            return None;
        }
        let binary = Self::open(Path::new(profile.text(row.path))).ok()?;
        let found = binary.elf()?.build_id();
        let is_same = row.build_id.is_some_and(|id| found.is_some_and(|found| found.is(profile.text(id))));
        is_same.then_some(binary)
    }

    fn elf(&self) -> Option<Elf<'_>> {
        self.file.parse().ok()
    }

    fn debug_elf(&self) -> Option<Elf<'_>> {
        self.debug.as_ref().and_then(|file| file.parse().ok())
    }

    /// The path that it was opened with.
    pub(super) fn path(&self) -> &Path {
        &self.file.path
    }

    /// The processor that its code is for.
    pub(super) fn processor(&self) -> Option<Processor> {
        self.elf()?.processor()
    }

    /// The functions with this text in their name.
    pub(super) fn functions(&self, part: &str) -> Vec<FunctionSymbol> {
        let Some(elf) = self.elf() else { return Vec::new() };
        functions(&elf, self.debug_elf().as_ref(), &Wanted::new(part))
    }

    /// The functions with this text in their name that are inlined at every call.
    pub(super) fn inlined(&self, part: &str) -> Vec<Inlined> {
        let wanted = Wanted::new(part);
        let found = inlined_functions(&self.file, self.debug.as_ref(), &wanted);
        if found.is_empty() {
            return Vec::new();
        }
        let with_code = self.functions(part);
        let has_code = |name: &str| with_code.iter().any(|function| function.name == name);
        let place =
            |(file, line): (String, u32)| format!("{}:{line}", file.rsplit('/').next().unwrap_or(&file));
        found
            .into_iter()
            .filter(|function| !has_code(&function.name))
            .map(|function| {
                let hosts = function.hosts.into_iter().map(|(host, call)| (host, call.map(place)));
                (function.name, hosts.collect())
            })
            .collect()
    }

    /// The language of a function: by its name, else by the other functions of the file.
    pub(super) fn language_of(&self, name: &str) -> Language {
        Language::of_name(name, name).unwrap_or_else(|| {
            let all = self.functions("");
            Language::of_neighbours(all.iter().map(|other| (other.name.as_str(), other.name.as_str())))
        })
    }

    /// Similar function names.
    pub(super) fn nearest(&self, wanted: &str) -> Vec<String> {
        let Some(elf) = self.elf() else { return Vec::new() };
        let similar = similar_functions(&elf, self.debug_elf().as_ref(), &Wanted::new(wanted));
        whyslow_words::nearest(wanted, similar.into_iter())
    }

    /// The function around an address.
    pub(super) fn function_at(&self, address: RelativeAddress) -> Option<FunctionSymbol> {
        let Range { start, end } = whyslow_symbols::function_at(&self.elf()?, self.file.map(), address)?;
        let file = self.path().file_name().map(|name| name.to_string_lossy().into_owned());
        let name = format!("{}+{:#x}", file.unwrap_or_default(), start.0);
        Some(FunctionSymbol { name, start, size: end.0.checked_sub(start.0)? })
    }

    /// The bytes of a function.
    pub(super) fn code(&self, module: ModuleId, function: &FunctionSymbol) -> Option<Code> {
        /// Longer functions are cut: the size comes from the file, and no one reads that much code.
        const LARGEST: u64 = 16 << 20;
        let elf = self.elf()?;
        let start = elf.image_base().checked_file(function.start)?;
        let bytes = elf.bytes_at(start, function.size.min(LARGEST))?.to_vec();
        Some(Code { module, start: function.start, bytes })
    }

    /// Disassembles code and names its callees.
    pub(super) fn body(&self, processor: Processor, code: &Code) -> Body {
        let targets: Vec<Target> =
            Body::new(processor, code, |_| None).calls.iter().filter_map(|call| call.target).collect();
        let named = self.callees(&targets);
        Body::new(processor, code, |branch| {
            let at = named.binary_search_by_key(&branch.target, |(target, _)| *target).ok()?;
            Some(named[at].1.clone())
        })
    }

    /// Disassembles many functions and names all their callees at once.
    pub(super) fn bodies<'c>(
        &self,
        processor: Processor,
        codes: &'c [(&FunctionSymbol, Code)],
    ) -> impl Iterator<Item = Body> + use<'c> {
        let mut targets: Vec<Target> = Vec::new();
        for (_, code) in codes {
            let body = Body::new(processor, code, |_| None);
            targets.extend(body.calls.iter().filter_map(|call| call.target));
        }
        targets.sort_unstable();
        targets.dedup();
        let named = self.callees(&targets);
        codes.iter().map(move |(_, code)| {
            Body::new(processor, code, |branch| {
                let at = named.binary_search_by_key(&branch.target, |(target, _)| *target).ok()?;
                Some(named[at].1.clone())
            })
        })
    }

    fn callees(&self, targets: &[Target]) -> Vec<(Target, Callee)> {
        let Some(elf) = self.elf() else { return Vec::new() };
        callees(&elf, self.debug_elf().as_ref(), targets)
    }

    /// A profile that holds only these addresses, with their frames from the symbols.
    pub(super) fn places(&self, addresses: impl Iterator<Item = u64>) -> Profile {
        let mut profile = Profile::default();
        let path = profile.strings.push(&self.path().to_string_lossy());
        let id = self.elf().and_then(|elf| elf.build_id()).map(|id: BuildId| id.to_string());
        let build_id = id.map(|id| profile.strings.push(&id));
        profile.modules.push(Module {
            path,
            build_id,
            kind: ModuleKind::Program,
            symbols: SymbolState::NotLoaded,
            optimised: Optimised::Unknown,
        });
        for address in addresses {
            profile.locations.push(Some(ModuleId(0)), RelativeAddress(address));
        }
        let options = whyslow_symbols::Options {
            cache: None,
            files: vec![(ModuleId(0), self.file.map().clone())],
            keep_sources: false,
            keep_code: false,
            ..Default::default()
        };
        whyslow_symbols::symbolize(&mut profile, &options);
        profile
    }
}

/// A function whose code is in the profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    /// The name of the outermost function at its addresses.
    pub(super) name: String,
    /// The row of its code.
    pub(super) row: usize,
    /// Samples at its addresses.
    pub(super) own: u64,
}

/// Finds the code around addresses of a profile.
struct CodeRows(Vec<(ModuleId, u64, usize)>);

impl CodeRows {
    fn of(profile: &Profile) -> Self {
        let rows = profile.code.rows.iter().enumerate();
        let mut starts: Vec<_> = rows.map(|(row, code)| (code.module, code.start.0, row)).collect();
        starts.sort_unstable();
        Self(starts)
    }

    /// The row of the code that a location is in.
    fn at(&self, profile: &Profile, location: LocationId) -> Option<usize> {
        let module = profile.locations.module.get(location.index()).copied().flatten()?;
        let address = profile.locations.address[location.index()].0;
        let after = self.0.partition_point(|&(of, start, _)| (of, start) <= (module, address));
        let &(of, start, row) = self.0[..after].last()?;
        let inside = of == module && address - start < profile.code.rows[row].bytes.len() as u64;
        inside.then_some(row)
    }
}

/// The functions that a function is inlined into, each with the samples in its inlined instructions, most
/// first.
pub(super) fn inlined_rows<'k>(
    profile: &Profile,
    values: &[u64],
    kept: &'k [Kept],
    name: &str,
) -> Vec<(&'k Kept, u64)> {
    let rows = CodeRows::of(profile);
    let is_it =
        |frame: &whyslow_profile::Frame| profile.text(profile.functions[frame.function.index()].name) == name;
    let mut own: BTreeMap<usize, u64> = BTreeMap::new();
    let mut row_of_location = vec![None; profile.locations.len()];
    for location in (1..profile.locations.len()).map(LocationId::from) {
        if profile.frames.of(location).iter().skip(1).any(is_it)
            && let Some(row) = rows.at(profile, location)
        {
            row_of_location[location.index()] = Some(row);
            own.entry(row).or_default();
        }
    }
    for (index, &value) in values.iter().enumerate().filter(|(_, value)| **value > 0) {
        let location = profile.stacks.location(index.into());
        if let Some(own) = row_of_location[location.index()].and_then(|row| own.get_mut(&row)) {
            *own = own.saturating_add(value);
        }
    }
    let mut hosts: Vec<(&Kept, u64)> =
        kept.iter().filter_map(|row| Some((row, *own.get(&row.row)?))).collect();
    hosts.sort_by_key(|(_, own)| std::cmp::Reverse(*own));
    hosts
}

/// The functions whose code is in the profile, those with the most samples first.
pub(super) fn kept(profile: &Profile, values: &[u64]) -> Vec<Kept> {
    let rows = CodeRows::of(profile);
    let row_of = |location: LocationId| rows.at(profile, location);
    let mut names: Vec<Option<String>> = vec![None; profile.code.rows.len()];
    for location in (1..profile.locations.len()).map(LocationId::from) {
        let Some(row) = row_of(location) else { continue };
        if names[row].is_none()
            && let Some(frame) = profile.frames.of(location).first()
        {
            names[row] = Some(profile.text(profile.functions[frame.function.index()].name).to_owned());
        }
    }
    let mut own = vec![0_u64; profile.code.rows.len()];
    for (index, &value) in values.iter().enumerate().filter(|(_, value)| **value > 0) {
        if let Some(row) = row_of(profile.stacks.location(index.into())) {
            own[row] = own[row].saturating_add(value);
        }
    }
    let mut kept: Vec<Kept> = names
        .into_iter()
        .zip(own)
        .enumerate()
        .map(|(row, (name, own))| Kept {
            name: name.unwrap_or_else(|| format!("{:#x}", profile.code.rows[row].start.0)),
            row,
            own,
        })
        .collect();
    kept.sort_by(|a, b| (b.own, &a.name, a.row).cmp(&(a.own, &b.name, b.row)));
    kept
}

/// Disassembles code from the profile, with callee names from the profile or from the module's file.
pub(super) fn kept_body(profile: &Profile, code: &Code, processor: Processor) -> Body {
    let names = Names::of(profile);
    let body = Body::new(processor, code, |branch| names.target(code.module, branch));
    let all_named = body.calls.iter().all(|call| call.target.is_none() || call.callee.is_some());
    match Binary::of_module(profile, code.module).filter(|_| !all_named) {
        Some(binary) => {
            let wanted: Vec<Target> = body.calls.iter().filter_map(|call| call.target).collect();
            let found = binary.callees(&wanted);
            Body::new(processor, code, |branch| {
                let at = found.binary_search_by_key(&branch.target, |(target, _)| *target).ok();
                at.map(|at| found[at].1.clone()).or_else(|| names.target(code.module, branch))
            })
        }
        None => body,
    }
}

/// The file of a source line on this machine, if it exists: by its path, or in the sources of a toolchain.
pub(super) fn source_file(path: &str) -> Option<PathBuf> {
    let plain = PathBuf::from(path);
    if plain.is_file() {
        return Some(plain);
    }
    // /rustc/HASH/library/core/src/…
    let rest = path.strip_prefix("/rustc/")?.split_once('/')?.1;
    let home = std::env::var_os("RUSTUP_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".rustup")))?;
    let toolchains = std::fs::read_dir(home.join("toolchains")).ok()?;
    toolchains
        .filter_map(std::result::Result::ok)
        .map(|entry| entry.path().join("lib/rustlib/src/rust").join(rest))
        .find(|path| path.is_file())
}
