//! Programs that watched ones started and that are not recorded, in words: which, why, and what to do.

use std::sync::atomic::Ordering;

use whyslow_heap_wire::left_out::{LeftOut, MOST_NAME, state, why};

use crate::area::Area;

/// All that an area tells of, one sentence each.
pub(crate) fn told(area: &Area) -> Vec<String> {
    let mut told: Vec<String> = area.left_out().iter().filter_map(sentence).collect();
    match area.header().left_out_more.load(Ordering::Relaxed) {
        0 => {}
        1 => told.push("One more program was started where whyslow cannot follow".to_owned()),
        more => told.push(format!("{more} more programs were started where whyslow cannot follow")),
    }
    told
}

/// What the reader should know of such a program, after the sentence that says why.
pub(crate) fn note(why: &str) -> String {
    format!("{why}. The heap of this program, which a watched one started, is not in the recording.")
}

/// Of a program whose agent never said hello.
pub(crate) fn silent(name: &str) -> String {
    format!(
        "{name} was started, but nothing was heard from inside of it: it ended before its first own instruction, or could not load \
         whyslow's agent, as under a limit of memory or files (`ulimit -a`)"
    )
}

/// Of a program that was found among the children of watched ones.
pub(crate) fn stranger(name: &str) -> String {
    format!(
        "{name} was started by a system call that whyslow does not see, and is not recorded, nor is what it starts; start it by libc's \
         functions, or under a `whyslow heap` of its own"
    )
}

/// The name in an entry.
pub(crate) fn name(entry: &LeftOut) -> String {
    let len = (entry.name_len.load(Ordering::Relaxed) as usize).min(MOST_NAME);
    let name: Vec<u8> = entry.name[..len].iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
    String::from_utf8_lossy(&name).into_owned()
}

fn sentence(entry: &LeftOut) -> Option<String> {
    let number = |word: &std::sync::atomic::AtomicU32| word.load(Ordering::Relaxed);
    if entry.state.load(Ordering::Acquire) != state::READY || number(&entry.times) == 0 {
        return None;
    }
    let name = name(entry);
    Some(match number(&entry.why) {
        why::STARTED => return None,
        why::OTHER_USER => format!(
            "{name} runs as another user, who may not open whyslow's private folder, and so does all that it \
             starts; become that user first and start whyslow then, as in `setpriv --reuid USER whyslow heap -- {name}`"
        ),
        why::OTHER_ROOT => format!(
            "{name} runs behind another root folder (chroot) or other mounts, where whyslow's folder is not, and so \
             does all that it starts; start whyslow in there, as in `chroot FOLDER whyslow heap -- {name}`"
        ),
        why::CONFINED => format!(
            "{name} was started behind a filter of system calls (seccomp), under which whyslow does nothing, and so \
             is all that it starts; switch the filter off to record them"
        ),
        why::TWO_USERS => format!(
            "{name} was started with an effective user or group that is not the real one, and preloads nothing then; \
             start whyslow as the user that it runs as"
        ),
        why::OTHER_COLLECTOR => format!("{name} is recorded by another whyslow"),
        why::NO_MEMORY => {
            format!("{name} could not be given the agent: there was no memory for its environment")
        }
        why::NO_ANSWER => {
            format!(
                "{name} was started while whyslow did not answer; leave a core to whyslow, and record again"
            )
        }
        _ => format!("{name} could not be given the agent"),
    })
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
    }

    #[test]
    fn who_was_executed_is_told_with_the_reason() {
        let area = Area::create().expect("area");
        put(&area, 0, why::OTHER_ROOT, 1, "/prog");
        put(&area, 1, why::OTHER_USER, 0, "/never");
        put(&area, 3, why::OTHER_USER, 7, "/srv/app");
        area.header().left_out_more.store(1, Ordering::Relaxed);
        let told = told(&area);
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told[0].starts_with("/prog runs behind another root folder"), "{told:?}");
        assert!(told[1].starts_with("/srv/app runs as another user"), "{told:?}");
        assert!(told[2].starts_with("One more program"), "{told:?}");
    }

    #[test]
    fn nonsense_in_shared_memory_does_no_harm() {
        let area = Area::create().expect("area");
        put(&area, 0, u32::MAX, u32::MAX, &"x".repeat(600));
        area.left_out()[1].state.store(state::TAKEN, Ordering::Relaxed);
        let told = told(&area);
        assert!(matches!(&told[..], [one] if one.starts_with(&"x".repeat(MOST_NAME))), "{told:?}");
    }
}
