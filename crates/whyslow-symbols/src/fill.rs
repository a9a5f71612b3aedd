//! Writes answers into a profile: texts, functions with their kind, frames, the state of modules.

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use whyslow_numbers::RelativeAddress;
use whyslow_profile::{
    CodeKind, Frame, Function, FunctionId, LocationId, ModuleId, ModuleKind, Profile, StringId, Strings,
};

use crate::answers::{Answers, RawFunction, TextId};
use crate::demangle::{is_rust, shown_name};
use crate::kind::{Home, Language, Subject, classify, manifest};

/// Interns texts of a profile.
#[derive(Debug)]
pub(crate) struct Texts {
    ids: FxHashMap<Box<str>, StringId>,
}

impl Texts {
    /// Starts with every text of a profile.
    pub(crate) fn of(strings: &Strings) -> Self {
        let ids =
            strings.iter().enumerate().map(|(index, text)| (text.into(), StringId::from(index))).collect();
        Self { ids }
    }

    /// The id of a text, which is added if new.
    pub(crate) fn id(&mut self, strings: &mut Strings, text: &str) -> StringId {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let id = strings.push(text);
        self.ids.insert(text.into(), id);
        id
    }
}

/// A function as it is displayed.
struct Shown {
    name: String,
    raw: String,
    kind: CodeKind,
    crate_name: Option<String>,
}

/// Adds the functions and frames of one module's locations, which must be sorted by address.
pub(crate) fn fill(
    profile: &mut Profile,
    texts: &mut Texts,
    module: ModuleId,
    answers: &Answers,
    locations: &[(RelativeAddress, LocationId)],
) {
    let row = &profile.modules[module.index()];
    let module_kind = row.kind;
    let module_path = profile.text(row.path).to_owned();
    let surroundings = Surroundings::of(answers, module_kind, &module_path);
    let show = |function: &RawFunction| show(answers, function, &surroundings);
    // Demangling a few names is not worth a second thread.
    let shown: Vec<Shown> = answers.functions().par_iter().with_min_len(256).map(show).collect();

    let mut ids: Vec<Option<StringId>> = vec![None; answers.texts().len()];
    let mut text = |profile: &mut Profile, texts: &mut Texts, id: TextId| {
        *ids[id.0 as usize].get_or_insert_with(|| texts.id(&mut profile.strings, answers.text(id)))
    };
    let first = profile.functions.len();
    for (function, shown) in answers.functions().iter().zip(shown) {
        let row = Function {
            name: texts.id(&mut profile.strings, &shown.name),
            raw_name: texts.id(&mut profile.strings, &shown.raw),
            crate_name: shown.crate_name.map(|name| texts.id(&mut profile.strings, &name)),
            kind: shown.kind,
            file: function.file.map(|file| text(profile, texts, file)),
            line: function.line,
            module: Some(module),
        };
        profile.functions.push(row);
    }
    let same = with_definitions(answers.functions());
    let mut frames = Vec::new();
    for site in answers.sites() {
        frames.clear();
        for frame in answers.frames_of(site) {
            let file = frame.file.map(|file| text(profile, texts, file));
            let function = FunctionId::from(first + same[frame.function as usize]);
            frames.push(Frame { function, file, line: frame.line });
        }
        if frames.is_empty() {
            continue;
        }
        let at = locations.partition_point(|&(address, _)| address < site.address);
        for &(_, location) in locations[at..].iter().take_while(|&&(address, _)| address == site.address) {
            profile.frames.set(location, &frames);
        }
    }
}

/// For each function, the row that represents it. For hand-written assembly, debug info has lines at some
/// addresses and only the symbol at others: both are the function with the known definition.
fn with_definitions(functions: &[RawFunction]) -> Vec<usize> {
    let defined = functions.iter().enumerate().filter(|(_, function)| function.file.is_some());
    let defined: FxHashMap<TextId, usize> = defined.map(|(row, function)| (function.name, row)).collect();
    let rows = functions.iter().enumerate();
    rows.map(|(row, function)| match (function.file, defined.get(&function.name)) {
        (None, Some(&definition)) => definition,
        _ => row,
    })
    .collect()
}

/// Facts about a module that apply to all of its functions.
struct Surroundings<'a> {
    module_kind: ModuleKind,
    module_path: &'a str,
    language: Language,
    /// Source files of the program's own packages.
    own_files: FxHashSet<TextId>,
}

impl<'a> Surroundings<'a> {
    fn of(answers: &Answers, module_kind: ModuleKind, module_path: &'a str) -> Self {
        let functions = answers.functions();
        let is_go = |function: &RawFunction| {
            function.file.is_some_and(|file| answers.text(file).ends_with(".go"))
                || answers.text(function.name).starts_with("runtime.goexit")
        };
        let language = if functions.iter().any(|function| is_rust(answers.text(function.name))) {
            Language::Rust
        } else if functions.iter().any(is_go) {
            Language::Go
        } else {
            Language::Other
        };
        let mut own_files = FxHashSet::default();
        if language == Language::Rust && module_kind == ModuleKind::Program {
            let files = || functions.iter().filter_map(|function| Some((function.name, function.file?)));
            let named = files().map(|(name, file)| (shown_name(answers.text(name)), answers.text(file)));
            let named = named.collect::<Vec<_>>();
            let home =
                Home::of(module_path, named.iter().map(|(name, file)| (name.as_str(), *file)), manifest);
            own_files = files().map(|(_, file)| file).collect();
            own_files.retain(|&file| home.owns(answers.text(file), manifest));
        }
        Self { module_kind, module_path, language, own_files }
    }
}

fn show(answers: &Answers, function: &RawFunction, surroundings: &Surroundings<'_>) -> Shown {
    let Surroundings { module_kind, module_path, language, ref own_files } = *surroundings;
    let stored = answers.text(function.name);
    let (raw, kernel_module) = match module_kind {
        ModuleKind::Kernel => crate::kernel::split_module(stored),
        _ => (stored, None),
    };
    let (raw, name) = match crate::unnamed::shown(raw, module_path) {
        // There is no linkage name.
        Some(name) => ("", name),
        None if module_kind == ModuleKind::Jit => (raw, raw.to_owned()),
        None => (raw, shown_name(raw)),
    };
    let file = function.file.map(|file| answers.text(file));
    let at_home = function.file.is_some_and(|file| own_files.contains(&file));
    let subject = Subject { name: &name, raw, file, module_kind, module_path, language, at_home };
    let (kind, crate_name) = classify(&subject);
    let crate_name = kernel_module.map(str::to_owned).or(crate_name);
    let name = function.form.and_then(|form| form.shown(&name)).unwrap_or(name);
    Shown { raw: raw.to_owned(), kind, crate_name, name }
}
