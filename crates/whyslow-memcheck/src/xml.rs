//! Reads XML as Valgrind writes it into elements: no attributes, five entities, CDATA. Whatever is wrong in it ends
//! up as less content, never as an error: a file can be cut off anywhere, or a program can have written into it.

use std::borrow::Cow;

/// Deeper elements are left out; memcheck's reports have six levels.
const DEEPEST: usize = 16;

/// An element.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) name: String,
    /// Its text without that of elements in it.
    pub(crate) text: String,
    pub(crate) children: Vec<Element>,
    /// Whether its end is missing.
    pub(crate) is_cut: bool,
}

impl Element {
    /// The first element of this name.
    pub(crate) fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The text of the first element of this name, without space around it.
    pub(crate) fn text_of(&self, name: &str) -> &str {
        self.child(name).map_or("", |child| child.text.trim())
    }

    /// The number in the first element of this name: decimal, or hexadecimal with `0x`.
    pub(crate) fn number_of(&self, name: &str) -> Option<u64> {
        number(self.text_of(name))
    }

    /// All elements of this name.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Self> {
        self.children.iter().filter(move |child| child.name == name)
    }
}

/// `0x1f` or `31`.
pub(crate) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The elements of a text, in an element without a name.
pub(crate) fn elements(bytes: &[u8]) -> Element {
    let text = String::from_utf8_lossy(bytes);
    let mut open = vec![Element::default()];
    // Elements that are open below the deepest that is kept.
    let mut below = 0_usize;
    for token in Tokens(&text) {
        match token {
            Token::Start(_) if open.len() > DEEPEST => below = below.saturating_add(1),
            Token::Start(name) => open.push(Element { name: name.to_owned(), ..Element::default() }),
            Token::End(_) if below > 0 => below -= 1,
            Token::End(name) => end(&mut open, name),
            Token::Text(text) if below == 0 => {
                if let Some(element) = open.last_mut() {
                    element.text.push_str(&text);
                }
            }
            Token::Text(_) => {}
        }
    }
    while open.len() > 1 {
        close(&mut open, true);
    }
    open.pop().unwrap_or_default()
}

/// Ends the innermost open element of this name; elements inside that have no end are cut.
fn end(open: &mut Vec<Element>, name: &str) {
    let Some(at) = open.iter().rposition(|element| element.name == name).filter(|at| *at > 0) else { return };
    while open.len() > at + 1 {
        close(open, true);
    }
    close(open, false);
}

fn close(open: &mut Vec<Element>, is_cut: bool) {
    if let Some(mut element) = open.pop() {
        element.is_cut |= is_cut;
        if let Some(parent) = open.last_mut() {
            parent.children.push(element);
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Token<'a> {
    Start(&'a str),
    End(&'a str),
    Text(Cow<'a, str>),
}

/// The tokens of a text.
struct Tokens<'a>(&'a str);

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            if self.0.is_empty() {
                return None;
            }
            let Some(rest) = self.0.strip_prefix('<') else {
                let end = self.0.find('<').unwrap_or(self.0.len());
                let (text, rest) = self.0.split_at(end);
                self.0 = rest;
                return Some(Token::Text(unescaped(text)));
            };
            if let Some(rest) = rest.strip_prefix("![CDATA[") {
                let (text, rest) = rest.split_once("]]>").unwrap_or((rest, ""));
                self.0 = rest;
                return Some(Token::Text(Cow::Borrowed(text)));
            }
            // A tag without an end is the place of a cut.
            let Some((tag, rest)) = rest.split_once('>') else {
                self.0 = "";
                return None;
            };
            if let Some(name) = tag.strip_prefix('/').filter(|name| is_name(name)) {
                self.0 = rest;
                return Some(Token::End(name));
            }
            if is_name(tag) {
                self.0 = rest;
                return Some(Token::Start(tag));
            }
            if tag.starts_with(['?', '!']) {
                self.0 = rest;
                continue;
            }
            // No tag of Valgrind's: something else wrote here.
            self.0 = &self.0[1..];
            return Some(Token::Text(Cow::Borrowed("<")));
        }
    }
}

fn is_name(tag: &str) -> bool {
    tag.len() <= 64
        && tag.starts_with(|c: char| c.is_ascii_alphabetic())
        && tag.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
}

/// Replaces XML's five named characters; what is no entity stays.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let names = [("&lt;", '<'), ("&gt;", '>'), ("&quot;", '"'), ("&apos;", '\''), ("&amp;", '&')];
        let found = names.iter().find(|(name, _)| from.starts_with(name));
        let (character, length) = found.map_or(('&', 1), |(name, character)| (*character, name.len()));
        out.push(character);
        rest = &from[length..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_text_entities_and_raw_text() {
        let root = elements(b"<?xml version=\"1.0\"?>\n<a><b> 0x1F </b><c>x &lt;y&gt; &amp;amp; &#1;</c><d><![CDATA[<&lt;>]]></d></a>");
        let a = root.child("a").unwrap();
        assert_eq!(a.number_of("b"), Some(31));
        assert_eq!(a.text_of("c"), "x <y> &amp; &#1;");
        assert_eq!(a.text_of("d"), "<&lt;>");
        assert!(!a.is_cut);
    }

    #[test]
    fn a_missing_end_cuts_only_what_is_inside() {
        let root = elements(b"<a><b>1<c>2</a><d>3");
        let a = root.child("a").unwrap();
        assert!(!a.is_cut && a.child("b").unwrap().is_cut);
        assert_eq!(root.text_of("d"), "3");
        assert!(root.child("d").unwrap().is_cut);
        assert_eq!(elements(b"</x></x><a>1</a>").text_of("a"), "1");
    }

    #[test]
    fn foreign_text_with_angle_brackets_is_text() {
        assert_eq!(elements(b"<a>if (x < y) <std::vector> z</a>").text_of("a"), "if (x < y) <std::vector> z");
    }

    #[test]
    fn deep_nesting_is_left_out() {
        let deep = format!("{}x{}<b>1</b>", "<a>".repeat(100_000), "</a>".repeat(100_000));
        let root = elements(deep.as_bytes());
        assert_eq!(root.text_of("b"), "1");
    }

    #[test]
    fn numbers_out_of_range_are_no_numbers() {
        assert_eq!([number("99999999999999999999"), number("0x"), number("-1"), number("")], [None; 4]);
        assert_eq!(number("0xffffffffffffffff"), Some(u64::MAX));
    }
}
