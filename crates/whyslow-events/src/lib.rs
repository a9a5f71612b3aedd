//! Events that can be counted or sampled: how they are written (`-e`), what a machine has of them, and what counting gave.
//!
//! ```text
//! grammar    "cycles:u,cpu/event=0x3c/,sched:sched_switch"  → Specs, without looking at any machine
//! known      the names that every machine understands: hardware, caches, software
//! machine    a Spec → an Event with its attributes, by the files under a root folder; the list of all events
//! units      the measuring units (PMUs) in those files
//! measured   what counting gave: raw values and how long each was really counted
//! ```
//!
//! Nothing here makes a system call but to read files: opening counters is `whyslow-capture`'s.

mod grammar;
mod known;
mod machine;
mod measured;
mod units;

pub use grammar::{GrammarError, Modifiers, Spec, Term, What, parse};
pub use known::{is_known, usual_name};
pub use machine::{Attr, Event, EventError, Kind, Machine, Reach, Unit};
pub use measured::{Count, CountedEvent, Measured, NotCounted, Reading, ThreadReading, Usage, WhyNot};
