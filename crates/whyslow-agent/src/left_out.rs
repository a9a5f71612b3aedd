//! Notes programs that are executed and cannot be recorded, or whose agent will still say hello, where the
//! collector reads them. This is the only way to reach the collector that still works as another user, behind
//! another root folder, or without system calls.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use whyslow_agent_wire::left_out::{LeftOut, MOST_NAME, state, why};

use crate::area::Area;
use crate::program::{self, Path};
use crate::sys;

/// Notes that a program is about to be executed. [`take_back`] undoes it if the exec fails. `buffer` is for
/// the program's name.
pub fn write(area: Area, why: u32, path: &Path, file: i32, buffer: &mut [u8]) -> Option<&'static LeftOut> {
    let name = name(path, file, buffer);
    for (index, entry) in area.left_out().iter().enumerate() {
        let taken = entry.state.compare_exchange(state::FREE, state::TAKEN, AcqRel, Acquire);
        if taken.is_ok() {
            area.header().left_out_used.fetch_max(index as u32 + 1, AcqRel);
            entry.why.store(why, Relaxed);
            entry.pid.store(sys::process(), Relaxed);
            entry.name_len.store(name.len() as u32, Relaxed);
            for (to, from) in entry.name.iter().zip(name) {
                to.store(*from, Relaxed);
            }
            entry.times.store(1, Relaxed);
            entry.state.store(state::READY, Release);
            return Some(entry);
        }
        if why != why::STARTED && taken == Err(state::READY) && is_same(entry, why, name) {
            entry.times.fetch_add(1, AcqRel);
            return Some(entry);
        }
    }
    area.header().left_out_more.fetch_add(1, Relaxed);
    None
}

/// Removes the entry after a failed exec.
pub fn take_back(entry: &LeftOut) {
    if entry.why.load(Relaxed) == why::STARTED {
        // The collector may have freed the entry, and another process may own it by now.
        if entry.pid.load(Relaxed) == sys::process() {
            let _ = entry.state.compare_exchange(state::READY, state::FREE, AcqRel, Relaxed);
        }
    } else {
        entry.times.fetch_sub(1, AcqRel);
    }
}

fn is_same(entry: &LeftOut, why: u32, name: &[u8]) -> bool {
    entry.why.load(Relaxed) == why
        && entry.name_len.load(Relaxed) as usize == name.len()
        && entry.name.iter().zip(name).all(|(one, other)| one.load(Relaxed) == *other)
}

/// The file's path, or the name given to the exec if the kernel does not say. A long name is cut at its
/// start.
fn name<'a>(path: &'a Path, file: i32, buffer: &'a mut [u8]) -> &'a [u8] {
    const ROOM_FOR_LINK: usize = 64;
    let (link, room) = buffer.split_at_mut(ROOM_FOR_LINK);
    let len = sys::read_link(program::link_to(file, link), room);
    let name = match room.get(..len) {
        Some(name) if len > 0 => name,
        _ => path.name().unwrap_or(c"").to_bytes(),
    };
    name.get(name.len().saturating_sub(MOST_NAME)..).unwrap_or(name)
}
