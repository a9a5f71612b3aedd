//! A signal of an event: the thread was interrupted after a period of its own CPU time, or at a breakpoint.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use whyslow_agent_wire::causal::{MOST_RANGES, Round, Thread, reach};
use whyslow_selfwalk::Registers;

use super::accounts::Account;
use super::board::{Board, Running};
use super::{breaks, callers, event, is_over, points, stop, threads};
use crate::arch::counter::counter;
use crate::arch::signals::Context;
use crate::interrupt;
use crate::signals::Info;
use crate::sys;

/// Threads from `clone` are looked for each time this many samples were taken.
const SEARCH_EVERY: u64 = 1024;

/// # Safety
/// Only the kernel calls it.
pub unsafe extern "C" fn handler(signal: i32, info: *const Info, context: *mut Context) {
    // SAFETY: the kernel put both on the stack above this frame.
    let (is_from_kernel, descriptor, interrupted) =
        unsafe { ((*info).is_from_kernel(), (*info).descriptor(), (*context).frame()) };
    if !is_from_kernel {
        // SAFETY: the kernel's own arguments.
        unsafe { interrupt::pass_on(signal, info, context) };
        return;
    }
    let Some(board) = Board::get() else { return };
    if is_over() {
        stop(board);
        return;
    }
    let Some(thread) = threads::mine(board) else { return };
    if let Some(point) = breaks::point_of(board, thread, descriptor) {
        points::visited(point);
        return;
    }
    if let Some(account) = Account::open(board, thread) {
        sample(board, &account, interrupted);
    }
    // Without a collector there is no point in samples.
    if board.is_attended() {
        event::once_more(thread, board.shared().period_ns.load(Relaxed));
    }
}

/// What the thread did since its last sample.
struct Since {
    now: u64,
    /// Its own CPU time, without delays.
    own_ns: u64,
    /// Time that it neither ran nor waited in a hook: for a processor, or in a call without a hook.
    off: u64,
}

impl Since {
    fn read(board: Board, thread: &Thread) -> Self {
        let (now, cpu_ns) = (counter(), sys::cpu_time());
        let ran_ns = cpu_ns.saturating_sub(thread.cpu_ns.load(Relaxed));
        let passed = now.saturating_sub(thread.looked.load(Relaxed));
        // The processor time of delays is in `apart` as well.
        let spun = board.ticks(thread.spun_ns.load(Relaxed));
        let on_or_apart = board.ticks(ran_ns).saturating_add(thread.apart.load(Relaxed));
        let off = passed.saturating_add(spun).saturating_sub(on_or_apart);
        thread.cpu_ns.store(cpu_ns, Relaxed);
        thread.looked.store(now, Relaxed);
        let own_ns = ran_ns.saturating_sub(thread.spun_ns.load(Relaxed));
        thread.apart.store(0, Relaxed);
        thread.spun_ns.store(0, Relaxed);
        Self { now, own_ns, off: off.min(passed) }
    }
}

fn sample(board: Board, account: &Account, interrupted: Registers) {
    let thread = account.thread();
    board.keep_address(interrupted.pc);
    if board.shared().sampled.load(Relaxed).is_multiple_of(SEARCH_EVERY) {
        threads::find_all(board);
    }
    let since = Since::read(board, thread);
    let Some(running @ Running { round, .. }) = board.running() else { return };
    // Of a round that has just begun, only the time in it counts.
    let in_round = since.now.saturating_sub(round.started.load(Relaxed));
    let own = board.ticks(since.own_ns).min(in_round);
    account.credit(running, since.off.min(in_round));
    let is_measured = since.now >= round.measured_from.load(Relaxed);
    let reach = round.reach.load(Relaxed);
    let by_callers = reach != reach::OWN && callers::lead_to_target(board, round, interrupted);
    let is_hit = if reach == reach::CALLEES { by_callers } else { holds(round, interrupted.pc) };
    if is_hit {
        account.hit(running, own);
    } else if account.owes(running) {
        account.spin(running);
        // The delay is none of the thread's own time.
        thread.looked.store(counter(), Relaxed);
        thread.cpu_ns.store(sys::cpu_time(), Relaxed);
    }
    if is_measured {
        round.samples.fetch_add(1, Relaxed);
        round.sample_ns.fetch_add(since.own_ns, Relaxed);
        if is_hit {
            round.hits.fetch_add(1, Relaxed);
            round.hit_ns.fetch_add(since.own_ns, Relaxed);
        }
    }
    points::poll(board, account, running);
}

/// Whether an address is in the target.
pub fn holds(round: &Round, address: u64) -> bool {
    let used = (round.ranges_used.load(Acquire) as usize).min(MOST_RANGES);
    let ranges = &round.ranges[..used];
    let after = ranges.partition_point(|[start, _]| start.load(Relaxed) <= address);
    after.checked_sub(1).is_some_and(|last| address < ranges[last][1].load(Relaxed))
}
