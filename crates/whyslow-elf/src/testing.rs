//! Builds small ELF files for tests.

/// A 64-bit file for x86-64 with program headers and without sections.
#[derive(Debug, Clone, Default)]
pub struct Built {
    segments: Vec<(u32, u32, u64, Vec<u8>, u64)>,
}

const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const READ: u32 = 4;
const WRITE: u32 = 2;
const EXECUTE: u32 = 1;

impl Built {
    /// Adds a loaded segment of code. Its file offset allows the page to be mapped.
    pub fn load(mut self, address: u64, bytes: &[u8]) -> Self {
        self.segments.push((PT_LOAD, READ | EXECUTE, address, bytes.to_vec(), 0));
        self
    }

    /// Adds a loaded data segment: these bytes, and this many zeros that are not in the file.
    pub fn data(mut self, address: u64, bytes: &[u8], zeros: u64) -> Self {
        self.segments.push((PT_LOAD, READ | WRITE, address, bytes.to_vec(), zeros));
        self
    }

    /// Adds a segment of notes.
    pub fn notes(mut self, notes: &[u8]) -> Self {
        self.segments.push((PT_NOTE, READ, 0, notes.to_vec(), 0));
        self
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        // A shared object, for x86-64, version 1.
        file.extend([3, 0, 62, 0, 1, 0, 0, 0]);
        // Entry, program headers, section headers, flags.
        file.extend(0u64.to_le_bytes());
        file.extend((HEADER as u64).to_le_bytes());
        file.extend([0; 12]);
        for number in [HEADER, PROGRAM_HEADER, self.segments.len(), 64, 0, 0] {
            file.extend((number as u16).to_le_bytes());
        }
        let mut at = HEADER + PROGRAM_HEADER * self.segments.len();
        let mut body = Vec::new();
        for (kind, flags, address, bytes, zeros) in &self.segments {
            let start = body_start(at, *address, *kind);
            body.resize(body.len() + (start - at), 0);
            file.extend(kind.to_le_bytes());
            file.extend(flags.to_le_bytes());
            let len = bytes.len() as u64;
            for number in [start as u64, *address, *address, len, len + zeros, 4] {
                file.extend(number.to_le_bytes());
            }
            body.extend(bytes);
            at = start + bytes.len();
        }
        file.extend(body);
        file
    }
}

/// Loaded bytes have the same position in their memory page as in their file page.
fn body_start(at: usize, address: u64, kind: u32) -> usize {
    if kind != PT_LOAD {
        return at;
    }
    let (page, within) = (at & !4095, (address & 4095) as usize);
    if page + within >= at { page + within } else { page + 4096 + within }
}

/// Builds a note.
pub fn note(name: &[u8], kind: u32, description: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in [name.len() as u32, description.len() as u32, kind] {
        bytes.extend(number.to_le_bytes());
    }
    for text in [name, description] {
        bytes.extend(text);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}
