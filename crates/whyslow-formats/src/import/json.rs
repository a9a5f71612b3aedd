//! What the JSON importers share: errors with a byte offset, and numbers that another tool may have written oddly.

use serde::de::DeserializeOwned;

use super::{Format, ImportError};

/// Parses the whole file.
pub(super) fn parse<T: DeserializeOwned>(format: Format, bytes: &[u8]) -> Result<T, ImportError> {
    serde_json::from_slice(bytes).map_err(|error| {
        let what = error.to_string();
        let what = what.rsplit_once(" at line ").map_or(what.as_str(), |(what, _)| what);
        ImportError::at_byte(format, offset(bytes, error.line(), error.column()), what)
    })
}

/// The byte at a line and column as serde_json counts them: lines from 1, columns in bytes.
fn offset(bytes: &[u8], line: usize, column: usize) -> u64 {
    let before = line.saturating_sub(2);
    let start = match line {
        0 | 1 => 0,
        _ => bytes
            .iter()
            .enumerate()
            .filter(|&(_, &byte)| byte == b'\n')
            .nth(before)
            .map_or(0, |(at, _)| at + 1),
    };
    (start + column).min(bytes.len()) as u64
}
