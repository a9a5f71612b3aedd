//! Interim analyses: a valid way to check pairs while they arrive and to stop once the comparison is decided.
//!
//! There are nine checkpoints. The level of each is chosen so that all nine together are wrong in about 5 of
//! 100 cases. Checking after every pair and stopping at the first p below 5 % would be wrong several times as
//! often. Equivalence may combine two checkpoints: each end of the margin can be excluded at any of them.

use crate::hygiene::Grain;
use crate::pairs::{Interval, Walsh, tail_count};
use crate::verdict::Verdict;

/// The numbers of pairs at which a series is checked.
pub const CHECKPOINTS: [usize; 9] = [8, 12, 18, 27, 40, 60, 90, 135, 200];
/// The probability that one checkpoint is wrong.
const LEVEL: f64 = 0.008;

/// What a comparison must answer before it stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Is the second less than the first, more, or equivalent?
    Differs,
    /// Is the second more than the first by more than the margin? Anything below that is equivalent.
    Exceeds,
}

/// A comparison that stops when it is decided.
#[derive(Debug, Clone)]
pub struct UntilDecided {
    question: Question,
    margin: f64,
    level: f64,
    /// What all checkpoints so far allow, as logarithms of a ratio.
    allowed: Option<[f64; 2]>,
    verdict: Verdict,
}

impl UntilDecided {
    /// Starts one of this many simultaneous comparisons.
    pub fn new(question: Question, margin: f64, comparisons: usize) -> Self {
        let level = LEVEL / comparisons.max(1) as f64;
        Self { question, margin: margin.ln_1p(), level, allowed: None, verdict: Verdict::Undecided }
    }

    /// The probability that the interval at a checkpoint misses the true value.
    pub fn level(&self) -> f64 {
        self.level
    }

    /// The interval behind the verdict: what all checkpoints so far allow, around the estimate of all
    /// differences. `None` before the first checkpoint with an interval.
    pub fn interval(&self, differences: &[f64]) -> Option<Interval> {
        let [low, high] = self.allowed?;
        let estimate = Walsh::new(differences).estimate();
        Some(Interval { estimate: estimate.max(low).min(high), low, high })
    }

    /// The verdict so far. Once decided, it does not change.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Updates the verdict if the number of differences is a checkpoint. A coarse clock widens the interval,
    /// and may be too coarse for the verdict equivalent.
    pub fn check(&mut self, differences: &[f64], clock: Grain) -> Verdict {
        if self.verdict.is_decided() || !CHECKPOINTS.contains(&differences.len()) {
            return self.verdict;
        }
        let rank = tail_count(differences.len(), self.level);
        if let Some(interval) = Walsh::new(differences).between(rank) {
            let now = interval.widened(clock.widening);
            let [low, high] = self
                .allowed
                .map_or([now.low, now.high], |[low, high]| [low.max(now.low), high.min(now.high)]);
            // Checkpoints that exclude each other leave nothing to narrow down.
            let [low, high] = if low <= high { [low, high] } else { [now.low, now.high] };
            self.allowed = Some([low, high]);
            let exceeds = self.question == Question::Exceeds;
            self.verdict = match () {
                () if high < self.margin && (low > -self.margin || exceeds) && clock.can_be_equivalent => {
                    Verdict::Equivalent
                }
                () if high < 0.0 => Verdict::Less,
                () if low > if exceeds { self.margin } else { 0.0 } => Verdict::More,
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

    const FINE: Grain = Grain { widening: 0.0, can_be_equivalent: true };

    /// Simulates 400 series. Returns the mean number of pairs, and the counts of the verdicts less, more,
    /// equivalent, undecided.
    fn simulate(deviation: f64, effect: f64) -> (f64, [usize; 4]) {
        let mut pairs = 0;
        let mut verdicts = [0; 4];
        for seed in 1000..1400 {
            let mut random = Random::new(seed);
            let mut series = UntilDecided::new(Question::Differs, 0.01, 1);
            let mut differences = Vec::new();
            for _ in 0..200 {
                differences.push(effect.ln_1p() + deviation * random.normal());
                if series.check(&differences, FINE).is_decided() {
                    break;
                }
            }
            pairs += differences.len();
            verdicts[match series.verdict() {
                Verdict::Less => 0,
                Verdict::More => 1,
                Verdict::Equivalent => 2,
                Verdict::Undecided => 3,
            }] += 1;
        }
        (pairs as f64 / 400.0, verdicts)
    }

    fn assert_simulated(deviation: f64, effect: f64, mean_pairs: f64, verdicts: [usize; 4]) {
        let (pairs, seen) = simulate(deviation, effect);
        assert_eq!(seen, verdicts, "deviation {deviation}, effect {effect}");
        assert!((pairs - mean_pairs).abs() <= 0.0051, "{pairs} pairs");
    }

    /// Every implementation of these checkpoints must give this table to the digit.
    #[test]
    fn the_portable_table() {
        assert_simulated(0.02, 0.0, 60.84, [6, 1, 393, 0]);
        assert_simulated(0.02, -0.01, 40.66, [400, 0, 0, 0]);
        assert_simulated(0.02, -0.02, 14.62, [400, 0, 0, 0]);
        assert_simulated(0.02, -0.05, 8.16, [400, 0, 0, 0]);
        assert_simulated(0.05, 0.0, 195.00, [11, 1, 59, 329]);
        assert_simulated(0.05, -0.01, 152.18, [230, 0, 1, 169]);
        assert_simulated(0.05, -0.02, 59.42, [400, 0, 0, 0]);
        assert_simulated(0.05, -0.05, 14.22, [400, 0, 0, 0]);
    }

    #[test]
    fn a_coarse_clock_is_never_equivalent() {
        let mut series = UntilDecided::new(Question::Differs, 0.01, 1);
        let coarse = Grain { widening: 0.0, can_be_equivalent: false };
        assert_eq!(series.check(&[0.0; 8], coarse), Verdict::Undecided);
        assert_eq!(series.check(&[0.0; 9], FINE), Verdict::Undecided, "9 is not a checkpoint");
        assert_eq!(series.check(&[0.0; 12], FINE), Verdict::Equivalent);
    }

    /// Whatever the noise, the interval that is shown supports the verdict.
    #[test]
    fn the_interval_supports_the_verdict() {
        for seed in 0..400 {
            let mut random = Random::new(seed);
            let mut series = UntilDecided::new(Question::Differs, 0.01, 1);
            let mut differences = Vec::new();
            while differences.len() < 200 && !series.verdict().is_decided() {
                differences.push(0.02 * random.normal());
                series.check(&differences, FINE);
            }
            let interval = series.interval(&differences).unwrap();
            assert_eq!(Verdict::of(interval, 0.01), series.verdict(), "seed {seed}: {interval:?}");
        }
    }
    /// Simulates 80 series that ask whether a change is above 2 %. Returns the counts of the verdicts more and
    /// undecided.
    fn exceeding(effect: f64) -> [usize; 2] {
        let mut verdicts = [0; 2];
        for seed in 1000..1080 {
            let mut random = Random::new(seed);
            let mut series = UntilDecided::new(Question::Exceeds, 0.02, 1);
            let mut differences = Vec::new();
            while differences.len() < 200 && !series.verdict().is_decided() {
                differences.push(effect.ln_1p() + 0.02 * random.normal());
                series.check(&differences, FINE);
            }
            verdicts[0] += usize::from(series.verdict() == Verdict::More);
            verdicts[1] += usize::from(series.verdict() == Verdict::Undecided);
        }
        verdicts
    }

    #[test]
    fn a_change_below_the_margin_does_not_exceed_it() {
        // 1.5 % is certain here, and certainly not 2 %.
        assert!(exceeding(0.015)[0] <= 1, "{:?}", exceeding(0.015));
        assert!(exceeding(0.0)[0] == 0, "{:?}", exceeding(0.0));
        // Exactly at the margin, about 5 of 100 may be called more.
        assert!(exceeding(0.02)[0] <= 6, "{:?}", exceeding(0.02));
        assert!(exceeding(0.03)[0] >= 77, "{:?}", exceeding(0.03));
    }
}
