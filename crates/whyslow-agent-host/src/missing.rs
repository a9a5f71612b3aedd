//! Finds programs that should be recorded but are not: their agent never connected, or could not start
//! recording. Whatever the reason, a note names them.

use std::sync::atomic::Ordering;

use rustc_hash::{FxHashMap, FxHashSet};
use whyslow_agent_wire::left_out::{LeftOut, state, why};
use whyslow_proc::{Mapping, process};
use whyslow_profile::WhyLeftOut;

use crate::area::Area;
use crate::areas::Watched;
use crate::host::Host;
use crate::ids::{OwnPid, Pid, ProcessRow};
use crate::left_out;
use crate::sys;

/// Maximum number of recorded processes whose children are checked in one pass.
const MOST_PARENTS: usize = 200;
/// Maximum number of threads of each that are checked.
const MOST_THREADS: usize = 64;
/// How often in a row a process must be found without an agent.
const TIMES: u32 = 3;
/// Limits below these are the likely reason.
const FEW_FILES: u64 = 16;
const LITTLE_SPACE: u64 = 64 << 20;

/// Entries of programs that were started and whose agent has not connected.
fn started(area: &Area) -> impl Iterator<Item = &LeftOut> {
    let used = area.header().left_out_used.load(Ordering::Acquire) as usize;
    area.left_out().iter().take(used).filter(|entry| {
        entry.state.load(Ordering::Acquire) == state::READY
            && entry.why.load(Ordering::Relaxed) == why::STARTED
    })
}

/// Frees an entry.
fn free(entry: &LeftOut) {
    // Only the process that started it could be faster, if its exec failed.
    let _ = entry.state.compare_exchange(state::READY, state::FREE, Ordering::AcqRel, Ordering::Relaxed);
}

/// Why a loaded agent could not start recording, judged by the limits of its process.
pub(crate) fn likely_reason(pid: u32) -> WhyLeftOut {
    match (process::limit(pid, "Max open files"), process::limit(pid, "Max address space")) {
        (Some(files), _) if files < FEW_FILES => WhyLeftOut::FewFiles { files, enough: FEW_FILES },
        (_, Some(bytes)) if bytes < LITTLE_SPACE => WhyLeftOut::LittleSpace { bytes, more: LITTLE_SPACE },
        _ => WhyLeftOut::NoRoom,
    }
}

/// Children of recorded processes without an agent, and how often they were found.
#[derive(Debug, Default)]
struct UnrecordedChildren {
    seen: FxHashMap<u32, u32>,
    named: FxHashSet<u32>,
}

impl UnrecordedChildren {
    /// Checks the children of these processes once. Returns the programs of children that certainly have no
    /// agent. `expected` processes are skipped.
    fn check(&mut self, parents: &[u32], expected: &FxHashSet<u32>) -> Vec<String> {
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

/// Programs whose agent should connect, and those whose agent did not.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    /// Processes not started by recorded ones whose agent has not connected: process id and program.
    expected: Vec<(Pid, String)>,
    /// Processes whose agent connected but could not start recording.
    not_joined: u64,
    unrecorded: UnrecordedChildren,
}

impl Missing {
    /// Processes whose agent connected but could not start recording.
    pub(crate) fn not_joined(&self) -> u64 {
        self.not_joined
    }
}

/// Whether a process maps one of the host's areas; `None` if its mappings cannot be read.
fn has_agent(pid: u32) -> Option<bool> {
    let maps = Mapping::all_of(pid).ok().filter(|maps| !maps.is_empty())?;
    Some(maps.iter().any(|mapping| mapping.name.starts_with("/memfd:whyslow-heap")))
}

impl Watched {
    /// Whether the agent has started recording.
    fn has_joined(&self) -> bool {
        self.area.header().agent_start.load(Ordering::Acquire) != 0
    }
}

impl Host {
    /// Notes that the agent of a started process should connect.
    pub(crate) fn expect(&mut self, pid: u32, program: &str) {
        self.programs.missing.expected.push((Pid(pid), program.to_owned()));
    }

    /// Notes that the agent of a process has sent its hello. The ids are the kernel's and its own.
    pub(crate) fn said_hello(&mut self, pid: Pid, own_pid: OwnPid) {
        self.programs.missing.expected.retain(|(expected, _)| *expected != pid);
        for watched in self.programs.areas.iter() {
            let its = |entry: &&LeftOut| entry.pid.load(Ordering::Relaxed) == own_pid.0;
            started(&watched.area).filter(its).for_each(free);
        }
    }

    /// Adds notes for started programs whose processes have exited without a hello.
    pub(crate) fn note_silent_programs(&mut self) {
        self.name_silent(|watched, pid| watched.same_numbers && sys::thread_has_ended(pid.0, pid.0));
    }

    /// Adds notes for all programs whose agent never connected, at the end.
    pub(crate) fn name_missing(&mut self) {
        self.name_silent(|_, _| true);
        for (_, program) in std::mem::take(&mut self.programs.missing.expected) {
            self.programs.notices.left_out(program, WhyLeftOut::Silent);
        }
        for row in self.programs.processes.all_living() {
            self.name_if_not_joined(row);
        }
    }

    fn name_silent(&mut self, is_over: impl Fn(&Watched, OwnPid) -> bool) {
        let mut silent = Vec::new();
        for watched in self.programs.areas.iter() {
            for entry in started(&watched.area) {
                if is_over(watched, OwnPid(entry.pid.load(Ordering::Relaxed))) {
                    silent.push(left_out::name(entry));
                    free(entry);
                }
            }
        }
        for program in silent {
            self.programs.notices.left_out(program, WhyLeftOut::Silent);
        }
    }

    /// Adds a note for a process that has exited or is about to be dropped, if its agent never started
    /// recording.
    pub(crate) fn name_if_not_joined(&mut self, row: ProcessRow) {
        let not_joined = |watched: &&Watched| watched.first == row && !watched.has_joined();
        let watched = self.programs.areas.iter().find(not_joined);
        if let Some((program, why)) =
            watched.map(|watched| (watched.program.to_string(), watched.likely_reason.clone()))
        {
            self.programs.missing.not_joined += 1;
            self.programs.notices.left_out(program, why);
        }
    }

    /// Searches for processes that were started in ways that the agent does not notice.
    pub(crate) fn find_unrecorded_children(&mut self) {
        let watched: Vec<u32> = self.programs.processes.living_pids().into_iter().map(|pid| pid.0).collect();
        let mut expected: FxHashSet<u32> = watched.iter().copied().collect();
        for watched in self.programs.areas.iter() {
            expected.extend(started(&watched.area).map(|entry| entry.pid.load(Ordering::Relaxed)));
        }
        for program in self.programs.missing.unrecorded.check(&watched, &expected) {
            self.programs.notices.left_out(program, WhyLeftOut::UnseenStart);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_a_child_without_an_agent_after_a_few_checks() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep");
        let own = [std::process::id()];
        let none = FxHashSet::default();
        let mut unrecorded = UnrecordedChildren::default();
        let found: Vec<_> = (0..TIMES + 2).map(|_| unrecorded.check(&own, &none).len()).collect();
        let expected = FxHashSet::from_iter([child.id()]);
        let known =
            (0..TIMES + 2).map(|_| UnrecordedChildren::default().check(&own, &expected).len()).sum::<usize>();
        child.kill().and_then(|()| child.wait()).expect("killed");
        assert_eq!((found, known), (vec![0, 0, 1, 0, 0], 0));
    }

    #[test]
    fn generous_limits_are_not_the_likely_reason() {
        assert_eq!(likely_reason(std::process::id()), WhyLeftOut::NoRoom);
        assert_eq!(likely_reason(0), WhyLeftOut::NoRoom);
    }
}
