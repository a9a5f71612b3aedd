//! Programs that have started and libraries that were loaded, with the mappings at that point. The agent
//! waits for the answer, so the process does not change or exit while its mappings are read.

use std::sync::{Mutex, PoisonError};

use whyslow_agent_wire::handshake::{Hello, entered};
use whyslow_numbers::ClockNs;
use whyslow_proc::{Mapping, process};

/// A change in a process.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) pid: u32,
    pub(super) time_ns: ClockNs,
    /// The program's name, if it has just started.
    pub(super) program: Option<String>,
    /// All its mappings.
    pub(super) mappings: Vec<Mapping>,
}

/// Changes that were received and not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(Mutex<Vec<Arrived>>);

impl Arrivals {
    /// Adds an agent's hello.
    pub(super) fn add(&self, hello: &Hello, pid: u32, mappings: &[Mapping]) {
        let begins = hello.entered != entered::LOADED;
        let arrived = Arrived {
            pid,
            time_ns: whyslow_proc::now(),
            program: begins.then(|| process::name(pid).unwrap_or_default()),
            mappings: mappings.to_vec(),
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(arrived);
    }

    /// Everything received since the last call, oldest first.
    pub(super) fn take(&self) -> Vec<Arrived> {
        let mut arrived = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        arrived.sort_by_key(|arrived| arrived.time_ns);
        arrived
    }
}
