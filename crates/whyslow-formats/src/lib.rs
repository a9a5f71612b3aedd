//! Other tools' formats: what a profile becomes outside whyslow.

mod folded;

pub use folded::{FoldedOptions, FoldedRoot, write_folded};
