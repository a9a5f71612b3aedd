//! Tracks which processes and threads exist, and which have exited.

use std::os::fd::OwnedFd;

use rustc_hash::FxHashMap;
use whyslow_numbers::ClockNs;
use whyslow_proc::process::{self, Stat};
pub use whyslow_profile::batch::{ProcessSeen, ThreadSeen};

use crate::ids::{OwnPid, OwnTid, Pid, ProcessRow, ThreadRow};
use crate::purpose::End;
use crate::sys;

/// Processes and threads. Rows are numbered over the whole recording, in the order in which they are handed
/// out.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Processes.
    pub processes: Vec<ProcessSeen>,
    /// Threads.
    pub threads: Vec<ThreadSeen>,
    /// Processes that exited, and when.
    pub ended: Vec<(ProcessRow, ClockNs)>,
}

#[derive(Debug)]
struct Process {
    /// Its process id outside of any container; `None` if not known.
    pid: Option<Pid>,
    /// Whether its threads have the same ids inside and outside: not so in a container.
    same_numbers: bool,
    /// A descriptor that reports its exit.
    watch: Option<OwnedFd>,
    /// It has exited, or executed another program.
    ended: bool,
    /// It has executed another program.
    executed: bool,
    /// It has passed its exit: later records do not count.
    exited: bool,
    /// Its exit has been counted.
    counted: bool,
    rings: u32,
}

#[derive(Debug, Clone, Copy)]
struct Thread {
    row: ThreadRow,
    rings: u32,
}

/// All processes, by row.
#[derive(Debug, Default)]
pub struct Processes {
    processes: Vec<Process>,
    /// Threads with rings.
    threads: FxHashMap<(ProcessRow, OwnTid), Thread>,
    /// All processes ever seen, by row, and how many of them were handed out.
    seen_processes: Vec<ProcessSeen>,
    seen_threads: Vec<ThreadSeen>,
    ends: Vec<(ProcessRow, ClockNs)>,
    taken: (usize, usize, usize),
}

impl Processes {
    /// Adds a process. `pid` is its id outside, `own_pid` the one that it sees itself. Returns its row, and the
    /// path of its program.
    pub(crate) fn add(
        &mut self,
        pid: Option<Pid>,
        own_pid: OwnPid,
        first: Option<ProcessRow>,
        now: ClockNs,
    ) -> (ProcessRow, String) {
        let row = ProcessRow::from(self.processes.len());
        let parent = pid
            .and_then(|pid| Some(Pid(Stat::of(pid.0)?.parent)))
            .and_then(|parent| self.living(parent))
            .or(first);
        let watch = pid.map(|pid| whyslow_proc::watch(pid.0));
        let ended = matches!(watch, Some(Ok(None)));
        // A forked process has its parent's name until it changes it.
        let parents = || parent.and_then(|row| Some(self.seen_processes.get(row.index())?.name.clone()));
        let name = pid.and_then(|pid| process::name(pid.0)).or_else(parents).unwrap_or_default();
        self.seen_processes.push(ProcessSeen {
            pid: pid.map_or(own_pid.0, |pid| pid.0),
            parent,
            name,
            start_ns: now,
        });
        self.processes.push(Process {
            pid,
            same_numbers: pid.is_some_and(|pid| pid.0 == own_pid.0),
            watch: watch.and_then(|watch| watch.ok().flatten()),
            ended,
            executed: false,
            exited: false,
            counted: false,
            rings: 0,
        });
        let program = pid.and_then(|pid| process::program(pid.0));
        (row, program.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default())
    }

    fn get(&self, row: ProcessRow) -> Option<&Process> {
        self.processes.get(row.index())
    }

    fn get_mut(&mut self, row: ProcessRow) -> Option<&mut Process> {
        self.processes.get_mut(row.index())
    }

    /// The row of a running process.
    pub fn living(&self, pid: Pid) -> Option<ProcessRow> {
        let found = self.processes.iter().rposition(|process| !process.ended && process.pid == Some(pid));
        found.map(ProcessRow::from)
    }

    /// All processes whose exit has not been counted.
    pub(crate) fn all_living(&self) -> Vec<ProcessRow> {
        self.rows(|process| !process.counted)
    }

    fn rows(&self, mut wanted: impl FnMut(&Process) -> bool) -> Vec<ProcessRow> {
        let numbered = self.processes.iter().enumerate();
        numbered.filter(|(_, process)| wanted(process)).map(|(row, _)| row.into()).collect()
    }

    /// Describes a process for messages.
    pub fn describe(&self, row: ProcessRow) -> String {
        self.seen_processes.get(row.index()).map_or_else(String::new, |seen| {
            if seen.name.is_empty() {
                format!("process {}", seen.pid)
            } else {
                format!("process {} ({})", seen.pid, seen.name)
            }
        })
    }

    /// Number of processes ever seen.
    pub(crate) fn count(&self) -> u64 {
        self.processes.len() as u64
    }

    /// The id of a process outside, if its threads have the same ids inside and outside.
    pub fn same_numbers(&self, row: ProcessRow) -> Option<Pid> {
        self.get(row).filter(|process| process.same_numbers)?.pid
    }

    /// The row of a thread that takes a ring, and whether the thread is new.
    pub(crate) fn ring_opened(
        &mut self,
        process: ProcessRow,
        tid: OwnTid,
        now: ClockNs,
    ) -> (ThreadRow, bool) {
        let pid = self.same_numbers(process);
        if let Some(process) = self.get_mut(process) {
            process.rings += 1;
        }
        let next = ThreadRow::from(self.seen_threads.len());
        let thread = self.threads.entry((process, tid)).or_insert_with(|| {
            let name = pid.and_then(|pid| process::thread_name(pid.0, tid.0)).unwrap_or_default();
            self.seen_threads.push(ThreadSeen { process, tid: tid.0, name, start_ns: now });
            Thread { row: next, rings: 0 }
        });
        thread.rings += 1;
        (thread.row, thread.row == next)
    }

    /// Notes that a ring was freed. Returns whether it was the thread's last.
    pub(crate) fn ring_closed(&mut self, process: ProcessRow, tid: OwnTid) -> bool {
        if let Some(process) = self.get_mut(process) {
            process.rings = process.rings.saturating_sub(1);
        }
        let Some(thread) = self.threads.get_mut(&(process, tid)) else { return false };
        thread.rings -= 1;
        let last = thread.rings == 0;
        if last {
            self.threads.remove(&(process, tid));
        }
        last
    }

    /// Whether there are few enough processes to check them in every round.
    pub(crate) fn are_few(&self) -> bool {
        const FEW: usize = 32;
        self.processes.iter().rev().take(4 * FEW).filter(|process| !process.ended).count() <= FEW
            && self.processes.len() <= 4 * FEW
    }

    /// Checks which processes have exited. Returns those that had not at the last check.
    pub fn find_ended(&mut self) -> Vec<ProcessRow> {
        let mut ended = Vec::new();
        let numbered = (0..).map(ProcessRow).zip(&mut self.processes);
        for (row, process) in numbered.filter(|(_, process)| !process.ended) {
            process.ended = match (&process.watch, process.pid) {
                (Some(watch), _) => whyslow_proc::has_ended(watch),
                (None, Some(pid)) => sys::thread_has_ended(pid.0, pid.0),
                (None, None) => false,
            };
            if process.ended {
                ended.push(row);
            }
        }
        ended
    }

    /// How a process ended, or will end.
    pub fn end_of(&self, row: ProcessRow) -> End {
        if self.get(row).is_some_and(|process| process.executed) { End::Exec } else { End::Exit }
    }

    /// All processes ever seen, by row.
    pub fn seen(&self) -> &[ProcessSeen] {
        &self.seen_processes
    }

    /// Whether a process has exited, or executed another program.
    pub fn has_ended(&self, row: ProcessRow) -> bool {
        self.get(row).is_none_or(|process| process.ended)
    }

    /// Notes that a process has executed another program.
    pub(crate) fn executed(&mut self, row: ProcessRow) {
        if let Some(process) = self.get_mut(row) {
            process.ended = true;
            process.executed = true;
        }
    }

    /// Whether the records of a process no longer count.
    #[inline]
    pub fn has_exited(&self, row: ProcessRow) -> bool {
        self.get(row).is_none_or(|process| process.exited)
    }

    /// Notes that a process has passed its exit.
    pub(crate) fn exited(&mut self, row: ProcessRow) {
        if let Some(process) = self.get_mut(row) {
            process.exited = true;
        }
    }

    /// Whether a thread has exited. Not known where inside and outside ids differ.
    pub(crate) fn thread_has_ended(&self, process: ProcessRow, tid: OwnTid) -> bool {
        self.same_numbers(process).is_some_and(|pid| sys::thread_has_ended(pid.0, tid.0))
    }

    /// Processes that have exited and have no open ring, each once.
    pub(crate) fn take_ended(&mut self) -> Vec<ProcessRow> {
        let rows = self.rows(|process| process.ended && !process.counted && process.rings == 0);
        for &row in &rows {
            self.processes[row.index()].counted = true;
            self.processes[row.index()].watch = None;
        }
        rows
    }

    /// Notes that the exit of a process was counted at this time.
    pub(crate) fn end_counted(&mut self, row: ProcessRow, time: ClockNs) {
        self.ends.push((row, time));
    }

    /// The resident set size of all running processes, in bytes.
    pub fn resident(&self) -> Vec<(ProcessRow, u64)> {
        let numbered = self.processes.iter().enumerate().filter(|(_, process)| !process.ended);
        numbered
            .filter_map(|(row, process)| Some((row.into(), process::resident_bytes(process.pid?.0)?)))
            .collect()
    }

    /// Takes the new rows since the last call. Names are read again: threads often get theirs after their
    /// first block.
    pub(crate) fn take_new(&mut self) -> Seen {
        let (processes, threads, ended) = self.taken;
        self.taken = (self.seen_processes.len(), self.seen_threads.len(), self.ends.len());
        self.rename(processes, threads);
        Seen {
            processes: self.seen_processes[processes..].to_vec(),
            threads: self.seen_threads[threads..].to_vec(),
            ended: self.ends[ended..].to_vec(),
        }
    }

    /// All rows ever.
    pub fn all(&mut self) -> Seen {
        self.rename(0, 0);
        Seen {
            processes: self.seen_processes.clone(),
            threads: self.seen_threads.clone(),
            ended: self.ends.clone(),
        }
    }

    /// Reads the names of running processes and threads again, starting at these rows.
    fn rename(&mut self, processes: usize, threads: usize) {
        let mut seen = std::mem::take(&mut self.seen_processes);
        for (row, process) in seen.iter_mut().enumerate().skip(processes) {
            let lives = self.living(Pid(process.pid)) == Some(row.into());
            if let Some(name) = lives.then(|| process::name(process.pid)).flatten() {
                process.name = name;
            }
        }
        self.seen_processes = seen;
        let mut seen = std::mem::take(&mut self.seen_threads);
        for thread in &mut seen[threads..] {
            let pid = self.same_numbers(thread.process).filter(|_| !self.has_ended(thread.process));
            if let Some(name) = pid.and_then(|pid| process::thread_name(pid.0, thread.tid)) {
                thread.name = name;
            }
        }
        self.seen_threads = seen;
    }

    /// The process of each thread, by the thread's row.
    pub fn of_threads(&self) -> Vec<ProcessRow> {
        self.seen_threads.iter().map(|thread| thread.process).collect()
    }

    /// The known ids of running processes.
    pub(crate) fn living_pids(&self) -> Vec<Pid> {
        self.processes.iter().filter(|process| !process.ended).filter_map(|process| process.pid).collect()
    }

    /// The ids and names of running processes.
    pub fn living_names(&self) -> Vec<(u32, &str)> {
        let all = self.processes.iter().zip(&self.seen_processes);
        let living = all.filter(|(process, _)| !process.ended && process.pid.is_some());
        living.map(|(_, seen)| (seen.pid, seen.name.as_str())).collect()
    }

    /// Whether a process with this id was ever seen.
    pub fn knows(&self, pid: Pid) -> bool {
        self.programs_of(pid) > 0
    }

    /// The number of programs seen with this process id: every exec adds one.
    pub(crate) fn programs_of(&self, pid: Pid) -> usize {
        self.processes.iter().filter(|process| process.pid == Some(pid)).count()
    }
}
