//! The bytes of a file: mapped, read from a pipe, or uncompressed.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::Path;

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use whyslow_elf::FileBytes;
use zstd::stream::read::Decoder as ZstdDecoder;

use super::{ImportError, ImportOptions};

/// The maximum number of bytes read from a pipe.
const PIPE_LIMIT: u64 = 4 << 30;

/// Files up to this length are mapped with all their pages.
const MAPPED_AT_ONCE: u64 = 512 << 20;

/// A compressed file may always unpack to this much, and beyond it to [`Packing::ratio`] times its length.
const ALWAYS_UNPACKED: u64 = 64 << 20;

/// The maximum memory of a decompressor, in KiB: `xz -9` needs half of it.
const XZ_MEMORY: u32 = 128 << 10;

/// Bytes that are unpacked at a time.
const STEP: u64 = 1 << 20;

/// A file's bytes.
pub(super) enum Source {
    Mapped(FileBytes),
    Read(Vec<u8>),
}

impl Source {
    /// Opens a file; `-` is standard input. Anything but a regular file, such as a pipe, is read to its end.
    pub(super) fn open(path: &Path) -> Result<Self, ImportError> {
        let name = if path == Path::new(super::STDIN) { Path::new("/dev/stdin") } else { path };
        let file = File::open(name)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
        }
        if !metadata.is_file() || metadata.len() == 0 {
            let mut bytes = Vec::new();
            file.take(PIPE_LIMIT + 1).read_to_end(&mut bytes)?;
            if bytes.len() as u64 > PIPE_LIMIT {
                return Err(too_large("the pipe delivers", PIPE_LIMIT));
            }
            return Ok(Self::Read(bytes));
        }
        let all_at_once = metadata.len() <= MAPPED_AT_ONCE;
        let map = if all_at_once { FileBytes::map_all_pages(&file) } else { FileBytes::map(&file) };
        Ok(Self::Mapped(map?))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Read(bytes) => bytes,
        }
    }
}

fn too_large(what: &str, limit: u64) -> ImportError {
    ImportError::TooLarge { what: format!("{what} more than {} MB", limit >> 20) }
}

/// A compression format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    Gzip,
    Zstd,
    Xz,
    Bzip2,
}

impl Packing {
    fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x1f, 0x8b, 8, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz),
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, ..] => Some(Self::Bzip2),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
            Self::Bzip2 => "bzip2",
        }
    }

    /// The largest compression ratio of known profiles, with some margin.
    fn ratio(self, is_text: bool) -> u64 {
        match (self, is_text) {
            (Self::Gzip, false) => 50,
            (Self::Gzip, true) | (Self::Zstd | Self::Xz | Self::Bzip2, false) => 200,
            (Self::Zstd | Self::Xz | Self::Bzip2, true) => 500,
        }
    }

    fn unpacker<'a>(self, packed: Counted<'a>) -> io::Result<Box<dyn Read + 'a>> {
        Ok(match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(packed)),
            Self::Zstd => Box::new(ZstdDecoder::with_buffer(packed)?),
            Self::Xz => Box::new(XzReader::new_mem_limit(packed, true, XZ_MEMORY)),
            Self::Bzip2 => Box::new(MultiBzDecoder::new(packed)),
        })
    }
}

/// A reader of bytes that knows how many are left.
struct Counted<'a> {
    bytes: &'a [u8],
    left: &'a Cell<usize>,
}

impl Read for Counted<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(into);
        self.left.set(self.bytes.len());
        read
    }
}

impl BufRead for Counted<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        Ok(self.bytes)
    }

    fn consume(&mut self, amount: usize) {
        self.bytes.consume(amount);
        self.left.set(self.bytes.len());
    }
}

/// The first uncompressed bytes of a file; `None` if it is not compressed. The input may be cut anywhere.
pub(super) fn unpack_start(start: &[u8], most: usize) -> Option<Vec<u8>> {
    let packing = Packing::of(start)?;
    let left = Cell::new(start.len());
    let mut bytes = Vec::new();
    if let Ok(unpacker) = packing.unpacker(Counted { bytes: start, left: &left }) {
        // After an error, `bytes` has what could be unpacked. The rest is not needed.
        let _ = unpacker.take(most as u64).read_to_end(&mut bytes);
    }
    Some(bytes)
}

/// What is wrong with the compressed data of a file; `None` if nothing is, or if it is not compressed.
pub(super) fn damage(packed: &[u8], options: &ImportOptions) -> Option<ImportError> {
    let options = ImportOptions { unpacked_limit: options.unpacked_limit.min(STEP), ..options.clone() };
    unpack(packed, false, &options).err().filter(|error| matches!(error, ImportError::Packed { .. }))
}

/// The uncompressed bytes of a file; `None` if it is not compressed.
pub(super) fn unpack(
    packed: &[u8],
    is_text: bool,
    options: &ImportOptions,
) -> Result<Option<Vec<u8>>, ImportError> {
    let Some(packing) = Packing::of(packed) else { return Ok(None) };
    let by_ratio = (packed.len() as u64).saturating_mul(packing.ratio(is_text)).max(ALWAYS_UNPACKED);
    let limit = options.unpacked_limit.min(by_ratio);
    let left = Cell::new(packed.len());
    let wrong = |error: io::Error| {
        let offset = (packed.len() - left.get()) as u64;
        ImportError::Packed { packing: packing.name(), offset, what: error.to_string() }
    };
    let mut unpacker = packing.unpacker(Counted { bytes: packed, left: &left }).map_err(wrong)?;
    let mut bytes = Vec::new();
    loop {
        let room = (limit + 1).saturating_sub(bytes.len() as u64).min(STEP);
        if room == 0 {
            return Err(too_large("it unpacks to", limit));
        }
        // Reading it takes about as much memory again.
        let has_room = bytes.try_reserve(room as usize).is_ok()
            && Vec::<u8>::new().try_reserve_exact(bytes.len()).is_ok();
        if !has_room {
            let unpacked = bytes.len() >> 20;
            return Err(ImportError::TooLarge {
                what: format!("it unpacks to more than {unpacked} MB, and there is not enough memory for it"),
            });
        }
        if (&mut unpacker).take(room).read_to_end(&mut bytes).map_err(wrong)? == 0 {
            return Ok(Some(bytes));
        }
    }
}

/// Whether there is memory for `times` the length of a file, where the address space is limited. Without a limit, what
/// it takes depends on how often the file repeats itself.
pub(super) fn has_room_for(bytes: &[u8], times: usize) -> bool {
    !whyslow_proc::is_address_space_limited()
        || Vec::<u8>::new().try_reserve_exact(bytes.len().saturating_mul(times)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    #[test]
    fn packed_files_are_unpacked_up_to_the_limit() {
        let options = ImportOptions { unpacked_limit: 1000, ..ImportOptions::default() };
        assert_eq!(unpack(&packed(&[7; 1000]), true, &options).expect("fits"), Some(vec![7; 1000]));
        assert!(matches!(unpack(&packed(&[7; 1001]), true, &options), Err(ImportError::TooLarge { .. })));
        assert_eq!(unpack(b"plain", true, &options).expect("plain"), None);
    }

    #[test]
    fn a_small_file_does_not_unpack_to_gigabytes() {
        let options = ImportOptions::default();
        // 70 MB of one letter, in a few kilobytes.
        let bomb = |len: usize| zstd::encode_all(std::io::repeat(b'7').take(len as u64), 3).expect("memory");
        let packed = bomb(70 << 20);
        assert!(packed.len() < 100_000, "{}", packed.len());
        let error = unpack(&packed, true, &options).expect_err("too large");
        assert!(matches!(error, ImportError::TooLarge { .. }), "{error}");
        // A file without a known format is not unpacked at all.
        let error = super::super::import_bytes(&packed, None, &options).expect_err("unknown");
        assert!(matches!(error, ImportError::UnknownFormat), "{error}");
    }

    /// The same text in each compression format. The bytes of xz and bzip2 are from their own programs.
    fn packed_by_each(text: &[u8]) -> [Vec<u8>; 2] {
        [packed(text), zstd::encode_all(text, 3).expect("memory")]
    }

    #[test]
    fn a_cut_packed_file_is_an_error_with_an_offset() {
        for whole in packed_by_each(&(0..=255).cycle().take(5000).collect::<Vec<u8>>()) {
            let cut = &whole[..whole.len() - 20];
            let error = unpack(cut, true, &ImportOptions::default()).expect_err("cut");
            let offset_fits =
                matches!(error, ImportError::Packed { offset, .. } if offset <= cut.len() as u64);
            assert!(offset_fits, "{error}");
        }
        let whole = packed(&(0..=255).cycle().take(5000).collect::<Vec<u8>>());
        assert_eq!(unpack_start(&whole[..whole.len() - 20], 10), Some((0..10).collect()));
    }

    #[test]
    fn every_packing_is_unpacked() {
        let text = b"main;a 1\nmain;b 2\n";
        let options = ImportOptions::default();
        let xz: &[u8] = &XZ_BYTES;
        let bzip2: &[u8] = &BZIP2_BYTES;
        let [gzip, zstd] = packed_by_each(text);
        for packed in [&gzip[..], &zstd[..], xz, bzip2] {
            assert_eq!(unpack(packed, true, &options).expect("whole").as_deref(), Some(&text[..]));
            assert_eq!(unpack_start(packed, 4).as_deref(), Some(&b"main"[..]));
            for len in 8..packed.len() - 1 {
                assert!(unpack(&packed[..len], true, &options).is_err(), "cut at {len}");
            }
        }
    }

    #[rustfmt::skip]
    const XZ_BYTES: [u8; 76] = [
        0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x04, 0xe6, 0xd6, 0xb4, 0x46, 0x02, 0x00, 0x21, 0x01,
        0x16, 0x00, 0x00, 0x00, 0x74, 0x2f, 0xe5, 0xa3, 0x01, 0x00, 0x11, 0x6d, 0x61, 0x69, 0x6e, 0x3b,
        0x61, 0x20, 0x31, 0x0a, 0x6d, 0x61, 0x69, 0x6e, 0x3b, 0x62, 0x20, 0x32, 0x0a, 0x00, 0x00, 0x00,
        0xc7, 0x35, 0xff, 0x1e, 0xd0, 0x80, 0xd9, 0xb8, 0x00, 0x01, 0x2a, 0x12, 0x4b, 0x08, 0x54, 0xbc,
        0x1f, 0xb6, 0xf3, 0x7d, 0x01, 0x00, 0x00, 0x00, 0x00, 0x04, 0x59, 0x5a,
    ];

    #[rustfmt::skip]
    const BZIP2_BYTES: [u8; 54] = [
        0x42, 0x5a, 0x68, 0x39, 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, 0x75, 0x18, 0x53, 0x08, 0x00, 0x00,
        0x07, 0x59, 0x00, 0x00, 0x10, 0x40, 0x00, 0x30, 0x08, 0x30, 0x23, 0x20, 0x00, 0x21, 0x2a, 0x69,
        0x9a, 0x1a, 0x10, 0x03, 0x09, 0x95, 0x68, 0x66, 0x32, 0x11, 0xa3, 0x38, 0x5d, 0xc9, 0x14, 0xe1,
        0x42, 0x41, 0xd4, 0x61, 0x4c, 0x20,
    ];
}
