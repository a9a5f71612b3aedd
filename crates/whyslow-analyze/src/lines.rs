//! The cost of each line of a function.

use rustc_hash::FxHashMap;
use whyslow_profile::{Profile, StringId};

use crate::find::{FindError, Found, find};
use crate::functions::{FunctionTable, SortBy};
use crate::labels::{Label, Labels};
use crate::selection::Selection;
use crate::walk::{Step, walk};

/// The cost of one line of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineRow {
    /// The file of the line; macros can bring in other files than the function's own.
    pub file: Option<StringId>,
    /// The line; 0 if unknown.
    pub line: u32,
    /// Value of the samples at this line of the function itself.
    pub self_value: u64,
    /// Value of the samples at this line or in code that it called or inlined, each counted once.
    pub total_value: u64,
    /// How many samples `self_value` is made of.
    pub self_samples: u64,
    /// How many samples `total_value` is made of.
    pub total_samples: u64,
    /// The source text, when the profile has it.
    pub text: Option<StringId>,
}

/// The cost of the lines of a function.
#[derive(Debug, Clone, PartialEq)]
pub struct Lines {
    /// The function; several when functions of different files share the name.
    pub labels: Vec<Label>,
    /// The names of other functions that the query fits as well.
    pub others: Vec<String>,
    /// Lines with samples, in order of file and line; the function's own file first.
    pub rows: Vec<LineRow>,
    /// The row with the largest total, among equals the one with the largest self value.
    pub hottest: Option<usize>,
    /// Value of the samples whose innermost frame is the function.
    pub self_value: u64,
    /// Value of the samples with the function on their stack.
    pub total_value: u64,
    /// Value of all selected samples.
    pub whole_value: u64,
    /// How many samples were selected.
    pub whole_samples: u64,
}

impl Lines {
    /// Finds a function and adds up the selected samples per line.
    ///
    /// Inlined code counts at the line where it was written, in its own function. The function it was inlined
    /// into has it in the total of the line with the call.
    pub fn build(profile: &Profile, selection: &Selection, query: &str) -> Result<Self, FindError> {
        let weights = selection.weigh(profile);
        let table = FunctionTable::from_weights(profile, &weights, true, SortBy::Total);
        let Found { labels: found, others } = find(profile, &table, query)?;
        let labels = Labels::new(profile);
        let mut wanted = vec![false; labels.len()];
        for &label in &found {
            wanted[labels.code(label) as usize] = true;
        }

        let mut row_of = FxHashMap::default();
        let mut rows: Vec<LineRow> = Vec::new();
        let mut open: Vec<u32> = Vec::new();
        let (total_value, total_count) = weights.with_callees(profile);
        walk(profile, &total_count, |stack, step| {
            let frames = profile.frames.of(profile.stacks.location(stack));
            for (depth, frame) in frames.iter().enumerate() {
                if !wanted[labels.code(Label::Function(frame.function)) as usize] {
                    continue;
                }
                let row = *row_of.entry((frame.file, frame.line)).or_insert_with(|| {
                    let text = frame.file.and_then(|file| profile.sources.get(file, frame.line));
                    rows.push(LineRow {
                        file: frame.file,
                        line: frame.line,
                        self_value: 0,
                        total_value: 0,
                        self_samples: 0,
                        total_samples: 0,
                        text,
                    });
                    open.push(0);
                    rows.len() - 1
                });
                if matches!(step, Step::Leave) {
                    open[row] -= 1;
                    continue;
                }
                let line = &mut rows[row];
                if open[row] == 0 {
                    line.total_value = line.total_value.saturating_add(total_value[stack.index()]);
                    line.total_samples += total_count[stack.index()];
                }
                open[row] += 1;
                if depth + 1 == frames.len() {
                    line.self_value = line.self_value.saturating_add(weights.value[stack.index()]);
                    line.self_samples += weights.count[stack.index()];
                }
            }
        });

        let own_file = found.iter().find_map(|label| match label {
            Label::Function(id) => profile.functions[id.index()].file,
            _ => None,
        });
        rows.sort_by_key(|row| (row.file != own_file, row.file.map(|file| profile.text(file)), row.line));
        let most = |(_, row): &(usize, &LineRow)| (row.total_value, row.self_value);
        let hottest = rows.iter().enumerate().rev().max_by_key(most).map(|(index, _)| index);
        let function = table.rows.iter().filter(|row| found.contains(&row.label));
        let (mut self_value, mut function_value) = (0u64, 0u64);
        for row in function {
            self_value = self_value.saturating_add(row.self_value);
            function_value = function_value.saturating_add(row.total_value);
        }
        Ok(Self {
            labels: found,
            others,
            rows,
            hottest,
            self_value,
            total_value: function_value.min(weights.total_value),
            whole_value: weights.total_value,
            whole_samples: weights.total_count,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, SAMPLE_NS};

    fn rows(profile: &Profile, lines: &Lines) -> Vec<String> {
        let shown = lines.rows.iter().map(|row| {
            let file = row.file.map_or("?", |file| profile.text(file));
            let (own, total) = (row.self_value / SAMPLE_NS, row.total_value / SAMPLE_NS);
            assert_eq!((own, total), (row.self_samples, row.total_samples));
            let text = row.text.map_or("", |text| profile.text(text));
            format!("{file}:{} {own}/{total} {text}", row.line)
        });
        shown.collect()
    }

    #[test]
    fn lines_have_self_and_total_time() {
        let mut profile = testing::profile(
            "main@a.rs:2;f@b.rs:5 3
             main@a.rs:2;f@b.rs:6;g@c.rs:1 4
             main@a.rs:2;f@b.rs:6;+h@c.rs:9 2
             main@a.rs:2;f@b.rs:6;+h@c.rs:9;g@c.rs:1 1",
        );
        testing::add_source(&mut profile, "b.rs", "1\n2\n3\n4\nlet x = 1;\ng() + h()");
        let lines = Lines::build(&profile, &Selection::default(), "f").unwrap();
        assert_eq!(rows(&profile, &lines), ["b.rs:5 3/3 let x = 1;", "b.rs:6 0/7 g() + h()"]);
        assert_eq!(lines.hottest, Some(1));
        assert_eq!((lines.self_value, lines.total_value), (3 * SAMPLE_NS, 10 * SAMPLE_NS));

        let lines = Lines::build(&profile, &Selection::default(), "h").unwrap();
        assert_eq!(rows(&profile, &lines), ["c.rs:9 2/3 "]);
    }

    #[test]
    fn recursion_counts_a_sample_once_per_line() {
        let profile = testing::profile("main;f@a.rs:3;f@a.rs:3;f@a.rs:7 5\nmain;f@a.rs:3 1");
        let lines = Lines::build(&profile, &Selection::default(), "f").unwrap();
        assert_eq!(rows(&profile, &lines), ["a.rs:3 1/6 ", "a.rs:7 5/5 "]);
        assert_eq!(lines.total_value, 6 * SAMPLE_NS);
    }

    #[test]
    fn unnamed_code_has_no_lines() {
        let profile = testing::profile("main;[libz.so] 5");
        let lines = Lines::build(&profile, &Selection::default(), "[libz.so]").unwrap();
        assert_eq!(lines.rows, []);
        assert_eq!(lines.hottest, None);
    }
}
