//! The spin hint: loops that wait for another thread.

use super::{Advice, Hint, Kind, Place};
use crate::instruction::{Instruction, Operation, Registers};

const SLEEP: Advice =
    Advice::general("Sleep until the other thread is done: a condition variable, or a join.")
        .rust("Sleep until the other thread is done: a `Condvar`, a channel, `thread::park`, or `join`.")
        .native(
            "Sleep until the other thread is done: a condition variable, a semaphore, a futex, or a join.",
        )
        .go("Sleep until the other goroutine is done: a channel, `sync.Cond` or `sync.WaitGroup`.");

/// A loop that pauses, or in which nothing changes from one iteration to the next: only another thread can end
/// it.
pub(super) fn spin_wait(place: &Place<'_>) -> Option<Hint> {
    // A call between two pauses asks whether the other thread is done: `try_recv`, `try_lock`.
    let pauses = place.instructions().any(|(_, row)| row.operation == Operation::Pause);
    let repeats = || !place.calls_something() && repeats_itself(place);
    if !place.is_innermost || (!pauses && !repeats()) {
        return None;
    }
    let rows = place.like(|_| true);
    Some(place.hint(
        Kind::SpinWait,
        &rows,
        "The loop does nothing but look at memory until another thread changes it.".to_owned(),
        SLEEP,
    ))
}

/// Whether each iteration does the same as the previous one: it reads memory at fixed addresses, writes none but
/// by atomic operations, and uses no register that an earlier iteration has changed.
fn repeats_itself(place: &Place<'_>) -> bool {
    let changed = place.instructions().fold(0, |all, (_, row)| all | row.writes.0);
    let (mut before, mut looks) = (0, false);
    for (_, row) in place.instructions() {
        let is_carried = row.reads.0 & changed & !before != 0;
        if is_carried || !has_fixed_memory(row, changed) {
            return false;
        }
        looks |= row.memory.is_some_and(|memory| memory.is_read);
        before |= row.writes.0;
    }
    looks
}

/// Whether an instruction accesses no memory, or reads it at an address that the loop does not change.
fn has_fixed_memory(row: &Instruction, changed: u128) -> bool {
    let Some(memory) = row.memory else { return row.operation != Operation::RepeatedString };
    let registers = memory.base.into_iter().chain(memory.index).fold(Registers::default(), Registers::with);
    registers.0 & changed == 0 && (!memory.is_written || row.is_locked)
}
