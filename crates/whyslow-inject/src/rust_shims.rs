//! Programs with a global allocator written in Rust: only the compiler's own functions (`__rust_alloc` and so
//! on) have known names.
//!
//! These functions are hooked only as a last resort, and never together with the functions that they call:
//! that would record every block twice. The rule:
//!
//! 1. The program has no other known allocator.
//! 2. `__rust_alloc` does not lead to libc's allocator. It does if it is Rust's default (`__rdl_alloc`, or `malloc` itself if
//!    that was inlined), or a wrapper around `System`; those are recorded at `malloc`. "Leads to" follows direct calls and
//!    jumps and known table words a few functions deep, but not into panics: from there everything leads to `malloc`.
//!
//! Optimised programs inline these functions, completely with link-time optimisation. So a note says that
//! some calls may not be recorded.

use std::collections::HashSet;

use crate::allocators::{LIBC, RUST_SHIMS, Shape};
use crate::arch::targets;
use crate::image::{Function, Image, Slot};

/// How many calls deep to search for libc's allocator: the function itself, the allocator's method,
/// `System`'s method, a helper.
const DEEPEST: usize = 4;

/// The compiler's functions, if they must be hooked.
pub(crate) fn shims<'d>(image: &Image<'d>) -> Vec<(Function<'d>, Shape)> {
    let found: Vec<_> = RUST_SHIMS
        .iter()
        .filter_map(|(name, mangled, shape)| {
            Some((image.function(name).or_else(|| image.function_ending(mangled))?, *shape))
        })
        .collect();
    if found.iter().any(|(function, _)| leads_to_libc(image, *function)) { Vec::new() } else { found }
}

fn leads_to_libc(image: &Image<'_>, function: Function<'_>) -> bool {
    let mut seen = HashSet::from([function.address]);
    let mut level = vec![function];
    for _ in 0..DEEPEST {
        let mut next = Vec::new();
        for function in level.drain(..) {
            let Some(code) = image.code(function) else { continue };
            for target in targets(image, code) {
                match target {
                    Slot::Import(name) if is_libcs(name) => return true,
                    Slot::Import(_) => {}
                    Slot::Here(address) => {
                        let mut there = image.functions_at(address).peekable();
                        let Some(first) = there.peek().copied() else { continue };
                        let names: Vec<&str> = there.map(|function| function.name).collect();
                        if names.iter().any(|name| is_libcs(name)) {
                            return true;
                        }
                        let panics =
                            names.iter().any(|name| name.contains("panic") || name.contains("alloc_error"));
                        if !panics && seen.insert(address) {
                            next.push(first);
                        }
                    }
                }
            }
        }
        level = next;
    }
    false
}

fn is_libcs(name: &str) -> bool {
    name.contains("__rdl_") || LIBC.iter().any(|(libcs, _)| *libcs == name)
}
