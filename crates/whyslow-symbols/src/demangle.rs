//! Names to show: demangled, without hashes and without the suffixes that compilers add to copies of a function.

/// Longer C++ names are shown as they are: demangling them can take very long.
const LONGEST_CPP_NAME: usize = 8192;

/// Whether a name is mangled in a way known here.
pub(crate) fn is_mangled(name: &str) -> bool {
    is_rust(name) || name.starts_with("_Z")
}

/// Whether a name is a mangled Rust name: `_R…`, or `_ZN…17h<16 hexadecimal digits>E`.
pub(crate) fn is_rust(name: &str) -> bool {
    if name.starts_with("_R") {
        return rustc_demangle::try_demangle(name).is_ok();
    }
    let name = without_suffixes(name);
    let Some(body) = name.strip_prefix("_ZN").and_then(|body| body.strip_suffix('E')) else { return false };
    let Some((_, hash)) = body.split_at_checked(body.len().wrapping_sub(19)) else { return false };
    hash.strip_prefix("17h").is_some_and(|hash| hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The name to show for a raw one.
///
/// | raw | shown |
/// |---|---|
/// | `_ZN4core3fmt5write17h0123456789abcdefE` | `core::fmt::write` |
/// | `_RNvCs1234_7mycrate3foo` | `mycrate::foo` |
/// | `_ZN3Foo3barEi.isra.0` | `Foo::bar(int)` |
/// | `compute.part.0.cold` | `compute` |
/// | `malloc@@GLIBC_2.2.5` | `malloc` |
/// | `malloc@plt` | `malloc@plt`: the linker's stub, not the function |
pub(crate) fn shown_name(raw: &str) -> String {
    if let Some(function) = raw.strip_suffix(STUB) {
        return shown_name(function) + STUB;
    }
    let name = without_suffixes(raw);
    if is_rust(name)
        && let Ok(rust) = rustc_demangle::try_demangle(name)
    {
        return format!("{rust:#}");
    }
    if name.starts_with("_Z")
        && name.len() <= LONGEST_CPP_NAME
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
        && let Ok(text) = symbol.demangle()
    {
        return text;
    }
    name.to_owned()
}

/// The end of a linker stub's name.
pub(crate) const STUB: &str = "@plt";

/// Cuts `.llvm.123`, `.cold`, `.part.0`, `.isra.0`, symbol versions and the like from the end.
pub(crate) fn without_suffixes(raw: &str) -> &str {
    const WORDS: [&str; 9] =
        ["llvm", "cold", "part", "isra", "constprop", "lto_priv", "localalias", "clone", "warm"];
    let mut name = match raw.find('@') {
        Some(at) if at > 0 => &raw[..at],
        _ => raw,
    };
    while let Some((rest, last)) = name.rsplit_once('.') {
        let number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_hexdigit());
        let plain_number = number && last.bytes().all(|byte| byte.is_ascii_digit());
        let after_word = number && rest.rsplit_once('.').is_some_and(|(_, word)| WORDS.contains(&word));
        if rest.is_empty() || !(plain_number || after_word || WORDS.contains(&last)) {
            break;
        }
        name = rest;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_as_people_write_them() {
        for (raw, shown) in [
            ("_ZN4core3fmt5write17h0123456789abcdefE@plt", "core::fmt::write@plt"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("_ZN4core3fmt5write17h0123456789abcdefE.llvm.12345", "core::fmt::write"),
            ("_ZN3app4main28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE", "app::main::{{closure}}"),
            (
                "_ZN47_$LT$app..Foo$u20$as$u20$core..fmt..Display$GT$3fmt17h0123456789abcdefE",
                "<app::Foo as core::fmt::Display>::fmt",
            ),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_RNvCs1234_7mycrate3foo.llvm.9876543210ABCDEF", "mycrate::foo"),
            ("_RNCNvCs1234_7mycrate3foo0B3_", "mycrate::foo::{closure#0}"),
            ("_ZN3Foo3barEi", "Foo::bar(int)"),
            ("_ZN3Foo3barEi.isra.0", "Foo::bar(int)"),
            ("_Z3addii", "add(int, int)"),
            ("_Znwm", "operator new(unsigned long)"),
            ("compute.part.0.cold", "compute"),
            ("compute.constprop.0", "compute"),
            ("nested.0", "nested"),
            ("malloc@@GLIBC_2.2.5", "malloc"),
            ("memcpy@plt", "memcpy@plt"),
            ("main", "main"),
            ("_Znonsense", "_Znonsense"),
            ("_Rubbish", "_Rubbish"),
            ("", ""),
            (".L1", ".L1"),
            ("read.file", "read.file"),
        ] {
            assert_eq!(shown_name(raw), shown, "{raw}");
        }
    }

    #[test]
    fn rust_names_are_told_from_cpp_names() {
        assert!(is_rust("_ZN4core3fmt5write17h0123456789abcdefE"));
        assert!(is_rust("_RNvCs1234_7mycrate3foo"));
        assert!(!is_rust("_ZN3Foo3barEv"));
        assert!(!is_rust("_ZN3foo3barE"));
        assert!(!is_rust("main"));
        assert!(is_mangled("_ZN3Foo3barEv"));
        assert!(!is_mangled("main"));
    }
}
