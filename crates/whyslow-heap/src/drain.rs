//! Reads the rings of all programs and keeps their processes and threads. Runs on one thread; knows nothing of the socket.

mod counting;
mod losses;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustc_hash::FxHashMap;
use whyslow_heap_wire::area::{MOST_RINGS, flag, ring};
use whyslow_proc::process::Stat;
use whyslow_profile::{HeapFacts, HeapProcess};

use crate::area::Area;
use crate::checks::Checks;
use crate::clock::Clock;
use crate::exits::Exit;
use crate::ids::{AreaSlot, OwnPid, OwnTid, Pid, ProcessRow, RingNumber, Tick};
use crate::inspect::ExitInspector;
use crate::leaks::LiveBlock;
use crate::left_out;
use crate::merge::{Limits, Merger};
use crate::missing::{Strangers, likely_reason};
use crate::outcome::{Batch, CounterKind, CounterRow, Outcome};
use crate::processes::Processes;
use crate::ring::Ring;
use crate::stacks::{AreaStacks, Stacks};
use crate::sys;
use crate::tally::{Applied, End, Tally};
use counting::apply;
pub(crate) use losses::Losses;
use losses::lost_events;

/// What is recorded, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Bytes between samples on average; `None` records every allocation.
    pub sample_bytes: Option<u64>,
    /// Fill new blocks to find bytes that are never written.
    pub unused: bool,
    /// Record mappings that programs make themselves.
    pub maps: bool,
    /// Let each process wait at its end until it was looked at.
    pub leak_check: bool,
    /// How many allocations of its thread a block may outlive, itself included, and still be temporary.
    pub temporary_within: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { sample_bytes: None, unused: false, maps: false, leak_check: false, temporary_within: 1 }
    }
}

/// A program that the agent entered.
#[derive(Debug)]
pub struct Arrival {
    /// What it shares with us.
    pub area: Area,
    /// The process, as the kernel tells.
    pub pid: u32,
    /// The process, as it sees itself: another number in a container.
    pub own_pid: u32,
    /// Its allocators, in words.
    pub allocators: Vec<String>,
    /// What the reader should know.
    pub notes: Vec<String>,
}

/// How far a round goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// As far as is safe now.
    Now,
    /// Up to this tick, whatever the clock says.
    Tick(Tick),
    /// To the end: nobody writes any more.
    End,
}

/// What a round did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// Events that were counted.
    pub events: u64,
    /// Words in the fullest ring.
    pub fullest: u64,
    /// A process waits for us.
    pub awaited: bool,
}

/// Events that are younger than this wait for those of other rings: 50 µs leave room for counters that differ.
const MARGIN_NS: u64 = 50_000;
/// How often threads and processes are looked for.
const CHECK_EVERY_NS: u64 = 20_000_000;
/// Processes that are told of one by one.
const MOST_PROCESSES: usize = 1000;
/// How often areas of ended programs are looked at.
const RELEASE_EVERY_NS: u64 = 500_000_000;

/// One program's area.
pub(crate) struct Watched {
    pub area: Arc<Area>,
    /// The first process.
    pub first: ProcessRow,
    /// Whether process numbers inside are those outside.
    pub same_numbers: bool,
    /// The program's file.
    pub program: String,
    /// Why its agent could not begin, if it could not.
    pub likely_reason: String,
    /// Living processes by the number they have inside.
    pub processes: FxHashMap<OwnPid, ProcessRow>,
    /// All there ever were, likewise; the last one of each number.
    ever: FxHashMap<OwnPid, ProcessRow>,
    pub exit: Exit,
    stacks: AreaStacks,
    known: Vec<bool>,
}

impl Watched {
    /// The same, unless nobody else has the area any more.
    fn unless_alone(mut self) -> Option<Self> {
        self.area = match Arc::try_unwrap(self.area) {
            Ok(area) => Arc::new(area.unless_alone()?),
            Err(area) => area,
        };
        Some(self)
    }
}

/// The reader of all rings.
pub struct Drain {
    pub(crate) config: Config,
    pub(crate) tally: Tally,
    pub(crate) stacks: Stacks,
    pub(crate) areas: Vec<Option<Watched>>,
    rings: Vec<Ring>,
    merger: Merger,
    pub(crate) processes: Processes,
    pub(crate) inspector: Arc<dyn ExitInspector>,
    /// The process of which a snapshot is made: its exit waits.
    pub(crate) looked_at: Option<ProcessRow>,
    /// All events up to this tick were read in the last round.
    pub(crate) read_until: Tick,
    /// No more programs are taken.
    closed: bool,
    next_check: Tick,
    next_release: Tick,
    next_resident: Tick,
    resident: Vec<CounterRow>,
    lost_events: u64,
    broken_rings: u64,
    allocators: Vec<String>,
    /// Programs that were started and are not recorded. Each has a note.
    programs_left_out: u64,
    /// Processes started by others than watched ones whose agent has not said hello: number and program.
    pub(crate) expected: Vec<(Pid, String)>,
    /// Processes whose agent said hello, and could not begin.
    pub(crate) not_joined: u64,
    pub(crate) strangers: Strangers,
    pub(crate) checks: Checks,
    pub(crate) notes: Vec<String>,
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
    /// A drain without any program.
    pub fn new(config: Config, inspector: Arc<dyn ExitInspector>) -> Self {
        let clock = Clock::start();
        let mut tally = Tally::new(clock, config.sample_bytes, config.temporary_within);
        if config.leak_check && config.sample_bytes.is_none() {
            tally.keep_legacy();
        }
        Self {
            config,
            tally,
            stacks: Stacks::default(),
            areas: Vec::new(),
            rings: Vec::new(),
            merger: Merger::default(),
            processes: Processes::default(),
            inspector,
            looked_at: None,
            read_until: Tick(0),
            closed: false,
            next_check: Tick(0),
            next_release: Tick(0),
            next_resident: Tick(0),
            resident: Vec::new(),
            lost_events: 0,
            broken_rings: 0,
            allocators: Vec::new(),
            programs_left_out: 0,
            expected: Vec::new(),
            not_joined: 0,
            strangers: Strangers::default(),
            checks: Checks::default(),
            notes: Vec::new(),
        }
    }

    /// Writes into a new area what its agent shall do.
    pub fn prepare(config: &Config, area: &Area) {
        let header = area.header();
        let mut flags = 0;
        for (wanted, bit) in [
            (config.unused, flag::UNUSED),
            (config.maps, flag::MAPS),
            (config.leak_check, flag::WAIT_AT_EXIT),
        ] {
            flags |= if wanted { bit } else { 0 };
        }
        header.flags.store(flags, Ordering::Relaxed);
        header.sample_bytes.store(config.sample_bytes.unwrap_or(0), Ordering::Relaxed);
        header.enabled.store(1, Ordering::Release);
    }

    /// A program has come. Must be called before its agent is answered. False when it is too late for it.
    #[must_use]
    pub fn arrive(&mut self, arrival: Arrival) -> bool {
        if self.closed {
            return false;
        }
        let Arrival { area, allocators, notes, .. } = arrival;
        let (pid, own_pid) = (Pid(arrival.pid), OwnPid(arrival.own_pid));
        let now = self.tally.clock().ns(sys::now());
        // A process that says hello again has become another program.
        if let Some(before) = self.processes.living(pid) {
            self.processes.executed(before);
            self.adopt_rings();
            self.retire(before);
        }
        // What others had is given back before the new one takes anything.
        self.retire_ended();
        self.said_hello(pid, own_pid);
        let row = self.tally.process_added(false);
        let program = self.processes.add(row, Some(pid), own_pid, None, now);
        let slot = self.areas.iter().position(Option::is_none).unwrap_or_else(|| {
            self.areas.push(None);
            self.areas.len() - 1
        });
        area.header()
            .stack_start
            .store(Stat::of(pid.0).and_then(|stat| stat.stack_start).unwrap_or(0), Ordering::Relaxed);
        self.areas[slot] = Some(Watched {
            area: Arc::new(area),
            first: row,
            same_numbers: pid.0 == own_pid.0,
            program: program.clone(),
            likely_reason: likely_reason(pid.0),
            processes: FxHashMap::from_iter([(own_pid, row)]),
            ever: FxHashMap::from_iter([(own_pid, row)]),
            exit: Exit::Nobody,
            stacks: AreaStacks::new(program, row),
            known: Vec::new(),
        });
        self.tell(allocators, notes);
        true
    }

    /// Adds allocators that are watched, and what the reader should know.
    pub(crate) fn tell(&mut self, allocators: Vec<String>, notes: Vec<String>) {
        for (list, more) in [(&mut self.allocators, allocators), (&mut self.notes, notes)] {
            for text in more {
                if !list.contains(&text) {
                    list.push(text);
                }
            }
        }
    }

    /// Adds a program that was started and is not recorded, by the sentence that says why.
    pub(crate) fn leave_out(&mut self, why: &str) {
        let note = left_out::note(why);
        if !self.notes.contains(&note) {
            self.notes.push(note);
            self.programs_left_out += 1;
        }
    }

    /// Adds all those that agents could only write into their areas.
    pub(crate) fn hear_of_left_out(&mut self) {
        for area in self.areas() {
            self.leave_out_of(&area);
        }
    }

    fn leave_out_of(&mut self, area: &Area) {
        for why in left_out::told(area) {
            self.leave_out(&why);
        }
    }

    /// Looks at all rings once.
    pub fn round(&mut self, until: Until) -> Round {
        let now = sys::now();
        let safe = now.minus(self.tally.clock().span_ticks(MARGIN_NS));
        if self.processes.are_few() {
            self.retire_ended();
        } else {
            self.adopt_rings();
        }
        let mut fullest = 0;
        for ring in &mut self.rings {
            fullest = fullest.max(ring.look());
        }
        // A ring that was taken while others were read might hold something older, and its process might follow one that has ended meanwhile.
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
        let events = self.merge(Limits { horizon, latest });
        for ring in &mut self.rings {
            ring.tell();
        }
        for watched in self.areas.iter().flatten() {
            watched.area.header().heartbeat.fetch_add(1, Ordering::Release);
        }
        // Without merging, events of stale time may still come; they fall into the bucket that is then open.
        self.tally.reach(if horizon == Tick::MAX { safe } else { horizon });
        self.close_rings();
        self.read_until = horizon;
        let awaited = self.attend_exits(horizon, now);
        self.housekeep(now);
        Round { events, fullest, awaited }
    }

    fn merge(&mut self, limits: Limits) -> u64 {
        let Self { rings, merger, tally, stacks, areas, processes, .. } = self;
        merger.run(rings, limits, |ring, event, force| {
            let Some(watched) = areas.get_mut(ring.slot.index()).and_then(Option::as_mut) else {
                return Applied::Known;
            };
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

    /// Takes rings that threads have taken. Processes that are new, and have ended already.
    fn adopt_rings(&mut self) -> Vec<ProcessRow> {
        let mut ended = Vec::new();
        for slot in 0..self.areas.len() {
            let Some(watched) = &mut self.areas[slot] else { continue };
            let used = (watched.area.header().rings_used.load(Ordering::Acquire) as usize).min(MOST_RINGS);
            if watched.known.len() < used {
                watched.known.resize(used, false);
            }
            for number in 0..used {
                if watched.known[number] {
                    continue;
                }
                let Some(header) = watched.area.ring(number) else { continue };
                if header.state.load(Ordering::Acquire) != ring::LIVE {
                    continue;
                }
                watched.known[number] = true;
                let pid = OwnPid(header.pid.load(Ordering::Relaxed));
                let tid = OwnTid(header.tid.load(Ordering::Relaxed));
                let parent = OwnPid(header.parent.load(Ordering::Relaxed));
                let parent = watched.ever.get(&parent).copied();
                let now = self.tally.clock().ns(sys::now());
                let process = match watched.processes.get(&pid) {
                    Some(&row) => row,
                    None => {
                        let row = self.tally.process_added(true);
                        let outside = watched.same_numbers.then_some(Pid(pid.0));
                        self.processes.add(row, outside, pid, parent.or(Some(watched.first)), now);
                        watched.processes.insert(pid, row);
                        watched.ever.insert(pid, row);
                        if self.processes.has_ended(row) {
                            ended.push(row);
                        }
                        row
                    }
                };
                let tally = &mut self.tally;
                let thread = self.processes.ring_opened(process, tid, now, || tally.thread_added());
                if let Some(mut ring) = Ring::new(
                    &watched.area,
                    AreaSlot::from(slot),
                    RingNumber::from(number),
                    process,
                    thread,
                    tid,
                ) {
                    ring.forked_from = (process != watched.first).then(|| parent.unwrap_or(watched.first));
                    self.rings.push(ring);
                }
            }
        }
        ended
    }

    /// Counts processes to their end that have ended by now, one after the other: a child that was killed before anyone saw it has had its time before the
    /// next one.
    fn retire_ended(&mut self) {
        let ended_before_seen = self.adopt_rings();
        for row in self.processes.look_for_ended().into_iter().chain(ended_before_seen) {
            self.retire(row);
        }
    }

    /// Reads the rings of a process that has ended to the end, and counts it as ended: what it had is given back before others take more.
    fn retire(&mut self, row: ProcessRow) {
        let (its, others) =
            std::mem::take(&mut self.rings).into_iter().partition(|ring: &Ring| ring.process == row);
        self.rings = its;
        for ring in &mut self.rings {
            ring.look();
            ring.closing = true;
        }
        self.merge(Limits { horizon: Tick::MAX, latest: Tick::MAX });
        for ring in &mut self.rings {
            ring.tell();
        }
        self.close_rings();
        self.rings.extend::<Vec<Ring>>(others);
        self.end_processes(sys::now());
    }

    /// Gives rings back whose threads have ended and that are read to the end.
    fn close_rings(&mut self) {
        let mut index = 0;
        while index < self.rings.len() {
            let ring = &self.rings[index];
            if !(ring.closing && ring.is_done()) {
                index += 1;
                continue;
            }
            let ring = self.rings.swap_remove(index);
            self.broken_rings += u64::from(ring.cursor.broken);
            ring.give_back();
            if let Some(watched) = &mut self.areas[ring.slot.index()] {
                watched.known[ring.number.index()] = false;
            }
            if self.processes.ring_closed(ring.process, ring.tid) {
                self.tally.thread_ended(ring.thread);
            }
        }
    }

    /// What need not be done every round.
    fn housekeep(&mut self, now: Tick) {
        if now < self.next_check {
            return;
        }
        self.next_check = now.plus(self.tally.clock().span_ticks(CHECK_EVERY_NS));
        // Those that were seen to have ended the last time: all their rings are known by now.
        self.end_processes(now);
        self.look_for_silent();
        self.processes.look_for_ended();
        for ring in &mut self.rings {
            let at = ring.cursor.at;
            let idle = ring.told_at_check == at && ring.is_done();
            ring.told_at_check = at;
            // A ring is looked at once more after its thread is seen to have ended: what it wrote last is there then.
            ring.closing = ring.closing
                || self.processes.has_ended(ring.process)
                || (idle && self.processes.thread_has_ended(ring.process, ring.tid));
        }
        if now >= self.next_resident {
            self.next_resident = now.plus(self.resident_pause(now));
            self.sample_resident(now);
        }
        if now >= self.next_release {
            self.next_release = now.plus(self.tally.clock().span_ticks(RELEASE_EVERY_NS));
            self.look_for_strangers();
            self.release_areas();
        }
    }

    fn resident_pause(&self, now: Tick) -> u64 {
        let elapsed = now.since(self.tally.clock().first_tick());
        (elapsed / 256).max(self.tally.clock().span_ticks(10_000_000))
    }

    fn sample_resident(&mut self, now: Tick) {
        let time_ns = self.tally.clock().ns(now);
        for (process, value) in self.processes.resident() {
            self.resident.push(CounterRow { process, kind: CounterKind::Resident, time_ns, value });
        }
    }

    /// Counts the end of processes that have ended and whose rings are closed.
    fn end_processes(&mut self, now: Tick) {
        for row in self.processes.take_ended() {
            self.ended_unseen(row);
            self.name_if_not_joined(row);
            self.tally.process_ended(row, now, self.processes.end_of(row));
            self.processes.end_counted(row, self.tally.clock().ns(now));
            for watched in self.areas.iter_mut().flatten() {
                watched.processes.retain(|_, &mut process| process != row);
            }
        }
    }

    /// Lets go of areas that nobody else has any more. A forked child that did nothing so far keeps one.
    fn release_areas(&mut self) {
        for slot in 0..self.areas.len() {
            let Some(watched) = self.areas[slot].take_if(|watched| {
                watched.processes.is_empty() && matches!(watched.exit, Exit::Nobody | Exit::Allowed { .. })
            }) else {
                continue;
            };
            let Watched { area, .. } = &watched;
            let lost = lost_events(area);
            let area = Arc::clone(area);
            self.leave_out_of(&area);
            drop(area);
            match watched.unless_alone() {
                None => self.lost_events = self.lost_events.saturating_add(lost),
                watched => self.areas[slot] = watched,
            }
        }
    }

    /// The areas of all programs.
    pub(crate) fn areas(&self) -> Vec<Arc<Area>> {
        self.areas.iter().flatten().map(|watched| Arc::clone(&watched.area)).collect()
    }

    /// Whether a ring holds so many words, or a process waits.
    pub(crate) fn has_filled(&mut self, words: u64) -> bool {
        self.rings.iter_mut().any(|ring| ring.look() >= words)
            || self.areas.iter().flatten().any(Watched::is_awaited)
    }

    /// What is new since the last time.
    pub fn take(&mut self) -> Batch {
        self.tally.adjust_clock();
        let (rows, mut counters) = self.tally.take_rows();
        counters.append(&mut self.resident);
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

    /// The live blocks of a process by address, as far as its rings are read.
    pub fn live_blocks(&self, pid: u32) -> Option<Vec<LiveBlock>> {
        Some(self.tally.live(self.processes.living(Pid(pid))?).blocks)
    }

    /// Switches all agents off and lets everyone go who waits, now and later.
    pub fn let_go(&mut self) {
        self.closed = true;
        for watched in self.areas.iter().flatten() {
            let header = watched.area.header();
            header.enabled.store(0, Ordering::Release);
            header.asleep.store(0, Ordering::Release);
            header.exits_allowed.fetch_add(1, Ordering::AcqRel);
            sys::wake_all(&header.exits_allowed);
        }
    }

    /// The last round, and everything that was counted. `cpu_ns` is the CPU time that collecting took so far.
    pub fn finish(&mut self, cpu_ns: u64) -> Outcome {
        self.last_looks();
        self.let_go();
        self.round(Until::End);
        let now = sys::now();
        self.tally.adjust_clock();
        self.name_missing();
        for row in self.processes.all_living() {
            self.ended_unseen(row);
            self.tally.process_ended(row, now, End::Exit);
        }
        let (sites, transfers) = self.tally.finish();
        self.hear_of_left_out();
        let losses = self.losses();
        let mut notes = std::mem::take(&mut self.notes);
        notes.extend(losses.notes());
        notes.extend(self.checks.notes());
        let facts = HeapFacts { collector_cpu_ns: cpu_ns, ..self.facts(&losses) };
        Outcome { batch: self.take(), sites, transfers, facts, notes }
    }

    /// What is known of the whole so far.
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
            processes: self.processes.count().saturating_sub(self.not_joined),
            by_process: self.by_process(),
            allocators: self.allocators.clone(),
            programs_left_out: self.programs_left_out,
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

    /// What was lost so far.
    pub(crate) fn losses(&self) -> Losses {
        let mut losses = Losses {
            events: self.lost_events.saturating_add(self.tally.totals().lost_frees),
            broken_rings: self.broken_rings
                + self.rings.iter().filter(|ring| ring.cursor.broken).count() as u64,
        };
        for watched in self.areas.iter().flatten() {
            losses.events = losses.events.saturating_add(lost_events(&watched.area));
        }
        losses
    }

    /// Whether everyone was let go.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }
}
