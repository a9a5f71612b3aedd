//! The rings that are read, and their events in time order.

use crate::event::Event;
use crate::ids::ProcessRow;
use crate::merge::{Limits, Merger};
use crate::processes::Processes;
use crate::ring::Ring;
use crate::tally::Applied;

/// All rings that are in use.
#[derive(Default)]
pub(super) struct Rings {
    rings: Vec<Ring>,
    merger: Merger,
    /// Closed rings that were given up.
    broken: u64,
}

impl Rings {
    pub(super) fn opened(&mut self, ring: Ring) {
        self.rings.push(ring);
    }

    pub(super) fn len(&self) -> usize {
        self.rings.len()
    }

    /// Reads how far all rings are written. Returns the number of words to read in the fullest.
    pub(super) fn refresh(&mut self) -> u64 {
        self.rings.iter_mut().map(Ring::refresh).max().unwrap_or(0)
    }

    /// Whether a ring holds at least this many words.
    pub(super) fn has_filled(&mut self, words: u64) -> bool {
        self.rings.iter_mut().any(|ring| ring.refresh() >= words)
    }

    /// Passes the events to `apply`, see [`Merger::run`], and publishes the read positions. Returns the
    /// number of events.
    pub(super) fn read(
        &mut self,
        limits: Limits,
        apply: impl FnMut(&mut Ring, &Event, bool) -> Applied,
    ) -> u64 {
        let events = self.merger.run(&mut self.rings, limits, apply);
        self.rings.iter_mut().for_each(Ring::publish);
        events
    }

    /// Takes out the rings of all processes except this one, which has exited, and reads how far its own
    /// rings are written.
    pub(super) fn set_others_aside(&mut self, process: ProcessRow) -> Vec<Ring> {
        let (its, others) =
            std::mem::take(&mut self.rings).into_iter().partition(|ring| ring.process == process);
        self.rings = its;
        for ring in &mut self.rings {
            ring.refresh();
            ring.closing = true;
        }
        others
    }

    /// Puts the other rings back.
    pub(super) fn put_back(&mut self, others: Vec<Ring>) {
        self.rings.extend(others);
    }

    /// Checks which threads have exited: their rings are closed after they have been read.
    pub(super) fn find_ended(&mut self, processes: &Processes) {
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

    /// Frees completely read rings of exited threads, and passes each to `closed`.
    pub(super) fn close_done(&mut self, mut closed: impl FnMut(&Ring)) {
        let broken = &mut self.broken;
        self.rings.retain(|ring| {
            let is_done = ring.closing && ring.is_done();
            if is_done {
                *broken += u64::from(ring.cursor.broken);
                ring.give_back();
                closed(ring);
            }
            !is_done
        });
    }

    /// Number of rings that were given up because their writers violate the protocol.
    pub(super) fn broken(&self) -> u64 {
        self.broken + self.rings.iter().filter(|ring| ring.cursor.broken).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use whyslow_agent_wire::area::ring;
    use whyslow_agent_wire::record::{self, op};

    use super::*;
    use crate::area::Area;
    use crate::ids::{Address, AreaSlot, OwnTid, RingNumber, ThreadRow, Tick};

    const ALL: Limits = Limits { horizon: Tick::MAX, latest: Tick::MAX };

    /// Two rings of two processes with one free each; the second process's is earlier.
    fn rings() -> (Arc<Area>, Rings) {
        let area = Arc::new(Area::create().expect("area"));
        let mut rings = Rings::default();
        for number in 0..2u32 {
            let index = number as usize;
            for (at, word) in
                [record::number(op::STAMP, 10 - u64::from(number)), record::head(op::FREE, 0, 0x10)]
                    .into_iter()
                    .enumerate()
            {
                area.words(index).expect("words")[at].store(word, Ordering::Relaxed);
            }
            let header = area.ring(index).expect("a ring");
            header.written.store(2, Ordering::Release);
            header.state.store(ring::LIVE, Ordering::Release);
            let (process, thread) = (ProcessRow(number), ThreadRow(number));
            let ring = Ring::new(&area, AreaSlot(0), RingNumber(number), process, thread, OwnTid(number))
                .expect("a ring");
            rings.opened(ring);
        }
        (area, rings)
    }

    #[test]
    fn merges_all_rings_by_time_and_publishes_read_positions() {
        let (area, mut rings) = rings();
        assert!(rings.has_filled(2) && !rings.has_filled(3));
        assert_eq!(rings.refresh(), 2);
        let mut seen = Vec::new();
        let events = rings.read(ALL, |ring, event, _| {
            seen.push((ring.process, event.tick, event.address));
            Applied::Known
        });
        let address = Address(0x10);
        assert_eq!(
            (events, seen),
            (2, vec![(ProcessRow(1), Tick(9), address), (ProcessRow(0), Tick(10), address)])
        );
        assert!(
            (0..2).all(|ring| area.ring(ring).is_some_and(|ring| ring.read.load(Ordering::Acquire) == 2))
        );
    }

    #[test]
    fn an_exited_process_is_read_to_its_end_before_others() {
        let (area, mut rings) = rings();
        let others = rings.set_others_aside(ProcessRow(0));
        assert_eq!((rings.read(ALL, |_, _, _| Applied::Known), others.len()), (1, 1));
        let mut closed = Vec::new();
        rings.close_done(|ring| closed.push(ring.process));
        rings.put_back(others);
        assert_eq!((closed, rings.len(), rings.broken()), (vec![ProcessRow(0)], 1, 0));
        assert_eq!(area.ring(0).map(|ring| ring.state.load(Ordering::Acquire)), Some(ring::FREE));
    }
}
