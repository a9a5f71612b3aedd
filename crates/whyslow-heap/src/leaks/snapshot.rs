//! A consistent look at a process: stopped, read, let go.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use whyslow_heap_wire::fill::Untouched;
use whyslow_proc::Mapping;

use super::blocks::read_blocks;
use super::edges::Edges;
use super::graph::{self, Memory, Roots};
use super::index::Index;
use super::memory::ProcessMemory;
use super::roots;
use super::threads::Stopped;
use super::{LeakError, LeakReport, Listed, Live, LiveBlock, Subject};

/// How often a process is stopped anew because a block was being moved.
const MOST_TRIES: usize = 50;
/// How long it goes on in between.
const PAUSE: Duration = Duration::from_micros(200);

/// Finds out which of the live blocks of a process are leaked: its report, and the blocks that it is about.
///
/// All its threads are stopped while its memory is read, and go on before the graph is walked. Its blocks are asked for once it stands
/// still, so that they are those of its memory.
///
/// System calls that the stop interrupts are restarted by the kernel, but for a few, such as `epoll_wait`, that return `EINTR`.
/// While a process is looked at, `wait` for it, in any of our threads, can report the stop: look at the status.
pub fn check(
    subject: &Subject,
    mut blocks: impl FnMut() -> Live + Send,
) -> Result<(LeakReport, Vec<LiveBlock>), LeakError> {
    let look = || {
        for _ in 1..MOST_TRIES {
            if let Some(found) = look(subject, &mut blocks, Moving::Again)? {
                return Ok(found);
            }
            thread::sleep(PAUSE);
        }
        let found = look(subject, &mut blocks, Moving::AsItWas)?;
        found.ok_or(LeakError::Gone { pid: subject.pid })
    };
    traced(subject.pid, look).map(|(look, blocks)| (look.judge(), blocks))
}

/// What to do when a block is being moved.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moving {
    /// Let the process go on.
    Again,
    /// Take the block to be where it was.
    AsItWas,
}

/// Runs this on a thread of its own: when it ends, however it does, the kernel frees everything that it traces.
fn traced<T: Send>(pid: u32, look: impl FnOnce() -> Result<T, LeakError> + Send) -> Result<T, LeakError> {
    thread::scope(|scope| {
        let started = thread::Builder::new().spawn_scoped(scope, look);
        let thread =
            started.map_err(|source| LeakError::Io { what: "start a thread to look at", pid, source })?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

struct Look {
    index: Index,
    edges: Edges,
    threads: usize,
    stopped: Duration,
    bytes_read: u64,
    unreadable_pages: u64,
}

impl Look {
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

/// Looks once. None if a block is being moved that should not be.
fn look(
    subject: &Subject,
    blocks: &mut impl FnMut() -> Live,
    moving: Moving,
) -> Result<Option<(Look, Vec<LiveBlock>)>, LeakError> {
    let pid = subject.pid;
    let began = Instant::now();
    let stopped = Stopped::stop(pid)?;
    let mut threads = stopped.threads()?;
    if let Some(waiting) = &subject.waiting {
        let thread = threads.iter_mut().find(|thread| thread.tid == waiting.tid);
        thread.ok_or(LeakError::Gone { pid })?.put_back(waiting);
    }
    let live = blocks();
    if live.moving && moving == Moving::Again {
        return Ok(None);
    }
    let blocks = live.blocks;
    check_number(&blocks)?;
    let index = Index::new(&blocks);
    // The first thread of a process may have ended, and with it what the kernel shows of the process as a whole.
    let tid = threads.first().map_or(pid, |thread| thread.tid);
    let maps = read_maps(pid, tid)?;
    let mut memory = ProcessMemory::new(pid, tid, &maps);
    let mut skip = subject.skip.clone();
    skip.extend(subject.skip_listed.iter().flat_map(|listed| read_list(listed, &mut memory)));
    let ranges = roots::find(&maps, &threads, &index, &skip, &mut memory);
    let words = threads.iter().flat_map(|thread| thread.registers.iter().copied()).collect();
    let edges = Edges::read(&index, &Roots { ranges, words }, &mut memory);
    if memory.gone || !stopped.still(&threads) {
        return Err(LeakError::Gone { pid });
    }
    let (bytes_read, unreadable_pages) = (memory.bytes_read, memory.unreadable_pages);
    drop(stopped);
    let look =
        Look { index, edges, threads: threads.len(), stopped: began.elapsed(), bytes_read, unreadable_pages };
    Ok(Some((look, blocks)))
}

/// The ranges of a list in a process.
fn read_list(listed: &Listed, memory: &mut ProcessMemory<'_>) -> Vec<(u64, u64)> {
    let mut bytes = vec![0; listed.count * 8];
    memory.read(listed.at, &mut bytes);
    let starts = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    starts.filter(|start| *start != 0).map(|start| (start, start.saturating_add(listed.len))).collect()
}

/// The maps of a process, as one of its threads that lives sees them.
fn read_maps(pid: u32, tid: u32) -> Result<Vec<Mapping>, LeakError> {
    match Mapping::all_of_thread(pid, tid) {
        Ok(maps) if !maps.is_empty() => Ok(maps),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(LeakError::Permission { pid }),
        // Without an address space it has no lines.
        _ => Err(LeakError::Gone { pid }),
    }
}

/// How many bytes of each block still hold what the agent filled them with (`--unused`), in the order of the blocks.
/// See [`Untouched`] for what counts.
///
/// The process is not stopped; it should be waiting for us.
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
        // A block of no bytes is read as one.
        if blocks[row].size > 0 {
            bytes.iter().for_each(|byte| unused[row].add(*byte));
        }
    });
    if memory.gone {
        return Err(LeakError::Gone { pid });
    }
    Ok(unused.iter().map(Untouched::bytes).collect())
}

/// Blocks are numbered with 31 bits.
fn check_number(blocks: &[LiveBlock]) -> Result<(), LeakError> {
    if blocks.len() < 1 << 31 { Ok(()) } else { Err(LeakError::TooMany { blocks: blocks.len() }) }
}
