//! Finds free ranges between the mappings of a process.

use std::ops::Range;

use whyslow_proc::{Mapping, MappingKind};
use whyslow_processor::PAGE;

/// All mappings of a process, in address order.
#[derive(Debug, Clone)]
pub(crate) struct Maps(pub(crate) Vec<Mapping>);

/// The reach of a 32-bit jump, minus the size of a page's own code.
const REACH: u64 = (1 << 31) - (1 << 20);
/// The lowest address of a mapping (`vm.mmap_min_addr`).
const LOWEST: u64 = 0x1_0000;
/// The highest address of a program's mapping.
const HIGHEST: u64 = 0x7fff_ffff_f000;
/// Room for the heap after a program to grow.
const HEAP_ROOM: u64 = 1 << 30;
/// Room for the stack to grow.
const STACK_ROOM: u64 = 1 << 32;
/// The distance to the neighbour below, so that running off its end still faults.
const GUARD: u64 = 0x1_0000;

impl Maps {
    /// These mappings, plus ranges that will be taken.
    pub(crate) fn with(&self, taken: impl Iterator<Item = Range<u64>>) -> Self {
        let mut all = self.0.clone();
        all.extend(taken.map(|Range { start, end }| Mapping { start, end, ..Mapping::default() }));
        all.sort_by_key(|mapping| mapping.start);
        Self(all)
    }

    /// The path of the file that is mapped at an address.
    pub(crate) fn path_at(&self, address: u64) -> Option<&str> {
        Mapping::find(&self.0, address).map(|mapping| mapping.name.as_str())
    }

    /// A free range of this length that all of `code` can reach. Just below the code if possible: the space
    /// after a program belongs to its heap.
    pub(crate) fn place(&self, code: &Range<u64>, len: u64) -> Option<u64> {
        let len = len.next_multiple_of(PAGE);
        let lowest = code.end.saturating_sub(REACH).max(LOWEST);
        let highest = code.start.saturating_add(REACH).min(HIGHEST);
        let fits = |at: u64, gap: &Gap| {
            at >= gap.free.start && at >= lowest && at + len <= gap.free.end.min(highest)
        };
        let gaps = self.gaps();
        let below = gaps.iter().rev().filter(|gap| gap.free.end <= code.start);
        let above = gaps.iter().filter(|gap| gap.free.start >= code.end);
        below
            .filter_map(|gap| {
                let at = gap.free.end.min(highest).checked_sub(len + GUARD)? & !(PAGE - 1);
                (fits(at, gap) && !gap.is_heaps(at)).then_some(at)
            })
            .chain(above.filter_map(|gap| {
                let at = if gap.grows_into { gap.free.start + HEAP_ROOM } else { gap.free.start + GUARD };
                let at = at.max(lowest).next_multiple_of(PAGE);
                (fits(at, gap) && !gap.is_heaps(at)).then_some(at)
            }))
            .next()
    }

    /// The free ranges, without the stack's room.
    fn gaps(&self) -> Vec<Gap> {
        let mut gaps = Vec::new();
        let mut start = LOWEST;
        let mut grows_into = false;
        let mut file = "";
        for mapping in &self.0 {
            let room = if mapping.kind() == MappingKind::Stack { STACK_ROOM } else { 0 };
            let end = mapping.start.saturating_sub(room);
            if end > start {
                gaps.push(Gap { free: start..end, grows_into });
            }
            start = mapping.end.max(start);
            // A program that has not requested memory yet has no heap mapping, but its heap will start after
            // the program.
            grows_into = mapping.kind() == MappingKind::Heap
                || mapping.name == self.program()
                || (file == self.program() && mapping.name.is_empty());
            if !mapping.name.is_empty() {
                file = &mapping.name;
            }
        }
        if start < HIGHEST
            && self.0.last().is_none_or(|last| last.name.is_empty() || last.name.starts_with('/'))
        {
            gaps.push(Gap { free: start..HIGHEST, grows_into });
        }
        gaps
    }

    /// The first mapped file: on x86-64 the program is below its libraries.
    fn program(&self) -> &str {
        self.0.iter().map(|mapping| mapping.name.as_str()).find(|path| path.starts_with('/')).unwrap_or("")
    }
}

/// A free range.
#[derive(Debug)]
struct Gap {
    free: Range<u64>,
    /// The mapping before it is the heap, or the heap will start there.
    grows_into: bool,
}

impl Gap {
    /// Whether the heap may grow to this address.
    fn is_heaps(&self, at: u64) -> bool {
        self.grows_into && at < self.free.start + HEAP_ROOM
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maps(text: &str) -> Maps {
        Maps(Mapping::parse_all(text.as_bytes()))
    }

    fn reaches(at: u64, len: u64, code: &Range<u64>) -> bool {
        let farthest = at.abs_diff(code.end).max((at + len).abs_diff(code.start));
        farthest < 1 << 31
    }

    #[test]
    fn places_a_page_below_the_program_not_in_the_way_of_its_heap() {
        let maps = maps(
            "00400000-00500000 r-xp 00000000 fe:00 1 /bin/static\n\
             00700000-00800000 rw-p 00000000 00:00 0 [heap]\n\
             7fff00000000-7fff00021000 rw-p 00000000 00:00 0 [stack]",
        );
        let at = maps.place(&(0x40_0000..0x50_0000), 5000).unwrap();
        assert!((LOWEST..0x40_0000 - 8192).contains(&at) && at.is_multiple_of(PAGE));
    }

    #[test]
    fn places_a_page_far_above_the_heap_without_room_below() {
        for heap in ["00800000-00900000 rw-p 00000000 00:00 0 [heap]\n", ""] {
            let maps = maps(&format!(
                "00010000-00500000 r-xp 00000000 fe:00 1 /bin/low\n\
                 00500000-00510000 rw-p 00000000 00:00 0 \n{heap}\
                 7fff00000000-7fff00021000 rw-p 00000000 00:00 0 [stack]\n\
                 7fff00030000-7fff00031000 r-xp 00000000 00:00 0 [vdso]"
            ));
            let at = maps.place(&(0x1_0000..0x50_0000), 4096).unwrap();
            assert!(at >= 0x51_0000 + HEAP_ROOM && reaches(at, 4096, &(0x1_0000..0x50_0000)));
        }
    }

    #[test]
    fn places_a_librarys_page_within_reach_between_its_neighbours() {
        let maps = maps(
            "555500000000-555500010000 r-xp 00000000 fe:00 1 /bin/program\n\
             555500020000-555500080000 rw-p 00000000 00:00 0 [heap]\n\
             7f0000000000-7f0000100000 r-xp 00000000 fe:00 2 /lib/liba.so\n\
             7f0000100000-7f0000200000 r-xp 00000000 fe:00 3 /lib/libc.so.6\n\
             7fff00000000-7fff00021000 rw-p 00000000 00:00 0 [stack]",
        );
        let libc = 0x7f00_0010_0000..0x7f00_0020_0000;
        let at = maps.place(&libc, 4096).unwrap();
        assert!(reaches(at, 4096, &libc) && at + 4096 < 0x7f00_0000_0000);
        let program = 0x5555_0000_0000..0x5555_0001_0000;
        let at = maps.place(&program, 4096).unwrap();
        assert!(reaches(at, 4096, &program) && at < program.start);
    }

    #[test]
    fn does_not_hand_out_a_range_twice() {
        let maps = maps("555500000000-555500010000 r-xp 00000000 fe:00 1 /bin/program");
        let code = 0x5555_0000_0000..0x5555_0001_0000;
        let first = maps.place(&code, 4096).unwrap();
        let second = maps.with(std::iter::once(first..first + 4096)).place(&code, 4096).unwrap();
        assert!(second.abs_diff(first) >= 4096);
    }
}
