//! Decides which name Valgrind uses for functions with several names.
//!
//! ```text
//! libc's symbols for one address     strdup, __strdup, __GI___strdup: any of them
//! with a version                     fclose@@GLIBC_2.2.5
//! parts that a compiler split off    sort.part.0, where debug info has sort
//! inlined functions                  the name in the debug info: allocate, operator(), make_unique<Node>
//! constructors and destructors       symbols C1, C2 for one address, where debug info has one: any of them
//! the start of a thread              clone, where libc calls the newer clone3
//! ```

use super::{Frame, glob};

/// Parts of a name that only a compiler's number follows.
const CLONES: [&str; 6] = [".part.", ".constprop.", ".isra.", ".cold", ".lto_priv.", ".llvm."];

/// Whether Valgrind may use a name for this function that it does not have here.
pub(super) fn is_alias(pattern: &str, frame: &Frame<'_>) -> bool {
    let is = |pattern: &str, name: &str| !name.is_empty() && glob(pattern.as_bytes(), name.as_bytes(), true);
    let versionless = without_version(pattern);
    let raw = without_version(frame.raw_function);
    let clone = CLONES.iter().filter_map(|part| versionless.find(part)).min();
    is(versionless, raw)
        || clone.is_some_and(|end| is(&versionless[..end], raw))
        || (is_libc(frame.object) && is(public(versionless), public(raw)))
        || is_same_constructor(pattern, frame.raw_function)
        || (frame.is_inlined && is_written_as(pattern, in_debug_information(frame.function)))
}

/// `fclose` for `fclose@@GLIBC_2.2.5`.
pub(super) fn without_version(name: &str) -> &str {
    name.split_once('@').map_or(name, |(name, _)| name)
}

fn is_libc(object: &str) -> bool {
    let file = object.rsplit('/').next().unwrap_or_default();
    ["libc.so", "libc-", "ld-linux", "ld-musl", "libpthread", "libm.so"]
        .iter()
        .any(|name| file.starts_with(name))
}

/// libc's public name for an internal one: `strdup` for `__GI___strdup`, `getdelim` for `_IO_getdelim`,
/// `fclose` for `_IO_new_fclose`.
fn public(name: &str) -> &str {
    let name = name.strip_prefix("__GI_").unwrap_or(name).trim_start_matches('_');
    let name = name.strip_prefix("IO_").or_else(|| name.strip_prefix("libc_")).unwrap_or(name);
    let name = name.strip_prefix("new_").unwrap_or(name);
    if name == "clone3" { "clone" } else { name }
}

/// Whether two mangled names differ only in the kind of a constructor or destructor: `…C1Ev`, `…C2Ev`.
fn is_same_constructor(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let is_kind = |byte: u8| (b'0'..=b'5').contains(&byte);
    pattern.starts_with(b"_Z")
        && pattern.len() == name.len()
        && (1..name.len())
            .filter(|&at| pattern[at] != name[at])
            .all(|at| matches!(name[at - 1], b'C' | b'D') && is_kind(pattern[at]) && is_kind(name[at]))
}

/// Whether a pattern is a function's name in debug info. If both have template arguments, these are compared
/// by their words: compilers and demanglers order and space them differently, and omit defaults.
fn is_written_as(pattern: &str, name: &str) -> bool {
    let base = |name: &str| name.split_once('<').map_or(name.len(), |(base, _)| base.len());
    let (pattern_base, name_base) = (base(pattern), base(name));
    let is = |pattern: &str, name: &str| glob(pattern.as_bytes(), name.as_bytes(), true);
    let same_arguments = pattern[pattern_base..] == *"<>"
        || name_base == name.len()
        || (pattern_base < pattern.len() && words(&pattern[pattern_base..]) == words(&name[name_base..]));
    is(pattern, name)
        || (same_arguments && pattern_base > 0 && is(&pattern[..pattern_base], &name[..name_base]))
}

/// The words in template arguments, sorted. The number of a lambda, `#1`, does not count as a word; `3ul`
/// counts as 3.
fn words(arguments: &str) -> Vec<&str> {
    let end = |part: &str| {
        let is_number = part.starts_with(|c: char| c.is_ascii_digit());
        part.find(|c: char| c == '#' || (is_number && !c.is_ascii_digit())).unwrap_or(part.len())
    };
    let parts = arguments.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '#'));
    let mut words: Vec<&str> = parts.map(|part| &part[..end(part)]).filter(|word| !word.is_empty()).collect();
    words.sort_unstable();
    words
}

/// The form of a demangled name in debug info: without namespaces, result and arguments.
fn in_debug_information(function: &str) -> &str {
    let name = without_arguments(function);
    let mut depth = 0u32;
    let mut start = 0;
    for (at, byte) in name.bytes().enumerate() {
        if depth == 0 && at == start && is_operator(&name[at..]) {
            break;
        }
        match byte {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' | b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b':' | b' ' if depth == 0 => start = at + 1,
            _ => {}
        }
    }
    &name[start..]
}

fn is_operator(name: &str) -> bool {
    name.strip_prefix("operator")
        .and_then(|rest| rest.bytes().next())
        .is_some_and(|next| !next.is_ascii_alphanumeric() && next != b'_')
}

/// `f` for `f(int) const`.
fn without_arguments(function: &str) -> &str {
    let mut name = function;
    for end in [" [clone", " const", " volatile", " &", "&&"] {
        name = name
            .rsplit_once(end)
            .filter(|(before, _)| before.ends_with(')'))
            .map_or(name, |(before, _)| before);
    }
    if !name.ends_with(')') {
        return name;
    }
    let mut depth = 0;
    for (at, byte) in name.bytes().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            // In `operator()` the parentheses are not arguments.
            return if name[..at].ends_with("operator") { name } else { &name[..at] };
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demangled_names_are_cut_to_the_form_in_debug_info() {
        for (function, name) in [
            ("make", "make"),
            ("void* pool::make<int>(unsigned long)", "make<int>"),
            ("std::__detail::_MakeUniq<Node>::__single_object std::make_unique<Node>()", "make_unique<Node>"),
            ("by_lambda()::{lambda(int)#1}::operator()(int) const", "operator()"),
            ("std::map<int, std::string, std::less<int> >::operator[](int&&)", "operator[]"),
            (
                "std::allocator_traits<std::allocator<int> >::allocate(std::allocator<int>&, unsigned long)",
                "allocate",
            ),
            ("operator new(unsigned long)", "operator new"),
            ("bool operator< <int>(A<int> const&, A<int> const&)", "operator< <int>"),
            ("void operators::run(int)", "run"),
            ("alloc::raw_vec::RawVec<T,A>::grow_one", "grow_one"),
            ("<alloc::alloc::Global as core::alloc::Allocator>::allocate", "allocate"),
            ("(", "("),
            ("", ""),
        ] {
            assert_eq!(in_debug_information(function), name, "{function}");
        }
    }

    #[test]
    fn libcs_internal_names_are_aliases() {
        let at = |raw_function, object| Frame { raw_function, object, ..Frame::default() };
        let libc = "/usr/lib/x86_64-linux-gnu/libc.so.6";
        for (pattern, raw) in [
            ("strdup", "__strdup"),
            ("strdup", "__GI___strdup"),
            ("fclose@@GLIBC_2.2.5", "_IO_new_fclose"),
            ("fclose@@GLIBC_2.2.5", "fclose"),
            ("getdelim", "_IO_getdelim"),
            ("__GI_asprintf", "___asprintf"),
        ] {
            assert!(is_alias(pattern, &at(raw, libc)), "{pattern} {raw}");
        }
        assert!(!is_alias("strdup", &at("__strdup", "/app")), "others may have both");
        assert!(is_alias("clone", &at("__clone3", libc)) && !is_alias("clone", &at("clone3", "/app")));
        assert!(is_alias("_ZN1AC1Ev", &at("_ZN1AC2Ev", "/app")));
        assert!(
            !is_alias("_ZN1AC1Ev", &at("_ZN1AD1Ev", "/app"))
                && !is_alias("_ZN1AC1Ev", &at("_ZN1BC1Ev", "/app"))
        );
        assert!(!is_alias("_ZN2A1Ev", &at("_ZN2A2Ev", "/app")));
        assert!(
            is_alias("sort.part.0", &at("sort", "/app")) && !is_alias("sort", &at("sort.part.0", "/app"))
        );
    }

    #[test]
    fn only_inlined_functions_match_by_their_short_name() {
        let inlined = Frame { function: "a::make<Node>(int)", is_inlined: true, ..Frame::default() };
        assert!(is_alias("make<Node>", &inlined) && is_alias("make<>", &inlined));
        assert!(!is_alias("make<Other>", &inlined) && !is_alias("make", &inlined));
        assert!(!is_alias("make<Node>", &Frame { is_inlined: false, ..inlined }));
        let demangled = "std::make<A const&, std::tuple<>, f()::{lambda(int)#1}&, 3ul, >(int)";
        let inlined = Frame { function: demangled, is_inlined: true, ..Frame::default() };
        assert!(is_alias("make<const A&, std::tuple<>, f()::<lambda(int)>&, 3>", &inlined));
        assert!(!is_alias("make<const A&, std::tuple<>, f()::<lambda(int)>&, 4>", &inlined));
        let rust = Frame { function: "alloc::vec::Vec<T>::push", is_inlined: true, ..Frame::default() };
        assert!(is_alias("push<u8, alloc::alloc::Global>", &rust) && !is_alias("pop<u8>", &rust));
    }
}
