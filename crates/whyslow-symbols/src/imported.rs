//! For profiles of other tools: classifies functions by their given names, and keeps the source lines around
//! hot places if they are on this machine.

use std::borrow::Cow;

use whyslow_profile::{CodeKind, LocationId, ModuleKind, Profile};

use crate::demangle::{STUB, is_hash, is_rust, shown_name};
use crate::fill::Texts;
use crate::hot::Heat;
use crate::kind::{Language, Subject, classify};

/// A function as another tool describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given<'a> {
    /// Its name, demangled or not.
    pub name: &'a str,
    /// The file it is in.
    pub file: Option<&'a str>,
    /// The kind of its module.
    pub module_kind: ModuleKind,
    /// The module's path, or the program's name; empty if unknown.
    pub module_path: &'a str,
}

/// A function as whyslow shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// The display name.
    pub name: String,
    /// The kind of code.
    pub kind: CodeKind,
    /// The crate or library it belongs to.
    pub crate_name: Option<String>,
}

/// Classifies a function by its name, file and module, as [`crate::symbolize`] does.
///
/// ```
/// use whyslow_profile::{CodeKind, ModuleKind};
/// use whyslow_symbols::{Given, describe};
/// let given = Given { name: "core::fmt::write", file: None, module_kind: ModuleKind::Unknown, module_path: "" };
/// assert_eq!(describe(&given).kind, CodeKind::Std);
/// ```
pub fn describe(given: &Given<'_>) -> Described {
    let name = if is_symbol(given.name) && !is_escaped(given.name) {
        shown_name(given.name)
    } else {
        unescaped(without_hash(given.name)).into_owned()
    };
    let subject = Subject {
        name: &name,
        raw: given.name,
        file: given.file.filter(|file| !file.is_empty()),
        module_kind: given.module_kind,
        module_path: given.module_path,
        language: match given.file {
            _ if is_rust(given.name) || name.contains("::") => Language::Rust,
            Some(file) if file.ends_with(".go") => Language::Go,
            _ => Language::Other,
        },
        at_home: false,
    };
    let (mut kind, crate_name) = classify(&subject);
    if kind == CodeKind::Dependency && given.module_path.is_empty() && subject.file.is_none() {
        // A crate's name alone does not distinguish the user's crates from others.
        kind = CodeKind::Unknown;
    }
    Described { name, kind, crate_name }
}

/// The outermost namespace or class in a demangled C++ name; `None` if it has none.
///
/// | name | outermost |
/// |---|---|
/// | `app::Set::get(int) const` | `app` |
/// | `void app::run<int>(std::string)` | `app` |
/// | `main(int, char**)` | none |
pub fn outermost_name(name: &str) -> Option<String> {
    let mask = whyslow_names::mask(name);
    let (mut depth, mut start, mut end) = (0_usize, 0, mask.len());
    for (at, byte) in mask.iter().enumerate() {
        match byte {
            b'(' if depth == 0 && at > start => {
                end = at;
                break;
            }
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' | b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            // A return type ends here.
            b' ' if depth == 0 => start = at + 1,
            _ => {}
        }
    }
    let parts = whyslow_names::split_at_top(mask.get(start..end)?, b"::")?;
    let first = parts.first().filter(|_| parts.len() > 1)?;
    let first = name.get(start + first.start..start + first.end)?;
    let word = first.split('<').next().unwrap_or(first).trim_start_matches(['*', '&']);
    (!word.is_empty()).then(|| word.to_owned())
}

/// Whether a name is a linkage name. Others (already demangled, or of another language) are unchanged.
fn is_symbol(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$');
    name.strip_suffix(STUB).unwrap_or(name).bytes().all(letter)
        || name.contains("@GLIBC")
        || name.contains("@@")
}

/// Removes the hash that older demanglers leave: `app::f::h0123456789abcdef`, in the oldest with some letters
/// after it.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((path, hash)) if is_hash(hash) => path,
        _ => name,
    }
}

/// Whether a C++ demangler has left rustc's escapes for characters that C++ names cannot contain. A name that
/// is still mangled does not count.
fn is_escaped(name: &str) -> bool {
    !name.starts_with("_ZN")
        && ["$LT$", "$GT$", "$u20$", "$RF$", "$u7b$"].iter().any(|part| name.contains(part))
}

/// Decodes the escapes: `_$LT$app..T$u20$as$u20$core..fmt..Debug$GT$::fmt` is `<app::T as
/// core::fmt::Debug>::fmt`.
fn unescaped(name: &str) -> Cow<'_, str> {
    if !is_escaped(name) {
        return name.into();
    }
    let mut text = String::with_capacity(name.len());
    // An underscore precedes an escape at the start of a part, because names cannot start with a dollar.
    let mut rest = name.strip_prefix('_').filter(|rest| rest.starts_with('$')).unwrap_or(name);
    while let Some(next) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("::_$") {
            text.push_str("::");
            rest = &rest[rest.len() - after.len() - 1..];
        } else if let Some(after) = rest.strip_prefix("..") {
            text.push_str("::");
            rest = after;
        } else if let Some((character, after)) = escape(rest) {
            text.push(character);
            rest = after;
        } else {
            text.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    text.into()
}

/// The character of an escape at the start, and the text after it.
fn escape(text: &str) -> Option<(char, &str)> {
    let (word, rest) = text.strip_prefix('$')?.split_once('$')?;
    let character = match word {
        "LT" => '<',
        "GT" => '>',
        "LP" => '(',
        "RP" => ')',
        "C" => ',',
        "RF" => '&',
        "BP" => '*',
        "SP" => '@',
        _ => char::from_u32(u32::from_str_radix(word.strip_prefix('u')?, 16).ok()?)?,
    };
    (!character.is_control()).then_some((character, rest))
}

/// Keeps the source lines around hot places of a profile with frames that already have lines.
pub fn keep_sources(profile: &mut Profile) {
    let mut locations = (0..profile.locations.len()).map(LocationId::from);
    if !locations.any(|location| profile.frames.of(location).iter().any(|frame| frame.file.is_some())) {
        return;
    }
    let heat = Heat::of(profile);
    let mut texts = Texts::of(&profile.strings);
    crate::sources::keep(profile, &mut texts, &heat);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str, module_path: &str) -> (CodeKind, Option<String>) {
        let given = Given { name, file: None, module_kind: ModuleKind::Unknown, module_path };
        let described = describe(&given);
        (described.kind, described.crate_name)
    }

    #[test]
    fn the_outermost_name_is_that_of_the_function_and_not_of_its_types() {
        for (name, outermost) in [
            ("app::Set::get(int) const", Some("app")),
            ("void app::run<int>(std::string)", Some("app")),
            ("std::string app::name()", Some("app")),
            ("Map<a::K>::get(b::X)", Some("Map")),
            ("app::Shape", Some("app")),
            ("(anonymous namespace)::Worker::run(int)", Some("(anonymous namespace)")),
            ("main(int, char**)", None),
            ("operator new(unsigned long)", None),
            ("a<<<", None),
            ("", None),
        ] {
            assert_eq!(outermost_name(name).as_deref(), outermost, "{name}");
        }
    }

    #[test]
    fn demangled_names_are_classified_like_mangled_ones() {
        assert_eq!(kind("alloc::vec::Vec<T>::push", ""), (CodeKind::Std, Some("alloc".to_owned())));
        assert_eq!(
            kind("<app::T as core::fmt::Debug>::fmt", "app"),
            (CodeKind::Yours, Some("app".to_owned()))
        );
        assert_eq!(kind("serde::de::visit", "app").0, CodeKind::Dependency);
        assert_eq!(kind("serde::de::visit", "").0, CodeKind::Unknown, "who knows");
        assert_eq!(kind("malloc", "").0, CodeKind::Allocator);
        assert_eq!(kind("compute", "").0, CodeKind::Unknown);
        assert_eq!(kind("_ZN4core3fmt5write17h0123456789abcdefE", "").0, CodeKind::Std);
        let shown = |name| {
            describe(&Given { name, file: None, module_kind: ModuleKind::Unknown, module_path: "" }).name
        };
        assert_eq!(shown("core::fmt::write::h0123456789abcdef"), "core::fmt::write");
        assert_eq!(shown("compute.part.0"), "compute");
        assert_eq!(shown("main.main.func1.1"), "main.main.func1.1");
        // The output of a C++ demangler for Rust's older names.
        assert_eq!(
            shown("_$LT$app..T$u20$as$u20$core..fmt..Debug$GT$::fmt::h0123456789abcdef"),
            "<app::T as core::fmt::Debug>::fmt"
        );
        assert_eq!(
            shown("app::run::_$u7b$$u7b$closure$u7d$$u7d$::h0123456789abcdef"),
            "app::run::{{closure}}"
        );
        assert_eq!(shown("core::ptr::drop_in_place$LT$$RF$str$GT$"), "core::ptr::drop_in_place<&str>");
        assert_eq!(shown("app::main::h0123456789abcdeffaa"), "app::main");
        assert_eq!(shown("jQuery.$each"), "jQuery.$each");
        assert_eq!(shown("python3.11"), "python3.11");
        assert_eq!(shown("malloc@@GLIBC_2.2.5"), "malloc");
        assert_eq!(shown("user@host.com/f.cold"), "user@host.com/f.cold");
    }
}
