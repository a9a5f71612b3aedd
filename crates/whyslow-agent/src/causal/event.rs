//! A thread's event: after each period of its CPU time in user mode, a signal.

use core::sync::atomic::Ordering::Relaxed;

use whyslow_agent_wire::causal::Thread;

use crate::interrupt::SIGNAL;
use crate::sys::{self, PerfEvent};

/// Opens the event of a thread of this process. The error number on failure.
pub fn open(thread: &Thread, tid: u32, period_ns: u64) -> Result<(), u32> {
    let event = PerfEvent::open(tid, period_ns).map_err(|error| error as u32)?;
    event.signal_thread(tid, SIGNAL);
    thread.period_us.store((period_ns / 1000) as u32, Relaxed);
    thread.event.store(event.descriptor() as u32 + 1, Relaxed);
    event.once();
    Ok(())
}

fn of(thread: &Thread) -> Option<PerfEvent> {
    let event = thread.event.load(Relaxed);
    // A descriptor that `open` has stored.
    (event != 0).then(|| PerfEvent::of_descriptor(event as i32 - 1))
}

/// Lets it expire once more, a period from now.
pub fn once_more(thread: &Thread, period_ns: u64) {
    let Some(event) = of(thread) else { return };
    let period_us = (period_ns / 1000) as u32;
    if thread.period_us.load(Relaxed) != period_us {
        thread.period_us.store(period_us, Relaxed);
        event.set_period(period_ns);
    }
    event.once();
}

/// The thread's time does not count until [`go_on`].
pub fn pause(thread: &Thread) {
    if let Some(event) = of(thread) {
        event.disable();
    }
}

pub fn go_on(thread: &Thread) {
    if let Some(event) = of(thread) {
        event.enable();
    }
}

/// Closes it.
pub fn close(thread: &Thread) {
    let event = thread.event.swap(0, Relaxed);
    if event != 0 {
        sys::close(event as i32 - 1);
    }
}
