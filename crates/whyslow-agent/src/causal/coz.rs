//! coz's functions, which programs with its progress points look up by name.

use core::ffi::{CStr, c_char};
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use whyslow_agent_wire::causal::{MOST_POINTS, NAME_LEN, Point, kind};

use super::board::Board;
use super::points::{current, poll};
use super::waits;

/// coz's `_coz_get_counter(type, name)`: the counter that the program increments at each visit.
///
/// # Safety
/// `name` is a zero-terminated text.
#[unsafe(export_name = "_coz_get_counter")]
pub unsafe extern "C" fn coz_counter(which: i32, name: *const c_char) -> *const Point {
    let (Some(board), false) = (Board::get(), name.is_null()) else { return ptr::null() };
    let kind = match which {
        1 => kind::THROUGHPUT,
        2 => kind::BEGIN,
        3 => kind::END,
        _ => return ptr::null(),
    };
    // SAFETY: guaranteed by the caller.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    find_or_add(board, kind, name).map_or(ptr::null(), ptr::from_ref)
}

fn find_or_add(board: Board, kind: u32, name: &[u8]) -> Option<&'static Point> {
    let name = &name[name.len().saturating_sub(NAME_LEN)..];
    let used = &board.shared().points_used;
    loop {
        let count = (used.load(Acquire) as usize).min(MOST_POINTS);
        if let Some(found) = (0..count).map(|row| board.point(row)).find(|point| is(point, kind, name)) {
            return Some(found);
        }
        if count == MOST_POINTS {
            return None;
        }
        // Another thread may add a point at the same moment, even the same one: two rows with one name are added up.
        if used.compare_exchange(count as u32, count as u32 + 1, AcqRel, Relaxed).is_ok() {
            let point = board.point(count);
            for (to, from) in point.name.iter().zip(name) {
                to.store(*from, Relaxed);
            }
            point.name_len.store(name.len() as u32, Relaxed);
            point.kind.store(kind, Release);
            return Some(point);
        }
    }
}

fn is(point: &Point, kind: u32, name: &[u8]) -> bool {
    point.kind.load(Acquire) == kind
        && point.name_len.load(Relaxed) as usize == name.len()
        && point.name.iter().zip(name).all(|(have, want)| have.load(Relaxed) == *want)
}

/// coz's `_coz_add_delays()`: newer versions of its library call it after each visit.
#[unsafe(export_name = "_coz_add_delays")]
pub extern "C" fn coz_add_delays() {
    if let Some((board, account, running)) = current() {
        poll(board, &account, running);
        if account.owes(running) {
            account.spin_unsampled(running);
        }
    }
}

/// coz's `_coz_pre_block()`: the thread is about to block. What it waits for is accounted for at its next sample.
#[unsafe(export_name = "_coz_pre_block")]
pub extern "C" fn coz_pre_block() {}

/// coz's `_coz_post_block(skip)`: the thread was blocked, and another one woke it if `skip`.
#[unsafe(export_name = "_coz_post_block")]
pub extern "C" fn coz_post_block(skip: i32) {
    if let Some((_, account, running)) = current()
        && skip != 0
    {
        account.credit(running, running.round.delay.load(Relaxed));
    }
}

/// coz's `_coz_wake_other()`: the thread is about to wake another one.
#[unsafe(export_name = "_coz_wake_other")]
pub extern "C" fn coz_wake_other() {
    waits::pay();
}
