//! Call hints: memcpy, the allocator, function pointers, and functions that could be inlined.

use super::{Hint, Kind, Place, count};
use crate::body::Call;
use crate::callee::{Purpose, purpose};

/// A function of at most this many bytes costs about as much to call as to run.
const SMALL: u64 = 48;
/// A copy of more bytes than this moves a large type.
const LARGE_COPY: u64 = 128;

pub(super) fn add(place: &Place<'_>, found: &mut Vec<Hint>) {
    let calls: Vec<&Call> = place
        .instructions()
        .filter(|(_, row)| row.is_call())
        .filter_map(|(index, _)| place.body.call_at(index))
        .collect();
    let of = |wanted: Purpose| -> Vec<&Call> {
        calls.iter().filter(|call| call.name().is_some_and(|name| purpose(name) == wanted)).copied().collect()
    };
    found.extend(memory_calls(place, &of(Purpose::Memory)));
    let allocating = of(Purpose::Allocation);
    found.extend(place.costly(
        Kind::Allocation,
        &rows(&allocating),
        format!("{} calls the allocator ({}).", place.subject(), names(&allocating)),
        "Reuse one buffer across iterations, reserve once before the loop, or keep the values on the stack.",
    ));
    if place.in_loop.is_none() {
        return;
    }
    let indirect: Vec<&Call> = calls.iter().filter(|call| call.is_indirect()).copied().collect();
    let some = count(indirect.len(), "a function through a pointer", "functions through pointers");
    found.extend(place.costly(
        Kind::IndirectCall,
        &rows(&indirect),
        format!("{} calls {some}, so nothing can be inlined.", place.subject()),
        "Use generics or an enum instead of `dyn` or function pointers, or dispatch once outside the loop.",
    ));
    let other = of(Purpose::Other);
    let is_small =
        |call: &&Call| call.callee.as_ref().and_then(|callee| callee.size).is_some_and(|size| size <= SMALL);
    let (small, large): (Vec<&Call>, Vec<&Call>) = other.into_iter().partition(is_small);
    let sizes = small.iter().filter_map(|call| call.callee.as_ref()?.size).max().unwrap_or(0);
    found.extend(place.costly(
        Kind::SmallCallee,
        &rows(&small),
        format!("{} calls {}, which has at most {sizes} bytes and is not inlined.", place.subject(), names(&small)),
        "Mark it `#[inline]`, or build with `lto = \"thin\"` and `codegen-units = 1`, so that it is inlined into the loop.",
    ));
    if place.is_innermost {
        found.extend(place.costly(
            Kind::CallInLoop,
            &rows(&large),
            format!("The innermost loop calls {} in every iteration.", names(&large)),
            "Check whether its work can be done once before the loop, or for many elements at once.",
        ));
    }
}

fn memory_calls(place: &Place<'_>, calls: &[&Call]) -> Option<Hint> {
    let sizes: Vec<u64> = calls.iter().filter_map(|call| call.third_argument).collect();
    let largest = sizes.iter().copied().max();
    let (size, advice) = match largest {
        Some(size) if size > LARGE_COPY => (
            format!(" of {size} bytes"),
            "A value of that size is moved: pass it by reference, box it, or box the large variant of its enum.",
        ),
        Some(size) => (format!(" of {size} bytes"), "Work on the value in place, or copy several at once."),
        None => (String::new(), "Copy larger pieces at once, or work on the data where it is."),
    };
    place.costly(
        Kind::MemoryCall,
        &rows(calls),
        format!("{} calls {}{size}.", place.subject(), names(calls)),
        advice,
    )
}

fn rows(calls: &[&Call]) -> Vec<usize> {
    calls.iter().map(|call| call.instruction).collect()
}

/// The names of the callees, each once, at most three.
fn names(calls: &[&Call]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in calls.iter().filter_map(|call| call.name()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let more = names.len().saturating_sub(3);
    let shown = names[..names.len() - more].join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}
