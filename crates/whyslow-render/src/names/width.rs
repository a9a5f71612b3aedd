//! The width of text in columns of a fixed-pitch font.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The columns of a text without control characters: wide characters take two, combining ones none.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// The longest prefix that takes at most `width` columns.
pub(crate) fn beginning(text: &str, width: usize) -> &str {
    let mut used = 0;
    let mut kept = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(1);
        if used > width {
            break;
        }
        kept = at + c.len_utf8();
    }
    // Some characters are wider together than separately.
    while columns(&text[..kept]) > width {
        kept = text[..kept].char_indices().last().map_or(0, |(at, _)| at);
    }
    &text[..kept]
}

/// The longest suffix that takes at most `width` columns.
pub(crate) fn ending(text: &str, width: usize) -> &str {
    let mut used = 0;
    let mut start = text.len();
    for (at, c) in text.char_indices().rev() {
        used += c.width().unwrap_or(1);
        if used > width {
            break;
        }
        start = at;
    }
    while columns(&text[start..]) > width {
        start += text[start..].chars().next().map_or(1, char::len_utf8);
    }
    &text[start..]
}

/// Cuts a text that is too wide and ends it with `…`.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    match width {
        0 => String::new(),
        _ => format!("{}…", beginning(text, width - 1)),
    }
}
