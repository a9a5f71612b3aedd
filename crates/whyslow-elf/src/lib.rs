//! ELF files, for whoever records, unwinds, patches, symbolises or judges programs: each question has one answer here.
//!
//! ```text
//! file_bytes   a file in memory, also after it was deleted
//! headers      segments, image base, sections by name, build id: what damaged section tables leave readable, too
//! build_id     the id, and the notes that hold it
//! elf          all of a file: headers, symbol tables, sections as they were before compression, links to debug files
//! debug_files  where separate debug files are looked for, and what proves that one belongs to a file
//! ```
//!
//! Only 64-bit little-endian files are read. Nothing here knows of processes (that is `whyslow-proc`), of DWARF or of unwinding.

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

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It is not a 64-bit little-endian ELF file, or a damaged one.
    #[error("{0}")]
    Format(#[from] object::Error),
}
