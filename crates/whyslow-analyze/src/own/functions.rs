//! Own time of functions: each function of your code with everything it calls that is not your code.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use whyslow_profile::{CodeKind, Profile, StackId, StringId};

use super::{Charges, Nearness, StackFrame};
use crate::functions::Share;
use crate::labels::{self, Label, Labels};
use crate::ratios::Ratios;
use crate::selection::Weights;

/// Among the callees of a function, the innermost is named that has at least this share of the largest.
const NEARLY: f64 = 0.8;

/// The own time of one function: with all callees that are charged to it.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnRow {
    /// The function.
    pub label: Label,
    /// How near it is to your code.
    pub nearness: Nearness,
    /// Value of the samples charged to it.
    pub own_value: u64,
    /// How many samples `own_value` is made of.
    pub own_samples: u64,
    /// Value of the samples whose innermost frame it is.
    pub self_value: u64,
    /// How many samples `self_value` is made of.
    pub self_samples: u64,
    /// Its line with the most of `own_value`.
    pub line: Option<OwnLine>,
    /// The callee with most of the rest.
    pub beneath: Option<Beneath>,
}

/// A line and its charged value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnLine {
    /// The file.
    pub file: StringId,
    /// The line.
    pub line: u32,
    /// Value of the samples charged to it.
    pub value: u64,
}

/// A function below another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beneath {
    /// The function.
    pub label: Label,
    /// Value of the samples that have it below the other one.
    pub value: u64,
}

/// The own time of every function.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnTable {
    /// One row per function, largest first.
    pub rows: Vec<OwnRow>,
    /// Value of all selected samples.
    pub total_value: u64,
    /// How many samples were selected.
    pub total_samples: u64,
    /// Ratios of counters, if they were added.
    pub ratios: Ratios,
}

impl OwnTable {
    /// Adds up the selected samples per function that they are charged to.
    pub fn build(profile: &Profile, weights: &Weights, charges: &Charges) -> Self {
        let labels = Labels::new(profile);
        let mut sums: FxHashMap<u32, Sums> = FxHashMap::default();
        // The last stack that contained each function: recursion counts once.
        let mut met = vec![u32::MAX; labels.len()];
        for (stack, &value) in (0u32..).zip(&weights.value) {
            let samples = weights.count[stack as usize];
            if samples == 0 {
                continue;
            }
            let charge = charges.of(StackId(stack));
            let sums =
                sums.entry(labels.code(charge.frame.label)).or_insert_with(|| Sums::new(charge.nearness));
            add(&mut sums.own, value, samples);
            if let (Some(file), true) = (charge.frame.file, charge.frame.line > 0) {
                let line = sums.lines.entry((file, charge.frame.line)).or_default();
                *line = line.saturating_add(value);
            }
            let frames = charges.beneath(profile, StackId(stack)).collect::<Vec<_>>();
            if frames.is_empty() {
                add(&mut sums.itself, value, samples);
            }
            for (distance, frame) in (1u32..).zip(speaking(profile, charges, &frames)) {
                let code = labels.code(frame.label);
                if std::mem::replace(&mut met[code as usize], stack) != stack {
                    let (sum, distances) = sums.beneath.entry(code).or_default();
                    *sum = sum.saturating_add(value);
                    *distances += f64::from(distance) * value as f64;
                }
            }
        }
        let mut rows = sums.into_iter().map(|(code, sums)| sums.row(&labels, code)).collect::<Vec<_>>();
        let name = |row: &OwnRow| labels::name(profile, row.label);
        rows.sort_by(|a, b| {
            let key = |row: &OwnRow| (Reverse(row.own_value), Reverse(row.self_value), row.nearness);
            key(a).cmp(&key(b)).then_with(|| name(a).cmp(&name(b)))
        });
        Self {
            rows,
            total_value: weights.total_value,
            total_samples: weights.total_count,
            ratios: Ratios::default(),
        }
    }

    /// The share of all selected samples charged to this function.
    pub fn own_share(&self, row: &OwnRow) -> Share {
        Share::new(row.own_value, self.total_value, self.total_samples)
    }
}

/// The informative frames below a function, outermost first. Internals of the kernel, the allocator and
/// wrappers are left out; the kernel and wrappers themselves appear only if no code of the program called
/// them.
fn speaking<'a>(
    profile: &Profile,
    charges: &Charges,
    innermost_first: &'a [StackFrame],
) -> impl Iterator<Item = &'a StackFrame> {
    let ends = |frame: &StackFrame| match labels::kind(profile, frame.label) {
        kind @ (CodeKind::Kernel | CodeKind::Allocator) => Some(kind == CodeKind::Allocator),
        _ => charges.is_wrapper(frame.label).then_some(false),
    };
    let mut outermost_first = innermost_first.iter().rev().map(ends).enumerate();
    let inside = outermost_first.find_map(|(at, is_named)| Some((at, is_named?)));
    let kept = match inside {
        Some((first, is_named)) => first + usize::from(is_named || first == 0),
        None => innermost_first.len(),
    };
    innermost_first.iter().rev().take(kept)
}

fn add(sum: &mut (u64, u64), value: u64, samples: u64) {
    *sum = (sum.0.saturating_add(value), sum.1 + samples);
}

/// The sums over one function's stacks.
struct Sums {
    nearness: Nearness,
    own: (u64, u64),
    itself: (u64, u64),
    lines: FxHashMap<(StringId, u32), u64>,
    /// By label: the value, and the value times the distance from the function.
    beneath: FxHashMap<u32, (u64, f64)>,
}

impl Sums {
    fn new(nearness: Nearness) -> Self {
        Self {
            nearness,
            own: (0, 0),
            itself: (0, 0),
            lines: FxHashMap::default(),
            beneath: FxHashMap::default(),
        }
    }

    fn row(self, labels: &Labels, code: u32) -> OwnRow {
        // File and line break ties, so the answer is always the same.
        let line = self.lines.iter().max_by_key(|&(&place, &value)| (value, Reverse(place)));
        let most = self.beneath.values().map(|(value, _)| *value).max().unwrap_or(0);
        let enough = |value: u64| value as f64 >= most as f64 * NEARLY;
        let candidates = self.beneath.iter().filter(|(_, (value, _))| enough(*value));
        let beneath = candidates.max_by(|(a_code, a), (b_code, b)| {
            let distance = |(value, distances): &(u64, f64)| distances / (*value).max(1) as f64;
            distance(a).total_cmp(&distance(b)).then(a.0.cmp(&b.0)).then(b_code.cmp(a_code))
        });
        OwnRow {
            label: labels.label(code),
            nearness: self.nearness,
            own_value: self.own.0,
            own_samples: self.own.1,
            self_value: self.itself.0,
            self_samples: self.itself.1,
            line: line.map(|(&(file, line), &value)| OwnLine { file, line, value }),
            beneath: beneath.map(|(&code, &(value, _))| Beneath { label: labels.label(code), value }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::Selection;
    use crate::testing::{self, SAMPLE_NS};

    /// Rows as `name own/self line beneath`, in samples.
    fn rows(folded: &str) -> Vec<String> {
        let profile = testing::profile(folded);
        let weights = Selection::default().weigh(&profile);
        let table = OwnTable::build(&profile, &weights, &Charges::new(&profile, true));
        let name = |label| labels::name(&profile, label);
        let shown = table.rows.iter().map(|row| {
            assert_eq!(
                (row.own_value, row.self_value),
                (row.own_samples * SAMPLE_NS, row.self_samples * SAMPLE_NS)
            );
            let mut text = format!("{} {}/{}", name(row.label), row.own_samples, row.self_samples);
            if let Some(OwnLine { file, line, value }) = row.line {
                text += &format!(" {}:{line} {}", profile.text(file), value / SAMPLE_NS);
            }
            if let Some(Beneath { label, value }) = row.beneath {
                text += &format!(" in {} {}", name(label), value / SAMPLE_NS);
            }
            text
        });
        shown.collect()
    }

    #[test]
    fn your_function_includes_the_library_code_it_calls() {
        assert_eq!(
            rows(
                "_start;app::main@m.rs:2;app::find@m.rs:7;dep::find;dep::scan 50
                 _start;app::main@m.rs:2;app::find@m.rs:7;dep::find;dep::scan;std::copy 10
                 _start;app::main@m.rs:2;app::find@m.rs:8;+std::next 20
                 _start;app::main@m.rs:2;app::find@m.rs:9 15
                 _start;app::main@m.rs:3;std::print;sys_write 5"
            ),
            ["app::find 95/15 m.rs:7 60 in dep::scan 60", "app::main 5/0 m.rs:3 5 in std::print 5"]
        );
    }

    #[test]
    fn the_sum_over_all_rows_is_everything() {
        let folded = "app::a;dep::x 3\ndep::y;std::z 4\n[unknown] 5\nmain;app::a;app::b;malloc 6\nsys_x 7";
        let profile = testing::profile(folded);
        let weights = Selection::default().weigh(&profile);
        let table = OwnTable::build(&profile, &weights, &Charges::new(&profile, true));
        assert_eq!(table.rows.iter().map(|row| row.own_samples).sum::<u64>(), 25);
        assert_eq!(table.total_samples, 25);
    }

    #[test]
    fn kernel_and_allocator_internals_are_not_named() {
        assert_eq!(rows("app::f;std::read;sys_entry;sys_read 4"), ["app::f 4/0 in std::read 4"]);
        assert_eq!(rows("app::f;sys_fault;sys_page 4"), ["app::f 4/0 in sys_fault 4"]);
        assert_eq!(rows("app::f;std::push;malloc;sys_brk 4"), ["app::f 4/0 in malloc 4"]);
    }

    #[test]
    fn names_functions_that_allocate_through_a_wrapper() {
        let profile =
            testing::heap_profile("app::f;dep::read;xmalloc;malloc : allocations=1 bytes_allocated=4");
        let charges = Charges::of_metric(&profile, true, profile.main_metric());
        let table = OwnTable::build(&profile, &Selection::default().weigh(&profile), &charges);
        let beneath = table.rows[0].beneath.unwrap();
        assert_eq!(labels::name(&profile, beneath.label), "dep::read");
    }

    #[test]
    fn recursive_callee_counts_once() {
        assert_eq!(rows("app::f;dep::r;dep::r;dep::r 4\napp::f;dep::s 5"), ["app::f 9/0 in dep::s 5"]);
    }
}
