//! Events that can be counted or sampled: their syntax (`-e`), the events of a machine, and counted values.
//!
//! ```text
//! grammar    "cycles:u,cpu/event=0x3c/,sched:sched_switch"  → Specs, independent of any machine
//! known      the names that every machine understands: hardware, caches, software
//! machine    a Spec → an Event with its attributes, from the files under a root folder; the list of all events
//! units      the PMUs in those files
//! measured   counted values: raw values and how long each was really counted
//! ```
//!
//! The only system calls here read files: `whyslow-capture` opens the counters.

mod grammar;
mod known;
mod machine;
mod measured;
mod units;

pub use grammar::{GrammarError, Modifiers, Spec, Term, What, parse};
pub use known::{is_known, usual_name};
pub use machine::{Attr, Event, EventError, Kind, Machine, Reach, Unit};
pub use measured::{Count, CountedEvent, Measured, NotCounted, Reading, ThreadReading, Usage, WhyNot};
