//! The mappings of a process, and free places between them.

use std::io;
use std::ops::Range;

/// A line of `/proc/PID/maps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) range: Range<u64>,
    pub(crate) offset: u64,
    pub(crate) path: String,
}

/// All mappings of a process, in the order of their addresses.
#[derive(Debug, Clone)]
pub(crate) struct Maps(pub(crate) Vec<Mapping>);

/// How far a jump with 32 bits goes, less what a page itself may take.
const REACH: u64 = (1 << 31) - (1 << 20);
/// No mapping may lie lower (`vm.mmap_min_addr`).
const LOWEST: u64 = 0x1_0000;
/// No mapping of a program lies higher.
const HIGHEST: u64 = 0x7fff_ffff_f000;
/// What the heap behind a program gets to grow into.
const HEAP_ROOM: u64 = 1 << 30;
/// The distance that is kept from neighbours below, so that running off their end is still a fault.
const GUARD: u64 = 0x1_0000;
const PAGE: u64 = 4096;

impl Maps {
    /// Reads the mappings of a process.
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        Ok(Self::parse(&std::fs::read_to_string(format!("/proc/{pid}/maps"))?))
    }

    pub(crate) fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(parse_line).collect())
    }

    /// These, and ranges that will be taken.
    pub(crate) fn with(&self, taken: impl Iterator<Item = Range<u64>>) -> Self {
        let mut all = self.0.clone();
        all.extend(taken.map(|range| Mapping { range, offset: 0, path: String::new() }));
        all.sort_by_key(|mapping| mapping.range.start);
        Self(all)
    }

    /// The path of the file that is mapped at an address.
    pub(crate) fn path_at(&self, address: u64) -> Option<&str> {
        self.0.iter().find(|mapping| mapping.range.contains(&address)).map(|mapping| mapping.path.as_str())
    }

    /// A free place of this length from which all of `code` can be reached. Just below the code if possible: what is behind a
    /// program is its heap's.
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

    /// What is free. The last gap before the stack is the stack's.
    fn gaps(&self) -> Vec<Gap> {
        let mut gaps = Vec::new();
        let mut start = LOWEST;
        let mut grows_into = false;
        let mut file = "";
        for mapping in &self.0 {
            if mapping.range.start > start && mapping.path != "[stack]" {
                gaps.push(Gap { free: start..mapping.range.start, grows_into });
            }
            start = mapping.range.end.max(start);
            // Before the program has asked for memory there is no heap to be seen, but it will begin behind the program.
            grows_into = mapping.path == "[heap]"
                || mapping.path == self.program()
                || (file == self.program() && mapping.path.is_empty());
            if !mapping.path.is_empty() {
                file = &mapping.path;
            }
        }
        if start < HIGHEST
            && self.0.last().is_none_or(|last| last.path.is_empty() || last.path.starts_with('/'))
        {
            gaps.push(Gap { free: start..HIGHEST, grows_into });
        }
        gaps
    }

    /// The first file that is mapped: on x86-64 the program lies below its libraries.
    fn program(&self) -> &str {
        self.0.iter().map(|mapping| mapping.path.as_str()).find(|path| path.starts_with('/')).unwrap_or("")
    }
}

/// A free range.
#[derive(Debug)]
struct Gap {
    free: Range<u64>,
    /// What lies before it is the heap, or what the heap will begin behind.
    grows_into: bool,
}

impl Gap {
    /// Whether the heap may want this place.
    fn is_heaps(&self, at: u64) -> bool {
        self.grows_into && at < self.free.start + HEAP_ROOM
    }
}

fn parse_line(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let offset = fields.nth(1)?;
    let path = fields.nth(2).unwrap_or("").trim_start();
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(Mapping { range: hex(start)?..hex(end)?, offset: hex(offset)?, path: path.to_owned() })
}
