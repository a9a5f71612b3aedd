//! Experiments: the threads of the program delay themselves, as if code of the collector's choice were faster.
//!
//! ```text
//! board     the shared memory
//! accounts  a thread's delays: what it took, what it owes, what it need not take
//! threads   which thread has which accounts, and its event
//! event     samples of a thread's own CPU time, by a signal
//! handler   a sample: hit the target, or take the delay
//! callers   whether the target called what a sample is in
//! waits     hooks: what blocks, sleeps and wakes
//! points    progress: visits of counters and code, coz: the functions that its programs call
//! breaks    progress: hardware breakpoints where code cannot be patched
//! ```
//! Every thread has to take the common delay. A sample in the target lets its thread off for a part of the time
//! that the sample stands for, and the common delay grows to what the thread was let off. Others take it: while
//! they run, they spin in the handler. While they were blocked and another thread woke them, they have taken it
//! already, because that thread was late by it. A sleep gets longer by it.

mod accounts;
mod board;
pub mod breaks;
mod callers;
#[cfg(feature = "causal")]
mod coz;
mod event;
mod handler;
pub mod points;
mod threads;
pub mod waits;

use core::sync::atomic::Ordering::Relaxed;

use crate::area::Area;
use crate::{interrupt, sys};

pub use board::Board;
pub use threads::{ended, started};

/// Begins. The area's file is still open.
pub fn begin(file: i32) {
    let Some(board) = Board::map(file) else { return };
    if board.shared().period_ns.load(Relaxed) == 0 {
        // A child: only the program itself is experimented on.
        return;
    }
    board.publish();
    interrupt::take(handler::handler);
    threads::find_all(board);
}

/// Whether experiments may run in this process.
pub fn is_on() -> bool {
    Board::get().is_some()
}

/// In a forked child, which is not experimented on.
pub fn forked() {
    if let Some(board) = Board::get() {
        board.shared().forks.fetch_add(1, Relaxed);
        Board::give_up();
    }
}

/// The program is about to forbid itself system calls.
pub fn confined() {
    if let Some(board) = Board::get() {
        board.shared().confined.store(1, Relaxed);
        stop(board);
    }
}

/// Stops for good.
fn stop(board: Board) {
    Board::give_up();
    threads::close_all(board);
}

/// Whether the recording is over.
fn is_over() -> bool {
    !Area::get().is_some_and(Area::enabled)
}

/// The calling thread's id.
fn own_tid() -> u32 {
    sys::thread()
}
