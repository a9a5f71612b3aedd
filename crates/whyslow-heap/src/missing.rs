//! Programs that should be recorded and are not: their agent never said hello, or could not do what it was told. Whatever the reason, they are
//! named.

use std::sync::atomic::Ordering;

use rustc_hash::{FxHashMap, FxHashSet};
use whyslow_heap_wire::left_out::{LeftOut, state, why};
use whyslow_proc::{Mapping, process};
use whyslow_profile::WhyLeftOut;

use crate::area::Area;
use crate::drain::{Drain, Watched};
use crate::ids::{OwnPid, Pid, ProcessRow};
use crate::left_out;
use crate::sys;

/// Watched processes whose children are looked at in one go.
const MOST_PARENTS: usize = 200;
/// Threads of each, likewise.
const MOST_THREADS: usize = 64;
/// How often in a row a process must be seen without an agent.
const TIMES: u32 = 3;
/// Below these a limit is the likely reason.
const FEW_FILES: u64 = 16;
const LITTLE_SPACE: u64 = 64 << 20;

/// Entries of programs that were started and have not said hello.
fn started(area: &Area) -> impl Iterator<Item = &LeftOut> {
    let used = area.header().left_out_used.load(Ordering::Acquire) as usize;
    area.left_out().iter().take(used).filter(|entry| {
        entry.state.load(Ordering::Acquire) == state::READY
            && entry.why.load(Ordering::Relaxed) == why::STARTED
    })
}

/// Frees an entry.
fn free(entry: &LeftOut) {
    // Only its starter could be faster, whose exec has failed.
    let _ = entry.state.compare_exchange(state::READY, state::FREE, Ordering::AcqRel, Ordering::Relaxed);
}

/// Why an agent that is there could not begin, as far as the limits of its process tell.
pub(crate) fn likely_reason(pid: u32) -> WhyLeftOut {
    match (process::limit(pid, "Max open files"), process::limit(pid, "Max address space")) {
        (Some(files), _) if files < FEW_FILES => WhyLeftOut::FewFiles { files, enough: FEW_FILES },
        (_, Some(bytes)) if bytes < LITTLE_SPACE => WhyLeftOut::LittleSpace { bytes, more: LITTLE_SPACE },
        _ => WhyLeftOut::NoRoom,
    }
}

/// Children of watched processes in which there is no agent, and how often they were seen.
#[derive(Debug, Default)]
struct Strangers {
    seen: FxHashMap<u32, u32>,
    named: FxHashSet<u32>,
}

impl Strangers {
    /// Looks at the children of these processes once; those of whom it is certain now, by their file. `expected` are known otherwise.
    fn look(&mut self, parents: &[u32], expected: &FxHashSet<u32>) -> Vec<String> {
        let mut seen = FxHashMap::default();
        let mut certain = Vec::new();
        for child in
            parents.iter().take(MOST_PARENTS).flat_map(|parent| process::children(*parent, MOST_THREADS))
        {
            if expected.contains(&child) || self.named.contains(&child) || has_agent(child) != Some(false) {
                continue;
            }
            let times = self.seen.get(&child).map_or(1, |times| times + 1);
            match process::program(child) {
                Some(program) if times >= TIMES => {
                    self.named.insert(child);
                    certain.push(program.display().to_string());
                }
                _ => {
                    seen.insert(child, times);
                }
            }
        }
        self.seen = seen;
        certain
    }
}

/// Programs of which something is to be heard, and those that were not heard of.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    /// Processes started by others than watched ones whose agent has not said hello: number and program.
    expected: Vec<(Pid, String)>,
    /// Processes whose agent said hello, and could not begin.
    not_joined: u64,
    strangers: Strangers,
}

impl Missing {
    /// Processes whose agent said hello, and could not begin.
    pub(crate) fn not_joined(&self) -> u64 {
        self.not_joined
    }
}

/// Whether an area of ours is mapped in a process; none if that cannot be seen.
fn has_agent(pid: u32) -> Option<bool> {
    let maps = Mapping::all_of(pid).ok().filter(|maps| !maps.is_empty())?;
    Some(maps.iter().any(|mapping| mapping.name.starts_with("/memfd:whyslow-heap")))
}

impl Watched {
    /// Whether the agent has begun to record.
    fn has_joined(&self) -> bool {
        self.area.header().agent_start.load(Ordering::Acquire) != 0
    }
}

impl Drain {
    /// A process was started whose agent will say hello.
    pub(crate) fn expect(&mut self, pid: u32, program: &str) {
        self.missing.expected.push((Pid(pid), program.to_owned()));
    }

    /// The agent of a process has said hello. Its numbers are those of the kernel and its own.
    pub(crate) fn said_hello(&mut self, pid: Pid, own_pid: OwnPid) {
        self.missing.expected.retain(|(expected, _)| *expected != pid);
        for watched in self.areas.iter() {
            let its = |entry: &&LeftOut| entry.pid.load(Ordering::Relaxed) == own_pid.0;
            started(&watched.area).filter(its).for_each(free);
        }
    }

    /// Names programs that were started, and whose processes have ended without a hello.
    pub(crate) fn look_for_silent(&mut self) {
        self.name_silent(|watched, pid| watched.same_numbers && sys::thread_has_ended(pid.0, pid.0));
    }

    /// Names all from which nothing was heard, at the end.
    pub(crate) fn name_missing(&mut self) {
        self.name_silent(|_, _| true);
        for (_, program) in std::mem::take(&mut self.missing.expected) {
            self.notices.left_out(program, WhyLeftOut::Silent);
        }
        for row in self.processes.all_living() {
            self.name_if_not_joined(row);
        }
    }

    fn name_silent(&mut self, is_over: impl Fn(&Watched, OwnPid) -> bool) {
        let mut silent = Vec::new();
        for watched in self.areas.iter() {
            for entry in started(&watched.area) {
                if is_over(watched, OwnPid(entry.pid.load(Ordering::Relaxed))) {
                    silent.push(left_out::name(entry));
                    free(entry);
                }
            }
        }
        for program in silent {
            self.notices.left_out(program, WhyLeftOut::Silent);
        }
    }

    /// A process has ended, or is about to be forgotten: was it recorded at all?
    pub(crate) fn name_if_not_joined(&mut self, row: ProcessRow) {
        let not_joined = |watched: &&Watched| watched.first == row && !watched.has_joined();
        let watched = self.areas.iter().find(not_joined);
        if let Some((program, why)) =
            watched.map(|watched| (watched.program.to_string(), watched.likely_reason.clone()))
        {
            self.missing.not_joined += 1;
            self.notices.left_out(program, why);
        }
    }

    /// Looks for processes that were started in ways that nobody sees from inside.
    pub(crate) fn look_for_strangers(&mut self) {
        let watched: Vec<u32> = self.processes.living_pids().into_iter().map(|pid| pid.0).collect();
        let mut expected: FxHashSet<u32> = watched.iter().copied().collect();
        for watched in self.areas.iter() {
            expected.extend(started(&watched.area).map(|entry| entry.pid.load(Ordering::Relaxed)));
        }
        for program in self.missing.strangers.look(&watched, &expected) {
            self.notices.left_out(program, WhyLeftOut::UnseenStart);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_without_an_agent_is_a_stranger_after_a_while() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep");
        let own = [std::process::id()];
        let none = FxHashSet::default();
        let mut strangers = Strangers::default();
        let found: Vec<_> = (0..TIMES + 2).map(|_| strangers.look(&own, &none).len()).collect();
        let expected = FxHashSet::from_iter([child.id()]);
        let known = (0..TIMES + 2).map(|_| Strangers::default().look(&own, &expected).len()).sum::<usize>();
        child.kill().and_then(|()| child.wait()).expect("killed");
        assert_eq!((found, known), (vec![0, 0, 1, 0, 0], 0));
    }

    #[test]
    fn limits_are_named_where_they_are_near() {
        assert_eq!(likely_reason(std::process::id()), WhyLeftOut::NoRoom);
        assert_eq!(likely_reason(0), WhyLeftOut::NoRoom);
    }
}
