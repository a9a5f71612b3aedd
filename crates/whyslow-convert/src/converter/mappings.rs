//! The code and files that processes map.

use std::ops::Range;

use rustc_hash::FxHashMap;
use whyslow_elf::FileBytes;
use whyslow_numbers::{RelativeAddress, RunTimeAddress};
use whyslow_processor::Processor;
use whyslow_profile::{LocationId, ModuleId, ModuleKind};

use super::tables::Tables;
use crate::arch::Convertible;
use crate::mapped_as::MappedAs;
use crate::modules::{CodeModule, ModuleIndex, Modules, VDSO};
use crate::space::{AddressSpace, Mapping};
use crate::world::{FileMapping, World};

/// All addresses.
const ANYWHERE: Range<RunTimeAddress> = RunTimeAddress(0)..RunTimeAddress(u64::MAX);

/// Limits on the memory that a source can make the converter use. The kernel limits what live processes map;
/// a file can claim anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Mappings of one process.
    pub mappings: usize,
    /// Mappings that may be copied, over all processes, when a forked process changes what it shares with its
    /// parent.
    pub copies: usize,
}

impl Limits {
    /// For records of the running kernel.
    pub const NONE: Self = Self { mappings: usize::MAX, copies: usize::MAX };
    /// For records from a file. The kernel allows a process about as many mappings.
    pub const OF_A_FILE: Self = Self { mappings: 1 << 16, copies: 4 << 20 };

    /// Whether a process may have one more mapping.
    fn may_map(&mut self, space: &AddressSpace) -> bool {
        (!space.is_shared() || self.may_copy(space)) && space.len() < self.mappings
    }

    /// Whether all mappings of a process may be copied.
    fn may_copy(&mut self, space: &AddressSpace) -> bool {
        let left = self.copies.checked_sub(space.len());
        self.copies = left.unwrap_or(self.copies);
        left.is_some()
    }
}

/// What a process has mapped.
#[derive(Debug, Default)]
struct Mapped {
    space: AddressSpace,
    /// Set between an exec and the first mapping of its program.
    expects_program: bool,
    /// The module of its run-time code.
    jit: Option<ModuleIndex>,
}

/// The code of all processes.
#[derive(Debug)]
pub(super) struct Mappings {
    modules: Modules,
    processes: FxHashMap<u32, Mapped>,
    limits: Limits,
    /// The address of the kernel's `_text`.
    kernel_base: RunTimeAddress,
    /// The addresses that the kernel's symbols cover.
    kernel_code: Range<RunTimeAddress>,
}

impl Mappings {
    /// No mappings yet, in a recording of this processor.
    pub(super) fn new(processor: Processor, kernel_base: RunTimeAddress, limits: Limits) -> Self {
        let (modules, processes) = (Modules::new(processor), FxHashMap::default());
        Self { modules, processes, limits, kernel_base, kernel_code: ANYWHERE }
    }

    /// A process has started, with the mappings of its parent.
    pub(super) fn process_started(&mut self, pid: u32, parent: Option<u32>) {
        let parent = parent.and_then(|parent| self.processes.get(&parent));
        let space = parent.map(|parent| parent.space.clone()).unwrap_or_default();
        self.processes.insert(pid, Mapped { space, ..Mapped::default() });
    }

    /// The fork of a process is known only now: it also has the mappings of its parent.
    pub(super) fn inherit(&mut self, pid: u32, parent: u32) {
        let Some(space) = self.processes.get(&parent).map(|parent| parent.space.clone()) else { return };
        let Self { processes, limits, .. } = self;
        match processes.get_mut(&pid) {
            Some(process) if process.space.len() == 0 => process.space = space,
            Some(process) if limits.may_copy(&space) => process.space.put_on(space),
            _ => {}
        }
    }

    /// A process executes a program: nothing is mapped any more.
    pub(super) fn executed(&mut self, pid: u32) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.space.clear();
            process.expects_program = true;
            process.jit = None;
        }
    }

    /// A process has exited. Returns whether it never mapped the program that it executed.
    pub(super) fn process_ended(&mut self, pid: u32) -> bool {
        let process = self.processes.get_mut(&pid);
        process.is_some_and(|process| std::mem::take(&mut process.expects_program))
    }

    /// Forgets the mappings of a process.
    pub(super) fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }

    /// Sets the address range of the kernel's own code, starting at its `_text`.
    pub(super) fn kernel_mapped(
        &mut self,
        world: &mut impl World,
        text: RunTimeAddress,
        end: RunTimeAddress,
    ) {
        self.kernel_base = text;
        self.kernel_code = if world.is_kernel_at(text) { ANYWHERE } else { text..end };
    }

    /// Whether a mapping of a process with this name is the program's own file: the first after an exec, or, if the
    /// exec was not recorded, the one that the process is named after.
    pub(super) fn is_program(&mut self, pid: u32, comm: Option<&str>, path: &str) -> bool {
        const LONGEST_COMM: usize = 15;
        let (Some(process), Some(comm)) = (self.processes.get_mut(&pid), comm) else { return false };
        if !path.starts_with('/') {
            return false;
        }
        if std::mem::take(&mut process.expects_program) {
            return true;
        }
        let name = path.rsplit('/').next().unwrap_or(path).as_bytes();
        &name[..name.len().min(LONGEST_COMM)] == comm.as_bytes()
    }

    /// Adds an executable mapping to a process.
    pub(super) fn map(
        &mut self,
        world: &mut impl World,
        tables: &mut Tables,
        pid: u32,
        mapping: FileMapping,
        kind: ModuleKind,
    ) {
        let FileMapping { start, end, offset, .. } = mapping;
        let Self { processes, modules, limits, .. } = self;
        let Some(process) = processes.get_mut(&pid) else { return };
        if !limits.may_map(&process.space) {
            tables.counters.lost_records += 1;
            return;
        }
        let builder = &mut tables.builder;
        let described = MappedAs::from_path(&mapping.key.path);
        let file = match described {
            MappedAs::Vdso => Some(modules.vdso(builder, world)),
            MappedAs::JitDump => {
                // By mapping this file, the program announces that it describes its run-time code.
                let described = modules.jit(builder, pid, Some(&mapping.key.path));
                if let Some(undescribed) = process.jit.replace(described) {
                    process.space.replace_module(undescribed, described);
                }
                return;
            }
            MappedAs::Anonymous => None,
            MappedAs::Memfd => modules.nameless_file(builder, world, pid, mapping, kind),
            MappedAs::File => Some(modules.file(builder, world, pid, mapping, kind)),
        };
        let (module, relative) = match file {
            Some(module) if described == MappedAs::Vdso => (module, RelativeAddress(0)),
            Some(module) => {
                let image = modules.image(module);
                let known = image.and_then(|image| image.relative_address(offset));
                (module, known.unwrap_or(RelativeAddress(offset)))
            }
            // Code that is made at run time has no file: its addresses count from 0.
            None => {
                let jit = *process.jit.get_or_insert_with(|| modules.jit(builder, pid, None));
                (jit, RelativeAddress(start.0))
            }
        };
        process.space.insert(Mapping { start, end, module, relative });
    }

    /// The module data that an address of a process lies in, if any. Data mappings are not recorded, and
    /// zero-initialised data has no file, so the extent of the data comes from the module's own headers.
    pub(super) fn data_at(&self, pid: u32, address: RunTimeAddress) -> Option<(ModuleId, RelativeAddress)> {
        let mapping = self.processes.get(&pid)?.space.below(address)?;
        let relative = mapping.relative_address(address);
        let is_data = self.modules.image(mapping.module)?.is_data(relative);
        is_data.then(|| (self.modules.id(mapping.module), relative))
    }

    /// The code of a process and where it is mapped, if the recording is of this processor.
    pub(super) fn of<A: Convertible>(&mut self, pid: u32) -> Option<(&mut [CodeModule<A>], &AddressSpace)> {
        let modules = A::modules(&mut self.modules.rows)?;
        Some((modules, &self.processes.get(&pid)?.space))
    }

    /// Where a process has code mapped; `None` if the process is not known.
    pub(super) fn space(&self, pid: u32) -> Option<&AddressSpace> {
        self.processes.get(&pid).map(|process| &process.space)
    }

    /// The location of an address in a mapping.
    pub(super) fn location(
        &self,
        tables: &mut Tables,
        mapping: Mapping,
        address: RunTimeAddress,
    ) -> LocationId {
        let module = self.modules.id(mapping.module);
        tables.builder.location(Some(module), mapping.relative_address(address))
    }

    /// The location of an address in the kernel. Kernel modules move with every boot, so their addresses are only
    /// meaningful while that kernel runs.
    pub(super) fn kernel_location(
        &mut self,
        world: &mut impl World,
        tables: &mut Tables,
        address: RunTimeAddress,
    ) -> LocationId {
        let module = self.modules.kernel(&mut tables.builder, world);
        if !self.kernel_code.contains(&address) {
            return tables.builder.location(None, RelativeAddress(address.0));
        }
        let relative = RelativeAddress(address.behind(self.kernel_base));
        tables.builder.location(Some(self.modules.id(module)), relative)
    }

    /// The module of a file that a process has mapped.
    pub(super) fn module(
        &mut self,
        world: &mut impl World,
        tables: &mut Tables,
        pid: u32,
        path: &str,
        kind: ModuleKind,
    ) -> ModuleId {
        let (modules, builder) = (&mut self.modules, &mut tables.builder);
        let index = if path == VDSO {
            modules.vdso(builder, world)
        } else {
            let key = world.identify(pid, path);
            let mapping = FileMapping {
                key,
                generation: 0,
                start: RunTimeAddress(0),
                end: RunTimeAddress(0),
                offset: 0,
            };
            modules.file(builder, world, pid, mapping, kind)
        };
        modules.id(index)
    }

    /// The files of the modules, which may be deleted by now.
    pub(super) fn files(&self) -> Vec<(ModuleId, FileBytes)> {
        self.modules.files()
    }

    /// The start of a stack that could not be followed beyond a call at this address of a module, if the
    /// stack starts there.
    pub(super) fn stack_begin(&self, module: ModuleId, call: RelativeAddress) -> Option<RelativeAddress> {
        self.modules.stack_begin(module, call)
    }
}

#[cfg(test)]
mod tests;
