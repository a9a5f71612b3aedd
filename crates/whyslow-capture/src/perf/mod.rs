//! The kernel's perf event interface: samples, ring buffers and their records, and plain counters.

mod attr;
mod calls;
mod counter;
mod events;
mod layouts;
mod ring;

pub(crate) use attr::{Bound, Plan, extra_event_attr, leaving, waking};
pub(crate) use calls::{CALL_EVENTS, CallPoints, call_attr};
pub(crate) use counter::{Bound as CounterBound, Counter, CounterRings, LastCount};
pub(crate) use events::{EventRole, Events, ExtraEvent, OpenError, OpenEvent, RingKind, Scope, try_open};
pub(crate) use ring::Record;

#[cfg(test)]
pub(crate) mod testing;
