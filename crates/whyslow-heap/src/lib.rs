//! Collects what the heap agent sees inside a program, outside of it: live blocks, peak, lifetimes, growth, leaks.
//!
//! ```text
//! outcome     what comes out, in words of the profile          (this is what the recorder writes)
//! leaks/      reachability: snapshot of a stopped process → memcheck's classes; suppressions
//! growth      how live bytes went over time
//! ```

pub mod growth;
pub mod leaks;
pub mod outcome;

pub use outcome::{
    Batch, CounterKind, CounterRow, ModuleSeen, Outcome, ProcessSeen, Site, StackSeen, ThreadSeen,
    TimelineRow,
};
