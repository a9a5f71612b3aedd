//! Programs that have begun, and libraries that have come, as they are in that moment. The agent waits until it is answered, so nothing has changed
//! when a process is looked at, and it cannot end before.

use std::sync::{Mutex, PoisonError};

use whyslow_heap_wire::handshake::{Hello, entered};
use whyslow_proc::{Mapping, process};

/// What is new in a process.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) pid: u32,
    pub(super) time_ns: u64,
    /// The program's name, if it has just begun.
    pub(super) program: Option<String>,
    /// All that is mapped.
    pub(super) mappings: Vec<Mapping>,
}

/// What was heard and not taken yet.
#[derive(Debug, Default)]
pub(super) struct News(Mutex<Vec<Arrived>>);

impl News {
    /// An agent says hello.
    pub(super) fn hear(&self, hello: &Hello, pid: u32, mappings: &[Mapping]) {
        let begins = hello.entered != entered::LOADED;
        let arrived = Arrived {
            pid,
            time_ns: whyslow_proc::monotonic_ns(),
            program: begins.then(|| process::name(pid).unwrap_or_default()),
            mappings: mappings.to_vec(),
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(arrived);
    }

    /// All that was heard since the last time, oldest first.
    pub(super) fn take(&self) -> Vec<Arrived> {
        let mut arrived = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        arrived.sort_by_key(|arrived| arrived.time_ns);
        arrived
    }
}
