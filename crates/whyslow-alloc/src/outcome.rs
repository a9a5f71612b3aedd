//! What a profiler has found, for those who write it down.

use crate::origin::OriginNumbers;
use crate::tally::Weight;

/// Numbers of the whole program.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) made: Weight,
    pub(crate) freed: Weight,
    /// What was live when the most bytes were.
    pub(crate) peak: Weight,
    pub(crate) peak_ns: u64,
    /// Frees of blocks that were made before the profiler.
    pub(crate) unknown_frees: u64,
}

/// What one stack did.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) stack: u32,
    pub(crate) made: Weight,
    pub(crate) freed: Weight,
    pub(crate) live: Weight,
    /// The most bytes it ever had, and the blocks it had then (the last time).
    pub(crate) most: Weight,
    /// What it had when the program had the most. Known in an outcome only.
    pub(crate) at_peak: Weight,
    pub(crate) temporary: u64,
    /// Of freed blocks; in an outcome also of live ones, until then.
    pub(crate) lifetime_ns: u64,
    /// The times at which the live blocks were made, added up.
    pub(crate) live_since_ns: u64,
    pub(crate) grown: u64,
    pub(crate) growth_chains: u64,
    pub(crate) bytes_copied: u64,
    pub(crate) largest_grown: u64,
    /// How blocks grew, by the significant bits of their size; what live blocks have reached is in an outcome only.
    pub(crate) chains: Vec<ChainBar>,
    pub(crate) freed_elsewhere: u64,
    /// How many blocks had a size with this many significant bits.
    pub(crate) sizes: Vec<u64>,
    /// How many freed blocks had a lifetime in nanoseconds with this many significant bits.
    pub(crate) lifetimes: Vec<u64>,
}

/// How blocks of about one size grew.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChainBar {
    pub(crate) grown: u64,
    pub(crate) bytes_copied: u64,
    /// Blocks that grew so large before they ended or were first made smaller.
    pub(crate) reached: Weight,
    pub(crate) largest: u64,
}

fn count_bits(histogram: &mut Vec<u64>, value: u64) {
    let bar = (u64::BITS - value.leading_zeros()) as usize;
    if histogram.len() <= bar {
        histogram.resize(bar + 1, 0);
    }
    histogram[bar] += 1;
}

impl Site {
    pub(crate) fn came(&mut self, size: u64, now_ns: u64) {
        let weight = Weight { blocks: 1, bytes: size };
        self.made += weight;
        self.live += weight;
        if self.live.bytes >= self.most.bytes {
            self.most = self.live;
        }
        self.live_since_ns = self.live_since_ns.wrapping_add(now_ns);
        count_bits(&mut self.sizes, size);
    }

    pub(crate) fn went(&mut self, size: u64, made_ns: u64, now_ns: u64) {
        let weight = Weight { blocks: 1, bytes: size };
        self.freed += weight;
        self.live -= weight;
        self.live_since_ns = self.live_since_ns.wrapping_sub(made_ns);
        let lifetime = now_ns.saturating_sub(made_ns);
        self.lifetime_ns += lifetime;
        count_bits(&mut self.lifetimes, lifetime);
    }

    fn chain_bar(&mut self, size: u64) -> &mut ChainBar {
        let bar = (u64::BITS - size.leading_zeros()) as usize;
        if self.chains.len() <= bar {
            self.chains.resize(bar + 1, ChainBar::default());
        }
        &mut self.chains[bar]
    }

    /// A block became so large, and was never made smaller before.
    pub(crate) fn grew(&mut self, size: u64, copied: u64) {
        let bar = self.chain_bar(size);
        bar.grown += 1;
        bar.bytes_copied += copied;
    }

    /// A block became no larger than that before it ended or was first made smaller.
    pub(crate) fn reached(&mut self, size: u64) {
        let bar = self.chain_bar(size);
        bar.reached += Weight { blocks: 1, bytes: size };
        bar.largest = bar.largest.max(size);
    }

    /// Counts what is live as if it ended now.
    pub(crate) fn end(&mut self, now_ns: u64) {
        let lived = self.live.blocks.wrapping_mul(now_ns).wrapping_sub(self.live_since_ns);
        self.lifetime_ns = self.lifetime_ns.wrapping_add(lived);
    }
}

/// What of a site belongs to one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) site: u32,
    pub(crate) thread: u32,
    /// Bytes at the peak.
    pub(crate) at_peak: u64,
    /// Bytes at the end.
    pub(crate) live: u64,
}

/// What one thread did at one site in one bucket of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimelineRow {
    pub(crate) time_ns: u64,
    pub(crate) site: u32,
    pub(crate) thread: u32,
    pub(crate) made: Weight,
    pub(crate) bytes_freed: u64,
    pub(crate) temporary: u64,
}

/// Blocks that one thread made and another freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) moved: Weight,
}

/// Everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) sites: Vec<Site>,
    /// One for each site.
    pub(crate) origins: Vec<OriginNumbers>,
    pub(crate) shares: Vec<Share>,
    pub(crate) rows: Vec<TimelineRow>,
    pub(crate) transfers: Vec<Transfer>,
    pub(crate) totals: Totals,
    pub(crate) live: Weight,
    pub(crate) end_ns: u64,
}
