//! Heap recording: `watch` brings the agent in and looks for leaks, `rows` turns the collector's batches into rows of the profile,
//! `snapshot` makes a profile of what is known in between,
//! `last_look` says why leaks could not be looked for.

mod inspector;
mod last_look;
mod rows;
mod snapshot;
mod watch;

pub(crate) use last_look::explain;
pub(crate) use rows::HeapRows;
pub(crate) use snapshot::since;
pub(crate) use watch::HeapWatch;
pub(crate) use whyslow_heap::sys::return_freed_memory;
