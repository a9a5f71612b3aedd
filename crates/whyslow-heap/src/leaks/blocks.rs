//! Reads the contents of all blocks, in address order.

use super::graph::Memory;
use super::index::Index;

/// Maximum number of bytes per read.
pub(crate) const WINDOW: usize = 1 << 20;
/// Gaps up to this size are read with their neighbours: copying them costs less than another call.
const MOST_GAP: u64 = 4096;

/// Calls `each` with a block, an address in it, and the bytes there. Large blocks are passed in several
/// pieces; all except the first start at a multiple of 8.
pub(crate) fn read_blocks(index: &Index, memory: &mut impl Memory, mut each: impl FnMut(usize, u64, &[u8])) {
    let mut buffer = vec![0; WINDOW];
    let mut at = 0;
    while at < index.len() {
        let low = index.start(at);
        let (last, high) = neighbours(index, at);
        let length = (high - low) as usize;
        if length > WINDOW {
            read_large(low, high, &mut buffer, memory, |address, bytes| each(at, address, bytes));
        } else {
            memory.read(low, &mut buffer[..length]);
            for block in at..=last {
                let (start, end) = (index.start(block), index.end(block));
                each(block, start, &buffer[(start - low) as usize..(end - low) as usize]);
            }
        }
        at = last + 1;
    }
}

/// The last block that is read together with this one, and the end of the range.
fn neighbours(index: &Index, first: usize) -> (usize, u64) {
    let (mut last, mut high) = (first, index.end(first));
    while last + 1 < index.len() {
        let next = last + 1;
        let end = index.end(next).max(high);
        if index.start(next) > high.saturating_add(MOST_GAP) || end - index.start(first) > WINDOW as u64 {
            break;
        }
        (last, high) = (next, end);
    }
    (last, high)
}

/// Reads a range of any length, piece by piece; all pieces except the first start at a multiple of 8.
pub(crate) fn read_large(
    start: u64,
    end: u64,
    buffer: &mut [u8],
    memory: &mut impl Memory,
    mut each: impl FnMut(u64, &[u8]),
) {
    let mut at = start;
    while at < end {
        let most = (buffer.len() as u64).min(end - at);
        let stop = if at + most == end { end } else { (at + most) & !7 };
        let piece = &mut buffer[..(stop - at) as usize];
        memory.read(at, piece);
        each(at, piece);
        at = stop;
    }
}
