//! Decompresses sections.

use std::io::Read;

use object::CompressionFormat;

/// Sections that would decompress to more than this are damaged or hostile.
const LARGEST_SECTION: u64 = 4 << 30;

/// Decompresses at most as many bytes as the header announces; memory grows only with real output.
pub(crate) fn decompress(format: CompressionFormat, data: &[u8], size: u64) -> Option<Vec<u8>> {
    if size > LARGEST_SECTION {
        return None;
    }
    let expected = size.min(data.len() as u64 * 16 + 4096) as usize;
    let mut bytes = Vec::with_capacity(expected);
    match format {
        CompressionFormat::Zlib => {
            flate2::read::ZlibDecoder::new(data).take(size).read_to_end(&mut bytes).ok()?;
        }
        CompressionFormat::Zstandard => {
            zstd::stream::read::Decoder::new(data).ok()?.take(size).read_to_end(&mut bytes).ok()?;
        }
        _ => return None,
    }
    (bytes.len() as u64 == size).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_with_a_wrong_size_is_refused() {
        let packed = zstd::encode_all(&[7u8; 1000][..], 1).unwrap();
        assert_eq!(decompress(CompressionFormat::Zstandard, &packed, 1000).unwrap().len(), 1000);
        assert!(decompress(CompressionFormat::Zstandard, &packed, 2000).is_none());
        assert!(decompress(CompressionFormat::Zstandard, &packed, u64::MAX).is_none());
        assert!(decompress(CompressionFormat::Zlib, &packed, 1000).is_none());
    }
}
