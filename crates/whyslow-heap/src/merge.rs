//! Events of several rings in the order of their time.
//!
//! A record's time is read before the record can be seen, and an address changes hands only after both: so when a reading of the
//! counter came before all rings were looked at, whatever is older than that reading, and has to do with an event
//! that was seen, was seen too. Only events up to that reading (the *horizon*) are counted; the others wait.
//!
//! Ticks are coarse and counters read a little early or late. So when an event contradicts what is known, and other rings have
//! events at nearly the same time, those are tried first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::event::Event;
use crate::ids::Tick;
use crate::ring::Ring;
use crate::tally::Applied;

/// Ticks that may be read in the wrong order: 8192 cycles. A processor reads the counter as soon as it meets the instruction, while
/// what comes before may still wait for memory several times.
const SLACK: u64 = 256;

/// How far to go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Events after this wait.
    pub horizon: Tick,
    /// No event is later than this.
    pub latest: Tick,
}

/// Puts events in order. The heap is kept to save its memory.
#[derive(Debug, Default)]
pub(crate) struct Merger {
    waiting: BinaryHeap<Reverse<(Tick, usize)>>,
    near: Vec<(Tick, usize)>,
}

impl Merger {
    /// Gives the events of all rings to `apply`, which says whether it took them. With the last argument set, it must.
    pub(crate) fn run(
        &mut self,
        rings: &mut [Ring],
        limits: Limits,
        mut apply: impl FnMut(&mut Ring, &Event, bool) -> Applied,
    ) -> u64 {
        let mut events = 0;
        self.waiting.clear();
        for (number, ring) in rings.iter_mut().enumerate() {
            if let Some(tick) = ring.peek(limits.latest)
                && tick <= limits.horizon
            {
                self.waiting.push(Reverse((tick, number)));
            }
        }
        while let Some(Reverse((_, number))) = self.waiting.pop() {
            let other = self.waiting.peek().map_or(Tick::MAX, |&Reverse((tick, _))| tick);
            let ring = &mut rings[number];
            while let Some(tick) = ring.peek(limits.latest) {
                if tick > other || tick > limits.horizon {
                    if tick <= limits.horizon {
                        self.waiting.push(Reverse((tick, number)));
                    }
                    break;
                }
                let event = ring.next();
                let alone = other.since(tick) > SLACK;
                if apply(ring, &event, alone) == Applied::Refused {
                    events += self.untangle(rings, number, event, limits, &mut apply);
                    break;
                }
                ring.pop();
                events += 1;
            }
        }
        events
    }

    /// Takes one event: that of another ring at nearly the same time, or this one.
    fn untangle(
        &mut self,
        rings: &mut [Ring],
        refused: usize,
        event: Event,
        limits: Limits,
        apply: &mut impl FnMut(&mut Ring, &Event, bool) -> Applied,
    ) -> u64 {
        self.near.clear();
        while let Some(&Reverse((tick, number))) = self.waiting.peek()
            && tick <= event.tick.plus(SLACK)
        {
            self.waiting.pop();
            self.near.push((tick, number));
        }
        let mut taken = false;
        for waiting in &mut self.near {
            let ring = &mut rings[waiting.1];
            if !taken && ring.peek(limits.latest).is_some() {
                let other = ring.next();
                taken = apply(ring, &other, false) != Applied::Refused;
                if taken {
                    ring.pop();
                    // It comes back with the time of its next event, or not at all.
                    waiting.0 = ring.peek(limits.latest).unwrap_or(Tick::MAX);
                }
            }
        }
        if !taken {
            let ring = &mut rings[refused];
            apply(ring, &event, true);
            ring.pop();
        }
        let again = rings[refused].peek(limits.latest).unwrap_or(Tick::MAX);
        self.near.push((again, refused));
        let ready = self.near.drain(..).filter(|&(tick, _)| tick <= limits.horizon && tick < Tick::MAX);
        self.waiting.extend(ready.map(Reverse));
        1
    }
}
