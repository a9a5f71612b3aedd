//! Two commands in pairs: how large their ratio is, and how sure that is.
//!
//! The Hodges-Lehmann estimate with the exact interval of the signed-rank test. For the differences d = ln(B/A) of n pairs:
//!
//! ```text
//! Walsh averages   W = sorted (d[i] + d[j]) / 2 for i <= j,   M = n(n+1)/2 of them
//! estimate         their median
//! interval         [W(c), W(M+1-c)],   c = how many t have P(T+ <= t) <= 0.025;   T+ = sum of k·coin over k = 1..n
//! ```
//! It needs no idea of how the noise is distributed, and a few wild runs do not move it.

/// How much larger one is than the other, and the interval in which that is with a probability of 95 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ratio {
    pub(super) estimate: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) pairs: usize,
}

/// The ratio of the second to the first of each pair. None if there are too few for an interval.
pub(super) fn ratio(pairs: &[(f64, f64)]) -> Option<Ratio> {
    let logarithms = pairs.iter().map(|(first, second)| (second / first).ln()).collect::<Vec<_>>();
    let [estimate, low, high] = shift(&logarithms)?;
    Some(Ratio { estimate: estimate.exp(), low: low.exp(), high: high.exp(), pairs: pairs.len() })
}

/// The estimate and the interval of where values lie: of differences between the two of each pair, for example.
pub(super) fn shift(values: &[f64]) -> Option<[f64; 3]> {
    let mut averages = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (at, value) in values.iter().enumerate() {
        averages.extend(values[at..].iter().map(|other| (value + other) / 2.0));
    }
    averages.sort_by(f64::total_cmp);
    let count = averages.len();
    let outside = outside(values.len());
    if outside == 0 || !averages.iter().all(|average| average.is_finite()) {
        return None;
    }
    let median = (averages[(count - 1) / 2] + averages[count / 2]) / 2.0;
    Some([median, averages[outside - 1], averages[count - outside]])
}

/// The number c for so many pairs.
fn outside(pairs: usize) -> usize {
    let mut chances = vec![1.0];
    for rank in 1..=pairs {
        let mut next = vec![0.0; chances.len() + rank];
        for (sum, chance) in chances.iter().enumerate() {
            next[sum] += chance / 2.0;
            next[sum + rank] += chance / 2.0;
        }
        chances = next;
    }
    let mut below = 0.0;
    chances
        .iter()
        .take_while(|chance| {
            below += **chance;
            below <= 0.025 + 1e-12
        })
        .count()
}

/// The order of both commands in each pair: random, and each order as often as the other.
pub(super) struct Orders {
    state: u64,
    turned: Option<bool>,
}

impl Orders {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed, turned: None }
    }
}

impl Iterator for Orders {
    type Item = [usize; 2];

    fn next(&mut self) -> Option<[usize; 2]> {
        let turned = self.turned.take().unwrap_or_else(|| {
            // SplitMix64.
            self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut mixed = self.state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            let turned = mixed >> 63 == 1;
            self.turned = Some(!turned);
            turned
        });
        Some(if turned { [1, 0] } else { [0, 1] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FASTER: [f64; 12] = [
        -0.0521, -0.0387, -0.0610, 0.0124, -0.0455, -0.0298, -0.0733, -0.0412, 0.0051, -0.0349, -0.0566,
        -0.0240,
    ];

    fn assert_near(values: &[f64], expected: [f64; 3]) {
        let shift = shift(values).unwrap();
        assert!(shift.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-9), "{shift:?}");
    }

    #[test]
    fn the_interval_is_that_of_the_signed_rank_test() {
        assert_near(&FASTER, [-0.039325, -0.053250, -0.018050]);
        assert_near(&FASTER[..6], [-0.04095, -0.0610, 0.0124]);
        assert_eq!([6, 7, 8, 9, 10].map(outside), [1, 3, 4, 6, 9]);
    }

    #[test]
    fn one_wild_run_hardly_moves_it() {
        let mut wild = FASTER;
        wild[11] = 0.9;
        assert_near(&wild, [-0.037225, -0.05325, 0.00875]);
    }

    #[test]
    fn a_ratio_is_that_of_the_second_to_the_first() {
        let ratio = ratio(&[(100.0, 103.0); 8]).unwrap();
        assert!((ratio.estimate - 1.03).abs() < 1e-9 && ratio.low <= ratio.estimate && ratio.pairs == 8);
        assert_eq!(super::ratio(&[(100.0, 103.0); 5]), None);
    }

    #[test]
    fn both_orders_come_equally_often() {
        let orders = Orders::new(7).take(100).collect::<Vec<_>>();
        assert_eq!(orders.iter().filter(|order| **order == [0, 1]).count(), 50);
        assert!(orders.chunks(2).any(|two| two[0] == [0, 1]) && orders.chunks(2).any(|two| two[0] == [1, 0]));
    }
}
