//! Classifies called functions by their names.

/// A kind of function that hints care about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Panics because an index is out of bounds.
    BoundsPanic,
    /// Panics because of an overflow.
    OverflowPanic,
    /// Another function that never returns.
    NeverReturns,
    /// Copies, fills or compares memory.
    Memory,
    /// Allocates or frees memory.
    Allocation,
    /// Anything else.
    Other,
}

/// The part of a name that matters: without version, stub mark and symbol hash.
fn plain(name: &str) -> &str {
    let name = name.strip_suffix("@plt").unwrap_or(name);
    let name = name.split_once('@').map_or(name, |(name, _)| name);
    match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => path,
        _ => name,
    }
}

const BOUNDS: [&str; 12] = [
    "core::panicking::panic_bounds_check",
    "core::slice::index::slice_start_index_len_fail",
    "core::slice::index::slice_end_index_len_fail",
    "core::slice::index::slice_index_order_fail",
    "core::slice::index::slice_index_fail",
    "core::slice::index::slice_start_index_overflow_fail",
    "core::slice::index::slice_end_index_overflow_fail",
    "core::str::slice_error_fail",
    "core::slice::copy_from_slice_impl::len_mismatch_fail",
    "core::slice::<impl [T]>::copy_from_slice::len_mismatch_fail",
    "core::panicking::panic_misaligned_pointer_dereference",
    "std::__throw_out_of_range_fmt",
];

const NEVER_RETURNS: [&str; 19] = [
    "core::option::unwrap_failed",
    "core::option::expect_failed",
    "core::result::unwrap_failed",
    "core::cell::panic_already_borrowed",
    "core::cell::panic_already_mutably_borrowed",
    "alloc::raw_vec::handle_error",
    "alloc::raw_vec::capacity_overflow",
    "alloc::alloc::handle_alloc_error",
    "alloc::vec::Vec<T,A>::swap_remove::assert_failed",
    "std::process::exit",
    "std::process::abort",
    "_Unwind_Resume",
    "abort",
    "exit",
    "_exit",
    "__stack_chk_fail",
    "__assert_fail",
    "__cxa_throw",
    "__cxa_rethrow",
];

const MEMORY: [&str; 8] =
    ["memcpy", "memmove", "memset", "memcmp", "bcmp", "__memcpy_chk", "__memmove_chk", "__memset_chk"];

const ALLOCATION: [&str; 18] = [
    "malloc",
    "calloc",
    "realloc",
    "free",
    "cfree",
    "aligned_alloc",
    "posix_memalign",
    "__rust_alloc",
    "__rust_alloc_zeroed",
    "__rust_realloc",
    "__rust_dealloc",
    "__rustc::__rust_alloc",
    "__rustc::__rust_alloc_zeroed",
    "__rustc::__rust_realloc",
    "__rustc::__rust_dealloc",
    "__rdl_alloc",
    "__rdl_realloc",
    "__rdl_dealloc",
];

/// The purpose of a function.
pub fn purpose(name: &str) -> Purpose {
    let name = plain(name);
    let is_panic = name.starts_with("core::panicking::") || name.starts_with("std::panicking::begin_panic");
    if BOUNDS.contains(&name) || name.starts_with("core::slice::index::slice_") {
        Purpose::BoundsPanic
    } else if is_panic && name.contains("::panic_const_") && name.contains("overflow") {
        Purpose::OverflowPanic
    } else if is_panic || NEVER_RETURNS.contains(&name) || name.ends_with("::assert_failed") {
        Purpose::NeverReturns
    } else if MEMORY.contains(&name) {
        Purpose::Memory
    } else if ALLOCATION.contains(&name)
        || name.starts_with("operator new")
        || name.starts_with("operator delete")
        || name.contains("RawVec") && name.contains("::grow_")
        || name.starts_with("alloc::alloc::exchange_malloc")
    {
        Purpose::Allocation
    } else {
        Purpose::Other
    }
}

/// Whether a function of this name never returns to its caller.
pub fn never_returns(name: &str) -> bool {
    matches!(purpose(name), Purpose::BoundsPanic | Purpose::OverflowPanic | Purpose::NeverReturns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purpose_follows_from_the_name() {
        assert_eq!(purpose("core::panicking::panic_bounds_check"), Purpose::BoundsPanic);
        assert_eq!(
            purpose("core::panicking::panic_const::panic_const_add_overflow::h0123456789abcdef"),
            Purpose::OverflowPanic
        );
        assert_eq!(purpose("core::panicking::panic_const::panic_const_div_by_zero"), Purpose::NeverReturns);
        assert_eq!(purpose("memcpy@plt"), Purpose::Memory);
        assert_eq!(purpose("memcpy@GLIBC_2.14"), Purpose::Memory);
        assert_eq!(purpose("__rustc::__rust_alloc"), Purpose::Allocation);
        assert_eq!(purpose("alloc::raw_vec::RawVec<T,A>::grow_one"), Purpose::Allocation);
        assert_eq!(purpose("app::memcpy_rows"), Purpose::Other);
        assert!(never_returns("core::option::unwrap_failed") && !never_returns("malloc"));
    }
}
