//! Stacks that glibc keeps for its next threads. Their threads have exited and were joined or detached, so what
//! they hold is dead: old frames, thread-local variables, and results that nobody took.
//!
//! glibc 2.34 and later has three lists of threads in the data of its loader, one after the other, each a ring of
//! links to the next and to the previous one:
//!
//! ```text
//! used    threads with a stack of glibc's, up to the join
//! user    the main thread, and threads with stacks of the program
//! cache   unused stacks
//! ```
//!
//! The ring of the main thread leads to them. Everything is verified on the way, and in doubt no stack is dead.

use whyslow_proc::Mapping;
use whyslow_processor::PAGE;

use super::graph::Memory;
use super::index::Index;
use super::roots::has_guard;
use super::threads::Thread;

/// Where a thread's record has its link.
const LINK: u64 = 0x2c0;
/// Length of a list's head.
const HEAD: u64 = 16;
/// Length of a thread's record.
const RECORD: u64 = 0x900;
/// Maximum number of threads in a list.
const MOST: usize = 1 << 16;

/// The dead ranges of a process, as start and end.
pub(crate) fn stacks(
    main: &Thread,
    maps: &[Mapping],
    threads: &[Thread],
    index: &Index,
    memory: &mut impl Memory,
) -> Vec<(u64, u64)> {
    let mut lists = Lists { maps, memory };
    let records = lists.cached(main).unwrap_or_default();
    if records.iter().any(|record| threads.iter().any(|thread| thread.fs == *record)) {
        return Vec::new();
    }
    records.iter().map(|&record| (start(record, maps, threads, index), end(record))).collect()
}

/// The end of a stack: its thread's record is at the top.
fn end(record: u64) -> u64 {
    (record + RECORD).next_multiple_of(PAGE)
}

/// The start of a stack. Without a guard page below it, only the record is known to belong to it.
fn start(record: u64, maps: &[Mapping], threads: &[Thread], index: &Index) -> u64 {
    let Some(mapping) = Mapping::find(maps, record) else { return record };
    let alone = !index.any_in(mapping.start, end(record))
        && threads
            .iter()
            .all(|thread| [thread.sp, thread.fs].iter().all(|at| !(mapping.start..end(record)).contains(at)));
    if alone && has_guard(maps, mapping) { mapping.start } else { record }
}

struct Lists<'a, M> {
    maps: &'a [Mapping],
    memory: &'a mut M,
}

impl<M: Memory> Lists<'_, M> {
    /// The records of the cached stacks. `None` if the lists are not as expected.
    fn cached(&mut self, main: &Thread) -> Option<Vec<u64>> {
        let users = self.others(main.fs + LINK)?;
        let mut heads = users.into_iter().filter(|link| !self.is_of_record(*link));
        let (Some(user), None) = (heads.next(), heads.next()) else { return None };
        if !Mapping::find(self.maps, user)?.name.rsplit('/').next()?.starts_with("ld-linux") {
            return None;
        }
        let cached = self.others(user + HEAD)?;
        cached.into_iter().map(|link| self.is_of_record(link).then(|| link - LINK)).collect()
    }

    /// The other links of a ring.
    fn others(&mut self, first: u64) -> Option<Vec<u64>> {
        let mut others = Vec::new();
        let (mut at, mut next) = (first, self.words::<1>(first)?[0]);
        loop {
            let [after, before] = self.words(next)?;
            if before != at || others.len() > MOST {
                return None;
            }
            if next == first {
                return Some(others);
            }
            others.push(next);
            (at, next) = (next, after);
        }
    }

    /// Whether a link is in the record of a thread, which has its own address as its first and third word.
    fn is_of_record(&mut self, link: u64) -> bool {
        let Some(record) = link.checked_sub(LINK) else { return false };
        self.words(record).is_some_and(|[first, _, third]: [u64; 3]| first == record && third == record)
    }

    /// Words in readable memory.
    fn words<const N: usize>(&mut self, at: u64) -> Option<[u64; N]> {
        let mapping = Mapping::find(self.maps, at)?;
        let end = at.checked_add(8 * N as u64)?;
        if !mapping.readable || end > mapping.end || !at.is_multiple_of(8) {
            return None;
        }
        let mut words = [0; N];
        for (at, word) in (at..).step_by(8).zip(&mut words) {
            let mut bytes = [0; 8];
            self.memory.read(at, &mut bytes);
            *word = u64::from_le_bytes(bytes);
        }
        Some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Default)]
    struct Words(BTreeMap<u64, u64>);

    impl Memory for Words {
        fn read(&mut self, address: u64, into: &mut [u8]) {
            for (at, bytes) in (address..).step_by(8).zip(into.as_chunks_mut::<8>().0) {
                *bytes = self.0.get(&at).copied().unwrap_or(0).to_le_bytes();
            }
        }
    }

    impl Words {
        fn ring(&mut self, links: &[u64]) {
            for (at, link) in links.iter().enumerate() {
                let next = links[(at + 1) % links.len()];
                self.0.insert(*link, next);
                self.0.insert(next + 8, *link);
            }
        }

        fn record(&mut self, at: u64) -> u64 {
            self.0.extend([(at, at), (at + 16, at)]);
            at + LINK
        }
    }

    const MAPS: &str = "\
500000-501000 ---p 00000000 00:00 0
501000-521000 rw-p 00000000 00:00 0
521000-522000 ---p 00000000 00:00 0
522000-642000 rw-p 00000000 00:00 0
700000-702000 rw-p 00000000 fe:00 7 /lib/ld-linux-x86-64.so.2
800000-810000 rw-p 00000000 00:00 0
";
    const MAIN: u64 = 0x80_0740;
    const CACHED: u64 = 0x52_0700;
    const USED: u64 = 0x54_1700;
    const HEADS: u64 = 0x70_0100;

    fn thread(sp: u64, fs: u64) -> Thread {
        Thread { tid: sp as u32, registers: Vec::new(), sp, red_zone: 128, fs }
    }

    /// One thread runs and one is cached.
    fn two_threads() -> Words {
        let mut memory = Words::default();
        let [main, cached, used] = [MAIN, CACHED, USED].map(|at| memory.record(at));
        memory.ring(&[HEADS, used]);
        memory.ring(&[HEADS + 16, main]);
        memory.ring(&[HEADS + 32, cached]);
        memory
    }

    fn found(memory: &mut Words, maps: &str) -> Vec<(u64, u64)> {
        let threads = [thread(0x80_0000, MAIN), thread(0x54_0000, USED)];
        stacks(&threads[0], &Mapping::parse_all(maps.as_bytes()), &threads, &Index::new(&[]), memory)
    }

    #[test]
    fn a_cached_stack_is_dead_up_to_its_guard_page() {
        assert_eq!(found(&mut two_threads(), MAPS), [(0x50_1000, 0x52_1000)]);
    }

    #[test]
    fn without_a_guard_page_only_the_record_is_dead() {
        let maps = MAPS.replace("500000-501000 ---p 00000000 00:00 0\n", "");
        assert_eq!(found(&mut two_threads(), &maps), [(CACHED, 0x52_1000)]);
    }

    #[test]
    fn lists_that_are_not_as_expected_name_nothing() {
        // Another loader.
        assert_eq!(found(&mut two_threads(), &MAPS.replace("ld-linux", "ld-other")), []);
        // A link that does not lead back, a record without its own address, and a thread that runs.
        for (at, word) in [(CACHED + LINK + 8, 0), (CACHED, 0), (HEADS + 32, 0x12345)] {
            let mut memory = two_threads();
            memory.0.insert(at, word);
            assert_eq!(found(&mut memory, MAPS), [], "{at:x}");
        }
        let mut memory = two_threads();
        let [cached, used] = [CACHED, USED].map(|at| at + LINK);
        memory.ring(&[HEADS + 32, cached, used]);
        assert_eq!(found(&mut memory, MAPS), []);
    }
}
