//! A handle on a recording while it runs: orders go in, progress and rows come out.
//!
//! ```text
//! Control  ── pause, resume, mark, stop ──►  the session, between two drains
//! Control  ◄── how long, how many samples ──
//! Watch    ◄── every row, before it is written
//! ```
//! Signals, the end of the duration and the exit of attached processes give the same orders.

use std::fmt::{self, Debug};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use whyslow_profile::Builder;

use crate::{Options, RecordError, Recording, Target, session};

/// Something to do for a running recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Take no samples, waits and system calls until [`Order::Resume`]. Processes and the heap are still
    /// followed.
    Pause,
    /// End a pause.
    Resume,
    /// Add a moment with this name.
    Mark(String),
    /// End the recording. A program that was started runs on.
    Stop,
}

/// How far a recording is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The time since its start, with pauses.
    pub elapsed: Duration,
    /// The number of samples of all metrics.
    pub samples: u64,
    /// Whether it is paused.
    pub is_paused: bool,
}

/// Steers a recording from any thread. Clones steer the same recording.
#[derive(Debug, Clone)]
pub struct Control(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    orders: Mutex<Vec<Order>>,
    /// Readable while there are orders.
    wakes: OwnedFd,
    progress: Mutex<Progress>,
}

impl Control {
    fn new() -> io::Result<Self> {
        let wakes = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(Shared { orders: Mutex::default(), wakes, progress: Mutex::default() })))
    }

    /// Gives an order. Orders are carried out in turn, after at most one drain. Those that come too late have
    /// no effect.
    pub fn give(&self, order: Order) {
        let mut orders = self.orders();
        orders.push(order);
        // It fails only if it is readable already.
        let _ = rustix::io::write(&self.0.wakes, &1_u64.to_ne_bytes());
    }

    /// How far the recording is.
    pub fn progress(&self) -> Progress {
        *self.0.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Becomes readable when there are orders.
    pub(crate) fn fd(&self) -> RawFd {
        self.0.wakes.as_raw_fd()
    }

    /// The orders since the last call.
    pub(crate) fn take(&self) -> Vec<Order> {
        let mut orders = self.orders();
        if !orders.is_empty() {
            let _ = rustix::io::read(&self.0.wakes, &mut [0; 8]);
        }
        std::mem::take(&mut *orders)
    }

    pub(crate) fn report(&self, progress: Progress) {
        *self.0.progress.lock().unwrap_or_else(PoisonError::into_inner) = progress;
    }

    fn orders(&self) -> MutexGuard<'_, Vec<Order>> {
        self.0.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks at the rows of a recording while it runs.
pub trait Watch {
    /// Looks at the rows that are written next: about once a second, and at the end. Each row is seen once.
    fn rows(&mut self, rows: &Builder);
}

/// A recording that has not started yet.
pub struct Recorder {
    pub(crate) control: Control,
    pub(crate) watch: Option<Box<dyn Watch>>,
}

impl Debug for Recorder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Recorder").field("control", &self.control).finish_non_exhaustive()
    }
}

impl Recorder {
    /// Prepares a recording.
    pub fn new() -> Result<Self, RecordError> {
        let control =
            Control::new().map_err(|error| RecordError::System { what: "no event descriptor", error })?;
        Ok(Self { control, watch: None })
    }

    /// Steers this recording.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Shows the recording's rows to `watch`.
    pub fn watched_by(self, watch: Box<dyn Watch>) -> Self {
        Self { watch: Some(watch), ..self }
    }

    /// Records, as [`crate::record`] does.
    pub fn record(self, target: &Target, options: &Options, output: &Path) -> Result<Recording, RecordError> {
        session::record(self, target, options, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_readable(control: &Control) -> bool {
        let mut wait = [libc::pollfd { fd: control.fd(), events: libc::POLLIN, revents: 0 }];
        crate::signals::poll(&mut wait, 0);
        wait[0].revents & libc::POLLIN != 0
    }

    #[test]
    fn orders_wake_the_recorder_and_are_taken_once_in_turn() {
        let control = Control::new().unwrap();
        assert!(!is_readable(&control) && control.take().is_empty());
        let other = control.clone();
        other.give(Order::Pause);
        other.give(Order::Mark("half".to_owned()));
        assert!(is_readable(&control));
        assert_eq!(control.take(), [Order::Pause, Order::Mark("half".to_owned())]);
        assert!(!is_readable(&control) && control.take().is_empty());
    }
}
