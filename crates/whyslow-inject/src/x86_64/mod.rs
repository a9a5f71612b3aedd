//! What getting in knows of the processor: x86-64. Another one is a second folder with the same files.
//!
//! ```text
//! prologue    the first instructions of a function, and how they are moved
//! page        the code that patched functions jump into
//! calls       what a function calls
//! registers   those of a stopped process
//! relocation  kinds of them in the agent's file
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
