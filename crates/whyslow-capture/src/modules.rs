//! The code that was mapped: modules, and where each process has them.

use std::path::PathBuf;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use whyslow_elf::FileBytes;
use whyslow_proc::{DELETED, kernel};
use whyslow_profile::{
    Builder, LocationId, Module, ModuleId, ModuleKind, Optimised, RelativeAddress, SymbolState,
};
use whyslow_unwind::{Image, Unwinder, is_after_call, is_trampoline};

use crate::reach::{self, Reached};

/// The kernel's and the vdso's names in recordings.
pub(crate) const KERNEL: &str = "[kernel.kallsyms]";
pub(crate) const VDSO: &str = "[vdso]";

/// A module and its unwind rules.
#[derive(Debug)]
pub(crate) struct CodeModule {
    pub(crate) id: ModuleId,
    pub(crate) unwinder: Unwinder<LocationId>,
}

/// A module's number in [`Modules`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ModuleIndex(u32);

/// What a mapping says about its file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct FileKey {
    pub(crate) path: String,
    pub(crate) device: (u32, u32),
    pub(crate) inode: u64,
}

/// A mapping of a file into a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileMapping {
    pub(crate) key: FileKey,
    /// Tells files apart that had the same inode number one after the other; 0 when it is not known.
    pub(crate) generation: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The offset in the file of `start`.
    pub(crate) offset: u64,
}

impl From<whyslow_proc::Mapping> for FileMapping {
    fn from(mapping: whyslow_proc::Mapping) -> Self {
        let whyslow_proc::Mapping { start, end, offset, device, inode, name, .. } = mapping;
        Self { key: FileKey { path: name, device, inode }, generation: 0, start, end, offset }
    }
}

/// All modules of a recording, over all processes.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    rows: Vec<CodeModule>,
    /// The last file of each key, and its generation.
    by_file: FxHashMap<FileKey, (ModuleIndex, u64)>,
    kernel: Option<ModuleIndex>,
    vdso: Option<ModuleIndex>,
    /// Set when the modules were mapped at another time, maybe on another machine.
    pub(crate) recorded: Option<RecordedFiles>,
}

/// What a recording tells of the files in it.
#[derive(Debug, Default)]
pub(crate) struct RecordedFiles {
    /// Build ids by path, in hexadecimal.
    pub(crate) build_ids: FxHashMap<String, String>,
    /// Whether the kernel that runs now is the one of the recording.
    pub(crate) same_kernel: bool,
    /// A folder with copies of the files.
    pub(crate) copies: Option<PathBuf>,
    /// Files that are there, but are not the recorded ones.
    pub(crate) changed: Vec<String>,
    /// Files that were taken although nothing proves them to be the recorded ones.
    pub(crate) unproven: Vec<String>,
}

impl RecordedFiles {
    /// The file, if it is the one that was recorded, and its build id.
    fn open(&mut self, path: &str) -> (Option<Image>, Option<String>) {
        let build_id = self.build_ids.get(path).cloned();
        let copies = self.copies.iter().flat_map(|folder| whyslow_profile::copies_in(folder, path));
        let files = copies.chain([PathBuf::from(path)]).filter_map(|path| Image::open(&path).ok());
        let mut found = false;
        for image in files {
            found = true;
            match &build_id {
                Some(recorded) if image.build_id().is_none_or(|id| !id.is(recorded)) => {}
                Some(_) => return (Some(image), build_id),
                None => {
                    self.unproven.push(path.to_owned());
                    return (Some(image), None);
                }
            }
        }
        if found {
            self.changed.push(path.to_owned());
        }
        (None, build_id)
    }
}

impl Modules {
    pub(crate) fn get_mut(&mut self, index: ModuleIndex) -> &mut CodeModule {
        &mut self.rows[index.0 as usize]
    }

    pub(crate) fn get(&self, index: ModuleIndex) -> &CodeModule {
        &self.rows[index.0 as usize]
    }

    /// Where a stack begins that could not be followed beyond a call at this address, if it begins there: in entry code, where a runtime changes
    /// stacks, or at a return address that no call has left; whoever made the stack put that there.
    pub(crate) fn stack_begin(&self, module: ModuleId, call: RelativeAddress) -> Option<RelativeAddress> {
        let image = self.rows.iter().find(|row| row.id == module)?.unwinder.image()?;
        if image.is_entry_code(call.0) || image.starts_stack(call.0) {
            return Some(call);
        }
        const LONGEST_CALL: usize = 8;
        let returns_to = call.0.wrapping_add(1);
        let before = image.code_at(returns_to.wrapping_sub(LONGEST_CALL as u64), LONGEST_CALL);
        let planted = before.len() == LONGEST_CALL && !is_after_call(before) && !is_trampoline(image, call.0);
        planted.then_some(RelativeAddress(returns_to))
    }

    /// The module of a mapped file.
    pub(crate) fn file(
        &mut self,
        builder: &mut Builder,
        pid: u32,
        mapping: FileMapping,
        kind: ModuleKind,
    ) -> ModuleIndex {
        if let Some(known) = self.known(&mapping) {
            return known;
        }
        let FileKey { path, .. } = &mapping.key;
        let (path, image, build_id) = match &mut self.recorded {
            Some(files) => {
                let (image, build_id) = files.open(path);
                (path.clone(), image, build_id)
            }
            None => match reach::reach(pid, &mapping) {
                Reached::File(file) => (path.clone(), Image::from_file(file).ok(), None),
                // So that nobody takes what has this name now for it.
                Reached::Gone if !path.ends_with(DELETED) => (format!("{path}{DELETED}"), None, None),
                Reached::Gone | Reached::Unreadable => (path.clone(), None, None),
            },
        };
        let index = self.add(builder, &path, kind, image, build_id);
        self.by_file.insert(mapping.key, (index, mapping.generation));
        index
    }

    /// The module of a file that never had a name, if it is a program and not a place for run-time code.
    pub(crate) fn nameless_file(
        &mut self,
        builder: &mut Builder,
        pid: u32,
        mapping: FileMapping,
        kind: ModuleKind,
    ) -> Option<ModuleIndex> {
        if let Some(known) = self.known(&mapping) {
            return Some(known);
        }
        if self.recorded.is_some() {
            return None;
        }
        let Reached::File(file) = reach::reach(pid, &mapping) else { return None };
        let image = Image::from_file(file).ok()?;
        image.relative_address(mapping.offset)?;
        let index = self.add(builder, &mapping.key.path, kind, Some(image), None);
        self.by_file.insert(mapping.key, (index, mapping.generation));
        Some(index)
    }

    fn known(&self, mapping: &FileMapping) -> Option<ModuleIndex> {
        let &(index, generation) = self.by_file.get(&mapping.key)?;
        let same = generation == mapping.generation || generation == 0 || mapping.generation == 0;
        same.then_some(index)
    }

    /// The files that were mapped, for those who look up symbols: their names may lead elsewhere by then.
    pub(crate) fn files(&self) -> Vec<(ModuleId, FileBytes)> {
        let file = |row: &CodeModule| Some((row.id, row.unwinder.image()?.file()?.clone()));
        self.rows.iter().filter_map(file).collect()
    }

    /// The kernel.
    pub(crate) fn kernel(&mut self, builder: &mut Builder) -> ModuleIndex {
        if let Some(known) = self.kernel {
            return known;
        }
        let build_id = match &self.recorded {
            None => kernel::build_id().map(|id| id.to_string()),
            Some(files) if files.same_kernel => kernel::build_id().map(|id| id.to_string()),
            // No kernel has this one, so that no other kernel's names are taken for it.
            Some(files) => Some(files.build_ids.get(KERNEL).map_or("unknown", String::as_str).to_owned()),
        };
        let index = self.add(builder, "[kernel]", ModuleKind::Kernel, None, build_id);
        self.kernel = Some(index);
        index
    }

    /// The vdso. It is the same code in every process, so our own copy serves.
    pub(crate) fn vdso(&mut self, builder: &mut Builder) -> ModuleIndex {
        if let Some(known) = self.vdso {
            return known;
        }
        let image = kernel::vdso().ok().and_then(|bytes| Image::from_bytes(bytes).ok());
        let recorded = self.recorded.as_ref();
        let (image, build_id) = match recorded.map(|files| (files.build_ids.get(VDSO), files.same_kernel)) {
            None | Some((None, true)) => (image, None),
            Some((None, false)) => (None, Some("unknown".to_owned())),
            Some((Some(id), _)) => {
                let same = |image: &Image| image.build_id().is_some_and(|own| own.is(id));
                (image.filter(same), Some(id.clone()))
            }
        };
        let index = self.add(builder, VDSO, ModuleKind::Vdso, image, build_id);
        self.vdso = Some(index);
        index
    }

    /// Code that a process makes at run time, described by a jitdump file if it writes one.
    pub(crate) fn jit(&mut self, builder: &mut Builder, pid: u32, dump: Option<&str>) -> ModuleIndex {
        let path = dump.map_or_else(|| format!("[jit:{pid}]"), str::to_owned);
        self.add(builder, &path, ModuleKind::Jit, None, None)
    }

    /// Notes the build id that a record has of a file.
    pub(crate) fn tell_build_id(&mut self, path: &str, build_id: &[u8]) {
        if let Some(files) = self.recorded.as_mut().filter(|files| !files.build_ids.contains_key(path)) {
            files.build_ids.insert(path.to_owned(), whyslow_elf::hex(build_id));
        }
    }

    fn add(
        &mut self,
        builder: &mut Builder,
        path: &str,
        kind: ModuleKind,
        image: Option<Image>,
        build_id: Option<String>,
    ) -> ModuleIndex {
        let build_id =
            build_id.or_else(|| image.as_ref().and_then(|image| image.build_id().map(ToString::to_string)));
        let module = Module {
            path: builder.string(path),
            build_id: build_id.map(|build_id| builder.string(&build_id)),
            kind,
            symbols: SymbolState::NotLoaded,
            optimised: Optimised::Unknown,
        };
        let id = builder.module(module);
        self.rows.push(CodeModule { id, unwinder: Unwinder::new(image) });
        ModuleIndex(self.rows.len() as u32 - 1)
    }
}

/// A range of addresses that executes a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) module: ModuleIndex,
    /// The relative address of `start`.
    pub(crate) relative: u64,
}

impl Mapping {
    /// Where a run-time address lies in the module.
    #[inline]
    pub(crate) fn relative_address(&self, address: u64) -> RelativeAddress {
        RelativeAddress(self.relative.wrapping_add(address.wrapping_sub(self.start)))
    }
}

/// The executable mappings of one process. A fork shares its parent's until one of them maps something.
#[derive(Debug, Clone, Default)]
pub(crate) struct AddressSpace {
    /// Sorted, without overlaps.
    mappings: Arc<Vec<Mapping>>,
}

impl AddressSpace {
    /// Adds a mapping; what it covers of older ones is gone.
    pub(crate) fn insert(&mut self, new: Mapping) {
        if new.start >= new.end {
            return;
        }
        let mappings = Arc::make_mut(&mut self.mappings);
        let first = mappings.partition_point(|old| old.end <= new.start);
        let after = mappings.partition_point(|old| old.start < new.end).max(first);
        let before = mappings.get(first).filter(|old| old.start < new.start);
        let before = before.map(|old| Mapping { end: new.start, ..*old });
        let behind = after.checked_sub(1).filter(|last| *last >= first).map(|last| mappings[last]);
        let behind = behind.filter(|old| old.end > new.end).map(|old| Mapping {
            start: new.end,
            relative: old.relative.wrapping_add(new.end - old.start),
            ..old
        });
        mappings.splice(first..after, before.into_iter().chain([new]).chain(behind));
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.mappings.len()
    }

    /// Whether another process has the same ones, and a change needs a copy of them.
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.mappings) > 1
    }

    /// The mapping at an address.
    #[inline]
    pub(crate) fn find(&self, address: u64) -> Option<Mapping> {
        let at = self.mappings.partition_point(|mapping| mapping.start <= address).checked_sub(1)?;
        self.mappings.get(at).copied().filter(|mapping| address < mapping.end)
    }

    /// Lets every mapping of one module be of another: what its code is has become known.
    pub(crate) fn replace_module(&mut self, old: ModuleIndex, new: ModuleIndex) {
        Arc::make_mut(&mut self.mappings)
            .iter_mut()
            .filter(|mapping| mapping.module == old)
            .for_each(|mapping| mapping.module = new);
    }

    pub(crate) fn clear(&mut self) {
        self.mappings = Arc::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64, module: u32, relative: u64) -> Mapping {
        Mapping { start, end, module: ModuleIndex(module), relative }
    }

    #[test]
    fn a_new_mapping_replaces_what_it_covers() {
        let mut space = AddressSpace::default();
        space.insert(mapping(0x1000, 0x5000, 1, 0));
        space.insert(mapping(0x2000, 0x3000, 2, 0x100));
        assert_eq!(space.find(0x1fff), Some(mapping(0x1000, 0x2000, 1, 0)));
        assert_eq!(space.find(0x2000), Some(mapping(0x2000, 0x3000, 2, 0x100)));
        assert_eq!(space.find(0x3000), Some(mapping(0x3000, 0x5000, 1, 0x2000)));
        assert_eq!(space.find(0x5000), None);
        assert_eq!(space.find(0xfff), None);
        assert_eq!(space.find(0x3010).unwrap().relative_address(0x3010), RelativeAddress(0x2010));
        let fork = space.clone();
        space.insert(mapping(0x1800, 0x6000, 3, 0));
        assert_eq!(space.find(0x17ff), Some(mapping(0x1000, 0x1800, 1, 0)));
        assert_eq!(space.find(0x5fff), Some(mapping(0x1800, 0x6000, 3, 0)));
        assert_eq!((space.len(), fork.len()), (2, 3), "a fork keeps what it had");
        space.insert(mapping(0x8000, 0x9000, 4, 0));
        space.insert(mapping(0x0, 0x1000, 5, 0));
        space.insert(mapping(0x6000, 0x8000, 6, 0));
        assert_eq!(space.len(), 5);
        assert_eq!(space.find(0x7000), Some(mapping(0x6000, 0x8000, 6, 0)));
        space.insert(mapping(0x0, u64::MAX, 7, 0));
        assert_eq!((space.len(), space.find(0x1234)), (1, Some(mapping(0, u64::MAX, 7, 0))));
    }
}
