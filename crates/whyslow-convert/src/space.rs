//! Where a process has the code of modules mapped.

use std::sync::Arc;

use whyslow_numbers::{RelativeAddress, RunTimeAddress};

use crate::modules::ModuleIndex;

/// A range of addresses that executes a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) start: RunTimeAddress,
    pub(crate) end: RunTimeAddress,
    pub(crate) module: ModuleIndex,
    /// The relative address of `start`.
    pub(crate) relative: RelativeAddress,
}

impl Mapping {
    /// The relative address of an address in it.
    #[inline]
    pub(crate) fn relative_address(&self, address: RunTimeAddress) -> RelativeAddress {
        self.relative.plus(address.behind(self.start))
    }
}

/// The executable mappings of one process. A forked process shares its parent's until one of them maps
/// something.
#[derive(Debug, Clone, Default)]
pub(crate) struct AddressSpace {
    /// Sorted, without overlaps.
    mappings: Arc<Vec<Mapping>>,
    /// How often they have changed.
    version: u64,
}

impl AddressSpace {
    /// Changes whenever the mappings do.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Adds a mapping. Removes the parts of older mappings that it covers.
    pub(crate) fn insert(&mut self, new: Mapping) {
        if new.start >= new.end {
            return;
        }
        self.version += 1;
        let mappings = Arc::make_mut(&mut self.mappings);
        let first = mappings.partition_point(|old| old.end <= new.start);
        let after = mappings.partition_point(|old| old.start < new.end).max(first);
        let before = mappings.get(first).filter(|old| old.start < new.start);
        let before = before.map(|old| Mapping { end: new.start, ..*old });
        let behind = after.checked_sub(1).filter(|last| *last >= first).map(|last| mappings[last]);
        let behind = behind.filter(|old| old.end > new.end).map(|old| Mapping {
            start: new.end,
            relative: old.relative_address(new.end),
            ..old
        });
        mappings.splice(first..after, before.into_iter().chain([new]).chain(behind));
    }

    /// The number of mappings.
    pub(crate) fn len(&self) -> usize {
        self.mappings.len()
    }

    /// Whether another process shares them, so that a change needs a copy.
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.mappings) > 1
    }

    /// The mapping at an address.
    #[inline]
    pub(crate) fn find(&self, address: RunTimeAddress) -> Option<Mapping> {
        self.below(address).filter(|mapping| address < mapping.end)
    }

    /// The last mapping that begins at or before an address. Only its module can have data there: a module's
    /// data follows its code, and the loader keeps the addresses of a module together.
    pub(crate) fn below(&self, address: RunTimeAddress) -> Option<Mapping> {
        let at = self.mappings.partition_point(|mapping| mapping.start <= address).checked_sub(1)?;
        self.mappings.get(at).copied()
    }

    /// Reassigns all mappings of one module to another, once it is known what its code is.
    pub(crate) fn replace_module(&mut self, old: ModuleIndex, new: ModuleIndex) {
        self.version += 1;
        Arc::make_mut(&mut self.mappings)
            .iter_mut()
            .filter(|mapping| mapping.module == old)
            .for_each(|mapping| mapping.module = new);
    }

    /// Puts these mappings on top of older ones.
    pub(crate) fn put_on(&mut self, older: Self) {
        let newer = std::mem::replace(self, older);
        self.version = self.version.max(newer.version) + 1;
        newer.mappings.iter().for_each(|mapping| self.insert(*mapping));
    }

    pub(crate) fn clear(&mut self) {
        self.version += 1;
        self.mappings = Arc::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64, module: u32, relative: u64) -> Mapping {
        let [start, end] = [start, end].map(RunTimeAddress);
        Mapping { start, end, module: ModuleIndex(module), relative: RelativeAddress(relative) }
    }

    #[test]
    fn a_new_mapping_replaces_the_parts_it_covers() {
        let mut space = AddressSpace::default();
        space.insert(mapping(0x1000, 0x5000, 1, 0));
        space.insert(mapping(0x2000, 0x3000, 2, 0x100));
        assert_eq!(space.find(RunTimeAddress(0x1fff)), Some(mapping(0x1000, 0x2000, 1, 0)));
        assert_eq!(space.find(RunTimeAddress(0x2000)), Some(mapping(0x2000, 0x3000, 2, 0x100)));
        assert_eq!(space.find(RunTimeAddress(0x3000)), Some(mapping(0x3000, 0x5000, 1, 0x2000)));
        assert_eq!(space.find(RunTimeAddress(0x5000)), None);
        assert_eq!(space.find(RunTimeAddress(0xfff)), None);
        assert_eq!(
            space.find(RunTimeAddress(0x3010)).unwrap().relative_address(RunTimeAddress(0x3010)),
            RelativeAddress(0x2010)
        );
        let fork = space.clone();
        space.insert(mapping(0x1800, 0x6000, 3, 0));
        assert_eq!(space.find(RunTimeAddress(0x17ff)), Some(mapping(0x1000, 0x1800, 1, 0)));
        assert_eq!(space.find(RunTimeAddress(0x5fff)), Some(mapping(0x1800, 0x6000, 3, 0)));
        assert_eq!((space.len(), fork.len()), (2, 3), "a fork keeps what it had");
        space.insert(mapping(0x8000, 0x9000, 4, 0));
        space.insert(mapping(0x0, 0x1000, 5, 0));
        space.insert(mapping(0x6000, 0x8000, 6, 0));
        assert_eq!(space.len(), 5);
        assert_eq!(space.find(RunTimeAddress(0x7000)), Some(mapping(0x6000, 0x8000, 6, 0)));
        space.insert(mapping(0x0, u64::MAX, 7, 0));
        assert_eq!((space.len(), space.find(RunTimeAddress(0x1234))), (1, Some(mapping(0, u64::MAX, 7, 0))));
    }
}
