//! Recorded system calls: number, time, bytes and result, per call site in the program.

use crate::ids::{StackId, StringId, ThreadId};

/// The calls of a thread from one call site, of one kind, on one file and with one result, within about a
/// second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Syscalls {
    /// When the last of them returned, in nanoseconds since the recording began.
    pub time_ns: u64,
    /// The thread.
    pub thread: ThreadId,
    /// The call site; the innermost frame stands for the call.
    pub stack: StackId,
    /// The name of the call, such as `write`.
    pub call: StringId,
    /// The file: a path, or a word such as `pipe`; `None` if the call takes no descriptor.
    pub file: Option<StringId>,
    /// The name of the error that it returned.
    pub error: Option<StringId>,
    /// The number of calls.
    pub count: u64,
    /// How many of them had no stack, and are attributed here because similar calls are.
    pub spread: u64,
    /// Their total time, including waiting.
    pub total_ns: u64,
    /// The time of the longest.
    pub max_ns: u64,
    /// The bytes that they read or wrote.
    pub bytes: u64,
    /// The distribution of their times.
    pub lengths: Lengths,
}

/// A histogram of lengths. Each bar is an eighth of a power of two wide.
///
/// ```text
/// bar of n < 8   n
/// bar of n       8 * (highest bit - 2) + the three bits below the highest
/// ```
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Lengths(Vec<(u16, u64)>);

impl Lengths {
    /// The largest bar number.
    pub const LAST_BAR: u16 = Self::bar(u64::MAX);

    const fn bar(length: u64) -> u16 {
        if length < 8 {
            return length as u16;
        }
        let highest = length.ilog2();
        (8 * (highest - 2)) as u16 + ((length >> (highest - 3)) & 7) as u16
    }

    /// The largest length of a bar.
    fn longest(bar: u16) -> u64 {
        if bar < 8 {
            return u64::from(bar);
        }
        let (shift, below) = (u32::from(bar) / 8 - 1, u64::from(bar) % 8);
        ((8 + below) << shift) + ((1 << shift) - 1)
    }

    /// Adds one length.
    pub fn add(&mut self, length: u64) {
        self.add_bar(Self::bar(length), 1);
    }

    /// Adds all lengths of another histogram.
    pub fn add_all(&mut self, other: &Self) {
        other.0.iter().for_each(|&(bar, count)| self.add_bar(bar, count));
    }

    fn add_bar(&mut self, bar: u16, more: u64) {
        match self.0.binary_search_by_key(&bar, |(bar, _)| *bar) {
            Ok(at) => self.0[at].1 = self.0[at].1.saturating_add(more),
            Err(at) => self.0.insert(at, (bar, more)),
        }
    }

    /// The length that this percentage does not exceed, rounded up by at most an eighth.
    pub fn quantile(&self, percent: u64) -> u64 {
        let all: u128 = self.0.iter().map(|(_, count)| u128::from(*count)).sum();
        let rank = (all * u128::from(percent)).div_ceil(100).max(1);
        let mut seen = 0;
        let bar = self.0.iter().find(|(_, count)| {
            seen += u128::from(*count);
            seen >= rank
        });
        bar.map_or(0, |(bar, _)| Self::longest(*bar))
    }

    /// The non-empty bars in order, with their counts.
    pub fn bars(&self) -> &[(u16, u64)] {
        &self.0
    }

    /// A histogram of bars in any order.
    pub fn from_bars(bars: impl IntoIterator<Item = (u16, u64)>) -> Self {
        let mut lengths = Self::default();
        for (bar, count) in bars {
            lengths.add_bar(bar.min(Self::LAST_BAR), count);
        }
        lengths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_rounded_up_by_at_most_an_eighth() {
        for length in (0..2000).chain([u64::MAX / 3, u64::MAX - 1, u64::MAX]) {
            let mut lengths = Lengths::default();
            lengths.add(length);
            let found = lengths.quantile(50);
            assert!(found >= length && found - length <= length / 8, "{length}: {found}");
        }
    }

    #[test]
    fn computes_the_median_and_a_high_quantile() {
        let mut lengths = Lengths::default();
        (0..98).for_each(|_| lengths.add(100));
        (0..2).for_each(|_| lengths.add(1_000_000));
        let near = |found: u64, length: u64| found >= length && found - length <= length / 8;
        assert!(near(lengths.quantile(50), 100) && near(lengths.quantile(98), 100));
        assert!(near(lengths.quantile(99), 1_000_000));
        let mut twice = lengths.clone();
        twice.add_all(&lengths);
        assert_eq!(twice.bars().iter().map(|(_, count)| count).sum::<u64>(), 200);
        assert_eq!(Lengths::from_bars(twice.bars().iter().rev().copied()), twice);
        assert_eq!(Lengths::default().quantile(99), 0);
    }
}
