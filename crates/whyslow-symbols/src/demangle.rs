//! Display names: demangled, without hashes and without the suffixes that compilers add to copies of a
//! function.

/// Longer C++ names are shown mangled: demangling them can take very long.
const LONGEST_CPP_NAME: usize = 8192;

/// Whether a name is mangled in a supported scheme.
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
    // The last part is `17h` and 16 hexadecimal digits; the oldest compilers append some letters.
    const LENGTHS: [(usize, &str); 5] = [(16, "17h"), (17, "18h"), (18, "19h"), (19, "20h"), (20, "21h")];
    LENGTHS.iter().any(|&(length, part)| {
        let at = body.len().wrapping_sub(length);
        body.split_at_checked(at).is_some_and(|(path, hash)| path.ends_with(part) && is_hash(hash))
    })
}

/// Whether this is the hash of a Rust name: 16 hexadecimal digits, in the oldest names up to 4 letters or
/// digits more.
pub(crate) fn is_hash(text: &str) -> bool {
    text.len() <= 20
        && text.split_at_checked(16).is_some_and(|(hash, version)| {
            hash.bytes().all(|byte| byte.is_ascii_hexdigit())
                && version.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
}

/// The display name of a raw one.
///
/// | raw | shown |
/// |---|---|
/// | `_ZN4core3fmt5write17h0123456789abcdefE` | `core::fmt::write` |
/// | `_RNvCs1234_7mycrate3foo` | `mycrate::foo` |
/// | `_ZN3Foo3barEi.isra.0` | `Foo::bar(int)` |
/// | `compute.part.0.cold` | `compute` |
/// | `malloc@@GLIBC_2.2.5` | `malloc` |
/// | `malloc@plt` | `malloc@plt`: the linker's stub, not the function |
/// | `__GI___libc_malloc`, `__libc_malloc` | `malloc`: glibc's internal names of public functions |
pub(crate) fn shown_name(raw: &str) -> String {
    if let Some(function) = raw.strip_suffix(STUB) {
        return shown_name(function) + STUB;
    }
    let name = without_suffixes(raw);
    if is_rust(name)
        && let Ok(rust) = rustc_demangle::try_demangle(name)
    {
        let text = format!("{rust:#}");
        // The demangler does not recognise the oldest hashes.
        return match text.rsplit_once("::h") {
            Some((path, hash)) if is_hash(hash) => path.to_owned(),
            _ => text,
        };
    }
    if name.starts_with("_Z")
        && name.len() <= LONGEST_CPP_NAME
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
        && let Ok(text) = symbol.demangle()
    {
        return text;
    }
    public_name(name).unwrap_or(name).to_owned()
}

/// The public name of a glibc function, if this is an internal one.
fn public_name(name: &str) -> Option<&str> {
    /// Public functions that glibc defines as `__libc_NAME`; other `__libc_` functions are internal.
    const PUBLIC: [&str; 44] = [
        "malloc",
        "calloc",
        "realloc",
        "free",
        "memalign",
        "valloc",
        "pvalloc",
        "reallocarray",
        "mallopt",
        "read",
        "write",
        "open",
        "open64",
        "close",
        "pread",
        "pread64",
        "pwrite",
        "pwrite64",
        "lseek",
        "lseek64",
        "fcntl",
        "fcntl64",
        "fsync",
        "msync",
        "send",
        "sendto",
        "sendmsg",
        "recv",
        "recvfrom",
        "recvmsg",
        "accept",
        "connect",
        "fork",
        "vfork",
        "system",
        "wait",
        "waitpid",
        "waitid",
        "pause",
        "nanosleep",
        "poll",
        "select",
        "sigaction",
        "readv",
    ];
    let inner = name.strip_prefix("__GI_");
    let of_libc = inner.unwrap_or(name).strip_prefix("__libc_");
    match (of_libc, inner) {
        (Some(function), _) => PUBLIC.contains(&function).then_some(function).or(inner),
        (None, Some(inner)) => inner.strip_prefix("__").filter(|public| !public.is_empty()).or(Some(inner)),
        (None, None) => None,
    }
}

/// The end of a linker stub's name.
pub(crate) const STUB: &str = "@plt";

/// Removes suffixes such as `.llvm.123`, `.cold`, `.part.0`, `.isra.0` and symbol versions.
///
/// Similar endings can be part of the name: `main.main.func1.1`, `http.get.200`. In a mangled name,
/// everything after a dot is a suffix.
pub(crate) fn without_suffixes(raw: &str) -> &str {
    let mut name = match raw.find('@') {
        Some(at) if at > 0 => &raw[..at],
        _ => raw,
    };
    let mangled = name.starts_with("_Z") || name.starts_with("_R");
    while let Some(rest) = without_suffix(name, mangled).filter(|rest| !rest.is_empty()) {
        name = rest;
    }
    name
}

/// Removes one suffix: a single word (`.cold`), a word and its number (`.part.0`), or a number after a
/// mangled name.
fn without_suffix(name: &str, mangled: bool) -> Option<&str> {
    const ALONE: [&str; 5] = ["cold", "warm", "lto_priv", "localalias", "cfi_jt"];
    const NUMBERED: [&str; 9] =
        ["llvm", "part", "isra", "constprop", "clone", "cold", "lto_priv", "localalias", "__uniq"];
    let (rest, last) = name.rsplit_once('.')?;
    if ALONE.contains(&last) {
        return Some(rest);
    }
    let decimal = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    let hexadecimal = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_hexdigit());
    let (before, word) = rest.rsplit_once('.').unwrap_or(("", rest));
    match word {
        "llvm" if hexadecimal && !before.is_empty() => Some(before),
        word if decimal && !before.is_empty() && NUMBERED.contains(&word) => Some(before),
        _ => (mangled && decimal).then_some(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_names_of_glibc_are_shown_as_public_ones() {
        for (raw, shown) in [
            ("__GI___libc_malloc", "malloc"),
            ("__libc_calloc", "calloc"),
            ("__GI___libc_read", "read"),
            ("__GI___fstatat64", "fstatat64"),
            ("__GI__IO_file_xsputn", "_IO_file_xsputn"),
            ("__libc_start_main", "__libc_start_main"),
            ("__GI___libc_start_main", "__libc_start_main"),
            ("__libc_lock_lock", "__libc_lock_lock"),
        ] {
            assert_eq!(shown_name(raw), shown, "{raw}");
        }
    }

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
            ("_ZN3app4main20h0123456789abcdeffaaE", "app::main"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_RNvCs1234_7mycrate3foo.llvm.9876543210ABCDEF", "mycrate::foo"),
            ("_RNCNvCs1234_7mycrate3foo0B3_", "mycrate::foo::{closure#0}"),
            ("_ZN3Foo3barEi", "Foo::bar(int)"),
            ("_ZN3Foo3barEi.isra.0", "Foo::bar(int)"),
            ("_Z3addii", "add(int, int)"),
            ("_Znwm", "operator new(unsigned long)"),
            ("compute.part.0.cold", "compute"),
            ("compute.constprop.0", "compute"),
            ("compute.constprop.0.isra.3", "compute"),
            ("compute.llvm.9876543210ABCDEF", "compute"),
            ("compute.__uniq.1234567.part.2.cold", "compute"),
            ("_ZN3Foo3barEi.123", "Foo::bar(int)"),
            // An ending that is not a compiler's suffix is part of the name.
            ("nested.0", "nested.0"),
            ("main.main.func1.1", "main.main.func1.1"),
            ("http.get.200", "http.get.200"),
            ("python3.11", "python3.11"),
            ("Point.clone", "Point.clone"),
            ("car.part", "car.part"),
            ("dead.beef", "dead.beef"),
            ("part.0", "part.0"),
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
    fn rust_names_are_distinguished_from_cpp_names() {
        assert!(is_rust("_ZN4core3fmt5write17h0123456789abcdefE"));
        assert!(is_rust("_RNvCs1234_7mycrate3foo"));
        assert!(!is_rust("_ZN3Foo3barEv"));
        assert!(!is_rust("_ZN3foo3barE"));
        assert!(!is_rust("main"));
        assert!(is_mangled("_ZN3Foo3barEv"));
        assert!(!is_mangled("main"));
    }
}
