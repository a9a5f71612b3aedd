//! Hooks for libc's functions that block, sleep and wake, patched at their starts.
//!
//! ```text
//! locked   blocks until another thread acts: the time counts as delay
//! parted   the same, and may let another thread go on first
//! timed    the same, unless the time was up: then the delay is taken
//! wakes    lets another thread go on: the delay is taken before
//! slept    blocks for a time, or until something outside happens: the delay is taken after
//! futex    all of these, for code that calls the kernel through libc's `syscall`
//! ```

use core::mem;
use core::sync::atomic::Ordering::Relaxed;

use whyslow_agent_wire::handshake::hook;

use super::accounts::Account;
use super::board::Board;
use super::threads;
use crate::arch::counter::counter;
use crate::real;

/// A shorter call, in ticks, did not block.
const BLOCKED: u64 = 4_000;
/// A shorter call for input or output did not block.
const SLEPT: u64 = 40_000;
const ETIMEDOUT: u64 = 110;

/// Takes what the calling thread owes.
#[inline(always)]
pub fn pay() {
    if let Some(board) = Board::get()
        && let Some(running) = board.running()
        && running.round.delay.load(Relaxed) != 0
        && let Some(thread) = threads::mine(board)
        && let Some(account) = Account::open(board, thread)
        && account.owes(running)
    {
        account.spin_unsampled(running);
    }
}

/// How a blocking call ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blocked {
    /// Another thread let it go on.
    Woken,
    /// Nobody in the program did.
    Slept,
}

#[inline(always)]
fn around(call: impl FnOnce() -> u64, how: impl FnOnce(u64) -> Blocked) -> u64 {
    let Some(board) = Board::get() else { return call() };
    let start = counter();
    let result = call();
    let spent = counter().saturating_sub(start);
    if spent > BLOCKED {
        blocked(board, spent, how(result));
    }
    result
}

#[cold]
fn blocked(board: Board, spent: u64, how: Blocked) {
    if how == Blocked::Slept && spent < SLEPT {
        return;
    }
    let Some(thread) = threads::mine(board) else { return };
    let Some(account) = Account::open(board, thread) else { return };
    account.spent(spent);
    let Some(running) = board.running() else { return };
    match how {
        Blocked::Woken => {
            running.round.waits.fetch_add(1, Relaxed);
            account.credit(running, spent);
        }
        Blocked::Slept => {
            if account.owes(running) {
                account.sleep(running);
            }
        }
    }
}

/// # Safety
/// The arguments are the program's own for the function of this hook.
#[inline(always)]
unsafe fn real<const HOOK: usize>(arguments: [u64; 6]) -> u64 {
    match real::of(HOOK) {
        // SAFETY: the hooked function. The caller guarantees the arguments.
        Some(real) => unsafe { real.call(arguments) },
        None => u64::MAX,
    }
}

/// # Safety
/// Same as the hooked function's.
pub unsafe extern "C" fn locked<const HOOK: usize>(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> u64 {
    // SAFETY: the caller's own arguments.
    around(|| unsafe { real::<HOOK>([a, b, c, d, e, f]) }, |_| Blocked::Woken)
}

/// # Safety
/// Same as the hooked function's.
pub unsafe extern "C" fn parted<const HOOK: usize>(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> u64 {
    pay();
    // SAFETY: the caller's own arguments.
    unsafe { locked::<HOOK>(a, b, c, d, e, f) }
}

/// # Safety
/// Same as the hooked function's.
pub unsafe extern "C" fn timed<const HOOK: usize>(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> u64 {
    pay();
    // SAFETY: the caller's own arguments.
    around(
        || unsafe { real::<HOOK>([a, b, c, d, e, f]) },
        |result| {
            let is_up = matches!(result as i32 as u64, ETIMEDOUT) || result as i32 == -1;
            if is_up { Blocked::Slept } else { Blocked::Woken }
        },
    )
}

/// # Safety
/// Same as the hooked function's.
pub unsafe extern "C" fn wakes<const HOOK: usize>(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> u64 {
    pay();
    // SAFETY: the caller's own arguments.
    unsafe { real::<HOOK>([a, b, c, d, e, f]) }
}

/// # Safety
/// Same as the hooked function's.
pub unsafe extern "C" fn slept<const HOOK: usize>(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> u64 {
    // SAFETY: the caller's own arguments.
    around(|| unsafe { real::<HOOK>([a, b, c, d, e, f]) }, |_| Blocked::Slept)
}

/// Operations of a futex.
mod operation {
    pub const MASK: u64 = 0x7f;
    pub const WAIT: u64 = 0;
    pub const WAKE: u64 = 1;
    pub const REQUEUE: u64 = 3;
    pub const CMP_REQUEUE: u64 = 4;
    pub const WAKE_OP: u64 = 5;
    pub const LOCK_PI: u64 = 6;
    pub const UNLOCK_PI: u64 = 7;
    pub const WAIT_BITSET: u64 = 9;
    pub const WAKE_BITSET: u64 = 10;
    pub const LOCK_PI2: u64 = 13;
}

/// libc's `syscall` for a futex.
///
/// # Safety
/// Same as libc's.
pub unsafe extern "C" fn futex(
    number: u64,
    at: u64,
    op: u64,
    value: u64,
    time: u64,
    at2: u64,
    value3: u64,
) -> u64 {
    const FAILED: u64 = u64::MAX;
    let Some(real) = real::of(hook::SYSCALL) else { return FAILED };
    // SAFETY: libc's `syscall`, or its moved start.
    let real: unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64) -> u64 =
        unsafe { mem::transmute(real.address()) };
    // SAFETY: the caller's own arguments.
    let call = || unsafe { real(number, at, op, value, time, at2, value3) };
    use operation::{
        CMP_REQUEUE, LOCK_PI, LOCK_PI2, MASK, REQUEUE, UNLOCK_PI, WAIT, WAIT_BITSET, WAKE, WAKE_BITSET,
        WAKE_OP,
    };
    match op & MASK {
        WAIT | WAIT_BITSET | LOCK_PI | LOCK_PI2 => around(call, |result| {
            // It fails if the time is up. It also fails at once if the value has changed, which is no wait.
            if result == FAILED && time != 0 { Blocked::Slept } else { Blocked::Woken }
        }),
        WAKE | WAKE_BITSET | WAKE_OP | REQUEUE | CMP_REQUEUE | UNLOCK_PI => {
            pay();
            call()
        }
        _ => call(),
    }
}

type Hook = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64) -> u64;

/// All hooks but that of `syscall`.
pub const HOOKS: &[(usize, Hook)] = &[
    (hook::JOIN, locked::<{ hook::JOIN }>),
    (hook::MUTEX_LOCK, locked::<{ hook::MUTEX_LOCK }>),
    (hook::MUTEX_UNLOCK, wakes::<{ hook::MUTEX_UNLOCK }>),
    (hook::MUTEX_TIMEDLOCK, timed::<{ hook::MUTEX_TIMEDLOCK }>),
    (hook::COND_WAIT, parted::<{ hook::COND_WAIT }>),
    (hook::COND_TIMEDWAIT, timed::<{ hook::COND_TIMEDWAIT }>),
    (hook::COND_CLOCKWAIT, timed::<{ hook::COND_CLOCKWAIT }>),
    (hook::COND_SIGNAL, wakes::<{ hook::COND_SIGNAL }>),
    (hook::COND_BROADCAST, wakes::<{ hook::COND_BROADCAST }>),
    (hook::READ_LOCK, locked::<{ hook::READ_LOCK }>),
    (hook::WRITE_LOCK, locked::<{ hook::WRITE_LOCK }>),
    (hook::RW_UNLOCK, wakes::<{ hook::RW_UNLOCK }>),
    (hook::BARRIER_WAIT, parted::<{ hook::BARRIER_WAIT }>),
    (hook::SEM_WAIT, locked::<{ hook::SEM_WAIT }>),
    (hook::SEM_TIMEDWAIT, timed::<{ hook::SEM_TIMEDWAIT }>),
    (hook::SEM_POST, wakes::<{ hook::SEM_POST }>),
    (hook::NANOSLEEP, slept::<{ hook::NANOSLEEP }>),
    (hook::CLOCK_NANOSLEEP, slept::<{ hook::CLOCK_NANOSLEEP }>),
    (hook::POLL, slept::<{ hook::POLL }>),
    (hook::PPOLL, slept::<{ hook::PPOLL }>),
    (hook::SELECT, slept::<{ hook::SELECT }>),
    (hook::EPOLL_WAIT, slept::<{ hook::EPOLL_WAIT }>),
    (hook::EPOLL_PWAIT, slept::<{ hook::EPOLL_PWAIT }>),
    (hook::READ, slept::<{ hook::READ }>),
    (hook::WRITE, slept::<{ hook::WRITE }>),
    (hook::RECV, slept::<{ hook::RECV }>),
    (hook::RECVFROM, slept::<{ hook::RECVFROM }>),
    (hook::RECVMSG, slept::<{ hook::RECVMSG }>),
    (hook::SEND, slept::<{ hook::SEND }>),
    (hook::SENDTO, slept::<{ hook::SENDTO }>),
    (hook::SENDMSG, slept::<{ hook::SENDMSG }>),
    (hook::ACCEPT, slept::<{ hook::ACCEPT }>),
    (hook::ACCEPT4, slept::<{ hook::ACCEPT4 }>),
];
