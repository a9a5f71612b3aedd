//! The programs in which agents run: what every purpose may see of them.

use crate::areas::Areas;
use crate::clock::Clock;
use crate::ids::Tick;
use crate::left_out;
use crate::missing::Missing;
use crate::notices::Notices;
use crate::processes::{Processes, Seen};

/// Everything about the programs that is the same for all purposes.
#[derive(Debug)]
pub struct Programs {
    /// Ticks to time.
    pub clock: Clock,
    /// Which processes run, and which have exited.
    pub processes: Processes,
    /// Notes for the reader of the profile.
    pub notices: Notices,
    pub(crate) areas: Areas,
    pub(crate) missing: Missing,
    /// The last round has read all records up to this tick.
    pub(crate) read_until: Tick,
    /// No further programs are accepted.
    pub(crate) closed: bool,
}

impl Programs {
    /// No programs yet.
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            processes: Processes::default(),
            notices: Notices::default(),
            areas: Areas::default(),
            missing: Missing::default(),
            read_until: Tick(0),
            closed: false,
        }
    }

    /// Takes the processes, threads and exits that are new since the last call, and extends the clock to now.
    pub fn take_seen(&mut self) -> Seen {
        self.clock.adjust();
        self.processes.take_new()
    }

    /// The number of processes whose agent has started.
    pub fn joined(&self) -> u64 {
        self.processes.count().saturating_sub(self.missing.not_joined())
    }

    /// The memory that is shared with a process.
    pub fn area_of(&self, process: crate::ProcessRow) -> Option<&crate::Area> {
        self.areas.iter().find(|watched| watched.has(process)).map(|watched| &*watched.area)
    }

    /// Events that agents dropped.
    pub fn lost_events(&self) -> u64 {
        self.areas.lost_events()
    }

    /// Adds notes for all programs that agents could only write into their areas.
    pub fn note_left_out(&mut self) {
        for watched in self.areas.iter() {
            for note in left_out::notes(&watched.area) {
                self.notices.note_left_out(note);
            }
        }
    }

    /// Whether all processes have been released: no further programs are accepted.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether a process is held at its exit.
    pub fn is_held(&self, process: crate::ProcessRow) -> bool {
        self.areas.iter().any(|watched| watched.exit.holds(process))
    }

    /// The last round has read all records up to this tick.
    pub fn read_until(&self) -> Tick {
        self.read_until
    }
}
