//! The distinct functions of a picture: name, short name, crate and kind, each once.

use std::collections::HashMap;

use whyslow_analyze::{CallTree, Fold, Label};
use whyslow_profile::{CodeKind, Profile, SpecialFrame, bracketed};
use whyslow_words::number_of;

use super::text::{visible, visible_name};
use crate::names::short_name;

/// A function as visible text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Function {
    pub name: String,
    pub short: String,
    pub crate_name: String,
    /// `None` for entries that are not code: the root and the placeholder for missing frames.
    pub kind: Option<CodeKind>,
    /// Whether it stands for several frames that only carry other code.
    pub folded: bool,
}

impl Function {
    fn new(profile: &Profile, label: Label, fold: Fold) -> Self {
        if fold.frames > 0 {
            let frames = number_of(fold.frames.into(), "frame", "frames");
            let name = bracketed(&format!("{}: {frames}", fold.words()));
            let kind = Some(CallTree::kind(profile, label));
            return Self { short: name.clone(), name, crate_name: String::new(), kind, folded: true };
        }
        let whole = CallTree::name(profile, label);
        let whole = if whole.is_empty() { SpecialFrame::NoName.text().into() } else { whole };
        let kind = match label {
            Label::Root | Label::Truncated => None,
            label => Some(CallTree::kind(profile, label)),
        };
        let crate_name = match label {
            Label::Function(id) => profile.functions.get(id.index()).and_then(|row| row.crate_name),
            _ => None,
        };
        Self {
            short: visible(&short_name(&whole)),
            name: visible_name(&whole),
            crate_name: crate_name.map_or_else(String::new, |id| visible(profile.text(id))),
            kind,
            folded: false,
        }
    }
}

/// The functions of some nodes, in the order of first use.
pub(super) struct Functions<'a> {
    profile: &'a Profile,
    rows: Vec<Function>,
    row_of: HashMap<(Label, Fold), u32>,
}

impl<'a> Functions<'a> {
    pub(super) fn new(profile: &'a Profile) -> Self {
        Self { profile, rows: Vec::new(), row_of: HashMap::new() }
    }

    /// The row of a label's function, or of the fold at its node.
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
