//! The purpose that samples CPU time: reads the samples that programs take of themselves out of their slots,
//! and frees the slots.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use whyslow_agent_wire::purpose::{Purpose as Kind, Purposes};
use whyslow_agent_wire::sampler::{Board, REGISTERS, STACK_LEN, Slot, state};
use whyslow_numbers::ClockNs;
use whyslow_profile::RecordingNote;

use crate::area::Area;
use crate::ids::AreaSlot;
use crate::programs::Programs;
use crate::purpose::Purpose;
use crate::sys;

/// Samples of the CPU time of all threads.
#[derive(Debug)]
pub struct Samples {
    /// The requested period, unless the kernel's clock tick is longer.
    period_ns: u64,
    /// Losses in released areas.
    lost: CpuLosses,
    /// Losses in the area that may be released.
    ending: CpuLosses,
    /// Records that were written while others were read.
    later: Vec<CpuRecord>,
}

impl Samples {
    /// Samples each thread with this period.
    pub fn new(period_ns: u64) -> Self {
        Self { period_ns, lost: CpuLosses::default(), ending: CpuLosses::default(), later: Vec::new() }
    }

    /// Takes the samples since the last call, in time order.
    pub fn take(&mut self, programs: &Programs) -> Vec<CpuRecord> {
        let until = whyslow_proc::now();
        in_order(read(&programs.areas.with_numbers()), &mut self.later, until)
    }

    /// The period of the samples, and how many were lost.
    pub fn losses(&self, programs: &Programs) -> CpuLosses {
        programs.areas.iter().map(|watched| CpuLosses::of(&watched.area)).fold(self.lost, CpuLosses::and)
    }
}

impl Purpose for Samples {
    fn kind(&self) -> Kind {
        Kind::Samples
    }

    fn request(&self, area: &Area) {
        if let Some(board) = area.board() {
            board.wish_ns.store(self.period_ns, Relaxed);
        }
    }

    fn needs(&self, area: &Area) -> bool {
        are_left(area)
    }

    fn area_ends(&mut self, area: &Area) {
        self.ending = CpuLosses::of(area);
    }

    fn area_ended(&mut self, _slot: AreaSlot) {
        self.lost = self.lost.and(self.ending);
    }
}

/// An area, and how to translate the process ids inside it.
#[derive(Debug, Clone)]
pub(crate) struct Numbered {
    pub(crate) area: Arc<Area>,
    /// The first process: its own process id, and the kernel's id for it. If these differ, the ids of other
    /// processes in the area are unknown.
    pub(crate) first: (u32, u32),
}

impl Numbered {
    /// The kernel's id for a process.
    fn outside(&self, own: u32) -> Option<u32> {
        let (inside, outside) = self.first;
        match own {
            _ if own == inside => Some(outside),
            _ if inside == outside => Some(own),
            _ => None,
        }
    }

    /// Whether a thread is known to have exited; false if the ids differ.
    fn has_ended(&self, own: u32) -> bool {
        let (inside, outside) = self.first;
        inside == outside && sys::task_has_ended(own)
    }
}

/// A record in a slot.
#[derive(Debug, PartialEq, Eq)]
pub enum CpuRecord {
    /// A CPU sample of a thread.
    Sample(CpuSample),
    /// A thread has started.
    Begun {
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// The time.
        time_ns: ClockNs,
    },
    /// A thread has exited.
    Ended {
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// The thread's name.
        name: String,
        /// The thread's total CPU time.
        cpu_ns: u64,
        /// The time.
        time_ns: ClockNs,
    },
    /// A process has forked.
    Forked {
        /// The child.
        pid: u32,
        /// The process that it was forked from.
        parent: u32,
        /// The time.
        time_ns: ClockNs,
    },
}

/// The state of a thread when its timer fired.
#[derive(Debug, PartialEq, Eq)]
pub struct CpuSample {
    /// The time.
    pub time_ns: ClockNs,
    /// The CPU time that the sample stands for.
    pub value_ns: u64,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The thread's name.
    pub name: String,
    /// The general registers in the order of the kernel's `ucontext`, and the instruction pointer.
    pub registers: [u64; REGISTERS],
    /// The stack, starting at the stack pointer.
    pub stack: Vec<u8>,
    /// Whether the copied stack may be truncated.
    pub cut: bool,
}

impl CpuRecord {
    /// The time of the record.
    pub fn time_ns(&self) -> ClockNs {
        match self {
            Self::Sample(sample) => sample.time_ns,
            Self::Begun { time_ns, .. } | Self::Ended { time_ns, .. } | Self::Forked { time_ns, .. } => {
                *time_ns
            }
        }
    }
}

/// The period and the losses of CPU samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuLosses {
    /// The longest period between two samples of a thread; 0 if no program sampled itself.
    pub period_ns: u64,
    /// Samples that found no free slot.
    pub lost: u64,
    /// The CPU time that they stood for.
    pub lost_ns: u64,
    /// Threads for which no timer could be created.
    pub untimed: u64,
    /// The errno of one of them.
    pub untimed_error: i32,
    /// Processes that forbade themselves system calls and were not sampled from then on.
    pub confined: u64,
}

impl CpuLosses {
    /// The losses that a program reports.
    pub(crate) fn of(area: &Area) -> Self {
        let Some(board) = sampled(area) else { return Self::default() };
        Self {
            period_ns: board.period_ns.load(Relaxed),
            lost: board.lost.load(Relaxed),
            lost_ns: board.lost_ns.load(Relaxed),
            untimed: board.untimed.load(Relaxed),
            untimed_error: i32::try_from(board.untimed_error.load(Relaxed)).unwrap_or(0),
            confined: board.confined.load(Relaxed),
        }
    }

    /// Notes for the reader of the profile.
    pub fn notes(&self) -> Vec<RecordingNote> {
        let confined =
            (self.confined > 0).then_some(RecordingNote::SamplerConfined { processes: self.confined });
        let untimed = (self.untimed > 0)
            .then_some(RecordingNote::ThreadsUntimed { threads: self.untimed, error: self.untimed_error });
        confined.into_iter().chain(untimed).collect()
    }

    /// Adds the losses of another program.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            period_ns: self.period_ns.max(other.period_ns),
            lost: self.lost.saturating_add(other.lost),
            lost_ns: self.lost_ns.saturating_add(other.lost_ns),
            untimed: self.untimed.saturating_add(other.untimed),
            untimed_error: if self.untimed_error == 0 { other.untimed_error } else { self.untimed_error },
            confined: self.confined.saturating_add(other.confined),
        }
    }
}

/// The board of a program that samples itself.
fn sampled(area: &Area) -> Option<&Board> {
    Purposes::of_bits(area.header().purposes.load(Relaxed)).has(Kind::Samples).then(|| area.board()).flatten()
}

/// Whether samples are waiting to be taken.
fn are_left(area: &Area) -> bool {
    sampled(area).is_some_and(|board| board.states.iter().any(|state| is_complete(state.load(Relaxed))))
}

fn is_complete(kind: u32) -> bool {
    matches!(kind, state::SAMPLE | state::FORKED | state::BEGUN | state::ENDED)
}

/// The records up to a time and those left from the last call, in order; the others are left for the next call. What a
/// thread writes while slots are read can be found without what it wrote before into a slot that was already read: its
/// end without its beginning, for example.
fn in_order(read: Vec<CpuRecord>, left: &mut Vec<CpuRecord>, until: ClockNs) -> Vec<CpuRecord> {
    let (in_time, later) = read.into_iter().partition(|record: &CpuRecord| record.time_ns() <= until);
    let mut records = std::mem::replace(left, later);
    records.extend::<Vec<_>>(in_time);
    records.sort_by_key(CpuRecord::time_ns);
    records
}

/// Takes all complete records.
fn read(areas: &[Numbered]) -> Vec<CpuRecord> {
    let mut records = Vec::new();
    for numbered in areas {
        let Some(board) = sampled(&numbered.area) else { continue };
        for (number, state) in board.states.iter().enumerate() {
            let kind = state.load(Acquire);
            if state::owner(kind).is_some_and(|tid| numbered.has_ended(tid)) {
                // The thread was killed while it wrote.
                let _ = state.compare_exchange(kind, state::FREE, Relaxed, Relaxed);
            }
            if !is_complete(kind) {
                continue;
            }
            let record = numbered.area.slot(number).and_then(|slot| record(numbered, slot, kind));
            records.extend(record);
            state.store(state::FREE, Release);
        }
    }
    records
}

/// The record in a slot; `None` for a process without a known id.
fn record(numbered: &Numbered, slot: &Slot, kind: u32) -> Option<CpuRecord> {
    let pid = numbered.outside(slot.pid.load(Relaxed))?;
    let (tid, time_ns) = (slot.tid.load(Relaxed), ClockNs::new(slot.time_ns.load(Relaxed)));
    if kind == state::FORKED {
        return Some(CpuRecord::Forked { pid, parent: numbered.outside(tid)?, time_ns });
    }
    let name = slot.name.iter().map(|byte| byte.load(Relaxed)).take_while(|byte| *byte != 0);
    let name = String::from_utf8_lossy(&name.collect::<Vec<u8>>()).into_owned();
    let (inside, outside) = numbered.first;
    // In another namespace, only the main thread's id is known.
    let tid = if inside == outside || tid != inside { tid } else { outside };
    let value_ns = slot.value_ns.load(Relaxed);
    if kind == state::BEGUN {
        return Some(CpuRecord::Begun { pid, tid, time_ns });
    }
    if kind == state::ENDED {
        return Some(CpuRecord::Ended { pid, tid, name, cpu_ns: value_ns, time_ns });
    }
    let copied = (slot.stack_len.load(Relaxed) as usize).min(STACK_LEN);
    let mut stack = Vec::with_capacity(STACK_LEN);
    for word in &slot.stack[..copied.div_ceil(8)] {
        stack.extend(word.load(Relaxed).to_le_bytes());
    }
    stack.truncate(copied);
    Some(CpuRecord::Sample(CpuSample {
        time_ns,
        value_ns,
        pid,
        tid,
        name,
        registers: std::array::from_fn(|row| slot.registers[row].load(Relaxed)),
        cut: copied == STACK_LEN,
        stack,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(first: (u32, u32)) -> Numbered {
        let area = Area::create().expect("area");
        area.header().purposes.store(Purposes::NONE.and(Kind::Samples).bits(), Relaxed);
        Numbered { area: Arc::new(area), first }
    }

    fn put(numbered: &Numbered, number: usize, (pid, tid): (u32, u32), time: u64, kind: u32) {
        let slot = numbered.area.slot(number).expect("slot");
        slot.pid.store(pid, Relaxed);
        slot.tid.store(tid, Relaxed);
        slot.time_ns.store(time, Relaxed);
        slot.value_ns.store(4_000_000, Relaxed);
        for (to, from) in slot.name.iter().zip(*b"worker\0") {
            to.store(from, Relaxed);
        }
        slot.registers[16].store(0x1234, Relaxed);
        slot.stack[0].store(0x0807_0605_0403_0201, Relaxed);
        slot.stack_len.store(5, Relaxed);
        numbered.area.board().expect("board").states[number].store(kind, Release);
    }

    fn taken(areas: &[Numbered]) -> Vec<String> {
        let words = |record: CpuRecord| match record {
            CpuRecord::Forked { pid, parent, time_ns } => format!("{} {parent} forks {pid}", time_ns.raw()),
            CpuRecord::Sample(CpuSample { time_ns, pid, tid, name, registers, stack, .. }) => {
                format!("{} {pid}/{tid} {name} ip {:x} {stack:?}", time_ns.raw(), registers[16])
            }
            CpuRecord::Begun { pid, tid, time_ns } => format!("{} {pid}/{tid} begins", time_ns.raw()),
            CpuRecord::Ended { pid, tid, name, cpu_ns, time_ns } => {
                format!("{} {pid}/{tid} {name} ends after {cpu_ns}", time_ns.raw())
            }
        };
        in_order(read(areas), &mut Vec::new(), ClockNs::MAX).into_iter().map(words).collect()
    }

    #[test]
    fn samples_are_read_in_order_and_free_their_slots() {
        let areas = [area((10, 10)), area((20, 20))];
        put(&areas[0], 1, (10, 11), 7, state::SAMPLE);
        put(&areas[0], 0, (12, 10), 8, state::FORKED);
        put(&areas[0], 2, (10, 11), 9, state::ENDED);
        put(&areas[0], 3, (10, 11), 4, state::BEGUN);
        put(&areas[1], 1023, (20, 20), 5, state::SAMPLE);
        put(&areas[1], 5, (20, 20), 6, state::taken_by(std::process::id()));
        let expected = [
            "4 10/11 begins",
            "5 20/20 worker ip 1234 [1, 2, 3, 4, 5]",
            "7 10/11 worker ip 1234 [1, 2, 3, 4, 5]",
            "8 10 forks 12",
            "9 10/11 worker ends after 4000000",
        ];
        assert_eq!(taken(&areas), expected);
        assert_eq!(taken(&areas), [""; 0], "each record once; a slot that is being written is skipped");
        assert_eq!(areas[0].area.board().expect("board").states[0].load(Relaxed), state::FREE);
    }

    #[test]
    fn what_is_written_during_a_read_waits_for_what_was_written_before() {
        let areas = [area((10, 10))];
        put(&areas[0], 900, (10, 11), 9, state::ENDED);
        let found = read(&areas);
        put(&areas[0], 5, (10, 11), 8, state::BEGUN);
        let mut left = Vec::new();
        assert_eq!(in_order(found, &mut left, ClockNs::new(7)), []);
        let records = in_order(read(&areas), &mut left, ClockNs::new(20));
        assert_eq!(records.iter().map(|record| record.time_ns().raw()).collect::<Vec<_>>(), [8, 9]);
        assert_eq!(left, []);
    }

    /// A process killed in the handler, or its child, would otherwise hold its slot forever.
    #[test]
    fn the_slot_of_an_exited_writer_is_freed() {
        let mut child = std::process::Command::new("true").spawn().expect("true");
        let exited = child.id();
        child.wait().expect("it exits");
        let (here, elsewhere) = (area((10, 10)), area((1, 4711)));
        let state = |numbered: &Numbered, number: usize| {
            numbered.area.board().expect("board").states[number].load(Relaxed)
        };
        let own = state::taken_by(rustix::thread::gettid().as_raw_nonzero().get() as u32);
        put(&here, 0, (10, 10), 1, state::taken_by(exited));
        put(&here, 1, (10, 10), 1, own);
        put(&elsewhere, 0, (1, 1), 1, state::taken_by(exited));
        let areas = [here, elsewhere];
        assert_eq!(taken(&areas), [""; 0]);
        assert_eq!(
            (state(&areas[0], 0), state(&areas[0], 1)),
            (state::FREE, own),
            "a running thread still writes"
        );
        assert_eq!(state(&areas[1], 0), state::taken_by(exited), "its id differs here");
    }

    #[test]
    fn a_process_gets_its_id_outside_of_its_namespace() {
        let areas = [area((1, 4711))];
        put(&areas[0], 0, (1, 1), 1, state::SAMPLE);
        put(&areas[0], 1, (2, 2), 2, state::SAMPLE);
        assert_eq!(taken(&areas), ["1 4711/4711 worker ip 1234 [1, 2, 3, 4, 5]"]);
    }

    #[test]
    fn values_from_a_program_are_bounded() {
        let areas = [area((10, 10))];
        put(&areas[0], 0, (10, 10), 1, state::SAMPLE);
        areas[0].area.slot(0).expect("slot").stack_len.store(u32::MAX, Relaxed);
        let [CpuRecord::Sample(sample)] = &read(&areas)[..] else { panic!("one sample") };
        assert_eq!((sample.stack.len(), sample.cut), (STACK_LEN, true));
    }
}
