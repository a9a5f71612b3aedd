//! Other tools' formats: recordings that are read, and what a profile becomes outside whyslow.

pub mod export;
pub mod import;

pub use export::{FoldedOptions, FoldedRoot, write_folded};
