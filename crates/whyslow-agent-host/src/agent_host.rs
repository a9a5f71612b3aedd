//! The whole: a socket where agents connect, and a thread that reads what they write.

use std::ffi::{OsStr, OsString};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use whyslow_agent_wire::SOCKET_VARIABLE;
use whyslow_agent_wire::area::RING_WORDS;
use whyslow_profile::HeapNote;

use crate::clock::Clock;
use crate::door::Door;
use crate::error::HostError;
use crate::host::{Host, Until};
use crate::plan::PatchPlanner;
use crate::programs::Programs;
use crate::purpose::Purpose;
use crate::sys;

/// Maximum sleep of the thread while nothing happens.
const CALM: Duration = Duration::from_millis(10);
/// Maximum sleep while a process waits for the host.
const AWAITED: Duration = Duration::from_micros(100);
/// Words in a ring above which the thread does not sleep.
const FULL: u64 = RING_WORDS as u64 / 4;

/// Brings agents into programs and reads what they write.
#[derive(Debug)]
pub struct AgentHost {
    door: Door,
    host: Arc<Mutex<Host>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// CPU time of the reading thread.
    cpu_ns: AtomicU64,
    /// The reading thread panicked.
    failed: AtomicBool,
}

/// A host whose agents are switched off, with everything that they wrote.
#[derive(Debug)]
pub struct Finished {
    host: Arc<Mutex<Host>>,
    cpu_ns: u64,
    /// The CPU time of this thread when the host began to finish.
    since_ns: u64,
}

/// A panic elsewhere must not cause more panics: the host is valid between any two calls.
fn lock(host: &Mutex<Host>) -> MutexGuard<'_, Host> {
    host.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AgentHost {
    /// Starts listening and reading. `agent` is the agent's file, `planner` plans the patches for a program's
    /// code, and `clock` is the one that the purposes use.
    pub fn start(
        clock: Clock,
        agent: &[u8],
        planner: Box<dyn PatchPlanner>,
        purposes: Vec<Box<dyn Purpose>>,
    ) -> Result<Self, HostError> {
        let requests = purposes.iter().filter_map(|purpose| purpose.requests()).collect();
        let host = Arc::new(Mutex::new(Host::new(clock, purposes)));
        let door = Door::open(agent, planner, requests, Arc::clone(&host))?;
        let shared = Arc::new(Shared::default());
        let (host_of_thread, state) = (Arc::clone(&host), Arc::clone(&shared));
        let thread = std::thread::Builder::new()
            .name("agent-host".to_owned())
            .spawn(move || run(&host_of_thread, &state))
            .map_err(HostError::Thread)?;
        Ok(Self { door, host, shared, thread: Some(thread) })
    }

    /// The environment variables that a program needs to be recorded. An existing `LD_PRELOAD` is extended.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        self.environment_with(std::env::var_os("LD_PRELOAD").as_deref())
    }

    /// Same as [`Self::environment`], for a program with this `LD_PRELOAD`.
    pub fn environment_with(&self, preload: Option<&OsStr>) -> Vec<(OsString, OsString)> {
        let mut libraries = self.door.agent().into_os_string();
        if let Some(more) = preload.filter(|more| !more.is_empty()) {
            libraries.push(":");
            libraries.push(more);
        }
        vec![("LD_PRELOAD".into(), libraries), (SOCKET_VARIABLE.into(), self.socket().into_os_string())]
    }

    /// The path of the socket.
    pub fn socket(&self) -> PathBuf {
        self.door.socket()
    }

    /// Announces a started process whose agent should connect. If it never does, a note names it at the end.
    pub fn expect(&self, pid: u32, program: &str) {
        lock(&self.host).expect(pid, program);
    }

    /// Works with the purpose of this type, between two rounds. `None` if the host has none.
    pub fn with<P: Purpose, T>(&self, work: impl FnOnce(&mut P, &mut Programs) -> T) -> Option<T> {
        lock(&self.host).with(work)
    }

    /// Reads once more, now.
    pub fn round(&self) {
        lock(&self.host).round(Until::Now);
    }

    /// Reads the remaining records, and releases all waiting processes. Agents that still run are switched
    /// off.
    pub fn finish(mut self) -> Finished {
        self.stop();
        let since_ns = sys::thread_cpu_ns();
        let mut host = lock(&self.host);
        host.finish();
        if self.shared.failed.load(Ordering::Acquire) {
            host.programs().notices.add(Vec::new(), vec![HeapNote::CollectorFailed]);
        }
        drop(host);
        let cpu_ns = self.shared.cpu_ns.load(Ordering::Acquire);
        Finished { host: Arc::clone(&self.host), cpu_ns, since_ns }
    }

    fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // The thread catches its own panics.
            let _ = thread.join();
        }
    }
}

impl Drop for AgentHost {
    fn drop(&mut self) {
        self.stop();
        lock(&self.host).release_all();
    }
}

impl Finished {
    /// Takes the results of the purpose of this type. `None` if the host had none.
    pub fn with<P: Purpose, T>(&self, work: impl FnOnce(&mut P, &mut Programs) -> T) -> Option<T> {
        lock(&self.host).with(work)
    }

    /// Notes for the reader of the profile.
    pub fn notes(&self) -> Vec<HeapNote> {
        lock(&self.host).programs.notices.notes().to_vec()
    }

    /// The CPU time that reading has cost so far.
    pub fn cpu_ns(&self) -> u64 {
        self.cpu_ns + sys::thread_cpu_ns().saturating_sub(self.since_ns)
    }
}

fn run(host: &Mutex<Host>, shared: &Shared) {
    let read = catch_unwind(AssertUnwindSafe(|| {
        while !shared.stop.load(Ordering::Acquire) {
            let round = lock(host).round(Until::Now);
            shared.cpu_ns.store(sys::thread_cpu_ns(), Ordering::Release);
            if round.awaited {
                std::thread::sleep(AWAITED);
            } else if round.fullest < FULL {
                rest(host);
            }
        }
    }));
    if read.is_err() {
        shared.failed.store(true, Ordering::Release);
        lock(host).release_all();
    }
}

/// Sleeps until a ring fills, or a short time has passed.
fn rest(host: &Mutex<Host>) {
    let areas = lock(host).programs.areas.shared();
    for area in &areas {
        area.header().asleep.store(1, Ordering::SeqCst);
    }
    // A ring that filled up before its writer could see that the host sleeps does not wake it.
    if !lock(host).has_filled(FULL) {
        let futexes: Vec<_> = areas.iter().map(|area| &area.header().asleep).collect();
        sys::wait_while_one(&futexes, CALM);
    }
    for area in &areas {
        area.header().asleep.store(0, Ordering::SeqCst);
    }
}
