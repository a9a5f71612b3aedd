//! A function name as the user types it, and how well function names match it.

/// A function to search for.
#[derive(Debug, Clone)]
pub struct Wanted {
    text: String,
    lower: String,
    /// Identifiers of the path in lower case; empty if it is not a path.
    path: Vec<String>,
}

/// How well a name matches, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// The text is the name.
    Equal,
    /// The text is the end of the name's path: `Reader::read` of `<app::Reader>::read`.
    End,
    /// The name contains the text, ignoring case.
    Part,
    /// The text's parts are in the name's path in this order, and the last one is the function: `app::next`
    /// of `<app::Reader>::next`.
    PathToEnd,
    /// The text's parts are in the name's path in this order.
    Path,
}

impl Wanted {
    /// Creates it from the user's text: a name, a part of one, or some parts of a path.
    pub fn new(text: &str) -> Self {
        let lower = text.to_lowercase();
        let is_path = text.contains("::");
        let path = if is_path { path(&lower).into_iter().map(str::to_owned).collect() } else { Vec::new() };
        Self { text: text.to_owned(), path, lower }
    }

    /// The user's text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How well a function's name matches.
    pub fn fit(&self, name: &str) -> Option<Fit> {
        if name == self.text {
            return Some(Fit::Equal);
        }
        let plain = plain(name);
        if plain.strip_suffix(&self.text).is_some_and(|before| before.ends_with("::")) {
            return Some(Fit::End);
        }
        let lower = name.to_lowercase();
        if lower.contains(&self.lower) || plain.to_lowercase().contains(&self.lower) {
            return Some(Fit::Part);
        }
        self.fit_path(&path(&lower))
    }

    fn fit_path(&self, path: &[&str]) -> Option<Fit> {
        let last = self.path.last()?;
        let mut parts = path.iter();
        if !self.path.iter().all(|wanted| parts.any(|part| part == wanted)) {
            return None;
        }
        Some(if path.last().is_some_and(|part| part == last) { Fit::PathToEnd } else { Fit::Path })
    }

    /// The longest word that the function's linkage name contains unchanged, and whether that is certain:
    /// some words are added by demanglers.
    pub(crate) fn longest_word(&self) -> (&str, bool) {
        let words = || self.text.split(|letter: char| !is_of_word(letter));
        let of_the_source = words().filter(|word| !MADE_UP.iter().any(|made_up| made_up.contains(word)));
        match of_the_source.max_by_key(|word| word.len()) {
            Some(word) => (word, true),
            None => (words().max_by_key(|word| word.len()).unwrap_or_default(), false),
        }
    }

    /// The two halves of the last word: a name with one typo contains one of them. `None` if they are too
    /// short to be useful.
    pub(crate) fn halves(&self) -> Option<(&str, &str)> {
        const SHORTEST: usize = 3;
        let last = self.lower.rsplit(|letter: char| !is_of_word(letter)).find(|word| !word.is_empty())?;
        last.split_at_checked(last.len() / 2).filter(|(half, _)| half.len() >= SHORTEST)
    }
}

/// Words of demangled names that mangled ones abbreviate.
const MADE_UP: [&str; 46] = [
    "allocator",
    "as",
    "basic_string",
    "bool",
    "char",
    "closure",
    "const",
    "delete",
    "double",
    "dyn",
    "extern",
    "f32",
    "f64",
    "float",
    "fn",
    "for",
    "i128",
    "i16",
    "i32",
    "i64",
    "i8",
    "impl",
    "int",
    "iostream",
    "isize",
    "istream",
    "long",
    "mut",
    "new",
    "operator",
    "ostream",
    "shim",
    "short",
    "std",
    "str",
    "string",
    "u128",
    "u16",
    "u32",
    "u64",
    "u8",
    "unsafe",
    "unsigned",
    "usize",
    "void",
    "wchar_t",
];

fn is_of_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// A name without C++ parameters and without angle brackets.
fn plain(name: &str) -> String {
    let name = if name.contains("::{") { name } else { name.split_once('(').map_or(name, |(name, _)| name) };
    name.replace(['<', '>'], "")
}

/// The identifiers of a function's path. Types and traits around it count (`<A as B>::f`), generic arguments
/// and parameters do not.
fn path(name: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    // Number of open brackets of generic arguments.
    let mut open = 0_usize;
    let mut rest = name;
    let mut before = None;
    while let Some(letter) = rest.chars().next() {
        let is_in_path = before.is_some_and(|before| is_of_word(before) || before == ':');
        let length = rest.find(|letter: char| !is_of_word(letter)).unwrap_or(rest.len());
        let taken = match letter {
            '<' if open > 0 || is_in_path && !rest.starts_with("<impl ") => {
                open += 1;
                1
            }
            '>' if open > 0 && before != Some('-') => {
                open -= 1;
                1
            }
            '(' if open == 0 && before.is_some_and(is_of_word) => break,
            _ if length > 0 => {
                if open == 0 {
                    parts.push(&rest[..length]);
                }
                length
            }
            other => other.len_utf8(),
        };
        before = rest[..taken].chars().next_back();
        rest = &rest[taken..];
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_arguments_and_parameters_are_not_part_of_the_path() {
        for (name, parts) in [
            ("app::parse", &["app", "parse"][..]),
            ("<app::Reader<R>>::read::<u8>", &["app", "Reader", "read"]),
            ("<app::Reader as io::Read>::read", &["app", "Reader", "as", "io", "Read", "read"]),
            ("app::<impl core::Clone for T>::clone", &["app", "impl", "core", "Clone", "for", "T", "clone"]),
            ("<a::F<fn(u8) -> b::G>>::call", &["a", "F", "call"]),
            ("Foo<int>::bar(std::string)", &["Foo", "bar"]),
            (
                "<(a::A, b::B) as c::C>::f::{closure#0}",
                &["a", "A", "b", "B", "as", "c", "C", "f", "closure", "0"],
            ),
            ("größe::f", &["gr", "e", "f"]),
            ("a<<<", &["a"]),
            ("", &[]),
        ] {
            assert_eq!(path(name), parts, "{name}");
        }
    }

    #[test]
    fn parts_of_a_path_rank_below_parts_of_a_name() {
        for (wanted, name, fit) in [
            ("a::f", "a::f", Some(Fit::Equal)),
            ("Reader::read", "<app::Reader>::read", Some(Fit::End)),
            ("READER::re", "<app::Reader>::read", Some(Fit::Part)),
            ("app::next", "<app::Reader>::next", Some(Fit::PathToEnd)),
            ("App::Read::read", "<app::x::Reader<T> as std::io::Read>::read", Some(Fit::PathToEnd)),
            ("app::next", "<app::Reader>::next::{closure#0}", Some(Fit::Path)),
            ("read::app", "<app::Reader>::read", None),
            ("T::read", "<app::Reader<T, U>>::read", None),
            ("app::nex", "<app::Reader>::next", None),
            ("app", "other::f", None),
        ] {
            assert_eq!(Wanted::new(wanted).fit(name), fit, "{wanted} in {name}");
        }
    }

    #[test]
    fn words_of_demanglers_are_not_searched_in_mangled_names() {
        for (wanted, word) in [
            ("app::f::{closure#0}", ("app", true)),
            ("operator new", ("operator", false)),
            ("new", ("new", false)),
            ("Reader::new", ("Reader", true)),
            ("", ("", false)),
        ] {
            assert_eq!(Wanted::new(wanted).longest_word(), word, "{wanted}");
        }
        assert_eq!(Wanted::new("app::Parse_Line").halves(), Some(("parse", "_line")));
        assert_eq!(Wanted::new("app::parse").halves(), None);
    }
}
