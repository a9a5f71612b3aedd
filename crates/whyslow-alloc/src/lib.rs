//! A global allocator that counts.

mod alloc;
mod check;
mod dhat;
mod events;
#[cfg(feature = "profile")]
mod file;
mod fork;
mod modules;
mod names;
mod outcome;
mod profiler;
mod report;
mod scope;
mod stack;
mod stats;
mod symbols;
mod sys;
mod tally;
mod timeline;
mod watch;

// Last: it has macros with the names of the standard library's, which are meant for programs, not for the code here.
mod macros;

pub use alloc::Alloc;
pub use check::{Budget, assert_no_alloc, budget, count};
#[doc(hidden)]
pub use profiler::assertion_failed;
pub use profiler::{HeapStats, Profiler, ProfilerBuilder, dump};
pub use scope::{Entered, Inherit, Scope};
pub use stats::Stats;
