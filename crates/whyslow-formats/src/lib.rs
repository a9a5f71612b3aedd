//! Other tools' formats: recordings that are read, and what a profile becomes outside whyslow.

mod folded;
pub mod import;

pub use folded::{FoldedOptions, FoldedRoot, write_folded};
