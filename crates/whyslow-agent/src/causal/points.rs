//! Progress points: visits of coz's counters, seen at samples, and of code, noted at each visit.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use whyslow_agent_wire::causal::{MOST_POINTS, Round, Visits, kind};

use super::accounts::Account;
use super::board::{Board, Running};
use super::threads;
use crate::arch::counter::counter;

/// The calling thread's account in the running round.
pub fn current() -> Option<(Board, Account, Running)> {
    let board = Board::get()?;
    let (running, thread) = (board.running()?, threads::mine(board)?);
    Some((board, Account::open(board, thread)?, running))
}

/// Notes the counters that have grown since they were last seen, at this thread's virtual time.
pub fn poll(board: Board, account: &Account, running: Running) {
    let count = (board.shared().points_used.load(Acquire) as usize).min(MOST_POINTS);
    for (row, visits) in running.round.visits.iter().enumerate().take(count) {
        let point = board.point(row);
        if !matches!(point.kind.load(Relaxed), kind::THROUGHPUT | kind::BEGIN | kind::END) {
            continue;
        }
        let (raw, seen) = (point.count.load(Relaxed), visits.seen.load(Relaxed));
        // One of the threads that see it at the same time counts it.
        if raw != seen
            && visits.seen.compare_exchange(seen, raw, Relaxed, Relaxed).is_ok()
            && let Some(time) = time_of_visit(account, running)
        {
            stamp(visits, time, raw.wrapping_sub(seen));
        }
    }
}

/// The common delay has grown. Whatever is in flight at this moment will have taken this delay, or is let off it.
pub fn delayed(board: Board, round: &Round, ticks: u64) {
    let count = (board.shared().points_used.load(Acquire) as usize).min(MOST_POINTS);
    // Ends before begins: what ends in between would be in flight less than zero times.
    for wanted in [kind::END, kind::BEGIN] {
        for (row, visits) in round.visits.iter().enumerate().take(count) {
            let point = board.point(row);
            if point.kind.load(Relaxed) == wanted {
                visits.delayed.fetch_add(point.count.load(Relaxed).wrapping_mul(ticks), Relaxed);
            }
        }
    }
}

/// Code that is a point is about to run. Its patch calls it, or the handler of its breakpoint.
pub extern "C" fn visited(point: usize) {
    let Some(board) = Board::get() else { return };
    let row = board.point(point);
    row.count.fetch_add(1, Relaxed);
    if row.kind.load(Relaxed) != kind::CODE {
        // What begins and ends is counted like coz's.
        return;
    }
    if let Some((_, account, running)) = current()
        && let Some(time) = time_of_visit(&account, running)
    {
        stamp(&running.round.visits[point % MOST_POINTS], time, 1);
    }
}

/// The thread's virtual time, unless the round is not measured yet.
fn time_of_visit(account: &Account, Running { number, round }: Running) -> Option<u64> {
    let now = counter();
    is_measured(round, now).then(|| now.saturating_sub(account.delayed(Running { number, round })))
}

fn is_measured(round: &Round, now: u64) -> bool {
    now >= round.measured_from.load(Relaxed)
}

fn stamp(visits: &Visits, time: u64, more: u64) {
    if visits.first.load(Relaxed) == 0 && visits.first.compare_exchange(0, time, Relaxed, Relaxed).is_ok() {
        // Those until the first stamp happened before it: the next ones are counted from there.
        visits.count.fetch_add(1, Relaxed);
    } else {
        visits.count.fetch_add(more, Relaxed);
    }
    visits.last.fetch_max(time, Relaxed);
}
