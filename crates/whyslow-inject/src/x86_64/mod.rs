//! The processor-specific part for x86-64. Another processor needs a second folder with the same files.
//!
//! ```text
//! prologue    the first instructions of a function, and how to move them
//! page        the code that patched functions jump into
//! calls       the functions that a function calls
//! registers   code and stack constants for a stopped process
//! relocation  relocation types in the agent's file
//! ```

mod calls;
mod page;
mod prologue;
mod registers;
pub(crate) mod relocation;

pub(crate) use calls::targets;
pub(crate) use page::{MOST_PER_FUNCTION, Page};
pub(crate) use prologue::{Code64, Prologue, Refusal};
pub(crate) use registers::{CALL, RED_ZONE};
