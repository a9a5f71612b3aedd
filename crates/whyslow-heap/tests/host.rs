//! The whole host with fake agents and other clients: well-behaved, slow and nonsensical ones.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use whyslow_agent_host::{AgentHost, Area, Clock, Connection, PatchPage, PatchPlan, PatchPlanner, sys};
use whyslow_agent_wire::VERSION;
use whyslow_agent_wire::area::{flag, heap_flag, ring};
use whyslow_agent_wire::handshake::{Hello, MOST_WELCOME, Patch, Real};
use whyslow_agent_wire::purpose::{Purpose, Purposes};
use whyslow_agent_wire::record::{self, op};
use whyslow_agent_wire::snapshot::{Reply, Request, status};
use whyslow_heap::leaks::{LiveBlock, Subject};
use whyslow_heap::{
    Accounting, Address, Batch, Config, ExitInspector, Findings, NoInspector, Outcome, TakeBlocks,
};
use whyslow_profile::{HeapCounts, HeapNote, LeakCheck};

fn plan(hello: &Hello, pid: u32) -> PatchPlan {
    assert_eq!((pid, hello.agent_end), (std::process::id(), 0x2000));
    PatchPlan {
        pages: vec![PatchPage { at: 0x7000, bytes: vec![1, 2, 3] }],
        reals: vec![Real { hook: 3, point: 0, address: 0x7010 }],
        patches: vec![Patch { address: 0x9000, len: 5, reserved: 0, bytes: [4; 16], expected: [5; 16] }],
        allocators: vec!["malloc".to_owned()],
        notes: vec![HeapNote::NoExitFunction],
        ..PatchPlan::default()
    }
}

/// Writes what is live to a snapshot's file, in one line.
fn write(outcome: &Outcome, mut file: File) -> io::Result<()> {
    let counts: Vec<_> = outcome.sites.iter().map(|site| site.counts).collect();
    let sum = |of: fn(&HeapCounts) -> u64| counts.iter().map(of).sum::<u64>();
    let (live, lost) = (sum(|counts| counts.live_at_exit_bytes), sum(|counts| counts.definitely_lost_bytes));
    assert_eq!(outcome.facts.snapshot.map(|snapshot| snapshot.pid), Some(std::process::id()));
    write!(
        file,
        "{live} live, {lost} lost, {:?}, {} processes",
        outcome.facts.leaks,
        outcome.batch.processes.len()
    )
}

/// A host that counts the heap.
struct Collector(AgentHost);

impl Collector {
    fn start(config: Config, planner: Box<dyn PatchPlanner>, inspector: Arc<dyn ExitInspector>) -> Self {
        let clock = Clock::start();
        let heap = Accounting::new(config, clock, inspector, Arc::new(write));
        let host = AgentHost::start(clock, b"the agent", planner, vec![Box::new(heap)]);
        Self(host.expect("started"))
    }

    fn take(&self) -> Batch {
        self.0.with(Accounting::take).expect("the heap is recorded")
    }

    fn live_blocks(&self) -> Vec<LiveBlock> {
        self.0.round();
        let blocks = |heap: &mut Accounting, programs: &mut _| heap.live_blocks(programs, std::process::id());
        self.0.with(blocks).flatten().expect("known")
    }

    /// The results, with the notes about the programs.
    fn finish(self) -> Outcome {
        let finished = self.0.finish();
        let finish = |heap: &mut Accounting, programs: &mut _| heap.finish(programs, finished.cpu_ns());
        let mut outcome = finished.with(finish).expect("the heap is recorded");
        outcome.notes.extend(finished.notes());
        outcome
    }
}

fn start(config: Config, inspector: Arc<dyn ExitInspector>) -> Collector {
    Collector::start(config, Box::new(plan), inspector)
}

fn socket(collector: &Collector) -> PathBuf {
    collector.0.socket()
}

fn hello(version: u32) -> Vec<u8> {
    let mut bytes = vec![0; size_of::<Hello>()];
    bytes[..4].copy_from_slice(&version.to_le_bytes());
    bytes[8..12].copy_from_slice(&std::process::id().to_le_bytes());
    let end = std::mem::offset_of!(Hello, agent_end);
    bytes[end..end + 8].copy_from_slice(&0x2000u64.to_le_bytes());
    bytes
}

/// Sends a hello and maps the area from the answer.
fn enter(collector: &Collector) -> (Area, Vec<u8>) {
    let connection = Connection::to(&socket(collector)).expect("connected");
    connection.send(&hello(VERSION), None).expect("sent");
    let mut room = vec![0; MOST_WELCOME];
    let (len, file) = connection.receive_with_file(&mut room).expect("answered");
    room.truncate(len);
    let area = Area::map(file.expect("a file")).expect("mapped");
    area.header().agent_start.store(0x1000, Ordering::Release);
    (area, room)
}

/// Takes ring 0 and records a block that is never freed.
fn leak(area: &Area, size: u64) {
    // The main thread runs as long as the test.
    leak_in(area, std::process::id(), size);
}

fn leak_in(area: &Area, tid: u32, size: u64) {
    let header = area.ring(0).expect("a ring");
    header.pid.store(std::process::id(), Ordering::Relaxed);
    header.tid.store(tid, Ordering::Relaxed);
    header.purpose.store(Purpose::Heap as u32, Ordering::Relaxed);
    header.state.store(ring::LIVE, Ordering::Release);
    area.header().rings_active.store(1, Ordering::Relaxed);
    area.header().rings_used.store(1, Ordering::Release);
    let words = [record::number(op::STAMP, sys::now().0), record::head(op::ALLOC, 0, 0x5000), size];
    for (to, word) in area.words(0).expect("words").iter().zip(words) {
        to.store(word, Ordering::Relaxed);
    }
    header.written.store(3, Ordering::Release);
}

fn wait_until(mut what: impl FnMut() -> bool) {
    let start = Instant::now();
    while !what() {
        assert!(start.elapsed() < Duration::from_secs(60), "the condition never became true");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Plans become ready only when all of them are requested: no client waits for another one's.
#[test]
fn answers_many_clients_at_the_same_time() {
    const MANY: usize = 20;
    let all_here = std::sync::Barrier::new(MANY);
    let planner = move |hello: &Hello, pid: u32| {
        all_here.wait();
        plan(hello, pid)
    };
    let collector = Collector::start(Config::default(), Box::new(planner), Arc::new(NoInspector));
    for _ in 0..3 {
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..MANY).map(|_| scope.spawn(|| enter(&collector))).collect();
            for one in all {
                one.join().expect("answered");
            }
        });
    }
}

#[test]
fn a_program_gets_its_settings_and_is_counted() {
    let config = Config { sample_bytes: None, unused: true, ..Config::default() };
    let collector = start(config, Arc::new(NoInspector));
    let environment = collector.0.environment_with(Some(OsStr::new("/other.so")));
    let (agent, other) = environment[0].1.to_str().expect("text").split_once(':').expect("two");
    assert_eq!(
        (std::fs::read(agent).expect("a file").as_slice(), other),
        (b"the agent".as_slice(), "/other.so")
    );
    let folder = socket(&collector).parent().expect("a folder").to_owned();

    let (area, welcome) = enter(&collector);
    assert_eq!(welcome[..16], [[VERSION, 1, 1, 1].map(u32::to_le_bytes).concat()].concat());
    assert_eq!(welcome[16..24], 0x7000u64.to_le_bytes());
    assert_eq!(welcome[24..40], [3, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 0]);
    assert_eq!(welcome.len(), 40 + 16 + 48);
    let header = area.header();
    assert_eq!(header.version.load(Ordering::Relaxed), VERSION);
    assert_eq!(header.enabled.load(Ordering::Relaxed), 1);
    assert_eq!(header.flags.load(Ordering::Relaxed), 0);
    assert!(Purposes::of_bits(header.purposes.load(Ordering::Relaxed)) == Purposes::NONE.and(Purpose::Heap));
    assert_eq!(header.heap.flags.load(Ordering::Relaxed), heap_flag::UNUSED);

    leak(&area, 1234);
    wait_until(|| area.ring(0).expect("a ring").read.load(Ordering::Acquire) == 3);
    let blocks = collector.live_blocks();
    assert_eq!((blocks.len(), blocks[0].address, blocks[0].size), (1, Address(0x5000), 1234));
    let outcome = collector.finish();
    assert_eq!(header.enabled.load(Ordering::Relaxed), 0);
    assert!(!folder.exists());
    assert_eq!(outcome.facts.peak_bytes, 1234);
    assert_eq!(
        (outcome.facts.allocators, outcome.notes),
        (vec!["malloc".to_owned()], vec![HeapNote::NoExitFunction])
    );
    assert_eq!(outcome.sites[0].counts.live_at_exit_bytes, 1234);
    assert_eq!(outcome.batch.processes[0].pid, std::process::id());
    let program = std::env::current_exe().expect("a path");
    assert!(!outcome.batch.processes[0].name.is_empty() && program.exists());
}

#[test]
fn slow_and_nonsensical_clients_do_not_delay_others() {
    let collector = start(Config::default(), Arc::new(NoInspector));
    let slow: Vec<_> = (0..8).map(|_| Connection::to(&socket(&collector)).expect("connected")).collect();
    let mut room = vec![0; MOST_WELCOME];
    for nonsense in [hello(VERSION + 1), vec![7; 3], vec![0; 60_000]] {
        let connection = Connection::to(&socket(&collector)).expect("connected");
        connection.send(&nonsense, None).expect("sent");
        let (len, file) = connection.receive_with_file(&mut room).expect("answered");
        assert!(len == 16 && room[..4] == [0; 4] && file.is_none());
    }
    let (area, _) = enter(&collector);
    leak(&area, 10);
    let outcome = collector.finish();
    assert_eq!((outcome.facts.processes, outcome.facts.peak_bytes), (1, 10));
    drop(slow);
}

#[derive(Default)]
struct Recorded(Mutex<Vec<(u32, u32, Vec<LiveBlock>)>>);

impl ExitInspector for Recorded {
    fn inspect(&self, subject: &Subject, blocks: &mut TakeBlocks<'_>) -> Findings {
        let blocks = blocks().blocks;
        let tid = subject.waiting.as_ref().map_or(0, |waiting| waiting.tid);
        self.0.lock().expect("whole").push((subject.pid, tid, blocks.clone()));
        let counts =
            HeapCounts { definitely_lost_blocks: 1, definitely_lost_bytes: 77, ..HeapCounts::default() };
        Findings { stacks: vec![(blocks[0].stack, counts)], leaks: LeakCheck::AtExit, notes: Vec::new() }
    }
}

fn exit(area: &Area) {
    let header = area.header();
    let before = header.exits_allowed.load(Ordering::Acquire);
    header.exiting_tid.store(std::process::id(), Ordering::Release);
    header.exiting_pid.store(std::process::id(), Ordering::Release);
    wait_until(|| header.exits_allowed.load(Ordering::Acquire) != before);
    header.exiting_pid.store(0, Ordering::Release);
    header.exiting_tid.store(0, Ordering::Release);
}

#[test]
fn an_exiting_process_is_inspected_with_all_its_blocks() {
    let inspector = Arc::new(Recorded::default());
    let collector = start(Config { leak_check: true, ..Config::default() }, Arc::clone(&inspector) as _);
    let (area, _) = enter(&collector);
    assert_eq!(area.header().flags.load(Ordering::Relaxed), flag::WAIT_AT_EXIT | flag::WAIT_IN_CRASH);
    leak(&area, 77);
    exit(&area);
    let inspections = inspector.0.lock().expect("whole").clone();
    assert_eq!(inspections.len(), 1);
    assert_eq!((inspections[0].0, inspections[0].1), (std::process::id(), std::process::id()));
    assert_eq!((inspections[0].2.len(), inspections[0].2[0].size), (1, 77));
    let outcome = collector.finish();
    assert_eq!(outcome.facts.leaks, LeakCheck::AtExit);
    assert_eq!(outcome.sites[0].counts.definitely_lost_bytes, 77);
    assert_eq!(outcome.sites[0].counts.live_at_exit_bytes, 77);
}

struct Faulty;

impl ExitInspector for Faulty {
    fn inspect(&self, _: &Subject, _: &mut TakeBlocks<'_>) -> Findings {
        panic!("this test's inspector always fails");
    }
}

#[test]
fn a_failed_inspection_releases_the_process() {
    let collector = start(Config { leak_check: true, ..Config::default() }, Arc::new(Faulty));
    let (area, _) = enter(&collector);
    leak(&area, 77);
    exit(&area);
    assert!(matches!(collector.finish().facts.leaks, LeakCheck::Impossible(_)));
}

#[test]
fn a_process_without_blocks_is_not_inspected() {
    let collector = start(Config { leak_check: true, ..Config::default() }, Arc::new(Faulty));
    let (area, _) = enter(&collector);
    exit(&area);
    assert_eq!(collector.finish().facts.leaks, LeakCheck::AtExit);
}

struct Endless(AtomicU32);

impl ExitInspector for Endless {
    fn inspect(&self, subject: &Subject, _: &mut TakeBlocks<'_>) -> Findings {
        if subject.waiting.is_none() {
            return Findings::default();
        }
        self.0.store(1, Ordering::Release);
        wait_until(|| self.0.load(Ordering::Acquire) == 2);
        Findings::default()
    }
}

#[test]
fn reads_other_processes_during_an_inspection() {
    let inspector = Arc::new(Endless(AtomicU32::new(0)));
    let collector = start(Config { leak_check: true, ..Config::default() }, Arc::clone(&inspector) as _);
    let (first, _) = enter(&collector);
    leak(&first, 10);
    first.header().exiting_tid.store(std::process::id(), Ordering::Release);
    first.header().exiting_pid.store(std::process::id(), Ordering::Release);
    wait_until(|| inspector.0.load(Ordering::Acquire) == 1);
    let (second, _) = enter(&collector);
    leak(&second, 10);
    wait_until(|| second.ring(0).expect("a ring").read.load(Ordering::Acquire) == 3);
    assert_eq!(first.header().exits_allowed.load(Ordering::Acquire), 0);
    inspector.0.store(2, Ordering::Release);
    wait_until(|| first.header().exits_allowed.load(Ordering::Acquire) == 1);
    collector.finish();
}

#[test]
fn a_dropped_collector_releases_all_processes() {
    let collector = start(Config { leak_check: true, ..Config::default() }, Arc::new(NoInspector));
    let (area, _) = enter(&collector);
    drop(collector);
    assert_eq!(area.header().enabled.load(Ordering::Acquire), 0);
    assert!(area.header().exits_allowed.load(Ordering::Acquire) > 0);
}

#[test]
fn the_ring_of_an_exited_thread_is_freed() {
    let collector = start(Config::default(), Arc::new(NoInspector));
    let (area, _) = enter(&collector);
    // This process has no thread with this id.
    leak_in(&area, 1, 10);
    let header = area.ring(0).expect("a ring");
    wait_until(|| header.state.load(Ordering::Acquire) == ring::FREE);
    assert_eq!(area.header().rings_active.load(Ordering::Acquire), 0);
    leak(&area, 20);
    wait_until(|| header.read.load(Ordering::Acquire) == 3);
    let outcome = collector.finish();
    // The same address again: the end of the first block is unknown.
    assert_eq!((outcome.facts.lost_events, outcome.facts.peak_bytes), (1, 20));
}

/// Requests a snapshot: its status, its text, and the file's content.
fn ask(collector: &Collector, request: &[u8]) -> (u32, String, Option<String>) {
    let connection = Connection::to(&socket(collector)).expect("connected");
    connection.send(request, None).expect("sent");
    let mut room = vec![0; MOST_WELCOME];
    let (len, file) = connection.receive_with_file(&mut room).expect("answered");
    let (reply, text) = Reply::parse(&room[..len]).expect("a reply");
    let content = file.map(|file| {
        let (mut file, mut content) = (File::from(file), String::new());
        file.rewind().and_then(|()| file.read_to_string(&mut content)).expect("read");
        content
    });
    (reply.status, String::from_utf8_lossy(text).into_owned(), content)
}

/// Inspects a process as if it were stopped.
struct Inspects;

impl ExitInspector for Inspects {
    fn inspect(&self, _: &Subject, blocks: &mut TakeBlocks<'_>) -> Findings {
        let blocks = blocks().blocks;
        let bytes = blocks.iter().map(|block| block.size).sum();
        let counts =
            HeapCounts { definitely_lost_blocks: 1, definitely_lost_bytes: bytes, ..HeapCounts::default() };
        Findings { stacks: vec![(blocks[0].stack, counts)], leaks: LeakCheck::AtExit, notes: Vec::new() }
    }
}

#[test]
fn a_snapshot_shows_what_is_live_and_changes_nothing() {
    let collector = start(Config { leak_check: true, ..Config::default() }, Arc::new(Inspects));
    let (area, _) = enter(&collector);
    leak(&area, 77);
    let asked = Request::new(std::process::id()).to_bytes();
    for _ in 0..3 {
        let (became, text, content) = ask(&collector, &asked);
        assert_eq!((became, text.as_str()), (status::TAKEN, ""));
        let content = content.expect("a file");
        assert!(content.starts_with("77 live, 77 lost, AtSnapshot("), "{content}");
        // Rows that were handed out before are in it again.
        assert!(content.ends_with("1 processes"), "{content}");
        collector.take();
    }
    exit(&area);
    assert_eq!(ask(&collector, &asked).0, status::ENDED);
    let outcome = collector.finish();
    assert_eq!((outcome.facts.leaks, outcome.facts.snapshot), (LeakCheck::AtExit, None));
    let counts = outcome.sites[0].counts;
    assert_eq!((counts.allocations, counts.live_at_exit_bytes, counts.definitely_lost_bytes), (1, 77, 77));
}

#[test]
fn a_snapshot_works_without_a_leak_check() {
    for (config, expected) in [
        (Config::default(), "77 live, 0 lost, NotDone"),
        (Config { sample_bytes: Some(1), ..Config::default() }, "77 live, 0 lost, Impossible("),
    ] {
        let collector = start(config, Arc::new(NoInspector));
        let (area, _) = enter(&collector);
        leak(&area, 77);
        let (became, _, content) = ask(&collector, &Request::new(std::process::id()).to_bytes());
        assert_eq!(became, status::TAKEN);
        assert!(content.as_ref().is_some_and(|content| content.starts_with(expected)), "{content:?}");
    }
}

#[test]
fn requests_that_cannot_be_met_get_an_answer() {
    let collector = start(Config::default(), Arc::new(Faulty));
    let (area, _) = enter(&collector);
    leak(&area, 77);
    let (became, text, _) = ask(&collector, &Request::new(1).to_bytes());
    assert_eq!(became, status::UNKNOWN);
    assert!(text.starts_with(&format!("{} (", std::process::id())), "{text}");
    let of_another_version = Request { version: VERSION + 1, pid: std::process::id() };
    assert_eq!(ask(&collector, &of_another_version.to_bytes()).0, status::FAILED);
    let (became, _, content) = ask(&collector, &Request::new(std::process::id()).to_bytes());
    assert_eq!(became, status::TAKEN);
    assert!(content.expect("a file").contains("CheckFailed"));
    assert_eq!(collector.finish().facts.peak_bytes, 77);
}

/// Takes long for a snapshot, and signals when it inspects an exit.
struct Slow(AtomicU32, AtomicU32);

impl ExitInspector for Slow {
    fn inspect(&self, subject: &Subject, blocks: &mut TakeBlocks<'_>) -> Findings {
        if subject.waiting.is_some() {
            assert_eq!(self.0.load(Ordering::Acquire), 2, "it is still being inspected");
            return Findings { leaks: LeakCheck::AtExit, ..Findings::default() };
        }
        assert_eq!(self.1.fetch_add(1, Ordering::AcqRel), 0, "two snapshots at the same time");
        let live = blocks();
        self.0.fetch_max(1, Ordering::AcqRel);
        wait_until(|| self.0.load(Ordering::Acquire) == 2);
        self.1.fetch_sub(1, Ordering::AcqRel);
        assert!(!live.blocks.is_empty());
        Findings::default()
    }
}

#[test]
fn snapshots_wait_for_each_other_and_an_exit_waits_for_them() {
    let inspector = Arc::new(Slow(AtomicU32::new(0), AtomicU32::new(0)));
    let collector = start(Config { leak_check: true, ..Config::default() }, Arc::clone(&inspector) as _);
    let (area, _) = enter(&collector);
    leak(&area, 77);
    let asked = Request::new(std::process::id()).to_bytes();
    std::thread::scope(|scope| {
        let answers: Vec<_> = (0..20).map(|_| scope.spawn(|| ask(&collector, &asked).0)).collect();
        wait_until(|| inspector.0.load(Ordering::Acquire) == 1);
        // Requests beyond the limit are rejected at once.
        wait_until(|| answers.iter().filter(|answer| answer.is_finished()).count() == 12);
        area.header().exiting_tid.store(std::process::id(), Ordering::Release);
        area.header().exiting_pid.store(std::process::id(), Ordering::Release);
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(area.header().exits_allowed.load(Ordering::Acquire), 0);
        inspector.0.store(2, Ordering::Release);
        let answers: Vec<_> = answers.into_iter().map(|answer| answer.join().expect("answered")).collect();
        assert_eq!(answers.iter().filter(|&&became| became == status::FAILED).count(), 12);
        assert!(answers.contains(&status::TAKEN));
    });
    wait_until(|| area.header().exits_allowed.load(Ordering::Acquire) == 1);
    let outcome = collector.finish();
    assert_eq!(outcome.facts.leaks, LeakCheck::AtExit);
    assert_eq!(outcome.sites[0].counts.live_at_exit_bytes, 77);
}
