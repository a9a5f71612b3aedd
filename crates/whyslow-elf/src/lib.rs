//! Reads ELF files for the crates that record, unwind, patch, symbolise or analyse programs: each question
//! has one answer here.
//!
//! ```text
//! file_bytes   a file in memory, even after it was deleted
//! headers      segments, image base, sections by name, build id; tolerates damaged section tables
//! build_id     the id, and the notes that hold it
//! elf          a whole file: headers, symbol tables, decompressed sections, links to debug files
//! debug_files  where to search for separate debug files, and how to verify that one belongs to a file
//! ```
//!
//! Only 64-bit little-endian files are supported. Nothing here knows about processes (see `whyslow-proc`),
//! DWARF or unwinding.

mod build_id;
mod debug_files;
mod elf;
mod file_bytes;
mod headers;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "unpack")]
mod unpack;

pub use build_id::{BuildId, hex};
pub use debug_files::DebugFolders;
pub use elf::{Elf, ElfFile};
pub use file_bytes::FileBytes;
pub use headers::{Headers, Section, Segment, image_base};
pub use whyslow_numbers::{FileAddress, ImageBase};

/// The reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It is not a 64-bit little-endian ELF file, or it is damaged.
    #[error("{0}")]
    Format(#[from] object::Error),
}
