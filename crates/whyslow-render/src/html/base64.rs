//! Base64 text in blocks, each between two tags.

use std::io::{self, Write};

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes encoded at once: a multiple of three.
const AT_ONCE: usize = 48 << 10;

/// Appends the four digits of each three bytes; the last group may be shorter and is filled with `=`.
pub(super) fn encode(bytes: &[u8], text: &mut Vec<u8>) {
    let digit = |bits: u32| DIGITS[(bits & 63) as usize];
    let (groups, rest) = bytes.as_chunks::<3>();
    for &[a, b, c] in groups {
        let bits = u32::from_be_bytes([0, a, b, c]);
        text.extend_from_slice(&[digit(bits >> 18), digit(bits >> 12), digit(bits >> 6), digit(bits)]);
    }
    match *rest {
        [a] => {
            let bits = u32::from(a) << 16;
            text.extend_from_slice(&[digit(bits >> 18), digit(bits >> 12), b'=', b'=']);
        }
        [a, b] => {
            let bits = u32::from_be_bytes([0, a, b, 0]);
            text.extend_from_slice(&[digit(bits >> 18), digit(bits >> 12), digit(bits >> 6), b'=']);
        }
        _ => {}
    }
}

/// Writes bytes as base64 in blocks of limited length. Only the last block can end with `=`, so the blocks
/// can be decoded separately or as one text.
pub(super) struct Blocks<W: Write> {
    out: W,
    tags: [&'static str; 2],
    /// Bytes in a full block.
    full: usize,
    /// Bytes of the current block already written.
    written: usize,
    /// Bytes not written yet, fewer than the block still takes.
    waiting: Vec<u8>,
    text: Vec<u8>,
}

impl<W: Write> Blocks<W> {
    /// Starts blocks of at most this many characters, but at least four.
    pub(super) fn new(mut out: W, most_text: usize, tags: [&'static str; 2]) -> io::Result<Self> {
        out.write_all(tags[0].as_bytes())?;
        let full = (most_text / 4).max(1) * 3;
        Ok(Self { out, tags, full, written: 0, waiting: Vec::with_capacity(AT_ONCE), text: Vec::new() })
    }

    fn flush_waiting(&mut self) -> io::Result<()> {
        self.text.clear();
        encode(&self.waiting, &mut self.text);
        self.written += self.waiting.len();
        self.waiting.clear();
        self.out.write_all(&self.text)
    }

    /// Writes the remaining bytes and the closing tag.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.flush_waiting()?;
        self.out.write_all(self.tags[1].as_bytes())
    }
}

impl<W: Write> Write for Blocks<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.written == self.full && !bytes.is_empty() {
            self.out.write_all(self.tags[1].as_bytes())?;
            self.out.write_all(self.tags[0].as_bytes())?;
            self.written = 0;
        }
        let room = AT_ONCE.min(self.full - self.written) - self.waiting.len();
        let taken = bytes.len().min(room);
        self.waiting.extend_from_slice(&bytes[..taken]);
        if taken == room {
            self.flush_waiting()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        // An incomplete group of three bytes must wait for the rest.
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> String {
        let mut text = Vec::new();
        encode(bytes, &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn the_examples_of_the_standard() {
        let examples = ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|bytes| text(bytes.as_bytes()));
        assert_eq!(examples, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
        assert_eq!(text(&[0xfb, 0xff, 0xbf]), "+/+/");
    }

    #[test]
    fn blocks_are_full_and_the_last_one_has_the_rest() {
        let blocks = |bytes: &[u8], most: usize, at_once: usize| {
            let mut out = Vec::new();
            let mut blocks = Blocks::new(&mut out, most, ["<", ">"]).unwrap();
            bytes.chunks(at_once).for_each(|piece| blocks.write_all(piece).unwrap());
            blocks.finish().unwrap();
            String::from_utf8(out).unwrap()
        };
        for at_once in [1, 2, 5, 100] {
            assert_eq!(blocks(b"foobarf", 4, at_once), "<Zm9v><YmFy><Zg==>");
            assert_eq!(blocks(b"foobar", 11, at_once), "<Zm9vYmFy>");
        }
        assert_eq!(blocks(b"", 8, 1), "<>");
        let long = vec![7; 3 * AT_ONCE + 5];
        assert_eq!(blocks(&long, usize::MAX, 1000), format!("<{}>", text(&long)));
    }
}
