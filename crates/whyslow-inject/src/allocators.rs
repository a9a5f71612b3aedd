//! The public functions of known allocators, and the argument shape of each.
//!
//! Only functions that programs call are listed. When one of them calls another, the agent counts only the
//! outer call, so all of them can be hooked.

use whyslow_agent_wire::handshake::hook;

/// The arguments of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Rows of [`hook`] that fit the function, best first.
    pub(crate) rows: &'static [usize],
    /// How its arguments map to the hook's.
    pub(crate) order: Order,
}

/// Argument orders of functions, and what the hook gets instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Unchanged.
    Same,
    /// `(x, size, y)` becomes `(size, x, y)`
    SizeSecond,
    /// `(x, old, size)` becomes `(old, size, x)`
    OldSecond,
    /// `(count, size, x)` becomes `(count × size, x)`, and then `(1, count × size, x)`
    CountSize,
    /// `(x, count, size)` becomes `(count × size, x)`, and then `(x, 1, count × size)`
    CountSizeSecond,
}

const fn same(rows: &'static [usize]) -> Shape {
    Shape { rows, order: Order::Same }
}

const MALLOC: Shape = same(&[hook::MALLOC, hook::ALLOC_LIKE]);
const CALLOC: Shape = same(&[hook::CALLOC]);
const REALLOC: Shape = same(&[hook::REALLOC, hook::REALLOC_LIKE]);
const FREE: Shape = same(&[hook::FREE, hook::FREE_LIKE, hook::FREE_LIKE_2]);
const POSIX_MEMALIGN: Shape = same(&[hook::POSIX_MEMALIGN]);
const ALIGNED_ALLOC: Shape = same(&[hook::ALIGNED_ALLOC, hook::MEMALIGN]);
const MEMALIGN: Shape = same(&[hook::MEMALIGN, hook::ALIGNED_ALLOC]);
const VALLOC: Shape = same(&[hook::VALLOC]);
const PVALLOC: Shape = same(&[hook::PVALLOC]);
const REALLOCARRAY: Shape = same(&[hook::REALLOCARRAY]);
const ALLOC_LIKE: Shape = same(&[hook::ALLOC_LIKE, hook::ALLOC_LIKE_2]);
const ZEROED: Shape = same(&[hook::ALLOC_LIKE_2]);
const REALLOC_LIKE: Shape = same(&[hook::REALLOC_LIKE]);
const RUST_REALLOC: Shape = same(&[hook::RUST_REALLOC]);
const FREE_LIKE: Shape = same(&[hook::FREE_LIKE, hook::FREE_LIKE_2]);
const SIZE_SECOND: Shape = Shape { rows: &[hook::ALLOC_LIKE], order: Order::SizeSecond };
const ZEROED_SIZE_SECOND: Shape = Shape { rows: &[hook::ALLOC_LIKE_2], order: Order::SizeSecond };
const OLD_SECOND: Shape = Shape { rows: &[hook::REALLOC_LIKE], order: Order::OldSecond };
const COUNT_SIZE: Shape = Shape { rows: &[hook::ALLOC_LIKE_2], order: Order::CountSize };
const COUNT_SIZE_SECOND: Shape = Shape { rows: &[hook::ALLOC_LIKE_2], order: Order::CountSizeSecond };

/// libc's functions, which may have a prefix.
pub(crate) const LIBC: &[(&str, Shape)] = &[
    ("malloc", MALLOC),
    ("calloc", CALLOC),
    ("realloc", REALLOC),
    ("free", FREE),
    ("cfree", FREE),
    ("posix_memalign", POSIX_MEMALIGN),
    ("aligned_alloc", ALIGNED_ALLOC),
    ("memalign", MEMALIGN),
    ("valloc", VALLOC),
    ("pvalloc", PVALLOC),
    ("reallocarray", REALLOCARRAY),
    ("free_sized", FREE_LIKE),
    ("free_aligned_sized", FREE_LIKE),
];

/// jemalloc's functions in addition to libc's, under the same prefix.
pub(crate) const JEMALLOC: &[(&str, Shape)] =
    &[("mallocx", ZEROED), ("rallocx", REALLOC_LIKE), ("sdallocx", FREE_LIKE), ("dallocx", FREE_LIKE)];

/// jemalloc's prefixes: those of the Rust crates, and the usual one.
pub(crate) const JEMALLOC_PREFIXES: &[&str] = &["_rjem_", "rjem_", "je_", "jemalloc_"];

/// mimalloc's functions, starting with those that Rust and C++ programs call.
pub(crate) const MIMALLOC: &[(&str, Shape)] = &[
    ("mi_malloc", MALLOC),
    ("mi_calloc", CALLOC),
    ("mi_realloc", REALLOC),
    ("mi_free", FREE),
    ("mi_malloc_aligned", ALLOC_LIKE),
    ("mi_zalloc_aligned", ZEROED),
    ("mi_realloc_aligned", REALLOC_LIKE),
    ("mi_zalloc", ZEROED),
    ("mi_posix_memalign", POSIX_MEMALIGN),
    ("mi_memalign", MEMALIGN),
    ("mi_aligned_alloc", ALIGNED_ALLOC),
    ("mi_valloc", VALLOC),
    ("mi_pvalloc", PVALLOC),
    ("mi_reallocarray", REALLOCARRAY),
    ("mi_free_size", FREE_LIKE),
    ("mi_free_size_aligned", FREE_LIKE),
    ("mi_free_aligned", FREE_LIKE),
    ("mi_cfree", FREE),
    ("mi_new", MALLOC),
    ("mi_new_nothrow", MALLOC),
    ("mi_new_aligned", ALLOC_LIKE),
    ("mi_new_aligned_nothrow", ALLOC_LIKE),
    ("mi_new_n", CALLOC),
    ("mi_new_realloc", REALLOC),
    ("mi_new_reallocn", REALLOCARRAY),
    ("mi_mallocn", CALLOC),
    ("mi_reallocn", REALLOCARRAY),
    ("mi_recalloc", REALLOCARRAY),
    ("mi_rezalloc", REALLOC_LIKE),
    ("mi_rezalloc_aligned", REALLOC_LIKE),
    ("mi_reallocf", REALLOC),
    ("mi_malloc_small", MALLOC),
    ("mi_zalloc_small", ZEROED),
    ("mi_malloc_aligned_at", ALLOC_LIKE),
    ("mi_calloc_aligned", COUNT_SIZE),
    ("mi_heap_malloc", SIZE_SECOND),
    ("mi_heap_zalloc", ZEROED_SIZE_SECOND),
    ("mi_heap_malloc_aligned", SIZE_SECOND),
    ("mi_heap_zalloc_aligned", ZEROED_SIZE_SECOND),
    ("mi_heap_malloc_small", SIZE_SECOND),
    ("mi_heap_calloc", COUNT_SIZE_SECOND),
    ("mi_heap_realloc", OLD_SECOND),
];

/// snmalloc's functions for Rust, and its own names for libc's functions.
pub(crate) const SNMALLOC: &[(&str, Shape)] = &[
    ("sn_rust_alloc", ALIGNED_ALLOC),
    ("sn_rust_alloc_zeroed", ZEROED_SIZE_SECOND),
    ("sn_rust_realloc", RUST_REALLOC),
    ("sn_rust_dealloc", FREE_LIKE),
    ("sn_malloc", MALLOC),
    ("sn_calloc", CALLOC),
    ("sn_realloc", REALLOC),
    ("sn_free", FREE),
];

/// C++'s operators. An allocator with its own `malloc` often defines these as well, without calling its
/// `malloc`.
pub(crate) const OPERATORS: &[(&str, Shape)] = &[
    ("_Znwm", MALLOC),
    ("_Znam", MALLOC),
    ("_ZnwmRKSt9nothrow_t", ALLOC_LIKE),
    ("_ZnamRKSt9nothrow_t", ALLOC_LIKE),
    ("_ZnwmSt11align_val_t", ALLOC_LIKE),
    ("_ZnamSt11align_val_t", ALLOC_LIKE),
    ("_ZnwmSt11align_val_tRKSt9nothrow_t", ALLOC_LIKE),
    ("_ZnamSt11align_val_tRKSt9nothrow_t", ALLOC_LIKE),
    ("_ZdlPv", FREE),
    ("_ZdaPv", FREE),
    ("_ZdlPvm", FREE_LIKE),
    ("_ZdaPvm", FREE_LIKE),
    ("_ZdlPvSt11align_val_t", FREE_LIKE),
    ("_ZdaPvSt11align_val_t", FREE_LIKE),
    ("_ZdlPvmSt11align_val_t", FREE_LIKE),
    ("_ZdaPvmSt11align_val_t", FREE_LIKE),
    ("_ZdlPvRKSt9nothrow_t", FREE_LIKE),
    ("_ZdaPvRKSt9nothrow_t", FREE_LIKE),
    ("_ZdlPvSt11align_val_tRKSt9nothrow_t", FREE_LIKE),
    ("_ZdaPvSt11align_val_tRKSt9nothrow_t", FREE_LIKE),
];

/// The functions that the Rust compiler generates for any global allocator. Newer compilers put a hash before
/// the name and its length.
pub(crate) const RUST_SHIMS: &[(&str, &str, Shape)] = &[
    ("__rust_alloc", "7___rustc12___rust_alloc", ALLOC_LIKE),
    ("__rust_alloc_zeroed", "7___rustc19___rust_alloc_zeroed", ZEROED),
    ("__rust_realloc", "7___rustc14___rust_realloc", RUST_REALLOC),
    ("__rust_dealloc", "7___rustc14___rust_dealloc", FREE_LIKE),
];

/// Symbol names of which every known allocator defines at least one. Free functions are enough: an allocator
/// that frees also allocates.
pub(crate) fn allocator_symbol_names() -> Vec<String> {
    let jemalloc = JEMALLOC_PREFIXES
        .iter()
        .flat_map(|prefix| ["free", "sdallocx", "dallocx"].map(|name| format!("{prefix}{name}")));
    ["malloc", "mi_free", "sn_rust_dealloc", "sn_free"]
        .map(str::to_owned)
        .into_iter()
        .chain(jemalloc)
        .collect()
}
