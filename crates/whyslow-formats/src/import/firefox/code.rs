//! Converts Firefox's frames and stacks to locations. The inlined frames of one address become one location.

use whyslow_profile::{Frame, FunctionId, LocationId, ModuleId, SpecialFrame, StackId};

use super::paths::plain_path;
use super::schema::{File, FrameTable, FuncTable, NativeSymbols, ResourceTable, StackTable, Tables, Thread};
use super::symbols::Sidecar;
use crate::import::assemble::{Assembly, FunctionText};
use crate::import::json::{Index, Text};

/// More frames at one address than this become separate locations: no compiler inlines that deep.
const DEEPEST_INLINING: usize = 256;

/// The stack, frame and function tables, of one thread or shared.
pub(super) struct Code<'f, 'a> {
    texts: &'f [Text<'a>],
    stacks: &'f StackTable,
    frames: &'f FrameTable,
    funcs: &'f FuncTable,
    resources: Option<&'f ResourceTable>,
    natives: Option<&'f NativeSymbols>,
    source_names: &'f [Index],
}

impl<'f, 'a> Code<'f, 'a> {
    /// The tables of a thread with its own tables.
    pub(super) fn of_thread(file: &'f File<'a>, thread: &'f Thread<'a>) -> Option<Self> {
        let shared = &file.shared;
        Some(Self {
            texts: texts_of(file, thread),
            stacks: thread.stack_table.as_ref()?,
            frames: thread.frame_table.as_ref()?,
            funcs: thread.func_table.as_ref()?,
            resources: thread.resource_table.as_ref(),
            natives: thread.native_symbols.as_ref(),
            source_names: shared.sources.as_ref().map_or(&[], |sources| &sources.filename),
        })
    }

    /// The tables that all threads share.
    pub(super) fn shared(tables: &'f Tables<'a>) -> Option<Self> {
        Some(Self {
            texts: tables.string_array.as_deref().unwrap_or_default(),
            stacks: tables.stack_table.as_ref()?,
            frames: tables.frame_table.as_ref()?,
            funcs: tables.func_table.as_ref()?,
            resources: tables.resource_table.as_ref(),
            natives: tables.native_symbols.as_ref(),
            source_names: tables.sources.as_ref().map_or(&[], |sources| &sources.filename),
        })
    }

    /// Adds the stacks of these rows. Returns the id of each row.
    pub(super) fn add_stacks(
        &self,
        assembly: &mut Assembly,
        libs: &[ModuleId],
        sidecar: Option<&Sidecar<'_>>,
        used: impl Iterator<Item = usize>,
    ) -> Vec<Option<StackId>> {
        let rows = self.stacks.frame.len();
        let mut needed = vec![false; rows];
        used.filter(|&row| row < rows).for_each(|row| needed[row] = true);
        let mut frames = vec![None; self.frames.func.len()];
        for row in (0..rows).rev() {
            if needed[row] {
                let outermost = self.group(row).last().unwrap_or(row);
                if let Some(caller) = self.stacks.caller(outermost) {
                    needed[caller] = true;
                }
            }
        }
        let mut ids = vec![None; rows];
        let mut group = Vec::new();
        for row in (0..rows).filter(|&row| needed[row]) {
            group.clear();
            group.extend(self.group(row));
            let caller = group.last().and_then(|&outermost| self.stacks.caller(outermost));
            let caller = caller.and_then(|caller| ids[caller]);
            let location = self.location(assembly, libs, sidecar, &mut frames, &group, caller.is_none());
            ids[row] = Some(assembly.stack(caller, location));
        }
        ids
    }

    /// The rows at the same address: this one, the one it is inlined into, and so on.
    fn group(&self, row: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(row), |&inner| {
            let outer = self.stacks.caller(inner)?;
            let (inner, outer_frame) = (self.frame_of(inner)?, self.frame_of(outer)?);
            let depth = self.depth(inner).checked_sub(1)?;
            (depth == self.depth(outer_frame) && self.same_place(inner, outer_frame)).then_some(outer)
        })
        .take(DEEPEST_INLINING)
    }

    fn frame_of(&self, stack: usize) -> Option<usize> {
        self.stacks
            .frame
            .get(stack)?
            .0
            .map(|frame| frame as usize)
            .filter(|&frame| frame < self.frames.func.len())
    }

    fn depth(&self, frame: usize) -> u32 {
        self.frames.inline_depth.get(frame).and_then(|depth| depth.0).unwrap_or(0)
    }

    fn same_place(&self, a: usize, b: usize) -> bool {
        self.frames.address.get(a) == self.frames.address.get(b)
    }

    /// The address in its library; `None` if it is not machine code.
    fn address(&self, frame: usize) -> Option<u64> {
        let address = self.frames.address.get(frame)?.0;
        (address >= 0.0).then_some(address as u64)
    }

    fn lib(&self, frame: usize) -> Option<usize> {
        let own = self.frames.lib.get(frame).and_then(|lib| lib.0);
        let of_symbol = || self.frames.native_symbol.get(frame)?.of(&self.natives?.lib_index)?.0;
        let of_resource = || {
            let resource = self.frames.func.get(frame)?.of(&self.funcs.resource)?;
            resource.of(&self.resources?.lib)?.0
        };
        own.or_else(of_symbol).or_else(of_resource).map(|lib| lib as usize)
    }

    fn text(&self, index: Index) -> Option<&str> {
        index.of(self.texts).map(Text::as_str)
    }

    fn name(&self, frame: usize) -> &str {
        let name = self.frames.func.get(frame).and_then(|func| func.of(&self.funcs.name));
        name.and_then(|&name| self.text(name)).unwrap_or("")
    }

    /// The location of a group of stack rows, innermost first.
    fn location(
        &self,
        assembly: &mut Assembly,
        libs: &[ModuleId],
        sidecar: Option<&Sidecar<'_>>,
        frames: &mut [Option<Frame>],
        group: &[usize],
        at_root: bool,
    ) -> LocationId {
        let Some(innermost) = group.first().and_then(|&row| self.frame_of(row)) else {
            return assembly.location(None, 0, &[]);
        };
        let lib = self.lib(innermost);
        let module = lib.and_then(|lib| libs.get(lib).copied());
        let address = self.address(innermost);
        if group.len() == 1 {
            let name = self.name(innermost);
            if at_root && module.is_none() && Assembly::is_truncation(name) {
                return LocationId::TRUNCATED;
            }
            let unnamed = module.is_some_and(|module| assembly.is_unnamed(module, name))
                || SpecialFrame::Unknown.is_named(name);
            if let Some(raw) = unresolved(name).or(unnamed.then_some(0)) {
                let address = address.unwrap_or(raw);
                let known = sidecar.zip(lib).and_then(|(sidecar, lib)| sidecar.find(lib, address));
                return match (known, module) {
                    (Some(known), Some(module)) => known.location(assembly, module, address),
                    _ => assembly.location(module, address, &[]),
                };
            }
        }
        let mut outermost_first = Vec::with_capacity(group.len());
        for frame in group.iter().rev().filter_map(|&row| self.frame_of(row)) {
            let known = match frames[frame] {
                Some(known) => known,
                None => *frames[frame].insert(self.frame(assembly, frame, module)),
            };
            outermost_first.push(known);
        }
        assembly.location(module, address.unwrap_or(0), &outermost_first)
    }

    fn frame(&self, assembly: &mut Assembly, frame: usize, module: Option<ModuleId>) -> Frame {
        let func = self.frames.func[frame];
        let file = func.of(&self.funcs.file_name).and_then(|&name| self.text(name));
        let source = || self.text(*func.of(&self.funcs.source)?.of(self.source_names)?);
        let file = file.or_else(source).map(plain_path);
        let line = func.of(&self.funcs.line_number).and_then(|line| line.0).unwrap_or(0);
        let text = FunctionText { name: self.name(frame), file: file.as_deref(), line, module };
        let function: FunctionId = assembly.function(&text);
        let line = self.frames.line.get(frame).and_then(|line| line.0).unwrap_or(0);
        Frame { function, file: file.map(|file| assembly.text(&file)), line }
    }
}

/// The texts that a thread's markers and functions use.
pub(super) fn texts_of<'f, 'a>(file: &'f File<'a>, thread: &'f Thread<'a>) -> &'f [Text<'a>] {
    thread.string_array.as_deref().or(file.shared.string_array.as_deref()).unwrap_or_default()
}

/// The address in place of an unresolved name: `0x1f3a`.
fn unresolved(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_prefix("0x")?, 16).ok()
}
