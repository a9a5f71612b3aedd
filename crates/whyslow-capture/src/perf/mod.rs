//! The kernel's sampling interface: events, rings and the records in them.

mod attr;
mod events;
mod layouts;
mod ring;

pub(crate) use attr::{Bound, Plan, leaving};
pub(crate) use events::{Beside, Events, OpenError, Scope};
pub(crate) use ring::Record;

#[cfg(test)]
pub(crate) mod testing;
