//! Hardware breakpoints: code that is a progress point and cannot be patched. Each thread has an event for each of them,
//! whose signal says that the thread is about to run the instruction.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};

use whyslow_agent_wire::causal::{MOST_BREAKPOINTS, MOST_THREADS, Thread};

use super::board::Board;
use crate::interrupt::SIGNAL;
use crate::sys::{self, PerfEvent};

/// An instruction, and its point.
struct Break {
    address: AtomicU64,
    point: AtomicU32,
}

static BREAKS: [Break; MOST_BREAKPOINTS] =
    [const { Break { address: AtomicU64::new(0), point: AtomicU32::new(0) } }; MOST_BREAKPOINTS];
/// How many there are.
static USED: AtomicU32 = AtomicU32::new(0);

/// The descriptors of each thread's events, plus one; 0 for none.
static EVENTS: [[AtomicU32; MOST_BREAKPOINTS]; MOST_THREADS] =
    [const { [const { AtomicU32::new(0) }; MOST_BREAKPOINTS] }; MOST_THREADS];

/// Threads that are found from now on get this breakpoint.
pub fn add(address: u64, point: u32) {
    let used = USED.load(Relaxed) as usize;
    if let Some(row) = BREAKS.get(used) {
        row.address.store(address, Relaxed);
        row.point.store(point, Relaxed);
        USED.store(used as u32 + 1, Release);
    }
}

fn breaks() -> &'static [Break] {
    &BREAKS[..(USED.load(Acquire) as usize).min(MOST_BREAKPOINTS)]
}

/// Opens the events of the thread with this row and id.
pub fn open(board: Board, row: usize, tid: u32) {
    for (row, descriptor) in breaks().iter().zip(&EVENTS[row % MOST_THREADS]) {
        match PerfEvent::at(tid, row.address.load(Relaxed)) {
            Ok(event) => {
                descriptor.store(event.descriptor() as u32 + 1, Relaxed);
                event.signal_thread(tid, SIGNAL);
                event.enable();
            }
            Err(error) => {
                board.shared().unwatched_error.store(error as u32, Relaxed);
                board.shared().unwatched.fetch_add(1, Relaxed);
            }
        }
    }
}

/// The point whose event has this descriptor, if it is one of the thread's breakpoints.
pub fn point_of(board: Board, thread: &'static Thread, descriptor: i32) -> Option<usize> {
    let own = &EVENTS[board.row_of(thread)];
    let place = own.iter().position(|event| event.load(Relaxed) == descriptor.cast_unsigned() + 1)?;
    breaks().get(place).map(|row| row.point.load(Relaxed) as usize)
}

/// Closes the events of a thread.
pub fn close(board: Board, thread: &'static Thread) {
    for event in &EVENTS[board.row_of(thread)] {
        let event = event.swap(0, Relaxed);
        if event != 0 {
            sys::close(event as i32 - 1);
        }
    }
}
