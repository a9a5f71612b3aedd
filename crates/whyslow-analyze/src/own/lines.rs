//! The hottest lines of all functions.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use whyslow_profile::{Profile, StackId, StringId};

use super::{Charges, StackFrame};
use crate::labels::{self, Label, Labels};
use crate::selection::Weights;

/// What is charged to functions and lines.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Own time: with everything they call that is not your code.
    #[default]
    Own,
    /// Self time only.
    SelfValue,
}

/// The cost of one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HotLine {
    /// The function.
    pub label: Label,
    /// The file.
    pub file: Option<StringId>,
    /// The line; 0 if unknown.
    pub line: u32,
    /// Value of the samples charged to the line.
    pub own_value: u64,
    /// How many samples `own_value` is made of.
    pub own_samples: u64,
    /// Value of the samples whose innermost frame is at the line.
    pub self_value: u64,
    /// How many samples `self_value` is made of.
    pub self_samples: u64,
    /// The source text, when the profile has it.
    pub text: Option<StringId>,
}

/// The cost of the lines of all functions.
#[derive(Debug, Clone, PartialEq)]
pub struct HotLines {
    /// The sort order.
    pub by: By,
    /// The lines with a value, largest first.
    pub rows: Vec<HotLine>,
    /// Value of all selected samples.
    pub total_value: u64,
    /// How many samples were selected.
    pub total_samples: u64,
}

impl HotLine {
    fn key(&self, by: By) -> (u64, u64) {
        match by {
            By::Own => (self.own_value, self.self_value),
            By::SelfValue => (self.self_value, self.own_value),
        }
    }
}

impl HotLines {
    /// Adds up the selected samples per line.
    pub fn build(profile: &Profile, weights: &Weights, charges: &Charges, by: By) -> Self {
        let labels = Labels::new(profile);
        let mut row_of = FxHashMap::default();
        let mut rows: Vec<HotLine> = Vec::new();
        let mut row = |frame: &StackFrame| {
            // Functions that look the same to a reader share one label.
            let code = labels.code(frame.label);
            let at = *row_of.entry((code, frame.file, frame.line)).or_insert(rows.len());
            if at == rows.len() {
                rows.push(HotLine {
                    label: labels.label(code),
                    file: frame.file,
                    line: frame.line,
                    own_value: 0,
                    own_samples: 0,
                    self_value: 0,
                    self_samples: 0,
                    text: frame.file.and_then(|file| profile.sources.get(file, frame.line)),
                });
            }
            at
        };
        let mut charged = Vec::new();
        for stack in (0..weights.count.len()).filter(|&stack| weights.count[stack] > 0) {
            let id = StackId::from(stack);
            let own = row(&charges.of(id).frame);
            let innermost = row(&charges.innermost(profile, id));
            charged.push((stack, own, innermost));
        }
        for (stack, own, innermost) in charged {
            let (value, samples) = (weights.value[stack], weights.count[stack]);
            rows[own].own_value = rows[own].own_value.saturating_add(value);
            rows[own].own_samples += samples;
            rows[innermost].self_value = rows[innermost].self_value.saturating_add(value);
            rows[innermost].self_samples += samples;
        }
        rows.retain(|row| row.key(by).0 > 0);
        let name = |row: &HotLine| labels::name(profile, row.label);
        rows.sort_by(|a, b| {
            let place = |row: &HotLine| (Reverse(row.key(by)), row.file, row.line);
            place(a).cmp(&place(b)).then_with(|| name(a).cmp(&name(b)))
        });
        Self { by, rows, total_value: weights.total_value, total_samples: weights.total_count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::Selection;
    use crate::testing;

    #[test]
    fn lines_of_all_functions_by_own_and_by_self() {
        let mut profile = testing::profile(
            "app::main@m.rs:2;app::find@m.rs:7;dep::scan@d.rs:4 50
             app::main@m.rs:2;app::find@m.rs:9 15
             app::main@m.rs:3;dep::scan@d.rs:4 5
             app::main@m.rs:3 1",
        );
        testing::add_source(&mut profile, "m.rs", "1\n2\n3\n4\n5\n6\nscan(x);");
        let weights = Selection::default().weigh(&profile);
        let charges = Charges::new(&profile, true);
        let rows = |by| {
            let lines = HotLines::build(&profile, &weights, &charges, by);
            let shown = lines.rows.iter().map(|row| {
                let file = row.file.map_or("?", |file| profile.text(file));
                let text = row.text.map_or("", |text| profile.text(text));
                format!("{file}:{} {}/{} {text}", row.line, row.own_samples, row.self_samples)
            });
            shown.collect::<Vec<_>>()
        };
        assert_eq!(rows(By::Own), ["m.rs:7 50/0 scan(x);", "m.rs:9 15/15 ", "m.rs:3 6/1 3"]);
        assert_eq!(rows(By::SelfValue), ["d.rs:4 0/55 ", "m.rs:9 15/15 ", "m.rs:3 6/1 3"]);
    }
}
