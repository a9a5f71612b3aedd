//! The recorder's side of the agent: it brings the agent into programs, shares memory with it, follows their
//! processes and threads, and hands what the agent writes to the purposes that it was brought in for.
//!
//! ```text
//! agent_host   the whole: a socket, and a thread that reads        (used by the recorder)
//! ├─ door          the socket, the agent's file, the handshake     folder, packet; plan: patches for a program's code
//! │  └─ children       programs that recorded programs execute and ask about
//! └─ host          programs arrive, rounds over all rings          programs: what all purposes may see
//!    ├─ area, areas    memory shared with a program
//!    ├─ ring, rings    the words of one thread, and of all in time order: merge
//!    ├─ processes      which processes run, which have exited      left_out: which could not be recorded, missing: which should have been
//!    ├─ exits          a process waits at its exit until every purpose allows it
//!    └─ chores         work that is not needed in every round      notices: notes for the reader, each once
//! purpose      the interface of a purpose                          samples: CPU samples; causal: experiments; the heap is `whyslow-heap`
//! ids, clock   typed ids and ticks, ticks → time
//! ```

mod agent_host;
mod area;
mod areas;
mod causal;
mod children;
mod chores;
mod clock;
mod door;
mod error;
mod exits;
mod folder;
mod host;
mod ids;
mod left_out;
mod merge;
mod missing;
mod notices;
mod packet;
mod plan;
mod processes;
mod programs;
mod purpose;
mod ring;
mod rings;
mod samples;
pub mod sys;

pub use agent_host::{AgentHost, Finished};
pub use area::{Area, RingWords};
pub use areas::Watched;
pub use causal::{
    Experiments, InFlight, OnStart, PointName, RoundPlan, RoundState, Subject, SubjectSlot, VisitsState,
};
pub use clock::Clock;
pub use error::HostError;
pub use exits::Waiting;
pub use folder::hosts_of;
pub use host::{Arrival, Host, Round, Until};
pub use ids::{AreaSlot, OwnPid, OwnTid, Pid, ProcessRow, RingNumber, ThreadRow, Tick};
pub use merge::Limits;
pub use notices::Notices;
pub use packet::Connection;
pub use plan::{PatchPage, PatchPlan, PatchPlanner};
pub use processes::{ProcessSeen, Processes, Seen, ThreadSeen};
pub use programs::Programs;
pub use purpose::{AtExit, End, Leaving, Purpose, Reply, Requests};
pub use ring::{Cursor, Opened, Records, Ring, Timed};
pub use rings::{Closed, RingSet, Rings};
pub use samples::{CpuLosses, CpuRecord, CpuSample, Samples};
