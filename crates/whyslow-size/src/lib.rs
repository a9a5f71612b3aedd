//! Says what takes the space in an ELF file: every byte of the file has one owner, so that sizes add up.
//!
//! ```text
//! layout       the file as headers, sections and gaps
//! partition    divides a range among claims, without gap or overlap
//! symbols      which function or variable an address belongs to
//! unwind       which function an entry of the unwind tables belongs to
//! relocations  what the loader changes for whom
//! alike        functions with the same machine code
//! strings      long texts in read-only data
//! profile      the owners as a profile with one sample per part, section, function and source file
//! ```
//! Nothing here prints or searches for files.

mod alike;
mod layout;
mod measure;
mod owners;
mod partition;
mod profile;
mod relocations;
mod strings;
mod symbols;
mod unwind;

pub use measure::{Measured, measure};

/// The reason why the space in a file cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum SizeError {
    /// It is no ELF file.
    #[error("not an ELF file")]
    NotElf,
    /// An ELF file of another kind.
    #[error("an ELF file with {0}, and whyslow reads 64-bit little-endian files")]
    OtherElf(&'static str),
    /// Headers describe bytes behind the end of the file.
    #[error("cut off or damaged: {what} ends at byte {end}, and the file has {len} bytes")]
    CutOff {
        /// The name of a section or a table.
        what: String,
        /// Where it ends.
        end: u128,
        /// The length of the file.
        len: u64,
    },
    /// It is damaged.
    #[error("a damaged ELF file: {0}")]
    Damaged(#[from] object::Error),
}

/// Refuses files that are no 64-bit little-endian ELF files.
fn check_kind(bytes: &[u8]) -> Result<(), SizeError> {
    match bytes {
        [0x7f, b'E', b'L', b'F', 1, ..] => Err(SizeError::OtherElf("32-bit addresses")),
        [0x7f, b'E', b'L', b'F', _, 2, ..] => Err(SizeError::OtherElf("big-endian numbers")),
        [0x7f, b'E', b'L', b'F', ..] => Ok(()),
        _ => Err(SizeError::NotElf),
    }
}
