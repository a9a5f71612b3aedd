//! A purpose: what the agent is in the programs for, and what becomes of what it writes there.
//!
//! The host calls a purpose in this order:
//!
//! ```text
//! request           a program arrives: what the agent should do in it
//! program_added     │
//! process_added     │ a process was started or forked; a thread has taken a ring
//! thread_added      │
//! read, reached     │ each round: the records up to a time; then no earlier ones follow
//! checked           │ every few rounds: work that is not urgent
//! thread_ended      │ all of its records have been read
//! at_exit           │ a process waits at its exit, or the recording ends while it runs
//! process_ended     │
//! area_ends         the memory of a program may be released; area_ended: it was
//! ```

use std::any::Any;
use std::fs::File;
use std::sync::{Arc, Mutex};

use whyslow_agent_wire::purpose::Purpose as Kind;

use crate::area::Area;
use crate::areas::Watched;
use crate::exits::Waiting;
use crate::host::Host;
use crate::ids::{AreaSlot, ProcessRow, ThreadRow, Tick};
use crate::merge::Limits;
use crate::programs::Programs;
use crate::rings::RingSet;

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It exits, or is killed.
    Exit,
    /// It executes another program, which discards its memory.
    Exec,
}

/// A process that is about to exit, or that still runs at the end of the recording.
#[derive(Debug)]
pub struct Leaving {
    /// The process.
    pub process: ProcessRow,
    /// The thread that waits at the exit; `None` if the process runs.
    pub waiting: Option<Waiting>,
}

/// What a purpose says about a process that is about to exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtExit {
    /// It cannot be looked at yet: ask again, if it still waits.
    NotYet,
    /// It is being looked at: ask again.
    Held,
    /// It was looked at. Later records of it do not count.
    Done,
    /// There is nothing to look at.
    Nothing,
}

/// What an agent is for.
pub trait Purpose: Any + Send {
    /// Its name on the wire.
    fn kind(&self) -> Kind;

    /// Writes its part of the request into a new area.
    fn request(&self, area: &Area);

    /// Whether processes should wait at their exit for [`Self::at_exit`].
    fn waits_at_exit(&self) -> bool {
        false
    }

    /// What answers requests of other whyslow processes, if anything does.
    fn requests(&self) -> Option<Arc<dyn Requests>> {
        None
    }

    /// The rings that the agent writes for this purpose.
    fn rings(&mut self) -> Option<&mut dyn RingSet> {
        None
    }

    /// A program has arrived.
    fn program_added(&mut self, _slot: AreaSlot, _program: &Watched) {}

    /// A process has been added. `forked`: it continues the program of another process.
    fn process_added(&mut self, _process: ProcessRow, _forked: bool) {}

    /// A thread has taken its first ring.
    fn thread_added(&mut self, _thread: ThreadRow) {}

    /// Reads its rings. Returns the number of events.
    fn read(&mut self, _programs: &Programs, _limits: Limits) -> u64 {
        0
    }

    /// Everything up to this tick has been read.
    fn reached(&mut self, _tick: Tick) {}

    /// Called about fifty times a second.
    fn checked(&mut self, _programs: &Programs, _now: Tick) {}

    /// A thread has exited, and all its records have been read.
    fn thread_ended(&mut self, _thread: ThreadRow) {}

    /// A process is about to exit, and everything that it wrote has been read. Called in each round until the
    /// answer is [`AtExit::Done`] or [`AtExit::Nothing`].
    fn at_exit(&mut self, _programs: &mut Programs, _leaving: &Leaving) -> AtExit {
        AtExit::Nothing
    }

    /// A process has ended, and all its records have been read.
    fn process_ended(&mut self, _programs: &Programs, _process: ProcessRow, _now: Tick, _end: End) {}

    /// Whether it still has to read something of an area without processes.
    fn needs(&self, _area: &Area) -> bool {
        false
    }

    /// The area may be released now: this is the last time to read it. It may still be kept, because a forked
    /// child has not written anything yet.
    fn area_ends(&mut self, _area: &Area) {}

    /// The area of the last [`Self::area_ends`] was released.
    fn area_ended(&mut self, _slot: AreaSlot) {}
}

/// An answer to another whyslow.
#[derive(Debug)]
pub struct Reply {
    /// The message.
    pub bytes: Vec<u8>,
    /// The file that goes with it.
    pub file: Option<File>,
}

/// Answers requests of other whyslow processes. Called on a separate thread, without the host's lock.
pub trait Requests: Send + Sync {
    /// The answer to a packet; `None` if it is not such a request.
    fn answer(&self, host: &Mutex<Host>, packet: &[u8]) -> Option<Reply>;
}

/// All purposes of a recording.
#[derive(Default)]
pub(crate) struct PurposeList(Vec<Box<dyn Purpose>>);

impl PurposeList {
    pub(crate) fn new(purposes: Vec<Box<dyn Purpose>>) -> Self {
        Self(purposes)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &dyn Purpose> {
        self.0.iter().map(|purpose| &**purpose)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut dyn Purpose> {
        self.0.iter_mut().map(|purpose| &mut **purpose)
    }

    /// The rings of all purposes.
    pub(crate) fn rings(&mut self) -> impl Iterator<Item = &mut dyn RingSet> {
        self.iter_mut().filter_map(Purpose::rings)
    }

    /// The rings of the purpose with this number.
    pub(crate) fn rings_for(&mut self, kind: u32) -> Option<&mut dyn RingSet> {
        self.iter_mut().find(|purpose| purpose.kind() as u32 == kind)?.rings()
    }

    /// The purpose of this type.
    pub(crate) fn of_type<P: Purpose>(&mut self) -> Option<&mut P> {
        self.iter_mut().find_map(|purpose| (purpose as &mut dyn Any).downcast_mut())
    }
}
