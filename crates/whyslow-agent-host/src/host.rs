//! Programs arrive, and rounds read what their agents write. Runs on one thread and is independent of the
//! socket.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use whyslow_agent_wire::area::flag;
use whyslow_agent_wire::purpose::Purposes;
use whyslow_proc::process::Stat;
use whyslow_profile::HeapNote;

use crate::area::Area;
use crate::areas::{TakenRing, Watched};
use crate::chores::Chores;
use crate::clock::Clock;
use crate::ids::{OwnPid, Pid, ProcessRow, Tick};
use crate::merge::Limits;
use crate::missing::likely_reason;
use crate::programs::Programs;
use crate::purpose::{End, Purpose, PurposeList};
use crate::ring::Opened;
use crate::rings::RingSet;
use crate::sys;

/// A program whose agent has connected.
#[derive(Debug)]
pub struct Arrival {
    /// The memory that it shares with the host.
    pub area: Area,
    /// The process id, from the kernel.
    pub pid: u32,
    /// The process id as the process sees it: different in a container.
    pub own_pid: u32,
    /// Whether the agent may handle crash signals.
    pub may_catch_crashes: bool,
    /// The names of its allocators.
    pub allocators: Vec<String>,
    /// Notes for the reader of the profile.
    pub notes: Vec<HeapNote>,
}

impl Arrival {
    /// A program without allocators of its own.
    pub fn new(area: Area, pid: u32, own_pid: u32) -> Self {
        Self { area, pid, own_pid, may_catch_crashes: false, allocators: Vec::new(), notes: Vec::new() }
    }
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
    /// Number of events that purposes have read.
    pub events: u64,
    /// Words in the fullest ring.
    pub fullest: u64,
    /// Whether a process waits for the host.
    pub awaited: bool,
}

/// Events younger than this wait for those of other rings: 50 µs allow for counters that differ.
const MARGIN_NS: u64 = 50_000;

/// The reader of all that agents write.
pub struct Host {
    pub(crate) programs: Programs,
    pub(crate) purposes: PurposeList,
    chores: Chores,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("programs", &self.programs).finish_non_exhaustive()
    }
}

impl Host {
    /// A host without programs.
    pub fn new(clock: Clock, purposes: Vec<Box<dyn Purpose>>) -> Self {
        Self {
            programs: Programs::new(clock),
            purposes: PurposeList::new(purposes),
            chores: Chores::default(),
        }
    }

    /// What the agents of this host are for.
    pub fn kinds(&self) -> Purposes {
        self.purposes.iter().fold(Purposes::NONE, |all, purpose| all.and(purpose.kind()))
    }

    /// Works with the purpose of this type. `None` if the host has none.
    pub fn with<P: Purpose, T>(&mut self, work: impl FnOnce(&mut P, &mut Programs) -> T) -> Option<T> {
        let Self { programs, purposes, .. } = self;
        purposes.of_type().map(|purpose| work(purpose, programs))
    }

    /// The programs.
    pub fn programs(&mut self) -> &mut Programs {
        &mut self.programs
    }

    /// Writes the request of all purposes into a new area.
    fn request(&self, area: &Area, may_catch_crashes: bool) {
        let header = area.header();
        let waits = self.purposes.iter().any(Purpose::waits_at_exit);
        let flags = [(waits, flag::WAIT_AT_EXIT), (waits && may_catch_crashes, flag::WAIT_IN_CRASH)];
        let flags = flags.iter().filter(|(wanted, _)| *wanted).fold(0, |all, (_, bit)| all | bit);
        header.flags.store(flags, Ordering::Relaxed);
        self.purposes.iter().for_each(|purpose| purpose.request(area));
        header.purposes.store(self.kinds().bits(), Ordering::Relaxed);
        header.enabled.store(1, Ordering::Release);
    }

    /// Adds a program. Must be called before its agent gets an answer. Returns false if no programs are
    /// accepted any more.
    #[must_use]
    pub fn arrive(&mut self, arrival: Arrival) -> bool {
        if self.programs.closed {
            return false;
        }
        let Arrival { area, may_catch_crashes, allocators, notes, .. } = arrival;
        self.request(&area, may_catch_crashes);
        let (pid, own_pid) = (Pid(arrival.pid), OwnPid(arrival.own_pid));
        let now = self.programs.clock.time(sys::now());
        // A process that sends a second hello has executed another program.
        if let Some(before) = self.programs.processes.living(pid) {
            self.programs.processes.executed(before);
            self.adopt_rings();
            self.retire(before);
        }
        // Exited processes release their memory before the new process allocates.
        self.retire_ended();
        self.said_hello(pid, own_pid);
        let Self { programs, purposes, .. } = self;
        let (row, program) = programs.processes.add(Some(pid), own_pid, None, now);
        area.header()
            .stack_start
            .store(Stat::of(pid.0).and_then(|stat| stat.stack_start).unwrap_or(0), Ordering::Relaxed);
        let watched = Watched::new(area, row, (pid, own_pid), program, likely_reason(pid.0));
        let slot = programs.areas.added(watched);
        if let Some(watched) = programs.areas.get(slot) {
            purposes.iter_mut().for_each(|purpose| purpose.program_added(slot, watched));
        }
        purposes.iter_mut().for_each(|purpose| purpose.process_added(row, false));
        programs.notices.add(allocators, notes);
        true
    }

    /// Reads all rings once.
    pub fn round(&mut self, until: Until) -> Round {
        let now = sys::now();
        let safe = now.minus(self.programs.clock.span_ticks(MARGIN_NS));
        if self.programs.processes.are_few() {
            self.retire_ended();
        } else {
            self.adopt_rings();
        }
        let fullest = self.purposes.rings().map(RingSet::refresh).max().unwrap_or(0);
        // A ring that was taken while the others were read might hold an older event, and its process might
        // follow one that has exited in the meantime.
        let processes = self.programs.processes.count();
        let ended = self.adopt_rings();
        if self.programs.processes.count() != processes && self.programs.processes.are_few() {
            self.retire_ended();
            ended.into_iter().for_each(|row| self.retire(row));
        }
        let rings: usize = self.purposes.rings().map(|rings| rings.len()).sum();
        let horizon = match until {
            Until::Tick(tick) => tick,
            Until::Now if rings > 1 => safe,
            Until::Now | Until::End => Tick::MAX,
        };
        let latest = if matches!(until, Until::Tick(_)) { Tick::MAX } else { sys::now() };
        let events = self.read(Limits { horizon, latest });
        for watched in self.programs.areas.iter() {
            watched.area.header().heartbeat.fetch_add(1, Ordering::Release);
        }
        // Without merging, older events may still arrive; they go into the bucket that is open then.
        let reached = if horizon == Tick::MAX { safe } else { horizon };
        self.purposes.iter_mut().for_each(|purpose| purpose.reached(reached));
        self.close_rings();
        self.programs.read_until = horizon;
        let awaited = self.handle_exits(horizon, now);
        self.housekeep(now);
        Round { events, fullest, awaited }
    }

    fn read(&mut self, limits: Limits) -> u64 {
        let Self { programs, purposes, .. } = self;
        purposes.iter_mut().map(|purpose| purpose.read(programs, limits)).sum()
    }

    /// Starts to read the rings that threads have taken. Returns new processes that have already exited.
    fn adopt_rings(&mut self) -> Vec<ProcessRow> {
        let mut ended = Vec::new();
        let Self { programs: Programs { areas, processes, clock, .. }, purposes, .. } = self;
        for slot in areas.slots() {
            let Some(watched) = areas.get_mut(slot) else { continue };
            for TakenRing { purpose, number, pid, tid, parent } in watched.take_rings() {
                // No purpose of this recording: only a program that violates the protocol writes this.
                if purposes.rings_for(purpose).is_none() {
                    continue;
                }
                // Rings come in number order, so a parent that is as new as its child is already known.
                let parent = watched.last(parent);
                let now = clock.time(sys::now());
                let process = watched.living(pid).unwrap_or_else(|| {
                    let outside = watched.same_numbers.then_some(Pid(pid.0));
                    let (row, _) = processes.add(outside, pid, parent.or(Some(watched.first)), now);
                    purposes.iter_mut().for_each(|purpose| purpose.process_added(row, true));
                    watched.process_added(pid, row);
                    if processes.has_ended(row) {
                        ended.push(row);
                    }
                    row
                });
                let (thread, is_new) = processes.ring_opened(process, tid, now);
                if is_new {
                    purposes.iter_mut().for_each(|purpose| purpose.thread_added(thread));
                }
                let first = watched.first;
                let forked_from = (process != first).then(|| parent.unwrap_or(first));
                let area = Arc::clone(&watched.area);
                if let Some(rings) = purposes.rings_for(purpose) {
                    rings.open(Opened { area, slot, number, process, thread, tid, forked_from });
                }
            }
        }
        ended
    }

    /// Retires the processes that have exited, one after the other. A child that was killed before the host
    /// saw it is counted before the next process.
    fn retire_ended(&mut self) {
        let ended_before_seen = self.adopt_rings();
        for row in self.programs.processes.find_ended().into_iter().chain(ended_before_seen) {
            self.retire(row);
        }
    }

    /// Reads the rings of an exited process to the end and counts its exit: its memory is released before
    /// other processes allocate more.
    fn retire(&mut self, row: ProcessRow) {
        self.purposes.rings().for_each(|rings| rings.set_others_aside(row));
        self.read(Limits { horizon: Tick::MAX, latest: Tick::MAX });
        self.close_rings();
        self.purposes.rings().for_each(RingSet::put_back);
        self.end_processes(sys::now());
    }

    /// Frees completely read rings of exited threads.
    fn close_rings(&mut self) {
        let Self { programs: Programs { areas, processes, .. }, purposes, .. } = self;
        let closed: Vec<_> = purposes.rings().flat_map(super::rings::RingSet::close_done).collect();
        for ring in closed {
            areas.ring_closed(ring.slot, ring.number);
            if processes.ring_closed(ring.process, ring.tid) {
                purposes.iter_mut().for_each(|purpose| purpose.thread_ended(ring.thread));
            }
        }
    }

    /// Does the work that is not needed every round.
    fn housekeep(&mut self, now: Tick) {
        if !self.chores.is_time_to_check(now, &self.programs.clock) {
            return;
        }
        // These processes were found to have exited last time, so all their rings are known by now.
        self.end_processes(now);
        self.note_silent_programs();
        self.programs.processes.find_ended();
        let Self { programs, purposes, .. } = self;
        purposes.rings().for_each(|rings| rings.find_ended(&programs.processes));
        purposes.iter_mut().for_each(|purpose| purpose.checked(programs, now));
        if self.chores.is_time_to_release(now, &self.programs.clock) {
            self.find_unrecorded_children();
            // Before an area is released, the programs that agents wrote there are read.
            let Self { programs: Programs { areas, notices, .. }, purposes, .. } = self;
            areas.release(purposes, |area| {
                crate::left_out::notes(area).into_iter().for_each(|note| notices.note_left_out(note));
            });
        }
    }

    /// Counts the exit of processes that have exited and have no open ring.
    fn end_processes(&mut self, now: Tick) {
        for row in self.programs.processes.take_ended() {
            self.name_if_not_joined(row);
            let Self { programs, purposes, .. } = self;
            let end = programs.processes.end_of(row);
            purposes.iter_mut().for_each(|purpose| purpose.process_ended(programs, row, now, end));
            programs.processes.end_counted(row, programs.clock.time(now));
            programs.areas.process_ended(row);
        }
    }

    /// Whether a ring holds at least this many words, or a process waits.
    pub(crate) fn has_filled(&mut self, words: u64) -> bool {
        self.purposes.rings().any(|rings| rings.refresh() >= words)
            || self.programs.areas.iter().any(Watched::is_awaited)
    }

    /// Switches all agents off and releases all waiting processes, now and later.
    pub fn release_all(&mut self) {
        self.programs.closed = true;
        for watched in self.programs.areas.iter() {
            let header = watched.area.header();
            header.enabled.store(0, Ordering::Release);
            header.asleep.store(0, Ordering::Release);
            header.exits_allowed.fetch_add(1, Ordering::AcqRel);
            sys::wake_all(&header.exits_allowed);
        }
    }

    /// Asks about processes that still run, switches all agents off, and reads what is left.
    pub fn finish(&mut self) {
        self.ask_about_remaining();
        self.release_all();
        self.round(Until::End);
        let now = sys::now();
        self.programs.clock.adjust();
        self.name_missing();
        let Self { programs, purposes, .. } = self;
        for row in programs.processes.all_living() {
            purposes.iter_mut().for_each(|purpose| purpose.process_ended(programs, row, now, End::Exit));
        }
        programs.note_left_out();
    }
}
