//! The purpose that records the heap: reads the rings of all programs, and counts.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use whyslow_agent_host::{
    Area, AreaSlot, AtExit, Clock, End, Leaving, Limits, ProcessRow, Programs, Purpose, Requests, RingSet,
    Rings, ThreadRow, Tick, Watched,
};
use whyslow_agent_wire::area::heap_flag;
use whyslow_agent_wire::purpose::Purpose as Kind;
use whyslow_numbers::ClockNs;
use whyslow_profile::{HeapFacts, HeapNote, HeapProcess};

use crate::checks::Checks;
use crate::counting::apply;
use crate::ids::Pid;
use crate::inspect::ExitInspector;
use crate::inspection::Inspection;
use crate::leaks::LiveBlock;
use crate::outcome::{Batch, Outcome};
use crate::records::HeapRecords;
use crate::residents::Residents;
use crate::snapshot::{SnapshotWriter, Snapshots};
use crate::stacks::{AreaStacks, Stacks};
use crate::tally::{Applied, Tally};

/// What to record, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Mean number of bytes between samples; `None` records every allocation.
    pub sample_bytes: Option<u64>,
    /// Fill new blocks to find bytes that are never written.
    pub unused: bool,
    /// Record the mappings that programs create themselves.
    pub maps: bool,
    /// Make each process wait at its exit until it has been inspected.
    pub leak_check: bool,
    /// The maximum number of allocations of its thread, itself included, that a temporary block outlives.
    pub temporary_within: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { sample_bytes: None, unused: false, maps: false, leak_check: false, temporary_within: 1 }
    }
}

/// Maximum number of processes that are listed one by one.
const MOST_PROCESSES: usize = 1000;

/// Counts the heap of all programs.
pub struct Accounting {
    pub(crate) config: Config,
    pub(crate) tally: Tally,
    pub(crate) stacks: Stacks,
    /// The stacks of each area.
    areas: Vec<Option<AreaStacks>>,
    rings: Rings<HeapRecords>,
    pub(crate) checks: Checks,
    pub(crate) inspector: Arc<dyn ExitInspector>,
    pub(crate) inspections: Vec<Inspection>,
    snapshots: Arc<Snapshots>,
    /// The process of a snapshot in progress: its exit waits.
    pub(crate) snapshot_of: Option<ProcessRow>,
    residents: Residents,
}

impl std::fmt::Debug for Accounting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Accounting")
            .field("config", &self.config)
            .field("rings", &self.rings.len())
            .finish_non_exhaustive()
    }
}

impl Accounting {
    /// Counts nothing yet. `clock` is the host's; `inspector` inspects processes at their exit, and `writer`
    /// writes snapshots.
    pub fn new(
        config: Config,
        clock: Clock,
        inspector: Arc<dyn ExitInspector>,
        writer: Arc<dyn SnapshotWriter>,
    ) -> Self {
        let mut tally = Tally::new(clock, config.sample_bytes, config.temporary_within);
        if config.leak_check && config.sample_bytes.is_none() {
            tally.keep_legacy();
        }
        Self {
            config,
            tally,
            stacks: Stacks::default(),
            areas: Vec::new(),
            rings: Rings::default(),
            checks: Checks::default(),
            inspector,
            inspections: Vec::new(),
            snapshots: Arc::new(Snapshots::new(writer)),
            snapshot_of: None,
            residents: Residents::default(),
        }
    }

    /// Takes the new rows since the last call.
    pub fn take(&mut self, programs: &mut Programs) -> Batch {
        let seen = programs.take_seen();
        self.tally.set_clock(programs.clock);
        let (rows, mut counters) = self.tally.take_rows();
        counters.extend(self.residents.take());
        Batch {
            processes: seen.processes,
            threads: seen.threads,
            ended: seen.ended,
            modules: std::mem::take(&mut self.stacks.new_modules),
            stacks: std::mem::take(&mut self.stacks.new_stacks),
            rows,
            counters,
        }
    }

    /// The live blocks of a process by address, as far as its rings have been read.
    pub fn live_blocks(&self, programs: &Programs, pid: u32) -> Option<Vec<LiveBlock>> {
        Some(self.tally.live(programs.processes.living(Pid(pid))?).blocks)
    }

    /// Everything that was counted, after the host has finished. `cpu_ns` is the CPU time that reading and
    /// counting has cost.
    pub fn finish(&mut self, programs: &mut Programs, cpu_ns: u64) -> Outcome {
        self.tally.set_clock(programs.clock);
        let (sites, transfers) = self.tally.finish();
        let facts = HeapFacts { collector_cpu_ns: cpu_ns, ..self.facts(programs) };
        let notes = self.ring_note().into_iter().chain(self.checks.notes()).collect();
        Outcome { batch: self.take(programs), sites, transfers, facts, notes }
    }

    /// The facts about the whole recording so far.
    pub(crate) fn facts(&self, programs: &Programs) -> HeapFacts<ClockNs> {
        let (peak, totals) = (self.tally.peak(), self.tally.totals());
        HeapFacts {
            sample_bytes: self.config.sample_bytes,
            sample_error: self.tally.sample_error(),
            peak_bytes: peak.bytes,
            peak_ns: programs.clock.time(peak.tick),
            unknown_frees: totals.unknown_frees,
            inherited_frees: totals.inherited_frees,
            lost_events: programs.lost_events().saturating_add(totals.lost_frees),
            temporary_within: self.config.temporary_within,
            leaks: self.checks.outcome(),
            processes_not_checked: self.checks.missing(),
            growth: self.tally.growth().label().to_owned(),
            unused: self.config.unused,
            processes: programs.joined(),
            by_process: self.by_process(programs),
            allocators: programs.notices.allocators().to_vec(),
            programs_left_out: programs.notices.programs_left_out(),
            collector_cpu_ns: 0,
            snapshot: None,
        }
    }

    /// The largest processes.
    fn by_process(&self, programs: &Programs) -> Vec<HeapProcess> {
        let mut rows: Vec<HeapProcess> = (0..)
            .map(ProcessRow)
            .zip(programs.processes.seen())
            .map(|(row, seen)| {
                let (peak_bytes, live_at_exit_bytes, live_at_exit_blocks) = self.tally.of_process(row);
                HeapProcess {
                    pid: seen.pid,
                    name: seen.name.clone(),
                    peak_bytes,
                    live_at_exit_bytes,
                    live_at_exit_blocks,
                    executed: programs.processes.end_of(row) == End::Exec,
                }
            })
            .collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.peak_bytes));
        rows.truncate(MOST_PROCESSES);
        rows
    }

    /// A note about rings whose writers violate the protocol. The number of lost events is a separate fact.
    pub(crate) fn ring_note(&self) -> Option<HeapNote> {
        let threads = self.rings.broken();
        (threads > 0).then_some(HeapNote::DamagedRecords { threads })
    }
}

impl Purpose for Accounting {
    fn kind(&self) -> Kind {
        Kind::Heap
    }

    fn request(&self, area: &Area) {
        let request = &area.header().heap;
        let flags = [(self.config.unused, heap_flag::UNUSED), (self.config.maps, heap_flag::MAPS)];
        let flags = flags.iter().filter(|(wanted, _)| *wanted).fold(0, |all, (_, bit)| all | bit);
        request.flags.store(flags, Ordering::Relaxed);
        request.sample_bytes.store(self.config.sample_bytes.unwrap_or(0), Ordering::Relaxed);
    }

    fn waits_at_exit(&self) -> bool {
        self.config.leak_check
    }

    fn requests(&self) -> Option<Arc<dyn Requests>> {
        Some(Arc::clone(&self.snapshots) as _)
    }

    fn rings(&mut self) -> Option<&mut dyn RingSet> {
        Some(&mut self.rings)
    }

    fn program_added(&mut self, slot: AreaSlot, program: &Watched) {
        if self.areas.len() <= slot.index() {
            self.areas.resize_with(slot.index() + 1, || None);
        }
        self.areas[slot.index()] = Some(AreaStacks::new(program.program.clone(), program.first));
    }

    fn process_added(&mut self, process: ProcessRow, forked: bool) {
        let row = self.tally.process_added(forked);
        debug_assert_eq!(row, process);
    }

    fn thread_added(&mut self, thread: ThreadRow) {
        let row = self.tally.thread_added();
        debug_assert_eq!(row, thread);
    }

    fn read(&mut self, programs: &Programs, limits: Limits) -> u64 {
        let Self { rings, tally, stacks, areas, .. } = self;
        let processes = &programs.processes;
        rings.read(limits, |ring, event, force| {
            let Some(Some(nodes)) = areas.get_mut(ring.slot.index()) else { return true };
            if processes.has_exited(ring.process) {
                return true;
            }
            if let Some(parent) = ring.forked_from.take() {
                tally.forked(ring.process, parent);
            }
            if let Some(soon) = ring.soon() {
                tally.expect(ring.process, soon.address);
            }
            apply(tally, stacks, nodes, ring, event, force) != Applied::Refused
        })
    }

    fn reached(&mut self, tick: Tick) {
        self.tally.reach(tick);
    }

    fn checked(&mut self, programs: &Programs, now: Tick) {
        self.residents.measure(programs, now);
    }

    fn thread_ended(&mut self, thread: ThreadRow) {
        self.tally.thread_ended(thread);
    }

    fn at_exit(&mut self, programs: &mut Programs, leaving: &Leaving) -> AtExit {
        self.inspected(programs, leaving)
    }

    fn process_ended(&mut self, programs: &Programs, process: ProcessRow, now: Tick, end: End) {
        self.note_uninspected(programs, process);
        self.tally.process_ended(process, now, end);
    }

    fn area_ended(&mut self, slot: AreaSlot) {
        if let Some(stacks) = self.areas.get_mut(slot.index()) {
            *stacks = None;
        }
    }
}
