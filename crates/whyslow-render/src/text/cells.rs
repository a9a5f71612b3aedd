//! Cells that several tables have: functions, kinds of code, places.

use whyslow_analyze::{CallTree, Label};
use whyslow_profile::{CodeKind, Profile, StringId};

use super::layout::{DIM, kind_style};
use crate::table::{Cell, Column};

/// The least room for names: numbers give way until then.
pub(super) const NAME: usize = 20;

/// A function, in the colour of its kind.
pub(super) fn function(profile: &Profile, label: Label) -> Cell {
    Cell::name(CallTree::name(profile, label)).style(kind_style(CallTree::kind(profile, label)))
}

/// The column of kinds of code; names follow it closely.
pub(super) fn kind_column() -> Column {
    Column::words("kind", "kind").least(10)
}

/// A kind of code, in its colour.
pub(super) fn kind(kind: CodeKind) -> Cell {
    Cell::text(kind.label()).style(kind_style(kind))
}

/// A line of a source file.
pub(super) fn place(profile: &Profile, file: Option<StringId>, line: u32) -> Cell {
    Cell::place(file.map(|file| profile.text(file)), line)
}

/// The place where a function is defined.
pub(super) fn definition(profile: &Profile, label: Label) -> Cell {
    let Label::Function(id) = label else { return Cell::nothing() };
    let function = &profile.functions[id.index()];
    place(profile, function.file, function.line).style(DIM)
}
