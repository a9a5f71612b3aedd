//! The language of a place in a profile.

use whyslow_analyze::Label;
use whyslow_asm::Language;
use whyslow_profile::{Function, Profile};

use crate::finding::Place;

/// The language of a place: by the file of its line, else by its function, else by the functions around it. Rust if
/// nothing is known.
pub fn language_of(profile: &Profile, place: &Place) -> Language {
    let by_line = place.file.and_then(|file| Language::of_file(profile.text(file)));
    by_line.unwrap_or_else(|| of_label(profile, place.label))
}

fn of_label(profile: &Profile, label: Label) -> Language {
    let Label::Function(id) = label else { return Language::Rust };
    let Some(function) = profile.functions.get(id.index()) else { return Language::Rust };
    if is_in_interpreter(profile, function) {
        return Language::Other;
    }
    of_function(profile, function).unwrap_or_else(|| {
        // A plain name says nothing, but its neighbours do.
        let is_neighbour = |other: &&Function| other.module == function.module;
        let mut neighbours = profile.functions.iter().filter(is_neighbour);
        let is_rust = |other: &Function| of_function(profile, other) == Some(Language::Rust);
        if neighbours.any(is_rust) { Language::Rust } else { Language::Native }
    })
}

/// The language of a function, by its file, else by its name.
fn of_function(profile: &Profile, function: &Function) -> Option<Language> {
    let by_file = function.file.and_then(|file| Language::of_file(profile.text(file)));
    by_file.or_else(|| Language::of_name(profile.text(function.raw_name), profile.text(function.name)))
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

#[cfg(test)]
mod tests {
    use whyslow_profile::FunctionId;

    use super::*;

    fn language(function: &str) -> Language {
        let profile = whyslow_analyze::testing::profile(&format!("{function} 1"));
        let last = profile.functions.len() - 1;
        let (file, line) = (profile.functions[last].file, 1);
        let id = FunctionId::from(last);
        language_of(&profile, &Place { label: Label::Function(id), file, line })
    }

    #[test]
    fn the_file_decides_then_the_name() {
        for (function, expected) in [
            ("work@m.rs:1", Language::Rust),
            ("work@m.c:1", Language::Native),
            ("work@m.cpp:1", Language::Native),
            ("dgemm_@dgemm.f:230", Language::Fortran),
            ("dot_kernel@dot.S:3", Language::Other),
            ("app::work", Language::Rust),
            ("Ljava/lang/String::hashCode", Language::Other),
            ("__solver_MOD_step", Language::Fortran),
            ("runtime.mallocgc", Language::Go),
            ("dgemm_", Language::Fortran),
            ("work.part.0", Language::Native),
            ("malloc", Language::Native),
        ] {
            assert_eq!(language(function), expected, "{function}");
        }
    }
}
