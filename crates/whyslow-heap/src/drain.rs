//! Reads the rings of all programs and tracks their processes and threads. Runs on one thread and is
//! independent of the socket.
//!
//! ```text
//! areas      shared memory of all programs: their processes, and which rings are read
//! rings      the rings that are read, merged by time
//! counting   an event → the tally
//! chores     work that is not needed every round
//! notices    notes for the reader, each once; losses: what was lost
//! ```

mod areas;
mod chores;
mod counting;
mod losses;
mod notices;
mod rings;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use whyslow_agent_wire::area::flag;
use whyslow_proc::process::Stat;
use whyslow_profile::{HeapFacts, HeapNote, HeapProcess};

use crate::area::Area;
use crate::checks::Checks;
use crate::clock::Clock;
use crate::ids::{OwnPid, Pid, ProcessRow, Tick};
use crate::inspect::ExitInspector;
use crate::leaks::LiveBlock;
use crate::merge::Limits;
use crate::missing::{Missing, likely_reason};
use crate::outcome::{Batch, Outcome};
use crate::processes::Processes;
use crate::ring::Ring;
use crate::stacks::Stacks;
use crate::sys;
use crate::tally::{Applied, End, Tally};
use areas::TakenRing;
pub(crate) use areas::{Areas, Watched};
use chores::Chores;
pub(crate) use chores::resident;
use counting::apply;
pub(crate) use losses::Losses;
pub(crate) use notices::Notices;
use rings::Rings;

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
    /// Let programs sample their own CPU time with this period, or with the kernel's clock tick if that is
    /// longer.
    pub cpu_period_ns: Option<u64>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            sample_bytes: None,
            unused: false,
            maps: false,
            leak_check: false,
            temporary_within: 1,
            cpu_period_ns: None,
        }
    }
}

/// A program whose agent has connected.
#[derive(Debug)]
pub struct Arrival {
    /// The memory that it shares with the collector.
    pub area: Area,
    /// The process id, from the kernel.
    pub pid: u32,
    /// The process id as the process sees it: different in a container.
    pub own_pid: u32,
    /// The names of its allocators.
    pub allocators: Vec<String>,
    /// Notes for the reader of the profile.
    pub notes: Vec<HeapNote>,
}

/// How far a round goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// As far as is safe now.
    Now,
    /// Up to this tick, regardless of the clock.
    Tick(Tick),
    /// To the end: no process writes any more.
    End,
}

/// The result of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// Number of counted events.
    pub events: u64,
    /// Words in the fullest ring.
    pub fullest: u64,
    /// Whether a process waits for the collector.
    pub awaited: bool,
}

/// Events younger than this wait for those of other rings: 50 µs allow for counters that differ.
const MARGIN_NS: u64 = 50_000;
/// Maximum number of processes that are listed one by one.
const MOST_PROCESSES: usize = 1000;

/// The reader of all rings.
pub struct Drain {
    pub(crate) config: Config,
    pub(crate) tally: Tally,
    pub(crate) stacks: Stacks,
    pub(crate) areas: Areas,
    rings: Rings,
    pub(crate) processes: Processes,
    pub(crate) missing: Missing,
    pub(crate) checks: Checks,
    pub(crate) notices: Notices,
    chores: Chores,
    pub(crate) inspector: Arc<dyn ExitInspector>,
    /// The process of a snapshot in progress: its exit waits.
    pub(crate) snapshot_of: Option<ProcessRow>,
    /// The last round read all events up to this tick.
    pub(crate) read_until: Tick,
    /// No further programs are accepted.
    closed: bool,
}

impl std::fmt::Debug for Drain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Drain")
            .field("config", &self.config)
            .field("rings", &self.rings.len())
            .finish_non_exhaustive()
    }
}

impl Drain {
    /// A drain without programs.
    pub fn new(config: Config, inspector: Arc<dyn ExitInspector>) -> Self {
        let mut tally = Tally::new(Clock::start(), config.sample_bytes, config.temporary_within);
        if config.leak_check && config.sample_bytes.is_none() {
            tally.keep_legacy();
        }
        Self {
            config,
            tally,
            stacks: Stacks::default(),
            areas: Areas::default(),
            rings: Rings::default(),
            processes: Processes::default(),
            missing: Missing::default(),
            checks: Checks::default(),
            notices: Notices::default(),
            chores: Chores::default(),
            inspector,
            snapshot_of: None,
            read_until: Tick(0),
            closed: false,
        }
    }

    /// Writes the agent's settings into a new area.
    pub fn prepare(config: &Config, area: &Area) {
        let header = area.header();
        let mut flags = 0;
        for (wanted, bit) in [
            (config.unused, flag::UNUSED),
            (config.maps, flag::MAPS),
            (config.leak_check, flag::WAIT_AT_EXIT),
            (config.cpu_period_ns.is_some(), flag::SAMPLE),
        ] {
            flags |= if wanted { bit } else { 0 };
        }
        header.flags.store(flags, Ordering::Relaxed);
        header.sample_bytes.store(config.sample_bytes.unwrap_or(0), Ordering::Relaxed);
        if let (Some(period), Some(board)) = (config.cpu_period_ns, area.board()) {
            board.wish_ns.store(period, Ordering::Relaxed);
        }
        header.enabled.store(1, Ordering::Release);
    }

    /// Adds a program. Must be called before its agent gets an answer. Returns false if the drain no longer
    /// accepts programs.
    #[must_use]
    pub fn arrive(&mut self, arrival: Arrival) -> bool {
        if self.closed {
            return false;
        }
        let Arrival { area, allocators, notes, .. } = arrival;
        let (pid, own_pid) = (Pid(arrival.pid), OwnPid(arrival.own_pid));
        let now = self.tally.clock().ns(sys::now());
        // A process that sends a second hello has executed another program.
        if let Some(before) = self.processes.living(pid) {
            self.processes.executed(before);
            self.adopt_rings();
            self.retire(before);
        }
        // Exited processes release their memory before the new process allocates.
        self.retire_ended();
        self.said_hello(pid, own_pid);
        let row = self.tally.process_added(false);
        let program = self.processes.add(row, Some(pid), own_pid, None, now);
        area.header()
            .stack_start
            .store(Stat::of(pid.0).and_then(|stat| stat.stack_start).unwrap_or(0), Ordering::Relaxed);
        self.areas.added(Watched::new(area, row, (pid, own_pid), program, likely_reason(pid.0)));
        self.notices.add(allocators, notes);
        true
    }

    /// Adds notes for all programs that agents could only write into their areas.
    pub(crate) fn note_left_out(&mut self) {
        for area in self.areas.shared() {
            self.notices.left_out_of(&area);
        }
    }

    /// Reads all rings once.
    pub fn round(&mut self, until: Until) -> Round {
        let now = sys::now();
        let safe = now.minus(self.tally.clock().span_ticks(MARGIN_NS));
        if self.processes.are_few() {
            self.retire_ended();
        } else {
            self.adopt_rings();
        }
        let fullest = self.rings.refresh();
        // A ring that was taken while the others were read might hold an older event, and its process might
        // follow one that has exited in the meantime.
        let processes = self.processes.count();
        let ended = self.adopt_rings();
        if self.processes.count() != processes && self.processes.are_few() {
            self.retire_ended();
            ended.into_iter().for_each(|row| self.retire(row));
        }
        let horizon = match until {
            Until::Tick(tick) => tick,
            Until::Now if self.rings.len() > 1 => safe,
            Until::Now | Until::End => Tick::MAX,
        };
        let latest = if matches!(until, Until::Tick(_)) { Tick::MAX } else { sys::now() };
        let events = self.read(Limits { horizon, latest });
        for watched in self.areas.iter() {
            watched.area.header().heartbeat.fetch_add(1, Ordering::Release);
        }
        // Without merging, older events may still arrive; they go into the bucket that is open then.
        self.tally.reach(if horizon == Tick::MAX { safe } else { horizon });
        self.close_rings();
        self.read_until = horizon;
        let awaited = self.handle_exits(horizon, now);
        self.housekeep(now);
        Round { events, fullest, awaited }
    }

    fn read(&mut self, limits: Limits) -> u64 {
        let Self { rings, tally, stacks, areas, processes, .. } = self;
        rings.read(limits, |ring, event, force| {
            let Some(watched) = areas.get_mut(ring.slot) else { return Applied::Known };
            if processes.has_exited(ring.process) {
                return Applied::Known;
            }
            if let Some(parent) = ring.forked_from.take() {
                tally.forked(ring.process, parent);
            }
            if let Some(address) = ring.soon() {
                tally.expect(ring.process, address);
            }
            apply(tally, stacks, &mut watched.stacks, ring, event, force)
        })
    }

    /// Starts to read the rings that threads have taken. Returns new processes that have already exited.
    fn adopt_rings(&mut self) -> Vec<ProcessRow> {
        let mut ended = Vec::new();
        let Self { tally, processes, areas, rings, .. } = self;
        for slot in areas.slots() {
            let Some(watched) = areas.get_mut(slot) else { continue };
            for TakenRing { number, pid, tid, parent } in watched.take_rings() {
                // Rings come in number order, so a parent that is as new as its child is already known.
                let parent = watched.last(parent);
                let now = tally.clock().ns(sys::now());
                let process = watched.living(pid).unwrap_or_else(|| {
                    let row = tally.process_added(true);
                    let outside = watched.same_numbers.then_some(Pid(pid.0));
                    processes.add(row, outside, pid, parent.or(Some(watched.first)), now);
                    watched.process_added(pid, row);
                    if processes.has_ended(row) {
                        ended.push(row);
                    }
                    row
                });
                let thread = processes.ring_opened(process, tid, now, || tally.thread_added());
                if let Some(mut ring) = Ring::new(&watched.area, slot, number, process, thread, tid) {
                    ring.forked_from = (process != watched.first).then(|| parent.unwrap_or(watched.first));
                    rings.opened(ring);
                }
            }
        }
        ended
    }

    /// Retires the processes that have exited, one after the other. A child that was killed before the drain
    /// saw it is counted before the next process.
    fn retire_ended(&mut self) {
        let ended_before_seen = self.adopt_rings();
        for row in self.processes.find_ended().into_iter().chain(ended_before_seen) {
            self.retire(row);
        }
    }

    /// Reads the rings of an exited process to the end and counts its exit: its memory is released before
    /// other processes allocate more.
    fn retire(&mut self, row: ProcessRow) {
        let others = self.rings.set_others_aside(row);
        self.read(Limits { horizon: Tick::MAX, latest: Tick::MAX });
        self.close_rings();
        self.rings.put_back(others);
        self.end_processes(sys::now());
    }

    /// Frees completely read rings of exited threads.
    fn close_rings(&mut self) {
        let Self { tally, processes, areas, rings, .. } = self;
        rings.close_done(|ring| {
            areas.ring_closed(ring.slot, ring.number);
            if processes.ring_closed(ring.process, ring.tid) {
                tally.thread_ended(ring.thread);
            }
        });
    }

    /// Does the work that is not needed every round.
    fn housekeep(&mut self, now: Tick) {
        if !self.chores.is_time_to_check(now, self.tally.clock()) {
            return;
        }
        // These processes were found to have exited last time, so all their rings are known by now.
        self.end_processes(now);
        self.note_silent_programs();
        self.processes.find_ended();
        self.rings.find_ended(&self.processes);
        self.chores.measure_resident(now, self.tally.clock(), &self.processes);
        if self.chores.is_time_to_release(now, self.tally.clock()) {
            self.find_unrecorded_children();
            // Before an area is released, the programs that agents wrote there are read.
            self.areas.release(|area| self.notices.left_out_of(area));
        }
    }

    /// Counts the exit of processes that have exited and have no open ring.
    fn end_processes(&mut self, now: Tick) {
        for row in self.processes.take_ended() {
            self.note_uninspected(row);
            self.name_if_not_joined(row);
            self.tally.process_ended(row, now, self.processes.end_of(row));
            self.processes.end_counted(row, self.tally.clock().ns(now));
            self.areas.process_ended(row);
        }
    }

    /// Whether a ring holds at least this many words, or a process waits.
    pub(crate) fn has_filled(&mut self, words: u64) -> bool {
        self.rings.has_filled(words) || self.areas.iter().any(Watched::is_awaited)
    }

    /// Takes the new rows since the last call.
    pub fn take(&mut self) -> Batch {
        self.tally.adjust_clock();
        let (rows, mut counters) = self.tally.take_rows();
        counters.extend(self.chores.take_measured());
        let (processes, threads, ended) = self.processes.take_new();
        Batch {
            processes,
            threads,
            ended,
            modules: std::mem::take(&mut self.stacks.new_modules),
            stacks: std::mem::take(&mut self.stacks.new_stacks),
            rows,
            counters,
        }
    }

    /// The live blocks of a process by address, as far as its rings have been read.
    pub fn live_blocks(&self, pid: u32) -> Option<Vec<LiveBlock>> {
        Some(self.tally.live(self.processes.living(Pid(pid))?).blocks)
    }

    /// Switches all agents off and releases all waiting processes, now and later.
    pub fn release_all(&mut self) {
        self.closed = true;
        for watched in self.areas.iter() {
            let header = watched.area.header();
            header.enabled.store(0, Ordering::Release);
            header.asleep.store(0, Ordering::Release);
            header.exits_allowed.fetch_add(1, Ordering::AcqRel);
            sys::wake_all(&header.exits_allowed);
        }
    }

    /// Runs the last round and returns everything that was counted. `cpu_ns` is the CPU time of the collector
    /// so far.
    pub fn finish(&mut self, cpu_ns: u64) -> Outcome {
        self.inspect_remaining();
        self.release_all();
        self.round(Until::End);
        let now = sys::now();
        self.tally.adjust_clock();
        self.name_missing();
        for row in self.processes.all_living() {
            self.note_uninspected(row);
            self.tally.process_ended(row, now, End::Exit);
        }
        let (sites, transfers) = self.tally.finish();
        self.note_left_out();
        let losses = self.losses();
        let mut notes = self.notices.notes().to_vec();
        notes.extend(losses.note());
        notes.extend(self.checks.notes());
        let facts = HeapFacts { collector_cpu_ns: cpu_ns, ..self.facts(&losses) };
        Outcome { batch: self.take(), sites, transfers, facts, notes }
    }

    /// The facts about the whole recording so far.
    pub(crate) fn facts(&self, losses: &Losses) -> HeapFacts {
        let (peak, totals) = (self.tally.peak(), self.tally.totals());
        HeapFacts {
            sample_bytes: self.config.sample_bytes,
            sample_error: self.tally.sample_error(),
            peak_bytes: peak.bytes,
            peak_ns: self.tally.clock().ns(peak.tick),
            unknown_frees: totals.unknown_frees,
            inherited_frees: totals.inherited_frees,
            lost_events: losses.events,
            temporary_within: self.config.temporary_within,
            leaks: self.checks.outcome(),
            processes_not_checked: self.checks.missing(),
            growth: self.tally.growth().label().to_owned(),
            unused: self.config.unused,
            processes: self.processes.count().saturating_sub(self.missing.not_joined()),
            by_process: self.by_process(),
            allocators: self.notices.allocators().to_vec(),
            programs_left_out: self.notices.programs_left_out(),
            collector_cpu_ns: 0,
            snapshot: None,
        }
    }

    /// The largest processes.
    fn by_process(&self) -> Vec<HeapProcess> {
        let mut rows: Vec<HeapProcess> = (0..)
            .map(ProcessRow)
            .zip(self.processes.seen())
            .map(|(row, seen)| {
                let (peak_bytes, live_at_exit_bytes, live_at_exit_blocks) = self.tally.of_process(row);
                HeapProcess {
                    pid: seen.pid,
                    name: seen.name.clone(),
                    peak_bytes,
                    live_at_exit_bytes,
                    live_at_exit_blocks,
                    executed: self.processes.end_of(row) == End::Exec,
                }
            })
            .collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.peak_bytes));
        rows.truncate(MOST_PROCESSES);
        rows
    }

    /// The losses so far.
    pub(crate) fn losses(&self) -> Losses {
        Losses {
            events: self.areas.lost_events().saturating_add(self.tally.totals().lost_frees),
            broken_rings: self.rings.broken(),
        }
    }

    /// Whether all processes have been released.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }
}
