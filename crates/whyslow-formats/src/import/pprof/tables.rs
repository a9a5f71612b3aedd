//! The messages of `profile.proto`, as far as whyslow reads them.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use super::wire::{Message, Value, numbers};
use crate::import::ImportError;

/// The tables that samples refer to.
#[derive(Default)]
pub(super) struct Tables<'a> {
    pub(super) texts: Vec<Cow<'a, str>>,
    pub(super) sample_types: Vec<ValueType>,
    pub(super) mappings: Vec<Mapping>,
    pub(super) locations: Vec<Location>,
    pub(super) functions: Vec<Function>,
    pub(super) mapping_rows: FxHashMap<u64, usize>,
    pub(super) location_rows: FxHashMap<u64, usize>,
    pub(super) function_rows: FxHashMap<u64, usize>,
    pub(super) time_ns: u64,
    pub(super) duration_ns: u64,
    pub(super) period_type: Option<ValueType>,
    pub(super) period: u64,
    pub(super) default_type: u64,
}

/// The type and unit of a column of values; both are rows of the text table.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct ValueType {
    pub(super) name: u64,
    pub(super) unit: u64,
}

#[derive(Default)]
pub(super) struct Mapping {
    pub(super) id: u64,
    pub(super) start: u64,
    pub(super) file_offset: u64,
    pub(super) file: u64,
    pub(super) build_id: u64,
}

#[derive(Default)]
pub(super) struct Location {
    pub(super) id: u64,
    pub(super) mapping: u64,
    pub(super) address: u64,
    /// Innermost first.
    pub(super) lines: Vec<Line>,
}

#[derive(Default)]
pub(super) struct Line {
    pub(super) function: u64,
    pub(super) line: u64,
}

#[derive(Default)]
pub(super) struct Function {
    pub(super) id: u64,
    pub(super) name: u64,
    pub(super) system_name: u64,
    pub(super) file: u64,
    pub(super) start_line: u64,
}

#[derive(Default)]
pub(super) struct Sample {
    /// Innermost first.
    pub(super) locations: Vec<u64>,
    pub(super) values: Vec<u64>,
    pub(super) labels: Vec<Label>,
}

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Label {
    pub(super) key: u64,
    pub(super) text: u64,
    pub(super) number: u64,
}

/// Calls `visit` for every field of a message.
fn each<'a>(
    message: Message<'a>,
    mut visit: impl FnMut(u64, Value<'a>) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    let mut fields = message.fields();
    while let Some((number, value)) = fields.next()? {
        visit(number, value)?;
    }
    Ok(())
}

/// Reads the numeric fields of a message, each into its variable.
macro_rules! number_fields {
    ($message:expr, $into:ident, $($field:literal => $name:ident),+) => {{
        each($message, |field, value| {
            match (field, value) {
                $(($field, Value::Number(number)) => $into.$name = number,)+
                _ => {}
            }
            Ok(())
        })?;
        Ok($into)
    }};
}

fn value_type(message: Message<'_>) -> Result<ValueType, ImportError> {
    let mut row = ValueType::default();
    number_fields!(message, row, 1 => name, 2 => unit)
}

fn mapping(message: Message<'_>) -> Result<Mapping, ImportError> {
    let mut row = Mapping::default();
    number_fields!(message, row, 1 => id, 2 => start, 4 => file_offset, 5 => file, 6 => build_id)
}

fn function(message: Message<'_>) -> Result<Function, ImportError> {
    let mut row = Function::default();
    number_fields!(message, row, 1 => id, 2 => name, 3 => system_name, 4 => file, 5 => start_line)
}

fn line(message: Message<'_>) -> Result<Line, ImportError> {
    let mut row = Line::default();
    number_fields!(message, row, 1 => function, 2 => line)
}

fn label(message: Message<'_>) -> Result<Label, ImportError> {
    let mut row = Label::default();
    number_fields!(message, row, 1 => key, 2 => text, 3 => number)
}

fn location(message: Message<'_>) -> Result<Location, ImportError> {
    let mut row = Location::default();
    each(message, |field, value| {
        match (field, value) {
            (1, Value::Number(number)) => row.id = number,
            (2, Value::Number(number)) => row.mapping = number,
            (3, Value::Number(number)) => row.address = number,
            (4, Value::Bytes(message)) => row.lines.push(line(message)?),
            _ => {}
        }
        Ok(())
    })?;
    Ok(row)
}

fn sample(message: Message<'_>) -> Result<Sample, ImportError> {
    let mut row = Sample::default();
    each(message, |field, value| {
        match (field, value) {
            (1, value) => numbers(value, &mut row.locations)?,
            (2, value) => numbers(value, &mut row.values)?,
            (3, Value::Bytes(message)) => row.labels.push(label(message)?),
            _ => {}
        }
        Ok(())
    })?;
    Ok(row)
}

impl<'a> Tables<'a> {
    /// Reads everything except the samples.
    pub(super) fn read(file: Message<'a>) -> Result<Self, ImportError> {
        let mut tables = Self::default();
        each(file, |field, value| {
            match (field, value) {
                (1, Value::Bytes(message)) => tables.sample_types.push(value_type(message)?),
                (3, Value::Bytes(message)) => {
                    let row = mapping(message)?;
                    tables.mapping_rows.insert(row.id, tables.mappings.len());
                    tables.mappings.push(row);
                }
                (4, Value::Bytes(message)) => {
                    let row = location(message)?;
                    tables.location_rows.insert(row.id, tables.locations.len());
                    tables.locations.push(row);
                }
                (5, Value::Bytes(message)) => {
                    let row = function(message)?;
                    tables.function_rows.insert(row.id, tables.functions.len());
                    tables.functions.push(row);
                }
                (6, Value::Bytes(text)) => tables.texts.push(String::from_utf8_lossy(text.bytes)),
                (9, Value::Number(number)) => tables.time_ns = number,
                (10, Value::Number(number)) => tables.duration_ns = number,
                (11, Value::Bytes(message)) => tables.period_type = Some(value_type(message)?),
                (12, Value::Number(number)) => tables.period = number,
                (14, Value::Number(number)) => tables.default_type = number,
                _ => {}
            }
            Ok(())
        })?;
        Ok(tables)
    }

    /// The text of a row; empty for one that does not exist.
    pub(super) fn text(&self, row: u64) -> &str {
        usize::try_from(row).ok().and_then(|row| self.texts.get(row)).map_or("", |text| text)
    }
}

/// Reads the samples one by one.
pub(super) fn each_sample<'a>(
    file: Message<'a>,
    mut visit: impl FnMut(Message<'a>, Sample) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    each(file, |field, value| match (field, value) {
        (2, Value::Bytes(message)) => visit(message, sample(message)?),
        _ => Ok(()),
    })
}
