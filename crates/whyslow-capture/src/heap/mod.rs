//! Heap recording: `inspector` looks for leaks, `rows` turns the collector's batches into rows of the profile,
//! `snapshot` makes a profile of what is known in between,
//! `last_look` says why leaks could not be looked for.

mod inspector;
mod last_look;
mod rows;
mod snapshot;

pub(crate) use inspector::Inspector;
pub(crate) use last_look::explain;
pub(crate) use rows::HeapRows;
pub(crate) use snapshot::{Snapshots, since};
pub(crate) use whyslow_heap::sys::return_freed_memory;
