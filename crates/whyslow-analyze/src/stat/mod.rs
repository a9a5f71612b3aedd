//! Counted numbers, each with a short explanation. Pure functions over a [`Measured`].
//!
//! No number is called good or bad: what is usual differs between programs and machines. Instead numbers are
//! related to each other: CPU time to wall time, misses to instructions, parts to their whole.

mod hardware;
mod notes;
mod numbers;
mod series;
mod spread;

pub use notes::{CountNote, Permission, why_not};
pub use numbers::{Scope, numbers};
pub use series::{Interval, ThreadRow, intervals, threads};
pub use spread::{Spread, spreads};
use whyslow_events::{Count, CountedEvent, Measured, Reading};

/// The unit of a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NumberUnit {
    /// A time.
    Nanoseconds,
    /// A size.
    Bytes,
    /// Occurrences.
    Count,
    /// A ratio of two numbers, without a unit.
    Ratio,
    /// Occurrences per thousand instructions.
    PerThousandInstructions,
    /// A part of 1.
    Share,
    /// The machine's own name for the unit.
    Other(String),
}

impl NumberUnit {
    /// The word used in JSON.
    pub fn label(&self) -> &str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Bytes => "bytes",
            Self::Count => "count",
            Self::Ratio => "ratio",
            Self::PerThousandInstructions => "per-thousand-instructions",
            Self::Share => "share",
            Self::Other(unit) => unit,
        }
    }
}

/// One number.
#[derive(Debug, Clone, PartialEq)]
pub struct Number {
    /// A name that never changes; the event's name if the user requested the event.
    pub name: String,
    /// Its label in text.
    pub label: String,
    /// Its unit.
    pub unit: NumberUnit,
    /// The number.
    pub value: f64,
    /// Whether the value is only an upper bound.
    pub at_most: bool,
    /// The share of the time in which its counters were active, the smallest if there are several; the rest
    /// is estimated.
    pub running_share: Option<f64>,
    /// Whether the kernel is not counted.
    pub user_only: bool,
    /// The explanation, one sentence without a full stop.
    pub suggests: String,
}

impl Number {
    fn new(name: &str, label: &str, unit: NumberUnit, value: f64, suggests: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            label: label.to_owned(),
            unit,
            value,
            at_most: false,
            running_share: None,
            user_only: false,
            suggests: suggests.into(),
        }
    }
}

/// A counted event in a reading.
#[derive(Debug, Clone, Copy)]
struct Seen<'a> {
    event: &'a CountedEvent,
    count: Count,
}

impl Seen<'_> {
    /// The count scaled to the whole time, in the event's unit.
    fn value(&self) -> Option<f64> {
        self.count.estimate().map(|value| value * self.event.event.scale)
    }

    fn is_user_only(&self) -> bool {
        self.event.state == Ok(true)
    }
}

/// The first counted event with this name.
fn seen<'a>(measured: &'a Measured, reading: &'a Reading, name: &str) -> Option<Seen<'a>> {
    measured.events.iter().zip(&reading.counts).find_map(|(event, count)| {
        Some(Seen { event, count: (*count)? }).filter(|_| event.event.name == name)
    })
}

/// The value of an event that was counted completely: in the kernel and in all programs.
fn whole(measured: &Measured, reading: &Reading, name: &str) -> Option<f64> {
    if measured.uncounted_ns > 0 {
        return None;
    }
    seen(measured, reading, name).filter(|seen| !seen.is_user_only())?.value()
}

#[cfg(test)]
mod testing {
    use whyslow_events::{Count, CountedEvent, Machine, Measured, NotCounted, Reading, Usage};

    /// A run with these events and values, completely counted.
    pub(super) fn measured(events: &[(&str, u64)]) -> Measured {
        let counts: Vec<_> = events.iter().map(|(name, value)| (*name, Ok(*value))).collect();
        with_states(&counts)
    }

    /// The same with events that were not counted.
    pub(super) fn with_states(events: &[(&str, Result<u64, NotCounted>)]) -> Measured {
        let machine = Machine::under(std::path::Path::new("/nowhere"));
        let event = |name: &str| machine.event(name).unwrap_or_else(|| panic!("{name}"));
        let count = |value| Count { value, enabled_ns: 1_000_000, running_ns: 1_000_000 };
        Measured {
            duration_ns: 2_000_000_000,
            events: events
                .iter()
                .map(|(name, state)| CountedEvent { event: event(name), state: state.map(|_| false) })
                .collect(),
            total: Reading {
                at_ns: 2_000_000_000,
                usage: Usage::default(),
                counts: events.iter().map(|(_, state)| state.ok().map(count)).collect(),
            },
            series: Vec::new(),
            threads: Vec::new(),
            cpus: 4,
            whole_machine: false,
            uncounted_ns: 0,
        }
    }
}
