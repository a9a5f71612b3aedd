//! The whole collector: a door where agents say hello, and a thread that reads what they write.

use std::ffi::{OsStr, OsString};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use whyslow_heap_wire::SOCKET_VARIABLE;
use whyslow_heap_wire::area::RING_WORDS;
use whyslow_profile::HeapNote;

use crate::cpu_samples::{self, CpuLosses, CpuRecord};
use crate::drain::{Config, Drain, Until};
use crate::error::HeapError;
use crate::inspect::ExitInspector;
use crate::leaks::LiveBlock;
use crate::listen::Door;
use crate::outcome::{Batch, Outcome};
use crate::plan::PatchPlanner;
use crate::snapshot::SnapshotWriter;
use crate::sys;

/// How long the drain sleeps at most while nothing happens.
const CALM: Duration = Duration::from_millis(10);
/// How long while a process waits for it.
const AWAITED: Duration = Duration::from_micros(100);
/// Words in a ring from which on the drain does not sleep.
const FULL: u64 = RING_WORDS as u64 / 4;

/// Collects what agents see.
#[derive(Debug)]
pub struct Collector {
    door: Door,
    drain: Arc<Mutex<Drain>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// CPU time of the drain's thread.
    cpu_ns: AtomicU64,
    /// The drain's thread gave up.
    failed: AtomicBool,
}

/// A panic elsewhere must not make more of them: the drain is valid between any two calls.
fn lock(drain: &Mutex<Drain>) -> MutexGuard<'_, Drain> {
    drain.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Collector {
    /// Starts listening and draining. `agent` is the agent's file; `planner` says what a program's code needs,
    /// `inspector` looks at processes in their last moment, `writer` writes snapshots.
    pub fn start(
        config: Config,
        agent: &[u8],
        planner: Box<dyn PatchPlanner>,
        inspector: Arc<dyn ExitInspector>,
        writer: Arc<dyn SnapshotWriter>,
    ) -> Result<Self, HeapError> {
        let drain = Arc::new(Mutex::new(Drain::new(config.clone(), inspector)));
        let door = Door::open(config, agent, planner, writer, Arc::clone(&drain))?;
        let shared = Arc::new(Shared::default());
        let (theirs, state) = (Arc::clone(&drain), Arc::clone(&shared));
        let thread = std::thread::Builder::new()
            .name("heap-drain".to_owned())
            .spawn(move || run(&theirs, &state))
            .map_err(HeapError::Thread)?;
        Ok(Self { door, drain, shared, thread: Some(thread) })
    }

    /// What a program needs in its environment to be watched. `LD_PRELOAD` keeps what it already says.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        self.environment_with(std::env::var_os("LD_PRELOAD").as_deref())
    }

    /// As [`Self::environment`], for a program whose `LD_PRELOAD` would be this.
    pub fn environment_with(&self, preload: Option<&OsStr>) -> Vec<(OsString, OsString)> {
        let mut libraries = self.door.agent().into_os_string();
        if let Some(more) = preload.filter(|more| !more.is_empty()) {
            libraries.push(":");
            libraries.push(more);
        }
        vec![("LD_PRELOAD".into(), libraries), (SOCKET_VARIABLE.into(), self.door.socket().into_os_string())]
    }

    /// A process was started whose agent should say hello. If it never does, it is named in the end.
    pub fn expect(&self, pid: u32, program: &str) {
        lock(&self.drain).expect(pid, program);
    }

    /// What is new since the last time.
    pub fn take(&self) -> Batch {
        lock(&self.drain).take()
    }

    /// Takes the samples of CPU time that programs have taken of themselves since the last time, in the order of time.
    pub fn take_cpu_samples(&self) -> Vec<CpuRecord> {
        let areas = lock(&self.drain).areas.with_numbers();
        cpu_samples::read(&areas)
    }

    /// What samples of CPU time stand for, and how many of them were lost.
    pub fn cpu_losses(&self) -> CpuLosses {
        lock(&self.drain).areas.cpu_losses()
    }

    /// The live blocks of a process by address, as far as its rings are read. Their site is the row of a stack.
    pub fn live_blocks(&self, pid: u32) -> Option<Vec<LiveBlock>> {
        let mut drain = lock(&self.drain);
        drain.round(Until::Now);
        drain.live_blocks(pid)
    }

    /// Reads what is left, lets everyone go, and hands out everything. Agents that still run are switched off.
    pub fn finish(mut self) -> Outcome {
        self.stop();
        let before = sys::thread_cpu_ns();
        let failed = self.shared.failed.load(Ordering::Acquire);
        let cpu = self.shared.cpu_ns.load(Ordering::Acquire);
        let mut outcome = lock(&self.drain).finish(cpu);
        outcome.facts.collector_cpu_ns += sys::thread_cpu_ns().saturating_sub(before);
        if failed {
            outcome.notes.push(HeapNote::CollectorFailed);
        }
        outcome
    }

    fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // It catches its own panics.
            let _ = thread.join();
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.stop();
        lock(&self.drain).let_go();
    }
}

fn run(drain: &Mutex<Drain>, shared: &Shared) {
    let drained = catch_unwind(AssertUnwindSafe(|| {
        while !shared.stop.load(Ordering::Acquire) {
            let round = lock(drain).round(Until::Now);
            shared.cpu_ns.store(sys::thread_cpu_ns(), Ordering::Release);
            if round.awaited {
                std::thread::sleep(AWAITED);
            } else if round.fullest < FULL {
                rest(drain);
            }
        }
    }));
    if drained.is_err() {
        shared.failed.store(true, Ordering::Release);
        lock(drain).let_go();
    }
}

/// Sleeps until a ring fills or a while has passed.
fn rest(drain: &Mutex<Drain>) {
    let areas = lock(drain).areas.shared();
    for area in &areas {
        area.header().asleep.store(1, Ordering::SeqCst);
    }
    // A ring that filled up before it could know that we sleep wakes nobody.
    if !lock(drain).has_filled(FULL) {
        let futexes: Vec<_> = areas.iter().map(|area| &area.header().asleep).collect();
        sys::wait_while_one(&futexes, CALM);
    }
    for area in &areas {
        area.header().asleep.store(0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests;
