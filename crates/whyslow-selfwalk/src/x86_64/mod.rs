//! The walker's code for x86-64. Another processor needs a second folder with the same files.
//!
//! ```text
//! entry   the registers at the start of a walk
//! rule    what one step computes
//! cfi     .eh_frame in memory → one rule
//! step    one step by any rule
//! ```

mod cfi;
mod entry;
mod rule;
mod step;

pub(crate) use cfi::{Context, rule_at};
pub use entry::Entry;
pub(crate) use rule::{BP, END, GENERAL, Rule};
pub use step::Registers;
pub(crate) use step::{End, State, caller_of, follow, is_caller_of, read};
