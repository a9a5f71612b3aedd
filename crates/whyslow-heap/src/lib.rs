//! Collects what the heap agent sees inside a program, outside of it: live blocks, peak, lifetimes, growth, leaks.
//!
//! ```text
//! collector   the whole: listens, drains, hands out                      (this is what the recorder uses)
//! ├─ listen       the socket, the agent's file, the hand-shake           folder, packet; plan: what others make of a program's code
//! │  ├─ children     programs that watched ones execute and ask about
//! │  └─ snapshot     everything so far, for someone who asks               request: who asks
//! └─ drain        rounds over all rings                                  areas, rings, counting, chores, notices
//!    ├─ area          shared memory with a program
//!    ├─ ring, event   words → events
//!    ├─ merge         events of all rings in the order of time
//!    ├─ stacks        nodes and modules of all programs → one tree         trails: as each ring tells them
//!    ├─ processes     who lives, who has ended                            left_out: who could not be recorded, missing: who should have been
//!    ├─ exits         a process waits at its end; looks: it is looked at, inspect: by whom, checks: which were and which not
//!    └─ tally         all counting: ledger, heights, accounts, threads, calendar     pure: blocks, chains, sites, bars, shelf, course, weight, timeline, clock
//! ids         typed numbers of all of these
//! outcome     what comes out, in words of the profile                    (this is what the recorder writes)
//! leaks/      reachability: snapshot of a stopped process → memcheck's classes; suppressions
//! growth      how live bytes changed over time
//! ```

pub mod area;
mod bars;
mod blocks;
mod chains;
mod checks;
mod children;
mod clock;
mod collector;
mod course;
mod cpu_samples;
pub mod drain;
mod error;
mod event;
mod exits;
mod folder;
pub mod growth;
mod ids;
mod inspect;
pub mod leaks;
mod left_out;
mod listen;
mod looks;
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
