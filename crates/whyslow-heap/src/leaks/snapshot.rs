//! Takes a consistent snapshot of a process: stops it, reads it, releases it.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use whyslow_agent_wire::fill::Untouched;
use whyslow_proc::Mapping;

use super::blocks::read_blocks;
use super::cached;
use super::edges::Edges;
use super::graph::{self, Memory, Roots};
use super::index::Index;
use super::memory::ProcessMemory;
use super::roots;
use super::threads::Stopped;
use super::{LeakError, LeakReport, Listed, Live, LiveBlock, Subject};

/// How often a process is stopped again because a block was being moved.
const MOST_TRIES: usize = 50;
/// How long it runs in between.
const PAUSE: Duration = Duration::from_micros(200);

/// Finds the leaked blocks of a process. Returns the report and the blocks that it is about.
///
/// All threads are stopped while the memory is read, and run on before the graph is walked. The blocks are
/// requested while the process is stopped, so that they match its memory.
///
/// The kernel restarts system calls that the stop interrupts, except a few such as `epoll_wait` that return
/// `EINTR`. During the check, a `wait` for the process in any thread of this process can report the stop:
/// check the status.
pub fn check(
    subject: &Subject,
    mut blocks: impl FnMut() -> Live + Send,
) -> Result<(LeakReport, Vec<LiveBlock>), LeakError> {
    let read = || {
        for _ in 1..MOST_TRIES {
            if let Some(found) = read_once(subject, &mut blocks, Moving::Again)? {
                return Ok(found);
            }
            thread::sleep(PAUSE);
        }
        let found = read_once(subject, &mut blocks, Moving::AsItWas)?;
        found.ok_or(LeakError::Exited { pid: subject.pid })
    };
    traced(subject.pid, read).map(|(snapshot, blocks)| (snapshot.judge(), blocks))
}

/// What to do if a block is being moved.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moving {
    /// Let the process run on, and stop it again.
    Again,
    /// Assume that the block is at its old address.
    AsItWas,
}

/// Runs a function on its own thread: when the thread ends, for whatever reason, the kernel releases
/// everything that it traces.
fn traced<T: Send>(pid: u32, run: impl FnOnce() -> Result<T, LeakError> + Send) -> Result<T, LeakError> {
    thread::scope(|scope| {
        let started = thread::Builder::new().spawn_scoped(scope, run);
        let thread =
            started.map_err(|source| LeakError::Io { what: "start a thread to inspect", pid, source })?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

struct Snapshot {
    index: Index,
    edges: Edges,
    threads: usize,
    stopped: Duration,
    bytes_read: u64,
    unreadable_pages: u64,
}

impl Snapshot {
    fn judge(self) -> LeakReport {
        LeakReport {
            classes: graph::mark(&self.index, &self.edges),
            threads: self.threads,
            stopped: self.stopped,
            bytes_read: self.bytes_read,
            unreadable_pages: self.unreadable_pages,
        }
    }
}

/// Reads the process once. `None` if a block is being moved and must not be.
fn read_once(
    subject: &Subject,
    blocks: &mut impl FnMut() -> Live,
    moving: Moving,
) -> Result<Option<(Snapshot, Vec<LiveBlock>)>, LeakError> {
    let pid = subject.pid;
    let began = Instant::now();
    let stopped = Stopped::stop(pid)?;
    let mut threads = stopped.threads()?;
    if let Some(waiting) = &subject.waiting {
        let thread = threads.iter_mut().find(|thread| thread.tid == waiting.tid);
        thread.ok_or(LeakError::Exited { pid })?.put_back(waiting);
    }
    let live = blocks();
    if live.moving && moving == Moving::Again {
        return Ok(None);
    }
    let blocks = live.blocks;
    check_number(&blocks)?;
    let index = Index::new(&blocks);
    // The main thread may have exited, and with it the kernel's view of the process as a whole.
    let tid = threads.first().map_or(pid, |thread| thread.tid);
    let maps = read_maps(pid, tid)?;
    let mut memory = ProcessMemory::new(pid, tid, &maps);
    let mut skip = subject.skip.clone();
    skip.extend(subject.skip_listed.iter().flat_map(|listed| read_list(listed, &mut memory)));
    if let Some(main) = threads.iter().find(|thread| thread.tid == pid) {
        skip.extend(cached::stacks(main, &maps, &threads, &index, &mut memory));
    }
    let ranges = roots::find(&maps, &threads, &index, &skip, &mut memory);
    let words = threads.iter().flat_map(|thread| thread.registers.iter().copied()).collect();
    let edges = Edges::read(&index, &Roots { ranges, words }, &mut memory);
    if memory.exited || !stopped.still(&threads) {
        return Err(LeakError::Exited { pid });
    }
    let (bytes_read, unreadable_pages) = (memory.bytes_read, memory.unreadable_pages);
    drop(stopped);
    let snapshot = Snapshot {
        index,
        edges,
        threads: threads.len(),
        stopped: began.elapsed(),
        bytes_read,
        unreadable_pages,
    };
    Ok(Some((snapshot, blocks)))
}

/// The ranges of a list in a process.
fn read_list(listed: &Listed, memory: &mut ProcessMemory<'_>) -> Vec<(u64, u64)> {
    let mut bytes = vec![0; listed.count * 8];
    memory.read(listed.at, &mut bytes);
    let starts = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    starts.filter(|start| *start != 0).map(|start| (start, start.saturating_add(listed.len))).collect()
}

/// The mappings of a process, as one of its running threads sees them.
fn read_maps(pid: u32, tid: u32) -> Result<Vec<Mapping>, LeakError> {
    match Mapping::all_of_thread(pid, tid) {
        Ok(maps) if !maps.is_empty() => Ok(maps),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(LeakError::Permission { pid }),
        // A process without an address space has no lines.
        _ => Err(LeakError::Exited { pid }),
    }
}

/// How many bytes of each block still hold the agent's fill pattern (`--unused`), in the order of the blocks.
/// See [`Untouched`] for what counts.
///
/// The process is not stopped; it should be waiting for the collector.
pub fn unused_bytes(subject: &Subject, blocks: &[LiveBlock]) -> Result<Vec<u64>, LeakError> {
    check_number(blocks)?;
    let pid = subject.pid;
    let tid = subject.waiting.as_ref().map_or(pid, |waiting| waiting.tid);
    let maps = read_maps(pid, tid)?;
    let mut memory = ProcessMemory::new(pid, tid, &maps);
    let index = Index::new(blocks);
    let mut unused = vec![Untouched::default(); blocks.len()];
    read_blocks(&index, &mut memory, |block, _, bytes| {
        let row = index.row(block);
        // A block of zero bytes is read as one byte.
        if blocks[row].size > 0 {
            bytes.iter().for_each(|byte| unused[row].add(*byte));
        }
    });
    if memory.exited {
        return Err(LeakError::Exited { pid });
    }
    Ok(unused.iter().map(Untouched::bytes).collect())
}

/// Block numbers have 31 bits.
fn check_number(blocks: &[LiveBlock]) -> Result<(), LeakError> {
    if blocks.len() < 1 << 31 { Ok(()) } else { Err(LeakError::TooMany { blocks: blocks.len() }) }
}
