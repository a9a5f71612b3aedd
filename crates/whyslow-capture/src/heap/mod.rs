//! Heap recording: `watch` brings the agent in and looks for leaks, `rows` turns the collector's batches into rows of the profile.

mod inspector;
mod rows;
mod watch;

pub(crate) use rows::HeapRows;
pub(crate) use watch::HeapWatch;
