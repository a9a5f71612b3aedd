//! Rejects records that their parser cannot handle.

use linux_perf_event_reader::{Endianness, RecordParseInfo, SampleFormat};

const MMAP2: u32 = 10;
const SAMPLE: u32 = 9;
const HAS_BUILD_ID: u16 = 1 << 14;
const LONGEST_BUILD_ID: u8 = 20;

/// Whether the lengths in a record agree with its size.
pub(super) fn is_sound(kind: u32, misc: u16, bytes: &[u8], info: &RecordParseInfo) -> bool {
    match kind {
        MMAP2 if misc & HAS_BUILD_ID != 0 => bytes.get(32).is_some_and(|len| *len <= LONGEST_BUILD_ID),
        SAMPLE if info.sample_format.contains(SampleFormat::CALLCHAIN) => {
            let before = SampleFormat::IDENTIFIER
                | SampleFormat::IP
                | SampleFormat::TID
                | SampleFormat::TIME
                | SampleFormat::ADDR
                | SampleFormat::ID
                | SampleFormat::STREAM_ID
                | SampleFormat::CPU
                | SampleFormat::PERIOD;
            let at = 8 * info.sample_format.intersection(before).bits().count_ones() as usize;
            let Some(count) = bytes.get(at..at + 8).and_then(|word| <[u8; 8]>::try_from(word).ok()) else {
                return false;
            };
            let count = match info.endian {
                Endianness::LittleEndian => u64::from_le_bytes(count),
                Endianness::BigEndian => u64::from_be_bytes(count),
            };
            count <= (bytes.len() - at - 8) as u64 / 8
        }
        _ => true,
    }
}
