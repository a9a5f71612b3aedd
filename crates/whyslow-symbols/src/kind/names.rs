//! Facts from a function's name: its crate, and whether it allocates or starts the program.

use whyslow_profile::{Carrier, Role};

use super::{Language, Subject};

/// The first part of a path: `app` of `app::f`, of `<app::T as core::fmt::Debug>::fmt`, of `<&T as app::X>::f`.
pub(super) fn crate_of_name(name: &str) -> Option<&str> {
    let Some(inside) = name.strip_prefix('<') else { return first_part(name) };
    let closing = closing_bracket(inside)?;
    let (own_type, the_trait) = split_as(&inside[..closing]);
    first_part(own_type).or_else(|| first_part(the_trait?))
}

/// The identifier before the first `::`, after references and similar prefixes.
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

/// Splits `T as Trait` at the ` as ` outside brackets.
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

pub(super) fn is_std_crate(name: &str) -> bool {
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

/// Whether two crates belong to one project, like `app`, `app_core` and `app_cli`.
pub(super) fn same_family(crate_name: &str, program: &str) -> bool {
    let first_word = |name: &str| name.split('_').find(|word| !word.is_empty()).map(str::to_owned);
    crate_name == program
        || (first_word(program).is_some_and(|word| word.len() > 2)
            && first_word(crate_name) == first_word(program))
}

pub(super) fn is_allocator(subject: &Subject<'_>, crate_name: Option<&str>) -> bool {
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

/// Whether `name` is `PREFIX` + `ITEM`, or something inside it.
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

/// Whether the function only starts programs or threads, or catches their panics; `whyslow_profile::Carrier`
/// has the names.
pub(super) fn is_start_up(subject: &Subject<'_>) -> bool {
    let name = subject.name;
    if name == "main" {
        // The C entry point that rustc generates has no source; a C program's own `main` does.
        return subject.language == Language::Rust && subject.file.is_none();
    }
    let starts = |carrier: Carrier| carrier.starts() || carrier.role() == Role::PanicCatching;
    Carrier::of_name(name).is_some_and(starts)
        || (name.contains("FnOnce")
            && (name.contains("::call_once{{vtable.shim}}") || name.contains("::call_once::{shim:vtable")))
}
