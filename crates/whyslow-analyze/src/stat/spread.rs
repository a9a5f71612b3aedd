//! Statistics over several runs of the same program.
//!
//! ```text
//! interval of the mean = mean ± t · s / √n        t: Student's, two-sided 95 %, for n - 1 degrees of freedom
//! ```

use whyslow_stats::{margin_of_mean, mean, median};

use super::Number;

/// A number over all runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Spread {
    /// The number from the first run that has it; its value is the mean.
    pub number: Number,
    /// The value of each run that has it.
    pub values: Vec<f64>,
    /// The median.
    pub median: f64,
    /// Half the width of the 95 % confidence interval of the mean; `None` for a single run.
    pub margin: Option<f64>,
}

impl Spread {
    /// The smallest value.
    pub fn min(&self) -> f64 {
        self.values.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The largest value.
    pub fn max(&self) -> f64 {
        self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }
}

/// Combines the numbers of all runs by name, in the order of the first run that has them.
pub fn spreads(runs: &[Vec<Number>]) -> Vec<Spread> {
    let mut names: Vec<&str> = Vec::new();
    for number in runs.iter().flatten() {
        if !names.contains(&number.name.as_str()) {
            names.push(&number.name);
        }
    }
    names
        .iter()
        .filter_map(|name| {
            let of_name = || runs.iter().flatten().filter(|number| number.name == *name);
            let first = of_name().next()?;
            let values: Vec<f64> = of_name().map(|number| number.value).collect();
            let number = Number {
                value: mean(&values),
                at_most: of_name().any(|number| number.at_most),
                user_only: of_name().any(|number| number.user_only),
                running_share: of_name().filter_map(|number| number.running_share).reduce(f64::min),
                ..first.clone()
            };
            Some(Spread { number, median: median(&values), margin: margin_of_mean(&values), values })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::NumberUnit;
    use super::*;

    fn run(name: &str, value: f64) -> Vec<Number> {
        vec![Number::new(name, name, NumberUnit::Count, value, "")]
    }

    #[test]
    fn runs_have_mean_median_and_interval() {
        let spreads = spreads(&[10.0, 12.0, 14.0, 20.0].map(|value| run("a", value)));
        let [spread] = &spreads[..] else { panic!("{spreads:?}") };
        assert_eq!((spread.number.value, spread.median), (14.0, 13.0));
        assert_eq!((spread.min(), spread.max()), (10.0, 20.0));
        // s = 4.320494, s/√4 = 2.160247, t(3) = 3.182
        assert!((spread.margin.unwrap() - 6.8739).abs() < 1e-3, "{spread:?}");
    }

    #[test]
    fn one_run_has_no_interval_and_numbers_combine_by_name() {
        assert_eq!(spreads(&[run("a", 1.0)])[0].margin, None);
        let two = spreads(&[run("a", 1.0), run("b", 2.0)]);
        assert_eq!(two.iter().map(|spread| spread.values.len()).collect::<Vec<_>>(), [1, 1]);
        assert!(spreads(&[]).is_empty());
    }

    /// 2,000 times five runs with a known mean: about 95 of 100 intervals cover it.
    #[test]
    fn interval_covers_the_true_mean_as_often_as_claimed() {
        let mut state = 7u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let mut held = 0;
        for _ in 0..2000 {
            // The sum of twelve uniform numbers is close to a normal distribution around 6.
            let values: Vec<f64> = (0..5).map(|_| (0..12).map(|_| uniform()).sum()).collect();
            held += u32::from((mean(&values) - 6.0).abs() <= margin_of_mean(&values).unwrap());
        }
        assert!((1860..=1940).contains(&held), "{held} of 2000");
    }
}
