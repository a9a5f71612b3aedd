//! A consistent look at a process: stopped, read, let go.

use std::fs;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use whyslow_heap_wire::fill::Untouched;

use super::blocks::read_blocks;
use super::edges::Edges;
use super::graph::{self, Roots};
use super::index::Index;
use super::maps::Mapping;
use super::memory::ProcessMemory;
use super::roots;
use super::threads::Stopped;
use super::{LeakError, LeakReport, LiveBlock};

/// Finds out which of the live blocks of a process are leaked.
///
/// All its threads are stopped while its memory is read, and go on before the graph is walked. `waiting_tid` is a thread that is
/// known to wait for us, such as one in the agent's exit hook: if it is not there any more, the process has gone on
/// and the blocks are not its blocks. `skip` are ranges that belong to us: the agent, its stacks, the shared area.
///
/// System calls that the stop interrupts are restarted by the kernel, but for a few, such as `epoll_wait`, that return `EINTR`.
/// While a process is looked at, `wait` for it, in any of our threads, can report the stop: look at the status.
pub fn check(
    pid: u32,
    waiting_tid: Option<u32>,
    blocks: &[LiveBlock],
    skip: &[(u64, u64)],
) -> Result<LeakReport, LeakError> {
    check_number(blocks)?;
    let index = Index::new(blocks);
    traced(|| look(pid, waiting_tid, skip, || Ok(index))).map(Look::judge)
}

/// The same for a process that runs: its blocks are asked for once it stands still, so that they are those of its memory.
pub fn check_running(
    pid: u32,
    skip: &[(u64, u64)],
    blocks: impl FnOnce() -> Vec<LiveBlock> + Send,
) -> Result<(LeakReport, Vec<LiveBlock>), LeakError> {
    let mut taken = Vec::new();
    let index = || {
        taken = blocks();
        check_number(&taken)?;
        Ok(Index::new(&taken))
    };
    let report = traced(|| look(pid, None, skip, index)).map(Look::judge)?;
    Ok((report, taken))
}

/// Runs this on a thread of its own: when it ends, however it does, the kernel frees everything that it traces.
fn traced<T: Send>(look: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(look).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
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

fn look(
    pid: u32,
    waiting_tid: Option<u32>,
    skip: &[(u64, u64)],
    index: impl FnOnce() -> Result<Index, LeakError>,
) -> Result<Look, LeakError> {
    let began = Instant::now();
    let stopped = Stopped::stop(pid)?;
    let threads = stopped.threads()?;
    if waiting_tid.is_some_and(|waiting| threads.iter().all(|thread| thread.tid != waiting)) {
        return Err(LeakError::Gone { pid });
    }
    let index = index()?;
    let maps = read_maps(pid)?;
    let mut memory = ProcessMemory::new(pid, &maps);
    let ranges = roots::find(&maps, &threads, &index, skip, &mut memory);
    let words = threads.iter().flat_map(|thread| thread.registers.iter().copied()).collect();
    let edges = Edges::read(&index, &Roots { ranges, words }, &mut memory);
    if memory.gone || !stopped.still(&threads) {
        return Err(LeakError::Gone { pid });
    }
    let (bytes_read, unreadable_pages) = (memory.bytes_read, memory.unreadable_pages);
    drop(stopped);
    Ok(Look { index, edges, threads: threads.len(), stopped: began.elapsed(), bytes_read, unreadable_pages })
}

fn read_maps(pid: u32) -> Result<Vec<Mapping>, LeakError> {
    match fs::read_to_string(format!("/proc/{pid}/maps")) {
        Ok(text) if !text.is_empty() => Ok(Mapping::parse_all(&text)),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(LeakError::Permission { pid }),
        // Without an address space it has no lines.
        _ => Err(LeakError::Gone { pid }),
    }
}

/// How many bytes of each block still hold what the agent filled them with (`--unused`), in the order of the blocks.
/// See [`Untouched`] for what counts.
///
/// The process is not stopped; it should be waiting for us.
pub fn unused_bytes(pid: u32, blocks: &[LiveBlock]) -> Result<Vec<u64>, LeakError> {
    check_number(blocks)?;
    let maps = read_maps(pid)?;
    let mut memory = ProcessMemory::new(pid, &maps);
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
