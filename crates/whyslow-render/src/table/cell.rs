//! What a cell holds, and its text.

use anstyle::Style;
use whyslow_profile::Unit;

use super::PLAIN;
use crate::names::{columns, cut, ending, place, shorten};
use crate::sanitize::{clean, clean_source};
use crate::units::{Count, Percent, bytes, duration};

/// The value of a cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Nothing,
    /// Words of ours.
    Text(String),
    /// A name that is quoted as it is: its start says most.
    Verbatim(String),
    /// A line of source text.
    Source(String),
    /// A function's name: shortened by its grammar.
    Name(String),
    /// A path: its end says most.
    Path(String),
    /// A line of a source file; line 0 stands for the file.
    Place(String, u32),
    /// A part of 1.
    Share(f64),
    Count(u64),
    Nanoseconds(u64),
    Bytes(u64),
    Number(f64),
}

/// A value with its looks.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    pub(super) value: Value,
    /// The text, if it is not the usual one of the value.
    text: Option<String>,
    /// Words behind it, dimmed.
    behind: Option<String>,
    pub(super) style: Style,
    /// Whether it is what matters in its row: bold in Markdown.
    pub(super) is_strong: bool,
    /// Whether it repeats the cell above, so that people do not see it again.
    pub(super) repeats: bool,
}

impl Cell {
    fn new(value: Value) -> Self {
        Self { value, text: None, behind: None, style: PLAIN, is_strong: false, repeats: false }
    }

    pub(crate) fn nothing() -> Self {
        Self::new(Value::Nothing)
    }

    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::new(Value::Text(text.into()))
    }

    pub(crate) fn verbatim(text: impl Into<String>) -> Self {
        Self::new(Value::Verbatim(text.into()))
    }

    pub(crate) fn source(line: impl Into<String>) -> Self {
        Self::new(Value::Source(line.into()))
    }

    pub(crate) fn name(name: impl Into<String>) -> Self {
        Self::new(Value::Name(name.into()))
    }

    pub(crate) fn path(path: impl Into<String>) -> Self {
        Self::new(Value::Path(path.into()))
    }

    pub(crate) fn place(file: Option<&str>, line: u32) -> Self {
        Self::new(file.map_or(Value::Nothing, |file| Value::Place(file.to_owned(), line)))
    }

    pub(crate) fn share(share: f64) -> Self {
        Self::new(Value::Share(share))
    }

    /// The share of a part in a whole.
    pub(crate) fn part(part: u64, whole: u64) -> Self {
        Self::share(part as f64 / whole.max(1) as f64)
    }

    pub(crate) fn count(count: u64) -> Self {
        Self::new(Value::Count(count))
    }

    /// A number that is a name: of a process, of a line.
    pub(crate) fn id(id: u32) -> Self {
        Self::count(id.into()).shown(id.to_string())
    }

    pub(crate) fn duration(ns: u64) -> Self {
        Self::new(Value::Nanoseconds(ns))
    }

    pub(crate) fn bytes(bytes: u64) -> Self {
        Self::new(Value::Bytes(bytes))
    }

    /// A value of a metric.
    pub(crate) fn amount(value: u64, unit: Unit) -> Self {
        match unit {
            Unit::Nanoseconds => Self::duration(value),
            Unit::Bytes => Self::bytes(value),
            Unit::Count => Self::count(value),
        }
    }

    /// A number that people see as this text.
    pub(crate) fn number(number: f64, text: impl Into<String>) -> Self {
        Self::new(Value::Number(number)).shown(text)
    }

    /// A number without a unit.
    pub(crate) fn plain(number: f64) -> Self {
        Self::new(Value::Number(number))
    }

    /// A cell, or nothing.
    pub(crate) fn maybe(cell: Option<Self>) -> Self {
        cell.unwrap_or_else(Self::nothing)
    }

    /// Shows another text than the usual one of the value.
    pub(crate) fn shown(self, text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..self }
    }

    /// Shows words behind the value, dimmed. Data do not have them.
    pub(crate) fn behind(self, words: impl Into<String>) -> Self {
        Self { behind: Some(words.into()), ..self }
    }

    pub(crate) fn style(self, style: Style) -> Self {
        Self { style, ..self }
    }

    /// Sets the words in bold in Markdown.
    pub(crate) fn strong(self, is_strong: bool) -> Self {
        Self { is_strong, ..self }
    }

    /// Hides it from people: it is the same as above.
    pub(crate) fn repeats(self, repeats: bool) -> Self {
        Self { repeats, ..self }
    }

    /// The whole text for people.
    pub(super) fn words(&self) -> String {
        match &self.text {
            Some(text) => clean(text).into_owned(),
            None => self.value.words(),
        }
    }

    /// The words behind the text.
    pub(super) fn words_behind(&self) -> Option<String> {
        self.behind.as_deref().map(|behind| format!(" {}", clean(behind)))
    }

    /// The text in at most `width` columns, and the words behind it.
    pub(super) fn fitted(&self, whole: &str, width: usize, full_names: bool) -> (String, String) {
        let behind = self.words_behind().unwrap_or_default();
        let room = width.saturating_sub(columns(&behind));
        let text = match &self.value {
            Value::Name(_) | Value::Verbatim(_) if full_names => whole.to_owned(),
            _ if columns(whole) <= room => whole.to_owned(),
            Value::Name(_) if self.text.is_none() => shorten(whole, room),
            Value::Path(_) => path_end(whole, room),
            Value::Place(file, line) => place(&clean(file), *line, room),
            _ => cut(whole, room),
        };
        let behind = if full_names { behind } else { cut(&behind, width.saturating_sub(columns(&text))) };
        (text, behind)
    }
}

/// The end of a path behind `…`.
fn path_end(path: &str, width: usize) -> String {
    match width {
        0 => String::new(),
        _ => format!("…{}", ending(path, width - 1)),
    }
}

impl Value {
    fn words(&self) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Text(text) | Self::Verbatim(text) | Self::Name(text) | Self::Path(text) => {
                clean(text).into_owned()
            }
            Self::Source(line) => clean_source(line),
            Self::Place(file, line) => place(&clean(file), *line, usize::MAX),
            Self::Share(share) => Percent(*share).to_string(),
            Self::Count(count) => Count(*count).to_string(),
            Self::Nanoseconds(ns) => duration(*ns),
            Self::Bytes(size) => bytes(*size),
            Self::Number(number) => number.to_string(),
        }
    }

    /// Whether it is quoted as it is: a name, a path, a command.
    pub(super) fn is_verbatim(&self) -> bool {
        matches!(self, Self::Verbatim(_) | Self::Source(_) | Self::Name(_) | Self::Path(_) | Self::Place(..))
    }
}
