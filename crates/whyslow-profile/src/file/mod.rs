//! The `.whyslow` file.
//!
//! ```text
//! file    = header, chunk*
//! header  = "whyslow\n", version: u32, sealed length: u64, crc32 of the 20 bytes before: u32
//! chunk   = kind: 4 bytes, raw length: u32, stored length: u32, crc32 of kind + lengths + payload: u32, payload
//! payload = zstd(columns), or zstd(JSON) for the kind META; unpacks to at most 32 times its length
//! column  = name, type, rows, bytes                       see `column.rs`
//! ```
//! All numbers are little-endian. Values of metrics triggered by the cycle counter are cycles in the file; a
//! chunk SCALES has the length of one, and in memory they are nanoseconds. Chunks are appended while
//! recording; the sealed length remains 0 until the recording has ended well. A file without a seal opens up
//! to its last complete chunk and is marked incomplete; a sealed file that is shorter than its sealed length,
//! or whose bytes changed, is an error.
//!
//! Rules for change: readers skip unknown kinds of chunk and unknown columns. A column that is added later
//! must read as a default if it is missing. A change that cannot be made this way raises [`VERSION`], and
//! readers keep accepting every older version.

mod causal;
mod chunk;
mod column;
mod heap;
mod read;
mod syscalls;
mod tables;
mod targets;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod version1;
mod waits;
mod write;

use std::io;

pub use read::{read, read_bytes};
pub use write::{Writer, write};

/// The newest file version that this code reads, and the one it writes.
pub const VERSION: u32 = 2;

/// The file name extension.
pub const EXTENSION: &str = "whyslow";

const MAGIC: &[u8; 8] = b"whyslow\n";
const HEADER_LEN: usize = 24;

/// True if the bytes start like a `.whyslow` file.
pub fn is_profile(start: &[u8]) -> bool {
    start.starts_with(MAGIC)
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be opened or read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("it is not a whyslow profile")]
    NotAProfile,
    /// A newer whyslow wrote it.
    #[error("it has file version {found}, and this whyslow reads versions up to {}", VERSION)]
    Newer {
        /// The version in the file.
        found: u32,
    },
    /// Bytes at the end are missing.
    #[error("it is cut off: {actual} of {expected} bytes are there")]
    CutOff {
        /// Bytes that were sealed.
        expected: u64,
        /// Bytes that exist.
        actual: u64,
    },
    /// Recording stopped before anything was written.
    #[error("it holds no recording: the recorder was stopped before its first sample was saved")]
    Empty,
    /// Bytes have changed.
    #[error("it is damaged at byte {offset}: {what}")]
    Damaged {
        /// Where the bad chunk starts.
        offset: u64,
        /// What is wrong with it.
        what: &'static str,
    },
}
