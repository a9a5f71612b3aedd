//! The pointers from blocks and roots to blocks.

use super::blocks::{WINDOW, read_blocks, read_large};
use super::graph::{Memory, Pointers, Roots};
use super::heuristics::{self, Suspect};
use super::index::Index;

/// Flag of an edge to the middle of a block.
const INTERIOR: u32 = 1 << 31;

/// One pointer to a block, and whether it points to the block's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edge(u32);

impl Edge {
    pub(crate) fn to(self) -> usize {
        (self.0 & !INTERIOR) as usize
    }

    /// Whether it points to the start, or to an address that C++ uses instead.
    pub(crate) fn is_start(self) -> bool {
        self.0 & INTERIOR == 0
    }

    pub(crate) fn take_for_start(&mut self) {
        self.0 &= !INTERIOR;
    }
}

/// All edges, by source block, in address order.
///
/// Memory is read once, in that order, and not needed afterwards. So the process can run on while the graph
/// is walked, and the stored data depends on the number of pointers, not on the size of the heap.
#[derive(Debug)]
pub(crate) struct Edges {
    edges: Vec<Edge>,
    /// Where the edges of each block start; then those of the roots; then the end.
    begins: Vec<usize>,
}

impl Edges {
    /// Reads all blocks and roots.
    pub(crate) fn read(index: &Index, roots: &Roots, memory: &mut impl Memory) -> Self {
        let mut scan = Scan::new(index);
        read_blocks(index, memory, |block, address, bytes| scan.block(block, address, bytes));
        scan.begins.push(scan.edges.len());
        let mut buffer = vec![0; WINDOW];
        for range in &roots.ranges {
            read_large(range.start, range.end, &mut buffer, memory, |address, bytes| {
                scan.words(address, bytes, range.pointers);
            });
        }
        for &word in &roots.words {
            scan.word(word, Pointers::Any);
        }
        scan.begins.push(scan.edges.len());
        heuristics::apply(&scan.suspects, &scan.heads, index, &mut scan.edges, memory);
        Self { edges: scan.edges, begins: scan.begins }
    }

    /// The edges from a block.
    #[inline]
    pub(crate) fn of(&self, block: usize) -> &[Edge] {
        &self.edges[self.begins[block]..self.begins[block + 1]]
    }

    /// The edges from the roots.
    pub(crate) fn of_roots(&self) -> &[Edge] {
        self.of(self.begins.len() - 2)
    }
}

struct Scan<'a> {
    index: &'a Index,
    low: u64,
    span: u64,
    edges: Vec<Edge>,
    begins: Vec<usize>,
    suspects: Vec<Suspect>,
    /// The first two words of each block, for the heuristics.
    heads: Vec<[u64; 2]>,
}

impl<'a> Scan<'a> {
    fn new(index: &'a Index) -> Self {
        let (low, high) = index.bounds();
        Self {
            index,
            low,
            span: high - low,
            edges: Vec::new(),
            begins: Vec::with_capacity(index.len() + 2),
            suspects: Vec::new(),
            heads: Vec::with_capacity(index.len()),
        }
    }

    /// Scans a piece of a block.
    fn block(&mut self, block: usize, address: u64, bytes: &[u8]) {
        if block == self.begins.len() {
            self.begins.push(self.edges.len());
            self.heads.push(head(bytes));
        }
        self.words(address, bytes, Pointers::Any);
    }

    /// Scans the aligned words in a range of bytes.
    fn words(&mut self, address: u64, bytes: &[u8], pointers: Pointers) {
        let unaligned = (address.next_multiple_of(8) - address) as usize;
        for word in bytes.get(unaligned..).unwrap_or_default().as_chunks::<8>().0 {
            self.word(u64::from_le_bytes(*word), pointers);
        }
    }

    #[inline]
    fn word(&mut self, word: u64, pointers: Pointers) {
        if word.wrapping_sub(self.low) >= self.span {
            return;
        }
        let Some((block, start)) = self.index.find(word) else { return };
        if start {
            self.edges.push(Edge(block as u32));
        } else if pointers == Pointers::Any || !is_next_header(word, self.index.end(block)) {
            self.suspects.push(Suspect { edge: self.edges.len(), pointer: word });
            self.edges.push(Edge(block as u32 | INTERIOR));
        }
    }
}

fn head(bytes: &[u8]) -> [u64; 2] {
    let mut words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    [words.next().unwrap_or(0), words.next().unwrap_or(0)]
}

/// Whether a pointer into a block can be glibc's pointer to the header of the next chunk: headers are aligned
/// to 16 bytes, and their first 8 bytes belong to the previous block.
fn is_next_header(pointer: u64, end: u64) -> bool {
    pointer.is_multiple_of(16) && end - pointer <= 8
}
