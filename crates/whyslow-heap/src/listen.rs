//! Waits for agents that say hello or want to execute another program, and for others that ask, and answers each on a thread of its own, so that none waits for
//! another. The thread that has waited answers, and another one waits meanwhile: programs do not start before they are answered, and to make a thread for
//! each of them would take a tenth of that.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use whyslow_heap_wire::VERSION;
use whyslow_heap_wire::area::flag;
use whyslow_heap_wire::exec::Message;
use whyslow_heap_wire::handshake::{Hello, MOST_WELCOME, entered, hook};
use whyslow_heap_wire::snapshot::Request;
use whyslow_profile::HeapNote;

use crate::area::Area;
use crate::children::Usher;
use crate::drain::{Arrival, Config, Drain};
use crate::error::HeapError;
use crate::folder::Folder;
use crate::packet::{Connection, Listener};
use crate::plan::{PatchPlan, PatchPlanner};
use crate::snapshot::{Counter, SnapshotWriter};

/// How long an agent may take to say hello.
const PATIENCE: Duration = Duration::from_secs(2);
/// Agents that are answered at one time. Others wait in the socket's queue.
const MOST_AT_ONCE: usize = 64;
/// Threads that wait for agents at one time. One that has answered and would be one more ends.
const MOST_WAITING: usize = 2;

/// What those who answer share.
struct Desk {
    config: Config,
    agent: Vec<u8>,
    socket: PathBuf,
    planner: Box<dyn PatchPlanner>,
    drain: Arc<Mutex<Drain>>,
    snapshots: Counter,
    listener: Arc<Listener>,
    /// Agents that are answered.
    at_once: AtomicUsize,
    /// Threads that wait for one.
    waiting: AtomicUsize,
}

/// The listener and its folder.
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
    /// Opens a socket and lays the agent beside it.
    pub(crate) fn open(
        config: Config,
        agent: &[u8],
        planner: Box<dyn PatchPlanner>,
        writer: Arc<dyn SnapshotWriter>,
        drain: Arc<Mutex<Drain>>,
    ) -> Result<Self, HeapError> {
        let folder = Folder::create()?;
        let path = folder.agent();
        let written = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o700)
            .open(&path)
            .and_then(|mut file| file.write_all(agent));
        written.map_err(|source| HeapError::Agent { path, source })?;
        let socket = folder.socket();
        let listener =
            Listener::bind(&socket).map_err(|source| HeapError::Socket { path: socket.clone(), source })?;
        let listener = Arc::new(listener);
        let desk = Arc::new(Desk {
            config,
            agent: agent.to_vec(),
            socket,
            planner,
            drain,
            snapshots: Counter::new(writer),
            listener: Arc::clone(&listener),
            at_once: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
        });
        wait_if_nobody_does(&desk).map_err(HeapError::Thread)?;
        Ok(Self { folder, listener })
    }

    /// Where the socket is.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.socket()
    }

    /// Where the agent's file is.
    pub(crate) fn agent(&self) -> PathBuf {
        self.folder.agent()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // Those who wait end by this, and those who answer when they have.
        self.listener.close();
    }
}

/// Sees to it that a thread waits for the next agent, unless too many are answered: then one of those who answer will.
fn wait_if_nobody_does(desk: &Arc<Desk>) -> io::Result<()> {
    if desk.at_once.load(Ordering::Acquire) >= MOST_AT_ONCE
        || desk.waiting.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_err()
    {
        return Ok(());
    }
    let theirs = Arc::clone(desk);
    let started = std::thread::Builder::new().name("heap-door".to_owned()).spawn(move || attend_all(&theirs));
    if started.is_err() {
        desk.waiting.fetch_sub(1, Ordering::AcqRel);
    }
    started.map(drop)
}

/// Waits for agents and answers them, until there is no more listener or others wait.
fn attend_all(desk: &Arc<Desk>) {
    while let Some(connection) = next(&desk.listener) {
        desk.at_once.fetch_add(1, Ordering::AcqRel);
        let place = Place(&desk.at_once);
        desk.waiting.fetch_sub(1, Ordering::AcqRel);
        // Without another thread the next agent waits until this one is answered.
        let _ = wait_if_nobody_does(desk);
        // An agent that is not answered stays quiet; its program runs on.
        let _ = answer(&connection, desk, place);
        drop(connection);
        let one_more = |waiting| (waiting < MOST_WAITING).then_some(waiting + 1);
        if desk.waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_err() {
            return;
        }
    }
}

/// The next agent; none after the end.
fn next(listener: &Listener) -> Option<Connection> {
    loop {
        match listener.accept() {
            Ok(connection) => return Some(connection),
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR | libc::ECONNABORTED) => {}
                // No descriptors or memory just now.
                Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                _ => return None,
            },
        }
    }
}

/// A place among those who are answered.
struct Place<'a>(&'a AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn answer(connection: &Connection, desk: &Arc<Desk>, place: Place<'_>) -> io::Result<()> {
    connection.limit(PATIENCE)?;
    let pid = connection.peer()?;
    let mut room = [0; size_of::<Hello>()];
    let (len, beside) = connection.receive_with_file(&mut room)?;
    if let Some(Message::Ask { first_thread }) = room.get(..len).and_then(Message::parse) {
        // The agent that comes in will need a place.
        drop(place);
        let _ = wait_if_nobody_does(desk);
        let usher = Usher { agent: &desk.agent, socket: &desk.socket, drain: &desk.drain };
        return usher.attend(connection, pid, first_thread, beside);
    }
    if let Some(request) = room.get(..len).and_then(Request::parse) {
        let answer = desk.snapshots.serve(&desk.drain, request);
        return connection.send(&answer.to_bytes(), answer.file());
    }
    let Some(hello) = (len == room.len()).then(|| read_hello(&room)).filter(|hello| hello.version == VERSION)
    else {
        return connection.send(&welcome(0, &PatchPlan::default()), None);
    };
    let mut plan = desk.planner.plan(&hello, pid);
    let mut message = welcome(VERSION, &plan);
    if message.len() > MOST_WELCOME {
        plan.notes.push(HeapNote::TooManyPatches { pid });
        message = welcome(VERSION, &PatchPlan::default());
        plan.allocators.clear();
    }
    if hello.entered == entered::LOADED {
        let PatchPlan { allocators, notes, .. } = plan;
        desk.drain.lock().unwrap_or_else(PoisonError::into_inner).notices.add(allocators, notes);
        return connection.send(&message, None);
    }
    let area = Area::create()?;
    Drain::prepare(&desk.config, &area);
    area.set_unwind_table(&plan.unwind_table)?;
    if desk.config.leak_check && !plan.hands_crashes_on {
        area.header().flags.fetch_or(flag::WAIT_IN_CRASH, Ordering::Relaxed);
    }
    let file = area.file()?;
    let PatchPlan { allocators, notes, .. } = plan;
    let arrival = Arrival { area, pid, own_pid: hello.pid, allocators, notes };
    if desk.drain.lock().unwrap_or_else(PoisonError::into_inner).arrive(arrival) {
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
        bytes.extend(real.reserved.to_le_bytes());
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
