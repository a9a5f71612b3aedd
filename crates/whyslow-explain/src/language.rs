//! The language of a function: advice is for the language of the code that it is about.

use whyslow_analyze::Label;
use whyslow_profile::{Function, Profile};

use crate::finding::Place;

/// A programming language, as far as advice differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Rust, and anything unknown.
    Rust,
    /// C, C++ and Objective-C.
    Native,
    /// A known language without advice: Fortran, assembly, Java, Go, …
    Other,
}

impl Language {
    /// The language of a place: by the file of its line, else by its function.
    pub fn of(profile: &Profile, place: &Place) -> Self {
        let by_line = place.file.and_then(|file| Self::of_file(profile.text(file)));
        by_line.unwrap_or_else(|| Self::of_label(profile, place.label))
    }

    fn of_label(profile: &Profile, label: Label) -> Self {
        let Label::Function(id) = label else { return Self::Rust };
        let Some(function) = profile.functions.get(id.index()) else { return Self::Rust };
        if is_in_interpreter(profile, function) {
            return Self::Other;
        }
        let by_file = function.file.and_then(|file| Self::of_file(profile.text(file)));
        by_file.or_else(|| Self::of_name(profile, function)).unwrap_or_else(|| {
            // A plain name says nothing, but its neighbours do.
            let is_neighbour = |other: &&Function| other.module == function.module;
            let mut neighbours = profile.functions.iter().filter(is_neighbour);
            let is_rust = |other: &Function| {
                let file = other.file.and_then(|file| Self::of_file(profile.text(file)));
                file.or_else(|| Self::of_name(profile, other)) == Some(Self::Rust)
            };
            if neighbours.any(is_rust) { Self::Rust } else { Self::Native }
        })
    }

    /// The language of a file, by its extension.
    fn of_file(file: &str) -> Option<Self> {
        const NATIVE: &[&str] =
            &["c", "cc", "cpp", "cxx", "c++", "C", "h", "hh", "hpp", "hxx", "ipp", "tcc", "inl", "m", "mm"];
        const OTHER: &[&str] = &[
            "f", "F", "for", "ftn", "f77", "f90", "F90", "f95", "f03", "f08", "s", "S", "asm", "java", "kt",
            "scala", "go", "py", "pyx", "js", "mjs", "ts", "rb", "php", "lua", "swift", "zig", "d", "nim",
            "adb", "ads", "pas", "hs", "ml", "cs", "jl", "r", "R", "pl", "ex", "erl", "cr", "v",
        ];
        let name = file.rsplit('/').next().unwrap_or(file);
        let (_, end) = name.rsplit_once('.')?;
        match end {
            "rs" => Some(Self::Rust),
            _ if NATIVE.contains(&end) => Some(Self::Native),
            _ if OTHER.contains(&end) => Some(Self::Other),
            _ => None,
        }
    }

    /// The language that a function's name shows.
    fn of_name(profile: &Profile, function: &Function) -> Option<Self> {
        let (raw, name) = (profile.text(function.raw_name), profile.text(function.name));
        // `_ZN4core3fmt5write17h0123456789abcdefE`: the hash is Rust's.
        let has_hash = || {
            raw.strip_suffix('E').and_then(|raw| raw.get(raw.len().checked_sub(19)?..)).is_some_and(|hash| {
                hash.starts_with("17h") && hash[3..].bytes().all(|byte| byte.is_ascii_hexdigit())
            })
        };
        // The JVM's names of compiled methods: `Ljava/lang/String;::hashCode`, `java.lang.String.hashCode`.
        let is_java = name.contains(";::") || name.starts_with("Ljava/");
        match raw {
            _ if is_java => Some(Self::Other),
            _ if raw.starts_with("_R") || (raw.starts_with("_ZN") && has_hash()) => Some(Self::Rust),
            _ if raw.starts_with("_Z") => Some(Self::Native),
            // gfortran: `__module_MOD_procedure`, `dgemm_`; Go: `main.work`, `runtime.mallocgc`.
            _ if raw.contains("_MOD_") || is_fortran(name) => Some(Self::Other),
            _ if is_go(name) => Some(Self::Other),
            // Demangled by another tool: C++ has its arguments.
            _ if name.contains("::") || name.starts_with('<') => {
                Some(if name.contains('(') { Self::Native } else { Self::Rust })
            }
            _ => None,
        }
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

/// Whether a function belongs to the runtime of another language, whose users do not change it.
fn is_in_interpreter(profile: &Profile, function: &Function) -> bool {
    const RUNTIMES: &[&str] =
        &["jvm", "python", "node", "ruby", "php", "perl", "lua", "luajit", "mono", "coreclr", "java"];
    let Some(module) = function.module.and_then(|id| profile.modules.get(id.index())) else { return false };
    let path = profile.text(module.path);
    let name = path.rsplit('/').next().unwrap_or(path);
    let name = name.strip_prefix("lib").unwrap_or(name);
    // Versions and extensions follow: `python3.11`, `libjvm.so`, `libruby-3.1.so`.
    let stem = name.split(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or(name);
    RUNTIMES.contains(&stem)
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
    use whyslow_profile::FunctionId;

    use super::*;

    fn language(function: &str) -> Language {
        let profile = whyslow_analyze::testing::profile(&format!("{function} 1"));
        let last = profile.functions.len() - 1;
        let (file, line) = (profile.functions[last].file, 1);
        let id = FunctionId::from(last);
        Language::of(&profile, &Place { label: Label::Function(id), file, line })
    }

    #[test]
    fn the_file_decides_then_the_name() {
        for (function, expected) in [
            ("work@m.rs:1", Language::Rust),
            ("work@m.c:1", Language::Native),
            ("work@m.cpp:1", Language::Native),
            ("dgemm_@dgemm.f:230", Language::Other),
            ("dot_kernel@dot.S:3", Language::Other),
            ("app::work", Language::Rust),
            ("Ljava/lang/String::hashCode", Language::Other),
            ("__solver_MOD_step", Language::Other),
            ("runtime.mallocgc", Language::Other),
            ("dgemm_", Language::Other),
            ("work.part.0", Language::Native),
            ("malloc", Language::Native),
        ] {
            assert_eq!(language(function), expected, "{function}");
        }
    }
}
