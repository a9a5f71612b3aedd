//! Programs whose global allocator is written in Rust: nothing but the compiler's own functions `__rust_alloc` and so on has a
//! name that is known beforehand.
//!
//! These are hooked only as a last resort, and never together with what they call, or every block would be seen twice. The rule:
//!
//! 1. No allocator of another kind was found in the program.
//! 2. `__rust_alloc` does not lead to libc's allocator. It does when it is Rust's default (`__rdl_alloc`, or `malloc` itself where that
//!    was inlined), and when it is somebody's wrapper around `System`. Those are seen at `malloc`. "Leads to" follows direct
//!    calls and jumps and known table words a few functions deep, but not into panics: everything leads to `malloc` from there.
//!
//! Optimised programs inline these functions, wholly with link-time optimisation. So a note says that some calls may be unseen.

use std::collections::HashSet;

use iced_x86::{FlowControl, OpKind};

use crate::allocators::{LIBC, RUST_SHIMS, Shape};
use crate::image::{Function, Image, Slot};
use crate::prologue::instructions;

/// How many calls deep libc's allocator is looked for: the function itself, the allocator's method, `System`'s method, a helper.
const DEEPEST: usize = 4;

/// The compiler's functions if they must be hooked.
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

/// Where a function calls or jumps to, as far as that is written in the file. Addresses are the file's.
fn targets<'d>(image: &Image<'d>, code: crate::prologue::Code64<'d>) -> Vec<Slot<'d>> {
    let end = code.address + code.bytes.len() as u64;
    instructions(code)
        .filter_map(|instruction| match instruction.flow_control() {
            FlowControl::Call | FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                let target = instruction.near_branch_target();
                let inside = (code.address..end).contains(&target);
                (!inside).then(|| {
                    through_plt(image, target).unwrap_or(Slot::Here(target.wrapping_sub(image.bias)))
                })
            }
            FlowControl::IndirectCall | FlowControl::IndirectBranch
                if instruction.op0_kind() == OpKind::Memory && instruction.is_ip_rel_memory_operand() =>
            {
                image.slot(instruction.ip_rel_memory_address())
            }
            _ => None,
        })
        .collect()
}

/// The function behind an entry of the procedure linkage table: code without a name that jumps through a known word.
fn through_plt<'d>(image: &Image<'d>, target: u64) -> Option<Slot<'d>> {
    let code = image.code_at(target.wrapping_sub(image.bias), 16)?;
    let jump = instructions(code)
        .take(2)
        .find(|instruction| instruction.flow_control() == FlowControl::IndirectBranch)?;
    jump.is_ip_rel_memory_operand().then(|| image.slot(jump.ip_rel_memory_address())).flatten()
}

fn is_libcs(name: &str) -> bool {
    name.contains("__rdl_") || LIBC.iter().any(|(libcs, _)| *libcs == name)
}
