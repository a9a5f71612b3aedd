//! Gets the agent into programs, and plans the patches that it applies.
//!
//! ```text
//! plan      which functions of a process must be patched, and every byte of the patches
//! points    what tells the agent that code which is a progress point runs
//! libraries the parts of libraries that plans need, read once for all processes
//! entry     whether a program can be preloaded, must be injected, or neither
//! inject    maps the agent into a static program that is stopped at its exec
//! arch      the processor-specific part: instructions, registers (`x86_64/`)
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
mod landing_pads;
mod libraries;
mod maps;
mod plan;
mod points;
mod rust_shims;
mod targets;
mod unwind_table;

pub use entry::{Entry, entry_of, entry_of_file, is_static};
pub use inject::{InjectError, Injector};
pub use plan::{PatchPage, Plan, Planner};
pub use points::{Means, PointPlace, Spot, exits, means};
