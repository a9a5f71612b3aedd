//! Collects the records of the heap agent from outside the program: live blocks, peak, lifetimes, growth,
//! leaks.
//!
//! ```text
//! collector   the whole: listens, drains, returns results                (used by the recorder)
//! ├─ listen       the socket, the agent's file, the handshake            folder, packet; plan: patches for a program's code
//! │  ├─ children     programs that recorded programs execute and ask about
//! │  └─ snapshot     everything so far, on request                         request: the requesting side
//! └─ drain        rounds over all rings                                  areas, rings, counting, chores, notices
//!    ├─ area          memory shared with a program
//!    ├─ ring, event   words → events
//!    ├─ merge         events of all rings in time order
//!    ├─ stacks        nodes and modules of all programs → one tree         trails: the stacks of each ring
//!    ├─ processes     which processes run, which have exited              left_out: which could not be recorded, missing: which should have been
//!    ├─ exits         a process waits at its exit; inspection: in progress, inspect: the interface, checks: which were inspected
//!    └─ tally         all counting: ledger, heights, accounts, threads, calendar     pure: blocks, chains, sites, bars, shelf, live_curve, weight, timeline, clock
//! ids         typed ids of all of these
//! outcome     the results, in the profile's terms                        (written by the recorder)
//! leaks/      reachability: snapshot of a stopped process → memcheck's classes; suppressions
//! growth      how live bytes change over time
//! ```

pub mod area;
mod bars;
mod blocks;
mod chains;
mod checks;
mod children;
mod clock;
mod collector;
mod cpu_samples;
pub mod drain;
mod error;
mod event;
mod exits;
mod folder;
pub mod growth;
mod ids;
mod inspect;
mod inspection;
pub mod leaks;
mod left_out;
mod listen;
mod live_curve;
mod merge;
mod missing;
pub mod outcome;
mod packet;
mod plan;
mod processes;
mod request;
mod ring;
mod shelf;
mod sites;
mod snapshot;
mod stacks;
pub mod sys;
mod tally;
mod timeline;
mod trails;
mod weight;

pub use bars::Histogram;
pub use collector::Collector;
pub use cpu_samples::{CpuLosses, CpuRecord, CpuSample};
pub use drain::Config;
pub use error::HeapError;
pub use ids::{Address, ModuleRow, ProcessRow, StackRow, ThreadRow, Tick};
pub use inspect::{ExitInspector, Findings, NoInspector, TakeBlocks};
pub use outcome::{
    Batch, CounterKind, CounterRow, ModuleSeen, Outcome, ProcessSeen, Site, StackSeen, ThreadSeen,
    TimelineRow, Transfer,
};
pub use plan::{PatchPage, PatchPlan, PatchPlanner};
pub use request::{SnapshotError, request_snapshot};
pub use snapshot::SnapshotWriter;
