//! The processor-specific part for x86-64. Another processor needs a second folder with the same files.
//!
//! ```text
//! prologue    the first instructions of a function, and how to move them
//! inside      instructions inside a function, and whether code jumps into them
//! page        the code that patched functions jump into
//! calls       the functions that a function calls
//! registers   code and stack constants for a stopped process
//! relocation  relocation types in the agent's file
//! ```

mod calls;
mod inside;
mod page;
mod prologue;
mod registers;
pub(crate) mod relocation;

pub(crate) use calls::targets;
pub(crate) use inside::Body;
pub(crate) use page::{MOST_PER_FUNCTION, Page, patched};
pub(crate) use prologue::{Code64, Prologue, Refusal};
pub(crate) use registers::{CALL, RED_ZONE};
