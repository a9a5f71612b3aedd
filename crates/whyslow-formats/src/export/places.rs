//! The frames of a location as every text-like format needs them: name, file, line.

use std::borrow::Cow;

use whyslow_analyze::{CallTree, Label};
use whyslow_profile::{CodeKind, LocationId, ModuleId, Profile};

/// One frame of a location.
#[derive(Debug, Clone)]
pub(super) struct Place<'p> {
    /// The function, or its replacement.
    pub(super) label: Label,
    pub(super) name: Cow<'p, str>,
    /// The file of the function's definition and its line there; 0 if unknown.
    pub(super) file: Option<&'p str>,
    pub(super) definition: u32,
    /// The line that was running; 0 if unknown.
    pub(super) line: u32,
    pub(super) kind: CodeKind,
    /// How many functions of this location it is nested in.
    pub(super) depth: usize,
}

/// The frames of a location, outermost first; never empty.
pub(super) fn places(profile: &Profile, location: LocationId, inline: bool) -> Vec<Place<'_>> {
    let frames = profile.frames.of(location);
    let shown = if inline { frames } else { &frames[..frames.len().min(1)] };
    if shown.is_empty() {
        let label = match module_of(profile, location) {
            _ if location == LocationId::TRUNCATED => Label::Truncated,
            Some(module) => Label::Module(module),
            None => Label::Unknown,
        };
        let (name, kind) = (CallTree::name(profile, label), CallTree::kind(profile, label));
        return vec![Place { label, name, file: None, definition: 0, line: 0, kind, depth: 0 }];
    }
    let place = |(depth, frame): (usize, &whyslow_profile::Frame)| {
        let label = Label::Function(frame.function);
        let function = &profile.functions[frame.function.index()];
        Place {
            label,
            name: CallTree::name(profile, label),
            file: frame.file.or(function.file).map(|file| profile.text(file)),
            definition: function.line,
            line: frame.line,
            kind: function.kind,
            depth,
        }
    };
    shown.iter().enumerate().map(place).collect()
}

/// The module a location is in.
pub(super) fn module_of(profile: &Profile, location: LocationId) -> Option<ModuleId> {
    let module = profile.locations.module.get(location.index()).copied().flatten();
    module.filter(|module| module.index() < profile.modules.len())
}

/// The last part of a path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
