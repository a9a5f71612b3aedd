//! The threads of the program: each has a row on the board, and an event.
//!
//! ```text
//! find_all    all that exist: when the agent begins, and from time to time, for threads from `clone`
//! started     in a new thread, before its function
//! ended       at its end
//! ```

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use whyslow_agent_wire::causal::{MOST_THREADS, Thread};

use super::accounts::Account;
use super::board::Board;
use super::{breaks, event, own_tid};
use crate::arch::counter::counter;
use crate::arch::thread::ThreadWord;
use crate::sys;

/// The calling thread's row. `None` if it has none yet.
#[inline(always)]
pub fn mine(board: Board) -> Option<&'static Thread> {
    match ThreadWord::of_causal() {
        Some(word) => match word.get() {
            0 => find_mine(board),
            row => Some(board.thread(row as usize - 1)),
        },
        None => find(board, own_tid()).map(|row| board.thread(row)),
    }
}

#[cold]
fn find_mine(board: Board) -> Option<&'static Thread> {
    let row = find(board, own_tid())?;
    if let Some(word) = ThreadWord::of_causal() {
        word.set(row as u64 + 1);
    }
    Some(board.thread(row))
}

fn find(board: Board, tid: u32) -> Option<usize> {
    board.threads().position(|thread| thread.tid.load(Relaxed) == tid)
}

/// Gives each thread that has none a row and an event.
pub fn find_all(board: Board) {
    sys::each_thread(|tid| {
        if find(board, tid).is_none() {
            add(board, tid);
        }
    });
}

/// A row and an event for a thread that has none.
fn add(board: Board, tid: u32) -> Option<usize> {
    let claim = |row: &usize| board.thread(*row).tid.compare_exchange(0, tid, AcqRel, Relaxed).is_ok();
    let free = (0..MOST_THREADS).find(claim).or_else(|| {
        release_ended(board);
        (0..MOST_THREADS).find(claim)
    });
    let Some(row) = free else {
        board.shared().unsampled.fetch_add(1, Relaxed);
        return None;
    };
    board.shared().threads_used.fetch_max(row as u32 + 1, AcqRel);
    let thread = board.thread(row);
    for word in [&thread.round, &thread.delayed, &thread.apart, &thread.spun_ns] {
        word.store(0, Relaxed);
    }
    thread.busy.store(0, Relaxed);
    thread.cpu_ns.store(sys::cpu_time_of(tid), Relaxed);
    thread.looked.store(counter(), Relaxed);
    if let Err(error) = event::open(thread, tid, board.shared().period_ns.load(Relaxed)) {
        thread.tid.store(0, Relaxed);
        // It may have exited in the meantime.
        if sys::is_thread(tid) {
            board.shared().unsampled_error.store(error, Relaxed);
            board.shared().unsampled.fetch_add(1, Relaxed);
        }
        return None;
    }
    breaks::open(board, row, tid);
    Some(row)
}

fn release_ended(board: Board) {
    for thread in board.threads() {
        let tid = thread.tid.load(Acquire);
        if tid != 0 && !sys::is_thread(tid) && thread.tid.compare_exchange(tid, 0, AcqRel, Relaxed).is_ok() {
            event::close(thread);
            breaks::close(board, thread);
        }
    }
}

/// A thread has started: it is as late as the thread that started it, which has taken its delays before.
pub fn started() {
    let Some(board) = Board::get() else { return };
    let tid = own_tid();
    // A thread with this id may have ended unnoticed.
    if find(board, tid).is_some() {
        ended();
    }
    let Some(row) = add(board, tid) else { return };
    let thread = board.thread(row);
    if let Some(word) = ThreadWord::of_causal() {
        word.set(row as u64 + 1);
    }
    if let (Some(running), Some(account)) = (board.running(), Account::open(board, thread)) {
        account.start_late(running);
    }
}

/// The calling thread ends: whoever waits for it waits for its delays too.
pub fn ended() {
    let Some(board) = Board::get() else { return };
    let Some(thread) = mine(board) else { return };
    event::pause(thread);
    if let (Some(running), Some(account)) = (board.running(), Account::open(board, thread)) {
        account.spin(running);
    }
    if let Some(word) = ThreadWord::of_causal() {
        word.set(0);
    }
    event::close(thread);
    breaks::close(board, thread);
    thread.tid.store(0, Relaxed);
}

/// Closes all events.
pub fn close_all(board: Board) {
    for thread in board.threads() {
        event::close(thread);
        breaks::close(board, thread);
    }
}
