//! Answers from a profile: trees, function tables, quality. Pure functions; nothing here reads a file or prints.
//!
//! A [`Selection`] says which samples count; everything else is computed from the [`Weights`] it gives each stack.
//! Stacks can be ten thousand frames deep, so nothing here recurses over depth.

mod call_tree;
mod labels;
mod selection;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use call_tree::{CallTree, Children, TreeOptions};
pub use labels::Label;
pub use selection::{Pattern, Selection, SelectionError, Weights};
