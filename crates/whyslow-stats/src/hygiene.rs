//! Finds what is odd about a series of runs. No run is ever left out because of it: the interval has to cover
//! them all.

use crate::{mean, median, variance};

/// The indices of values far from the others: 7 deviations, estimated from the median distance.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let middle = median(values);
    let spread = 1.4826 * median(&values.iter().map(|value| (value - middle).abs()).collect::<Vec<_>>());
    let is_far = |(_, value): &(usize, &f64)| spread > 0.0 && (*value - middle).abs() > 7.0 * spread;
    values.iter().enumerate().filter(is_far).map(|(row, _)| row).collect()
}

/// Two groups of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Modes {
    /// The means of both groups, the smaller first.
    pub means: [f64; 2],
    /// The share of the values in the second group.
    pub upper_share: f64,
}

/// The two groups, if there are two: each has at least 15 % of the values, and they are six deviations apart.
pub fn modes(values: &[f64]) -> Option<Modes> {
    const MIN_SHARE: f64 = 0.15;
    const APART: f64 = 6.0;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let least = ((MIN_SHARE * sorted.len() as f64).ceil() as usize).max(2);
    let splits = least..=sorted.len().checked_sub(least)?;
    // The squares within both groups are smallest where those between them are largest, which prefix sums
    // give directly.
    let (count, middle) = (sorted.len() as f64, mean(&sorted));
    let mut sum = 0.0;
    let sums = std::iter::once(0.0).chain(sorted.iter().map(|value| {
        sum += value - middle;
        sum
    }));
    let sums = sums.collect::<Vec<_>>();
    let between = |at: usize| sums[at] * sums[at] * (1.0 / at as f64 + 1.0 / (count - at as f64));
    let at = splits.max_by(|one, other| between(*one).total_cmp(&between(*other)).then(other.cmp(one)))?;
    let means = [mean(&sorted[..at]), mean(&sorted[at..])];
    let squares = |part: &[f64]| variance(part).unwrap_or(0.0) * (part.len() - 1) as f64;
    let deviation = ((squares(&sorted[..at]) + squares(&sorted[at..])) / (count - 2.0)).sqrt();
    let upper_share = (sorted.len() - at) as f64 / sorted.len() as f64;
    (means[1] - means[0] > APART * deviation && means[1] > means[0]).then_some(Modes { means, upper_share })
}

/// How values rise or fall over time, from -1 to 1 (Spearman); `None` if noise explains it.
pub fn drift(values: &[f64]) -> Option<f64> {
    let ranks = ranks(values);
    let middle = (values.len() as f64 - 1.0) / 2.0;
    let (mut both, mut of_times, mut of_values) = (0.0, 0.0, 0.0);
    for (time, rank) in ranks.iter().enumerate() {
        let (time, rank) = (time as f64 - middle, rank - middle);
        both += time * rank;
        of_times += time * time;
        of_values += rank * rank;
    }
    let correlation = both / (of_times * of_values).sqrt();
    let is_drift = correlation.is_finite() && correlation.abs() * (values.len() as f64 - 1.0).sqrt() > 2.58;
    is_drift.then_some(correlation)
}

/// The rank of each value, from 0; equal values share a rank.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order = (0..values.len()).collect::<Vec<_>>();
    order.sort_by(|one, other| values[*one].total_cmp(&values[*other]));
    let mut ranks = vec![0.0; values.len()];
    for equal in order.chunk_by(|one, other| values[*one].total_cmp(&values[*other]).is_eq()) {
        let first = ranks_before(&order, equal);
        for row in equal {
            ranks[*row] = first as f64 + (equal.len() - 1) as f64 / 2.0;
        }
    }
    ranks
}

fn ranks_before(order: &[usize], part: &[usize]) -> usize {
    (part.as_ptr().addr() - order.as_ptr().addr()) / size_of::<usize>()
}

/// The effect of being the first of a pair: half the difference between both orders. `None` if it is within
/// noise.
pub fn slot_effect(differences: &[f64], first_is_first: &[bool]) -> Option<f64> {
    let of = |wanted: bool| {
        let some = differences.iter().zip(first_is_first).filter(|(_, order)| **order == wanted);
        some.map(|(difference, _)| *difference).collect::<Vec<_>>()
    };
    let (straight, turned) = (of(true), of(false));
    let effect = (median(&straight) - median(&turned)) / 2.0;
    let error = (variance(&straight)? / straight.len() as f64 + variance(&turned)? / turned.len() as f64)
        .sqrt()
        / 2.0;
    (effect.abs() > 2.58 * error && error > 0.0).then_some(effect)
}

/// How coarse the clock is for what it measures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grain {
    /// The possible error of the logarithm of a ratio.
    pub widening: f64,
    /// Whether the verdict `equivalent` is possible at this margin.
    pub can_be_equivalent: bool,
}

/// The effect of a clock tick on runs of this length. Below 1 % of a run there is none.
pub fn grain(tick: f64, typical: f64, margin: f64) -> Grain {
    let share = if typical > 0.0 { tick / typical } else { 1.0 };
    let widening = if share >= 0.01 { share.ln_1p() } else { 0.0 };
    Grain { widening, can_be_equivalent: share <= margin / 4.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn noise(count: usize) -> Vec<f64> {
        let mut random = Random::new(5);
        (0..count).map(|_| 100.0 + random.normal()).collect()
    }

    #[test]
    fn finds_outliers_but_not_noise() {
        let mut values = noise(40);
        assert_eq!(outliers(&values), []);
        values[7] = 130.0;
        assert_eq!(outliers(&values), [7]);
        assert_eq!(outliers(&[1.0; 5]), []);
    }

    #[test]
    fn finds_two_modes_and_does_not_split_one() {
        let mut values = noise(40);
        assert_eq!(modes(&values), None);
        for value in values.iter_mut().step_by(3) {
            *value += 20.0;
        }
        let found = modes(&values).unwrap();
        assert!(
            (found.means[1] - found.means[0] - 20.0).abs() < 1.0 && (found.upper_share - 0.35).abs() < 0.01
        );
        assert_eq!(modes(&[1.0, 2.0]), None);
    }

    #[test]
    fn finds_a_trend_but_not_a_spread() {
        let mut values = noise(40);
        assert_eq!(drift(&values), None);
        for (time, value) in values.iter_mut().enumerate() {
            *value += time as f64 / 10.0;
        }
        assert!(drift(&values).unwrap() > 0.5);
        assert_eq!(drift(&[1.0; 40]), None);
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [2.5, 0.0, 2.5, 1.0]);
    }

    #[test]
    fn finds_the_effect_of_order() {
        let mut random = Random::new(9);
        let order = (0..40).map(|at| at % 2 == 0).collect::<Vec<_>>();
        let of = |advantage: f64, random: &mut Random| {
            let differences = order
                .iter()
                .map(|first| if *first { advantage } else { -advantage } + 0.01 * random.normal());
            slot_effect(&differences.collect::<Vec<_>>(), &order)
        };
        assert!((of(0.05, &mut random).unwrap() - 0.05).abs() < 0.01);
        assert_eq!(of(0.0, &mut random), None);
    }

    #[test]
    fn coarse_clock_widens_the_interval_and_forbids_equivalence() {
        assert_eq!(grain(1e-6, 1.0, 0.01), Grain { widening: 0.0, can_be_equivalent: true });
        let coarse = grain(0.004, 0.1, 0.01);
        assert!((coarse.widening - 0.04f64.ln_1p()).abs() < 1e-12 && !coarse.can_be_equivalent);
    }
}
