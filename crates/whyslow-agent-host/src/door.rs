//! Accepts connections from agents that start or execute another program, and from other whyslow processes,
//! and answers each on its own thread, so that none waits for another. The thread that accepted a connection
//! answers it while another thread accepts. A program does not start before it gets its answer, and creating
//! a thread for each would take a tenth of that time.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use whyslow_agent_wire::VERSION;
use whyslow_agent_wire::exec::Message;
use whyslow_agent_wire::handshake::{Hello, MOST_WELCOME, entered, hook};
use whyslow_profile::HeapNote;

use crate::area::Area;
use crate::children::ExecHandler;
use crate::error::HostError;
use crate::folder::Folder;
use crate::host::{Arrival, Host};
use crate::packet::{Connection, Listener};
use crate::plan::{PatchPlan, PatchPlanner};
use crate::purpose::Requests;

/// Time limit for an agent's hello.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of agents that are answered at the same time. Others wait in the socket's queue.
const MOST_AT_ONCE: usize = 64;
/// Maximum number of threads that wait for agents. A thread that would exceed it after its answer exits.
const MOST_WAITING: usize = 2;

/// The state that the answering threads share.
struct Shared {
    agent: Vec<u8>,
    socket: PathBuf,
    planner: Box<dyn PatchPlanner>,
    host: Arc<Mutex<Host>>,
    /// Who answers other whyslow processes.
    requests: Vec<Arc<dyn Requests>>,
    listener: Arc<Listener>,
    /// Agents that are being answered.
    at_once: AtomicUsize,
    /// Threads that wait for an agent.
    waiting: AtomicUsize,
}

/// The socket where agents connect, and its folder.
pub(crate) struct Door {
    folder: Folder,
    listener: Arc<Listener>,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Door {
    /// Opens a socket and writes the agent's file next to it.
    pub(crate) fn open(
        agent: &[u8],
        planner: Box<dyn PatchPlanner>,
        requests: Vec<Arc<dyn Requests>>,
        host: Arc<Mutex<Host>>,
    ) -> Result<Self, HostError> {
        let folder = Folder::create()?;
        let path = folder.agent();
        let written = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o700)
            .open(&path)
            .and_then(|mut file| file.write_all(agent));
        written.map_err(|source| HostError::Agent { path, source })?;
        let socket = folder.socket();
        let listener =
            Listener::bind(&socket).map_err(|source| HostError::Socket { path: socket.clone(), source })?;
        let listener = Arc::new(listener);
        let shared = Arc::new(Shared {
            agent: agent.to_vec(),
            socket,
            planner,
            host,
            requests,
            listener: Arc::clone(&listener),
            at_once: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
        });
        ensure_waiting_thread(&shared).map_err(HostError::Thread)?;
        Ok(Self { folder, listener })
    }

    /// The path of the socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.socket()
    }

    /// The path of the agent's file.
    pub(crate) fn agent(&self) -> PathBuf {
        self.folder.agent()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // This ends the waiting threads at once, and the answering ones after their answer.
        self.listener.close();
    }
}

/// Makes sure that a thread waits for the next agent, unless too many agents are being answered: then one of
/// the answering threads will.
fn ensure_waiting_thread(shared: &Arc<Shared>) -> io::Result<()> {
    if shared.at_once.load(Ordering::Acquire) >= MOST_AT_ONCE
        || shared.waiting.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_err()
    {
        return Ok(());
    }
    let of_thread = Arc::clone(shared);
    let started = std::thread::Builder::new().name("agent-door".to_owned()).spawn(move || serve(&of_thread));
    if started.is_err() {
        shared.waiting.fetch_sub(1, Ordering::AcqRel);
    }
    started.map(drop)
}

/// Waits for agents and answers them, until the listener is closed or enough other threads wait.
fn serve(shared: &Arc<Shared>) {
    while let Some(connection) = next(&shared.listener) {
        shared.at_once.fetch_add(1, Ordering::AcqRel);
        let place = Place(&shared.at_once);
        shared.waiting.fetch_sub(1, Ordering::AcqRel);
        // Without another thread, the next agent waits until this one has its answer.
        let _ = ensure_waiting_thread(shared);
        // An agent without an answer records nothing; its program runs on.
        let _ = answer(&connection, shared, place);
        drop(connection);
        let one_more = |waiting| (waiting < MOST_WAITING).then_some(waiting + 1);
        if shared.waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_err() {
            return;
        }
    }
}

/// The next connection; `None` after the listener is closed.
fn next(listener: &Listener) -> Option<Connection> {
    loop {
        match listener.accept() {
            Ok(connection) => return Some(connection),
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR | libc::ECONNABORTED) => {}
                // Out of descriptors or memory for now.
                Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                _ => return None,
            },
        }
    }
}

/// A slot among the agents that are being answered.
struct Place<'a>(&'a AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn answer(connection: &Connection, shared: &Arc<Shared>, place: Place<'_>) -> io::Result<()> {
    connection.limit(PATIENCE)?;
    let pid = connection.peer()?;
    let mut room = [0; size_of::<Hello>()];
    let (len, file) = connection.receive_with_file(&mut room)?;
    if let Some(Message::Ask { first_thread }) = room.get(..len).and_then(Message::parse) {
        // The injected agent will need a slot.
        drop(place);
        let _ = ensure_waiting_thread(shared);
        let handler = ExecHandler { agent: &shared.agent, socket: &shared.socket, host: &shared.host };
        return handler.answer(connection, pid, first_thread, file);
    }
    let packet = room.get(..len).unwrap_or_default();
    if let Some(reply) = shared.requests.iter().find_map(|requests| requests.answer(&shared.host, packet)) {
        return connection.send(&reply.bytes, reply.file.as_ref().map(AsFd::as_fd));
    }
    let Some(hello) = (len == room.len()).then(|| read_hello(&room)).filter(|hello| hello.version == VERSION)
    else {
        return connection.send(&welcome(0, &PatchPlan::default()), None);
    };
    let mut plan = shared.planner.plan(&hello, pid);
    let mut message = welcome(VERSION, &plan);
    if message.len() > MOST_WELCOME {
        plan.notes.push(HeapNote::TooManyPatches { pid });
        message = welcome(VERSION, &PatchPlan::default());
        plan.allocators.clear();
    }
    if hello.entered == entered::LOADED {
        let PatchPlan { allocators, notes, .. } = plan;
        let mut host = shared.host.lock().unwrap_or_else(PoisonError::into_inner);
        host.programs().notices.add(allocators, notes);
        drop(host);
        return connection.send(&message, None);
    }
    let area = Area::create()?;
    area.set_unwind_table(&plan.unwind_table)?;
    let file = area.file()?;
    let PatchPlan { allocators, notes, forwards_crash_signals, .. } = plan;
    let may_catch_crashes = !forwards_crash_signals;
    let arrival = Arrival { area, pid, own_pid: hello.pid, may_catch_crashes, allocators, notes };
    if shared.host.lock().unwrap_or_else(PoisonError::into_inner).arrive(arrival) {
        connection.send(&message, Some(file.as_fd()))
    } else {
        connection.send(&welcome(0, &PatchPlan::default()), None)
    }
}

fn read_hello(bytes: &[u8; size_of::<Hello>()]) -> Hello {
    let mut at = 0;
    let mut take = |len: usize| {
        let mut number = [0; 8];
        number[..len].copy_from_slice(&bytes[at..at + len]);
        at += len;
        u64::from_le_bytes(number)
    };
    Hello {
        version: take(4) as u32,
        entered: take(4) as u32,
        pid: take(4) as u32,
        reserved: take(4) as u32,
        hooks: [0; hook::COUNT].map(|_: u64| take(8)),
        agent_start: take(8),
        agent_end: take(8),
        next: [0; hook::PER_GROUP].map(|_: u64| take(8)),
        library: take(8),
    }
}

fn welcome(version: u32, plan: &PatchPlan) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in [version, plan.pages.len() as u32, plan.reals.len() as u32, plan.patches.len() as u32] {
        bytes.extend(number.to_le_bytes());
    }
    for page in &plan.pages {
        bytes.extend(page.at.to_le_bytes());
        bytes.extend((page.bytes.len() as u64).to_le_bytes());
        bytes.extend(&page.bytes);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    for real in &plan.reals {
        bytes.extend(real.hook.to_le_bytes());
        bytes.extend(real.point.to_le_bytes());
        bytes.extend(real.address.to_le_bytes());
    }
    for patch in &plan.patches {
        bytes.extend(patch.address.to_le_bytes());
        bytes.extend(patch.len.to_le_bytes());
        bytes.extend(patch.reserved.to_le_bytes());
        bytes.extend(patch.bytes);
        bytes.extend(patch.expected);
    }
    bytes
}
