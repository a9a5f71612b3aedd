//! Frames coloured by change: blue is less, orange is more, grey is within noise.

use whyslow_analyze::diff::{Change, Paths, Verdict};

use super::data::push_base36;
use super::layout::Layout;
use super::text::push_json;
use super::times;

/// The colour class of the first kind of change; the others follow.
pub(super) const FIRST_CLASS: usize = times::CLASSES;

/// Number of colour classes in all.
pub(super) const CLASSES: usize = FIRST_CLASS + WORDS.len();

/// The words of the legend, from the bluest to the most orange.
pub(crate) const WORDS: [&str; 5] =
    ["half or less, removed", "less", "within noise", "more", "twice or more, new"];

/// Row of [`WORDS`] for changes within noise.
const GREY: usize = 2;

/// The colour class of changes within noise.
pub(super) const SAME_CLASS: usize = FIRST_CLASS + GREY;

/// The change at each node of a tree.
#[derive(Debug, Clone, PartialEq)]
pub struct FlameChanges {
    of_node: Vec<Change>,
}

impl FlameChanges {
    /// The changes between the call paths of two sides.
    pub fn of(paths: &Paths) -> Self {
        Self { of_node: paths.total.clone() }
    }

    /// The colour class of a node.
    pub(super) fn class(&self, node: u32) -> usize {
        FIRST_CLASS + colour(&self.of_node[node as usize])
    }

    /// The legend entries (class and words) of the colours in use.
    pub(super) fn legend(&self, layout: &Layout) -> Vec<(usize, String)> {
        let mut seen = [false; WORDS.len()];
        for frame in layout.frames.iter().skip(1) {
            seen[self.class(frame.node) - FIRST_CLASS] = true;
        }
        let entries = WORDS.iter().enumerate().filter(|(row, _)| seen[*row]);
        entries.map(|(row, word)| (FIRST_CLASS + row, (*word).to_owned())).collect()
    }

    /// Appends the verdicts that frames refer to, as a JSON list.
    pub(super) fn push_words(out: &mut String) {
        for (at, verdict) in VERDICTS.iter().enumerate() {
            out.push(if at == 0 { '[' } else { ',' });
            push_json(out, verdict.label());
        }
        out.push(']');
    }

    /// Appends the changes of the frames as a JSON string: frames separated by `;`, in each, in base 36,
    ///
    /// ```text
    /// before,after,class,verdict,ratio low,ratio high      ratios in thousandths, only of several runs
    /// ```
    pub(super) fn push_frames(&self, out: &mut String, layout: &Layout) {
        out.push('"');
        for (at, frame) in layout.frames.iter().enumerate() {
            let change = &self.of_node[frame.node as usize];
            let mut numbers = vec![
                change.before,
                change.after,
                colour(change) as u64,
                u64::from(verdict_code(change.proven())),
            ];
            if let Some(ratio) = change.ratio.filter(|_| change.before > 0 && change.after > 0) {
                numbers.extend([ratio.low, ratio.high].map(|ratio| (ratio * 1000.0).round() as u64));
            }
            for (column, number) in numbers.into_iter().enumerate() {
                match (at, column) {
                    (0, 0) => {}
                    (_, 0) => out.push(';'),
                    _ => out.push(','),
                }
                push_base36(out, number);
            }
        }
        out.push('"');
    }
}

/// The row of [`WORDS`] that gives a change its colour.
pub(crate) fn colour(change: &Change) -> usize {
    let large =
        change.after >= change.before.saturating_mul(2) || change.before >= change.after.saturating_mul(2);
    match (change.verdict, large) {
        (Verdict::Less, true) => 0,
        (Verdict::Less, false) => 1,
        (Verdict::More, false) => 3,
        (Verdict::More, true) => 4,
        _ => GREY,
    }
}

/// The row of a verdict in [`VERDICTS`].
pub(crate) fn verdict_code(verdict: Verdict) -> u8 {
    VERDICTS.iter().position(|known| *known == verdict).unwrap_or(0) as u8
}

/// The verdicts in the order of their numbers in the data.
pub(crate) const VERDICTS: [Verdict; 5] =
    [Verdict::Undecided, Verdict::Less, Verdict::More, Verdict::Same, Verdict::Moved];
