//! What to do about a hint, for the language of its code.

use crate::language::Language;

/// Advice for each language. The general one is for languages without their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advice {
    general: &'static str,
    rust: Option<&'static str>,
    native: Option<&'static str>,
    fortran: Option<&'static str>,
    go: Option<&'static str>,
}

impl Advice {
    /// The same for every language.
    pub(super) const fn general(text: &'static str) -> Self {
        Self { general: text, rust: None, native: None, fortran: None, go: None }
    }

    /// Another one for Rust.
    pub(super) const fn rust(self, text: &'static str) -> Self {
        Self { rust: Some(text), ..self }
    }

    /// Another one for C and C++.
    pub(super) const fn native(self, text: &'static str) -> Self {
        Self { native: Some(text), ..self }
    }

    /// Another one for Fortran.
    pub(super) const fn fortran(self, text: &'static str) -> Self {
        Self { fortran: Some(text), ..self }
    }

    /// Another one for Go.
    pub(super) const fn go(self, text: &'static str) -> Self {
        Self { go: Some(text), ..self }
    }

    /// The advice for code in this language.
    pub fn in_language(self, language: Language) -> &'static str {
        let own = match language {
            Language::Rust => self.rust,
            Language::Native => self.native,
            Language::Fortran => self.fortran,
            Language::Go => self.go,
            Language::Other => None,
        };
        own.unwrap_or(self.general)
    }
}
