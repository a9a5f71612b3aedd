//! A function as the user names it, and how well function names match it.

use crate::path::{GAP, Path, is_of_word};

/// A function to search for.
#[derive(Debug, Clone)]
pub struct Wanted {
    text: String,
    lower: String,
    /// Identifiers of the path, as written; [`GAP`] for left-out parts.
    path: Vec<String>,
    /// Whether the last identifier is only the start of one: `parse_li…`.
    is_cut: bool,
}

/// How well a name matches, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// The text is the name.
    Equal,
    /// The text is the end of the name, or the name as whyslow shortens it to both ends.
    End,
    /// The text's path is the end of the name's path, and its arguments are the name's: `Map<int>::get` of
    /// `app::Map<int, Less>::get(long)`.
    Arguments,
    /// The text's path is the end of the name's path: `Reader::read` of `<app::Reader as io::Read>::read`.
    Path,
    /// The same, ignoring case.
    PathAnyCase,
    /// The text is a part of the name's path: `Reader` of `app::Reader::read`.
    Parts,
    /// The text's parts are in the name's path in this order, and the last one is the function: `app::next`
    /// of `app::Reader::next`.
    PartsToEnd,
    /// The text's parts are in the name's path in this order.
    PartsInOrder,
    /// The name contains the text, ignoring case.
    Text,
}

impl Fit {
    /// Whether the text names the function, and is not only a part of its name.
    pub fn is_name(self) -> bool {
        self <= Self::Path
    }

    /// Fits of one class are equally good: only among these do cost and kind of code decide.
    pub fn class(self) -> u8 {
        if self.is_name() { 0 } else { self as u8 }
    }
}

impl Wanted {
    /// Creates it from the user's text: a name, a part of one, some parts of a path, or a name as whyslow
    /// prints it.
    pub fn new(text: &str) -> Self {
        let text = text.trim();
        let mut path: Vec<String> = Path::of(text).written().into_iter().map(str::to_owned).collect();
        let is_cut = text.ends_with(GAP);
        if let Some(last) = path.pop_if(|_| is_cut) {
            // `operator …` is one identifier.
            path.extend(last.strip_suffix(GAP).filter(|start| !start.is_empty()).map(str::to_owned));
        }
        Self { text: text.to_owned(), lower: text.to_lowercase(), path, is_cut }
    }

    /// The user's text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How well a function's name matches; `None` if it does not. An empty text is a part of every name.
    pub fn fit(&self, name: &str) -> Option<Fit> {
        if name == self.text {
            return Some(Fit::Equal);
        }
        if self.is_end_of(name) {
            return Some(Fit::End);
        }
        let path = Path::of(name);
        let readings = path.readings();
        if readings.iter().any(|reading| self.ends(reading, str::eq)) {
            return Some(if self.has_arguments_of(name) { Fit::Arguments } else { Fit::Path });
        }
        if readings.iter().any(|reading| self.ends(reading, same_letters)) {
            return Some(Fit::PathAnyCase);
        }
        // Words of other texts, such as `[unknown] in lib.so`, are not parts of a path.
        let is_path = !self.path.is_empty() && !self.text.contains(' ');
        if is_path && readings.iter().any(|reading| self.is_within(reading)) {
            return Some(Fit::Parts);
        }
        if self.text.contains("::")
            && let Some(fit) = self.fit_in_order(&path.all())
        {
            return Some(fit);
        }
        let lower = name.to_lowercase();
        let is_part = lower.contains(&self.lower) || lower.replace(['<', '>'], "").contains(&self.lower);
        is_part.then_some(Fit::Text)
    }

    /// Whether the text is the end of the name, or both ends of it: `com.exam…Handler.run`.
    fn is_end_of(&self, name: &str) -> bool {
        // A space separates a return type or the form of an async function from the path, and also a
        // qualifier such as `const`.
        let is_path = || Path::of(name).readings().iter().any(|reading| self.ends(reading, str::eq));
        let is_end = |before: &str| before.ends_with("::") || before.ends_with(' ') && is_path();
        if name.strip_suffix(&self.text).is_some_and(is_end) {
            return true;
        }
        let Some((start, end)) = self.text.split_once('…') else { return false };
        let is_whole =
            !end.is_empty() && !end.starts_with(':') && !end.contains('…') && !start.ends_with('<');
        is_whole && name.strip_prefix(start).is_some_and(|rest| rest.ends_with(end))
    }

    /// Whether the wanted path is the end of a path; a cut one leaves out the rest of the path.
    fn ends(&self, path: &[&str], same: impl Fn(&str, &str) -> bool) -> bool {
        let shortest = if self.is_cut { 1.min(path.len()) } else { path.len() };
        (shortest..=path.len()).any(|end| self.ends_at(&path[..end], &same))
    }

    fn ends_at(&self, path: &[&str], same: impl Fn(&str, &str) -> bool) -> bool {
        let (Some(last), Some(wanted_last)) = (path.last(), self.path.last()) else { return false };
        let is_last =
            if self.is_cut { last.starts_with(wanted_last.as_str()) } else { same(last, wanted_last) };
        let mut at = path.len() - 1;
        let mut is_gap = false;
        is_last
            && self.path[..self.path.len() - 1].iter().rev().all(|wanted| {
                if wanted == GAP {
                    is_gap = true;
                    return true;
                }
                let found = match is_gap {
                    true => path[..at].iter().rposition(|part| same(part, wanted)),
                    false => at.checked_sub(1).filter(|&before| same(path[before], wanted)),
                };
                is_gap = false;
                at = found.unwrap_or(0);
                found.is_some()
            })
    }

    fn is_within(&self, path: &[&str]) -> bool {
        path.windows(self.path.len())
            .any(|part| part.iter().zip(&self.path).all(|(part, wanted)| same_letters(part, wanted)))
    }

    fn fit_in_order(&self, path: &[&str]) -> Option<Fit> {
        let wanted = || self.path.iter().filter(|part| *part != GAP && *part != "as");
        let last = wanted().next_back()?;
        let mut parts = path.iter();
        if !wanted().all(|wanted| parts.any(|part| same_letters(part, wanted))) {
            return None;
        }
        let is_to_end = path.last().is_some_and(|part| same_letters(part, last));
        Some(if is_to_end { Fit::PartsToEnd } else { Fit::PartsInOrder })
    }

    /// Whether the name has all words of the text in this order, those of arguments too.
    fn has_arguments_of(&self, name: &str) -> bool {
        let mut has = words(name);
        words(&self.text).all(|wanted| has.any(|word| word == wanted))
    }

    /// The longest word that the function's linkage name contains unchanged, and whether that is certain:
    /// some words are added by demanglers, and others are cut.
    pub fn longest_word(&self) -> (&str, bool) {
        let all = || words(&self.text).filter(|_| !self.text.contains('…') || !self.is_cut);
        let of_the_path = |word: &&str| self.path.iter().any(|part| part == word);
        let of_the_source = all().filter(of_the_path).filter(|word| !MADE_UP.contains(word));
        match of_the_source.max_by_key(|word| word.len()) {
            Some(word) => (word, true),
            None => (all().max_by_key(|word| word.len()).unwrap_or_default(), false),
        }
    }

    /// The two halves of the last word: a name with one typo contains one of them. `None` if they are too
    /// short to be useful.
    pub fn halves(&self) -> Option<(&str, &str)> {
        const SHORTEST: usize = 3;
        let last = self.lower.rsplit(|letter: char| !is_of_word(letter)).find(|word| !word.is_empty())?;
        last.split_at_checked(last.len() / 2).filter(|(half, _)| half.len() >= SHORTEST)
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !is_of_word(letter)).filter(|word| !word.is_empty())
}

fn same_letters(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
        || !(one.is_ascii() && other.is_ascii()) && one.to_lowercase() == other.to_lowercase()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_rank_before_parts_of_paths_and_parts_of_texts() {
        for (wanted, name, fit) in [
            ("a::f", "a::f", Some(Fit::Equal)),
            ("f", "async fn a::f", Some(Fit::End)),
            ("a::f", "async fn a::f", Some(Fit::End)),
            ("get() const", "app::Set::get() const", Some(Fit::End)),
            ("get()", "app::Set::get() const", Some(Fit::Arguments)),
            ("Reader::read", "<app::Reader>::read", Some(Fit::Arguments)),
            ("Reader::read", "<app::Reader as io::Read>::read", Some(Fit::Arguments)),
            ("Read::read", "<app::Reader as io::Read>::read", Some(Fit::Arguments)),
            ("Config::clone", "<app::Config as core::clone::Clone>::clone", Some(Fit::Arguments)),
            ("Map<int>::get", "app::Map<int, Less>::get(long)", Some(Fit::Arguments)),
            ("Map<char>::get", "app::Map<int, Less>::get(long)", Some(Fit::Path)),
            ("reader::READ", "<app::Reader>::read", Some(Fit::PathAnyCase)),
            ("Reader", "<app::Reader>::read", Some(Fit::Parts)),
            ("app::next", "<app::Reader>::next", Some(Fit::PartsToEnd)),
            ("App::Read::read", "<app::x::Reader<T> as std::io::Read>::read", Some(Fit::PartsToEnd)),
            ("app::next", "<app::Reader>::next::{closure#0}", Some(Fit::PartsInOrder)),
            ("READER::re", "<app::Reader>::read", Some(Fit::Text)),
            ("const", "app::Set::get() const", Some(Fit::Text)),
            ("read::app", "<app::Reader>::read", None),
            ("T::read", "<app::Reader<T, U>>::read", None),
            ("app::nex", "<app::Reader>::next", None),
            ("nosuch", "app::insert_or_such", None),
            ("app", "other::f", None),
            ("", "other::f", Some(Fit::Text)),
        ] {
            assert_eq!(Wanted::new(wanted).fit(name), fit, "{wanted} in {name}");
        }
    }

    #[test]
    fn shortened_names_are_names() {
        for (wanted, name) in [
            ("app::…::inner::function", "app::module::inner::function"),
            ("fun…", "app::module::inner::function"),
            ("app::old::<…>::parse", "app::old::<alloc::string::String>::parse"),
            ("app::sort<…>", "app::sort<alloc::vec::Vec<u8>>"),
            ("<app::Parser<…> as Iterator>::next", "<app::Parser<String> as core::iter::Iterator>::next"),
            (
                "core::…::FnOnce::call_once{{vtable.shim}}",
                "core::ops::function::FnOnce::call_once{{vtable.shim}}",
            ),
            (
                "std::_Rb_tree<…>::_M_insert_unique<…>",
                "std::_Rb_tree<int, std::pair<int, int> >::_M_insert_unique<int>(int&&)",
            ),
            (
                "std::vector<int>::push",
                "void std::vector<int, std::allocator<int> >::push<int const&>(int*, int const&)",
            ),
            (
                "app::run::{lambda#1}::operator()",
                "app::run(int, char**)::{lambda(int)#1}::operator()(int) const",
            ),
            (
                "std::operator<< <…>",
                "std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char const*)",
            ),
            ("app::name", "app::name[abi:cxx11](int, int)"),
            ("app::pick<int>", "bool (*app::pick<int>(int))(int, long)"),
            ("…/http.(*conn).serve", "github.com/user/project/internal/http.(*conn).serve"),
            ("com.exam…Handler.handle", "com.example.application.RequestHandler.handle"),
            ("async block in inner::run", "async block in app::module::inner::run::<u8>"),
        ] {
            let fit = Wanted::new(wanted).fit(name);
            assert!(fit.is_some_and(Fit::is_name), "{wanted} in {name}: {fit:?}");
        }
    }

    #[test]
    fn words_of_demanglers_are_not_searched_in_mangled_names() {
        for (wanted, word) in [
            ("app::f::{closure#0}", ("app", true)),
            ("operator new", ("operator", false)),
            ("new", ("new", false)),
            ("Reader::new", ("Reader", true)),
            ("f(std::string const&)", ("f", true)),
            ("", ("", false)),
        ] {
            assert_eq!(Wanted::new(wanted).longest_word(), word, "{wanted}");
        }
        assert_eq!(Wanted::new("app::Parse_Line").halves(), Some(("parse", "_line")));
        assert_eq!(Wanted::new("app::parse").halves(), None);
    }
}
