//! The GNU build id, and the notes that hold it.

use std::fmt;

use object::LittleEndian;
use object::elf::{ELF_NOTE_GNU, FileHeader64, NT_GNU_BUILD_ID};
use object::read::elf::NoteIterator;

/// The linker's id for a build: equal in a program and in its separate debug file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BuildId(Vec<u8>);

impl BuildId {
    /// Finds the first build id in a list of notes that is padded to 4 bytes, such as `/sys/kernel/notes`:
    ///
    /// ```text
    /// notes = { name length:u32  description length:u32  type:u32  name  description }    both padded
    /// ```
    pub fn in_notes(notes: &[u8]) -> Option<Self> {
        Self::first(NoteIterator::new(LittleEndian, 4, notes).ok()?)
    }

    /// The first build id in some notes; notes after damaged lengths are ignored.
    pub(crate) fn first(mut notes: NoteIterator<'_, FileHeader64<LittleEndian>>) -> Option<Self> {
        while let Ok(Some(note)) = notes.next() {
            let is_build_id = note.name() == ELF_NOTE_GNU && note.n_type(LittleEndian) == NT_GNU_BUILD_ID;
            if is_build_id && !note.desc().is_empty() {
                return Some(Self(note.desc().to_vec()));
            }
        }
        None
    }

    /// The id as bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether these hexadecimal digits are this id.
    pub fn is(&self, digits: &str) -> bool {
        self.to_string() == digits
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&hex(&self.0))
    }
}

/// Formats bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::note;

    #[test]
    fn the_id_is_found_after_other_notes() {
        let notes = [
            note(b"Linux\0", 3, &[9; 20]),
            note(b"GNU\0", 1, &[9, 9, 9]),
            note(b"GNU\0", 3, &[]),
            note(b"GNU\0", 3, &[0xab, 0x01]),
            note(b"GNU\0", 3, &[7]),
        ]
        .concat();
        let id = BuildId::in_notes(&notes).unwrap();
        assert_eq!((id.to_string().as_str(), id.bytes()), ("ab01", &[0xab, 0x01][..]));
        assert!(id.is("ab01") && !id.is("AB01") && !id.is(""));
        let without_last = notes.len() - note(b"GNU\0", 3, &[7]).len() - 4;
        for len in 0..without_last {
            assert_eq!(BuildId::in_notes(&notes[..len]), None, "cut off at {len}");
        }
    }

    #[test]
    fn notes_with_wrong_lengths_are_ignored() {
        let whole = note(b"GNU\0", 3, &[1, 2, 3, 4]);
        for at in [0, 4] {
            for length in [u32::MAX, u32::MAX - 3, 1 << 31, 100] {
                let mut notes = whole.clone();
                notes[at..at + 4].copy_from_slice(&length.to_le_bytes());
                assert_eq!(BuildId::in_notes(&notes), None, "length {length} at {at}");
            }
        }
        assert_eq!(BuildId::in_notes(&[]), None);
    }
}
