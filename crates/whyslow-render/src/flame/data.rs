//! The numbers and names that the script draws from, as compact JSON.

use std::fmt::Write as _;

use super::Drawn;
use super::functions::Function;
use super::kinds;
use super::layout::Layout;
use super::text::push_json;

/// Appends the functions as `[["name", class, "crate", "short name", folded], …]`, each without its empty or
/// repeated tail. `folded` is 1 for an entry that stands for several frames.
pub(super) fn push_functions(out: &mut String, functions: &[Function]) {
    out.push('[');
    for (at, function) in functions.iter().enumerate() {
        out.push_str(if at == 0 { "[" } else { ",\n[" });
        push_json(out, &function.name);
        let _ = write!(out, ",{}", kinds::class(function.kind));
        let short = function.short != function.name;
        if function.folded {
            out.push_str(",\"\",");
            push_json(out, &function.short);
            out.push_str(",1]");
            continue;
        }
        if short || !function.crate_name.is_empty() {
            out.push(',');
            push_json(out, &function.crate_name);
        }
        if short {
            out.push(',');
            push_json(out, &function.short);
        }
        out.push(']');
    }
    out.push(']');
}

/// Appends the frames as a JSON string, depth first, separated by `;`. A frame is
///
/// ```text
/// up,function,total,self,times,round     all numbers in base 36, 0 may be left out
/// up        levels back before stepping down: 0 is a child of the frame before, 1 its sibling
/// function  2 × row of the function, + 1 when inlined
/// self      only if it differs from total minus children (some children are hidden), or if more fields follow
/// times     only for folded recursion: how often the last `round` frames repeat
/// ```
pub(super) fn push_frames(out: &mut String, layout: &Layout, drawn: Drawn<'_>, rows: &[u32]) {
    let own = explicit_self(layout);
    out.push('"');
    let mut level = 0;
    for (at, (frame, &row)) in layout.frames.iter().zip(rows).enumerate() {
        if at > 0 {
            out.push(';');
        }
        push_base36(out, u64::from((level - frame.depth) * u32::from(at > 0)));
        out.push(',');
        push_base36(out, u64::from(row) * 2 + u64::from(drawn.tree.inlined[frame.node as usize]));
        out.push(',');
        push_base36(out, frame.value);
        let repeat = drawn.repeat(frame.node);
        let repeats = repeat.times > 1;
        if let Some(own) = own[at].or(repeats.then_some(frame.self_value)) {
            out.push(',');
            push_base36(out, own);
        }
        if repeats {
            out.push(',');
            push_base36(out, repeat.times.into());
            out.push(',');
            push_base36(out, repeat.frames.into());
        }
        level = frame.depth + 1;
    }
    out.push('"');
}

/// The self value of each frame where it differs from `total - Σ children`.
fn explicit_self(layout: &Layout) -> Vec<Option<u64>> {
    let mut left: Vec<u64> = layout.frames.iter().map(|frame| frame.value).collect();
    let mut path: Vec<usize> = Vec::new();
    for (at, frame) in layout.frames.iter().enumerate() {
        path.truncate(frame.depth as usize);
        if let Some(&parent) = path.last() {
            left[parent] = left[parent].saturating_sub(frame.value);
        }
        path.push(at);
    }
    layout
        .frames
        .iter()
        .zip(left)
        .map(|(frame, left)| (frame.self_value != left).then_some(frame.self_value))
        .collect()
}

/// Appends a number in base 36; nothing for 0.
pub(super) fn push_base36(out: &mut String, mut number: u64) {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut buffer = [0u8; 13];
    let mut at = buffer.len();
    while number > 0 {
        at -= 1;
        buffer[at] = DIGITS[(number % 36) as usize];
        number /= 36;
    }
    out.extend(buffer[at..].iter().map(|&digit| char::from(digit)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flame::layout::Placed;
    use whyslow_analyze::{CallTree, Label};

    #[test]
    fn numbers_are_written_in_base_36() {
        for (number, text) in [(0, ""), (1, "1"), (35, "z"), (36, "10"), (u64::MAX, "3w5e11264sgsf")] {
            let mut out = String::new();
            push_base36(&mut out, number);
            assert_eq!(out, text);
        }
    }

    #[test]
    fn frames_are_written_as_steps() {
        let placed = |node, depth, start, value, self_value| Placed { node, depth, start, value, self_value };
        let layout = Layout {
            frames: vec![
                placed(0, 0, 0, 100, 0),
                placed(1, 1, 0, 60, 10),
                placed(2, 2, 0, 40, 40),
                placed(3, 1, 60, 40, 40),
            ],
            ..Layout::default()
        };
        let tree = CallTree {
            parent: vec![0, 0, 1, 0],
            label: vec![Label::Root; 4],
            inlined: vec![false, false, true, false],
            self_value: vec![0; 4],
            total_value: vec![0; 4],
        };
        let mut out = String::new();
        push_frames(&mut out, &layout, Drawn::plain(&tree, None), &[0, 1, 2, 3]);
        assert_eq!(out, "\",,2s;,2,1o,a;,5,14;2,6,14\"");
    }
}
