//! Advice on lines whose blocks grow step by step.

use super::{Capacity, CapacityAdvice, Grower, SiteRow};
use whyslow_words::{About, Fact, Remark};
use whyslow_words::{Count, bytes};

whyslow_profile::facts! {
    /// Whether reserving capacity would replace step-by-step growth.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Advice {
        /// A capacity would save reallocations.
        "reserve-capacity" => Reserve {
            /// What grows.
            grower: Grower,
            /// Which capacity.
            capacity: Capacity,
            /// Whether no block would have to grow any more.
            spares_all: bool,
        },
        /// No capacity fits: final block sizes differ too much.
        "no-capacity-fits" => NoFit {
            /// Half of the blocks end at this size or below.
            half_within: u64,
        },
    }
}

impl SiteRow {
    /// Advice on how its blocks grow; `None` if there is nothing to say.
    pub fn capacity_advice(&self) -> Option<Advice> {
        match self.advice {
            CapacityAdvice::Silent => None,
            CapacityAdvice::NoFit { half_within } => Some(Advice::NoFit { half_within }),
            CapacityAdvice::Reserve(capacity) => {
                let spares_all = capacity.spared_reallocations == self.counts.grown;
                Some(Advice::Reserve { grower: self.grower, capacity, spares_all })
            }
        }
    }
}

impl Fact for Advice {
    fn remark(&self) -> Remark {
        let text = match self {
            Self::NoFit { half_within } => {
                format!("no single capacity fits: half of them end at {} or less", bytes(*half_within))
            }
            Self::Reserve { grower, capacity, spares_all } => {
                let size = bytes(capacity.bytes);
                let at_once = match grower {
                    Grower::Vec | Grower::String => format!("`with_capacity` for {size}"),
                    Grower::Block => format!("allocating {size} at once"),
                };
                let spared = if *spares_all {
                    "all of these reallocations".to_owned()
                } else {
                    let (spared, copied) =
                        (Count(capacity.spared_reallocations), bytes(capacity.spared_bytes));
                    format!("{spared} reallocations and copying {copied}")
                };
                let cost = match capacity.typical_unused {
                    0 => "with nothing unused in a typical block".to_owned(),
                    unused => format!("but leave {} unused in a typical block", bytes(unused)),
                };
                format!("{at_once} would save {spared}, {cost}")
            }
        };
        Remark::note(self.id(), About::Heap, text)
    }
}
