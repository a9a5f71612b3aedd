//! Makes untrusted text harmless: a function's name must not move the cursor or colour the screen.

use std::borrow::Cow;

/// Escapes every character that a terminal would obey or that is invisible, as `\u{1b}`.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return text.into();
    }
    let mut cleaned = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_unsafe(c) {
            cleaned.extend(c.escape_unicode());
        } else {
            cleaned.push(c);
        }
    }
    cleaned.into()
}

/// Cleans a line of source code; tabs become spaces.
pub fn clean_source(line: &str) -> String {
    clean(&line.trim_end().replace('\t', "    ")).into_owned()
}

/// Whether a character is a control character, or invisible and able to reorder or join its neighbours.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_shown_and_not_obeyed() {
        assert_eq!(clean("a\x1b[31mb\r\n"), "a\\u{1b}[31mb\\u{d}\\u{a}");
        assert_eq!(clean("a\u{9b}2J\u{202e}b\0"), "a\\u{9b}2J\\u{202e}b\\u{0}");
    }

    #[test]
    fn ordinary_names_are_left_alone() {
        assert!(matches!(clean("app::größe::<T>"), Cow::Borrowed("app::größe::<T>")));
        assert_eq!(clean_source("\tlet x = 1;\r\n"), "    let x = 1;");
    }
}
