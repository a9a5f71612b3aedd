//! State machines of async Rust: what the compiler generates for `async fn`, `async` blocks and `async`
//! closures.
//!
//! To the linker they are closures. Debug info names their real form, and so does whyslow:
//!
//! | the linker's name, demangled | in debug info | shown |
//! |---|---|---|
//! | `app::fetch::{{closure}}` | `{async_fn#0}` | `async fn app::fetch` |
//! | `app::fetch::{closure#0}::{closure#1}` | `{async_block#1}` | `async block in app::fetch` |
//! | `app::run::{closure#0}::{closure#0}` | `{async_closure#0}` | `async closure in app::run` |

/// The source form of a state machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AsyncForm {
    /// `async fn`.
    Function,
    /// `async { … }`.
    Block,
    /// `async || …`.
    Closure,
}

impl AsyncForm {
    /// Every form.
    pub const ALL: [Self; 3] = [Self::Function, Self::Block, Self::Closure];

    /// The form that a name in debug info denotes.
    pub fn of_debug_name(name: &str) -> Option<Self> {
        let word = name.strip_prefix('{')?.split_once('#')?.0;
        Self::ALL.into_iter().find(|form| form.debug_word() == word)
    }

    /// Its name in debug info.
    fn debug_word(self) -> &'static str {
        match self {
            Self::Function => "async_fn",
            Self::Block => "async_block",
            Self::Closure => "async_closure",
        }
    }

    /// The start of its shown name.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Function => "async fn ",
            Self::Block => "async block in ",
            Self::Closure => "async closure in ",
        }
    }

    /// The name to show instead of a closure's; `None` if the name is not a closure's.
    pub fn shown(self, name: &str) -> Option<String> {
        let mut path = without_closure(name)?;
        if self != Self::Function {
            while let Some(outer) = without_closure(path) {
                path = outer;
            }
        }
        Some(format!("{}{path}", self.prefix()))
    }

    /// Splits a shown name into its form and the rest.
    pub fn split(name: &str) -> (Option<Self>, &str) {
        let rest = |form: Self| name.strip_prefix(form.prefix()).map(|rest| (Some(form), rest));
        Self::ALL.into_iter().find_map(rest).unwrap_or((None, name))
    }
}

/// `app::f::{{closure}}` or `app::f::{closure#1}` → `app::f`.
fn without_closure(name: &str) -> Option<&str> {
    let (path, last) = name.rsplit_once("::")?;
    let is_closure = last == "{{closure}}"
        || last
            .strip_prefix("{closure#")
            .and_then(|rest| rest.strip_suffix('}'))
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
    (is_closure && !path.is_empty()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_machines_are_shown_as_they_were_written() {
        let shown =
            |debug: &str, name: &str| AsyncForm::of_debug_name(debug).and_then(|form| form.shown(name));
        for (debug, name, expected) in [
            ("{async_fn#0}", "app::fetch::{{closure}}", "async fn app::fetch"),
            (
                "{async_fn#0}<&str>",
                "<app::S as app::T>::go::<&str>::{closure#0}",
                "async fn <app::S as app::T>::go::<&str>",
            ),
            ("{async_block#1}", "app::fetch::{closure#0}::{closure#1}", "async block in app::fetch"),
            ("{async_closure#0}", "app::run::{{closure}}::{{closure}}", "async closure in app::run"),
        ] {
            assert_eq!(shown(debug, name).as_deref(), Some(expected));
            let (form, rest) = AsyncForm::split(expected);
            assert_eq!(format!("{}{rest}", form.unwrap().prefix()), expected);
        }
        assert_eq!(shown("{closure#0}", "app::fetch::{{closure}}"), None);
        assert_eq!(shown("{async_fn#0}", "app::fetch"), None);
        assert_eq!(shown("{async_fn#0}", "{async_fn#0}"), None);
        assert_eq!(AsyncForm::of_debug_name("{async_fn_env#0}"), None);
        assert_eq!(AsyncForm::split("async_std::f"), (None, "async_std::f"));
    }
}
