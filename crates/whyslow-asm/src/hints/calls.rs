//! Call hints: memcpy, the allocator, function pointers, and functions that could be inlined.

use super::{Advice, Hint, Kind, Place, count};
use crate::body::Call;
use crate::callee::{Purpose, purpose};

/// A function of at most this many bytes costs about as much to call as to run.
const SMALL: u64 = 48;
/// A copy of more bytes than this moves a large type.
const LARGE_COPY: u64 = 128;

const INDIRECT: Advice = Advice::general("Call the function directly, or dispatch once outside the loop.")
    .rust("Use generics or an enum instead of `dyn` or function pointers, or dispatch once outside the loop.")
    .native(
        "Use templates, `final` classes or direct calls instead of virtual functions or function pointers, or dispatch once \
         outside the loop.",
    )
    .go("Use a concrete type or generics instead of an interface or a function value, or dispatch once outside the loop.");

const SMALL_CALLEE: Advice = Advice::general("Let the compiler inline it into the loop, or write it there.")
    .rust(
        "Mark it `#[inline]`, or build with `lto = \"thin\"` and `codegen-units = 1`, so that it is inlined into the loop.",
    )
    .native("Define it in a header (`static inline`), or build with `-flto`, so that it is inlined into the loop.")
    .fortran("Put it into the same file, or build with `-flto`, so that it is inlined into the loop.")
    .go("Make it simpler, so that it is inlined into the loop: `go build -gcflags=-m` says why it is not.");

const LARGE_VALUE: Advice = Advice::general("A value of that size is copied: pass it by reference.")
    .rust(
        "A value of that size is moved: pass it by reference, box it, or box the large variant of its enum.",
    )
    .native("A value of that size is copied: pass it by pointer or reference.")
    .go("A value of that size is copied: pass a pointer to it.");

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
        Advice::general(
            "Reuse one buffer across iterations, reserve once before the loop, or keep the values on the stack.",
        ),
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
        INDIRECT,
    ));
    let other = of(Purpose::Other);
    let is_small =
        |call: &&Call| call.callee.as_ref().and_then(|callee| callee.size).is_some_and(|size| size <= SMALL);
    let (small, large): (Vec<&Call>, Vec<&Call>) = other.into_iter().partition(is_small);
    let sizes = small.iter().filter_map(|call| call.callee.as_ref()?.size).max().unwrap_or(0);
    found.extend(place.costly(
        Kind::SmallCallee,
        &rows(&small),
        format!(
            "{} calls {}, which has at most {sizes} bytes and is not inlined.",
            place.subject(),
            names(&small)
        ),
        SMALL_CALLEE,
    ));
    if place.is_innermost {
        found.extend(place.costly(
            Kind::CallInLoop,
            &rows(&large),
            format!("The innermost loop calls {} in every iteration.", names(&large)),
            Advice::general(
                "Check whether its work can be done once before the loop, or for many elements at once.",
            ),
        ));
    }
}

fn memory_calls(place: &Place<'_>, calls: &[&Call]) -> Option<Hint> {
    let sizes: Vec<u64> = calls.iter().filter_map(|call| call.third_argument).collect();
    let largest = sizes.iter().copied().max();
    let (size, advice) = match largest {
        Some(size) if size > LARGE_COPY => (format!(" of {size} bytes"), LARGE_VALUE),
        Some(size) => (
            format!(" of {size} bytes"),
            Advice::general("Work on the value in place, or copy several at once."),
        ),
        None => {
            (String::new(), Advice::general("Copy larger pieces at once, or work on the data where it is."))
        }
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
