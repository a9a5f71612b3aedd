//! The code and files that processes map.

use whyslow_elf::FileBytes;
use whyslow_profile::{ModuleId, ModuleKind, RelativeAddress};

use super::Converter;
use crate::input::Mapped;
use crate::mapped_as::MappedAs;
use crate::modules::VDSO;
use crate::space::{AddressSpace, Mapping};
use crate::world::{FileMapping, World};

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
    pub(super) fn may_copy(&mut self, space: &AddressSpace) -> bool {
        let left = self.copies.checked_sub(space.len());
        self.copies = left.unwrap_or(self.copies);
        left.is_some()
    }
}

impl<W: World> Converter<W> {
    pub(super) fn mapped(&mut self, mapped: &Mapped<'_>) {
        let Mapped { pid, tid, path, .. } = mapped;
        let Self { world, threads, processes, .. } = self;
        world.file_mapped(*pid, *tid, path, &super::task_rows(threads, processes));
        if !mapped.executable {
            return;
        }
        if let Some(build_id) = &mapped.build_id {
            self.world.build_id_recorded(path, build_id);
        }
        self.ensure_process(*pid, mapped.time_ns);
        let kind = if self.is_program(*pid, path) { ModuleKind::Program } else { ModuleKind::Library };
        self.map(*pid, mapped.file_mapping(), kind);
    }

    /// Sets the address range of the kernel's own code, starting at its `_text`.
    pub(super) fn kernel_mapped(&mut self, text: u64, end: u64) {
        self.kernel_base = text;
        self.kernel_code = if self.world.is_kernel_at(text) { 0..u64::MAX } else { text..end };
    }

    /// Whether a mapping is the program's own file: the first after an exec, or, if the exec was not
    /// recorded, the one that the process is named after.
    pub(super) fn is_program(&mut self, pid: u32, path: &str) -> bool {
        const LONGEST_COMM: usize = 15;
        let Some(process) = self.processes.get_mut(&pid) else { return false };
        if !path.starts_with('/') {
            return false;
        }
        if std::mem::take(&mut process.expects_program) {
            return true;
        }
        let name = path.rsplit('/').next().unwrap_or(path).as_bytes();
        let comm = self.builder.text(self.builder.process_row(process.id).name).as_bytes();
        &name[..name.len().min(LONGEST_COMM)] == comm
    }

    /// Adds an executable mapping to a process.
    pub(super) fn map(&mut self, pid: u32, mapping: FileMapping, kind: ModuleKind) {
        let FileMapping { start, end, offset, .. } = mapping;
        let Self { world, processes, modules, builder, counters, limits, .. } = self;
        let Some(process) = processes.get_mut(&pid) else { return };
        if !limits.may_map(&process.space) {
            counters.lost_records += 1;
            return;
        }
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
            Some(module) if described == MappedAs::Vdso => (module, 0),
            Some(module) => {
                let image = modules.image(module);
                (module, image.and_then(|image| image.relative_address(offset)).unwrap_or(offset))
            }
            None => (*process.jit.get_or_insert_with(|| modules.jit(builder, pid, None)), start),
        };
        process.space.insert(Mapping { start, end, module, relative });
    }

    /// The module data that an address of a process lies in, if any. Data mappings are not recorded, and
    /// zero-initialised data has no file, so the extent of the data comes from the module's own headers.
    pub(super) fn data_at(&self, pid: u32, address: u64) -> Option<(ModuleId, RelativeAddress)> {
        let mapping = self.processes.get(&pid)?.space.below(address)?;
        let relative = mapping.relative_address(address);
        let is_data = self.modules.image(mapping.module)?.is_data(relative.0);
        is_data.then(|| (self.modules.id(mapping.module), relative))
    }

    /// Whether a process has known code at an address.
    pub fn has_code(&self, pid: u32, address: u64) -> bool {
        self.processes.get(&pid).is_some_and(|process| process.space.find(address).is_some())
    }

    /// The module of a file that a process has mapped.
    pub fn module(&mut self, pid: u32, path: &str, kind: ModuleKind) -> ModuleId {
        let Self { world, modules, builder, .. } = self;
        let index = if path == VDSO {
            modules.vdso(builder, world)
        } else {
            let key = world.identify(pid, path);
            let mapping = FileMapping { key, generation: 0, start: 0, end: 0, offset: 0 };
            modules.file(builder, world, pid, mapping, kind)
        };
        modules.id(index)
    }

    /// The files of the modules, which may be deleted by now.
    pub fn files(&self) -> Vec<(ModuleId, FileBytes)> {
        self.modules.files()
    }

    /// The start of a stack that could not be followed beyond a call at this address of a module, if the
    /// stack starts there.
    pub fn stack_begin(&self, module: ModuleId, call: RelativeAddress) -> Option<RelativeAddress> {
        self.modules.stack_begin(module, call)
    }
}

#[cfg(test)]
mod tests {
    use whyslow_elf::Elf;
    use whyslow_elf::testing::Built;

    use super::*;
    use crate::testing::Recorded;
    use crate::world::FileKey;

    const APP: (u32, u32) = (100, 100);

    fn recorded() -> Recorded {
        let mut recorded = Recorded::new();
        recorded.converter.add_process(100, "app");
        recorded
    }

    #[test]
    fn a_sample_uses_the_mappings_of_its_time() {
        let mut recorded = recorded();
        recorded.sample_at(APP, 1, 0x1010);
        recorded.map(100, "/lib/first", 0x1000);
        recorded.sample_at(APP, 2, 0x1010);
        recorded.map(100, "/lib/second", 0x1000);
        recorded.sample_at(APP, 3, 0x1010);
        let has = |pid, address| recorded.converter.has_code(pid, address);
        assert!(has(100, 0x1010) && !has(100, 0x9999) && !has(101, 0x1010));
        assert_eq!(recorded.stacks(), ["?1010", "/lib/first+10", "/lib/second+10"]);
    }

    /// A file that was replaced while it was mapped: by one with another inode, or with the reused inode of
    /// the deleted one.
    #[test]
    fn a_replaced_file_is_another_module() {
        let mut recorded = recorded();
        for (at, file) in [(1, 0), (1, 0), (2, 0), (3, 7), (3, 7), (3, 8)].into_iter().enumerate() {
            recorded.map_file(100, "/lib/plugin", 0x1000 * (at as u64 + 1), file);
        }
        assert_eq!(recorded.profile().modules.len(), 4);
    }

    /// Two processes of one program share its module and all knowledge about it.
    #[test]
    fn one_file_is_one_module_in_all_processes() {
        let mut recorded = recorded();
        recorded.converter.add_process(200, "app");
        recorded.map(100, "/bin/app", 0x1000);
        recorded.map(200, "/bin/app", 0x7000);
        recorded.sample_at(APP, 1, 0x1010);
        recorded.sample_at((200, 200), 2, 0x7010);
        let profile = recorded.profile();
        assert_eq!(profile.modules.len(), 1);
        assert_eq!(profile.samples[0].stack[0], profile.samples[0].stack[1]);
    }

    /// The library has code at 0x1000, and data from 0x4000: 8 bytes in the file, then 0x2000 zeros.
    #[test]
    fn an_address_after_code_is_in_its_module_data_up_to_the_end_of_the_data() {
        let mut recorded = recorded();
        let file = Built::default().load(0x1000, b"code").data(0x4000, b"initials", 0x2000).bytes();
        let offset = Elf::parse(&file).unwrap().file_offset_of(0x1000).unwrap();
        recorded.converter.world.files.insert("/lib/first".to_owned(), file);
        let loaded_at = 0x7f00_0000;
        let key = FileKey { path: "/lib/first".to_owned(), device: (0, 0), inode: 0 };
        let (start, end) = (loaded_at, loaded_at + 0x1000);
        let mapping = FileMapping { key, generation: 0, start, end, offset };
        recorded.converter.map(100, mapping, ModuleKind::Library);
        recorded.map(100, "/lib/second", loaded_at + 0x1_0000);
        let at = |pid, relative| {
            let found = recorded.converter.data_at(pid, loaded_at + relative);
            found.map(|(module, address)| (module.index(), address.0))
        };
        assert_eq!(at(100, 0x3000), Some((0, 0x3000)));
        assert_eq!(at(100, 0x3000 + 0x2007), Some((0, 0x5007)), "a zero-initialised variable");
        assert_eq!(at(100, 0x3000 + 0x2008), None, "after the last one");
        assert_eq!(at(100, 0x10), None, "code");
        assert_eq!(at(100, 0x1_0010), None, "in a module without a file");
        assert_eq!((at(101, 0x3000), recorded.converter.data_at(100, 3)), (None, None));
    }

    #[test]
    fn run_time_code_belongs_to_its_process_until_a_dump_describes_it() {
        let mut recorded = recorded();
        recorded.map(100, "//anon", 0x1000);
        recorded.sample_at(APP, 1, 0x1010);
        recorded.map(100, "/tmp/jit-100.dump", 0x9000);
        recorded.sample_at(APP, 2, 0x1010);
        recorded.map(100, "//anon", 0x3000);
        recorded.sample_at(APP, 3, 0x3010);
        let expected = ["[jit:100]+1010", "/tmp/jit-100.dump+1010", "/tmp/jit-100.dump+3010"];
        assert_eq!(recorded.stacks(), expected);
    }

    #[test]
    fn a_return_address_outside_code_truncates_the_stack() {
        let mut recorded = recorded();
        recorded.map(100, "/bin/app", 0x1000);
        let frames = crate::UserStack::Frames(&[0x1010, 0x1020, 0x9000, 0x1030]);
        recorded.sample(APP, 1, frames);
        assert_eq!(recorded.converter.counters.no_unwind_info, 1);
        assert_eq!(recorded.stacks(), ["/bin/app+10 /bin/app+1f ..."]);
    }

    #[test]
    fn limits_the_mappings_that_a_file_claims() {
        let mut recorded = recorded();
        recorded.converter.limits = Limits { mappings: 3, copies: 4 };
        for at in 1..=5 {
            recorded.map(100, "/bin/app", at * 0x2000);
        }
        assert_eq!(recorded.converter.counters.lost_records, 2);
        // Each of these would need a copy of three mappings to add its own.
        recorded.converter.limits.mappings = 10;
        for child in [101, 102] {
            recorded.fork(100, (child, child), 10);
            recorded.map(child, "/lib/plugin", 0x20000);
        }
        assert_eq!(recorded.converter.counters.lost_records, 3);
        recorded.sample_at((101, 101), 20, 0x20010);
        recorded.sample_at((102, 102), 20, 0x20010);
        assert_eq!(recorded.stacks(), ["/lib/plugin+10", "?20010"]);
    }

    /// Kernel modules move with every boot; after a reboot, only the kernel's own code has symbols.
    #[test]
    fn only_the_kernels_own_code_is_known_after_a_reboot() {
        let mut recorded = recorded();
        let (metric, task) = (recorded.metric, crate::Task { pid: 100, tid: 100 });
        recorded.converter.take(&crate::Input::KernelMapped(0x10_0000, 0x20_0000));
        recorded.converter.take(&crate::Input::Sample(crate::Sample {
            metric,
            time_ns: 1,
            task,
            value: 1,
            user: crate::UserStack::None,
            kernel: &[0x30_0000, 0x10_0011],
        }));
        assert_eq!(recorded.converter.counters.without_user_stack, 1);
        assert_eq!(recorded.stacks(), ["?300000 [kernel]+10"]);
    }
}
