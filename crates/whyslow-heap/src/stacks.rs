//! Merges the stacks of all programs into one tree. A ring's stack is resolved once, on first use.

use std::sync::atomic::Ordering;

use rustc_hash::FxHashMap;
use whyslow_agent_host::Area;
use whyslow_agent_wire::area::{MODULES_LEN, ModuleEntry};

use crate::ids::{Generation, ModuleRow, ProcessRow, RingStack, StackRow};
use crate::outcome::{ModuleSeen, StackSeen};
use crate::trails::Trails;

/// The kernel's maximum path length.
const MOST_PATH: usize = 4096;
/// Length of a [`ModuleEntry`] in words.
const ENTRY_WORDS: usize = size_of::<ModuleEntry>() / 8;

/// The tree, and the part of it that has not been handed out yet.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    rows: FxHashMap<(StackRow, ModuleRow, u64), StackRow>,
    /// A module's row, and a process that maps it.
    modules: FxHashMap<(String, bool), (ModuleRow, ProcessRow)>,
    pub new_stacks: Vec<StackSeen>,
    pub new_modules: Vec<ModuleSeen>,
}

/// Not a row: outside of every stack, in no module.
const ROOT: StackRow = StackRow(u32::MAX);
const NOWHERE: ModuleRow = ModuleRow(u32::MAX);
/// A node whose row has not been requested.
const UNRESOLVED: StackRow = StackRow(u32::MAX - 1);

fn seen(parent: StackRow, module: ModuleRow, address: u64) -> StackSeen {
    StackSeen {
        parent: (parent != ROOT).then_some(parent),
        module: (module != NOWHERE).then_some(module),
        address,
    }
}

impl Stacks {
    fn stack(&mut self, parent: StackRow, module: ModuleRow, address: u64) -> StackRow {
        let next = StackRow::from(self.rows.len());
        *self.rows.entry((parent, module, address)).or_insert_with(|| {
            self.new_stacks.push(seen(parent, module, address));
            next
        })
    }

    fn module(&mut self, path: String, is_program: bool, process: ProcessRow) -> ModuleRow {
        let next = ModuleRow::from(self.modules.len());
        let known = self.modules.entry((path, is_program)).or_insert_with_key(|(path, _)| {
            self.new_modules.push(ModuleSeen { process, path: path.clone(), is_program });
            (next, process)
        });
        known.0
    }

    /// All modules, by row.
    pub(crate) fn all_modules(&self) -> Vec<ModuleSeen> {
        let mut all: Vec<_> = self.modules.iter().collect();
        all.sort_unstable_by_key(|(_, (row, _))| *row);
        all.into_iter()
            .map(|((path, is_program), &(_, process))| ModuleSeen {
                process,
                path: path.clone(),
                is_program: *is_program,
            })
            .collect()
    }

    /// All stacks, by row.
    pub(crate) fn all_stacks(&self) -> Vec<StackSeen> {
        let mut all = vec![seen(ROOT, NOWHERE, 0); self.rows.len()];
        for (&(parent, module, address), &row) in &self.rows {
            all[row.index()] = seen(parent, module, address);
        }
        all
    }

    /// The root of unknown and truncated stacks.
    fn unknown(&mut self) -> StackRow {
        self.stack(ROOT, NOWHERE, 0)
    }
}

/// A module of one area.
#[derive(Debug)]
struct Module {
    entry: ModuleEntry,
    row: ModuleRow,
}

/// The stacks of one area.
#[derive(Debug)]
pub(crate) struct AreaStacks {
    /// The path of the program, for modules without a path.
    program: String,
    /// The first process.
    process: ProcessRow,
    modules: Vec<Module>,
    /// The module and offset of an address, by generation and address.
    located: FxHashMap<(Generation, u64), (ModuleRow, u64)>,
    /// Addresses that are in no module: a new module may contain them.
    nowhere: Vec<(Generation, u64)>,
    /// Number of words of modules that have been read.
    modules_read: usize,
}

impl AreaStacks {
    pub(crate) fn new(program: String, process: ProcessRow) -> Self {
        Self {
            program,
            process,
            modules: Vec::new(),
            located: FxHashMap::default(),
            nowhere: Vec::new(),
            modules_read: 0,
        }
    }

    /// The row of a ring's stack. `rows` caches the rows of its nodes.
    pub(crate) fn resolve(
        &mut self,
        area: &Area,
        trails: &Trails,
        rows: &mut Vec<StackRow>,
        number: RingStack,
        stacks: &mut Stacks,
    ) -> StackRow {
        // From the leaf to the first known caller. A caller's number is smaller than its callee's.
        let mut path = Vec::new();
        let mut next = Some(number);
        let mut row = ROOT;
        while let Some(number) = next {
            if let Some(&known) = rows.get(number.index()).filter(|&&row| row != UNRESOLVED) {
                row = known;
                break;
            }
            let node = trails.node(number);
            path.push((number.index(), node));
            next = node.caller;
        }
        for (number, node) in path.into_iter().rev() {
            row = match node.caller {
                Some(_) => {
                    let (module, address) = self.locate(area, node.frame, node.root.generation, stacks);
                    stacks.stack(row, module, address)
                }
                None if node.root.cut => stacks.unknown(),
                None => ROOT,
            };
            if rows.len() <= number {
                rows.resize(number + 1, UNRESOLVED);
            }
            rows[number] = row;
        }
        if row == ROOT { stacks.unknown() } else { row }
    }

    /// The module of a frame, and the address of its call in the module.
    fn locate(
        &mut self,
        area: &Area,
        frame: u64,
        generation: Generation,
        stacks: &mut Stacks,
    ) -> (ModuleRow, u64) {
        self.read_modules(area, stacks);
        if let Some(&place) = self.located.get(&(generation, frame)) {
            return place;
        }
        let call = frame.saturating_sub(1);
        let module = self.modules.iter().rev().find(|module| {
            let entry = &module.entry;
            entry.generation <= generation.0 && (entry.start..entry.end).contains(&call) && entry.base <= call
        });
        let place = match module {
            Some(module) => (module.row, call - module.entry.base),
            None => {
                self.nowhere.push((generation, frame));
                (NOWHERE, call)
            }
        };
        self.located.insert((generation, frame), place);
        place
    }

    /// Reads the modules added since the last call.
    fn read_modules(&mut self, area: &Area, stacks: &mut Stacks) {
        let used = area.header().modules_used.load(Ordering::Acquire) as usize;
        let end = used.min(MODULES_LEN) / 8;
        let words = area.modules();
        let word = |at: usize| words[at].load(Ordering::Relaxed);
        while self.modules_read + ENTRY_WORDS <= end {
            let at = self.modules_read;
            let lengths = word(at + 3);
            let path_len = (lengths >> 32) as usize;
            let path_at = at + ENTRY_WORDS;
            let path_words = path_len.div_ceil(8);
            if path_len > MOST_PATH || path_at + path_words > end {
                // The entries that follow cannot be found.
                self.modules_read = usize::MAX - ENTRY_WORDS;
                return;
            }
            let mut path: Vec<u8> =
                (path_at..path_at + path_words).flat_map(|at| word(at).to_le_bytes()).collect();
            path.truncate(path_len);
            let is_program = path.is_empty();
            let path =
                if is_program { self.program.clone() } else { String::from_utf8_lossy(&path).into_owned() };
            let entry = ModuleEntry {
                base: word(at),
                start: word(at + 1),
                end: word(at + 2),
                generation: lengths as u32,
                path_len: path_len as u32,
            };
            self.modules_read = path_at + path_words;
            if entry.start >= entry.end {
                continue;
            }
            let row = stacks.module(path, is_program, self.process);
            self.modules.push(Module { entry, row });
            for place in self.nowhere.drain(..) {
                self.located.remove(&place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use whyslow_agent_wire::record::Stack;

    use super::*;
    use crate::trails::Root;

    /// The row of a stack with these frames, as one ring would send it.
    fn row(nodes: &mut AreaStacks, area: &Area, stacks: &mut Stacks, root: Root, frames: &[u64]) -> StackRow {
        let mut trails = Trails::default();
        trails.set_generation(root.generation.0.into());
        let stack = Stack { from: 0, to: 0, cut: root.cut, kept: 0, fresh: frames.len() };
        assert!(trails.follow(stack, frames.iter().copied()));
        let number = trails.current();
        nodes.resolve(area, &trails, &mut Vec::new(), number, stacks)
    }

    fn in_generation(generation: u32) -> Root {
        Root { generation: Generation(generation), cut: false }
    }

    fn put_module(area: &Area, base: u64, end: u64, generation: u32, path: &str) {
        let used = area.header().modules_used.load(Ordering::Relaxed) as usize;
        let mut bytes = Vec::new();
        for number in [base, base, end, u64::from(generation) | (path.len() as u64) << 32] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(path.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        for (index, word) in bytes.chunks_exact(8).enumerate() {
            let word = u64::from_le_bytes(word.try_into().expect("eight"));
            area.modules()[used / 8 + index].store(word, Ordering::Relaxed);
        }
        area.header().modules_used.store((used + bytes.len()) as u32, Ordering::Release);
    }

    #[test]
    fn a_stack_is_a_path_of_calls_in_modules() {
        let area = Area::create().expect("area");
        put_module(&area, 0x1000, 0x2000, 0, "");
        put_module(&area, 0x5000, 0x6000, 0, "/lib/one.so");
        let mut stacks = Stacks::default();
        let mut nodes = AreaStacks::new("/bin/program".to_owned(), ProcessRow(0));
        assert_eq!(
            row(&mut nodes, &area, &mut stacks, in_generation(0), &[0x1101, 0x5021, 0x9001]),
            StackRow(2)
        );
        assert_eq!(row(&mut nodes, &area, &mut stacks, in_generation(0), &[0x1101, 0x5021]), StackRow(1));
        assert_eq!(
            stacks.new_stacks,
            [
                StackSeen { parent: None, module: Some(ModuleRow(0)), address: 0x100 },
                StackSeen { parent: Some(StackRow(0)), module: Some(ModuleRow(1)), address: 0x20 },
                StackSeen { parent: Some(StackRow(1)), module: None, address: 0x9000 },
            ]
        );
        assert_eq!(
            (stacks.all_stacks(), stacks.all_modules()),
            (stacks.new_stacks.clone(), stacks.new_modules.clone())
        );
        assert_eq!(stacks.new_modules[0].path, "/bin/program");
        assert!(stacks.new_modules[0].is_program && !stacks.new_modules[1].is_program);
    }

    #[test]
    fn a_module_that_replaces_another_owns_only_later_stacks() {
        let area = Area::create().expect("area");
        put_module(&area, 0x5000, 0x6000, 0, "/lib/one.so");
        put_module(&area, 0x5000, 0x6000, 3, "/lib/two.so");
        let mut stacks = Stacks::default();
        let mut nodes = AreaStacks::new(String::new(), ProcessRow(0));
        let [first, second] = [2, 3]
            .map(|generation| row(&mut nodes, &area, &mut stacks, in_generation(generation), &[0x5021]));
        assert_eq!(stacks.new_stacks[first.index()].module, Some(ModuleRow(0)));
        assert_eq!(stacks.new_stacks[second.index()].module, Some(ModuleRow(1)));
    }

    #[test]
    fn an_address_in_no_module_is_resolved_when_its_module_arrives() {
        let area = Area::create().expect("area");
        let mut stacks = Stacks::default();
        let mut nodes = AreaStacks::new(String::new(), ProcessRow(0));
        let mut module = |nodes: &mut AreaStacks| {
            let row = row(nodes, &area, &mut stacks, in_generation(0), &[0x5021]);
            stacks.new_stacks[row.index()].module
        };
        assert_eq!(module(&mut nodes), None);
        put_module(&area, 0x5000, 0x5000, 0, "/lib/empty.so");
        assert_eq!((module(&mut nodes), nodes.modules.len(), nodes.nowhere.len()), (None, 0, 1));
        put_module(&area, 0x5000, 0x6000, 0, "/lib/one.so");
        assert_eq!(
            (module(&mut nodes), nodes.modules.len(), nodes.nowhere.len()),
            (Some(ModuleRow(0)), 1, 0)
        );
    }

    #[test]
    fn a_truncated_stack_has_an_unknown_root() {
        let area = Area::create().expect("area");
        let mut stacks = Stacks::default();
        let mut nodes = AreaStacks::new(String::new(), ProcessRow(0));
        let nothing = row(&mut nodes, &area, &mut stacks, in_generation(0), &[]);
        let cut = row(&mut nodes, &area, &mut stacks, Root { generation: Generation(0), cut: true }, &[0x21]);
        assert_eq!(stacks.new_stacks[cut.index()].parent, Some(nothing));
        assert_eq!(stacks.new_stacks[nothing.index()], seen(ROOT, NOWHERE, 0));
    }

    #[test]
    fn the_same_code_in_two_programs_is_one_stack() {
        let (one, two) = (Area::create().expect("area"), Area::create().expect("area"));
        let mut stacks = Stacks::default();
        let mut rows = Vec::new();
        for (area, base) in [(&one, 0x5000), (&two, 0x7000)] {
            put_module(area, base, base + 0x1000, 0, "/lib/one.so");
            let mut nodes = AreaStacks::new(String::new(), ProcessRow(0));
            rows.push(row(&mut nodes, area, &mut stacks, in_generation(0), &[base + 0x21]));
        }
        assert_eq!(rows[0], rows[1]);
    }

    #[test]
    fn a_damaged_module_hides_only_later_ones() {
        let area = Area::create().expect("area");
        put_module(&area, 0x5000, 0x6000, 0, "/lib/one.so");
        let at = area.header().modules_used.load(Ordering::Relaxed) as usize / 8;
        area.modules()[at + 3].store(u64::MAX, Ordering::Relaxed);
        area.header().modules_used.store(u32::MAX, Ordering::Relaxed);
        let mut stacks = Stacks::default();
        let mut nodes = AreaStacks::new(String::new(), ProcessRow(0));
        row(&mut nodes, &area, &mut stacks, in_generation(0), &[0x5021]);
        assert_eq!(stacks.new_stacks[0].module, Some(ModuleRow(0)));
    }
}
