//! Counts the heap of programs from outside: live blocks, peak, lifetimes, growth, leaks. The host
//! (`whyslow-agent-host`) reads what agents write; this is one of its purposes.
//!
//! ```text
//! accounting  the purpose: what agents should record, rounds, the results      (used by the recorder)
//! ├─ records       words of a ring → events                        trails: the stacks of each ring
//! ├─ counting      an event → the tally
//! ├─ stacks        nodes and modules of all programs → one tree
//! ├─ exits         a process waits at its exit; inspection: in progress, inspect: the interface, checks: which were inspected
//! ├─ snapshot      everything so far, on request                   request: the requesting side
//! ├─ residents     resident set sizes
//! └─ tally         all counting: ledger, heights, accounts, threads, calendar     pure: blocks, chains, sites, bars, shelf, live_curve, weight, timeline
//! ids         typed ids of all of these
//! outcome     the results, in the profile's terms                        (written by the recorder)
//! leaks/      reachability: snapshot of a stopped process → memcheck's classes; suppressions
//! growth      how live bytes change over time
//! ```

mod accounting;
mod bars;
mod blocks;
mod chains;
mod checks;
mod counting;
mod exits;
pub mod growth;
mod ids;
mod inspect;
mod inspection;
pub mod leaks;
mod live_curve;
pub mod outcome;
mod records;
mod request;
mod residents;
mod shelf;
mod sites;
mod snapshot;
mod stacks;
pub mod sys;
mod tally;
mod timeline;
mod trails;
mod weight;

pub use accounting::{Accounting, Config};
pub use bars::Histogram;
pub use ids::{Address, ModuleRow, ProcessRow, StackRow, ThreadRow, Tick};
pub use inspect::{ExitInspector, Findings, NoInspector, TakeBlocks};
pub use outcome::{
    Batch, CounterKind, CounterRow, ModuleSeen, Outcome, ProcessSeen, Site, StackSeen, ThreadSeen,
    TimelineRow, Transfer,
};
pub use request::{SnapshotError, request_snapshot};
pub use snapshot::{NoSnapshots, SnapshotWriter};
