//! Getting the agent in.
//!
//! ```text
//! plan      which functions of a process must be patched, and every byte of the patches
//! libraries what plans need of libraries, read once for all processes
//! entry     whether a program can be preloaded, must be injected, or neither
//! inject    maps the agent into a static program that is stopped at its exec
//! arch      what the processor has to do with it: instructions, registers (`x86_64/`)
//! ```

mod agent;
mod allocators;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64/mod.rs"]
mod arch;
mod entry;
mod functions;
mod image;
mod inject;
mod libraries;
mod maps;
mod plan;
mod rust_shims;
mod targets;
mod unwind_table;

pub use entry::{Entry, entry_of, entry_of_file, is_static};
pub use inject::{InjectError, Injector};
pub use plan::{PatchPage, Plan, Planner, Purpose};
