//! Formats stacks for the message of a failed assertion.

use std::fmt::Write;

use crate::symbols::{Frame, Symbols};

/// Max stacks shown.
const MOST_STACKS: usize = 10;
/// Max frames shown per stack.
const MOST_FRAMES: usize = 12;

/// The allocations of one stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) stack: u32,
    pub(crate) allocations: u64,
    pub(crate) bytes: u64,
}

/// A number with its noun.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

/// The heaviest stacks, by bytes or by allocations. Stacks with the same text are merged.
pub(crate) fn stacks(rows: Vec<Row>, by_bytes: bool) -> String {
    let mut symbols = Symbols::new();
    let mut shapes: Vec<(String, u64, u64)> = Vec::new();
    for row in rows {
        let frames: Vec<Frame> =
            symbols.of_stack(row.stack, usize::MAX).into_iter().map(|(_, frame)| frame).collect();
        let shape = shape(&frames);
        match shapes.iter_mut().find(|(known, ..)| *known == shape) {
            Some((_, allocations, bytes)) => {
                *allocations += row.allocations;
                *bytes += row.bytes;
            }
            None => shapes.push((shape, row.allocations, row.bytes)),
        }
    }
    shapes.sort_by(|(one, allocations, bytes), (other, other_allocations, other_bytes)| {
        let (mine, others) = ((*allocations, *bytes), (*other_allocations, *other_bytes));
        let order = if by_bytes { others.1.cmp(&mine.1) } else { others.cmp(&mine) };
        order.then_with(|| one.cmp(other))
    });
    let mut text = String::new();
    for (shape, allocations, bytes) in shapes.iter().take(MOST_STACKS) {
        let _ =
            writeln!(text, "  {}, {}{shape}", counted(*allocations, "allocation"), counted(*bytes, "byte"));
    }
    if let Some(rest @ [_, ..]) = shapes.get(MOST_STACKS..) {
        let (allocations, bytes) =
            (rest.iter().map(|shape| shape.1).sum(), rest.iter().map(|shape| shape.2).sum());
        let _ = writeln!(
            text,
            "  and {} with {}, {}",
            counted(rest.len() as u64, "more stack"),
            counted(allocations, "allocation"),
            counted(bytes, "byte"),
        );
    }
    text
}

/// One stack without internal frames: the function that was called to allocate, then one line per frame.
fn shape(frames: &[Frame]) -> String {
    if frames.is_empty() {
        return ", unknown stack".to_owned();
    }
    let first = frames.iter().position(|frame| !frame.is_machinery());
    let mut text = String::new();
    // The standard library function that the program called shows what was allocated.
    let called = match first {
        Some(first) => first.checked_sub(1),
        None => Some(frames.len() - 1),
    };
    if let Some(called) = called {
        let _ = write!(text, " by {}", frames[called].function);
    }
    let end = frames
        .iter()
        .position(|frame| frame.function.contains("__rust_begin_short_backtrace"))
        .unwrap_or(frames.len());
    let users: Vec<&Frame> = frames[..end].iter().filter(|frame| !frame.is_machinery()).collect();
    for frame in users.iter().take(MOST_FRAMES) {
        let _ = write!(text, "\n      at {}", frame.function);
        if let Some(position) = frame.position() {
            let _ = write!(text, " ({position})");
        }
    }
    if users.len() > MOST_FRAMES {
        let _ = write!(text, "\n      and {}", counted((users.len() - MOST_FRAMES) as u64, "more frame"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: &str) -> Frame {
        Frame { function: function.into(), file: Some(file.into()), line: 7, column: 1 }
    }

    #[test]
    fn shape_has_the_called_function_and_the_users_frames() {
        let std = "/rustc/x/library/alloc/src/vec/mod.rs";
        let frames = [
            frame("alloc::raw_vec::RawVec<T,A>::grow_one", std),
            frame("alloc::vec::Vec<T,A>::push", std),
            frame("app::parse", "/src/parse.rs"),
            frame("core::iter::traits::iterator::Iterator::for_each", "/rustc/x/library/core/src/iter.rs"),
            frame("app::run", "/src/main.rs"),
            frame("std::sys::backtrace::__rust_begin_short_backtrace", "/rustc/x/library/std/src/rt.rs"),
            frame("somewhere::outside", "/src/main.rs"),
        ];
        std::assert_eq!(
            shape(&frames),
            " by alloc::vec::Vec<T,A>::push\n      at app::parse (/src/parse.rs:7)\n      at app::run (/src/main.rs:7)"
        );
        std::assert_eq!(shape(&frames[2..3]), "\n      at app::parse (/src/parse.rs:7)");
        std::assert_eq!(shape(&frames[..1]), " by alloc::raw_vec::RawVec<T,A>::grow_one");
        std::assert_eq!(shape(&[]), ", unknown stack");
    }
}
