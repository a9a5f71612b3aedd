//! What code is for, where it is not what the program does: the standard library, panics, formatting.

use whyslow_profile::CodeKind;

/// What code is for. A function can have several purposes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// The standard library of Rust, C++ or Go.
    Std,
    /// Panics, and the stack traces that they print.
    Panics,
    /// Values as text: `Debug`, `Display`, `format!`.
    Formatting,
}

/// Crates that only print stack traces, where the standard library contains them.
const TRACES: [&str; 6] =
    ["std::backtrace", "addr2line::", "gimli::", "rustc_demangle::", "miniz_oxide::", "object::"];
const PANICS: [&str; 12] = [
    "core::panicking::",
    "std::panicking::",
    "core::option::unwrap_failed",
    "core::option::expect_failed",
    "core::result::unwrap_failed",
    "core::slice::index::slice_",
    "core::str::slice_error_fail",
    "core::cell::panic_",
    "alloc::raw_vec::capacity_overflow",
    "rust_panic",
    "__rustc::rust_panic",
    "std::sys::backtrace",
];

impl Purpose {
    /// Every purpose.
    pub const ALL: [Self; 3] = [Self::Std, Self::Panics, Self::Formatting];

    /// The word used in text and JSON.
    pub fn label(self) -> &'static str {
        match self {
            Self::Std => "standard library",
            Self::Panics => "panics",
            Self::Formatting => "formatting",
        }
    }

    /// The purposes of a function.
    pub(super) fn of(name: &str, kind: CodeKind) -> impl Iterator<Item = Self> {
        let is_std = kind == CodeKind::Std;
        let bare = name.trim_start_matches(['<', '&']);
        let has = |starts: &[&str]| starts.iter().any(|start| bare.starts_with(start));
        let panics = has(&PANICS) || is_std && has(&TRACES);
        let formats = bare.starts_with("core::fmt::")
            || bare.starts_with("alloc::fmt::")
            || ["Debug", "Display", "LowerHex", "UpperHex", "Write"]
                .iter()
                .any(|of| name.contains(&format!(" as core::fmt::{of}>::")));
        let found = [(Self::Std, is_std), (Self::Panics, panics), (Self::Formatting, formats)];
        found.into_iter().filter_map(|(purpose, is_it)| is_it.then_some(purpose))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_code_is_for() {
        let of = |name, kind| Purpose::of(name, kind).map(Purpose::label).collect::<Vec<_>>();
        assert_eq!(of("core::panicking::panic_fmt", CodeKind::Std), ["standard library", "panics"]);
        assert_eq!(of("<app::X as core::fmt::Debug>::fmt", CodeKind::Yours), ["formatting"]);
        assert_eq!(of("core::fmt::write", CodeKind::Std), ["standard library", "formatting"]);
        assert_eq!(of("gimli::read::unit", CodeKind::Std), ["standard library", "panics"]);
        assert!(of("gimli::read::unit", CodeKind::Dependency).is_empty());
        assert!(of("app::run", CodeKind::Yours).is_empty());
    }
}
