//! A collector that is simple enough to be obviously correct: it takes every record out of the rings, orders
//! them by their timestamps, and checks that allocations and frees of each address alternate.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write as _;
use std::mem::zeroed;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU8};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use whyslow_agent_wire::area::{self, Header, ModuleEntry, RingHeader, ring};
use whyslow_agent_wire::handshake::{Hello, Welcome};
use whyslow_agent_wire::purpose::{Purpose, Purposes};
use whyslow_agent_wire::record::{self, op};
use whyslow_agent_wire::{AGENT_NAME, SOCKET_VARIABLE, VERSION};

/// One record with its timestamp.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    pub(crate) pid: u32,
    pub(crate) level: u32,
    pub(crate) ring: usize,
    pub(crate) ticks: u64,
    pub(crate) op: u64,
    pub(crate) address: u64,
    pub(crate) stack: u32,
    pub(crate) size: u64,
}

/// A mapped area.
pub(crate) struct Area {
    base: *mut u8,
    pub(crate) records: Vec<Record>,
    cursors: HashMap<usize, Cursor>,
    stacks: Stacks,
}

/// Frames, leaf first, with their generations.
type Frames = Vec<(u64, u16)>;

/// All stacks, without duplicates. Number 0 is none.
#[derive(Default)]
struct Stacks {
    numbers: HashMap<Frames, u32>,
    frames: Vec<Frames>,
}

#[derive(Default)]
struct Cursor {
    stamp: u64,
    last: u64,
    generation: u16,
    trails: HashMap<usize, Vec<(u64, u16)>>,
    stack: Vec<(u64, u16)>,
}

impl Cursor {
    /// Applies a `STACK` record, in the simplest way.
    fn follow(&mut self, stack: record::Stack, fresh: impl Iterator<Item = u64>) {
        let from = self.trails.entry(stack.from).or_default();
        assert!(stack.kept <= from.len(), "a stack keeps only frames that exist");
        self.stack = from[..stack.kept].to_vec();
        self.stack.extend(fresh.map(|frame| (frame, self.generation)));
        if stack.fresh > 0 {
            self.trails.insert(stack.to, self.stack.clone());
        }
    }
}

impl Stacks {
    fn number(&mut self, stack: &[(u64, u16)]) -> u32 {
        let frames: Frames = stack.iter().rev().copied().collect();
        let next = self.frames.len() as u32 + 1;
        *self.numbers.entry(frames).or_insert_with_key(|frames| {
            self.frames.push(frames.clone());
            next
        })
    }
}

// SAFETY: the area is never unmapped and consists of atomics.
unsafe impl Send for Area {}

impl Area {
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the area begins with its header.
        unsafe { &*self.base.cast() }
    }

    fn ring(&self, index: usize) -> &RingHeader {
        // SAFETY: within the area.
        unsafe { &*self.base.add(area::ring_header_at(index)).cast() }
    }

    fn word(&self, ring: usize, at: u64) -> u64 {
        // SAFETY: within the ring.
        unsafe {
            *self
                .base
                .add(area::chunk_at(ring / area::CHUNK_RINGS) + area::ring_words_at(ring))
                .cast::<u64>()
                .add(at as usize % area::RING_WORDS)
        }
    }

    fn filter(&self, address: u64) -> &AtomicU8 {
        // SAFETY: within the filter.
        unsafe { &*self.base.add(area::FILTER_AT + area::filter_slot(address)).cast() }
    }

    /// How many sampled blocks the filter has in an address's slot.
    pub(crate) fn filtered(&self, address: u64) -> u8 {
        self.filter(address).load(Relaxed)
    }

    /// The return addresses of a stack, leaf first, with their generations.
    pub(crate) fn frames(&self, stack: u32) -> Vec<(u64, u16)> {
        stack.checked_sub(1).map_or_else(Vec::new, |row| self.stacks.frames[row as usize].clone())
    }

    /// The modules in the order in which they were found.
    pub(crate) fn modules(&self) -> Vec<(ModuleEntry, String)> {
        let mut modules = Vec::new();
        let mut at = 0;
        while at < self.header().modules_used.load(Acquire) as usize {
            // SAFETY: complete entries are adjacent.
            unsafe {
                let from = self.base.add(area::MODULES_AT + at);
                let entry = ptr::read_unaligned(from.cast::<ModuleEntry>());
                let len = entry.path_len as usize;
                let path = std::slice::from_raw_parts(from.add(size_of::<ModuleEntry>()), len);
                modules.push((entry, String::from_utf8_lossy(path).into_owned()));
                at += size_of::<ModuleEntry>() + len.next_multiple_of(8);
            }
        }
        modules
    }

    /// The newest module that contains an address in a generation.
    pub(crate) fn module_of(&self, (address, generation): (u64, u16)) -> Option<String> {
        let modules = self.modules();
        let has = |entry: &ModuleEntry| {
            (entry.start..entry.end).contains(&address) && entry.generation <= u32::from(generation)
        };
        modules
            .into_iter()
            .filter(|(entry, _)| has(entry))
            .max_by_key(|(entry, _)| entry.generation)
            .map(|row| row.1)
    }

    fn drain(&mut self) {
        for index in 0..self.header().rings_used.load(Acquire) as usize {
            if self.ring(index).state.load(Acquire) != ring::LIVE {
                continue;
            }
            let (pid, tid) = (self.ring(index).pid.load(Relaxed), self.ring(index).tid.load(Relaxed));
            let gone = !Path::new(&format!("/proc/{pid}/task/{tid}")).exists();
            self.drain_ring(index, pid);
            if gone {
                self.cursors.remove(&index);
                self.header().rings_active.fetch_sub(1, SeqCst);
                self.ring(index).state.store(ring::FREE, Release);
            }
        }
        self.header().heartbeat.fetch_add(1, Relaxed);
        if self.header().exiting_pid.swap(0, Acquire) != 0 {
            self.header().exits_allowed.fetch_add(1, Release);
            let word = self.header().exits_allowed.as_ptr();
            // SAFETY: only wakes.
            unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX) };
        }
    }

    fn drain_ring(&mut self, index: usize, pid: u32) {
        let level = self.ring(index).level.load(Relaxed);
        let written = self.ring(index).written.load(Acquire);
        let mut read = self.ring(index).read.load(Relaxed);
        assert!(written - read <= area::RING_WORDS as u64, "a ring never overflows");
        let mut cursor = self.cursors.remove(&index).unwrap_or_default();
        while read < written {
            let word = self.word(index, read);
            let kind = record::op_of(word);
            assert!(
                (op::STAMP..=op::GENERATION).contains(&kind),
                "an unknown record {word:x} in ring {index}"
            );
            let mut next = None;
            match kind {
                op::STAMP => {
                    assert!(record::value_of(word) >= cursor.stamp, "timestamps in a ring never go back");
                    cursor.stamp = record::value_of(word);
                }
                op::GENERATION => cursor.generation = record::value_of(word) as u16,
                op::STACK => {
                    let stack = record::stack_of(word);
                    cursor.follow(stack, (1..=stack.fresh as u64).map(|at| self.word(index, read + at)));
                }
                _ => {
                    let body = self.word(index, read + 1);
                    let ticks = cursor.stamp + record::ticks_of(word);
                    assert!(ticks >= cursor.last, "timestamps in a ring never go back");
                    cursor.last = ticks;
                    let makes = matches!(kind, op::ALLOC | op::REALLOC | op::MAP);
                    next = Some(Record {
                        pid,
                        level,
                        ring: index,
                        ticks,
                        op: kind,
                        address: record::address_of(word),
                        stack: if makes { self.stacks.number(&cursor.stack) } else { 0 },
                        size: if record::words(word) > 1 { body } else { 0 },
                    });
                }
            }
            read += record::words(word);
            assert!(read <= written, "a record is complete when it is visible");
            self.records.extend(next);
        }
        self.cursors.insert(index, cursor);
        self.ring(index).read.store(read, Release);
    }
}

/// A listening collector.
pub(crate) struct Collector {
    pub(crate) folder: tempfile::TempDir,
    areas: Arc<Mutex<Vec<Area>>>,
    stop: Arc<AtomicBool>,
    paused: Arc<AtomicBool>,
    leaves: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// What the collector requests of the agent.
#[derive(Clone, Copy, Default)]
pub(crate) struct Wish {
    pub(crate) flags: u32,
    pub(crate) heap_flags: u32,
    pub(crate) sample_bytes: u64,
}

impl Collector {
    pub(crate) fn new(wish: Wish) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        File::create(folder.path().join(AGENT_NAME))
            .expect("a file")
            .write_all(whyslow_agent_embed::AGENT)
            .expect("room");
        let listener = listen(&folder.path().join("socket"));
        let areas = Arc::new(Mutex::new(Vec::new()));
        let flag = || Arc::new(AtomicBool::new(false));
        let (stop, paused, leaves) = (flag(), flag(), flag());
        let mut threads = Vec::new();
        {
            let (areas, stop) = (areas.clone(), stop.clone());
            threads.push(thread::spawn(move || {
                while !stop.load(Relaxed) {
                    let mut poll =
                        libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
                    // SAFETY: one entry.
                    if unsafe { libc::poll(&raw mut poll, 1, 20) } == 1
                        && let Some(area) = welcome(&listener, wish)
                    {
                        areas.lock().expect("no panic").push(area);
                    }
                }
            }));
        }
        {
            let (areas, stop, paused) = (areas.clone(), stop.clone(), paused.clone());
            let leaves = leaves.clone();
            threads.push(thread::spawn(move || {
                while !stop.load(Relaxed) {
                    if !paused.load(Relaxed) {
                        let mut areas = areas.lock().expect("no panic");
                        areas.iter_mut().for_each(Area::drain);
                        let written = areas.iter().filter(|area| !area.records.is_empty());
                        if leaves.load(Relaxed) {
                            written.for_each(|area| area.header().enabled.store(0, Release));
                        }
                    }
                    thread::sleep(Duration::from_micros(500));
                }
            }));
        }
        Collector { folder, areas, stop, paused, leaves, threads }
    }

    /// Releases programs once they have written something, like a recording that ends before them.
    pub(crate) fn leave_early(&self) {
        self.leaves.store(true, Relaxed);
    }

    /// Stops reading, like a stuck collector.
    pub(crate) fn pause(&self) {
        self.paused.store(true, Relaxed);
    }

    pub(crate) fn agent(&self) -> PathBuf {
        self.folder.path().join(AGENT_NAME)
    }

    /// Renames a symbol of the agent, so that it is not found.
    pub(crate) fn rename_in_agent(&self, from: &[u8], to: &[u8]) {
        let mut bytes = fs::read(self.agent()).expect("it is there");
        // The loader's names come first in the file.
        let at = bytes.windows(from.len()).position(|window| window == from).expect("there is one");
        bytes[at..at + to.len()].copy_from_slice(to);
        fs::write(self.agent(), bytes).expect("room");
    }

    /// A command that runs under the agent.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env("LD_PRELOAD", self.agent()).env(SOCKET_VARIABLE, self.folder.path().join("socket"));
        command
    }

    /// The same with a library after the agent.
    pub(crate) fn command_with(&self, program: impl AsRef<Path>, library: &Path) -> Command {
        let mut command = self.command(program);
        let mut both = OsString::from(self.agent());
        both.push(":");
        both.push(library);
        command.env("LD_PRELOAD", both);
        command
    }

    /// Stops, and returns all areas in the order in which the programs started.
    pub(crate) fn finish(mut self) -> Vec<Area> {
        self.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("the collector must not fail");
        }
        let mut areas = std::mem::take(&mut *self.areas.lock().expect("no panic"));
        areas.iter_mut().for_each(Area::drain);
        areas
    }
}

fn listen(path: &Path) -> OwnedFd {
    // SAFETY: plain structures, with their lengths.
    unsafe {
        let socket =
            OwnedFd::from_raw_fd(libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0));
        let mut address: libc::sockaddr_un = zeroed();
        address.sun_family = libc::AF_UNIX as u16;
        for (to, from) in address.sun_path.iter_mut().zip(path.as_os_str().as_bytes()) {
            *to = *from as i8;
        }
        let len = size_of::<libc::sockaddr_un>() as u32;
        assert_eq!(libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len), 0);
        assert_eq!(libc::listen(socket.as_raw_fd(), 100), 0);
        socket
    }
}

fn welcome(listener: &OwnedFd, wish: Wish) -> Option<Area> {
    // SAFETY: plain structures, with their lengths. The area is never unmapped.
    unsafe {
        let peer = libc::accept4(listener.as_raw_fd(), ptr::null_mut(), ptr::null_mut(), libc::SOCK_CLOEXEC);
        let peer = (peer >= 0).then(|| OwnedFd::from_raw_fd(peer))?;
        let mut hello: Box<Hello> = Box::new(zeroed());
        let came = libc::recv(peer.as_raw_fd(), (&raw mut *hello).cast(), size_of::<Hello>(), 0);
        assert_eq!((came as usize, hello.version), (size_of::<Hello>(), VERSION));
        let file = OwnedFd::from_raw_fd(libc::memfd_create(c"heap".as_ptr(), libc::MFD_CLOEXEC));
        assert_eq!(libc::ftruncate(file.as_raw_fd(), area::AREA_LEN as i64), 0);
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let how = libc::MAP_SHARED | libc::MAP_NORESERVE;
        let base = libc::mmap(ptr::null_mut(), area::AREA_LEN, rights, how, file.as_raw_fd(), 0);
        assert_ne!(base, libc::MAP_FAILED);
        let area = Area {
            base: base.cast(),
            records: Vec::new(),
            cursors: HashMap::new(),
            stacks: Stacks::default(),
        };
        let header = area.header();
        header.version.store(VERSION, Relaxed);
        header.enabled.store(1, Relaxed);
        header.flags.store(wish.flags, Relaxed);
        header.purposes.store(Purposes::NONE.and(Purpose::Heap).bits(), Relaxed);
        header.heap.flags.store(wish.heap_flags, Relaxed);
        header.heap.sample_bytes.store(wish.sample_bytes, Relaxed);
        let answer = Welcome { version: VERSION, pages: 0, reals: 0, patches: 0 };
        let mut vector =
            libc::iovec { iov_base: (&raw const answer).cast_mut().cast(), iov_len: size_of::<Welcome>() };
        let mut control = [0u64; 4];
        let mut message: libc::msghdr = zeroed();
        message.msg_iov = &raw mut vector;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as usize;
        let first = libc::CMSG_FIRSTHDR(&raw const message);
        (*first).cmsg_level = libc::SOL_SOCKET;
        (*first).cmsg_type = libc::SCM_RIGHTS;
        (*first).cmsg_len = libc::CMSG_LEN(4) as usize;
        *libc::CMSG_DATA(first).cast::<i32>() = file.as_raw_fd();
        assert_eq!(libc::sendmsg(peer.as_raw_fd(), &raw const message, 0), size_of::<Welcome>() as isize);
        Some(area)
    }
}

/// What a process did, for the blocks of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) allocations: u64,
    pub(crate) frees: u64,
    pub(crate) bytes: u64,
    pub(crate) live: u64,
    pub(crate) live_bytes: u64,
}

/// Orders records and replays them.
#[derive(Default)]
pub(crate) struct Replay {
    /// By process. Only counts blocks whose size shows that the test program requested them.
    pub(crate) counts: HashMap<u32, Counts>,
    /// Frees of blocks that their process did not allocate.
    pub(crate) unknown: HashMap<u32, u64>,
    /// Allocations at an address that was still live.
    pub(crate) overwritten: u64,
}

/// The sizes that test programs request and libc does not.
pub(crate) fn is_tagged(size: u64) -> bool {
    size % 64 == 33
}

fn makes(record: &Record) -> bool {
    matches!(record.op, op::ALLOC | op::REALLOC)
}

fn ends(record: &Record) -> bool {
    matches!(record.op, op::FREE | op::LEAVE)
}

/// The record at this position allocates an address that is live, or frees one that is not. Counters are read
/// slightly early, so the record that belongs before it may be some ticks later, after other records of its
/// thread. Moves it where it belongs.
fn untangle(order: &mut Vec<Record>, at: usize) {
    const SLACK: u64 = 256;
    let first = order[at];
    let belongs_before = |record: &Record| {
        (record.pid, record.address) == (first.pid, first.address)
            && record.ring != first.ring
            && if makes(&first) { ends(record) } else { makes(record) }
    };
    let mut near = order[at..].iter().take_while(|record| record.ticks <= first.ticks + SLACK);
    let Some(other) = near.position(belongs_before) else { return };
    let ring = order[at + other].ring;
    let (before, after): (Vec<Record>, Vec<Record>) =
        order[at..=at + other].iter().partition(|record| record.ring == ring);
    order.splice(at..=at + other, before.into_iter().chain(after));
}

impl Replay {
    pub(crate) fn new(records: &[Record]) -> Self {
        let mut order = records.to_vec();
        order.sort_by_key(|record| record.ticks);
        let mut replay = Replay::default();
        let mut live: HashMap<(u32, u64), u64> = HashMap::new();
        let mut leaving: HashMap<(u32, usize), Option<u64>> = HashMap::new();
        let mut at = 0;
        while at < order.len() {
            let is_live = live.contains_key(&(order[at].pid, order[at].address));
            if makes(&order[at]) && is_live || ends(&order[at]) && !is_live {
                untangle(&mut order, at);
            }
            let record = order[at];
            at += 1;
            let counts = replay.counts.entry(record.pid).or_default();
            let key = (record.pid, record.address);
            let ring = (record.pid, record.ring);
            let mut remove = |size: Option<u64>| match size {
                Some(size) if is_tagged(size) => {
                    counts.frees += 1;
                    counts.live -= 1;
                    counts.live_bytes -= size;
                }
                Some(_) => {}
                None => *replay.unknown.entry(record.pid).or_default() += 1,
            };
            match record.op {
                op::FREE => remove(live.remove(&key)),
                op::LEAVE => {
                    assert!(
                        leaving.insert(ring, live.remove(&key)).is_none(),
                        "a thread resizes one block at a time"
                    );
                }
                op::REALLOC_FAILED => {
                    if let Some(Some(size)) = leaving.remove(&ring) {
                        live.insert(key, size);
                    }
                }
                op::REALLOC_FREED => remove(leaving.remove(&ring).expect("a LEAVE record precedes it")),
                op::ALLOC | op::REALLOC => {
                    if record.op == op::REALLOC
                        && let Some(old) = leaving.remove(&ring)
                    {
                        remove(old);
                    }
                    if is_tagged(record.size) {
                        counts.allocations += 1;
                        counts.bytes += record.size;
                        counts.live += 1;
                        counts.live_bytes += record.size;
                    }
                    replay.overwritten += u64::from(live.insert(key, record.size).is_some());
                }
                _ => {}
            }
        }
        replay
    }
}
