//! Finds the memory that the program can access without a pointer.
//!
//! ```text
//! data of a program or library      root; of libc, without the allocator's pointers to headers
//! the part that the loader protects root: it was written before
//! [stack], stacks of threads        root from the stack pointer up, plus the red zone of 128 bytes below it
//! stacks without a thread           not a root, if libc has them in its cache (see `cached`)
//! thread-local storage              root: around the FS base, wherever it is
//! [heap]                            not a root
//! anonymous, with live blocks       not a root: the rest of it belongs to the allocator, or is freed
//! anonymous, without                root, unless an allocator's own records are recognised there
//! shared files, devices, [vvar]…    not a root
//! ```
//!
//! The kernel merges neighbouring anonymous mappings. So blocks that glibc mapped one by one, and stacks of
//! threads, are first cut out of their mapping, and the remaining pieces are judged one by one.
//!
//! Allocator memory that is recognised without live blocks: arenas of glibc, and the records of jemalloc,
//! whose first words contain their size. mimalloc keeps its records among its blocks. A root too many hides
//! leaks, a root too few invents them. Memory that is not certainly dead or the allocator's is therefore a
//! root.

use whyslow_proc::{Mapping, MappingKind};
use whyslow_processor::PAGE;

use super::graph::{Memory, Pointers, Root};
use super::index::Index;
use super::memory::is_of_file;
use super::threads::Thread;

/// Bytes above the FS base: a thread's own record, and musl's keys.
const ABOVE_FS: u64 = 2 * PAGE;
/// The same in the heap, where freed blocks follow the record: glibc's record, whose last words are not
/// pointers.
const ABOVE_FS_IN_HEAP: u64 = 0x900;
/// Maximum size of the thread-local variables below the FS base.
const BELOW_FS: u64 = 64 << 10;
/// Arenas of glibc are aligned to this.
const ARENA: u64 = 64 << 20;
/// Records of jemalloc are aligned to this.
const HUGE_PAGE: u64 = 2 << 20;

/// All roots in memory. They may overlap.
pub(crate) fn find(
    maps: &[Mapping],
    threads: &[Thread],
    index: &Index,
    skip: &[(u64, u64)],
    memory: &mut impl Memory,
) -> Vec<Root> {
    let finder =
        Finder { maps, threads, index, static_libc: !maps.iter().any(|mapping| is_libc(&mapping.name)) };
    let mut roots = Vec::new();
    let stacks: Vec<Stack> = threads.iter().filter_map(|thread| finder.stack(thread)).collect();
    for (row, mapping) in maps.iter().enumerate() {
        if mapping.readable && (mapping.writable || finder.is_protected_data(row)) {
            finder.mapping(row, &stacks, skip, memory, &mut roots);
        }
    }
    let tls = threads.iter().filter_map(|thread| finder.thread_local(thread));
    for (start, end) in stacks.iter().map(|stack| (stack.sp, stack.end)).chain(tls) {
        roots.push(Root { start, end, pointers: Pointers::Any });
    }
    roots
}

/// The stack that a thread is on.
struct Stack {
    /// Below this and above `start`, the stack is dead.
    start: u64,
    sp: u64,
    end: u64,
}

struct Finder<'a> {
    maps: &'a [Mapping],
    threads: &'a [Thread],
    index: &'a Index,
    /// No mapping belongs to libc: it is part of the program.
    static_libc: bool,
}

impl Finder<'_> {
    fn stack(&self, thread: &Thread) -> Option<Stack> {
        let sp = thread.sp.saturating_sub(thread.red_zone);
        let mapping = Mapping::find(self.maps, thread.sp)?;
        if let Some((block, _)) = self.index.find(thread.sp) {
            // A stack that the program allocated.
            return Some(Stack {
                start: sp,
                sp: sp.max(self.index.start(block)),
                end: self.index.end(block),
            });
        }
        let has_fs = thread.sp < thread.fs && thread.fs < mapping.end;
        let mut end = mapping.end;
        if has_fs {
            end = end.min((thread.fs + ABOVE_FS).next_multiple_of(PAGE));
        }
        let next = self.index.first_from(thread.sp);
        if next < self.index.len() {
            end = end.min(self.index.start(next));
        }
        let alone = !self.index.any_in(mapping.start, sp)
            && self.threads.iter().all(|other| {
                other.tid == thread.tid
                    || ![other.sp, other.fs].iter().any(|at| (mapping.start..sp).contains(at))
            });
        let surely_dead =
            alone && (mapping.kind() == MappingKind::Stack || has_fs && has_guard(self.maps, mapping));
        let sp = sp.max(mapping.start);
        Some(Stack { start: if surely_dead { mapping.start } else { sp }, sp, end })
    }

    /// The range around the FS base.
    fn thread_local(&self, thread: &Thread) -> Option<(u64, u64)> {
        let mapping = Mapping::find(self.maps, thread.fs).filter(|mapping| mapping.writable)?;
        if self.index.find(thread.fs).is_some() {
            return None;
        }
        let next = self.index.first_from(thread.fs);
        let before = if next > 0 { self.index.end(next - 1) } else { 0 };
        let after = if next < self.index.len() { self.index.start(next) } else { u64::MAX };
        let mut start = mapping.start.max(thread.fs.saturating_sub(BELOW_FS)).max(before);
        let mut above = ABOVE_FS;
        if mapping.kind() == MappingKind::Heap {
            above = ABOVE_FS_IN_HEAP;
            if before < mapping.start {
                // A static libc allocates the main thread's storage from the heap before anything else,
                // whatever its size.
                start = mapping.start;
            }
        }
        if thread.sp < thread.fs {
            // After the thread's own stack, whose lower part is dead.
            start = start.max(thread.sp.saturating_sub(thread.red_zone));
        }
        let end = mapping.end.min(thread.fs.saturating_add(above)).min(after);
        Some((start, end))
    }

    fn mapping(
        &self,
        row: usize,
        stacks: &[Stack],
        skip: &[(u64, u64)],
        memory: &mut impl Memory,
        roots: &mut Vec<Root>,
    ) {
        let mapping = &self.maps[row];
        let mut pieces = vec![(mapping.start, mapping.end)];
        for &(start, end) in skip {
            cut(&mut pieces, start, end);
        }
        let module = self.module_of(row);
        let pointers = match module {
            Some(name) if self.static_libc || is_libc(name) => Pointers::NotToHeaders,
            _ => Pointers::Any,
        };
        match (mapping.kind(), module) {
            (MappingKind::File | MappingKind::Memfd, _) if !mapping.shared => {}
            (MappingKind::Anonymous | MappingKind::Stack, _) => {
                for stack in stacks {
                    cut(&mut pieces, stack.start, stack.end);
                }
                self.cut_mapped_blocks(mapping, memory, &mut pieces);
                if module.is_some() {
                    // Zeroed data of the module comes first. Memory that the kernel may have merged with it
                    // comes after.
                    let first = self.index.first_from(mapping.start);
                    for piece in &mut pieces {
                        if first < self.index.len() && self.index.any_in(piece.0, piece.1) {
                            piece.1 = (self.index.start(first) & !(PAGE - 1)).clamp(piece.0, piece.1);
                        }
                    }
                } else {
                    pieces.retain(|&(start, end)| !self.index.any_in(start, end));
                    self.cut_allocators(memory, &mut pieces);
                }
            }
            _ => return,
        }
        let kept = pieces.into_iter().filter(|(start, end)| start < end);
        roots.extend(kept.map(|(start, end)| Root { start, end, pointers }));
    }

    /// The file whose data a mapping holds: it is mapped from the file, or directly follows such a mapping.
    fn module_of(&self, row: usize) -> Option<&str> {
        let mapping = &self.maps[row];
        let name = match mapping.kind() {
            MappingKind::File | MappingKind::Memfd => &mapping.name,
            MappingKind::Anonymous if mapping.name.is_empty() => {
                let before = self.maps.get(row.checked_sub(1)?)?;
                if before.end != mapping.start || !is_of_file(before) {
                    return None;
                }
                &before.name
            }
            _ => return None,
        };
        self.maps.iter().any(|other| other.executable && other.name == *name).then_some(name)
    }

    /// Whether a mapping is data that was writable until the program or library had started: it directly
    /// precedes data that is still writable.
    fn is_protected_data(&self, row: usize) -> bool {
        let mapping = &self.maps[row];
        let before_data = self
            .maps
            .get(row + 1)
            .is_some_and(|next| next.start == mapping.end && next.name == mapping.name && next.writable);
        before_data && is_of_file(mapping) && !mapping.shared && !mapping.executable
    }

    /// Cuts out blocks that glibc mapped one by one, with their whole pages.
    ///
    /// Two words precede such a block: the distance to the start of its mapping, and the mapping's size with
    /// bit 1 set.
    fn cut_mapped_blocks(&self, mapping: &Mapping, memory: &mut impl Memory, pieces: &mut Vec<(u64, u64)>) {
        let mut header = [0; 16];
        for block in self.index.first_from(mapping.start)..self.index.first_from(mapping.end) {
            let (start, end) = (self.index.start(block), self.index.end(block));
            // Large enough to be mapped at all; this skips all small blocks.
            if end - start < PAGE || start - mapping.start < 16 {
                continue;
            }
            memory.read(start - 16, &mut header);
            let [before, size] = words(&header);
            let from = (start - 16).saturating_sub(before);
            let to = from.saturating_add(before).saturating_add(size & !7);
            let mapped = size & 7 == 2 && from.is_multiple_of(PAGE) && to.is_multiple_of(PAGE);
            if mapped && from >= mapping.start && to <= mapping.end && end <= to {
                cut(pieces, from, to);
            }
        }
    }

    /// Cuts out memory that an allocator uses for its own records, or for blocks that are all freed.
    fn cut_allocators(&self, memory: &mut impl Memory, pieces: &mut Vec<(u64, u64)>) {
        for (start, end) in pieces.clone() {
            let mut at = start.next_multiple_of(HUGE_PAGE);
            while at < end {
                if at.is_multiple_of(ARENA) && is_arena(at, end, memory) {
                    cut(pieces, at, end);
                } else if let Some(size) = jemalloc_records(at, memory) {
                    cut(pieces, at, at.saturating_add(size));
                }
                at += HUGE_PAGE;
            }
        }
    }
}

/// Whether there is an inaccessible page below a mapping, as below a thread's stack.
pub(super) fn has_guard(maps: &[Mapping], mapping: &Mapping) -> bool {
    Mapping::find(maps, mapping.start.wrapping_sub(1)).is_some_and(|below| !below.readable && !below.writable)
}

/// Whether a glibc arena starts here: its first words are the address of its state, the previous arena, its
/// size, and its writable size.
fn is_arena(at: u64, end: u64, memory: &mut impl Memory) -> bool {
    let mut bytes = [0; 32];
    memory.read(at, &mut bytes);
    let [state, before, size, writable] = words(&bytes);
    let at_start_of_arena = |address: u64| address != 0 && address % ARENA < PAGE;
    at_start_of_arena(state)
        && (before == 0 || before.is_multiple_of(ARENA))
        && size <= writable
        && writable <= ARENA
        && writable.is_multiple_of(PAGE)
        && at.saturating_add(writable) <= end
}

/// The size of a block of jemalloc's records (5.0 and later): its size, the next such block, bits, then the
/// address and size of the free rest, which ends where the block ends.
fn jemalloc_records(at: u64, memory: &mut impl Memory) -> Option<u64> {
    let mut bytes = [0; 40];
    memory.read(at, &mut bytes);
    let [size, next, _, free_at, free] = words(&bytes);
    let is = size >= HUGE_PAGE
        && size.is_multiple_of(HUGE_PAGE)
        && next.is_multiple_of(HUGE_PAGE)
        && free_at > at
        && free_at.checked_add(free) == at.checked_add(size);
    is.then_some(size)
}

fn words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    std::array::from_fn(|_| words.next().unwrap_or(0))
}

/// Removes a range from pieces.
fn cut(pieces: &mut Vec<(u64, u64)>, from: u64, to: u64) {
    if from >= to || pieces.iter().all(|&(start, end)| to <= start || end <= from) {
        return;
    }
    *pieces = pieces
        .iter()
        .flat_map(|&(start, end)| [(start, end.min(from)), (start.max(to), end)])
        .filter(|(start, end)| start < end)
        .collect();
}

/// Whether a file is the C library or its loader, which have the allocator's state in their data.
fn is_libc(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    ["libc.so", "libc-2.", "ld-linux", "ld-musl", "libc.musl"].iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests;
