//! Heap recording: `inspector` looks for leaks, `rows` hands the collector's results to the
//! converter, `snapshot` writes a profile in the middle of a recording, and `not_checked` says why leaks could
//! not be checked.

mod inspector;
mod not_checked;
mod rows;
mod snapshot;

pub(crate) use inspector::Inspector;
pub(crate) use not_checked::explain;
pub(crate) use rows::{finish, metrics, outliving};
pub(crate) use snapshot::{Snapshots, since};
pub(crate) use whyslow_heap::sys::return_freed_memory;
