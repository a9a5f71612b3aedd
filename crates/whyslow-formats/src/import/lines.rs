//! The lines of a text file, with their numbers; bytes that are no UTF-8 are replaced.

use std::borrow::Cow;

/// Lines without their ends. The number of the first is 1.
pub(super) fn numbered(bytes: &[u8]) -> impl Iterator<Item = (u64, Cow<'_, str>)> {
    // Nothing comes after the end of the last line.
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    (1..).zip(bytes.split(|byte| *byte == b'\n')).map(|(number, line)| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        (number, String::from_utf8_lossy(line))
    })
}

/// The lines that are whole in the first bytes of a file; all of them when there is only a part of one.
pub(super) fn whole(start: &[u8]) -> &[u8] {
    match start.iter().rposition(|byte| *byte == b'\n') {
        Some(end) => &start[..end],
        None => start,
    }
}

/// Whether bytes are text: no control characters but tabs and line ends.
pub(super) fn is_text(start: &[u8]) -> bool {
    !start.is_empty()
        && start.iter().all(|byte| *byte >= b' ' || matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c | 0x1b))
}
