//! Until it is decided: a valid way to look at the pairs while they come.
//!
//! Nine looks, each with the interval of a level at which all nine together are wrong about 5 times of 100. Whoever looks at every pair and stops at
//! the first p below 5 % is wrong several times as often. Equivalence may be put together of two looks: each end of the margin is excluded at any of them.

use crate::pairs::{Walsh, tail_count};
use crate::verdict::Verdict;

/// After how many pairs the looks are.
pub const LOOKS: [usize; 9] = [8, 12, 18, 27, 40, 60, 90, 135, 200];
/// How often each look may be wrong.
const LEVEL: f64 = 0.008;

/// A comparison that ends when it is decided.
#[derive(Debug, Clone)]
pub struct UntilDecided {
    margin: f64,
    level: f64,
    not_more: bool,
    not_less: bool,
    verdict: Verdict,
}

impl UntilDecided {
    /// One of so many comparisons that are made together.
    pub fn new(margin: f64, comparisons: usize) -> Self {
        let level = LEVEL / comparisons.max(1) as f64;
        Self { margin: margin.ln_1p(), level, not_more: false, not_less: false, verdict: Verdict::Undecided }
    }

    /// How often the interval of a look may miss the truth.
    pub fn level(&self) -> f64 {
        self.level
    }

    /// The verdict so far. Once decided, it stays.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Looks, if there are as many differences as one of the looks is at; `may_be_equivalent` is false where the clock is too coarse to say so.
    pub fn look(&mut self, differences: &[f64], may_be_equivalent: bool) -> Verdict {
        if self.verdict.is_decided() || !LOOKS.contains(&differences.len()) {
            return self.verdict;
        }
        let rank = tail_count(differences.len(), self.level);
        if let Some(interval) = Walsh::new(differences).between(rank) {
            self.not_more |= interval.high < self.margin;
            self.not_less |= interval.low > -self.margin;
            self.verdict = match () {
                () if self.not_more && self.not_less && may_be_equivalent => Verdict::Equivalent,
                () if interval.high < 0.0 => Verdict::Less,
                () if interval.low > 0.0 => Verdict::More,
                () => Verdict::Undecided,
            };
        }
        self.verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Of 400 courses: the mean number of pairs, and the verdicts less, more, equivalent, undecided.
    fn courses(deviation: f64, effect: f64) -> (f64, [usize; 4]) {
        let mut pairs = 0;
        let mut verdicts = [0; 4];
        for seed in 1000..1400 {
            let mut random = Random::new(seed);
            let mut course = UntilDecided::new(0.01, 1);
            let mut differences = Vec::new();
            for _ in 0..200 {
                differences.push(effect.ln_1p() + deviation * random.normal());
                if course.look(&differences, true).is_decided() {
                    break;
                }
            }
            pairs += differences.len();
            verdicts[match course.verdict() {
                Verdict::Less => 0,
                Verdict::More => 1,
                Verdict::Equivalent => 2,
                Verdict::Undecided => 3,
            }] += 1;
        }
        (pairs as f64 / 400.0, verdicts)
    }

    fn assert_courses(deviation: f64, effect: f64, mean_pairs: f64, verdicts: [usize; 4]) {
        let (pairs, seen) = courses(deviation, effect);
        assert_eq!(seen, verdicts, "deviation {deviation}, effect {effect}");
        assert!((pairs - mean_pairs).abs() <= 0.0051, "{pairs} pairs");
    }

    /// The table that every implementation of these looks must give, to the digit.
    #[test]
    fn the_portable_table() {
        assert_courses(0.02, 0.0, 60.84, [6, 1, 393, 0]);
        assert_courses(0.02, -0.01, 40.66, [400, 0, 0, 0]);
        assert_courses(0.02, -0.02, 14.62, [400, 0, 0, 0]);
        assert_courses(0.02, -0.05, 8.16, [400, 0, 0, 0]);
        assert_courses(0.05, 0.0, 195.00, [11, 1, 59, 329]);
        assert_courses(0.05, -0.01, 152.18, [230, 0, 1, 169]);
        assert_courses(0.05, -0.02, 59.42, [400, 0, 0, 0]);
        assert_courses(0.05, -0.05, 14.22, [400, 0, 0, 0]);
    }

    #[test]
    fn a_coarse_clock_is_never_equivalent() {
        let mut course = UntilDecided::new(0.01, 1);
        assert_eq!(course.look(&[0.0; 8], false), Verdict::Undecided);
        assert_eq!(course.look(&[0.0; 9], true), Verdict::Undecided, "there is no look at 9");
        assert_eq!(course.look(&[0.0; 12], true), Verdict::Equivalent);
    }
}
