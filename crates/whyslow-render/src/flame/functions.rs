//! The distinct functions of a picture: name, short name, crate and kind, each once.

use std::collections::HashMap;

use whyslow_analyze::{CallTree, Label};
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
}

impl Function {
    fn new(profile: &Profile, label: Label) -> Self {
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
        }
    }
}

/// The functions of some nodes, in the order in which they are first asked for.
pub(super) struct Functions<'a> {
    profile: &'a Profile,
    rows: Vec<Function>,
    row_of: HashMap<Label, u32>,
}

impl<'a> Functions<'a> {
    pub(super) fn new(profile: &'a Profile) -> Self {
        Self { profile, rows: Vec::new(), row_of: HashMap::new() }
    }

    /// The row of a label's function.
    pub(super) fn row(&mut self, label: Label) -> u32 {
        *self.row_of.entry(label).or_insert_with(|| {
            self.rows.push(Function::new(self.profile, label));
            self.rows.len() as u32 - 1
        })
    }

    pub(super) fn rows(&self) -> &[Function] {
        &self.rows
    }
}
