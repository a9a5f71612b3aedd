//! Answers from a profile: trees, function tables, quality. Pure functions; nothing here reads a file or prints.

mod call_tree;

pub use call_tree::{CallTree, Label};
