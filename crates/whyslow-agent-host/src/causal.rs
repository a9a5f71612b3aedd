//! The purpose that delays threads in experiments. The host only knows which program is experimented on; whoever
//! runs experiments gets the [`Subject`].

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;
use whyslow_agent_wire::causal::{
    Board, MOST_ADDRESSES, MOST_POINTS, MOST_RANGES, MOST_THREADS, NAME_LEN, Point, WHOLE, kind,
};
use whyslow_agent_wire::purpose::Purpose as Kind;
use whyslow_agent_wire::record::TICK_SHIFT;

use crate::area::Area;
use crate::areas::Watched;
use crate::clock::Clock;
use crate::ids::AreaSlot;
use crate::purpose::Purpose;
use crate::sys;

/// Experiments with the first program and what it executes in its place. Its children are left alone.
#[derive(Debug)]
pub struct Experiments {
    clock: Clock,
    period_ns: u64,
    /// The first points: code.
    points: Vec<PointName>,
    subject: SubjectSlot,
    on_start: OnStart,
    /// Other programs.
    others: u64,
}

/// What is done when the program has been loaded, before any of its own code runs. It waits meanwhile.
#[derive(Clone)]
pub struct OnStart(Arc<dyn Fn(&Subject) + Send + Sync>);

impl OnStart {
    /// Calls this function.
    pub fn new(call: impl Fn(&Subject) + Send + Sync + 'static) -> Self {
        Self(Arc::new(call))
    }
}

impl std::fmt::Debug for OnStart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnStart")
    }
}

/// Where the program is found once it has started.
pub type SubjectSlot = Arc<Mutex<Option<Subject>>>;

/// A program that is experimented on.
#[derive(Debug, Clone)]
pub struct Subject {
    area: Arc<Area>,
    /// The kernel's id of its process.
    pub pid: u32,
    /// The id that the process itself sees: different in a container.
    own_pid: u32,
}

/// The program runs at full speed if nobody was at work for so long.
const PATIENCE: Duration = Duration::from_millis(400);

impl Experiments {
    /// Samples each thread with this period of its CPU time. `points` are code that is a progress point: the first points,
    /// in this order.
    pub fn new(
        clock: Clock,
        period_ns: u64,
        points: Vec<PointName>,
        subject: SubjectSlot,
        on_start: OnStart,
    ) -> Self {
        Self { clock, period_ns, points, subject, on_start, others: 0 }
    }

    /// The program, once it has started.
    pub fn subject(&self) -> Option<Subject> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Subject>> {
        self.subject.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Programs that were started and are not experimented on.
    pub fn others(&self) -> u64 {
        self.others
    }
}

impl Purpose for Experiments {
    fn kind(&self) -> Kind {
        Kind::Causal
    }

    fn request(&self, area: &Area) {
        let Some(board) = area.causal() else { return };
        let mut clock = self.clock;
        clock.adjust();
        let cycles_of_ns = clock.span_ticks(1 << 30) << TICK_SHIFT;
        board.tick_of_ns.store(cycles_of_ns << 2, Relaxed);
        board.patience.store(clock.span_ticks(PATIENCE.as_nanos() as u64) << TICK_SHIFT, Relaxed);
        board.renewed.store(now(), Relaxed);
        for (number, PointName { kind, name, .. }) in self.points.iter().enumerate().take(MOST_POINTS) {
            let Some(point) = area.point(number) else { continue };
            let name = &name.as_bytes()[name.len().saturating_sub(NAME_LEN)..];
            for (to, from) in point.name.iter().zip(name) {
                to.store(*from, Relaxed);
            }
            point.name_len.store(name.len() as u32, Relaxed);
            point.kind.store(*kind, Relaxed);
        }
        board.points_used.store(self.points.len().min(MOST_POINTS) as u32, Release);
    }

    fn program_added(&mut self, _slot: AreaSlot, program: &Watched) {
        let (own_pid, pid) = program.numbers;
        if self.lock().as_ref().is_some_and(|subject| subject.pid != pid) {
            self.others += 1;
            return;
        }
        if let Some(board) = program.area.causal() {
            board.period_ns.store(self.period_ns, Release);
            let subject = Subject { area: Arc::clone(&program.area), pid, own_pid };
            (self.on_start.0)(&subject);
            *self.lock() = Some(subject);
        }
    }
}

/// The time-stamp counter, as in the board.
fn now() -> u64 {
    sys::now().0 << TICK_SHIFT
}

/// The name and kind of a progress point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointName {
    /// One of the wire's kinds.
    pub kind: u32,
    /// Its name.
    pub name: String,
    /// How often it was visited in all.
    pub count: u64,
}

fn name_of(point: &Point) -> Vec<u8> {
    let len = (point.name_len.load(Relaxed) as usize).min(NAME_LEN);
    point.name[..len].iter().map(|byte| byte.load(Relaxed)).collect()
}

fn is_named(point: &Point, name: &str) -> bool {
    String::from_utf8_lossy(&name_of(point)) == name
}

/// What has begun and what has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InFlight {
    /// How many began in all.
    pub begun: u64,
    /// How many ended in all.
    pub ended: u64,
    /// Since the round started, the growth of the common delay times how many were in flight.
    pub delayed_ns: u64,
}

/// The state of a round. Times are in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoundState {
    /// The time since the round started.
    pub since_start_ns: u64,
    /// The common delay so far.
    pub delay_ns: u64,
    /// Samples in the target, since visits count.
    pub hits: u64,
    /// All samples since then.
    pub samples: u64,
    /// The CPU time of samples in the target.
    pub hit_ns: u64,
    /// The CPU time of all samples.
    pub sample_ns: u64,
    /// How often threads were woken by others, since the round started.
    pub waits: u64,
    /// The visits of each point, by its number.
    pub visits: Vec<VisitsState>,
}

/// The visits of a point in a round, in virtual time since the round started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VisitsState {
    /// How many.
    pub count: u64,
    /// The first.
    pub first_ns: u64,
    /// The last.
    pub last_ns: u64,
}

/// What a round does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundPlan<'a> {
    /// Start and end of the target's code at run time: sorted, without overlap.
    pub ranges: &'a [(u64, u64)],
    /// What else belongs to it: one of the wire's constants.
    pub reach: u32,
    /// The share of its time by which it is faster.
    pub speedup: f64,
    /// Visits and samples count from so long after the start.
    pub warmup: Duration,
}

impl Subject {
    fn board(&self) -> Option<&Board> {
        self.area.causal()
    }

    /// Says that somebody is still at work.
    pub fn renew(&self) {
        if let Some(board) = self.board() {
            board.renewed.store(now(), Relaxed);
        }
    }

    /// The period of samples from now on.
    pub fn set_period(&self, period_ns: u64) {
        if let Some(board) = self.board() {
            board.period_ns.store(period_ns.max(1), Relaxed);
        }
    }

    /// Whether its agent has begun.
    pub fn has_begun(&self) -> bool {
        self.board().is_some_and(|board| board.threads_used.load(Relaxed) > 0)
    }

    /// Threads that cannot be sampled, and the errno of one of them.
    pub fn unsampled(&self) -> (u32, i32) {
        self.board().map_or((0, 0), |board| {
            (board.unsampled.load(Relaxed), board.unsampled_error.load(Relaxed).cast_signed())
        })
    }

    /// Threads that some code of a point could not be watched in, and the errno of one of them.
    pub fn unwatched(&self) -> (u32, i32) {
        self.board().map_or((0, 0), |board| {
            (board.unwatched.load(Relaxed), board.unwatched_error.load(Relaxed).cast_signed())
        })
    }

    /// Forks of the program, which are not experimented on.
    pub fn forks(&self) -> u32 {
        self.board().map_or(0, |board| board.forks.load(Relaxed))
    }

    /// How often a thread looked for the target among the callers of its code, and how often it could not see all of them.
    pub fn looks(&self) -> (u64, u64) {
        self.board().map_or((0, 0), |board| (board.looks.load(Relaxed), board.looks_cut.load(Relaxed)))
    }

    /// Whether the program has forbidden itself system calls, so that there are no more experiments.
    pub fn is_confined(&self) -> bool {
        self.board().is_some_and(|board| board.confined.load(Relaxed) != 0)
    }

    /// Samples since the one with this number, by address. Changes the number to that of the next sample.
    pub fn addresses(&self, from: &mut u64) -> FxHashMap<u64, u64> {
        let mut counts = FxHashMap::default();
        let Some(board) = self.board() else { return counts };
        let until = board.sampled.load(Acquire);
        let first = (*from).max(until.saturating_sub(MOST_ADDRESSES as u64));
        for number in first..until {
            if let Some(address) = self.area.sampled_address(number) {
                *counts.entry(address).or_default() += 1;
            }
        }
        *from = until;
        counts
    }

    /// The progress points so far.
    pub fn points(&self) -> Vec<PointName> {
        let used = self.board().map_or(0, |board| board.points_used.load(Acquire) as usize);
        let names = (0..used.min(MOST_POINTS)).filter_map(|number| {
            let point = self.area.point(number)?;
            Some(PointName {
                kind: point.kind.load(Acquire),
                name: String::from_utf8_lossy(&name_of(point)).into_owned(),
                count: point.count.load(Relaxed),
            })
        });
        names.collect()
    }

    /// Starts the round with this number, which follows the last one. No round may run.
    pub fn begin(&self, number: u64, plan: &RoundPlan<'_>, clock: &Clock) {
        let (Some(board), Some(round)) = (self.board(), self.area.round(number)) else { return };
        for word in [&round.delay, &round.hits, &round.hit_ns, &round.samples, &round.sample_ns, &round.waits]
        {
            word.store(0, Relaxed);
        }
        for (point, visits) in round.visits.iter().enumerate() {
            for word in [&visits.count, &visits.first, &visits.last, &visits.delayed] {
                word.store(0, Relaxed);
            }
            let raw = self.area.point(point).map_or(0, |point| point.count.load(Relaxed));
            visits.seen.store(raw, Relaxed);
        }
        for (row, (start, end)) in round.ranges.iter().zip(plan.ranges) {
            row[0].store(*start, Relaxed);
            row[1].store(*end, Relaxed);
        }
        round.ranges_used.store(plan.ranges.len().min(MOST_RANGES) as u32, Release);
        round.reach.store(plan.reach, Relaxed);
        let speedup = plan.speedup.clamp(0.0, 1.0) * f64::from(WHOLE);
        round.speedup.store(speedup as u32, Relaxed);
        let start = now();
        let warmup = clock.span_ticks(plan.warmup.as_nanos() as u64) << TICK_SHIFT;
        round.started.store(start, Relaxed);
        round.measured_from.store(start + warmup, Relaxed);
        board.renewed.store(start, Relaxed);
        board.round.store(number, Release);
    }

    /// The delays that the program's first thread has taken in a round, also after its exit. `None` if that thread ended
    /// before.
    pub fn taken_by_first_ns(&self, number: u64, clock: &Clock) -> Option<u64> {
        let used = (self.board()?.threads_used.load(Relaxed) as usize).min(MOST_THREADS);
        let mut threads = (0..used).filter_map(|thread| self.area.delayed_thread(thread));
        let first = threads.find(|thread| thread.tid.load(Relaxed) == self.own_pid)?;
        let is_in_round = first.round.load(Relaxed) == number;
        Some(if is_in_round { clock.span_ns(first.delayed.load(Relaxed) >> TICK_SHIFT) } else { 0 })
    }

    /// Ends the running round.
    pub fn end(&self) {
        if let Some(board) = self.board() {
            board.round.store(0, Release);
        }
    }

    /// What is between points that begin and points that end with this name, in a round.
    pub fn in_flight(&self, number: u64, name: &str, clock: &Clock) -> InFlight {
        let mut found = InFlight::default();
        let mut delayed = 0u64;
        let Some(round) = self.area.round(number) else { return found };
        let used = self.board().map_or(0, |board| board.points_used.load(Acquire) as usize);
        // Ends before begins: what ends in between would be in flight less than zero times.
        for wanted in [kind::END, kind::BEGIN] {
            for (number, visits) in round.visits.iter().enumerate().take(used.min(MOST_POINTS)) {
                let Some(point) = self.area.point(number) else { continue };
                if point.kind.load(Acquire) != wanted || !is_named(point, name) {
                    continue;
                }
                let (count, sum) = (point.count.load(Relaxed), visits.delayed.load(Relaxed));
                if wanted == kind::END {
                    found.ended += count;
                    delayed = delayed.wrapping_sub(sum);
                } else {
                    found.begun += count;
                    delayed = delayed.wrapping_add(sum);
                }
            }
        }
        // Less than nothing if something ended while its begin was being added.
        found.delayed_ns = clock.span_ns(delayed.cast_signed().max(0).cast_unsigned() >> TICK_SHIFT);
        found
    }

    /// The state of a round.
    pub fn state(&self, number: u64, clock: &Clock) -> RoundState {
        let Some(round) = self.area.round(number) else { return RoundState::default() };
        let ns = |cycles: u64| clock.span_ns(cycles >> TICK_SHIFT);
        let since = |cycles: u64| ns(cycles.saturating_sub(round.started.load(Relaxed)));
        let used = self.board().map_or(0, |board| board.points_used.load(Relaxed) as usize);
        let visits = round.visits.iter().take(used).map(|visits| VisitsState {
            count: visits.count.load(Relaxed),
            first_ns: since(visits.first.load(Relaxed)),
            last_ns: since(visits.last.load(Relaxed)),
        });
        RoundState {
            since_start_ns: since(now()),
            delay_ns: ns(round.delay.load(Relaxed)),
            hits: round.hits.load(Relaxed),
            samples: round.samples.load(Relaxed),
            hit_ns: round.hit_ns.load(Relaxed),
            sample_ns: round.sample_ns.load(Relaxed),
            waits: round.waits.load(Relaxed),
            visits: visits.collect(),
        }
    }
}
