//! Finds functions by what a user types: whole names, parts of names, and names as whyslow prints them.
//!
//! Every command that takes a function's name asks this crate, so that one text means the same function
//! everywhere.

mod brackets;
mod generic;
mod path;
mod wanted;

pub use brackets::{mask, split_at_top};
pub use generic::generic_path;
pub use wanted::{Fit, Wanted};
