//! Verifies a change: whether it did what it was meant to, and what is hot now.

use super::{Change, Diff, DiffRow, Total};

/// How many functions or lines each list names.
const NAMED: usize = 3;

/// The result of a comparison for a deliberate change.
#[derive(Debug, Clone, PartialEq)]
pub struct Verification {
    /// The whole.
    pub whole: Total,
    /// Rows with the verdict less, largest first.
    pub better: Vec<DiffRow>,
    /// Rows with the verdict more, largest first.
    pub worse: Vec<DiffRow>,
    /// The rows with the largest self value now.
    pub hottest: Vec<Hot>,
    /// The same for your functions, each with the library code that works for it.
    pub yours: Yours,
}

/// What changed in your functions.
#[derive(Debug, Clone, PartialEq)]
pub struct Yours {
    /// Rows with the verdict less, largest first.
    pub better: Vec<DiffRow>,
    /// Rows with the verdict more, largest first.
    pub worse: Vec<DiffRow>,
    /// The rows with the largest value now.
    pub hottest: Vec<Hot>,
}

/// A row that is hot after the change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hot {
    /// The row.
    pub row: DiffRow,
    /// Its share of the whole.
    pub share: f64,
}

impl Hot {
    /// By which factor the whole could shrink if this row took no time: 1 / (1 - share), Amdahl's bound.
    /// `None` if the row is everything.
    pub fn at_most(&self) -> Option<f64> {
        (self.share < 1.0).then(|| 1.0 / (1.0 - self.share))
    }
}

impl Verification {
    /// Verifies an unfiltered comparison; `None` if it has no total of its metric.
    pub fn of(diff: &Diff) -> Option<Self> {
        let whole = diff.totals.iter().find(|total| total.what == diff.metric)?.clone();
        type Value = fn(&DiffRow) -> &Change;
        type Wanted = fn(&Change) -> bool;
        let (own, yours): (Value, Value) = (|row| &row.own, DiffRow::yours);
        let called = |value: Value, wanted: Wanted| {
            let is_called = |row: &&DiffRow| value(row).proven().is_claim() && wanted(value(row));
            let mut rows = diff.rows.iter().filter(is_called).copied().collect::<Vec<_>>();
            rows.sort_by_key(|row| std::cmp::Reverse(value(row).difference().unsigned_abs()));
            rows
        };
        let hottest = |value: Value| {
            let mut rows = diff.rows.clone();
            rows.sort_by_key(|row| std::cmp::Reverse(value(row).after));
            let hot = |row: DiffRow| Hot {
                row,
                share: value(&row).after as f64 / whole.change.after.max(1) as f64,
            };
            rows.into_iter().filter(|row| value(row).after > 0).take(NAMED).map(hot).collect::<Vec<_>>()
        };
        let (less, more): (Wanted, Wanted) =
            (|change| change.difference() < 0, |change| change.difference() > 0);
        Some(Self {
            hottest: hottest(own),
            better: called(own, less),
            worse: called(own, more),
            yours: Yours { hottest: hottest(yours), better: called(yours, less), worse: called(yours, more) },
            whole,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::{Runs, Side};
    use crate::labels;
    use crate::selection::Selection;
    use crate::testing;

    #[test]
    fn names_what_got_better_and_worse_and_what_is_hot() {
        let before = testing::profile("main;parse 600\nmain;hash 300\nmain;sort 100");
        let after = testing::profile("main;parse 200\nmain;hash 300\nmain;sort 300");
        let selection = Selection::default();
        let side = |profile| Side { profile, selection: &selection };
        let once = Verification::of(&Diff::build(side(&before), side(&after), true)).unwrap();
        assert!(once.better.is_empty() && once.worse.is_empty(), "one run of each side proves nothing");
        let [before_runs, after_runs] = [&before, &after].map(|profile| Runs::new(vec![side(profile); 5]));
        let diff = Diff::of_runs(&before_runs, &after_runs, true);
        let verification = Verification::of(&diff).unwrap();
        let names = |rows: &[DiffRow]| {
            rows.iter()
                .map(|row| labels::name(&after, row.after.unwrap().label).into_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (names(&verification.better), names(&verification.worse)),
            (vec!["parse".to_owned()], vec!["sort".to_owned()])
        );
        let shares = verification.hottest.iter().map(|hot| hot.share).collect::<Vec<_>>();
        assert_eq!(shares, [0.375, 0.375, 0.25]);
        assert_eq!(verification.hottest[2].at_most(), Some(1.0 / 0.75));
        assert_eq!(verification.whole.what, "cpu-time");
    }

    /// A regular expression that is compiled once instead of in a loop: its library's functions are many and small.
    #[test]
    fn library_code_is_charged_to_your_function() {
        let compile =
            (0..40).map(|at| format!("app::main;app::scan;dep::new;dep::f{at};core::intrinsics::likely 4\n"));
        let before =
            testing::profile(&format!("{}app::main;app::scan;dep::find 300", compile.collect::<String>()));
        let after = testing::profile("app::main;app::scan;dep::find 300");
        let selection = Selection::default();
        let side = |profile| Side { profile, selection: &selection };
        let [before, after] = [&before, &after].map(|profile| Runs::new(vec![side(profile); 5]));
        let verification = Verification::of(&Diff::of_runs(&before, &after, true)).unwrap();
        let names = |rows: &[DiffRow]| {
            let name = |row: &DiffRow| labels::name(&before.profile, row.before.unwrap().label).into_owned();
            rows.iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(
            names(&verification.better),
            ["core::intrinsics::likely"],
            "that says nothing of the change"
        );
        assert_eq!(names(&verification.yours.better), ["app::scan"]);
        let change = verification.yours.better[0].yours();
        assert_eq!([change.before, change.after].map(|value| value / testing::SAMPLE_NS), [460, 300]);
        assert_eq!(verification.yours.hottest.len(), 1);
    }
}
