//! Heap recording: `watch` brings the agent in and looks for leaks, `rows` turns the collector's batches into rows of the profile,
//! `snapshot` makes a profile of what is known in between.

mod inspector;
mod rows;
mod snapshot;
mod watch;

pub(crate) use rows::HeapRows;
pub(crate) use snapshot::since;
pub(crate) use watch::HeapWatch;
