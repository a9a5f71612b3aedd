//! Programs that recorded programs started and that are not recorded: which, and why.

use std::sync::atomic::Ordering;

use whyslow_agent_wire::left_out::{LeftOut, MOST_LEFT_OUT, MOST_NAME, state, why};
use whyslow_profile::{HeapNote, WhyLeftOut};

use crate::area::Area;

/// Notes for all programs that an area lists.
pub(crate) fn notes(area: &Area) -> Vec<HeapNote> {
    // Entries that were never used are not read: that would allocate their memory.
    let used = (area.header().left_out_used.load(Ordering::Acquire) as usize).min(MOST_LEFT_OUT);
    let mut notes: Vec<HeapNote> = area.left_out()[..used].iter().filter_map(note).collect();
    let more = area.header().left_out_more.load(Ordering::Relaxed);
    if more > 0 {
        notes.push(HeapNote::MoreProgramsLeftOut { programs: more });
    }
    notes
}

/// The name in an entry.
pub(crate) fn name(entry: &LeftOut) -> String {
    let len = (entry.name_len.load(Ordering::Relaxed) as usize).min(MOST_NAME);
    let name: Vec<u8> = entry.name[..len].iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
    String::from_utf8_lossy(&name).into_owned()
}

fn note(entry: &LeftOut) -> Option<HeapNote> {
    let number = |word: &std::sync::atomic::AtomicU32| word.load(Ordering::Relaxed);
    if entry.state.load(Ordering::Acquire) != state::READY || number(&entry.times) == 0 {
        return None;
    }
    let why = match number(&entry.why) {
        why::STARTED => return None,
        why::OTHER_USER => WhyLeftOut::OtherUser,
        why::OTHER_ROOT => WhyLeftOut::OtherRoot,
        why::CONFINED => WhyLeftOut::Confined,
        why::TWO_USERS => WhyLeftOut::TwoUsers,
        why::OTHER_COLLECTOR => WhyLeftOut::OtherCollector,
        why::NO_MEMORY => WhyLeftOut::NoMemory,
        why::NO_ANSWER => WhyLeftOut::NoAnswer,
        _ => WhyLeftOut::NoAgent,
    };
    Some(HeapNote::ProgramLeftOut { program: name(entry), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(area: &Area, slot: usize, why: u32, times: u32, name: &str) {
        let entry = &area.left_out()[slot];
        entry.why.store(why, Ordering::Relaxed);
        entry.times.store(times, Ordering::Relaxed);
        entry.name_len.store(name.len() as u32, Ordering::Relaxed);
        for (to, from) in entry.name.iter().zip(name.bytes()) {
            to.store(from, Ordering::Relaxed);
        }
        entry.state.store(state::READY, Ordering::Release);
        area.header().left_out_used.fetch_max(slot as u32 + 1, Ordering::AcqRel);
    }

    #[test]
    fn notes_name_the_program_and_the_reason() {
        let area = Area::create().expect("area");
        put(&area, 0, why::OTHER_ROOT, 1, "/prog");
        put(&area, 1, why::OTHER_USER, 0, "/never");
        put(&area, 3, why::OTHER_USER, 7, "/srv/app");
        area.header().left_out_more.store(1, Ordering::Relaxed);
        let left_out = |program: &str, why| HeapNote::ProgramLeftOut { program: program.to_owned(), why };
        assert_eq!(
            notes(&area),
            [
                left_out("/prog", WhyLeftOut::OtherRoot),
                left_out("/srv/app", WhyLeftOut::OtherUser),
                HeapNote::MoreProgramsLeftOut { programs: 1 },
            ]
        );
    }

    #[test]
    fn tolerates_nonsense_in_shared_memory() {
        let area = Area::create().expect("area");
        put(&area, 0, u32::MAX, u32::MAX, &"x".repeat(600));
        area.left_out()[1].state.store(state::TAKEN, Ordering::Relaxed);
        let left_out = HeapNote::ProgramLeftOut { program: "x".repeat(MOST_NAME), why: WhyLeftOut::NoAgent };
        assert_eq!(notes(&area), [left_out]);
    }
}
