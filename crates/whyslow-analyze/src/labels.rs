//! Labels of frames: their names, kinds and dense numbering.

use std::borrow::Cow;
use std::ops::ControlFlow;

use rustc_hash::FxHashMap;
use whyslow_profile::{
    Carrier, CodeKind, FunctionId, LocationId, ModuleId, ModuleKind, Profile, SpecialFrame, bracketed,
    is_bracketed,
};

/// What a node of a [`crate::CallTree`] stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Label {
    /// Everything: node 0.
    Root,
    /// A function.
    Function(FunctionId),
    /// Code in this module without a symbol.
    Module(ModuleId),
    /// Code in no known module.
    Unknown,
    /// The missing outer frames of a truncated stack.
    Truncated,
    /// Several frames in a row that only carry other code, in folded trees.
    Carried(Carrier),
}

/// The name of unresolved code of a module: its file name in brackets.
pub(crate) fn module_name(profile: &Profile, module: ModuleId) -> String {
    let name = module_file_name(profile, module);
    if is_bracketed(name) { name.to_owned() } else { bracketed(name) }
}

/// The last part of a module's path.
pub(crate) fn module_file_name(profile: &Profile, module: ModuleId) -> &str {
    let path = profile.modules.get(module.index()).map_or("", |module| profile.text(module.path));
    if is_bracketed(path) {
        return path;
    }
    // The kernel's mark of a deleted file.
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether a location has a function with a known name. A function of a stripped module has only an address.
pub(crate) fn is_named(profile: &Profile, location: LocationId) -> bool {
    let functions = profile.frames.of(location).iter().map(|frame| frame.function);
    functions.into_iter().any(|function| !is_nameless(profile, function))
}

/// Whether a function is named by its address because its module has no symbol for it.
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
        Label::Unknown => SpecialFrame::Unknown.text().into(),
        Label::Truncated => SpecialFrame::Truncated.text().into(),
        Label::Carried(carrier) => bracketed(carrier.word()).into(),
    }
}

/// Whether a label stands for time that no sample fell into.
pub(crate) fn is_not_sampled(profile: &Profile, label: Label) -> bool {
    let Label::Module(id) = label else { return false };
    profile.modules.get(id.index()).is_some_and(|module| module.kind == ModuleKind::NotSampled)
}

/// Whether a label stands for frames that are left out of a deep recursion.
pub(crate) fn is_left_out(profile: &Profile, label: Label) -> bool {
    let Label::Module(id) = label else { return false };
    profile.modules.get(id.index()).is_some_and(|module| module.kind == ModuleKind::LeftOut)
}

/// The kind of a label's code.
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

/// The carrier family of a label, if its code only carries other code.
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

/// For each function the first one that looks the same to a reader; itself if there is none before it.
pub fn first_alike(profile: &Profile) -> Vec<u32> {
    Labels::new(profile).same_as
}

/// Numbers the labels of a profile from 0, so tables over them are plain vectors.
///
/// Functions that look the same to a reader (instances of one generic function: same name, file and line)
/// share one number.
#[derive(Debug)]
pub(crate) struct Labels {
    same_as: Vec<u32>,
    modules: u32,
    /// The module that stands for frames that are left out of a deep recursion.
    left_out: Option<u32>,
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
        let left_out = profile.modules.iter().position(|module| module.kind == ModuleKind::LeftOut);
        Self {
            same_as: same_as.collect(),
            modules: profile.modules.len() as u32,
            left_out: left_out.map(|module| module as u32),
        }
    }

    /// Whether a label stands for frames that are left out of a deep recursion.
    pub(crate) fn is_left_out(&self, code: u32) -> bool {
        self.left_out.is_some_and(|module| code == self.functions() + module)
    }

    fn functions(&self) -> u32 {
        self.same_as.len() as u32
    }

    /// The number of labels.
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

    /// The number of each location, if every location has one frame and no two have the same number. Stacks
    /// then already are a tree of labels, as in folded files. `None` otherwise.
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

/// The label of a location without frames.
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
