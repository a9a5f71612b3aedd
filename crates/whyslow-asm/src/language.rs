//! The language of code: advice is for the language of the code that it is about.

/// A programming language, as far as advice differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Rust.
    Rust,
    /// C, C++ and Objective-C.
    Native,
    /// Fortran.
    Fortran,
    /// Go.
    Go,
    /// Another one: assembly, Java, Swift, …
    Other,
}

impl Language {
    /// The language of a file, by its extension.
    pub fn of_file(file: &str) -> Option<Self> {
        const NATIVE: &[&str] =
            &["c", "cc", "cpp", "cxx", "c++", "C", "h", "hh", "hpp", "hxx", "ipp", "tcc", "inl", "m", "mm"];
        const FORTRAN: &[&str] = &["f", "F", "for", "ftn", "f77", "f90", "F90", "f95", "f03", "f08"];
        const OTHER: &[&str] = &[
            "s", "S", "asm", "java", "kt", "scala", "py", "pyx", "js", "mjs", "ts", "rb", "php", "lua",
            "swift", "zig", "d", "nim", "adb", "ads", "pas", "hs", "ml", "cs", "jl", "r", "R", "pl", "ex",
            "erl", "cr", "v",
        ];
        let name = file.rsplit('/').next().unwrap_or(file);
        let (_, end) = name.rsplit_once('.')?;
        match end {
            "rs" => Some(Self::Rust),
            "go" => Some(Self::Go),
            _ if NATIVE.contains(&end) => Some(Self::Native),
            _ if FORTRAN.contains(&end) => Some(Self::Fortran),
            _ if OTHER.contains(&end) => Some(Self::Other),
            _ => None,
        }
    }

    /// The language that a function's name shows: its symbol, and the name that people read.
    pub fn of_name(symbol: &str, name: &str) -> Option<Self> {
        // `_ZN4core3fmt5write17h0123456789abcdefE`: the hash is Rust's.
        let has_hash = || {
            let hash = symbol.strip_suffix('E').and_then(|rest| rest.get(rest.len().checked_sub(19)?..));
            hash.is_some_and(|hash| {
                hash.starts_with("17h") && hash[3..].bytes().all(|byte| byte.is_ascii_hexdigit())
            })
        };
        // The JVM's names of compiled methods: `Ljava/lang/String;::hashCode`, `java.lang.String.hashCode`.
        let is_java = name.contains(";::") || name.starts_with("Ljava/");
        match symbol {
            _ if is_java => Some(Self::Other),
            _ if symbol.starts_with("_R") || (symbol.starts_with("_ZN") && has_hash()) => Some(Self::Rust),
            _ if symbol.starts_with("_Z") => Some(Self::Native),
            // gfortran: `__module_MOD_procedure`, `dgemm_`; Go: `main.work`, `runtime.mallocgc`.
            _ if symbol.contains("_MOD_") || is_fortran(name) => Some(Self::Fortran),
            _ if is_go(name) => Some(Self::Go),
            // Demangled by another tool: C++ has its arguments.
            _ if name.contains("::") || name.starts_with('<') => {
                Some(if name.contains('(') { Self::Native } else { Self::Rust })
            }
            _ => None,
        }
    }

    /// The language of code whose own name says nothing, by the names of its neighbours.
    pub fn of_neighbours<'n>(neighbours: impl Iterator<Item = (&'n str, &'n str)>) -> Self {
        // In every program in Rust or Go, but in none in C++.
        const RUST: &[&str] = &["core::", "<core::", "alloc::", "__rust", "rust_eh_personality"];
        let mut is_go = false;
        for (symbol, name) in neighbours {
            let is_mangled = symbol != name && Self::of_name(symbol, name) == Some(Self::Rust);
            if is_mangled || RUST.iter().any(|start| name.starts_with(start)) {
                return Self::Rust;
            }
            is_go |= name.starts_with("runtime.");
        }
        if is_go { Self::Go } else { Self::Native }
    }
}

/// Whether a name is that of a Fortran procedure: `dgemm_`.
fn is_fortran(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    name.strip_suffix('_').is_some_and(|name| {
        let is_plain = name.starts_with(|first: char| first.is_ascii_lowercase()) && !name.ends_with('_');
        is_plain && name.bytes().all(is_letter)
    })
}

/// Whether a name is a Go package's: `net/http.(*conn).serve`.
fn is_go(name: &str) -> bool {
    let Some((package, rest)) = name.rsplit('/').next().unwrap_or(name).split_once('.') else { return false };
    let is_package =
        !package.is_empty() && package.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    // Compilers of C number their clones: `work.part.0`, `work.constprop.1`, `work.cold`.
    let is_clone =
        ["part", "constprop", "cold", "isra", "lto_priv", "llvm"].iter().any(|end| rest.starts_with(end));
    let starts = rest.starts_with("(*") || rest.starts_with(|letter: char| letter.is_ascii_alphabetic());
    is_package
        && starts
        && !is_clone
        && !rest.ends_with(|letter: char| letter == '.' || letter.is_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_decide_where_a_name_says_nothing() {
        let of = |names: &[&str]| Language::of_neighbours(names.iter().map(|name| (*name, *name)));
        assert_eq!(of(&["main", "work", "printf"]), Language::Native);
        assert_eq!(of(&["main", "core::fmt::write"]), Language::Rust);
        assert_eq!(of(&["main.main", "runtime.mallocgc"]), Language::Go);
        assert_eq!(Language::of_file("/src/dgemm.f90"), Some(Language::Fortran));
        assert_eq!(Language::of_file("Makefile"), None);
    }
}
