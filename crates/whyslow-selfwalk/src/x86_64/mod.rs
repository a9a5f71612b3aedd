//! What walks know of the processor: x86-64. Another one is a second folder with the same files.
//!
//! ```text
//! entry   the registers of who begins a walk
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
pub(crate) use step::{End, State, follow, is_caller_of, read};
