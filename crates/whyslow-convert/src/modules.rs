//! The mapped code: one module per file, however many processes map it.

use rustc_hash::FxHashMap;
use whyslow_elf::FileBytes;
use whyslow_processor::Processor;
use whyslow_profile::{
    Builder, LocationId, Module, ModuleId, ModuleKind, Optimised, RelativeAddress, SpecialFrame, SymbolState,
    jit_module,
};
use whyslow_unwind::{Aarch64, Arch, Image, Unwinder, X86_64};

use crate::world::{FileKey, FileMapping, Opened, World};

/// The kernel's name in recordings.
pub const KERNEL: &str = "[kernel.kallsyms]";
/// The name of the code that the kernel maps into every process.
pub const VDSO: &str = "[vdso]";

/// A module and its unwind rules.
#[derive(Debug)]
pub(crate) struct CodeModule<A: Arch> {
    pub(crate) id: ModuleId,
    pub(crate) unwinder: Unwinder<A, LocationId>,
}

impl<A: Arch> CodeModule<A> {
    fn new(id: ModuleId, image: Option<Image>) -> Self {
        Self { id, unwinder: Unwinder::new(image) }
    }

    /// The mapped file.
    fn file(&self) -> Option<(ModuleId, FileBytes)> {
        Some((self.id, self.unwinder.image()?.file()?.clone()))
    }

    fn stack_begin(&self, call: RelativeAddress) -> Option<RelativeAddress> {
        let image = self.unwinder.image()?;
        if image.is_entry_code(call) || image.starts_stack(call) {
            return Some(call);
        }
        const LONGEST_CALL: usize = 8;
        let returns_to = call.plus(1);
        let before = image.code_at(returns_to.minus(LONGEST_CALL as u64), LONGEST_CALL);
        let planted =
            before.len() == LONGEST_CALL && !A::is_after_call(before) && !self.unwinder.is_trampoline(call);
        planted.then_some(returns_to)
    }
}

/// The modules of a recording, which is of one processor.
#[derive(Debug)]
pub(crate) enum Rows {
    X86_64(Vec<CodeModule<X86_64>>),
    Aarch64(Vec<CodeModule<Aarch64>>),
}

/// Does the same with the modules of any processor.
macro_rules! any {
    ($rows:expr, $name:ident => $do:expr) => {
        match $rows {
            Rows::X86_64($name) => $do,
            Rows::Aarch64($name) => $do,
        }
    };
}

/// A module's index in [`Modules`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ModuleIndex(pub(crate) u32);

impl ModuleIndex {
    #[inline]
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

/// All modules of a recording, over all processes.
#[derive(Debug)]
pub(crate) struct Modules {
    pub(crate) rows: Rows,
    /// The last file of each key, and its generation.
    by_file: FxHashMap<FileKey, (ModuleIndex, u64)>,
    kernel: Option<ModuleIndex>,
    vdso: Option<ModuleIndex>,
}

impl Modules {
    /// No modules yet.
    pub(crate) fn new(processor: Processor) -> Self {
        let rows = match processor {
            Processor::X86_64 => Rows::X86_64(Vec::new()),
            Processor::Aarch64 => Rows::Aarch64(Vec::new()),
        };
        Self { rows, by_file: FxHashMap::default(), kernel: None, vdso: None }
    }

    /// The module's row in the profile.
    pub(crate) fn id(&self, index: ModuleIndex) -> ModuleId {
        any!(&self.rows, rows => rows[index.at()].id)
    }

    /// Its code, if the file is available.
    pub(crate) fn image(&self, index: ModuleIndex) -> Option<&Image> {
        any!(&self.rows, rows => rows[index.at()].unwinder.image())
    }

    /// The start of a stack that could not be followed beyond a call at this address, if the stack starts
    /// there: in entry code, where a runtime switches stacks, or at a return address that no call instruction
    /// precedes, which the creator of the stack put there.
    pub(crate) fn stack_begin(&self, module: ModuleId, call: RelativeAddress) -> Option<RelativeAddress> {
        any!(&self.rows, rows => rows.iter().find(|row| row.id == module)?.stack_begin(call))
    }

    /// The module of a mapped file.
    pub(crate) fn file(
        &mut self,
        builder: &mut Builder,
        world: &mut impl World,
        pid: u32,
        mapping: FileMapping,
        kind: ModuleKind,
    ) -> ModuleIndex {
        if let Some(known) = self.known(&mapping) {
            return known;
        }
        let opened = world.open(pid, &mapping);
        let index = self.add(builder, kind, opened);
        self.by_file.insert(mapping.key, (index, mapping.generation));
        index
    }

    /// The module of a file that never had a name, if it is a program and not memory for run-time code.
    pub(crate) fn nameless_file(
        &mut self,
        builder: &mut Builder,
        world: &mut impl World,
        pid: u32,
        mapping: FileMapping,
        kind: ModuleKind,
    ) -> Option<ModuleIndex> {
        if let Some(known) = self.known(&mapping) {
            return Some(known);
        }
        let opened = world.open(pid, &mapping);
        opened.image.as_ref()?.relative_address(mapping.offset)?;
        let index = self.add(builder, kind, opened);
        self.by_file.insert(mapping.key, (index, mapping.generation));
        Some(index)
    }

    fn known(&self, mapping: &FileMapping) -> Option<ModuleIndex> {
        let &(index, generation) = self.by_file.get(&mapping.key)?;
        let same = generation == mapping.generation || generation == 0 || mapping.generation == 0;
        same.then_some(index)
    }

    /// The mapped files, for symbol lookup: their paths may name other files by then.
    pub(crate) fn files(&self) -> Vec<(ModuleId, FileBytes)> {
        any!(&self.rows, rows => rows.iter().filter_map(CodeModule::file).collect())
    }

    /// The kernel.
    pub(crate) fn kernel(&mut self, builder: &mut Builder, world: &mut impl World) -> ModuleIndex {
        if let Some(known) = self.kernel {
            return known;
        }
        let build_id = world.kernel_build_id();
        let opened = Opened { name: SpecialFrame::Kernel.text().to_owned(), image: None, build_id };
        let index = self.add(builder, ModuleKind::Kernel, opened);
        self.kernel = Some(index);
        index
    }

    /// The vDSO. It is the same code in every process.
    pub(crate) fn vdso(&mut self, builder: &mut Builder, world: &mut impl World) -> ModuleIndex {
        if let Some(known) = self.vdso {
            return known;
        }
        let index = self.add(builder, ModuleKind::Vdso, world.vdso());
        self.vdso = Some(index);
        index
    }

    /// Code that a process generates at run time, described by a jitdump file if it writes one.
    pub(crate) fn jit(&mut self, builder: &mut Builder, pid: u32, dump: Option<&str>) -> ModuleIndex {
        let name = dump.map_or_else(|| jit_module(pid), str::to_owned);
        self.add(builder, ModuleKind::Jit, Opened { name, image: None, build_id: None })
    }

    fn add(&mut self, builder: &mut Builder, kind: ModuleKind, opened: Opened) -> ModuleIndex {
        let Opened { name, image, build_id } = opened;
        let build_id =
            build_id.or_else(|| image.as_ref().and_then(|image| image.build_id().map(ToString::to_string)));
        let module = Module {
            path: builder.string(&name),
            build_id: build_id.map(|build_id| builder.string(&build_id)),
            kind,
            symbols: SymbolState::NotLoaded,
            optimised: Optimised::Unknown,
        };
        let id = builder.module(module);
        any!(&mut self.rows, rows => {
            rows.push(CodeModule::new(id, image));
            ModuleIndex(rows.len() as u32 - 1)
        })
    }
}
