//! Functions through which others allocate: wrappers around an allocator, objects of interpreters,
//! containers, arenas.
//!
//! That such a function allocated says nothing; its caller does. All knowledge is in these tables: a pattern
//! adds a function, and `*` matches any text.

use crate::carrier::{fits, paths};
use crate::tables::CodeKind;

/// C names in lower case: `xmalloc`, `PyObject_Malloc` and `sqlite3Malloc` have many spellings.
const C: &[&str] = &[
    // The most common names.
    "*malloc",
    "*malloc0",
    "*malloc_n",
    "*malloc0_n",
    "*mallocz",
    "*malloc_array",
    "*mallocarray",
    "*calloc",
    "*calloc_n",
    "*realloc",
    "*realloc_n",
    "*realloc_array",
    "*reallocarray",
    "*reallocf",
    "*zalloc",
    "*memdup",
    "*memdup0",
    "*strdup",
    "*strndup",
    "*mem_alloc",
    "*pool_alloc",
    "*_palloc",
    "*_pcalloc",
    "x*alloc",
    "xcharalloc",
    "xpalloc",
    // GLib, gnulib, GCC, PostgreSQL, Samba.
    "g_malloc*",
    "g_realloc*",
    "g_try_malloc*",
    "g_try_realloc*",
    "g_slice_alloc*",
    "g_slice_copy",
    "_obstack_*",
    "ggc_internal_*alloc*",
    "palloc*",
    "repalloc*",
    "memorycontextalloc*",
    "allocset*",
    "talloc_*",
    "_talloc_*",
    // FFmpeg, SQLite, OpenSSL, nginx, Redis, jq.
    "av_*alloc*",
    "sqlite3*malloc*",
    "sqlite3*realloc*",
    "dbmallocrawfinish",
    "mallocwithalarm",
    "crypto_*alloc*",
    "ngx_*alloc*",
    "zmalloc*",
    "zcalloc*",
    "zrealloc*",
    "ztry*alloc*",
    "jv_mem_*",
    // Python, Lua, LuaJIT, Ruby, Perl, PHP.
    "pymem_*",
    "_pymem_*",
    "pymalloc_*",
    "_pyobject_arena*",
    "new_arena",
    "allocate_from_new_pool",
    "arena_map_*",
    "_pyobject_new*",
    "_pyobject_gc_*",
    "gc_alloc",
    "pytype_genericalloc",
    "_pytype_allocnotrack",
    "l_alloc",
    "luam_*",
    "luac_newobj*",
    "lj_mem_*",
    "lj_alloc_*",
    "ruby_x*alloc*",
    "rb_x*alloc*",
    "objspace_x*alloc*",
    "perl_safesys*",
    "_emalloc*",
    "_erealloc*",
    "_ecalloc*",
    // The kernel's, in programs built with its sources.
    "kmalloc*",
    "kzalloc*",
    "kvmalloc*",
    "vmalloc*",
];

/// Rust and C++ paths in code that is not the user's own.
const PATHS: &[&str] = &[
    "allocator_api2::*",
    "arrayvec::*",
    "bumpalo::*",
    "bytes::buf::*",
    "bytes::bytes*",
    "compact_str::*",
    "dashmap::*",
    "ecow::*",
    "hashbrown::*",
    "id_arena::*",
    "indexmap::*",
    "slab::*",
    "smallvec::*",
    "smol_str::*",
    "thin_vec::*",
    "tinyvec::*",
    "triomphe::*",
    "typed_arena::*",
    "__gnu_cxx::*allocator*",
    "absl::container_internal::*",
    "boost::container::*",
    "boost::*pool*",
];

/// Whether a function is known to allocate for its caller. The user's own paths never match.
pub fn is_allocation_wrapper(name: &str, kind: CodeKind) -> bool {
    if name.contains("::") {
        let path = paths(name).0;
        return kind != CodeKind::Yours && PATHS.iter().any(|pattern| fits(&path, pattern));
    }
    // Compilers append suffixes to a function's name: `xmalloc.part.0`.
    let name = name.split('.').next().unwrap_or(name).to_ascii_lowercase();
    C.iter().any(|pattern| fits(&name, pattern))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_wrappers_of_many_programs() {
        for name in [
            "xmalloc",
            "xmalloc.part.0",
            "xrealloc",
            "x2nrealloc",
            "xstrdup",
            "g_malloc0_n",
            "_PyObject_Malloc",
            "PyMem_RawRealloc",
            "l_alloc",
            "luaM_realloc_",
            "luaC_newobjdt",
            "apr_palloc",
            "_talloc_zero",
            "sqlite3DbMallocRawNN",
            "ruby_xmalloc2",
            "Perl_safesysmalloc",
            "av_mallocz",
            "jv_mem_alloc",
            "my_own_malloc",
        ] {
            assert!(is_allocation_wrapper(name, CodeKind::Yours), "{name}");
        }
        for name in [
            "<smallvec::SmallVec<A>>::try_grow",
            "hashbrown::raw::RawTable<T,A>::reserve_rehash",
            "bumpalo::Bump::alloc",
        ] {
            assert!(is_allocation_wrapper(name, CodeKind::Dependency), "{name}");
            assert!(!is_allocation_wrapper(name, CodeKind::Yours), "{name}");
        }
    }

    #[test]
    fn functions_that_use_memory_are_not_wrappers() {
        for name in [
            "main",
            "parse_value",
            "allocate_rooms",
            "luaH_resize",
            "list_resize",
            "PyUnicode_New",
            "malloc_test",
            "app::xmalloc",
            "regex_automata::meta::strategy::new",
            "bytesize::parse",
            "slabs::f",
            "",
        ] {
            assert!(!is_allocation_wrapper(name, CodeKind::Dependency), "{name}");
        }
    }
}
