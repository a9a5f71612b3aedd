//! A profiler's results, for the code that writes them.

use crate::origin::OriginNumbers;
use crate::tally::Weight;

/// Numbers of the whole program.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) allocated: Weight,
    pub(crate) freed: Weight,
    /// Live blocks at the peak.
    pub(crate) peak: Weight,
    pub(crate) peak_ns: u64,
    /// Frees of blocks that were allocated before the profiler started.
    pub(crate) unknown_frees: u64,
}

/// The numbers of one stack.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) stack: u32,
    pub(crate) allocated: Weight,
    pub(crate) freed: Weight,
    pub(crate) live: Weight,
    /// Its max live bytes, and its live blocks then (the last time).
    pub(crate) most: Weight,
    /// Its live blocks at the program's peak. Set only in an outcome.
    pub(crate) at_peak: Weight,
    pub(crate) temporary: u64,
    /// Lifetime of freed blocks. In an outcome, also that of live blocks up to then.
    pub(crate) lifetime_ns: u64,
    /// Sum of the allocation times of the live blocks.
    pub(crate) live_since_ns: u64,
    pub(crate) grown: u64,
    pub(crate) growth_chains: u64,
    pub(crate) bytes_copied: u64,
    pub(crate) largest_grown: u64,
    /// How blocks grew, by the significant bits of their size. The sizes of live blocks are included only in
    /// an outcome.
    pub(crate) chains: Vec<ChainBar>,
    pub(crate) freed_elsewhere: u64,
    /// How many blocks had a size with this many significant bits.
    pub(crate) sizes: Vec<u64>,
    /// How many freed blocks had a lifetime in nanoseconds with this many significant bits.
    pub(crate) lifetimes: Vec<u64>,
}

/// Growth of blocks with sizes of the same magnitude.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChainBar {
    pub(crate) grown: u64,
    pub(crate) bytes_copied: u64,
    /// Blocks that reached this size before they were freed or first shrunk.
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
    pub(crate) fn add_block(&mut self, size: u64, now_ns: u64) {
        let weight = Weight { blocks: 1, bytes: size };
        self.allocated += weight;
        self.live += weight;
        if self.live.bytes >= self.most.bytes {
            self.most = self.live;
        }
        self.live_since_ns = self.live_since_ns.wrapping_add(now_ns);
        count_bits(&mut self.sizes, size);
    }

    pub(crate) fn remove_block(&mut self, size: u64, allocated_ns: u64, now_ns: u64) {
        let weight = Weight { blocks: 1, bytes: size };
        self.freed += weight;
        self.live -= weight;
        self.live_since_ns = self.live_since_ns.wrapping_sub(allocated_ns);
        let lifetime = now_ns.saturating_sub(allocated_ns);
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

    /// A block grew to `size` and has never shrunk before.
    pub(crate) fn grew(&mut self, size: u64, copied: u64) {
        let bar = self.chain_bar(size);
        bar.grown += 1;
        bar.bytes_copied += copied;
    }

    /// A block did not grow beyond `size` before it was freed or first shrunk.
    pub(crate) fn reached(&mut self, size: u64) {
        let bar = self.chain_bar(size);
        bar.reached += Weight { blocks: 1, bytes: size };
        bar.largest = bar.largest.max(size);
    }

    /// Counts live blocks as if they were freed now.
    pub(crate) fn end(&mut self, now_ns: u64) {
        let lived = self.live.blocks.wrapping_mul(now_ns).wrapping_sub(self.live_since_ns);
        self.lifetime_ns = self.lifetime_ns.wrapping_add(lived);
    }
}

/// One thread's share of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) site: u32,
    pub(crate) thread: u32,
    /// Bytes at the peak.
    pub(crate) at_peak: u64,
    /// Bytes at the end.
    pub(crate) live: u64,
}

/// The numbers of one thread at one site in one time bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimelineRow {
    pub(crate) time_ns: u64,
    pub(crate) site: u32,
    pub(crate) thread: u32,
    pub(crate) allocated: Weight,
    pub(crate) bytes_freed: u64,
    pub(crate) temporary: u64,
}

/// Blocks that one thread allocated and another freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) moved: Weight,
}

/// All results.
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
