//! What an agent does in a program. The recorder names its purposes in [`crate::area::Header::purposes`], and
//! each purpose has its own part of the request:
//!
//! ```text
//! Heap       records allocations in rings       the request is area::HeapRequest, the records are `record`
//! Samples    samples CPU time                   the request and the samples are `sampler`
//! Causal     delays threads in experiments      the request and the accounts are `causal`
//! ```

/// A purpose of an agent.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Records allocations.
    Heap = 0,
    /// Samples CPU time.
    Samples = 1,
    /// Delays threads in experiments.
    Causal = 2,
}

/// Some purposes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Purposes(u32);

impl Purposes {
    /// No purpose.
    pub const NONE: Self = Self(0);

    /// These purposes and one more.
    #[must_use]
    pub const fn and(self, purpose: Purpose) -> Self {
        Self(self.0 | 1 << purpose as u32)
    }

    /// Whether a purpose is among them.
    #[inline]
    pub const fn has(self, purpose: Purpose) -> bool {
        self.0 & 1 << purpose as u32 != 0
    }

    /// The purposes as they are in the area. Bits without a purpose are kept.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The purposes of these bits.
    pub const fn of_bits(bits: u32) -> Self {
        Self(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purposes_are_a_set() {
        let both = Purposes::NONE.and(Purpose::Heap).and(Purpose::Samples);
        assert!(both.has(Purpose::Heap) && both.has(Purpose::Samples));
        let samples = Purposes::NONE.and(Purpose::Samples);
        assert!(!samples.has(Purpose::Heap) && samples.and(Purpose::Samples) == samples);
        assert_eq!(Purposes::of_bits(both.bits()), both);
    }
}
