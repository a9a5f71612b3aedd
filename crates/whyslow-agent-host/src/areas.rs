//! The areas of all programs: their processes, and which of their rings are read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustc_hash::FxHashMap;
use whyslow_agent_wire::area::{MOST_RINGS, ring};
use whyslow_profile::WhyLeftOut;

use crate::area::Area;
use crate::exits::Exit;
use crate::ids::{AreaSlot, OwnPid, OwnTid, Pid, ProcessRow, RingNumber};
use crate::purpose::PurposeList;
use crate::samples::Numbered;

/// One program's area.
#[derive(Debug)]
pub struct Watched {
    pub(crate) area: Arc<Area>,
    /// The first process.
    pub first: ProcessRow,
    /// Whether process ids inside and outside are the same.
    pub(crate) same_numbers: bool,
    /// The first process's id inside, and outside.
    pub(crate) numbers: (u32, u32),
    /// The program's file.
    pub program: String,
    /// Why its agent could not start recording, if so.
    pub(crate) likely_reason: WhyLeftOut,
    pub(crate) exit: Exit,
    /// Running processes, by their id inside.
    living: FxHashMap<OwnPid, ProcessRow>,
    /// All processes ever, by their id inside; the last one of each id.
    ever: FxHashMap<OwnPid, ProcessRow>,
    /// Whether each ring is read.
    is_read: Vec<bool>,
}

/// A ring that a thread has taken, and its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TakenRing {
    /// The number of the purpose that it is for.
    pub(crate) purpose: u32,
    pub(crate) number: RingNumber,
    pub(crate) pid: OwnPid,
    pub(crate) tid: OwnTid,
    /// The process that its process was forked from. The parent's first ring may be taken together with this
    /// one.
    pub(crate) parent: OwnPid,
}

impl Watched {
    pub(crate) fn new(
        area: Area,
        first: ProcessRow,
        (pid, own_pid): (Pid, OwnPid),
        program: String,
        likely_reason: WhyLeftOut,
    ) -> Self {
        Self {
            area: Arc::new(area),
            first,
            same_numbers: pid.0 == own_pid.0,
            numbers: (own_pid.0, pid.0),
            program,
            likely_reason,
            exit: Exit::None,
            living: FxHashMap::from_iter([(own_pid, first)]),
            ever: FxHashMap::from_iter([(own_pid, first)]),
            is_read: Vec::new(),
        }
    }

    /// The running process with this id inside.
    pub(crate) fn living(&self, pid: OwnPid) -> Option<ProcessRow> {
        self.living.get(&pid).copied()
    }

    /// The last process with this id inside, running or not.
    pub(crate) fn last(&self, pid: OwnPid) -> Option<ProcessRow> {
        self.ever.get(&pid).copied()
    }

    /// Whether a process runs in this area.
    pub(crate) fn has(&self, process: ProcessRow) -> bool {
        self.living.values().any(|&row| row == process)
    }

    pub(crate) fn process_added(&mut self, pid: OwnPid, process: ProcessRow) {
        self.living.insert(pid, process);
        self.ever.insert(pid, process);
    }

    /// Rings that threads have taken since the last call. From now on they are read.
    pub(crate) fn take_rings(&mut self) -> Vec<TakenRing> {
        let used = (self.area.header().rings_used.load(Ordering::Acquire) as usize).min(MOST_RINGS);
        if self.is_read.len() < used {
            self.is_read.resize(used, false);
        }
        let mut taken = Vec::new();
        for (number, is_read) in self.is_read.iter_mut().enumerate().filter(|(_, is_read)| !**is_read) {
            let Some(header) = self.area.ring(number) else { continue };
            if header.state.load(Ordering::Acquire) != ring::LIVE {
                continue;
            }
            *is_read = true;
            taken.push(TakenRing {
                purpose: header.purpose.load(Ordering::Relaxed),
                number: number.into(),
                pid: OwnPid(header.pid.load(Ordering::Relaxed)),
                tid: OwnTid(header.tid.load(Ordering::Relaxed)),
                parent: OwnPid(header.parent.load(Ordering::Relaxed)),
            });
        }
        taken
    }

    /// Returns itself, unless no other process maps the area any more.
    fn unless_alone(mut self) -> Option<Self> {
        self.area = match Arc::try_unwrap(self.area) {
            Ok(area) => Arc::new(area.unless_alone()?),
            Err(area) => area,
        };
        Some(self)
    }
}

/// All areas.
#[derive(Debug, Default)]
pub(crate) struct Areas {
    slots: Vec<Option<Watched>>,
    /// Events that agents dropped in released areas.
    lost_events: u64,
}

impl Areas {
    pub(crate) fn added(&mut self, watched: Watched) -> AreaSlot {
        let slot = self.slots.iter().position(Option::is_none).unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(watched);
        slot.into()
    }

    /// All slots, with or without an area.
    pub(crate) fn slots(&self) -> impl Iterator<Item = AreaSlot> + use<> {
        (0..self.slots.len()).map(AreaSlot::from)
    }

    pub(crate) fn get(&self, slot: AreaSlot) -> Option<&Watched> {
        self.slots.get(slot.index())?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: AreaSlot) -> Option<&mut Watched> {
        self.slots.get_mut(slot.index())?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Watched> {
        self.slots.iter().flatten()
    }

    /// The slot of a process's area.
    pub(crate) fn slot_of(&self, process: ProcessRow) -> Option<AreaSlot> {
        self.slots().find(|&slot| self.get(slot).is_some_and(|watched| watched.has(process)))
    }

    /// The areas themselves.
    pub(crate) fn shared(&self) -> Vec<Arc<Area>> {
        self.iter().map(|watched| Arc::clone(&watched.area)).collect()
    }

    /// The areas, with the ids of their first processes.
    pub(crate) fn with_numbers(&self) -> Vec<Numbered> {
        self.iter()
            .map(|watched| Numbered { area: Arc::clone(&watched.area), first: watched.numbers })
            .collect()
    }

    /// Notes that a ring was freed.
    pub(crate) fn ring_closed(&mut self, slot: AreaSlot, number: RingNumber) {
        if let Some(is_read) = self.get_mut(slot).and_then(|watched| watched.is_read.get_mut(number.index()))
        {
            *is_read = false;
        }
    }

    /// Notes that the exit of a process was counted.
    pub(crate) fn process_ended(&mut self, process: ProcessRow) {
        for watched in self.slots.iter_mut().flatten() {
            watched.living.retain(|_, &mut row| row != process);
        }
    }

    /// Releases areas that no other process maps any more. A forked child that has done nothing so far keeps
    /// its area. `each` is called with all areas that might be released.
    pub(crate) fn release(&mut self, purposes: &mut PurposeList, mut each: impl FnMut(&Area)) {
        for (number, slot) in (0..).map(AreaSlot).zip(&mut self.slots) {
            let is_left = |watched: &mut Watched| {
                watched.living.is_empty()
                    && matches!(watched.exit, Exit::None | Exit::Allowed { .. })
                    && !purposes.iter().any(|purpose| purpose.needs(&watched.area))
            };
            let Some(watched) = slot.take_if(is_left) else { continue };
            each(&watched.area);
            let lost = lost_events(&watched.area);
            purposes.iter_mut().for_each(|purpose| purpose.area_ends(&watched.area));
            *slot = watched.unless_alone();
            if slot.is_none() {
                purposes.iter_mut().for_each(|purpose| purpose.area_ended(number));
                self.lost_events = self.lost_events.saturating_add(lost);
            }
        }
    }

    /// Events that agents dropped.
    pub(crate) fn lost_events(&self) -> u64 {
        self.iter().map(|watched| lost_events(&watched.area)).fold(self.lost_events, u64::saturating_add)
    }
}

/// Events that the agents of an area dropped.
fn lost_events(area: &Area) -> u64 {
    let header = area.header();
    let lost = header.lost_events.load(Ordering::Relaxed);
    lost.saturating_add(header.lost_ringless.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: ProcessRow = ProcessRow(0);

    fn watched() -> Watched {
        let area = Area::create().expect("area");
        Watched::new(area, FIRST, (Pid(70), OwnPid(7)), "/bin/program".to_owned(), WhyLeftOut::NoRoom)
    }

    #[test]
    fn a_ring_is_taken_once_until_it_is_closed() {
        let mut areas = Areas::default();
        areas.added(watched());
        let slot = AreaSlot(0);
        let area = Arc::clone(&areas.get(slot).expect("added").area);
        area.header().rings_used.store(2, Ordering::Release);
        let header = area.ring(1).expect("a ring");
        header.pid.store(8, Ordering::Relaxed);
        header.tid.store(9, Ordering::Relaxed);
        header.parent.store(7, Ordering::Relaxed);
        header.state.store(ring::LIVE, Ordering::Release);
        header.purpose.store(5, Ordering::Relaxed);
        let (pid, tid, parent) = (OwnPid(8), OwnTid(9), OwnPid(7));
        let taken = TakenRing { purpose: 5, number: RingNumber(1), pid, tid, parent };
        let take = |areas: &mut Areas| areas.get_mut(slot).expect("there").take_rings();
        assert_eq!((take(&mut areas), take(&mut areas)), (vec![taken], Vec::new()));
        areas.ring_closed(slot, RingNumber(1));
        assert_eq!(take(&mut areas), [taken]);
        assert_eq!(areas.get(slot).and_then(|watched| watched.last(taken.parent)), Some(FIRST));
    }

    #[test]
    fn an_area_is_released_with_its_last_process_and_its_losses_are_kept() {
        let mut areas = Areas::default();
        areas.added(watched());
        areas.iter().for_each(|watched| watched.area.header().lost_events.store(3, Ordering::Relaxed));
        assert_eq!((areas.slot_of(FIRST), areas.slot_of(ProcessRow(1))), (Some(AreaSlot(0)), None));
        let mut asked = 0;
        areas.release(&mut PurposeList::default(), |_| asked += 1);
        assert_eq!((asked, areas.iter().count()), (0, 1), "a process still runs there");
        areas.process_ended(FIRST);
        areas.release(&mut PurposeList::default(), |_| asked += 1);
        assert_eq!((asked, areas.iter().count(), areas.lost_events()), (1, 0, 3));
        areas.added(watched());
        assert_eq!(areas.slots().count(), 1, "its slot is used again");
    }
}
