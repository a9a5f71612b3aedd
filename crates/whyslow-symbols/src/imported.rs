//! For profiles that another tool made: names that are given, not looked up, still say whose code they are, and the
//! source lines around hot places may be on this machine.

use whyslow_profile::{CodeKind, ModuleKind, Profile};

use crate::demangle::{STUB, is_rust, shown_name};
use crate::fill::Texts;
use crate::hot::Heat;
use crate::kind::{Subject, classify};

/// What another tool says of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given<'a> {
    /// Its name, demangled or not.
    pub name: &'a str,
    /// The file it is in.
    pub file: Option<&'a str>,
    /// What its module is.
    pub module_kind: ModuleKind,
    /// The module's path, or the program's name; empty when not known.
    pub module_path: &'a str,
}

/// What whyslow shows of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// The name to show.
    pub name: String,
    /// Whose code it is.
    pub kind: CodeKind,
    /// The crate or library it belongs to.
    pub crate_name: Option<String>,
}

/// Judges a function by its name, file and module, as [`crate::symbolize`] does.
///
/// ```
/// use whyslow_profile::{CodeKind, ModuleKind};
/// use whyslow_symbols::{Given, describe};
/// let given = Given { name: "core::fmt::write", file: None, module_kind: ModuleKind::Unknown, module_path: "" };
/// assert_eq!(describe(&given).kind, CodeKind::Std);
/// ```
pub fn describe(given: &Given<'_>) -> Described {
    let name =
        if is_symbol(given.name) { shown_name(given.name) } else { without_hash(given.name).to_owned() };
    let subject = Subject {
        name: &name,
        raw: given.name,
        file: given.file.filter(|file| !file.is_empty()),
        module_kind: given.module_kind,
        module_path: given.module_path,
        rust_module: is_rust(given.name) || name.contains("::"),
    };
    let (mut kind, crate_name) = classify(&subject);
    if kind == CodeKind::Dependency && given.module_path.is_empty() && subject.file.is_none() {
        // A crate's name alone does not tell the user's own from another's.
        kind = CodeKind::Unknown;
    }
    Described { name, kind, crate_name }
}

/// Whether a name is as a linker knows it. Others (demangled already, or of another kind of language) stay as they are.
fn is_symbol(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$');
    name.strip_suffix(STUB).unwrap_or(name).bytes().all(letter)
        || name.contains("@GLIBC")
        || name.contains("@@")
}

/// Cuts the hash that older demanglers leave: `app::f::h0123456789abcdef`.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => path,
        _ => name,
    }
}

/// Keeps the source lines around hot places of a profile whose frames have lines already.
pub fn keep_sources(profile: &mut Profile) {
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
    fn names_that_are_demangled_already_are_judged_like_mangled_ones() {
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
        assert_eq!(shown("malloc@@GLIBC_2.2.5"), "malloc");
        assert_eq!(shown("user@host.com/f.cold"), "user@host.com/f.cold");
    }
}
