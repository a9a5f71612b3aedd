//! Judges differences when each side has several runs.
//!
//! Run i of one side is paired with run i of the other.
//!
//! ```text
//! sampled    sample counts per run (value / grain) → moderated statistics, q over all rows (`whyslow_stats::functions`)
//! counted    d = ln((B + 1/2) / (A + 1/2)) per pair; Student's t on k - 1, q over all rows that differ from run to run
//! the whole  d = ln(B / A) per pair; Student's t on k - 1
//! ```

use whyslow_stats::chance::{student_quantile, student_two_sided};
use whyslow_stats::functions::{compare, false_claims, is_kept};
use whyslow_stats::{margin_of_mean, mean, variance};

use super::statistics::{Change, Estimate, FALSE_CLAIMS, Verdict, direction};

/// The change of a sampled row is reported from this share of the whole on.
const MIN_SHARE: f64 = 0.005;

/// The ratio of after to before, from several runs of each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// The estimate.
    pub estimate: f64,
    /// The lower end of its 95 % confidence interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The probability of such a difference without a change.
    pub p: f64,
    /// The share of wrong claims if every row with this q or a smaller one is claimed to have changed.
    pub q: f64,
}

/// A number in each run before and after.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Series {
    pub before: Vec<Estimate>,
    pub after: Vec<Estimate>,
}

impl Series {
    fn values(side: &[Estimate]) -> Vec<f64> {
        side.iter().map(|estimate| estimate.value as f64).collect()
    }

    /// What one sample stands for, averaged over the runs that know it. One grain for all keeps sides with
    /// different sampling rates comparable.
    fn grain(&self) -> f64 {
        let grains = self.before.iter().chain(&self.after).map(|estimate| estimate.grain);
        mean(&grains.filter(|grain| *grain > 0.0).collect::<Vec<_>>())
    }

    /// The logarithm of the ratio of each pair, with half a unit added to allow for 0.
    fn log_ratios(&self, half: f64) -> Vec<f64> {
        let pairs = self.before.iter().zip(&self.after);
        pairs
            .map(|(before, after)| ((after.value as f64 + half) / (before.value as f64 + half)).ln())
            .collect()
    }

    /// The change of the means, undecided.
    fn change(&self) -> Change {
        let [before, after] = [Self::values(&self.before), Self::values(&self.after)];
        let differences = before.iter().zip(&after).map(|(before, after)| after - before).collect::<Vec<_>>();
        Change {
            before: mean(&before).round() as u64,
            after: mean(&after).round() as u64,
            margin: margin_of_mean(&differences),
            ratio: None,
            verdict: Verdict::Undecided,
        }
    }
}

/// Judges many rows together; `whole` is the total weight of a run.
pub(super) fn decide(rows: &[Series], whole: f64) -> Vec<Change> {
    let grains = rows.iter().map(Series::grain).collect::<Vec<_>>();
    if grains.iter().all(|grain| *grain == 0.0) {
        return decide_counted(rows);
    }
    let counts = |side: &[Estimate], grain: f64| {
        side.iter().map(|estimate| estimate.value as f64 / grain).collect::<Vec<_>>()
    };
    let counts =
        rows.iter().zip(&grains).map(|(row, &grain)| (counts(&row.before, grain), counts(&row.after, grain)));
    let counts = counts.collect::<Vec<_>>();
    let kept = (0..rows.len()).filter(|&row| grains[row] > 0.0 && is_kept(&counts[row].0, &counts[row].1));
    let kept = kept.collect::<Vec<_>>();
    let judged = compare(&kept.iter().map(|&row| counts[row].clone()).collect::<Vec<_>>());
    let mut changes = rows.iter().map(Series::change).collect::<Vec<_>>();
    for (row, found) in kept.into_iter().zip(judged.into_iter().flat_map(|(rows, _)| rows)) {
        let change = &mut changes[row];
        let ratio = found.change.exp();
        let level = f64::midpoint(change.before as f64, change.after as f64);
        change.margin = Some((found.change.high - found.change.low) / 2.0 * level);
        change.ratio = Some(Ratio {
            estimate: ratio.estimate,
            low: ratio.low,
            high: ratio.high,
            p: found.p,
            q: found.q,
        });
        if found.q <= FALSE_CLAIMS && change.difference().unsigned_abs() as f64 >= MIN_SHARE * whole {
            change.verdict = direction(change.before, change.after);
        }
    }
    changes
}

/// Judges counted rows: those that are equal in all runs of a side are exact, the others vary from run to
/// run.
fn decide_counted(rows: &[Series]) -> Vec<Change> {
    let mut changes = rows.iter().map(|row| paired(row, 0.5)).collect::<Vec<_>>();
    let varies = |change: &Change| change.margin.is_some();
    let chances = changes.iter().filter(|change| varies(change)).filter_map(|change| Some(change.ratio?.p));
    let mut rates = false_claims(&chances.collect::<Vec<_>>()).into_iter();
    for change in changes.iter_mut().filter(|change| varies(change)) {
        if let (Some(ratio), Some(rate)) = (&mut change.ratio, rates.next()) {
            ratio.q = rate;
            change.verdict = if rate <= FALSE_CLAIMS {
                direction(change.before, change.after)
            } else {
                Verdict::Undecided
            };
        }
    }
    changes
}

/// Judges a total on its own.
pub(super) fn whole(before: &[u64], after: &[u64]) -> Change {
    let side = |values: &[u64]| values.iter().copied().map(Estimate::counted).collect();
    paired(&Series { before: side(before), after: side(after) }, 0.0)
}

/// A change of a time that no one can use, however sure it is, is none: below half a percent, the ratio reads ×1.00.
pub(super) fn unless_tiny(change: Change) -> Change {
    let is_near_one = |ratio: f64| ratio.ln().abs() < MIN_SHARE;
    match change.ratio {
        Some(ratio) if change.verdict.is_claim() && is_near_one(ratio.estimate) => {
            let is_equal = is_near_one(ratio.low) && is_near_one(ratio.high);
            Change { verdict: if is_equal { Verdict::Same } else { Verdict::Undecided }, ..change }
        }
        _ => change,
    }
}

/// Student's t over the pairs of one row.
fn paired(row: &Series, half: f64) -> Change {
    let change = row.change();
    let all_same = |side: &[Estimate]| side.windows(2).all(|pair| pair[0].value == pair[1].value);
    let logs = row.log_ratios(half);
    if all_same(&row.before) && all_same(&row.after) {
        let exact = if change.before == change.after { 1.0 } else { 0.0 };
        let estimate = change.after as f64 / change.before as f64;
        let ratio = Ratio { estimate, low: estimate, high: estimate, p: exact, q: exact };
        let ratio = Some(ratio).filter(|ratio| ratio.estimate.is_finite());
        return Change { margin: None, ratio, verdict: direction(change.before, change.after), ..change };
    }
    let Some(spread) = variance(&logs).filter(|spread| spread.is_finite()) else { return change };
    let freedom = logs.len() as f64 - 1.0;
    let (estimate, error) = (mean(&logs), (spread / logs.len() as f64).sqrt());
    let width = student_quantile(0.975, freedom) * error;
    let p =
        if error > 0.0 { student_two_sided(estimate / error, freedom) } else { f64::from(estimate == 0.0) };
    let ratio = Ratio {
        estimate: estimate.exp(),
        low: (estimate - width).exp(),
        high: (estimate + width).exp(),
        p,
        q: p,
    };
    let verdict = if p <= FALSE_CLAIMS { direction(change.before, change.after) } else { Verdict::Undecided };
    Change { ratio: Some(ratio), verdict, ..change }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(values: &[u64]) -> Vec<Estimate> {
        values.iter().map(|value| Estimate { value: value * 10, grain: 10.0 }).collect()
    }

    fn counted(values: &[u64]) -> Vec<Estimate> {
        values.iter().copied().map(Estimate::counted).collect()
    }

    /// The reference data of `whyslow_stats::functions`: the third of six grew by a quarter.
    fn rows() -> Vec<Series> {
        let before = [
            [1000, 1012, 985, 1021],
            [410, 398, 402, 421],
            [205, 190, 214, 199],
            [98, 110, 92, 101],
            [52, 47, 58, 44],
            [31, 25, 36, 29],
        ];
        let after = [
            [1007, 996, 1015, 990],
            [405, 417, 396, 409],
            [251, 240, 262, 247],
            [104, 95, 107, 99],
            [49, 55, 50, 46],
            [28, 33, 27, 35],
        ];
        before.iter().zip(&after).map(|(b, a)| Series { before: sampled(b), after: sampled(a) }).collect()
    }

    #[test]
    fn a_sure_but_tiny_change_of_a_time_is_none() {
        let sure = whole(&[10_000, 10_100, 10_050, 9_990], &[9_995, 10_094, 10_046, 9_986]);
        assert_eq!(sure.verdict, Verdict::Less, "{sure:?}");
        assert_eq!(unless_tiny(sure).verdict, Verdict::Same);
        let large = whole(&[10_000, 10_100, 10_050, 9_990], &[9_000, 9_100, 9_040, 8_990]);
        assert_eq!(unless_tiny(large).verdict, Verdict::Less);
        let exact = whole(&[10_000, 10_000], &[9_999, 9_999]);
        assert_eq!(unless_tiny(exact).verdict, Verdict::Same);
    }

    #[test]
    fn only_the_changed_row_is_reported() {
        let changes = decide(&rows(), 18_000.0);
        let verdicts = changes.iter().map(|change| change.verdict).collect::<Vec<_>>();
        let mut expected = [Verdict::Undecided; 6];
        expected[2] = Verdict::More;
        assert_eq!(verdicts, expected);
        let ratio = changes[2].ratio.unwrap();
        assert!(ratio.low < 1.24 && 1.24 < ratio.high && ratio.low > 1.0, "{ratio:?}");
        assert!((ratio.q - 0.021_581).abs() < 1e-4, "{ratio:?}");
        assert_eq!((changes[2].before, changes[2].after), (2020, 2500));
    }

    #[test]
    fn small_certain_change_is_not_reported() {
        let changes = decide(&rows(), 480.0 / MIN_SHARE + 1000.0);
        assert!(changes.iter().all(|change| change.verdict == Verdict::Undecided));
        assert!(changes[2].ratio.unwrap().q <= FALSE_CLAIMS);
    }

    #[test]
    fn rows_with_few_samples_have_no_ratio() {
        let few = Series { before: sampled(&[3, 2, 4, 3]), after: sampled(&[9, 9, 9, 9]) };
        let rows = [rows(), vec![few]].concat();
        let changes = decide(&rows, 18_000.0);
        assert_eq!((changes[6].ratio, changes[6].verdict), (None, Verdict::Undecided));
        assert_eq!(changes[2].verdict, Verdict::More, "and they take nothing from the others");
    }

    #[test]
    fn different_sampling_rates_are_not_a_change() {
        let mut rows = rows();
        for row in &mut rows {
            row.after.clone_from(&row.before);
            row.after.iter_mut().for_each(|estimate| estimate.grain = 40.0);
        }
        let changes = decide(&rows, 18_000.0);
        assert!(changes.iter().all(|change| change.verdict == Verdict::Undecided));
        assert_eq!(changes[0].ratio.unwrap().estimate, 1.0);
    }

    #[test]
    fn constant_counts_are_exact_and_others_are_judged() {
        let rows = [
            Series { before: counted(&[100; 5]), after: counted(&[101; 5]) },
            Series { before: counted(&[7; 5]), after: counted(&[7; 5]) },
            Series { before: counted(&[100, 130, 90, 110, 95]), after: counted(&[120, 100, 95, 105, 90]) },
            Series { before: counted(&[100, 103, 99, 101, 102]), after: counted(&[201, 199, 205, 198, 202]) },
        ];
        let changes = decide(&rows, 0.0);
        assert_eq!(changes[0].ratio.unwrap().estimate, 1.01);
        let verdicts = changes.iter().map(|change| change.verdict).collect::<Vec<_>>();
        assert_eq!(verdicts, [Verdict::More, Verdict::Same, Verdict::Undecided, Verdict::More]);
        assert_eq!(
            changes.iter().map(|change| change.margin.is_some()).collect::<Vec<_>>(),
            [false, false, true, true]
        );
    }

    #[test]
    fn total_has_the_interval_of_its_pairs() {
        let change = whole(&[1000, 1100, 1050, 980, 1020], &[900, 985, 950, 880, 915]);
        let ratio = change.ratio.unwrap();
        assert!(ratio.low < 0.9 && 0.9 < ratio.high && ratio.high < 0.91, "{ratio:?}");
        assert_eq!(change.verdict, Verdict::Less);
        assert_eq!(whole(&[5, 6, 7], &[7, 5, 6]).verdict, Verdict::Undecided);
        assert_eq!(whole(&[0, 0, 0], &[0, 0, 0]).verdict, Verdict::Same);
    }
}
