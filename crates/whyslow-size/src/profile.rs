//! The owners as a profile: see `whyslow_profile::size`.

use std::path::Path;

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use whyslow_elf::Elf;
use whyslow_profile::size::{METRIC, Part};
use whyslow_profile::{
    CodeKind, Frame, Function, FunctionId, LocationId, Metric, Module, ModuleId, ModuleKind, Optimised,
    Origin, OverTime, Process, ProcessId, Profile, RelativeAddress, Samples, StackId, StringId, Subject,
    SymbolState, Thread, ThreadId, Unit, bracketed,
};
use whyslow_symbols::{Given, describe};

use crate::measure::{Pieces, sums};
use crate::owners::{Owner, OwnerId};

/// A function or variable as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shown {
    name: String,
    raw: String,
    /// The crate, the package, the namespace, the folder of the source, or the file itself.
    group: String,
    kind: CodeKind,
}

/// The name to show for a linkage name.
pub(crate) fn shown(raw: &str) -> String {
    describe(&Given { name: raw, file: None, module_kind: ModuleKind::Program, module_path: "" }).name
}

struct Texts<'p> {
    profile: &'p mut Profile,
    ids: FxHashMap<String, StringId>,
}

impl Texts<'_> {
    fn id(&mut self, text: &str) -> StringId {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = self.profile.strings.push(text);
        self.ids.insert(text.to_owned(), id);
        id
    }
}

/// Builds the profile.
pub(crate) fn of(path: &Path, elf: &Elf<'_>, pieces: &Pieces<'_>, len: u64) -> Profile {
    let mut profile = Profile { sealed: true, ..Profile::default() };
    profile.meta.command = vec![path.display().to_string()];
    profile.meta.recorder = format!("whyslow {}", env!("CARGO_PKG_VERSION"));
    let file_name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let module_kind = if elf.has_soname() { ModuleKind::Library } else { ModuleKind::Program };
    let sums = sums(pieces);
    let homes = homes(pieces);
    let folders = Folders::of(pieces);
    let is_go = pieces.layout.sections.iter().any(|section| section.name.ends_with("gopclntab"));
    let about = About { path: &path.display().to_string(), file_name: &file_name, is_go };
    let described: Vec<Option<Shown>> = pieces
        .owners
        .rows()
        .par_iter()
        .enumerate()
        .map(|(row, owner)| {
            let source =
                homes.get(&OwnerId(row as u32)).map(|source| pieces.sources.files[*source as usize].as_str());
            about.describe(owner, source, &folders)
        })
        .collect();

    let mut texts = Texts { profile: &mut profile, ids: FxHashMap::default() };
    let module_path = texts.id(&path.display().to_string());
    let build_id = elf.build_id().map(|id| texts.id(&id.to_string()));
    texts.profile.modules.push(Module {
        path: module_path,
        build_id,
        kind: module_kind,
        symbols: if pieces.sources.files.is_empty() { SymbolState::Names } else { SymbolState::Lines },
        optimised: Optimised::Unknown,
    });
    let mut build = Build {
        texts,
        functions: FxHashMap::default(),
        locations: FxHashMap::default(),
        stacks: FxHashMap::default(),
        processes: FxHashMap::default(),
        threads: FxHashMap::default(),
    };
    let mut samples = Samples::default();
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_unstable_by_key(|(key, _)| *key);
    for ((section, owner, source), bytes) in rows {
        let section_row = &pieces.layout.sections[section];
        let thread = build.thread(section_row.part, &section_row.name);
        let source = source.map(|source| pieces.sources.files[source as usize].as_str());
        let stack = match (&described[owner.0 as usize], pieces.owners.rows()[owner.0 as usize]) {
            (Some(shown), Owner::Symbol(_, address) | Owner::Unnamed(address)) => {
                let address = elf.image_base().relative_or_zero(whyslow_elf::FileAddress(address));
                let home = homes.get(&owner).map(|source| pieces.sources.files[*source as usize].as_str());
                build.function_stack(shown, home, address, source)
            }
            (_, Owner::Nobody(words)) => build.other_stack(section_row.part, &section_row.name, words),
            (None, _) => build.other_stack(section_row.part, &section_row.name, ""),
        };
        samples.push(0, thread, stack, bytes);
    }
    debug_assert_eq!(samples.value.iter().sum::<u64>(), len);
    profile.set_metric(
        Metric {
            name: METRIC,
            unit: Unit::Bytes,
            of: Subject::Other,
            origin: Origin::Counted,
            over_time: OverTime::Level,
        },
        samples,
    );
    profile
}

/// The source file of each function: that of its first instruction, since inlined code comes from others.
fn homes(pieces: &Pieces<'_>) -> FxHashMap<OwnerId, u32> {
    let mut homes: FxHashMap<OwnerId, u32> = FxHashMap::default();
    for piece in &pieces.rows {
        if let Some(source) = piece.source {
            homes.entry(piece.owner).or_insert(source);
        }
    }
    homes
}

/// The folders of source files, without what all of the user's have in common.
struct Folders {
    common: String,
}

impl Folders {
    fn of(pieces: &Pieces<'_>) -> Self {
        let files = &pieces.sources.files;
        let mut folders = files.iter().filter(|file| !is_of_system(file)).filter_map(|file| folder(file));
        let Some(first) = folders.next() else { return Self { common: String::new() } };
        let common = folders.fold(first, |common, folder| {
            let same = common.split('/').zip(folder.split('/')).take_while(|(a, b)| a == b);
            let len: usize = same.map(|(part, _)| part.len() + 1).sum();
            &common[..len.saturating_sub(1).min(common.len())]
        });
        Self { common: common.to_owned() }
    }

    /// `lib/` of `/build/app/lib/a.c`, if all files are below `/build/app`.
    fn group(&self, file: &str) -> Option<String> {
        let folder = folder(file)?;
        let inside = folder.strip_prefix(self.common.as_str()).unwrap_or(folder);
        let inside = inside.trim_start_matches('/');
        (!inside.is_empty()).then(|| format!("{inside}/"))
    }
}

fn folder(file: &str) -> Option<&str> {
    file.rsplit_once('/').map(|(folder, _)| folder)
}

fn is_of_system(file: &str) -> bool {
    file.starts_with("/usr/") || file.starts_with("/rustc/") || !file.starts_with('/')
}

/// What is known of the whole file.
struct About<'a> {
    path: &'a str,
    file_name: &'a str,
    is_go: bool,
}

impl About<'_> {
    fn describe(&self, owner: &Owner<'_>, source: Option<&str>, folders: &Folders) -> Option<Shown> {
        match owner {
            Owner::Symbol(raw, _) => {
                // As a library's, all functions of a system library would be in one group.
                let module_kind = ModuleKind::Program;
                let given = Given { name: raw, file: source, module_kind, module_path: self.path };
                let described = describe(&given);
                let package = self.is_go.then(|| go_package(raw)).flatten();
                let namespace = namespace(raw, &described.name);
                // A name that begins with its return type, `std::string app::name()`, is not std's.
                let is_std =
                    described.kind == CodeKind::Std && namespace.as_deref().is_none_or(is_std_of_cpp);
                let kind = match described.kind {
                    CodeKind::Std if !is_std && source.is_some() => CodeKind::Yours,
                    CodeKind::Std if !is_std => CodeKind::Dependency,
                    kind => kind,
                };
                let group = package
                    .map(str::to_owned)
                    .or(namespace)
                    .or(described.crate_name)
                    .or_else(|| folders.group(source?))
                    .unwrap_or_else(|| bracketed(self.file_name));
                Some(Shown { name: described.name, raw: (*raw).to_owned(), group, kind })
            }
            Owner::Unnamed(address) => Some(Shown {
                name: format!("{}+0x{address:x}", self.file_name),
                raw: String::new(),
                group: bracketed(self.file_name),
                kind: CodeKind::Unknown,
            }),
            Owner::Nobody(_) => None,
        }
    }
}

/// `encoding/json` of `encoding/json.(*Decoder).Decode`.
fn go_package(name: &str) -> Option<&str> {
    let name = name.strip_prefix("type:.eq.").or_else(|| name.strip_prefix("go:itab.*")).unwrap_or(name);
    let after_folders = name.rfind('/').map_or(0, |at| at + 1);
    let end = after_folders + name.get(after_folders..)?.find('.')?;
    (end > 0).then(|| &name[..end])
}

/// The outermost namespace or class of a C++ name: `app` of `vtable for app::Shape`, of `void app::run<int>(int)`.
fn namespace(raw: &str, name: &str) -> Option<String> {
    const OF: [&str; 8] = [
        "vtable for ",
        "VTT for ",
        "typeinfo for ",
        "typeinfo name for ",
        "guard variable for ",
        "non-virtual thunk to ",
        "virtual thunk to ",
        "construction vtable for ",
    ];
    if !raw.starts_with("_Z") || is_rust(raw) {
        return None;
    }
    // The demangler writes `{vtable(app::Shape)}`.
    let inside = name.strip_prefix('{').and_then(|rest| rest.strip_suffix(")}")?.split_once('('));
    if let Some((_, path)) = inside {
        return whyslow_symbols::outermost_name(path);
    }
    let path = OF.iter().find_map(|of| name.strip_prefix(of)).unwrap_or(name);
    whyslow_symbols::outermost_name(path)
}

/// The namespaces of the C++ standard library.
fn is_std_of_cpp(namespace: &str) -> bool {
    matches!(namespace, "std" | "__gnu_cxx" | "__cxxabiv1")
}

/// Whether a name that looks like C++ has the hash of rustc: `_ZN…17h0123456789abcdefE`.
fn is_rust(raw: &str) -> bool {
    // Dots are also inside of names: `_ZN4core3ptr49drop_in_place$LT$alloc..string..String$GT$17h…E`.
    let name = raw.split(".llvm.").next().unwrap_or(raw);
    let hash = name.strip_suffix('E').and_then(|name| name.rsplit_once("17h")).map(|(_, hash)| hash);
    hash.is_some_and(|hash| hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

struct Build<'p> {
    texts: Texts<'p>,
    functions: FxHashMap<(String, String, bool), FunctionId>,
    locations: FxHashMap<(FunctionId, u64, Option<StringId>), LocationId>,
    stacks: FxHashMap<(Option<StackId>, LocationId), StackId>,
    processes: FxHashMap<Part, ProcessId>,
    threads: FxHashMap<(Part, String), ThreadId>,
}

impl Build<'_> {
    fn thread(&mut self, part: Part, section: &str) -> ThreadId {
        if let Some(id) = self.threads.get(&(part, section.to_owned())) {
            return *id;
        }
        let process = self.process(part);
        let name = self.texts.id(section);
        let threads = &mut self.texts.profile.threads;
        let id = ThreadId::from(threads.len());
        threads.push(Thread { process, tid: id.0, name, start_ns: 0, end_ns: None, times: None });
        self.threads.insert((part, section.to_owned()), id);
        id
    }

    fn process(&mut self, part: Part) -> ProcessId {
        if let Some(id) = self.processes.get(&part) {
            return *id;
        }
        let name = self.texts.id(part.label());
        let processes = &mut self.texts.profile.processes;
        let id = ProcessId::from(processes.len());
        processes.push(Process { pid: part.code().into(), parent: None, name, start_ns: 0, end_ns: None });
        self.processes.insert(part, id);
        id
    }

    fn function(
        &mut self,
        name: &str,
        raw: &str,
        group: &str,
        kind: CodeKind,
        home: Option<&str>,
        is_group: bool,
    ) -> FunctionId {
        let key = (name.to_owned(), group.to_owned(), is_group);
        if let Some(id) = self.functions.get(&key) {
            return *id;
        }
        let function = Function {
            name: self.texts.id(name),
            raw_name: self.texts.id(raw),
            crate_name: Some(self.texts.id(group)),
            kind,
            file: home.map(|home| self.texts.id(home)),
            line: 0,
            module: (!is_group).then_some(ModuleId(0)),
        };
        let functions = &mut self.texts.profile.functions;
        let id = FunctionId::from(functions.len());
        functions.push(function);
        self.functions.insert(key, id);
        id
    }

    fn location(
        &mut self,
        function: FunctionId,
        address: Option<RelativeAddress>,
        file: Option<StringId>,
    ) -> LocationId {
        let key = (function, address.map_or(u64::MAX, |address| address.0), file);
        if let Some(id) = self.locations.get(&key) {
            return *id;
        }
        let module = address.map(|_| ModuleId(0));
        let id = self.texts.profile.locations.push(module, address.unwrap_or_default());
        self.texts.profile.frames.set(id, &[Frame { function, file, line: 0 }]);
        self.locations.insert(key, id);
        id
    }

    fn stack(&mut self, parent: Option<StackId>, location: LocationId) -> StackId {
        if let Some(id) = self.stacks.get(&(parent, location)) {
            return *id;
        }
        let id = self.texts.profile.stacks.push(parent, location);
        self.stacks.insert((parent, location), id);
        id
    }

    fn group(&mut self, group: &str, kind: CodeKind) -> StackId {
        let function = self.function(group, group, group, kind, None, true);
        let location = self.location(function, None, None);
        self.stack(None, location)
    }

    fn function_stack(
        &mut self,
        shown: &Shown,
        home: Option<&str>,
        address: RelativeAddress,
        source: Option<&str>,
    ) -> StackId {
        let root = self.group(&shown.group, shown.kind);
        let function = self.function(&shown.name, &shown.raw, &shown.group, shown.kind, home, false);
        let file = source.or(home).map(|file| self.texts.id(file));
        let location = self.location(function, Some(address), file);
        self.stack(Some(root), location)
    }

    fn other_stack(&mut self, part: Part, section: &str, words: &str) -> StackId {
        let group = bracketed(part.label());
        let root = self.group(&group, CodeKind::Unknown);
        let name = if words.is_empty() { section.to_owned() } else { bracketed(words) };
        let function = self.function(&name, &name, &group, CodeKind::Unknown, None, false);
        let location = self.location(function, None, None);
        self.stack(Some(root), location)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpp_is_grouped_by_namespaces_and_rust_is_not() {
        let of = |raw: &str| namespace(raw, &shown(raw));
        assert_eq!(of("_ZN3geo5ShapeD0Ev").as_deref(), Some("geo"));
        assert_eq!(of("_ZTVN3geo5ShapeE").as_deref(), Some("geo"), "its vtable");
        assert_eq!(
            of("_ZN3geo3sumISsEET_RKSt6vectorIS1_SaIS1_EE").as_deref(),
            Some("geo"),
            "not its return type"
        );
        assert_eq!(of("_Z6helperi"), None);
        assert_eq!(of("_ZN4core3fmt5write17h0123456789abcdefE"), None);
        assert_eq!(of("_ZN4core3fmt5write17h0123456789abcdefE.llvm.12"), None);
        let dots = "_ZN4core3ptr42drop_in_place$LT$alloc..string..String$GT$17h0123456789abcdefE.llvm.7";
        assert!(is_rust(dots) && of(dots).is_none());
        assert_eq!(of("main"), None);
    }

    #[test]
    fn go_is_grouped_by_packages() {
        assert_eq!(go_package("encoding/json.(*Decoder).Decode"), Some("encoding/json"));
        assert_eq!(go_package("github.com/a/b.v2.Run"), Some("github.com/a/b"));
        assert_eq!(go_package("main.main"), Some("main"));
        assert_eq!(go_package("memmove"), None);
    }
}
