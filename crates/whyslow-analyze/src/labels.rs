//! What a frame is called: labels, their names and kinds, and their numbering without gaps.

use std::borrow::Cow;
use std::ops::ControlFlow;

use rustc_hash::FxHashMap;
use whyslow_profile::{Carrier, CodeKind, FunctionId, LocationId, ModuleId, ModuleKind, Profile};

/// What a node of a [`crate::CallTree`] stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Label {
    /// Everything: node 0.
    Root,
    /// A function.
    Function(FunctionId),
    /// Code in this module for which no name is known.
    Module(ModuleId),
    /// Code in no known module.
    Unknown,
    /// The place of outer frames that could not be had.
    Truncated,
    /// Several frames in a row that only carry other code, in folded trees.
    Carried(Carrier),
}

/// The name of unresolved code of a module: its base name in brackets.
pub(crate) fn module_name(profile: &Profile, module: ModuleId) -> String {
    let name = module_file_name(profile, module);
    if name.starts_with('[') { name.to_owned() } else { format!("[{name}]") }
}

/// The last part of a module's path.
pub(crate) fn module_file_name(profile: &Profile, module: ModuleId) -> &str {
    let path = profile.modules.get(module.index()).map_or("", |module| profile.text(module.path));
    if path.starts_with('[') {
        return path;
    }
    // The kernel's mark of a file that has no name any more.
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether a location has a function whose name is known. One of a stripped module is only told from the others, by its address.
pub(crate) fn is_named(profile: &Profile, location: LocationId) -> bool {
    let functions = profile.frames.of(location).iter().map(|frame| frame.function);
    functions.into_iter().any(|function| !is_nameless(profile, function))
}

/// Whether a function is called by its address, since its module does not say what its name is.
pub(crate) fn is_nameless(profile: &Profile, function: FunctionId) -> bool {
    let function = profile.functions.get(function.index());
    function.is_some_and(|function| profile.text(function.raw_name).is_empty())
}

/// The name to show for a label.
pub(crate) fn name(profile: &Profile, label: Label) -> Cow<'_, str> {
    match label {
        Label::Root => "all".into(),
        Label::Function(id) => {
            profile.functions.get(id.index()).map_or("", |function| profile.text(function.name)).into()
        }
        Label::Module(id) => module_name(profile, id).into(),
        Label::Unknown => "[unknown]".into(),
        Label::Truncated => "[truncated stack]".into(),
        Label::Carried(carrier) => format!("[{}]", carrier.word()).into(),
    }
}

/// Whether a label stands for time that no sample fell into.
pub(crate) fn is_not_sampled(profile: &Profile, label: Label) -> bool {
    let Label::Module(id) = label else { return false };
    profile.modules.get(id.index()).is_some_and(|module| module.kind == ModuleKind::NotSampled)
}

/// Whose code a label is.
pub(crate) fn kind(profile: &Profile, label: Label) -> CodeKind {
    match label {
        Label::Function(id) => profile.functions.get(id.index()).map_or(CodeKind::Unknown, |f| f.kind),
        Label::Module(id) => match profile.modules.get(id.index()).map(|module| module.kind) {
            Some(ModuleKind::Kernel | ModuleKind::SystemCall) => CodeKind::Kernel,
            Some(ModuleKind::Vdso) => CodeKind::Runtime,
            _ => CodeKind::Unknown,
        },
        Label::Carried(_) => CodeKind::Runtime,
        Label::Root | Label::Unknown | Label::Truncated => CodeKind::Unknown,
    }
}

/// The family of code that only carries other code, when the label is of one.
pub(crate) fn carrier(profile: &Profile, label: Label) -> Option<Carrier> {
    match label {
        Label::Function(id) => {
            let function = profile.functions.get(id.index())?;
            let file = function.file.map(|file| profile.text(file));
            Carrier::of(profile.text(function.name), function.kind, file)
        }
        Label::Carried(carrier) => Some(carrier),
        Label::Root | Label::Module(_) | Label::Unknown | Label::Truncated => None,
    }
}

/// Numbers the labels of a profile from 0, so that tables over them are plain vectors.
///
/// Functions that a reader cannot tell apart (instances of one generic function: same name, file and line) get the
/// same number.
#[derive(Debug)]
pub(crate) struct Labels {
    same_as: Vec<u32>,
    modules: u32,
}

impl Labels {
    pub(crate) fn new(profile: &Profile) -> Self {
        let mut first = FxHashMap::default();
        let same_as = (0u32..).zip(&profile.functions).map(|(id, function)| {
            let file = function.file.map(|file| profile.text(file));
            let module = if file.is_none() { function.module } else { None };
            let key = (profile.text(function.name), file, function.line, module);
            *first.entry(key).or_insert(id)
        });
        Self { same_as: same_as.collect(), modules: profile.modules.len() as u32 }
    }

    fn functions(&self) -> u32 {
        self.same_as.len() as u32
    }

    /// How many numbers there are.
    pub(crate) fn len(&self) -> usize {
        self.same_as.len() + self.modules as usize + 3 + Carrier::all().len()
    }

    pub(crate) fn code(&self, label: Label) -> u32 {
        let special = self.functions() + self.modules;
        match label {
            Label::Function(id) => self.same_as.get(id.index()).copied().unwrap_or(special),
            Label::Module(id) if id.0 < self.modules => self.functions() + id.0,
            Label::Module(_) | Label::Unknown => special,
            Label::Truncated => special + 1,
            Label::Root => special + 2,
            Label::Carried(carrier) => special + 3 + u32::from(carrier.code()),
        }
    }

    pub(crate) fn label(&self, code: u32) -> Label {
        match code.checked_sub(self.functions()) {
            None => Label::Function(FunctionId(code)),
            Some(module) if module < self.modules => Label::Module(ModuleId(module)),
            Some(special) => match special - self.modules {
                0 => Label::Unknown,
                1 => Label::Truncated,
                2 => Label::Root,
                carrier => Carrier::all().nth(carrier as usize - 3).map_or(Label::Root, Label::Carried),
            },
        }
    }

    /// The number of each frame of a location, outermost first, with its inline depth.
    pub(crate) fn outermost_first(
        &self,
        profile: &Profile,
        location: LocationId,
        inline: bool,
        mut visit: impl FnMut(u32, bool),
    ) {
        let frames = shown(profile, location, inline);
        if frames.is_empty() {
            visit(self.code(without_frames(profile, location)), false);
        }
        for (depth, frame) in frames.iter().enumerate() {
            visit(self.code(Label::Function(frame.function)), depth > 0);
        }
    }

    /// The same, innermost first, until the visitor has enough.
    pub(crate) fn innermost_first(
        &self,
        profile: &Profile,
        location: LocationId,
        inline: bool,
        mut visit: impl FnMut(u32, bool) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let frames = shown(profile, location, inline);
        if frames.is_empty() {
            visit(self.code(without_frames(profile, location)), false)?;
        }
        for (depth, frame) in frames.iter().enumerate().rev() {
            visit(self.code(Label::Function(frame.function)), depth > 0)?;
        }
        ControlFlow::Continue(())
    }

    /// The number of the innermost frame of a location.
    pub(crate) fn innermost(&self, profile: &Profile, location: LocationId, inline: bool) -> u32 {
        match shown(profile, location, inline).last() {
            Some(frame) => self.code(Label::Function(frame.function)),
            None => self.code(without_frames(profile, location)),
        }
    }

    /// The number of each location, where every location has one frame and no two have the same number. Stacks are then
    /// a tree of labels already, as those of folded files are. `None` elsewhere.
    pub(crate) fn distinct_by_location(&self, profile: &Profile, inline: bool) -> Option<Vec<u32>> {
        let mut seen = vec![false; self.len()];
        let locations = 0..profile.locations.len();
        let codes = locations.map(LocationId::from).map(|location| {
            let code = match shown(profile, location, inline) {
                [] => self.code(without_frames(profile, location)),
                [frame] => self.code(Label::Function(frame.function)),
                _ => return None,
            };
            (!std::mem::replace(&mut seen[code as usize], true)).then_some(code)
        });
        codes.collect()
    }
}

/// What a location without frames is.
pub(crate) fn without_frames(profile: &Profile, location: LocationId) -> Label {
    if location == LocationId::TRUNCATED {
        return Label::Truncated;
    }
    match profile.locations.module.get(location.index()) {
        Some(&Some(module)) => Label::Module(module),
        _ => Label::Unknown,
    }
}

/// The frames of a location that a view shows.
pub(crate) fn shown(profile: &Profile, location: LocationId, inline: bool) -> &[whyslow_profile::Frame] {
    let frames = profile.frames.of(location);
    if inline { frames } else { &frames[..frames.len().min(1)] }
}
