//! With what new blocks are filled for [`crate::area::flag::UNUSED`], and how many bytes of it are left.

/// The byte at an offset in a filled block. It does not depend on where the block is, since a reallocation can move it.
#[inline]
pub const fn fill_byte(offset: u64) -> u8 {
    // Neighbours differ, so that neither a memset nor a copied run looks like it.
    ((offset.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8) | 1
}

/// Bytes that are judged together.
const WORD: u64 = 4;

/// Counts the bytes of a block that were never written, from its first byte to its last.
///
/// A program writes the very byte that is there once in a hundred times. So what counts is a word of four bytes, from the block's start on,
/// of which none has changed. The last bytes of a block that make no word count with the word before them.
#[derive(Debug, Clone, Copy)]
pub struct Untouched {
    offset: u64,
    bytes: u64,
    /// No byte of this word has changed so far.
    word: bool,
    /// No byte of the word before has.
    before: bool,
}

impl Default for Untouched {
    fn default() -> Self {
        Self { offset: 0, bytes: 0, word: true, before: true }
    }
}

impl Untouched {
    /// The next byte.
    #[inline]
    pub fn add(&mut self, byte: u8) {
        self.word &= byte == fill_byte(self.offset);
        self.offset += 1;
        if self.offset.is_multiple_of(WORD) {
            self.bytes += if self.word { WORD } else { 0 };
            self.before = self.word;
            self.word = true;
        }
    }

    /// How many there are, after the last byte.
    pub fn bytes(&self) -> u64 {
        let rest = self.offset % WORD;
        self.bytes + if self.word && self.before { rest } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec;
    use std::vec::Vec;

    use super::*;

    fn untouched(bytes: &[u8]) -> u64 {
        let mut untouched = Untouched::default();
        bytes.iter().for_each(|byte| untouched.add(*byte));
        untouched.bytes()
    }

    fn filled(len: u64) -> Vec<u8> {
        (0..len).map(fill_byte).collect()
    }

    #[test]
    fn a_filled_block_is_untouched_whatever_its_size() {
        for len in 0..40 {
            assert_eq!(untouched(&filled(len)), len);
        }
    }

    #[test]
    fn a_written_byte_takes_its_word_along() {
        for at in 0..16 {
            let mut bytes = filled(16);
            bytes[at] ^= 1;
            assert_eq!(untouched(&bytes), 12, "at {at}");
        }
    }

    #[test]
    fn a_byte_that_is_the_same_by_chance_does_not_count() {
        let mut bytes = vec![0; 16];
        for at in [0, 5, 10, 15] {
            bytes[at] = fill_byte(at as u64);
        }
        assert_eq!(untouched(&bytes), 0);
    }

    #[test]
    fn the_last_bytes_count_with_the_word_before_them() {
        let mut bytes = filled(9);
        bytes[5] ^= 1;
        assert_eq!(untouched(&bytes), 4);
        let mut bytes = filled(9);
        bytes[1] ^= 1;
        assert_eq!(untouched(&bytes), 5);
    }
}
