//! A table as data: CSV and rows of JSON, with every value in full.

use std::borrow::Cow;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::cell::Value;
use super::{Row, Shown, Table};
use crate::sanitize::clean;

impl Table {
    /// Renders the table as CSV (RFC 4180, lines end with LF). Names are cleaned.
    pub fn csv(&self) -> String {
        let line = |cells: Vec<String>| cells.join(",") + "\n";
        let mut out = line(self.fields().map(|field| quoted(field.id)).collect());
        for row in &self.rows {
            out.push_str(&line(self.fields().map(|field| csv_cell(&field.of(row))).collect()));
        }
        out
    }

    /// The fields of a row: one per column, two for a place.
    pub(super) fn fields(&self) -> impl Iterator<Item = Field<'_>> {
        let columns = self.columns.iter().enumerate().filter(|(_, column)| column.shown != Shown::ToPeople);
        columns.flat_map(|(at, column)| {
            let line = column.line_id.as_deref().map(|id| Field { id, at, is_line: true });
            [Field { id: &column.id, at, is_line: false }].into_iter().chain(line)
        })
    }
}

/// A field of the rows.
pub(super) struct Field<'a> {
    pub(super) id: &'a str,
    /// The column.
    at: usize,
    /// Whether it is the line of a place, whose file is a field of its own.
    is_line: bool,
}

impl Field<'_> {
    /// Its value in a row.
    pub(super) fn of<'a>(&self, row: &'a Row) -> Cow<'a, Value> {
        let value = &row.cells[self.at].value;
        match value {
            Value::Place(_, line) if self.is_line && *line > 0 => Cow::Owned(Value::Count((*line).into())),
            _ if self.is_line => Cow::Owned(Value::Nothing),
            _ => Cow::Borrowed(value),
        }
    }
}

fn csv_cell(value: &Value) -> String {
    match value {
        Value::Nothing => String::new(),
        Value::Share(number) | Value::Number(number) if !number.is_finite() => String::new(),
        Value::Share(number) | Value::Number(number) => number.to_string(),
        Value::Count(number) | Value::Nanoseconds(number) | Value::Bytes(number) => number.to_string(),
        _ => quoted(value.text().unwrap_or_default()),
    }
}

/// Quotes a cell if needed, and prevents spreadsheets from reading it as a formula.
fn quoted(text: &str) -> String {
    let text = clean(text);
    let is_formula = text.starts_with(['=', '+', '-', '@']);
    if is_formula || text.contains([',', '"', '\n', '\r', '\'']) {
        let lead = if is_formula { "'" } else { "" };
        return format!("\"{lead}{}\"", text.replace('"', "\"\""));
    }
    text.into_owned()
}

impl Value {
    /// The whole text as it was recorded; `None` for numbers.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text)
            | Self::Verbatim(text)
            | Self::Source(text)
            | Self::Name(text)
            | Self::Path(text)
            | Self::Place(text, _) => Some(text),
            _ => None,
        }
    }
}

/// The rows as JSON objects: columns by their ids, texts as recorded.
impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rows = serializer.serialize_seq(Some(self.rows.len()))?;
        for row in &self.rows {
            rows.serialize_element(&Record { table: self, row })?;
        }
        rows.end()
    }
}

struct Record<'a> {
    table: &'a Table,
    row: &'a Row,
}

impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut record = serializer.serialize_map(None)?;
        for field in self.table.fields() {
            record.serialize_entry(field.id, &*field.of(self.row))?;
        }
        record.end()
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Share(number) | Self::Number(number) => serializer.serialize_f64(*number),
            Self::Count(number) | Self::Nanoseconds(number) | Self::Bytes(number) => {
                serializer.serialize_u64(*number)
            }
            _ => self.text().serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_never_a_formula() {
        assert_eq!(quoted("=1+1"), "\"'=1+1\"");
        assert_eq!(quoted("a \"b\", c"), "\"a \"\"b\"\", c\"");
        assert_eq!(csv_cell(&Value::Number(-1.5)), "-1.5", "a number is no formula");
    }
}
