//! Verdicts: what a confidence interval supports.

use crate::pairs::{ALPHA, Interval, Walsh};

/// The verdict on a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The second is less than the first. For times: faster.
    Less,
    /// The second is more than the first. For times: slower.
    More,
    /// They differ by less than the margin.
    Equivalent,
    /// The interval allows several of these. That does not mean that nothing changed.
    Undecided,
}

impl Verdict {
    /// The verdict on the logarithm of a ratio. The margin is a share (0.01 is 1 %): a difference below it
    /// does not matter, even if it is certain.
    pub fn of(interval: Interval, margin: f64) -> Self {
        let margin = margin.ln_1p();
        match interval {
            Interval { low, high, .. } if low > -margin && high < margin => Self::Equivalent,
            Interval { high, .. } if high < 0.0 => Self::Less,
            Interval { low, .. } if low > 0.0 => Self::More,
            _ => Self::Undecided,
        }
    }

    /// Whether it claims a difference.
    pub fn is_claim(self) -> bool {
        matches!(self, Self::Less | Self::More)
    }

    /// Whether it is anything but undecided.
    pub fn is_decided(self) -> bool {
        self != Self::Undecided
    }

    /// The verdict with the sides swapped.
    #[must_use]
    pub fn reversed(self) -> Self {
        match self {
            Self::Less => Self::More,
            Self::More => Self::Less,
            other => other,
        }
    }
}

/// About how many pairs a decision takes in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needed {
    /// If the difference is as large as it looks.
    pub if_as_seen: usize,
    /// To decide at the margin, whatever the difference is.
    pub for_margin: usize,
}

/// How many pairs would decide what these differences leave open; `None` with too few differences. A series
/// with interim checks needs more.
pub fn needed(differences: &[f64], margin: f64, until_decided: bool) -> Option<Needed> {
    /// Standard errors that a two-sided test at 5 % needs for a power of 80 and 90 %.
    const POWER: [f64; 2] = [2.80, 3.24];
    /// The cost of interim checks.
    const INTERIM: f64 = 1.55;
    if differences.len() < 6 {
        return None;
    }
    let walsh = Walsh::new(differences);
    let (error, pairs) = (walsh.standard_error()?, differences.len() as f64);
    let margin = margin.ln_1p();
    let seen = walsh.estimate().abs().max(margin);
    let factor = if until_decided { INTERIM } else { 1.0 };
    let least = (1.5 * pairs).ceil();
    let count = |power: f64, difference: f64| {
        (factor * pairs * (power * error / difference).powi(2)).ceil().max(least) as usize
    };
    let if_as_seen = count(POWER[0], seen);
    Some(Needed { if_as_seen, for_margin: count(POWER[1], margin).max(if_as_seen) })
}

/// The smallest difference that this many pairs with this noise find in four of five cases, as a share.
pub fn detectable(differences: &[f64], pairs: usize) -> Option<f64> {
    let error = Walsh::new(differences).standard_error()?;
    let error = error * (differences.len() as f64 / pairs.max(1) as f64).sqrt();
    Some((2.80 * error).exp_m1())
}

/// The level of each of several comparisons at which all together miss a true value in 5 of 100 cases.
pub fn shared_alpha(comparisons: usize) -> f64 {
    ALPHA / comparisons.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::tests::{FASTER, UNDECIDED};

    fn verdict(differences: &[f64]) -> Verdict {
        Verdict::of(Walsh::new(differences).interval(ALPHA).unwrap(), 0.01)
    }

    #[test]
    fn verdict_follows_from_the_interval() {
        assert_eq!(verdict(&FASTER), Verdict::Less);
        assert_eq!(verdict(&FASTER.map(|difference| -difference)), Verdict::More);
        assert_eq!(verdict(&FASTER[..6]), Verdict::Undecided);
        assert_eq!(verdict(&UNDECIDED), Verdict::Undecided);
        let mut wild = FASTER;
        wild[11] = 0.9;
        assert_eq!(verdict(&wild), Verdict::Undecided);
        assert_eq!(verdict(&[0.001, -0.002, 0.003, 0.0, -0.001, 0.002, -0.003, 0.001]), Verdict::Equivalent);
        // Certain, but too small to matter.
        assert_eq!(verdict(&[0.002; 8]), Verdict::Equivalent);
    }

    /// Differences that cancel out leave rounding errors, for example after a correction for the order.
    #[test]
    fn rounding_errors_are_not_differences() {
        let verdict =
            |differences: &[f64]| Verdict::of(Walsh::new(differences).interval(ALPHA).unwrap(), 0.0);
        assert_eq!(verdict(&[1.4e-17; 12]), Verdict::Undecided);
        assert_eq!(verdict(&[-1.4e-17; 12]), Verdict::Undecided);
        assert_eq!(verdict(&[1e-9; 12]), Verdict::More);
    }

    #[test]
    fn estimates_the_pairs_needed() {
        assert_eq!(needed(&UNDECIDED, 0.01, false), Some(Needed { if_as_seen: 54, for_margin: 72 }));
        assert_eq!(needed(&UNDECIDED, 0.01, true).unwrap().if_as_seen, 83);
        assert_eq!(needed(&FASTER[..5], 0.01, false), None);
        // An almost decided comparison takes half as many pairs again.
        assert_eq!(needed(&FASTER, 0.01, false).unwrap().if_as_seen, 18);
    }

    #[test]
    fn more_pairs_find_smaller_differences() {
        let [few, many] = [12, 48].map(|pairs| detectable(&UNDECIDED, pairs).unwrap());
        assert!((few - 0.0212).abs() < 1e-3 && (many * 2.0 - few).abs() < 1e-3, "{few} {many}");
    }
}
