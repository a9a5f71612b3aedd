//! Whose code a function is, and which crate it belongs to.
//!
//! The first rule that applies decides:
//!
//! | rule | kind | crate |
//! |---|---|---|
//! | the module is the kernel | kernel | `kernel` |
//! | the name is a linker stub's, `NAME@plt` | runtime | none |
//! | the name or file is a memory allocator's: malloc family, `__rust_alloc`, `alloc::alloc::…`, jemalloc, mimalloc, tcmalloc, `operator new` | allocator | as below |
//! | the name is start-up code: `_start`, `main` made by rustc, `std::rt::lang_start`, `start_thread`, … | runtime | as below |
//! | file in `/rustc/HASH/…`, a rust-src folder, `/rust/deps/NAME-VERSION/` | std | `core`, `alloc`, `std`, … |
//! | header of the C++ standard library: `…/include/c++/12/…`, `…/c++/v1/…` | std | `libstdc++`, `libc++` |
//! | other header of the system: `/usr/include/…/bits/…` | runtime | `libc` |
//! | other header of `/usr/include`, `/usr/local/include` | dependency | its folder |
//! | a Go program's: see [`go`] | | its package |
//! | the name's crate is the program's own name (programs of `cargo install` are in the registry) | yours | from the name |
//! | file of the package that has the program's `main`, or of one of the same repository | yours | NAME |
//! | file in `registry/src/*/NAME-VERSION/`, `git/checkouts/…`, `vendor/NAME/` | dependency | NAME |
//! | whyslow's own library that records the heap | runtime | `whyslow` |
//! | vdso, libc, the loader, libgcc, libpthread, libm, … | runtime | the library |
//! | libstdc++, libc++ | std | the library |
//! | code made at run time | yours | the name's first part when it is a path |
//! | other library in a system folder | dependency | the library |
//! | any other file | yours | from the name |
//! | no file; the name's crate is `core`, `alloc`, `std`, … | std | from the name |
//! | no file; the name's crate is the program's, or shares its first word | yours | from the name |
//! | no file; any other Rust or C++ name with a path | dependency | from the name |
//! | no file, no path in the name; a library that is not the system's | dependency | the library |
//! | else | unknown | none |

mod go;
mod home;
mod names;
mod paths;
#[cfg(test)]
mod tests;

use whyslow_profile::{CodeKind, ModuleKind};

pub(crate) use home::{Home, manifest};
use names::{crate_of_name, is_allocator, is_start_up, is_std_crate, same_family};
pub(crate) use paths::is_std_path;
use paths::{
    dependency_of_path, header_of_path, installed_header_of_path, is_runtime_library, is_system_path,
    library_name, program_name, std_crate_of_path,
};

/// What is known of a function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    /// The name that is shown.
    pub name: &'a str,
    /// The linker's name.
    pub raw: &'a str,
    /// The file of its definition.
    pub file: Option<&'a str>,
    /// What its module is.
    pub module_kind: ModuleKind,
    /// The module's path.
    pub module_path: &'a str,
    /// The language that the module has code of.
    pub language: Language,
    /// Whether its file is in one of the program's own packages.
    pub at_home: bool,
}

/// A language whose names say more than others'.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    Go,
    Other,
}

/// Decides by the table at the top of this file.
pub(crate) fn classify(subject: &Subject<'_>) -> (CodeKind, Option<String>) {
    if subject.module_kind == ModuleKind::Kernel {
        return (CodeKind::Kernel, Some("kernel".to_owned()));
    }
    if subject.raw.ends_with(crate::demangle::STUB) {
        return (CodeKind::Runtime, None);
    }
    let of_go =
        (subject.language == Language::Go).then(|| go::classify(subject.name, subject.file)).flatten();
    if let Some(found) = of_go {
        return found;
    }
    let (kind, crate_name) = by_place(subject);
    if is_allocator(subject, crate_name.as_deref()) {
        return (CodeKind::Allocator, crate_name);
    }
    if is_start_up(subject) {
        return (CodeKind::Runtime, crate_name);
    }
    (kind, crate_name)
}

/// The rules about files, modules and the crate in the name.
fn by_place(subject: &Subject<'_>) -> (CodeKind, Option<String>) {
    // Other tools give names that are demangled already.
    let is_path = crate::demangle::is_mangled(subject.raw) || subject.raw.contains("::");
    let from_name = if is_path { crate_of_name(subject.name) } else { None };
    if let Some(file) = subject.file {
        if let Some(name) = std_crate_of_path(file) {
            return (CodeKind::Std, Some(name));
        }
        if let Some((kind, library)) = header_of_path(file) {
            return (kind, Some(library.to_owned()));
        }
        if let Some(library) = installed_header_of_path(file) {
            return (CodeKind::Dependency, Some(library.to_owned()));
        }
        if let Some(name) = from_name
            && subject.module_kind == ModuleKind::Program
            && name == program_name(subject.module_path)
        {
            return (CodeKind::Yours, Some(name.to_owned()));
        }
        if let Some(name) = dependency_of_path(file) {
            let kind = if subject.at_home { CodeKind::Yours } else { CodeKind::Dependency };
            return (kind, Some(name));
        }
    }
    let library = library_name(subject.module_path);
    match subject.module_kind {
        ModuleKind::Vdso => return (CodeKind::Runtime, Some("vdso".to_owned())),
        ModuleKind::Library if crate::agent::is_path(subject.module_path) => {
            return (CodeKind::Runtime, Some("whyslow".to_owned()));
        }
        ModuleKind::Library if is_runtime_library(library) => {
            return (CodeKind::Runtime, Some(library.to_owned()));
        }
        ModuleKind::Library if matches!(library, "libstdc++" | "libc++" | "libc++abi") => {
            return (CodeKind::Std, Some(library.to_owned()));
        }
        ModuleKind::Jit => return (CodeKind::Yours, crate_of_name(subject.name).map(str::to_owned)),
        _ => {}
    }
    let in_system = subject.module_kind == ModuleKind::Library && is_system_path(subject.module_path);
    if in_system && !from_name.is_some_and(is_std_crate) {
        return (CodeKind::Dependency, Some(library.to_owned()));
    }
    if subject.file.is_some() {
        return (CodeKind::Yours, from_name.map(str::to_owned));
    }
    match from_name {
        Some(name) if is_std_crate(name) => (CodeKind::Std, Some(name.to_owned())),
        Some(name) if same_family(name, &program_name(subject.module_path)) => {
            (CodeKind::Yours, Some(name.to_owned()))
        }
        Some(name) => (CodeKind::Dependency, Some(name.to_owned())),
        None if subject.module_kind == ModuleKind::Library => {
            (CodeKind::Dependency, Some(library.to_owned()))
        }
        None => (CodeKind::Unknown, None),
    }
}
