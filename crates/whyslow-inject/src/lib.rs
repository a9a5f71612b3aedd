//! Getting the heap agent in.
//!
//! ```text
//! plan      which functions of a process must be patched, and every byte of the patches
//! entry     whether a program can be preloaded, must be injected, or neither
//! inject    maps the agent into a static program that is stopped at its exec
//! ```

mod agent;
mod allocators;
mod calls;
mod entry;
mod image;
mod inject;
mod maps;
mod page;
mod plan;
mod prologue;
mod rust_shims;
mod targets;
mod tracee;
mod unwind_table;

pub use entry::{Entry, entry_of, entry_of_file, is_static};
pub use inject::{InjectError, Injector};
pub use plan::{PatchPage, Plan, plan};
