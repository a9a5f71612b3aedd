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
//! | the name's crate is the program's own name (programs of `cargo install` are in the registry) | yours | from the name |
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

use whyslow_profile::{CodeKind, ModuleKind};

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
    /// Whether the module has Rust code.
    pub rust_module: bool,
}

/// Decides by the table at the top of this file.
pub(crate) fn classify(subject: &Subject<'_>) -> (CodeKind, Option<String>) {
    if subject.module_kind == ModuleKind::Kernel {
        return (CodeKind::Kernel, Some("kernel".to_owned()));
    }
    if subject.raw.ends_with(crate::demangle::STUB) {
        return (CodeKind::Runtime, None);
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
        if let Some(name) = from_name
            && subject.module_kind == ModuleKind::Program
            && name == program_name(subject.module_path)
        {
            return (CodeKind::Yours, Some(name.to_owned()));
        }
        if let Some(name) = dependency_of_path(file) {
            return (CodeKind::Dependency, Some(name));
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

/// Whether a source path belongs to the standard library.
pub(crate) fn is_std_path(path: &str) -> bool {
    std_crate_of_path(path).is_some()
}

fn std_crate_of_path(path: &str) -> Option<String> {
    let inside = if let Some(at) = path.find("/rustlib/src/rust/") {
        &path[at + "/rustlib/src/rust/".len()..]
    } else if let Some(rest) = path.strip_prefix("/rustc/") {
        rest.split_once('/').map_or("", |(_, rest)| rest)
    } else if let Some(rest) = path.strip_prefix("/rust/deps/") {
        return Some(rust_name(without_version(rest.split('/').next()?)));
    } else if path.starts_with("library/std/")
        || path.starts_with("library/core/")
        || path.starts_with("library/alloc/")
    {
        path
    } else {
        return None;
    };
    let Some(library) = inside.strip_prefix("library/") else { return Some("std".to_owned()) };
    let folder = library.split('/').next().unwrap_or(library);
    Some(match folder {
        "stdarch" | "portable-simd" => "core".to_owned(),
        folder => rust_name(folder),
    })
}

/// Headers whose code the compiler puts into the user's program: the C++ standard library's templates and libc's inline functions.
fn header_of_path(path: &str) -> Option<(CodeKind, &'static str)> {
    if path.contains("/c++/v1/") {
        return Some((CodeKind::Std, "libc++"));
    }
    // Their folder ends with the compiler's version: `c++/12/`, `c++/4.8.5/`.
    let version = path.split_once("/c++/").map_or("", |(_, rest)| rest);
    if version.starts_with(|digit: char| digit.is_ascii_digit()) {
        return Some((CodeKind::Std, "libstdc++"));
    }
    let inside = path.strip_prefix("/usr/include/")?;
    (inside.starts_with("bits/") || inside.contains("/bits/")).then_some((CodeKind::Runtime, "libc"))
}

fn dependency_of_path(path: &str) -> Option<String> {
    if let Some((_, rest)) = path.split_once("/registry/src/") {
        let package = rest.split('/').nth(1)?;
        return Some(rust_name(without_version(package)));
    }
    if let Some((_, rest)) = path.split_once("/git/checkouts/") {
        let mut parts = rest.split('/');
        let repository = parts.next()?;
        let _revision = parts.next()?;
        // In a repository with several crates the one meant is the folder that holds `src`.
        let folders: Vec<&str> = parts.take_while(|&part| part != "src").collect();
        let is_file = folders.last().is_some_and(|last| last.contains('.'));
        return Some(match folders.last() {
            Some(folder) if !is_file => rust_name(folder),
            _ => rust_name(repository.rsplit_once('-').map_or(repository, |(name, _)| name)),
        });
    }
    let rest = match path.split_once("/vendor/") {
        Some((_, rest)) => rest,
        None => path.strip_prefix("vendor/")?,
    };
    let (package, _) = rest.split_once('/')?;
    Some(rust_name(without_version(package)))
}

/// `NAME` of `NAME-1.2.3` or `NAME-1.2.3-beta.1`; the whole text where there is no version.
fn without_version(package: &str) -> &str {
    let is_version = |text: &str| {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        digits > 0 && text.as_bytes().get(digits) == Some(&b'.')
    };
    package
        .match_indices('-')
        .find(|&(at, _)| is_version(&package[at + 1..]))
        .map_or(package, |(at, _)| &package[..at])
}

fn rust_name(package: &str) -> String {
    package.replace('-', "_")
}

fn is_std_crate(name: &str) -> bool {
    matches!(
        name,
        "core"
            | "alloc"
            | "std"
            | "test"
            | "proc_macro"
            | "compiler_builtins"
            | "panic_unwind"
            | "panic_abort"
            | "std_detect"
            | "rustc_demangle"
            | "backtrace"
            | "unwind"
            | "__rustc"
    )
}

/// The first part of a path: `app` of `app::f`, of `<app::T as core::fmt::Debug>::fmt`, of `<&T as app::X>::f`.
pub(crate) fn crate_of_name(name: &str) -> Option<&str> {
    let Some(inside) = name.strip_prefix('<') else { return first_part(name) };
    let closing = closing_bracket(inside)?;
    let (own_type, the_trait) = split_as(&inside[..closing]);
    first_part(own_type).or_else(|| first_part(the_trait?))
}

/// The identifier before the first `::`, after references and the like.
fn first_part(path: &str) -> Option<&str> {
    let mut path = path.trim_start();
    loop {
        let rest = ["&", "mut ", "dyn ", "*const ", "*mut ", "[", "(", "<"]
            .iter()
            .find_map(|prefix| path.strip_prefix(prefix));
        match rest {
            Some(rest) => path = rest.trim_start(),
            None => break,
        }
    }
    let end = path.find(|letter: char| !(letter.is_alphanumeric() || letter == '_')).unwrap_or(path.len());
    (end > 0 && path[end..].starts_with("::")).then(|| &path[..end])
}

/// Where the bracket that was opened before `text` closes.
fn closing_bracket(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut before = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' if before == b'-' => {}
            b'>' if depth == 0 => return Some(at),
            b'>' => depth -= 1,
            _ => {}
        }
        before = byte;
    }
    None
}

/// Splits `T as Trait` at the ` as ` that is outside of brackets.
fn split_as(text: &str) -> (&str, Option<&str>) {
    let mut depth = 0_usize;
    let bytes = text.as_bytes();
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' => depth = depth.saturating_sub(1),
            b' ' if depth == 0 && bytes[at..].starts_with(b" as ") => {
                return (&text[..at], Some(&text[at + 4..]));
            }
            _ => {}
        }
    }
    (text, None)
}

/// `app` of `/x/target/debug/deps/app-0123456789abcdef`, `my_app` of `/x/my-app`.
fn program_name(path: &str) -> String {
    let file = path.strip_suffix(" (deleted)").unwrap_or(path);
    let file = file.rsplit('/').next().unwrap_or(file);
    let stem = match file.rsplit_once('-') {
        Some((stem, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => stem,
        _ => file,
    };
    rust_name(stem)
}

/// Whether two crates are of one project: `app`, `app_core`, `app_cli` are.
fn same_family(crate_name: &str, program: &str) -> bool {
    let first_word = |name: &str| name.split('_').find(|word| !word.is_empty()).map(str::to_owned);
    crate_name == program
        || (first_word(program).is_some_and(|word| word.len() > 2)
            && first_word(crate_name) == first_word(program))
}

/// `libc` of `/lib/x86_64-linux-gnu/libc.so.6`, `ld-linux-x86-64` of the loader.
fn library_name(path: &str) -> &str {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let file = path.rsplit('/').next().unwrap_or(path);
    file.find(".so").map_or(file, |at| &file[..at])
}

fn is_runtime_library(library: &str) -> bool {
    // Old glibc files carry their version in the name: libc-2.31.so.
    let name = without_version(library);
    matches!(
        name,
        "libc"
            | "libm"
            | "libpthread"
            | "libdl"
            | "librt"
            | "libgcc_s"
            | "ld"
            | "libresolv"
            | "libanl"
            | "libutil"
    ) || name.starts_with("ld-linux")
        || name.starts_with("ld-musl")
}

fn is_system_path(path: &str) -> bool {
    ["/lib/", "/lib64/", "/lib32/", "/usr/", "/nix/store/", "/opt/"]
        .iter()
        .any(|folder| path.starts_with(folder))
}

fn is_allocator(subject: &Subject<'_>, crate_name: Option<&str>) -> bool {
    const CRATES: [&str; 13] = [
        "tikv_jemalloc_sys",
        "tikv_jemallocator",
        "jemalloc_sys",
        "jemallocator",
        "mimalloc",
        "libmimalloc_sys",
        "snmalloc_rs",
        "snmalloc_sys",
        "dlmalloc",
        "wee_alloc",
        "libjemalloc",
        "libmimalloc",
        "libtcmalloc",
    ];
    if crate_name.is_some_and(|name| CRATES.contains(&name) || name.starts_with("libtcmalloc")) {
        return true;
    }
    if let Some(file) = subject.file {
        let in_std = |suffix: &str| file.ends_with(suffix) || file.contains(&format!("{suffix}/@/"));
        if in_std("library/alloc/src/alloc.rs")
            || in_std("library/std/src/alloc.rs")
            || file.contains("library/std/src/sys/alloc/")
        {
            return true;
        }
    }
    let name = subject.name.strip_prefix("__rustc::").unwrap_or(subject.name);
    if name.contains("::") || name.starts_with("operator ") {
        return name.starts_with("operator new")
            || name.starts_with("operator delete")
            || name.starts_with("tcmalloc::")
            || ["alloc", "alloc_zeroed", "dealloc", "realloc", "exchange_malloc", "box_free", "Global"]
                .iter()
                .any(|item| is_item(name, "alloc::alloc::", item))
            || name.starts_with("<alloc::alloc::Global as ")
            || name.starts_with("std::alloc::System")
            || name.starts_with("<std::alloc::System as ")
            || name.starts_with("std::sys::alloc::")
            || name.contains(" as core::alloc::global::GlobalAlloc>::")
            || name.contains(" as alloc::alloc::GlobalAlloc>::");
    }
    is_c_allocator(name)
}

/// Whether `name` is `PREFIX` + `ITEM`, or something inside of it.
fn is_item(name: &str, prefix: &str, item: &str) -> bool {
    name.strip_prefix(prefix)
        .and_then(|rest| rest.strip_prefix(item))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::") || rest.starts_with('<'))
}

fn is_c_allocator(name: &str) -> bool {
    const EXACT: [&str; 42] = [
        "malloc",
        "free",
        "calloc",
        "realloc",
        "reallocarray",
        "memalign",
        "aligned_alloc",
        "posix_memalign",
        "valloc",
        "pvalloc",
        "cfree",
        "malloc_usable_size",
        "malloc_trim",
        "_int_malloc",
        "_int_free",
        "_int_realloc",
        "_int_memalign",
        "_int_free_chunk",
        "_int_free_merge_chunk",
        "_int_free_create_chunk",
        "_int_free_maybe_consolidate",
        "_int_free_maybe_trim",
        "malloc_consolidate",
        "sysmalloc",
        "sysmalloc_mmap",
        "systrim",
        "unlink_chunk",
        "alloc_perturb",
        "free_perturb",
        "arena_get2",
        "arena_get_retry",
        "new_heap",
        "grow_heap",
        "heap_trim",
        "munmap_chunk",
        "mremap_chunk",
        "ptmalloc_init",
        "malloc_hook_ini",
        "__malloc_arena_thread_freeres",
        "free_sized",
        "free_aligned_sized",
        "mtrim",
    ];
    const PREFIXES: [&str; 17] = [
        "tcache_",
        "__libc_malloc",
        "__libc_free",
        "__libc_calloc",
        "__libc_realloc",
        "__libc_memalign",
        "__rust_alloc",
        "__rust_dealloc",
        "__rust_realloc",
        "__rust_no_alloc_shim",
        "__rdl_",
        "__rg_",
        "je_",
        "_rjem_",
        "_mi_",
        "tc_malloc",
        "tc_free",
    ];
    const MIMALLOC: [&str; 10] = [
        "mi_malloc",
        "mi_free",
        "mi_calloc",
        "mi_zalloc",
        "mi_realloc",
        "mi_heap_",
        "mi_page_",
        "mi_segment_",
        "mi_arena",
        "mi_thread_",
    ];
    let name = name.strip_prefix("__GI_").unwrap_or(name);
    EXACT.contains(&name.strip_prefix("___").unwrap_or(name))
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || MIMALLOC.iter().any(|prefix| name.starts_with(prefix))
}

fn is_start_up(subject: &Subject<'_>) -> bool {
    const EXACT: [&str; 13] = [
        "_start",
        "__libc_start_main",
        "__libc_start_main_impl",
        "__libc_start_call_main",
        "__libc_csu_init",
        "_init",
        "_fini",
        "clone",
        "__clone",
        "clone3",
        "__clone3",
        "start_thread",
        "__rust_try",
    ];
    const PREFIXES: [&str; 9] = [
        "std::rt::lang_start",
        "std::sys::backtrace::__rust_begin_short_backtrace",
        "std::sys_common::backtrace::__rust_begin_short_backtrace",
        "std::panicking::try",
        "std::panicking::catch_unwind",
        "std::panic::catch_unwind",
        "std::thread::Builder::spawn_unchecked",
        "std::thread::lifecycle::",
        "std::rt::init",
    ];
    let name = subject.name;
    if name == "main" {
        // The C entry point that rustc makes has no source; a C program's own does.
        return subject.rust_module && subject.file.is_none();
    }
    EXACT.contains(&name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || (name.starts_with("std::sys::") && name.contains("thread") && name.contains("::thread_start"))
        || (name.contains("FnOnce")
            && (name.contains("::call_once{{vtable.shim}}") || name.contains("::call_once::{shim:vtable")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use CodeKind::{Allocator, Dependency, Kernel, Runtime, Std, Unknown, Yours};

    const APP: &str = "/home/me/app/target/release/app";
    const LIBC: &str = "/usr/lib/x86_64-linux-gnu/libc.so.6";

    /// A Rust name with a hash, so that it counts as mangled.
    const RUST: &str = "_ZN1a1b17h0123456789abcdefE";

    fn check(
        name: &str,
        raw: &str,
        file: Option<&str>,
        module: (ModuleKind, &str),
    ) -> (CodeKind, Option<String>) {
        classify(&Subject {
            name,
            raw,
            file,
            module_kind: module.0,
            module_path: module.1,
            rust_module: true,
        })
    }

    #[track_caller]
    fn expect(found: (CodeKind, Option<String>), kind: CodeKind, crate_name: Option<&str>) {
        assert_eq!((found.0, found.1.as_deref()), (kind, crate_name));
    }

    fn rust(name: &str, file: Option<&str>) -> (CodeKind, Option<String>) {
        check(name, RUST, file, (ModuleKind::Program, APP))
    }

    fn c(name: &str, file: Option<&str>, module: (ModuleKind, &str)) -> (CodeKind, Option<String>) {
        check(name, name, file, module)
    }

    #[test]
    fn linker_stubs_are_runtime() {
        expect(c("malloc@plt", None, (ModuleKind::Program, APP)), Runtime, None);
    }

    #[test]
    fn the_kernel_is_the_kernel() {
        expect(c("vfs_read", None, (ModuleKind::Kernel, "[kernel]")), Kernel, Some("kernel"));
        expect(c("malloc", None, (ModuleKind::Kernel, "[kernel]")), Kernel, Some("kernel"));
    }

    #[test]
    fn allocators() {
        let libc = (ModuleKind::Library, LIBC);
        for name in [
            "malloc",
            "free",
            "calloc",
            "realloc",
            "_int_malloc",
            "_int_free",
            "malloc_consolidate",
            "sysmalloc",
            "unlink_chunk",
            "tcache_get",
            "__libc_malloc",
            "__GI___libc_free",
        ] {
            expect(c(name, None, libc), Allocator, Some("libc"));
        }
        expect(c("malloc", Some("./malloc/malloc.c"), libc), Allocator, Some("libc"));
        let program = (ModuleKind::Program, APP);
        for name in [
            "__rust_alloc",
            "__rust_dealloc",
            "__rust_realloc",
            "__rdl_alloc",
            "__rg_alloc",
            "je_malloc",
            "_rjem_malloc",
            "_mi_page_malloc",
            "mi_malloc",
            "__rustc::__rust_alloc",
            "operator new(unsigned long)",
            "operator delete(void*)",
            "tcmalloc::allocate_full()",
        ] {
            assert_eq!(c(name, None, program).0, Allocator, "{name}");
        }
        for name in [
            "alloc::alloc::alloc",
            "alloc::alloc::dealloc",
            "alloc::alloc::realloc",
            "alloc::alloc::exchange_malloc",
            "alloc::alloc::Global::alloc_impl",
            "<alloc::alloc::Global as core::alloc::Allocator>::allocate",
            "<std::alloc::System as core::alloc::global::GlobalAlloc>::alloc",
            "<tikv_jemallocator::Jemalloc as core::alloc::global::GlobalAlloc>::alloc",
        ] {
            assert_eq!(rust(name, None).0, Allocator, "{name}");
        }
        let file = "/rustc/1/library/alloc/src/alloc.rs";
        expect(c("alloc_impl", Some(file), program), Allocator, Some("alloc"));
        let jemalloc = "/home/me/.cargo/registry/src/x/tikv-jemalloc-sys-0.6.0/jemalloc/src/arena.c";
        expect(c("arena_bin_malloc_hard", Some(jemalloc), program), Allocator, Some("tikv_jemalloc_sys"));
        assert_eq!(rust("alloc::vec::Vec<T,A>::push", Some("/rustc/1/library/alloc/src/vec/mod.rs")).0, Std);
        assert_eq!(rust("app::mi_mode", Some("/home/me/app/src/main.rs")).0, Yours);
    }

    #[test]
    fn start_up() {
        let program = (ModuleKind::Program, APP);
        for name in ["_start", "main"] {
            assert_eq!(c(name, None, program).0, Runtime, "{name}");
        }
        assert_eq!(c("main", Some("/home/me/app/main.c"), program).0, Yours);
        for name in ["__libc_start_main", "__libc_start_call_main", "clone3", "start_thread"] {
            expect(c(name, None, (ModuleKind::Library, LIBC)), Runtime, Some("libc"));
        }
        let std_file = Some("/rustc/1/library/std/src/rt.rs");
        for name in [
            "std::rt::lang_start",
            "std::rt::lang_start::{{closure}}",
            "std::rt::lang_start_internal",
            "std::sys::backtrace::__rust_begin_short_backtrace",
            "std::panicking::try",
            "std::panicking::catch_unwind::do_call",
            "std::sys::thread::unix::Thread::new::thread_start",
            "core::ops::function::FnOnce::call_once{{vtable.shim}}",
        ] {
            assert_eq!(rust(name, std_file).0, Runtime, "{name}");
        }
    }

    #[test]
    fn files_of_the_standard_library() {
        expect(rust("core::fmt::write", Some("/rustc/0a1b/library/core/src/fmt/mod.rs")), Std, Some("core"));
        let installed = "/home/me/.rustup/toolchains/stable/lib/rustlib/src/rust/library/std/src/io/mod.rs";
        expect(rust("std::io::Read::read", Some(installed)), Std, Some("std"));
        expect(
            rust("core::x", Some("/rustc/0a1b/library/stdarch/crates/core_arch/src/x86.rs")),
            Std,
            Some("core"),
        );
        expect(
            rust("hashbrown::map::f", Some("/rust/deps/hashbrown-0.15.2/src/map.rs")),
            Std,
            Some("hashbrown"),
        );
        // Also when it was inlined into the user's program under a name without a path.
        expect(
            c("next<u8>", Some("/rustc/0/library/core/src/iter/range.rs"), (ModuleKind::Program, APP)),
            Std,
            Some("core"),
        );
    }

    #[test]
    fn files_of_dependencies() {
        for (file, name) in [
            (
                "/home/me/.cargo/registry/src/registry-6f17d22bba15001f/aho-corasick-1.1.3/src/lib.rs",
                "aho_corasick",
            ),
            ("/home/me/.cargo/registry/src/x/zstd-sys-2.0.13+zstd.1.5.6/zstd/lib/zstd.c", "zstd_sys"),
            ("/cargo/registry/src/x/rand-0.9.0-beta.1/src/lib.rs", "rand"),
            ("/home/me/.cargo/git/checkouts/some-lib-0123456789abcdef/89abcde/src/lib.rs", "some_lib"),
            (
                "/home/me/.cargo/git/checkouts/tokio-0123456789abcdef/89abcde/tokio-util/src/codec.rs",
                "tokio_util",
            ),
            ("/home/me/app/vendor/serde-json/src/lib.rs", "serde_json"),
            ("vendor/serde-1.0.2/src/lib.rs", "serde"),
        ] {
            expect(rust("x::y", Some(file)), Dependency, Some(name));
        }
        let file = Some("/home/me/.cargo/registry/src/x/app-1.0.0/src/main.rs");
        expect(rust("app::run", file), Yours, Some("app"));
    }

    #[test]
    fn libraries() {
        expect(c("__vdso_clock_gettime", None, (ModuleKind::Vdso, "[vdso]")), Runtime, Some("vdso"));
        expect(c("memcpy", None, (ModuleKind::Library, LIBC)), Runtime, Some("libc"));
        expect(c("memcpy", Some("./string/memcpy.S"), (ModuleKind::Library, LIBC)), Runtime, Some("libc"));
        expect(c("cos", None, (ModuleKind::Library, "/lib/libm-2.31.so")), Runtime, Some("libm-2.31"));
        let loader = (ModuleKind::Library, "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2");
        expect(c("do_lookup_x", None, loader), Runtime, Some("ld-linux-x86-64"));
        let ssl = (ModuleKind::Library, "/usr/lib/x86_64-linux-gnu/libssl.so.3");
        expect(c("SSL_read", None, ssl), Dependency, Some("libssl"));
        expect(c("SSL_read", Some("../ssl/ssl_lib.c"), ssl), Dependency, Some("libssl"));
        let own = (ModuleKind::Library, "/home/me/app/target/release/libplugin.so");
        expect(c("plugin_run", Some("/home/me/app/plugin.c"), own), Yours, None);
        expect(c("plugin_run", None, own), Dependency, Some("libplugin"));
        expect(c("LazyCompile:f", None, (ModuleKind::Jit, "[jit:1]")), Yours, None);
    }

    #[test]
    fn headers_of_the_system_are_not_the_users_code() {
        let program = (ModuleKind::Program, APP);
        for (file, library) in [
            ("/usr/include/c++/12/bits/new_allocator.h", "libstdc++"),
            ("/usr/include/x86_64-linux-gnu/c++/12/bits/gthr-default.h", "libstdc++"),
            ("/opt/gcc/include/c++/13.2.0/vector", "libstdc++"),
            ("/usr/lib/llvm-16/bin/../include/c++/v1/vector", "libc++"),
        ] {
            let name = "std::vector<int, std::allocator<int> >::push_back(int const&)";
            expect(
                check(name, "_ZNSt6vectorIiSaIiEE9push_backERKi", Some(file), program),
                Std,
                Some(library),
            );
        }
        expect(
            c("printf", Some("/usr/include/x86_64-linux-gnu/bits/stdio2.h"), program),
            Runtime,
            Some("libc"),
        );
        expect(c("go", Some("/home/me/c++/game/go.h"), program), Yours, None);
        let library = (ModuleKind::Library, "/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30");
        expect(c("__cxa_allocate_exception", None, library), Std, Some("libstdc++"));
        expect(c("operator new(unsigned long)", None, library), Allocator, Some("libstdc++"));
    }

    #[test]
    fn other_files_are_yours() {
        expect(rust("app::main", Some("/home/me/app/src/main.rs")), Yours, Some("app"));
        expect(rust("helper::go", Some("/home/me/app/helper/src/lib.rs")), Yours, Some("helper"));
        expect(c("go", Some("/home/me/app/go.c"), (ModuleKind::Program, APP)), Yours, None);
    }

    #[test]
    fn names_decide_without_a_file() {
        expect(rust("core::fmt::write", None), Std, Some("core"));
        expect(rust("<T as alloc::string::ToString>::to_string", None), Std, Some("alloc"));
        expect(rust("app::main", None), Yours, Some("app"));
        expect(rust("app_core::run", None), Yours, Some("app_core"));
        expect(rust("<app::Foo as core::fmt::Debug>::fmt", None), Yours, Some("app"));
        expect(rust("regex::find", None), Dependency, Some("regex"));
        expect(c("some_c_function", None, (ModuleKind::Program, APP)), Unknown, None);
        let test = (ModuleKind::Program, "/x/target/debug/deps/my_app-0123456789abcdef");
        expect(check("my_app::f", RUST, None, test), Yours, Some("my_app"));
    }

    #[test]
    fn crates_of_names() {
        for (name, crate_name) in [
            ("app::f", Some("app")),
            ("<app::T as core::fmt::Debug>::fmt", Some("app")),
            ("<&mut app::T as core::fmt::Debug>::fmt", Some("app")),
            ("<&T as app::X>::f", Some("app")),
            ("<T as core::convert::Into<U>>::into", Some("core")),
            ("<alloc::vec::Vec<T> as core::iter::FromIterator<T>>::from_iter", Some("alloc")),
            ("<[T] as alloc::slice::Join<S>>::join", Some("alloc")),
            ("<dyn app::Shape>::area", Some("app")),
            ("<fn() -> app::T as core::ops::FnOnce<()>>::call_once", Some("core")),
            ("main", None),
            ("f<app::T>", None),
            ("", None),
            ("<", None),
        ] {
            assert_eq!(crate_of_name(name), crate_name, "{name}");
        }
    }
}
