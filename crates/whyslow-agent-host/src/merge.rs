//! Merges the events of several rings in time order.
//!
//! A record's time is read before the record becomes visible, and an address reaches another thread only
//! after both. So if the counter is read before all rings are, then everything that is older than that
//! reading and related to a visible event is visible too. Only events up to that reading (the *horizon*) are
//! counted; later ones wait.
//!
//! Ticks are coarse, and processors read the counter a little early or late. So when an event contradicts the
//! known state, and other rings have events at nearly the same time, those are tried first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::ids::Tick;
use crate::ring::{Records, Ring, Timed};

/// Ticks that may be out of order: 8192 cycles. A processor reads the counter as soon as it reaches the
/// instruction, while earlier instructions may still wait for memory several times.
const SLACK: u64 = 256;

/// How far to go.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Later events wait.
    pub horizon: Tick,
    /// No event is later than this.
    pub latest: Tick,
}

/// Merges events. The heap is kept to reuse its memory.
#[derive(Debug, Default)]
pub(crate) struct Merger {
    waiting: BinaryHeap<Reverse<(Tick, usize)>>,
    near: Vec<(Tick, usize)>,
}

impl Merger {
    /// Passes the events of all rings to `apply`, which returns whether it took them. If its last argument is
    /// set, it must take them.
    pub(crate) fn run<R: Records>(
        &mut self,
        rings: &mut [Ring<R>],
        limits: Limits,
        mut apply: impl FnMut(&mut Ring<R>, &R::Event, bool) -> bool,
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
                if !apply(ring, &event, alone) {
                    events += self.untangle(rings, number, event, limits, &mut apply);
                    break;
                }
                ring.pop();
                events += 1;
            }
        }
        events
    }

    /// Takes one event: another ring's at nearly the same time, or this one.
    fn untangle<R: Records>(
        &mut self,
        rings: &mut [Ring<R>],
        refused: usize,
        event: R::Event,
        limits: Limits,
        apply: &mut impl FnMut(&mut Ring<R>, &R::Event, bool) -> bool,
    ) -> u64 {
        self.near.clear();
        while let Some(&Reverse((tick, number))) = self.waiting.peek()
            && tick <= event.tick().plus(SLACK)
        {
            self.waiting.pop();
            self.near.push((tick, number));
        }
        let mut taken = false;
        for waiting in &mut self.near {
            let ring = &mut rings[waiting.1];
            if !taken && ring.peek(limits.latest).is_some() {
                let other = ring.next();
                taken = apply(ring, &other, false);
                if taken {
                    ring.pop();
                    // The ring is queued again at the time of its next event, if it has one.
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
