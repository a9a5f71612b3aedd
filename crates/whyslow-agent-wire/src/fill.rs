//! The fill pattern of new blocks for [`crate::record::op::UNUSED`], and counting how many bytes of it are
//! unchanged.

/// The byte at an offset in a filled block. It does not depend on the block's address because a reallocation
/// can move the block.
#[inline]
pub const fn fill_byte(offset: u64) -> u8 {
    // Neighbouring bytes differ, so neither a memset nor a copied run matches the pattern.
    ((offset.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8) | 1
}

/// Number of bytes compared together.
const WORD: u64 = 4;

/// Counts the bytes of a block that were never written, from its first byte to its last.
///
/// About one byte in a hundred that a program writes equals the fill byte by chance. So a byte counts as unwritten
/// only if its whole four-byte word, counted from the block's start, is unchanged. The last bytes of a block that do
/// not fill a word count with the word before them.
#[derive(Debug, Clone, Copy)]
pub struct Untouched {
    offset: u64,
    bytes: u64,
    /// No byte of the current word has changed so far.
    word: bool,
    /// No byte of the previous word has changed.
    before: bool,
}

impl Default for Untouched {
    fn default() -> Self {
        Self { offset: 0, bytes: 0, word: true, before: true }
    }
}

impl Untouched {
    /// Adds the next byte.
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

    /// The number of unwritten bytes. Call it after the last byte.
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
    fn a_filled_block_of_any_size_is_untouched() {
        for len in 0..40 {
            assert_eq!(untouched(&filled(len)), len);
        }
    }

    #[test]
    fn a_written_byte_marks_its_whole_word_as_written() {
        for at in 0..16 {
            let mut bytes = filled(16);
            bytes[at] ^= 1;
            assert_eq!(untouched(&bytes), 12, "at {at}");
        }
    }

    #[test]
    fn a_byte_that_matches_by_chance_counts_as_written() {
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
