//! Finds the hot places of a profile: their source and code are kept.

use rustc_hash::FxHashMap;
use whyslow_profile::{LocationId, Profile};

/// Functions below this share of the main metric keep neither source nor code: one in a thousand.
const NOTABLE: u64 = 1000;

/// Values of the main metric per location.
#[derive(Debug, Default)]
pub(crate) struct Heat {
    /// All samples together.
    pub total: u64,
    /// Samples taken at the location.
    pub own: FxHashMap<LocationId, u64>,
    /// Samples taken at the location or in its callees.
    pub inclusive: FxHashMap<LocationId, u64>,
}

impl Heat {
    /// Adds up the samples of the main metric.
    pub(crate) fn of(profile: &Profile) -> Self {
        let mut heat = Self::default();
        let Some((_, samples)) = profile.main_samples() else { return heat };
        let mut nodes = vec![0_u64; profile.stacks.len()];
        for (stack, &value) in samples.stack.iter().zip(&samples.value) {
            let Some(node) = nodes.get_mut(stack.index()) else { continue };
            *node = node.saturating_add(value);
            heat.total = heat.total.saturating_add(value);
        }
        for (index, &value) in nodes.iter().enumerate().filter(|(_, value)| **value > 0) {
            *heat.own.entry(profile.stacks.location(index.into())).or_default() += value;
        }
        // Parents precede their children, so one pass from the end carries every value to the root.
        for index in (0..nodes.len()).rev() {
            let value = nodes[index];
            if value == 0 {
                continue;
            }
            *heat.inclusive.entry(profile.stacks.location(index.into())).or_default() += value;
            if let Some(parent) = profile.stacks.parent(index.into()) {
                nodes[parent.index()] = nodes[parent.index()].saturating_add(value);
            }
        }
        heat
    }

    /// Whether a value is worth showing.
    pub(crate) fn is_notable(&self, value: u64) -> bool {
        value > 0 && value.saturating_mul(NOTABLE) >= self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_profile::{RelativeAddress, Samples, ThreadId};

    #[test]
    fn values_are_added_up_to_the_root() {
        let mut profile = Profile::default();
        let outer = profile.locations.push(None, RelativeAddress(1));
        let inner = profile.locations.push(None, RelativeAddress(2));
        let root = profile.stacks.push(None, outer);
        let leaf = profile.stacks.push(Some(root), inner);
        let mut samples = Samples::default();
        samples.push(0, ThreadId(0), leaf, 2000);
        samples.push(1, ThreadId(0), root, 1);
        let name = profile.strings.push(whyslow_profile::Metric::CPU_TIME);
        profile.metrics.push(whyslow_profile::Metric::cpu_time(Default::default()).renamed(name));
        profile.samples.push(samples);
        let heat = Heat::of(&profile);
        assert_eq!((heat.total, heat.own[&outer], heat.own[&inner]), (2001, 1, 2000));
        assert_eq!((heat.inclusive[&outer], heat.inclusive[&inner]), (2001, 2000));
        assert!(heat.is_notable(3) && !heat.is_notable(2) && !heat.is_notable(0));
    }
}
