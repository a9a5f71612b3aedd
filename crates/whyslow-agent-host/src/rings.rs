//! The rings of one purpose, and their events in time order.

use crate::ids::{AreaSlot, OwnTid, ProcessRow, RingNumber, ThreadRow};
use crate::merge::{Limits, Merger};
use crate::processes::Processes;
use crate::ring::{Opened, Records, Ring};

/// A ring that was read to its end and freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    pub(crate) slot: AreaSlot,
    pub(crate) number: RingNumber,
    pub(crate) process: ProcessRow,
    pub(crate) thread: ThreadRow,
    pub(crate) tid: OwnTid,
}

/// Rings whose records the host cannot read: it only knows how far they are written and read.
pub trait RingSet {
    /// Starts to read a ring that a thread has taken. False if there is no such ring.
    fn open(&mut self, opened: Opened) -> bool;

    /// Number of rings that are read.
    fn len(&self) -> usize;

    /// Whether no ring is read.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads how far all rings are written. Returns the number of words to read in the fullest.
    fn refresh(&mut self) -> u64;

    /// Sets aside the rings of all processes except this one, which has exited, and reads how far its own
    /// rings are written.
    fn set_others_aside(&mut self, process: ProcessRow);

    /// Puts the other rings back.
    fn put_back(&mut self);

    /// Checks which threads have exited: their rings are closed after they have been read.
    fn find_ended(&mut self, processes: &Processes);

    /// Frees completely read rings of exited threads.
    fn close_done(&mut self) -> Vec<Closed>;
}

/// All rings of one purpose that are in use.
#[derive(Debug)]
pub struct Rings<R: Records> {
    rings: Vec<Ring<R>>,
    aside: Vec<Ring<R>>,
    merger: Merger,
    /// Closed rings that were given up.
    broken: u64,
}

impl<R: Records> Default for Rings<R> {
    fn default() -> Self {
        Self { rings: Vec::new(), aside: Vec::new(), merger: Merger::default(), broken: 0 }
    }
}

impl<R: Records> Rings<R> {
    /// Passes the events to `apply` in time order, and publishes the read positions. Returns the number of
    /// events. `apply` returns whether it took the event; if its last argument is set, it must take it.
    pub fn read(&mut self, limits: Limits, apply: impl FnMut(&mut Ring<R>, &R::Event, bool) -> bool) -> u64 {
        let events = self.merger.run(&mut self.rings, limits, apply);
        self.rings.iter_mut().for_each(Ring::publish);
        events
    }

    /// Number of rings that were given up because their writers violate the protocol.
    pub fn broken(&self) -> u64 {
        self.broken + self.rings.iter().filter(|ring| ring.cursor.broken).count() as u64
    }
}

impl<R: Records> RingSet for Rings<R> {
    fn open(&mut self, opened: Opened) -> bool {
        let ring = Ring::new(opened);
        let is_there = ring.is_some();
        self.rings.extend(ring);
        is_there
    }

    fn len(&self) -> usize {
        self.rings.len()
    }

    fn refresh(&mut self) -> u64 {
        self.rings.iter_mut().map(Ring::refresh).max().unwrap_or(0)
    }

    fn set_others_aside(&mut self, process: ProcessRow) {
        let (its, others) =
            std::mem::take(&mut self.rings).into_iter().partition(|ring| ring.process == process);
        self.rings = its;
        self.aside = others;
        for ring in &mut self.rings {
            ring.refresh();
            ring.closing = true;
        }
    }

    fn put_back(&mut self) {
        self.rings.append(&mut self.aside);
    }

    fn find_ended(&mut self, processes: &Processes) {
        for ring in &mut self.rings {
            let at = ring.cursor.at;
            let idle = ring.published_at_check == at && ring.is_done();
            ring.published_at_check = at;
            // A ring is read once more after its thread was found to have exited, to get its last records.
            ring.closing = ring.closing
                || processes.has_ended(ring.process)
                || (idle && processes.thread_has_ended(ring.process, ring.tid));
        }
    }

    fn close_done(&mut self) -> Vec<Closed> {
        let mut closed = Vec::new();
        let broken = &mut self.broken;
        self.rings.retain(|ring| {
            let is_done = ring.closing && ring.is_done();
            if is_done {
                *broken += u64::from(ring.cursor.broken);
                ring.give_back();
                let Ring { slot, number, process, thread, tid, .. } = *ring;
                closed.push(Closed { slot, number, process, thread, tid });
            }
            !is_done
        });
        closed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use proptest::prelude::*;
    use whyslow_agent_wire::area::{RING_WORDS, ring};

    use super::*;
    use crate::area::{Area, RingWords};
    use crate::ids::Tick;
    use crate::ring::{Cursor, Timed};

    const ALL: Limits = Limits { horizon: Tick::MAX, latest: Tick::MAX };

    /// Each word is a time.
    #[derive(Debug, Default)]
    struct Times;

    impl Timed for Tick {
        fn tick(&self) -> Tick {
            *self
        }
    }

    impl Records for Times {
        type Event = Tick;

        fn next(&mut self, cursor: &mut Cursor, words: &RingWords, latest: Tick) -> Option<Tick> {
            let word = words[cursor.at as usize % RING_WORDS].load(Ordering::Relaxed);
            (cursor.at != cursor.end).then(|| {
                cursor.at += 1;
                Tick(word).min(latest)
            })
        }
    }

    /// Rings of as many processes, with these times.
    fn rings(all: &[&[u64]]) -> (Arc<Area>, Rings<Times>) {
        let area = Arc::new(Area::create().expect("area"));
        let mut rings = Rings::default();
        for (number, times) in (0u32..).zip(all) {
            let index = number as usize;
            for (place, time) in area.words(index).expect("words").iter().zip(*times) {
                place.store(*time, Ordering::Relaxed);
            }
            let header = area.ring(index).expect("a ring");
            header.written.store(times.len() as u64, Ordering::Release);
            header.state.store(ring::LIVE, Ordering::Release);
            assert!(rings.open(Opened {
                area: Arc::clone(&area),
                slot: AreaSlot(0),
                number: RingNumber(number),
                process: ProcessRow(number),
                thread: ThreadRow(number),
                tid: OwnTid(number),
                forked_from: None,
            }));
        }
        rings.refresh();
        (area, rings)
    }

    #[test]
    fn merges_all_rings_by_time_and_publishes_read_positions() {
        let (area, mut rings) = rings(&[&[10, 30], &[9, 20]]);
        assert_eq!(rings.refresh(), 2);
        let mut seen = Vec::new();
        let events = rings.read(ALL, |ring, event, _| {
            seen.push((ring.process.0, event.0));
            true
        });
        assert_eq!((events, seen), (4, vec![(1, 9), (0, 10), (1, 20), (0, 30)]));
        assert!(
            (0..2).all(|ring| area.ring(ring).is_some_and(|ring| ring.read.load(Ordering::Acquire) == 2))
        );
    }

    #[test]
    fn a_refused_event_waits_for_others_at_nearly_the_same_time() {
        let (_, mut rings) = rings(&[&[10], &[11], &[100_000]]);
        let mut seen = Vec::new();
        rings.read(ALL, |ring, event, force| {
            let takes = force || ring.process != ProcessRow(0) || seen.contains(&11);
            if takes {
                seen.push(event.0);
            }
            takes
        });
        assert_eq!(seen, [11, 10, 100_000]);
    }

    #[test]
    fn events_after_the_horizon_wait() {
        let (_, mut rings) = rings(&[&[10, 30], &[20]]);
        let until = |tick| Limits { horizon: Tick(tick), latest: Tick::MAX };
        assert_eq!([20, 29, 30].map(|tick| rings.read(until(tick), |_, _, _| true)), [2, 0, 1]);
    }

    #[test]
    fn an_exited_process_is_read_to_its_end_before_others() {
        let (area, mut rings) = rings(&[&[10], &[9]]);
        rings.set_others_aside(ProcessRow(0));
        assert_eq!((rings.read(ALL, |_, _, _| true), rings.len()), (1, 1));
        let closed: Vec<ProcessRow> = rings.close_done().into_iter().map(|closed| closed.process).collect();
        rings.put_back();
        assert_eq!((closed, rings.len(), rings.broken()), (vec![ProcessRow(0)], 1, 0));
        assert_eq!(area.ring(0).map(|ring| ring.state.load(Ordering::Acquire)), Some(ring::FREE));
    }

    #[test]
    fn gives_up_an_overrun_ring() {
        let mut cursor = Cursor::new(10);
        cursor.extend(11 + RING_WORDS as u64);
        assert!(cursor.broken && cursor.at == cursor.end);
        let mut cursor = Cursor::new(10);
        cursor.extend(9);
        assert!(cursor.broken);
    }

    proptest! {
        #[test]
        fn every_event_is_passed_once_in_order(
            mut times in proptest::collection::vec(proptest::collection::vec(0u64..1000, 0..40), 1..4)
        ) {
            times.iter_mut().for_each(|times| times.sort_unstable());
            let all: Vec<&[u64]> = times.iter().map(Vec::as_slice).collect();
            let (_, mut rings) = rings(&all);
            let mut seen = Vec::new();
            rings.read(ALL, |_, event, _| { seen.push(event.0); true });
            let mut expected = times.concat();
            expected.sort_unstable();
            prop_assert_eq!(seen, expected);
        }
    }
}
