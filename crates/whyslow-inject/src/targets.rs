//! Finds the functions of a module that must be patched.

use std::collections::HashSet;

use whyslow_numbers::FileAddress;

use crate::allocators::{self, Shape};
use crate::arch::targets;
use crate::image::{Function, Image, Slot};
use crate::rust_shims;

/// A function to patch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'d> {
    pub(crate) function: Function<'d>,
    pub(crate) shape: Shape,
}

/// The functions and allocators found in a module.
#[derive(Debug, Default)]
pub(crate) struct Found<'d> {
    pub(crate) targets: Vec<Target<'d>>,
    /// The allocators' names.
    pub(crate) allocators: Vec<&'static str>,
    /// Whether the module replaces libc's own functions.
    pub(crate) replaces_libc: bool,
    /// Whether only the compiler's functions were found.
    pub(crate) only_shims: bool,
    seen: HashSet<FileAddress>,
}

impl<'d> Found<'d> {
    /// Searches the program. `is_static`: there is no other module.
    pub(crate) fn in_program(image: &Image<'d>, is_static: bool) -> Self {
        let mut found = Self::default();
        found.add_prefixed(image);
        let own = image.function("malloc").filter(|malloc| is_static || !malloc.is_local);
        if own.is_some() {
            found.replaces_libc = true;
            let before = found.targets.len();
            found.add(image, "", allocators::LIBC);
            found.add(image, "", allocators::JEMALLOC);
            // Nothing new means that another allocator's functions have these names too.
            if found.targets.len() > before {
                found.allocators.push(name_of(image, is_static, "the program's own malloc"));
            }
            found.add_operators(image);
        }
        if found.targets.is_empty() {
            for (function, shape) in rust_shims::shims(image) {
                found.only_shims = true;
                found.push(function, shape);
            }
            if found.only_shims {
                found.allocators.push(whyslow_profile::HeapFacts::PARTLY_SEEN);
            }
        }
        found
    }

    /// Searches a library. A lookup of its `malloc` by name finds the agent's `malloc` first. But the library
    /// may call its own `malloc` directly, and the function may have other names.
    pub(crate) fn in_library(image: &Image<'d>) -> Self {
        let mut found = Self::default();
        found.add_prefixed(image);
        if image.function("malloc").is_some_and(|malloc| !malloc.is_local) {
            let before = found.targets.len();
            found.add(image, "", allocators::LIBC);
            found.add(image, "", allocators::JEMALLOC);
            found.add_operators(image);
            if found.targets.len() > before {
                found.allocators.push(name_of(image, false, "a library's own malloc"));
            }
        }
        found
    }

    fn add_prefixed(&mut self, image: &Image<'d>) {
        let mut jemalloc = 0;
        for prefix in allocators::JEMALLOC_PREFIXES {
            jemalloc += self.add(image, prefix, allocators::LIBC);
            jemalloc += self.add(image, prefix, allocators::JEMALLOC);
        }
        let mimalloc = self.add(image, "", allocators::MIMALLOC);
        let snmalloc = self.add(image, "", allocators::SNMALLOC);
        for (name, count) in [("jemalloc", jemalloc), ("mimalloc", mimalloc), ("snmalloc", snmalloc)] {
            if count > 0 {
                self.allocators.push(name);
            }
        }
    }

    fn add(&mut self, image: &Image<'d>, prefix: &str, table: &[(&str, Shape)]) -> usize {
        let before = self.targets.len();
        for (name, shape) in table {
            if let Some(function) = image.function(&format!("{prefix}{name}")) {
                self.push(function, *shape);
            }
        }
        self.targets.len() - before
    }

    /// Adds C++'s operators, except those that call another known function: they are recorded there, and may
    /// throw on their own.
    fn add_operators(&mut self, image: &Image<'d>) {
        let operators: Vec<_> = allocators::OPERATORS
            .iter()
            .filter_map(|(name, shape)| Some((image.function(name)?, *shape)))
            .collect();
        let known: HashSet<FileAddress> =
            self.seen.iter().copied().chain(operators.iter().map(|(operator, _)| operator.address)).collect();
        for (operator, shape) in operators {
            let calls_known = image.code(operator).is_some_and(|code| {
                targets(image, code).into_iter().any(|target| match target {
                    Slot::Here(address) => address != operator.address && known.contains(&address),
                    Slot::Import(name) => is_known(name),
                })
            });
            if !calls_known {
                self.push(operator, shape);
            }
        }
    }

    /// Adds a function once, even if it has several names.
    fn push(&mut self, function: Function<'d>, shape: Shape) {
        if self.seen.insert(function.address) {
            self.targets.push(Target { function, shape });
        }
    }
}

/// Whether an imported function of this name is recorded.
fn is_known(name: &str) -> bool {
    allocators::LIBC.iter().chain(allocators::OPERATORS).any(|(known, _)| *known == name)
}

/// The allocator that a `malloc` belongs to, judged by other functions of the module.
fn name_of(image: &Image<'_>, is_static: bool, otherwise: &'static str) -> &'static str {
    let has = |name| image.function(name).is_some();
    if has("mallctl") {
        "jemalloc"
    } else if has("mi_malloc") {
        "mimalloc"
    } else if has("tc_malloc") || has("MallocExtension_Internal_GetNumericProperty") {
        "tcmalloc"
    } else if is_static && (has("__libc_malloc") || has("__libc_start_main")) {
        "static libc"
    } else {
        otherwise
    }
}
