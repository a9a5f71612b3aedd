//! What is told of a line whose blocks grow step by step.

use super::{Capacity, CapacityAdvice, Grower, SiteRow};
use crate::remark::{About, Fact, Remark};
use crate::units::{Count, bytes};

whyslow_profile::facts! {
    /// Whether one allocation would do where a block grows step by step.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Advice {
        /// A capacity would spare growing.
        "reserve-capacity" => Reserve {
            /// What grows.
            grower: Grower,
            /// Which capacity.
            capacity: Capacity,
            /// Whether nothing would have to grow any more.
            spares_all: bool,
        },
        /// No capacity fits: blocks become too different in size.
        "no-capacity-fits" => NoFit {
            /// Half of the blocks stay at this size or below.
            half_within: u64,
        },
    }
}

impl SiteRow {
    /// What is to be told of how its blocks grow.
    pub fn told(&self) -> Option<Advice> {
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
                format!("no capacity fits them all, half stay within {}", bytes(*half_within))
            }
            Self::Reserve { grower, capacity, spares_all } => {
                let size = bytes(capacity.bytes);
                let at_once = match grower {
                    Grower::Vec | Grower::String => format!("with_capacity for {size}"),
                    Grower::Block => format!("{size} at once"),
                };
                let spared = if *spares_all {
                    "all of that".to_owned()
                } else {
                    let (spared, copied) =
                        (Count(capacity.spared_reallocations), bytes(capacity.spared_bytes));
                    format!("{spared} of the reallocations and {copied} of the copying")
                };
                let cost = match capacity.typical_unused {
                    0 => "at no cost to a typical one".to_owned(),
                    unused => format!("and leave {} of a typical one unused", bytes(unused)),
                };
                format!("{at_once} would spare {spared}, {cost}")
            }
        };
        Remark::note(self.id(), About::Heap, text)
    }
}
