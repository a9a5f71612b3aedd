//! Heap recording: `recording` is its part of the agent's source, `inspector` looks for leaks, `rows` hands
//! results to the converter, `snapshot` writes a profile in the middle of a recording, and `not_checked`
//! says why leaks could not be checked.

mod inspector;
mod not_checked;
mod recording;
mod rows;
mod snapshot;

pub(crate) use inspector::Inspector;
pub(crate) use recording::HeapRecording;
pub(crate) use rows::metrics;
pub(crate) use snapshot::Snapshots;
pub(crate) use whyslow_heap::sys::return_freed_memory;
