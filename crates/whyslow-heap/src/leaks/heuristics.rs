//! Pointers into the middle of a block that are as good as pointers to its start: C++ creates them on
//! purpose.
//!
//! These are memcheck's four heuristics, all on by default as in memcheck. With `p` the pointer, `b` the
//! block's start, `size` its size, `w0` and `w1` its first two words:
//!
//! ```text
//! length64              p = b + 8    w0 = size - 8                             a length before the data that it counts
//! newarray              p = b + 8    size - 8 is a multiple of w0 > 0          new T[w0], with a destructor
//! stdstring             p = b + 24   w0 ≤ w1, 24 + w1 + 1 = size               a copy-on-write string
//! multiple inheritance  p = b + 8k   *b and *p are addresses of virtual tables
//! ```

use super::edges::Edge;
use super::graph::Memory;
use super::index::Index;

/// An edge to the middle of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Suspect {
    /// The index of the edge.
    pub(crate) edge: usize,
    /// The address that it points to.
    pub(crate) pointer: u64,
}

/// Turns the edges that C++ creates on purpose into start pointers. `heads` are the first two words of each
/// block.
pub(crate) fn apply(
    suspects: &[Suspect],
    heads: &[[u64; 2]],
    index: &Index,
    edges: &mut [Edge],
    memory: &mut impl Memory,
) {
    for suspect in suspects {
        let edge = &mut edges[suspect.edge];
        let block = edge.to();
        let size = index.end(block) - index.start(block);
        let offset = suspect.pointer - index.start(block);
        if counts_what_follows(heads[block], offset, size)
            || has_two_bases(heads[block], suspect.pointer, offset, memory)
        {
            edge.take_for_start();
        }
    }
}

fn counts_what_follows([w0, w1]: [u64; 2], offset: u64, size: u64) -> bool {
    match offset {
        8 => w0 > 0 && (size - 8).is_multiple_of(w0),
        24 => w0 <= w1 && w1.checked_add(25) == Some(size),
        _ => false,
    }
}

fn has_two_bases([w0, _]: [u64; 2], pointer: u64, offset: u64, memory: &mut impl Memory) -> bool {
    if !offset.is_multiple_of(8) || !memory.is_virtual_table(w0) {
        return false;
    }
    let mut word = [0; 8];
    memory.read(pointer, &mut word);
    memory.is_virtual_table(u64::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_an_array_of_objects_by_its_count() {
        assert!(counts_what_follows([3, 0], 8, 8 + 3 * 40));
        assert!(!counts_what_follows([3, 0], 8, 8 + 3 * 40 + 1));
        assert!(!counts_what_follows([0, 0], 8, 8 + 3 * 40));
        assert!(!counts_what_follows([3, 0], 16, 8 + 3 * 40));
    }

    #[test]
    fn recognises_a_length_prefix() {
        assert!(counts_what_follows([100, 0], 8, 108));
    }

    #[test]
    fn recognises_a_shared_string_by_its_capacity() {
        assert!(counts_what_follows([5, 11], 24, 24 + 11 + 1));
        assert!(!counts_what_follows([12, 11], 24, 24 + 11 + 1));
        assert!(!counts_what_follows([5, u64::MAX], 24, 24));
    }
}
