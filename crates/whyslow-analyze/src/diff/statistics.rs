//! Judges the difference between two numbers.
//!
//! ```text
//! variance of a value  = (value + grain) · grain     grain: what one sample stands for; 0: counted
//! margin of a change   = 1.96 · sqrt(variance before + variance after)
//! ```
//! A value is about `n = value / grain` samples, whose number has the variance `n`. The extra sample is for
//! small numbers: with it, 5 samples against 0 are undecided and 6 are not, as in the exact binomial test.
//!
//! For several runs of each side see [`super::several`].

use super::several::Ratio;
use whyslow_stats::chance::normal_two_sided;
use whyslow_stats::functions::false_claims;

/// Two-sided 95 % of a normal distribution.
const Z_95: f64 = 1.959_964;
/// The accepted share of wrong claims among all claims.
pub(super) const FALSE_CLAIMS: f64 = 0.05;
/// With fewer samples in both sides together no difference is beyond noise. Such rows make no claim, so they
/// do not weaken the claims of others.
const FEWEST_SAMPLES: f64 = 6.0;

/// A number and its grain.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The number.
    pub value: u64,
    /// What one sample stands for; 0 if everything was counted.
    pub grain: f64,
}

impl Estimate {
    /// A number without noise.
    pub fn counted(value: u64) -> Self {
        Self { value, grain: 0.0 }
    }

    fn variance(self) -> f64 {
        (self.value as f64 + self.grain) * self.grain
    }

    fn samples(self) -> f64 {
        if self.grain > 0.0 { self.value as f64 / self.grain } else { f64::INFINITY }
    }
}

/// The verdict on a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It is more than before.
    More,
    /// It is less than before.
    Less,
    /// Counted on both sides, and equal.
    Same,
    /// Within noise. That does not mean that nothing changed.
    Undecided,
    /// It is now part of another function, or was: nothing is more or less.
    Moved,
}

impl Verdict {
    /// The word used in text and JSON.
    pub fn label(self) -> &'static str {
        match self {
            Self::More => "more",
            Self::Less => "less",
            Self::Same => "same",
            Self::Undecided => "undecided",
            Self::Moved => "moved",
        }
    }

    /// Whether it claims a difference.
    pub fn is_claim(self) -> bool {
        matches!(self, Self::More | Self::Less)
    }
}

/// A number before and after.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Before.
    pub before: u64,
    /// After.
    pub after: u64,
    /// Half the width of the 95 % confidence interval of the difference; `None` if there is no noise. With
    /// one run each it covers sampling only, with several runs also run-to-run noise.
    pub margin: Option<f64>,
    /// The ratio of after to before, with several runs of each and enough samples.
    pub ratio: Option<Ratio>,
    /// What its interval says. With one run of each side that is only the sampling error: see [`Self::proven`].
    pub verdict: Verdict,
}

impl Change {
    /// The change between two counted numbers.
    pub fn counted(before: u64, after: u64) -> Self {
        Self { before, after, margin: None, ratio: None, verdict: direction(before, after) }
    }

    /// The change between two numbers of one run each that differ from run to run, such as wall time.
    pub fn of_one_run(before: u64, after: u64) -> Self {
        Self { before, after, margin: None, ratio: None, verdict: Verdict::Undecided }
    }

    /// The verdict that people may rely on. One run of each side does not show how much runs differ, so a sampled
    /// number of one run is undecided, however far it is beyond its sampling error.
    pub fn proven(&self) -> Verdict {
        let is_one_run = self.margin.is_some() && self.ratio.is_none();
        if self.verdict.is_claim() && is_one_run { Verdict::Undecided } else { self.verdict }
    }

    /// A single change, judged on its own.
    pub fn of(before: Estimate, after: Estimate) -> Self {
        decide(&[Claim::of(before, after)])[0]
    }

    /// After minus before.
    pub fn difference(&self) -> i128 {
        i128::from(self.after) - i128::from(self.before)
    }

    /// The difference as a share of the value before; `None` if that was 0.
    pub fn relative(&self) -> Option<f64> {
        (self.before > 0).then(|| self.difference() as f64 / self.before as f64)
    }
}

/// A difference that may be claimed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Claim {
    before: u64,
    after: u64,
    margin: Option<f64>,
    /// The probability of such a difference without a change; `None` with too few samples for a claim.
    chance: Option<f64>,
}

impl Claim {
    /// From one run of each side.
    pub fn of(before: Estimate, after: Estimate) -> Self {
        let (first, second) = (before.value, after.value);
        let deviation = (before.variance() + after.variance()).sqrt();
        if deviation == 0.0 {
            return Self { before: first, after: second, margin: None, chance: None };
        }
        let enough = before.samples() + after.samples() >= FEWEST_SAMPLES;
        let z = first.abs_diff(second) as f64 / deviation;
        Self {
            before: first,
            after: second,
            margin: Some(Z_95 * deviation),
            chance: enough.then(|| normal_two_sided(z)),
        }
    }
}

/// Decides which of many differences are real: of those called more or less, at most 5 % are noise (Benjamini
/// and Hochberg's rule).
pub fn decide(claims: &[Claim]) -> Vec<Change> {
    let chances = claims.iter().filter_map(|claim| claim.chance).collect::<Vec<_>>();
    let mut rates = false_claims(&chances).into_iter();
    claims
        .iter()
        .map(|claim| {
            let Claim { before, after, margin, chance } = *claim;
            let rate = chance.and_then(|_| rates.next());
            let verdict = match (margin, rate) {
                (None, _) => direction(before, after),
                (_, Some(rate)) if rate <= FALSE_CLAIMS => direction(before, after),
                _ => Verdict::Undecided,
            };
            Change { before, after, margin, ratio: None, verdict }
        })
        .collect()
}

pub(super) fn direction(before: u64, after: u64) -> Verdict {
    match after.cmp(&before) {
        std::cmp::Ordering::Greater => Verdict::More,
        std::cmp::Ordering::Less => Verdict::Less,
        std::cmp::Ordering::Equal => Verdict::Same,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(value: u64) -> Estimate {
        Estimate { value, grain: 1.0 }
    }

    #[test]
    fn few_samples_are_judged_like_the_binomial_test() {
        let verdict = |before, after| Change::of(sampled(before), sampled(after)).verdict;
        assert_eq!(verdict(5, 0), Verdict::Undecided, "exact: 6.3 %");
        assert_eq!(verdict(6, 0), Verdict::Less, "exact: 3.1 %");
        assert_eq!(verdict(9, 2), Verdict::Undecided, "exact: 6.5 %");
        assert_eq!(verdict(2, 10), Verdict::More, "exact: 3.9 %");
        assert_eq!(verdict(100, 100), Verdict::Undecided, "that is not the same");
    }

    #[test]
    fn counted_numbers_are_exact() {
        let change = Change::of(Estimate::counted(3), Estimate::counted(4));
        assert_eq!(change, Change { before: 3, after: 4, margin: None, ratio: None, verdict: Verdict::More });
        assert_eq!(Change::counted(4, 4).verdict, Verdict::Same);
        assert_eq!((change.difference(), change.relative()), (1, Some(1.0 / 3.0)));
        assert_eq!(Change::counted(0, 4).relative(), None);
    }

    #[test]
    fn one_run_of_each_side_proves_nothing_about_a_sampled_number() {
        let change = Change::of(sampled(100), sampled(1000));
        assert_eq!((change.verdict, change.proven()), (Verdict::More, Verdict::Undecided));
        assert_eq!(Change::counted(3, 4).proven(), Verdict::More);
        assert_eq!(Change::of_one_run(3, 4).proven(), Verdict::Undecided);
    }

    #[test]
    fn counted_side_adds_no_noise_to_a_sampled_one() {
        let change = Change::of(Estimate::counted(100), sampled(99));
        assert!((change.margin.unwrap() - 1.96 * 10.0).abs() < 0.01);
        assert_eq!(change.verdict, Verdict::Undecided);
    }

    #[test]
    fn one_lucky_row_among_many_is_undecided() {
        let lucky = Claim::of(sampled(20), sampled(36));
        assert_eq!(decide(&[lucky])[0].verdict, Verdict::More);
        let mut many = vec![Claim::of(sampled(30), sampled(30)); 50];
        many.push(lucky);
        assert_eq!(decide(&many)[50].verdict, Verdict::Undecided);
        many.push(Claim::of(sampled(30), sampled(300)));
        assert_eq!(decide(&many)[51].verdict, Verdict::More);
    }

    #[test]
    fn rows_without_claims_do_not_weaken_others() {
        let mut many = vec![Claim::of(sampled(3), sampled(2)); 1000];
        many.push(Claim::of(sampled(20), sampled(36)));
        assert_eq!(decide(&many)[1000].verdict, Verdict::More);
    }

    /// Two runs of the same program: the same rates, other samples. A small generator produces the numbers.
    #[test]
    fn equal_programs_make_few_claims() {
        let mut state = 1u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        };
        let mut poisson = |mean: f64| {
            let (mut left, mut count) = (mean, 0);
            loop {
                left += uniform().ln();
                if left < 0.0 {
                    return count;
                }
                count += 1;
            }
        };
        let mut comparisons_with_claims = 0;
        let mut outside = 0;
        for _ in 0..400 {
            let rows = [4.0, 8.0, 20.0, 60.0, 150.0, 400.0].map(|mean| (poisson(mean), poisson(mean)));
            let claims = rows.map(|(before, after)| Claim::of(sampled(before), sampled(after)));
            let changes = decide(&claims);
            comparisons_with_claims += usize::from(changes.iter().any(|change| change.verdict.is_claim()));
            outside += changes
                .iter()
                .filter(|change| change.difference().unsigned_abs() as f64 > change.margin.unwrap())
                .count();
        }
        assert!(comparisons_with_claims <= 400 * 7 / 100, "{comparisons_with_claims} of 400");
        assert!(outside <= 2400 * 6 / 100, "{outside} of 2400 outside their interval");
        assert!(outside >= 2400 * 2 / 100, "{outside} of 2400: the intervals are too wide");
    }
}
