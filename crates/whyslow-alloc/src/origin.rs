//! What DHAT counts: a block and all that it becomes by reallocation belong to the stack that first made it.

use crate::tally::Weight;

/// The blocks that one stack made first.
#[derive(Debug, Default)]
pub(crate) struct Origin {
    made: Weight,
    live: Weight,
    most: Weight,
    /// What was live before the first change in the epoch.
    kept: Weight,
    epoch: u64,
    /// Of blocks that are freed or replaced.
    lifetime_ns: u64,
    /// The times at which the live blocks were made, added up.
    live_since_ns: u64,
}

/// The same in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OriginNumbers {
    pub(crate) made: Weight,
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

    fn came(&mut self, size: u64, now_ns: u64) {
        self.made += Weight::one(size);
        self.live += Weight::one(size);
        if self.live.bytes >= self.most.bytes {
            self.most = self.live;
        }
        self.live_since_ns = self.live_since_ns.wrapping_add(now_ns);
    }

    fn went(&mut self, size: u64, made_ns: u64, now_ns: u64) {
        self.live -= Weight::one(size);
        self.live_since_ns = self.live_since_ns.wrapping_sub(made_ns);
        self.lifetime_ns += now_ns.saturating_sub(made_ns);
    }

    pub(crate) fn made(&mut self, epoch: u64, size: u64, now_ns: u64) {
        self.keep(epoch);
        self.came(size, now_ns);
    }

    pub(crate) fn freed(&mut self, epoch: u64, size: u64, made_ns: u64, now_ns: u64) {
        self.keep(epoch);
        self.went(size, made_ns, now_ns);
    }

    pub(crate) fn replaced(&mut self, epoch: u64, size: u64, made_ns: u64, new_size: u64, now_ns: u64) {
        self.freed(epoch, size, made_ns, now_ns);
        self.came(new_size, now_ns);
    }

    /// What is live counts as if it ended at `end_ns`.
    pub(crate) fn numbers(&self, epoch: u64, end_ns: u64) -> OriginNumbers {
        let lived = self.live.blocks.wrapping_mul(end_ns).wrapping_sub(self.live_since_ns);
        OriginNumbers {
            made: self.made,
            lifetime_ns: self.lifetime_ns.wrapping_add(lived),
            most: self.most,
            at_peak: if self.epoch == epoch { self.kept } else { self.live },
            live: self.live,
        }
    }
}
