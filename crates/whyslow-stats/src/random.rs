//! SplitMix64: small, the same on every machine, and good enough for shuffling.

/// A pseudo-random number generator.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator that gives the same numbers for the same seed.
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

    /// A number from 0 up to, but not including, 1.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Approximately normal with mean 0 and deviation 1: a sum of twelve uniform numbers.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        ((self.uniform() * end as f64) as usize).min(end.saturating_sub(1))
    }

    /// Shuffles the items; every order is equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// The order of `count` commands in each round. Two commands run equally often in both orders. With more,
/// each round is a random permutation or the reverse of the one before.
#[derive(Debug)]
pub struct Orders {
    random: Random,
    count: usize,
    owed: Option<Vec<usize>>,
}

impl Orders {
    /// Orders of this many commands.
    pub fn new(count: usize, seed: u64) -> Self {
        Self { random: Random::new(seed), count, owed: None }
    }
}

impl Iterator for Orders {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        // A permutation and its reverse: the first command of one round is the last of the other.
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
    fn numbers_match_the_reference() {
        let mut random = Random::new(1);
        assert_eq!([random.uniform(), random.uniform()], [0.566_561_575_172_280_9, 0.745_781_757_262_701_1]);
        assert!((Random::new(1).normal() - 1.424_348_090_516).abs() < 1e-12);
    }

    #[test]
    fn both_orders_are_equally_frequent_without_a_pattern() {
        let orders = Orders::new(2, 7).take(100).collect::<Vec<_>>();
        assert_eq!(orders.iter().filter(|order| **order == [0, 1]).count(), 50);
        assert!(orders.chunks(2).any(|two| two[0] == [0, 1]) && orders.chunks(2).any(|two| two[0] == [1, 0]));
    }

    #[test]
    fn every_command_gets_every_position() {
        let mut seen = [[0; 4]; 4];
        for order in Orders::new(4, 3).take(4000) {
            for (place, command) in order.into_iter().enumerate() {
                seen[place][command] += 1;
            }
        }
        assert!(seen.as_flattened().iter().all(|count| (880..1120).contains(count)), "{seen:?}");
    }
}
