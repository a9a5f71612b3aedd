//! The path of a function's name: its identifiers, without arguments, parameters and return type.

/// The identifiers of a name.
///
/// | name | head | of_trait | rest |
/// |---|---|---|---|
/// | `app::Map<K>::get::<u8>` | `app Map get` | | |
/// | `<app::Reader<R> as io::Read>::read` | `app Reader` | `io Read` | `read` |
/// | `<impl fmt::Debug for app::X>::fmt` | `app X` | `fmt Debug` | `fmt` |
/// | `void app::Set::get(int) const` | `app Set get` | | |
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Path<'a> {
    head: Vec<&'a str>,
    of_trait: Vec<&'a str>,
    rest: Vec<&'a str>,
}

/// The identifier that stands for left-out parts of a path.
pub(crate) const GAP: &str = "…";
const ANONYMOUS: &str = "(anonymous namespace)";
const OPERATOR: &str = "operator";
/// What follows the parameters of a C++ function and is not part of its path.
const QUALIFIERS: [&str; 3] = ["const", "volatile", "noexcept"];
/// The compiler's name for a part or a variant of a function: `f(int) [clone .cold]`.
const CLONE: &str = " [clone ";
/// Words in types that name nothing.
const OF_TYPES: [&str; 4] = ["const", "dyn", "impl", "mut"];

/// What an open bracket holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    /// Arguments or parameters.
    LeftOut,
    /// The type around a function: `<app::Reader as io::Read>::read`.
    Type,
    /// Something whose identifiers count.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    Head,
    Trait,
    Rest,
}

pub(crate) fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '$'
}

impl<'a> Path<'a> {
    pub(crate) fn of(name: &'a str) -> Self {
        let mut path = Self::default();
        let mut section = Section::Head;
        let mut open: Vec<Open> = Vec::new();
        // How many of them leave out what they hold.
        let mut left_out = 0_usize;
        let mut rest = name;
        let mut before = None;
        let (mut follows_name, mut follows_parameters) = (false, false);
        while let Some(letter) = rest.chars().next() {
            let length =
                if rest.starts_with(ANONYMOUS) { ANONYMOUS.len() } else { word_length(rest, before) };
            let was_after_parameters = std::mem::take(&mut follows_parameters);
            let was_after_name = std::mem::take(&mut follows_name);
            let taken = match letter {
                _ if length > 0 => {
                    follows_name = true;
                    let word = rest[..length].trim_end();
                    match word {
                        _ if left_out > 0 => {}
                        "as" if open == [Open::Type] => section = Section::Trait,
                        // `impl Trait for Type`: what was read is the trait.
                        "for" if open == [Open::Type] => path.of_trait = std::mem::take(&mut path.head),
                        _ if open.first() == Some(&Open::Type) && OF_TYPES.contains(&word) => {}
                        _ => path.section(section).push(word),
                    }
                    length
                }
                '<' | '(' | '[' | '{' => {
                    let are_arguments = match letter {
                        '<' => was_after_name || before == Some(':') && !rest.starts_with("<impl "),
                        '(' | '[' => was_after_name,
                        _ => false,
                    };
                    left_out += usize::from(are_arguments);
                    open.push(match letter {
                        _ if are_arguments => Open::LeftOut,
                        '<' => Open::Type,
                        _ => Open::Other,
                    });
                    1
                }
                '>' if before == Some('-') => 1,
                '>' | ')' | ']' | '}' => {
                    follows_name = true;
                    let closed = open.pop();
                    left_out -= usize::from(closed == Some(Open::LeftOut));
                    follows_parameters = closed == Some(Open::LeftOut) && letter == ')';
                    if open.is_empty() && !path.of_trait.is_empty() {
                        section = Section::Rest;
                    }
                    1
                }
                // A qualifier follows parameters; otherwise a return type or the form of an async function
                // ends here.
                ' ' if open.is_empty() && rest.starts_with(CLONE) => {
                    rest.find(']').unwrap_or(rest.len() - 1) + 1
                }
                ' ' if open.is_empty() => {
                    let next = rest.trim_start_matches([' ', '&']);
                    let qualifier = QUALIFIERS.iter().find(|word| next.starts_with(**word));
                    match qualifier.filter(|_| was_after_parameters) {
                        Some(word) => {
                            (follows_name, follows_parameters) = (true, true);
                            rest.len() - next.len() + word.len()
                        }
                        None => {
                            (path, section) = (Self::default(), Section::Head);
                            1
                        }
                    }
                }
                other => other.len_utf8(),
            };
            before = rest[..taken].chars().next_back();
            rest = &rest[taken..];
        }
        path
    }

    fn section(&mut self, section: Section) -> &mut Vec<&'a str> {
        match section {
            Section::Head => &mut self.head,
            Section::Trait => &mut self.of_trait,
            Section::Rest => &mut self.rest,
        }
    }

    /// The paths that a reader may know the function by: by its type, by its trait, and by the type and the
    /// last part of the trait.
    pub(crate) fn readings(&self) -> Vec<Vec<&'a str>> {
        let joined = |parts: [&[&'a str]; 3]| parts.concat();
        let Some(last) = self.of_trait.last() else { return vec![joined([&self.head, &[], &self.rest])] };
        vec![
            joined([&self.head, &[], &self.rest]),
            joined([&self.of_trait, &[], &self.rest]),
            joined([&self.head, &["as", last], &self.rest]),
        ]
    }

    /// The path as it is written: all identifiers, the trait by its last part.
    pub(crate) fn written(&self) -> Vec<&'a str> {
        self.readings().pop().unwrap_or_default()
    }

    /// All identifiers.
    pub(crate) fn all(&self) -> Vec<&'a str> {
        [&self.head[..], &self.of_trait, &self.rest].concat()
    }
}

/// The length of the identifier at the start of a text; 0 if there is none.
fn word_length(text: &str, before: Option<char>) -> usize {
    if text.starts_with(GAP) {
        return GAP.len();
    }
    let length = text.find(|letter| !is_of_word(letter)).unwrap_or(text.len());
    if &text[..length] != OPERATOR || before.is_some_and(is_of_word) {
        return length;
    }
    let symbol = &text[length..];
    let known = SYMBOLS.iter().find(|known| symbol.starts_with(**known)).map_or(0, |known| known.len());
    if known == 0 && symbol.starts_with(' ') {
        // `operator new`, `operator bool`.
        return length + symbol.find(['(', '<', ':']).unwrap_or(symbol.len());
    }
    // A space separates the arguments of `operator<<` from it.
    length + known + usize::from(symbol[known..].starts_with(" <"))
}

/// C++ operators, longer ones before their beginnings.
const SYMBOLS: [&str; 34] = [
    "()", "[]", "<=>", "<<=", ">>=", "->*", "<<", ">>", "->", "<=", ">=", "&&", "||", "++", "--", "==", "!=",
    "+=", "-=", "*=", "/=", "%=", "<", ">", ",", "+", "-", "*", "/", "%", "=", "!", "&", "|",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_parameters_and_return_types_are_not_part_of_the_path() {
        for (name, head, of_trait, rest) in [
            ("app::parse", "app parse", "", ""),
            ("app::Map<K, V<u8>>::get::<u32>", "app Map get", "", ""),
            ("<app::Reader<R>>::read::<u8>", "app Reader read", "", ""),
            ("<app::Reader as io::Read>::read", "app Reader", "io Read", "read"),
            ("<app::Reader as io::Read>::read::{closure#0}", "app Reader", "io Read", "read closure 0"),
            ("<&mut dyn app::X as io::Read>::read", "app X", "io Read", "read"),
            ("<impl core::fmt::Debug for app::X>::fmt", "app X", "core fmt Debug", "fmt"),
            ("<a::F<fn(u8) -> b::G>>::call", "a F call", "", ""),
            ("<(a::A, b::B) as c::C>::f", "a A b B", "c C", "f"),
            ("async fn app::fetch::<u8>", "app fetch", "", ""),
            ("async block in app::run", "app run", "", ""),
            ("app::run::{{closure}}", "app run closure", "", ""),
            ("app::größe", "app größe", "", ""),
            ("Foo<int>::bar(std::string)", "Foo bar", "", ""),
            ("void app::Set::get(int) const", "app Set get", "", ""),
            (
                "app::Set::get() const::{lambda(int)#1}::operator()(int) const",
                "app Set get lambda 1 operator()",
                "",
                "",
            ),
            ("f(int) [clone .cold]", "f", "", ""),
            (
                "std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&)",
                "std operator<<",
                "",
                "",
            ),
            ("operator new(unsigned long)", "operator new", "", ""),
            ("(anonymous namespace)::Worker::run(int)", "(anonymous namespace) Worker run", "", ""),
            ("bool (*app::pick<int>(int))(int, long)", "app pick", "", ""),
            ("app::…::Map<…>::insert<…>", "app … Map insert", "", ""),
            ("operators::run", "operators run", "", ""),
            ("a<<<", "a", "", ""),
            ("", "", "", ""),
        ] {
            let words = |text: &'static str| -> Vec<&str> {
                text.split(' ').filter(|word| !word.is_empty()).collect()
            };
            let path = Path::of(name);
            // These identifiers contain a space.
            let shown = path.head.join(" ");
            assert_eq!(shown, head, "{name}");
            assert_eq!((path.of_trait, path.rest), (words(of_trait), words(rest)), "{name}");
        }
    }

    #[test]
    fn hostile_names_do_no_harm() {
        for name in
            ["<<<<", ">>>", "::::", "a::<b", "<a as b", "\u{202e}::é::名", "<>::<>", "operator", ") const"]
        {
            let _ = Path::of(name).readings();
        }
        let _ = Path::of(&"<".repeat(20_000));
    }
}
