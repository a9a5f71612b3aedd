//! Imports other tools' recordings, and exports profiles to other tools' formats.

pub mod export;
pub mod import;

pub use export::{FoldedOptions, FoldedRoot, write_folded};
