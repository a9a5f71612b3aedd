//! Names that another tool has looked up already: how they are shown, and whose code they are.

use whyslow_profile::{CodeKind, ModuleKind};

use crate::demangle::{is_rust, shown_name};
use crate::kind::{Subject, classify};

/// What is shown of a function that came with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The name to show: demangled, without hashes.
    pub name: String,
    /// Whose code it is.
    pub kind: CodeKind,
    /// The crate (or C library) it belongs to.
    pub crate_name: Option<String>,
}

/// Says what to show of a function: its name as another tool wrote it (mangled or not), the file it is defined in, and
/// the kind and path of its module, where they are known.
pub fn named(name: &str, file: Option<&str>, module: Option<(ModuleKind, &str)>) -> Named {
    let shown = if is_symbol(name) { shown_name(name) } else { without_hash(name).to_owned() };
    let (module_kind, module_path) = module.unwrap_or_default();
    let subject =
        Subject { name: &shown, raw: name, file, module_kind, module_path, rust_module: is_rust(name) };
    let (kind, crate_name) = classify(&subject);
    // Without a file and a module, any crate but the standard library could be the user's own.
    let anyones = file.is_none() && module.is_none() && kind == CodeKind::Dependency;
    Named { kind: if anyones { CodeKind::Unknown } else { kind }, name: shown, crate_name }
}

/// Whether a name is as a linker knows it. Others (demangled, or of a language with a virtual machine) stay as they are.
fn is_symbol(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$'))
}

/// Cuts the hash that older demanglers leave: `app::f::h0123456789abcdef`.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => path,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str, file: Option<&str>) -> (String, CodeKind, Option<String>) {
        let named = named(name, file, None);
        (named.name, named.kind, named.crate_name)
    }

    #[test]
    fn demangled_names_are_judged_like_mangled_ones() {
        let of = |name: &str| (name.to_owned(), CodeKind::Std, Some("core".to_owned()));
        assert_eq!(kind("core::fmt::write", None), of("core::fmt::write"));
        assert_eq!(kind("_ZN4core3fmt5write17h0123456789abcdefE", None), of("core::fmt::write"));
        assert_eq!(kind("core::fmt::write::h0123456789abcdef", None), of("core::fmt::write"));
        assert_eq!(kind("malloc", None).1, CodeKind::Allocator);
        assert_eq!(kind("compute.part.0", None).0, "compute");
        assert_eq!(kind("user@host.com/f.cold", None).0, "user@host.com/f.cold");
    }

    #[test]
    fn without_a_place_nobody_is_blamed() {
        assert_eq!(kind("app::f", None), ("app::f".to_owned(), CodeKind::Unknown, Some("app".to_owned())));
        assert_eq!(kind("app::f", Some("/home/me/app/src/main.rs")).1, CodeKind::Yours);
        let file = "/home/me/.cargo/registry/src/index/serde_json-1.0.1/src/de.rs";
        assert_eq!(kind("f", Some(file)).2.as_deref(), Some("serde_json"));
    }
}
