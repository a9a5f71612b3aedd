//! Random changes to files: flipped bits, inserted and removed bytes, changed numbers, a missing end.

use proptest::prelude::*;
use proptest::sample::Index;

/// The position, the kind, and a byte that says how.
pub(crate) type Change = (Index, u8, u8);

/// A few changes.
pub(crate) fn changes(at_most: usize) -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec((any::<Index>(), 0u8..9, any::<u8>()), 1..=at_most)
}

/// Applies one change. The bytes may become empty, and an empty file has nothing to change.
pub(crate) fn change(bytes: &mut Vec<u8>, (at, kind, byte): Change) {
    if bytes.is_empty() {
        return;
    }
    let at = at.index(bytes.len());
    match kind {
        0 => bytes[at] ^= 1 << (byte % 8),
        1 => bytes[at] = byte,
        2 => bytes.insert(at, byte),
        3 => drop(bytes.remove(at)),
        4 => bytes.truncate(at),
        // A number becomes another, or very large.
        5 if bytes[at].is_ascii_digit() => bytes[at] = b'0' + byte % 10,
        6 if bytes[at].is_ascii_digit() => drop(bytes.splice(at..=at, *b"18446744073709551615")),
        // Numbers in binary files are aligned words.
        7 => {
            let word = at & !7;
            let end = (word + 8).min(bytes.len());
            bytes[word..end].fill(byte);
        }
        8 => {
            let end = (at + usize::from(byte)).min(bytes.len());
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn a_file_can_be_changed_until_nothing_is_left(changes in changes(100)) {
        let mut bytes = b"1".to_vec();
        for one in changes {
            change(&mut bytes, one);
        }
    }
}
