//! DHAT's numbers: a block, with all its reallocations, belongs to the stack that first allocated it.

use crate::tally::Weight;

/// The blocks that one stack allocated first.
#[derive(Debug, Default)]
pub(crate) struct Origin {
    allocated: Weight,
    live: Weight,
    most: Weight,
    /// Live blocks before the first change in the epoch.
    kept: Weight,
    epoch: u64,
    /// Total lifetime of freed and replaced blocks.
    lifetime_ns: u64,
    /// Sum of the allocation times of the live blocks.
    live_since_ns: u64,
}

/// The final numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OriginNumbers {
    pub(crate) allocated: Weight,
    pub(crate) lifetime_ns: u64,
    pub(crate) most: Weight,
    pub(crate) at_peak: Weight,
    pub(crate) live: Weight,
}

impl Origin {
    fn keep(&mut self, epoch: u64) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.kept = self.live;
        }
    }

    fn add_block(&mut self, size: u64, now_ns: u64) {
        self.allocated += Weight::one(size);
        self.live += Weight::one(size);
        if self.live.bytes >= self.most.bytes {
            self.most = self.live;
        }
        self.live_since_ns = self.live_since_ns.wrapping_add(now_ns);
    }

    fn remove_block(&mut self, size: u64, allocated_ns: u64, now_ns: u64) {
        self.live -= Weight::one(size);
        self.live_since_ns = self.live_since_ns.wrapping_sub(allocated_ns);
        self.lifetime_ns += now_ns.saturating_sub(allocated_ns);
    }

    pub(crate) fn allocated(&mut self, epoch: u64, size: u64, now_ns: u64) {
        self.keep(epoch);
        self.add_block(size, now_ns);
    }

    pub(crate) fn freed(&mut self, epoch: u64, size: u64, allocated_ns: u64, now_ns: u64) {
        self.keep(epoch);
        self.remove_block(size, allocated_ns, now_ns);
    }

    pub(crate) fn replaced(&mut self, epoch: u64, size: u64, allocated_ns: u64, new_size: u64, now_ns: u64) {
        self.freed(epoch, size, allocated_ns, now_ns);
        self.add_block(new_size, now_ns);
    }

    /// Live blocks count as if they were freed at `end_ns`.
    pub(crate) fn numbers(&self, epoch: u64, end_ns: u64) -> OriginNumbers {
        let lived = self.live.blocks.wrapping_mul(end_ns).wrapping_sub(self.live_since_ns);
        OriginNumbers {
            allocated: self.allocated,
            lifetime_ns: self.lifetime_ns.wrapping_add(lived),
            most: self.most,
            at_peak: if self.epoch == epoch { self.kept } else { self.live },
            live: self.live,
        }
    }
}
