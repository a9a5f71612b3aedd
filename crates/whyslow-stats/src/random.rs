//! SplitMix64: small, the same everywhere, and good enough to shuffle with.

/// A generator of numbers that look random.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// One that gives the same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to 1, without it.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Close to the normal distribution with mean 0 and deviation 1: the sum of twelve.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        ((self.uniform() * end as f64) as usize).min(end.saturating_sub(1))
    }

    /// Any order of these, each as likely as another.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// The order of `count` commands in each round. Two commands come in both orders equally often; of more, each round is any permutation.
#[derive(Debug)]
pub struct Orders {
    random: Random,
    count: usize,
    owed: Option<Vec<usize>>,
}

impl Orders {
    /// Orders of so many commands.
    pub fn new(count: usize, seed: u64) -> Self {
        Self { random: Random::new(seed), count, owed: None }
    }
}

impl Iterator for Orders {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        // A permutation and its reverse: who is first in one round is last in the other.
        if let Some(owed) = self.owed.take() {
            return Some(owed);
        }
        let mut order = (0..self.count).collect::<Vec<_>>();
        self.random.shuffle(&mut order);
        self.owed = Some(order.iter().rev().copied().collect());
        Some(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_the_known_ones() {
        let mut random = Random::new(1);
        assert_eq!([random.uniform(), random.uniform()], [0.566_561_575_172_280_9, 0.745_781_757_262_701_1]);
        assert!((Random::new(1).normal() - 1.424_348_090_516).abs() < 1e-12);
    }

    #[test]
    fn both_orders_come_equally_often_and_in_no_pattern() {
        let orders = Orders::new(2, 7).take(100).collect::<Vec<_>>();
        assert_eq!(orders.iter().filter(|order| **order == [0, 1]).count(), 50);
        assert!(orders.chunks(2).any(|two| two[0] == [0, 1]) && orders.chunks(2).any(|two| two[0] == [1, 0]));
    }

    #[test]
    fn of_many_commands_everyone_is_everywhere() {
        let mut seen = [[0; 4]; 4];
        for order in Orders::new(4, 3).take(4000) {
            for (place, command) in order.into_iter().enumerate() {
                seen[place][command] += 1;
            }
        }
        assert!(seen.as_flattened().iter().all(|count| (880..1120).contains(count)), "{seen:?}");
    }
}
