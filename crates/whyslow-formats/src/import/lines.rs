//! The numbered lines of a text file. Invalid UTF-8 is replaced.

use std::borrow::Cow;

use whyslow_profile::ImportNote;

use super::{Format, ImportError};

/// Lines without their ends. The number of the first is 1.
pub(super) fn numbered(bytes: &[u8]) -> impl Iterator<Item = (u64, Cow<'_, str>)> {
    numbered_bytes(bytes).map(|(number, line)| {
        // Validating is faster than searching for bytes to replace.
        let text = std::str::from_utf8(line).map_or_else(|_| String::from_utf8_lossy(line), Cow::Borrowed);
        (number, text)
    })
}

/// The same as bytes.
pub(super) fn numbered_bytes(bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    // No empty line after the last line end.
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let mut start = 0;
    let ends = memchr::memchr_iter(b'\n', bytes).chain(std::iter::once(bytes.len()));
    (1..).zip(ends).map(move |(number, end)| {
        let line = &bytes[start..end];
        start = end + 1;
        (number, line.strip_suffix(b"\r").unwrap_or(line))
    })
}

/// The complete lines in the first bytes of a file; all bytes if there is only a part of one line.
pub(super) fn whole(start: &[u8]) -> &[u8] {
    match start.iter().rposition(|byte| *byte == b'\n') {
        Some(end) => &start[..end],
        None => start,
    }
}

/// Whether bytes are text: no control characters except tabs and line ends.
pub(super) fn is_text(start: &[u8]) -> bool {
    !start.is_empty()
        && start.iter().all(|byte| *byte >= b' ' || matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c | 0x1b))
}

/// The fields of a line of CSV. A quote inside a quoted field is doubled.
pub(super) fn comma_separated(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    fields.push(field);
    fields
}

/// Lines that were skipped because they cannot be read.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    count: u64,
    /// The first skipped line and what is wrong with it.
    first: Option<(u64, String)>,
}

impl LeftOut {
    pub(super) fn add(&mut self, line: u64, what: impl Into<String>) {
        self.count += 1;
        self.first.get_or_insert_with(|| (line, what.into()));
    }

    /// A note with the number of skipped lines and the first of them.
    pub(super) fn note(&self) -> Option<ImportNote> {
        let (first, what) = self.first.clone()?;
        Some(ImportNote::UnreadableLines { lines: self.count, first, what })
    }

    /// The first skipped line as an error, for files with no valid lines.
    pub(super) fn error(self, format: Format) -> Option<ImportError> {
        self.first.map(|(line, what)| ImportError::at_line(format, line, what))
    }
}
