//! The whole collector: a socket where agents connect, and a thread that reads their records.

use std::ffi::{OsStr, OsString};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use whyslow_agent_wire::SOCKET_VARIABLE;
use whyslow_agent_wire::area::RING_WORDS;
use whyslow_profile::HeapNote;

use crate::cpu_samples::{self, CpuLosses, CpuRecord};
use crate::drain::{Config, Drain, Until};
use crate::error::HeapError;
use crate::inspect::ExitInspector;
use crate::leaks::LiveBlock;
use crate::listen::AgentSocket;
use crate::outcome::{Batch, Outcome};
use crate::plan::PatchPlanner;
use crate::snapshot::SnapshotWriter;
use crate::sys;

/// Maximum sleep of the drain while nothing happens.
const CALM: Duration = Duration::from_millis(10);
/// Maximum sleep while a process waits for the drain.
const AWAITED: Duration = Duration::from_micros(100);
/// Words in a ring above which the drain does not sleep.
const FULL: u64 = RING_WORDS as u64 / 4;

/// Collects the records of agents.
#[derive(Debug)]
pub struct Collector {
    agent_socket: AgentSocket,
    drain: Arc<Mutex<Drain>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// CPU time of the drain's thread.
    cpu_ns: AtomicU64,
    /// The drain's thread panicked.
    failed: AtomicBool,
}

/// A panic elsewhere must not cause more panics: the drain is valid between any two calls.
fn lock(drain: &Mutex<Drain>) -> MutexGuard<'_, Drain> {
    drain.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Collector {
    /// Starts listening and draining. `agent` is the agent's file; `planner` plans the patches for a
    /// program's code, `inspector` inspects processes at their exit, `writer` writes snapshots.
    pub fn start(
        config: Config,
        agent: &[u8],
        planner: Box<dyn PatchPlanner>,
        inspector: Arc<dyn ExitInspector>,
        writer: Arc<dyn SnapshotWriter>,
    ) -> Result<Self, HeapError> {
        let drain = Arc::new(Mutex::new(Drain::new(config.clone(), inspector)));
        let agent_socket = AgentSocket::open(config, agent, planner, writer, Arc::clone(&drain))?;
        let shared = Arc::new(Shared::default());
        let (drain_of_thread, state) = (Arc::clone(&drain), Arc::clone(&shared));
        let thread = std::thread::Builder::new()
            .name("heap-drain".to_owned())
            .spawn(move || run(&drain_of_thread, &state))
            .map_err(HeapError::Thread)?;
        Ok(Self { agent_socket, drain, shared, thread: Some(thread) })
    }

    /// The environment variables that a program needs to be recorded. An existing `LD_PRELOAD` is extended.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        self.environment_with(std::env::var_os("LD_PRELOAD").as_deref())
    }

    /// Same as [`Self::environment`], for a program with this `LD_PRELOAD`.
    pub fn environment_with(&self, preload: Option<&OsStr>) -> Vec<(OsString, OsString)> {
        let mut libraries = self.agent_socket.agent().into_os_string();
        if let Some(more) = preload.filter(|more| !more.is_empty()) {
            libraries.push(":");
            libraries.push(more);
        }
        vec![
            ("LD_PRELOAD".into(), libraries),
            (SOCKET_VARIABLE.into(), self.agent_socket.socket().into_os_string()),
        ]
    }

    /// Announces a started process whose agent should connect. If it never does, a note names it at the end.
    pub fn expect(&self, pid: u32, program: &str) {
        lock(&self.drain).expect(pid, program);
    }

    /// Takes the new rows since the last call.
    pub fn take(&self) -> Batch {
        lock(&self.drain).take()
    }

    /// Takes the CPU samples that programs have taken of themselves since the last call, in time order.
    pub fn take_cpu_samples(&self) -> Vec<CpuRecord> {
        let areas = lock(&self.drain).areas.with_numbers();
        cpu_samples::read(&areas)
    }

    /// The period of CPU samples, and how many were lost.
    pub fn cpu_losses(&self) -> CpuLosses {
        lock(&self.drain).areas.cpu_losses()
    }

    /// The live blocks of a process by address, as far as its rings have been read. Their site is the row of
    /// a stack.
    pub fn live_blocks(&self, pid: u32) -> Option<Vec<LiveBlock>> {
        let mut drain = lock(&self.drain);
        drain.round(Until::Now);
        drain.live_blocks(pid)
    }

    /// Reads the remaining records, releases all waiting processes, and returns everything. Agents that still
    /// run are switched off.
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
            // The thread catches its own panics.
            let _ = thread.join();
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.stop();
        lock(&self.drain).release_all();
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
        lock(drain).release_all();
    }
}

/// Sleeps until a ring fills, or a short time has passed.
fn rest(drain: &Mutex<Drain>) {
    let areas = lock(drain).areas.shared();
    for area in &areas {
        area.header().asleep.store(1, Ordering::SeqCst);
    }
    // A ring that filled up before its writer could see that the drain sleeps does not wake it.
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
