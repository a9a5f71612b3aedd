//! Frames coloured by kinds of time: the parts of a frame from left to right, the legend, and the numbers for the script.

use std::fmt::Write as _;

use whyslow_analyze::TimeKind;
use whyslow_words::{Percent, duration};

use super::Drawn;
use super::data::push_base36;
use super::kinds::NO_CODE;
use super::layout::Layout;
use super::text::push_json;

/// The colour class of the first kind of time; the others follow.
pub(super) const FIRST_CLASS: usize = NO_CODE + 1;

/// Number of colour classes, including those of the kinds of time.
pub(super) const CLASSES: usize = FIRST_CLASS + TimeKind::ALL.len();

/// Splits a frame that spans `left` to `right` into its kinds of time: the class of each part, and its edges.
pub(super) fn parts(
    split: &[u64; TimeKind::ALL.len()],
    left: u64,
    right: u64,
) -> impl Iterator<Item = (usize, u64, u64)> + '_ {
    let total = split.iter().fold(0u64, |sum, part| sum.saturating_add(*part)).max(1);
    let edge =
        move |value: u64| left + ((right - left) as f64 * (value as f64 / total as f64)).round() as u64;
    let mut reached = 0u64;
    (FIRST_CLASS..).zip(split).filter_map(move |(class, part)| {
        let (from, to) = (edge(reached), edge(reached.saturating_add(*part)));
        reached = reached.saturating_add(*part);
        (to > from).then_some((class, from, to))
    })
}

/// The legend entries: class and words.
pub(super) fn legend(split: &[u64; TimeKind::ALL.len()], total: u64) -> Vec<(usize, String)> {
    let kinds = (FIRST_CLASS..).zip(TimeKind::ALL).zip(split).filter(|(_, part)| **part > 0);
    kinds
        .map(|((class, kind), part)| {
            let share = Percent(*part as f64 / total.max(1) as f64);
            (class, format!("{} {}, {share}", kind.word(), duration(*part)))
        })
        .collect()
}

/// Appends the names of the kinds as a JSON list.
pub(super) fn push_words(out: &mut String) {
    for (at, kind) in TimeKind::ALL.iter().enumerate() {
        out.push(if at == 0 { '[' } else { ',' });
        push_json(out, kind.word());
    }
    out.push(']');
}

/// Appends the kinds of time of the frames as a JSON string. Frames are separated by `;`. Each has its kinds
/// in base 36, separated by `,`, without the empty tail.
pub(super) fn push_splits(out: &mut String, layout: &Layout, drawn: Drawn<'_>) {
    let Some(times) = drawn.times else { return };
    out.push('"');
    for (at, frame) in layout.frames.iter().enumerate() {
        if at > 0 {
            out.push(';');
        }
        let split = &times.of_node[frame.node as usize];
        let used = split.iter().rposition(|part| *part > 0).map_or(0, |last| last + 1);
        for (column, part) in split[..used].iter().enumerate() {
            if column > 0 {
                out.push(',');
            }
            push_base36(out, *part);
        }
    }
    out.push('"');
}

/// Appends a part of a frame as a line. The style sheet makes the line as thick as a row.
pub(super) fn push_part(path: &mut String, left: u64, right: u64, middle: u32) {
    let _ = write!(path, "M{} {middle}h{}", left as f64 / 10.0, (right - left) as f64 / 10.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_frame_fill_it() {
        let of = |split| parts(&split, 100, 200).collect::<Vec<_>>();
        assert_eq!(of([1, 0, 1, 0, 0, 2]), [(8, 100, 125), (10, 125, 150), (13, 150, 200)]);
        assert_eq!(of([0, 0, 7, 0, 0, 0]), [(10, 100, 200)]);
        assert_eq!(of([0; 6]), []);
        // A part that is too narrow is left out and moves nothing.
        assert_eq!(of([1, 999_999, 0, 0, 0, 0]), [(9, 100, 200)]);
    }
}
