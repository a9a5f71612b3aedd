//! Writes records into an area as an agent would.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use whyslow_agent_host::{Area, Arrival, Clock, Host, Round, Until};

use whyslow_agent_wire::area::{RING_WORDS, ring};
use whyslow_agent_wire::purpose::Purpose;
use whyslow_agent_wire::record::{self, MOST_TICKS, Stack, op};
use whyslow_heap::{Accounting, Batch, Config, NoInspector, NoSnapshots, Outcome};

/// A host that counts the heap.
pub(crate) struct Drain(Host);

impl Drain {
    pub(crate) fn new(config: Config) -> Self {
        let clock = Clock::start();
        let heap = Accounting::new(config, clock, Arc::new(NoInspector), Arc::new(NoSnapshots));
        Self(Host::new(clock, vec![Box::new(heap)]))
    }

    /// Adds a process that cannot be looked up, as in a container: its own id differs.
    pub(crate) fn arrive(&mut self) -> Area {
        let area = Area::create().expect("area");
        let agent_area = Area::map(area.file().expect("file")).expect("mapped");
        assert!(self.0.arrive(Arrival::new(area, std::process::id(), 1)));
        agent_area
    }

    pub(crate) fn round(&mut self, until: Until) -> Round {
        self.0.round(until)
    }

    pub(crate) fn take(&mut self) -> Batch {
        self.0.with(Accounting::take).expect("the heap is recorded")
    }

    /// The results, with the notes about the programs.
    pub(crate) fn finish(&mut self) -> Outcome {
        self.0.finish();
        let finish = |heap: &mut Accounting, programs: &mut _| heap.finish(programs, 0);
        let mut outcome = self.0.with(finish).expect("the heap is recorded");
        outcome.notes.extend_from_slice(self.0.programs().notices.notes());
        outcome
    }
}

/// One thread's ring.
pub(crate) struct FakeRing<'a> {
    area: &'a Area,
    number: usize,
    written: u64,
    stamp: Option<u64>,
}

impl<'a> FakeRing<'a> {
    /// Takes a ring.
    pub(crate) fn take(area: &'a Area, number: usize, pid: u32, tid: u32) -> Self {
        let header = area.ring(number).expect("a ring");
        assert_eq!(header.state.load(Ordering::Acquire), ring::FREE);
        header.pid.store(pid, Ordering::Relaxed);
        header.tid.store(tid, Ordering::Relaxed);
        header.purpose.store(Purpose::Heap as u32, Ordering::Relaxed);
        header.state.store(ring::LIVE, Ordering::Release);
        area.header().agent_start.store(0x1000, Ordering::Release);
        area.header().rings_used.fetch_max(number as u32 + 1, Ordering::AcqRel);
        area.header().rings_active.fetch_add(1, Ordering::AcqRel);
        Self { area, number, written: header.written.load(Ordering::Relaxed), stamp: None }
    }

    /// Writes a record; waits while there is no room.
    pub(crate) fn put(&mut self, tick: u64, kind: u64, address: u64, more: &[u64]) {
        let header = self.area.ring(self.number).expect("a ring");
        while self.written + 8 - header.read.load(Ordering::Acquire) > RING_WORDS as u64 {
            std::thread::yield_now();
        }
        let stamp = match self.stamp {
            Some(stamp) if tick - stamp <= MOST_TICKS => stamp,
            _ => {
                self.word(record::number(op::STAMP, tick));
                self.stamp = Some(tick);
                tick
            }
        };
        self.word(record::head(kind, tick - stamp, address));
        for &word in more {
            self.word(word);
        }
        header.written.store(self.written, Ordering::Release);
    }

    fn word(&mut self, word: u64) {
        let words = self.area.words(self.number).expect("words");
        words[self.written as usize % RING_WORDS].store(word, Ordering::Relaxed);
        self.written += 1;
    }

    /// The stack of the next allocation: one frame in no module, with its call at `call`.
    pub(crate) fn stack(&mut self, call: u64) {
        self.word(record::stack(Stack { from: 0, to: 1, cut: false, kept: 0, fresh: 1 }));
        self.word(call + 1);
    }

    /// Records a new block, allocated by a call at `call`.
    pub(crate) fn alloc(&mut self, tick: u64, address: u64, call: u64, size: u64) {
        self.stack(call);
        self.put(tick, op::ALLOC, address, &[size]);
    }

    /// Records a free.
    pub(crate) fn free(&mut self, tick: u64, address: u64) {
        self.put(tick, op::FREE, address, &[]);
    }
}
