//! The kernel's sampling interface: events, rings and the records in them.

mod attr;
mod events;
mod layouts;
mod ring;

pub(crate) use attr::{Bound, Plan};
pub(crate) use events::{Events, OpenError, Scope};
pub(crate) use ring::Record;

#[cfg(test)]
pub(crate) mod testing;
