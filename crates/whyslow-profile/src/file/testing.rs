//! Files without checksums and compression, for fuzzing: behind those a fuzzer finds nothing.
//!
//! ```text
//! bare file  = version: u8, sealed: u8, bare chunk*
//! bare chunk = kind: 4 bytes, length: u32, columns or JSON
//! ```

use super::{HEADER_LEN, MAGIC, chunk};

/// A file's bare form; `None` if it is not a whyslow file or is damaged.
pub fn bare(file: &[u8]) -> Option<Vec<u8>> {
    let (header, mut rest) = file.split_at_checked(HEADER_LEN)?;
    if !header.starts_with(MAGIC) {
        return None;
    }
    let sealed = header[12..20].iter().any(|byte| *byte != 0);
    let mut bare = vec![header[8], u8::from(sealed)];
    while !rest.is_empty() {
        let chunk = chunk::next(&mut rest).ok()?;
        let raw = chunk.unpack().ok()?;
        bare.extend(chunk.kind);
        bare.extend((raw.len() as u32).to_le_bytes());
        bare.extend(raw);
    }
    Some(bare)
}

/// The file of a bare form, whatever that contains. The last chunk has the bytes that are left.
pub fn dressed(bare: &[u8]) -> Vec<u8> {
    let (start, mut rest) = bare.split_at_checked(2).unwrap_or((&[1, 0], &[]));
    let mut chunks = Vec::new();
    while let Some((head, behind)) = rest.split_at_checked(8) {
        let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let (raw, behind) = behind.split_at(len.min(behind.len()));
        // Contents too large for a chunk are left out.
        chunks.extend(
            chunk::Encoder::new()
                .and_then(|mut encoder| encoder.encode([head[0], head[1], head[2], head[3]], raw))
                .unwrap_or_default(),
        );
        rest = behind;
    }
    let sealed_len = if start[1] == 0 { 0 } else { HEADER_LEN + chunks.len() };
    let mut file = MAGIC.to_vec();
    file.extend(u32::from(start[0]).to_le_bytes());
    file.extend((sealed_len as u64).to_le_bytes());
    file.extend(crc32fast::hash(&file).to_le_bytes());
    file.extend(chunks);
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_rebuilt_from_its_bare_form_reads_the_same() {
        for name in ["v1", "v2"] {
            let path = format!("{}/tests/golden/{name}.whyslow", env!("CARGO_MANIFEST_DIR"));
            let file = std::fs::read(path).expect("a golden file");
            let again = dressed(&bare(&file).expect("a whole file"));
            let read = |bytes: &[u8]| format!("{:?}", super::super::read_bytes(bytes).expect("a profile"));
            assert_eq!(read(&again), read(&file));
        }
    }

    #[test]
    fn any_bytes_become_a_file_whose_chunks_are_read() {
        let file = dressed(b"\x01\x01METR\xff\xff\xff\xff some columns");
        assert!(matches!(
            super::super::read_bytes(&file),
            Err(super::super::ReadError::Damaged { offset: 24, what }) if !what.contains("checksum")
        ));
    }
}
