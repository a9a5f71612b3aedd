//! The cost of each function: self, and total with everything it calls.

use std::cmp::Reverse;

use whyslow_profile::Profile;

use crate::labels::{self, Label, Labels};
use crate::ratios::Ratios;
use crate::selection::{Selection, Weights};
use crate::units::share;
use crate::walk::{Step, walk};

/// The order of a [`FunctionTable`].
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum SortBy {
    /// Self cost.
    #[default]
    SelfValue,
    /// Total cost, with everything it calls.
    Total,
}

/// The cost of one function, or of the code without symbols in one module.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FunctionRow {
    /// The function.
    pub label: Label,
    /// Value of the samples whose innermost frame it is.
    pub self_value: u64,
    /// Value of the samples with it anywhere on their stack, each counted once.
    pub total_value: u64,
    /// How many samples `self_value` is made of.
    pub self_samples: u64,
    /// How many samples `total_value` is made of.
    pub total_samples: u64,
}

/// The cost of a group of functions: self, and total with everything it calls.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) struct Cost {
    pub(crate) self_value: u64,
    pub(crate) total_value: u64,
    pub(crate) self_samples: u64,
    pub(crate) total_samples: u64,
}

impl Cost {
    /// Adds up per group. `group_of` maps a label number to its group, below `groups`. A sample counts once
    /// for a group, however many of its functions are on the stack.
    pub(crate) fn of_groups(
        profile: &Profile,
        weights: &Weights,
        labels: &Labels,
        inline: bool,
        groups: usize,
        group_of: impl Fn(u32) -> u32,
    ) -> Vec<Self> {
        let mut costs = vec![Self::default(); groups];
        let mut open = vec![0u32; groups];
        let (total_value, total_count) = weights.with_callees(profile);
        // The groups on the current stack from the outside in, and how many frames on it each has.
        let mut path: Vec<u32> = Vec::new();
        let mut frames: Vec<usize> = Vec::new();
        walk(profile, &total_count, |stack, step| match step {
            Step::Enter => {
                let outside = path.len();
                let (value, count) = (total_value[stack.index()], total_count[stack.index()]);
                labels.outermost_first(profile, profile.stacks.location(stack), inline, |code, _| {
                    let group = group_of(code);
                    // If the group is already on the stack, it already has these samples.
                    if open[group as usize] == 0 {
                        let cost = &mut costs[group as usize];
                        cost.total_value = cost.total_value.saturating_add(value);
                        cost.total_samples += count;
                    }
                    open[group as usize] += 1;
                    path.push(group);
                });
                frames.push(path.len() - outside);
                if let Some(&innermost) = path.last() {
                    let cost = &mut costs[innermost as usize];
                    cost.self_value = cost.self_value.saturating_add(weights.value[stack.index()]);
                    cost.self_samples += weights.count[stack.index()];
                }
            }
            Step::Leave => {
                let outside = path.len() - frames.pop().unwrap_or(0);
                path.drain(outside..).for_each(|group| open[group as usize] -= 1);
            }
        });
        costs
    }
}

/// The cost of every function.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionTable {
    /// One row per function.
    pub rows: Vec<FunctionRow>,
    /// Value of all selected samples.
    pub total_value: u64,
    /// How many samples were selected.
    pub total_samples: u64,
    /// Ratios of counters, if they were added.
    pub ratios: Ratios,
}

impl FunctionTable {
    /// Adds up the selected samples per function. Without `inline`, inlined functions are part of the
    /// function they were inlined into.
    pub fn build(profile: &Profile, selection: &Selection, inline: bool, sort: SortBy) -> Self {
        Self::from_weights(profile, &selection.weigh(profile), inline, sort)
    }

    /// The same for stacks whose weights are known already.
    pub fn from_weights(profile: &Profile, weights: &Weights, inline: bool, sort: SortBy) -> Self {
        let labels = Labels::new(profile);
        let costs = Cost::of_groups(profile, weights, &labels, inline, labels.len(), |code| code);
        let rows = (0u32..).zip(costs).filter(|(_, cost)| cost.total_samples > 0);
        let mut rows = rows
            .map(|(code, cost)| FunctionRow {
                label: labels.label(code),
                self_value: cost.self_value,
                total_value: cost.total_value,
                self_samples: cost.self_samples,
                total_samples: cost.total_samples,
            })
            .collect::<Vec<_>>();
        // Its rows are not samples.
        if let Some(row) = rows.iter_mut().find(|row| labels::is_not_sampled(profile, row.label)) {
            (row.self_samples, row.total_samples) = (0, 0);
        }
        let key = |row: &FunctionRow| match sort {
            SortBy::SelfValue => (Reverse(row.self_value), Reverse(row.total_value)),
            SortBy::Total => (Reverse(row.total_value), Reverse(row.self_value)),
        };
        let name = |row: &FunctionRow| labels::name(profile, row.label);
        rows.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| name(a).cmp(&name(b))));
        let (total_value, total_samples) = (weights.total_value, weights.total_count);
        Self { rows, total_value, total_samples, ratios: Ratios::default() }
    }

    /// The self share of this function.
    pub fn self_share(&self, row: &FunctionRow) -> Share {
        Share::new(row.self_value, self.total_value, self.total_samples)
    }

    /// The share of samples with this function on their stack.
    pub fn total_share(&self, row: &FunctionRow) -> Share {
        Share::new(row.total_value, self.total_value, self.total_samples)
    }
}

/// A share estimated by sampling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// The share, from 0 to 1.
    pub value: f64,
    /// Its standard error: `sqrt(p (1 - p) / n)` for a share `p` out of `n` samples.
    pub error: f64,
}

impl Share {
    /// `part` of `whole`, from `samples` samples.
    pub fn new(part: u64, whole: u64, samples: u64) -> Self {
        let value = share(part, whole);
        let variance = (value * (1.0 - value)).max(0.0);
        Self { value, error: if samples == 0 { 0.0 } else { (variance / samples as f64).sqrt() } }
    }

    /// Half the width of its 95 % confidence interval.
    pub fn margin_95(self) -> f64 {
        1.96 * self.error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, SAMPLE_NS};

    /// Rows as `name self/total`, in samples; values are checked to agree.
    fn rows(folded: &str, inline: bool, sort: SortBy) -> Vec<String> {
        let profile = testing::profile(folded);
        let table = FunctionTable::build(&profile, &Selection::default(), inline, sort);
        let shown = table.rows.iter().map(|row| {
            assert_eq!(row.self_value, row.self_samples * SAMPLE_NS);
            assert_eq!(row.total_value, row.total_samples * SAMPLE_NS);
            format!("{} {}/{}", labels::name(&profile, row.label), row.self_samples, row.total_samples)
        });
        shown.collect()
    }

    #[test]
    fn each_function_has_self_and_total_time() {
        assert_eq!(
            rows("main;a;b 10\nmain;a 5\nmain;c;b 20\nmain 1", true, SortBy::SelfValue),
            ["b 30/30", "a 5/15", "main 1/36", "c 0/20"]
        );
        assert_eq!(
            rows("main;a;b 10\nmain;a 5\nmain;c;b 20\nmain 1", true, SortBy::Total),
            ["main 1/36", "b 30/30", "c 0/20", "a 5/15"]
        );
    }

    #[test]
    fn recursion_counts_a_sample_once() {
        assert_eq!(
            rows("main;f;f;f 7\nmain;f;g;f 2\nmain;f;+f;h 1", true, SortBy::SelfValue),
            ["f 9/10", "h 1/1", "main 0/10", "g 0/2"]
        );
    }

    #[test]
    fn without_inlining_the_owner_takes_all() {
        assert_eq!(rows("main;+a;+b 3\nmain;+a;c 1", false, SortBy::SelfValue), ["main 3/4", "c 1/1"]);
    }

    #[test]
    fn unnamed_code_and_truncated_stacks_are_rows() {
        assert_eq!(
            rows("[truncated];f 3\nmain;[libz.so] 2\n[unknown] 1", true, SortBy::SelfValue),
            ["f 3/3", "[libz.so] 2/2", "[unknown] 1/1", "[truncated stack] 0/3", "main 0/2"]
        );
    }

    #[test]
    fn instances_of_a_generic_function_are_one_row() {
        let mut profile = testing::profile("main;f 1\nmain;g 2");
        let [f, g] = ["f", "g"].map(|name| {
            profile.functions.iter().position(|function| profile.text(function.name) == name).unwrap()
        });
        profile.functions[g].name = profile.functions[f].name;
        let table = FunctionTable::build(&profile, &Selection::default(), true, SortBy::SelfValue);
        assert_eq!(table.rows.len(), 2);
        assert_eq!(table.rows[0].self_samples, 3);
    }

    #[test]
    fn shares_have_an_error() {
        let share = Share::new(20, 100, 400);
        assert_eq!(share.value, 0.2);
        assert!((share.error - 0.02).abs() < 1e-12);
        assert!((share.margin_95() - 0.0392).abs() < 1e-12);
        assert_eq!(Share::new(0, 0, 0), Share { value: 0.0, error: 0.0 });
    }
}
