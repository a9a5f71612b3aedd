//! The distinct functions of a picture: name, short name, crate and kind, each once.

use std::collections::HashMap;

use whyslow_analyze::{CallTree, Count, Fold, Label};
use whyslow_profile::{CodeKind, Profile};

use super::text::visible;
use crate::names::short_name;

/// What is shown of a function, as visible text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Function {
    pub name: String,
    pub short: String,
    pub crate_name: String,
    /// `None` for what is no code: the root and the place of missing frames.
    pub kind: Option<CodeKind>,
    /// Whether it stands for several frames that only carry other code.
    pub folded: bool,
}

impl Function {
    fn new(profile: &Profile, label: Label, fold: Fold) -> Self {
        if fold.frames > 0 {
            let frames = if fold.frames == 1 { "frame" } else { "frames" };
            let name = format!("[{}: {} {frames}]", fold.words(), Count(fold.frames.into()));
            let kind = Some(CallTree::kind(profile, label));
            return Self { short: name.clone(), name, crate_name: String::new(), kind, folded: true };
        }
        let mut name = visible(&CallTree::name(profile, label));
        if name.is_empty() {
            name.push_str("[no name]");
        }
        let kind = match label {
            Label::Root | Label::Truncated => None,
            label => Some(CallTree::kind(profile, label)),
        };
        let crate_name = match label {
            Label::Function(id) => profile.functions.get(id.index()).and_then(|row| row.crate_name),
            _ => None,
        };
        Self {
            short: short_name(&name),
            name,
            crate_name: crate_name.map_or_else(String::new, |id| visible(profile.text(id))),
            kind,
            folded: false,
        }
    }
}

/// The functions of some nodes, in the order in which they are first asked for.
pub(super) struct Functions<'a> {
    profile: &'a Profile,
    rows: Vec<Function>,
    row_of: HashMap<(Label, Fold), u32>,
}

impl<'a> Functions<'a> {
    pub(super) fn new(profile: &'a Profile) -> Self {
        Self { profile, rows: Vec::new(), row_of: HashMap::new() }
    }

    /// The row of a label's function, or of what is folded into a node of it.
    pub(super) fn row(&mut self, label: Label, fold: Fold) -> u32 {
        *self.row_of.entry((label, fold)).or_insert_with(|| {
            self.rows.push(Function::new(self.profile, label, fold));
            self.rows.len() as u32 - 1
        })
    }

    pub(super) fn rows(&self) -> &[Function] {
        &self.rows
    }
}
