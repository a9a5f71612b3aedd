//! Makes untrusted text safe for XML, for the script's data, and for readers.

use crate::names;
use std::fmt::Write as _;

/// Texts longer than this many characters are cut in the file: no screen shows more.
const LONGEST_TEXT: usize = 1_000;

/// Names of functions are searched, so they are kept much longer than a screen shows.
const LONGEST_NAME: usize = 20_000;

/// Spells out every character that is invisible or changes how its surroundings are shown: control characters
/// (which XML cannot hold at all), marks of writing direction, invisible spaces.
pub(crate) fn visible(text: &str) -> String {
    visible_up_to(text, LONGEST_TEXT)
}

/// The name of a function, as [`visible`] text.
pub(super) fn visible_name(name: &str) -> String {
    visible_up_to(name, LONGEST_NAME)
}

fn visible_up_to(text: &str, longest: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(longest));
    let mut chars = text.chars();
    for c in chars.by_ref().take(longest) {
        match c {
            '\n' => shown.push('␊'),
            '\t' => shown.push(' '),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' => {
                spell_out(&mut shown, c);
            }
            '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{ffff}' => {
                spell_out(&mut shown, c);
            }
            '\u{e000}'..='\u{f8ff}' | '\u{e0000}'..='\u{10ffff}' => spell_out(&mut shown, c),
            // The last two code points of every plane are not characters.
            c if c as u32 & 0xfffe == 0xfffe => spell_out(&mut shown, c),
            c => shown.push(c),
        }
    }
    let rest = chars.count();
    if rest > 0 {
        let _ = write!(shown, "… (+{rest} characters)");
    }
    shown
}

fn spell_out(shown: &mut String, c: char) {
    let _ = write!(shown, "\\u{{{:x}}}", c as u32);
}

/// Appends visible text as XML character data, safe in elements and in double-quoted attributes.
pub(crate) fn push_xml(out: &mut String, visible: &str) {
    for c in visible.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
}

/// Appends visible text as a JSON string that is safe in a CDATA section, even when the picture is pasted
/// into HTML: nothing in it can end the section (`]]>`) or the script (`</script`, `<!--`).
pub(super) fn push_json(out: &mut String, visible: &str) {
    out.push('"');
    let mut before = ['\0'; 2];
    for c in visible.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '>' if before == [']', ']'] => out.push_str("\\u003e"),
            '/' if before[1] == '<' => out.push_str("\\/"),
            '!' if before[1] == '<' => out.push_str("\\u0021"),
            c => out.push(c),
        }
        before = [before[1], c];
    }
    out.push('"');
}

/// The longest prefix that fits, with `…` if something is missing; `None` if nothing useful fits.
pub(super) fn cut(visible: &str, columns: usize) -> Option<String> {
    if columns < 3 {
        return (!visible.is_empty() && names::columns(visible) <= columns).then(|| visible.to_owned());
    }
    Some(names::cut(visible, columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_spelt_out() {
        assert_eq!(visible("a\u{202e}b\0c\nd\u{ffff}e"), "a\\u{202e}b\\u{0}c␊d\\u{ffff}e");
        assert_eq!(visible("größe::名前<T>"), "größe::名前<T>");
    }

    #[test]
    fn long_names_of_functions_are_whole() {
        let name = format!("{}last", "a::".repeat(5_000));
        assert_eq!(visible_name(&name), name);
        assert!(visible_name(&"x".repeat(1_000_000)).ends_with("x… (+980000 characters)"));
    }

    #[test]
    fn a_very_long_text_is_cut_and_says_by_how_much() {
        let shown = visible(&"x".repeat(100_000));
        assert!(shown.ends_with("x… (+99000 characters)"));
        assert!(shown.len() < 1_100);
    }

    #[test]
    fn json_cannot_end_the_script_around_it() {
        let mut out = String::new();
        push_json(&mut out, r#"a]]>b</script>"\<!--"#);
        assert_eq!(out, r#""a]]\u003eb<\/script>\"\\<\u0021--""#);
    }

    #[test]
    fn text_is_cut_to_columns() {
        assert_eq!(cut("abcdef", 6).as_deref(), Some("abcdef"));
        assert_eq!(cut("abcdef", 5).as_deref(), Some("abcd…"));
        assert_eq!(cut("abcdef", 2), None);
        assert_eq!(cut("ab", 2).as_deref(), Some("ab"));
        assert_eq!(cut("名前名前", 5).as_deref(), Some("名前…"));
        assert_eq!(cut("名前名前", 4).as_deref(), Some("名…"));
    }
}
