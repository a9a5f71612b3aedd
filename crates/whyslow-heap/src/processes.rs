//! Which processes and threads there are, and which of them are gone.

use std::os::fd::OwnedFd;

use rustc_hash::FxHashMap;
use whyslow_proc::process::{self, Stat};

use crate::outcome::{ProcessSeen, ThreadSeen};
use crate::sys;
use crate::tally::End;

#[derive(Debug)]
struct Process {
    /// Its number here; `None` where it is not known.
    pid: Option<u32>,
    /// Whether its threads have the numbers here that they have there: not so in a container.
    same_numbers: bool,
    /// Tells its end.
    watch: Option<OwnedFd>,
    /// It is gone, or has become another program.
    gone: bool,
    /// The latter.
    executed: bool,
    /// It has gone through its exit: what it still writes does not count.
    left: bool,
    ended: bool,
    rings: u32,
}

#[derive(Debug, Clone, Copy)]
struct Thread {
    row: u32,
    rings: u32,
}

/// All processes, by row.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    processes: Vec<Process>,
    /// Threads that have rings.
    threads: FxHashMap<(u32, u32), Thread>,
    /// Everyone there ever was, by row, and how many of them were handed out.
    seen_processes: Vec<ProcessSeen>,
    seen_threads: Vec<ThreadSeen>,
    ended: Vec<(u32, u64)>,
    taken: (usize, usize, usize),
}

/// Processes, threads, and when processes ended.
type Tables = (Vec<ProcessSeen>, Vec<ThreadSeen>, Vec<(u32, u64)>);

impl Processes {
    /// Adds the process of a row. `pid` is its number here, `own_pid` what it calls itself. The path of its program.
    pub(crate) fn add(
        &mut self,
        row: u32,
        pid: Option<u32>,
        own_pid: u32,
        first: Option<u32>,
        now_ns: u64,
    ) -> String {
        debug_assert_eq!(row as usize, self.processes.len());
        let parent =
            pid.and_then(|pid| Some(Stat::of(pid)?.parent)).and_then(|parent| self.living(parent)).or(first);
        let watch = pid.map(whyslow_proc::watch);
        let gone = matches!(watch, Some(Ok(None)));
        // A forked process has its parent's name, until it says otherwise.
        let parents = || parent.and_then(|row| Some(self.seen_processes.get(row as usize)?.name.clone()));
        let name = pid.and_then(process::name).or_else(parents).unwrap_or_default();
        self.seen_processes.push(ProcessSeen { pid: pid.unwrap_or(own_pid), parent, name, start_ns: now_ns });
        self.processes.push(Process {
            pid,
            same_numbers: pid == Some(own_pid),
            watch: watch.and_then(|watch| watch.ok().flatten()),
            gone,
            executed: false,
            left: false,
            ended: false,
            rings: 0,
        });
        let program = pid.and_then(process::program);
        program.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default()
    }

    fn get(&self, row: u32) -> Option<&Process> {
        self.processes.get(row as usize)
    }

    fn get_mut(&mut self, row: u32) -> Option<&mut Process> {
        self.processes.get_mut(row as usize)
    }

    /// The row of a process that lives.
    pub(crate) fn living(&self, pid: u32) -> Option<u32> {
        let found = self.processes.iter().rposition(|process| !process.gone && process.pid == Some(pid));
        found.map(|row| row as u32)
    }

    /// All that are not counted as ended.
    pub(crate) fn all_living(&self) -> Vec<u32> {
        self.rows(|process| !process.ended)
    }

    fn rows(&self, mut wanted: impl FnMut(&Process) -> bool) -> Vec<u32> {
        let numbered = self.processes.iter().enumerate();
        numbered.filter(|(_, process)| wanted(process)).map(|(row, _)| row as u32).collect()
    }

    /// A process in words.
    pub(crate) fn who(&self, row: u32) -> String {
        self.seen_processes.get(row as usize).map_or_else(String::new, |seen| {
            if seen.name.is_empty() {
                format!("process {}", seen.pid)
            } else {
                format!("process {} ({})", seen.pid, seen.name)
            }
        })
    }

    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.processes.len() as u64
    }

    /// The number of a process here, if its threads have theirs too.
    pub(crate) fn same_numbers(&self, row: u32) -> Option<u32> {
        self.get(row).filter(|process| process.same_numbers)?.pid
    }

    /// The row of a thread that takes a ring. A thread that is new gets its row from `add`.
    pub(crate) fn thread(&mut self, process: u32, tid: u32, now_ns: u64, add: impl FnOnce() -> u32) -> u32 {
        let pid = self.same_numbers(process);
        if let Some(process) = self.get_mut(process) {
            process.rings += 1;
        }
        let thread = self.threads.entry((process, tid)).or_insert_with(|| {
            let name = pid.and_then(|pid| process::thread_name(pid, tid)).unwrap_or_default();
            self.seen_threads.push(ThreadSeen { process, tid, name, start_ns: now_ns });
            Thread { row: add(), rings: 0 }
        });
        thread.rings += 1;
        thread.row
    }

    /// A ring was given back. Whether it was the thread's last.
    pub(crate) fn ring_closed(&mut self, process: u32, tid: u32) -> bool {
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

    /// Whether there are so few processes that they can be looked at all the time.
    pub(crate) fn are_few(&self) -> bool {
        const FEW: usize = 32;
        self.processes.iter().rev().take(4 * FEW).filter(|process| !process.gone).count() <= FEW
            && self.processes.len() <= 4 * FEW
    }

    /// Looks which processes have ended; those that had not the last time.
    pub(crate) fn look_for_ended(&mut self) -> Vec<u32> {
        let mut ended = Vec::new();
        let numbered = (0u32..).zip(&mut self.processes);
        for (row, process) in numbered.filter(|(_, process)| !process.gone) {
            process.gone = match (&process.watch, process.pid) {
                (Some(watch), _) => whyslow_proc::has_ended(watch),
                (None, Some(pid)) => sys::thread_is_gone(pid, pid),
                (None, None) => false,
            };
            if process.gone {
                ended.push(row);
            }
        }
        ended
    }

    /// How a process ended, or ends.
    pub(crate) fn end_of(&self, row: u32) -> End {
        if self.get(row).is_some_and(|process| process.executed) { End::Exec } else { End::Exit }
    }

    /// Everyone there ever was, by row.
    pub(crate) fn seen(&self) -> &[ProcessSeen] {
        &self.seen_processes
    }

    /// Whether a process is gone.
    pub(crate) fn is_gone(&self, row: u32) -> bool {
        self.get(row).is_none_or(|process| process.gone)
    }

    /// A process has become another program.
    pub(crate) fn mark_executed(&mut self, row: u32) {
        if let Some(process) = self.get_mut(row) {
            process.gone = true;
            process.executed = true;
        }
    }

    /// Whether what a process writes no longer counts.
    #[inline]
    pub(crate) fn has_left(&self, row: u32) -> bool {
        self.get(row).is_none_or(|process| process.left)
    }

    /// A process has gone through its exit.
    pub(crate) fn mark_left(&mut self, row: u32) {
        if let Some(process) = self.get_mut(row) {
            process.left = true;
        }
    }

    /// Whether a thread is gone. Not known where numbers differ.
    pub(crate) fn thread_is_gone(&self, process: u32, tid: u32) -> bool {
        self.same_numbers(process).is_some_and(|pid| sys::thread_is_gone(pid, tid))
    }

    /// Processes that are gone and whose rings are closed, each once.
    pub(crate) fn take_ended(&mut self) -> Vec<u32> {
        let rows = self.rows(|process| process.gone && !process.ended && process.rings == 0);
        for &row in &rows {
            self.processes[row as usize].ended = true;
            self.processes[row as usize].watch = None;
        }
        rows
    }

    /// A process ended at this time.
    pub(crate) fn ended(&mut self, row: u32, time_ns: u64) {
        self.ended.push((row, time_ns));
    }

    /// The resident set of all that live, in bytes.
    pub(crate) fn resident(&self) -> Vec<(u32, u64)> {
        let numbered = self.processes.iter().enumerate().filter(|(_, process)| !process.gone);
        numbered
            .filter_map(|(row, process)| Some((row as u32, process::resident_bytes(process.pid?)?)))
            .collect()
    }

    /// What is new since the last time. Names are looked up once more: threads often get theirs after their first block.
    pub(crate) fn take_new(&mut self) -> Tables {
        let (processes, threads, ended) = self.taken;
        self.taken = (self.seen_processes.len(), self.seen_threads.len(), self.ended.len());
        self.rename(processes, threads);
        (
            self.seen_processes[processes..].to_vec(),
            self.seen_threads[threads..].to_vec(),
            self.ended[ended..].to_vec(),
        )
    }

    /// All there ever was.
    pub(crate) fn all(&mut self) -> Tables {
        self.rename(0, 0);
        (self.seen_processes.clone(), self.seen_threads.clone(), self.ended.clone())
    }

    /// Looks up the names of those that live, from these rows on.
    fn rename(&mut self, processes: usize, threads: usize) {
        let mut seen = std::mem::take(&mut self.seen_processes);
        for (row, process) in seen.iter_mut().enumerate().skip(processes) {
            let lives = self.living(process.pid) == Some(row as u32);
            if let Some(name) = lives.then(|| process::name(process.pid)).flatten() {
                process.name = name;
            }
        }
        self.seen_processes = seen;
        let mut seen = std::mem::take(&mut self.seen_threads);
        for thread in &mut seen[threads..] {
            let pid = self.same_numbers(thread.process).filter(|_| !self.is_gone(thread.process));
            if let Some(name) = pid.and_then(|pid| process::thread_name(pid, thread.tid)) {
                thread.name = name;
            }
        }
        self.seen_threads = seen;
    }

    /// The process of each thread, by the thread's row.
    pub(crate) fn of_threads(&self) -> Vec<u32> {
        self.seen_threads.iter().map(|thread| thread.process).collect()
    }

    /// The numbers of those that live, as far as they are known.
    pub(crate) fn living_pids(&self) -> Vec<u32> {
        self.processes.iter().filter(|process| !process.gone).filter_map(|process| process.pid).collect()
    }

    /// The numbers and names of those that live.
    pub(crate) fn living_names(&self) -> Vec<(u32, &str)> {
        let all = self.processes.iter().zip(&self.seen_processes);
        let living = all.filter(|(process, _)| !process.gone && process.pid.is_some());
        living.map(|(_, seen)| (seen.pid, seen.name.as_str())).collect()
    }

    /// Whether there ever was a process with this number.
    pub(crate) fn knows(&self, pid: u32) -> bool {
        self.programs_of(pid) > 0
    }

    /// How many programs there were with this number: a process becomes another one when it executes it.
    pub(crate) fn programs_of(&self, pid: u32) -> usize {
        self.processes.iter().filter(|process| process.pid == Some(pid)).count()
    }
}
