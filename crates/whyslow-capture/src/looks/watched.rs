//! The processes and threads that are looked at, as /proc shows them.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use whyslow_convert::Task;
use whyslow_proc::tracee::Tracee;
use whyslow_proc::{Mapping, process};

use super::Seen;

/// How often it is looked for new programs and processes, and for new mappings. Threads are looked for in each round.
const NEWS: Duration = Duration::from_millis(20);
const MAPPINGS: Duration = Duration::from_millis(500);
/// Reading mappings may cost this share of the time.
const MAPPINGS_SHARE: u32 = 50;
/// Threads of which it is asked what processes they have made.
const MOST_PARENTS: usize = 64;

/// What the kernel has counted of a thread, as of the last tick or switch.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    /// CPU time.
    pub(super) cpu_ns: u64,
    /// How often it was given a CPU.
    turns: u64,
}

/// A thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) task: Task,
    /// Its times, open. The kernel writes them out anew whenever they are read.
    times: File,
    /// What they were when they were read last.
    read: Times,
    /// The CPU time that looks stand for.
    pub(super) covered_ns: u64,
    /// It began while others were looked at, and has not been looked at.
    pub(super) is_new: bool,
    /// It was asked to stop.
    pub(super) stopping: Option<Tracee>,
}

impl Thread {
    /// One that is there; of one that is new all its time counts.
    fn of(task: Task, is_new: bool) -> Option<Self> {
        let times = File::open(format!("/proc/{}/task/{}/schedstat", task.pid, task.tid)).ok()?;
        let mut thread = Self { task, times, read: Times::default(), covered_ns: 0, is_new, stopping: None };
        if !is_new {
            thread.read = thread.times()?;
            thread.covered_ns = thread.read.cpu_ns;
        }
        Some(thread)
    }

    /// What the kernel has counted; nothing when it has ended.
    fn times(&self) -> Option<Times> {
        let mut text = [0; 64];
        let len = self.times.read_at(&mut text, 0).ok()?;
        let mut words = std::str::from_utf8(&text[..len]).ok()?.split_ascii_whitespace();
        let (cpu, _queued, turns) = (words.next()?, words.next()?, words.next()?);
        Some(Times { cpu_ns: cpu.parse().ok()?, turns: turns.parse().ok()? })
    }

    /// Whether it may be on a CPU now, and was since it was asked last; of a new one the kernel may not have counted it yet. `None` when
    /// it has ended.
    pub(super) fn may_run(&mut self) -> Option<bool> {
        let now = self.times()?;
        let has_run = self.is_new || now.cpu_ns != self.read.cpu_ns;
        self.read = now;
        Some(has_run && process::Stat::of_thread(self.task.pid, self.task.tid)?.state == 'R')
    }

    /// The CPU time that it has used, now that it has stopped, if it was where it is when it ran. One that had to be given a CPU first may
    /// have been taken from another by somebody else's turn, anywhere in the program; in a system call it has waited more likely.
    pub(super) fn ran_until_now(&self, is_in_a_call: bool) -> Option<u64> {
        let now = self.times()?;
        (now.turns == self.read.turns || !is_in_a_call).then_some(now.cpu_ns)
    }
}

/// A process with its threads.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) threads: Vec<Thread>,
    program: Option<PathBuf>,
    mappings: Vec<Mapping>,
    news_at: Instant,
    mappings_at: Instant,
    /// CPU time of all its threads when it was seen first and last, and what looks stand for.
    first_ns: u64,
    last_ns: u64,
    pub(super) covered_ns: u64,
    pub(super) looks: u64,
}

impl Process {
    /// One that runs; of one that is new all its time counts.
    pub(super) fn of(pid: u32, is_new: bool) -> Self {
        let now = Instant::now();
        let cpu_ns = process::cpu_time_ns(pid).unwrap_or(0);
        let first_ns = if is_new { 0 } else { cpu_ns };
        let tids = process::threads(pid).unwrap_or_default();
        let threads = tids.into_iter().filter_map(|tid| Thread::of(Task { pid, tid }, is_new)).collect();
        Self {
            pid,
            threads,
            program: process::program(pid),
            mappings: Vec::new(),
            news_at: now + NEWS,
            mappings_at: now + MAPPINGS,
            first_ns,
            last_ns: cpu_ns,
            covered_ns: 0,
            looks: 0,
        }
    }

    /// Looks for what is new; children that it has made are returned.
    pub(super) fn refresh(&mut self, now: Instant, time_ns: u64, seen: &mut Vec<Seen>) -> Vec<u32> {
        let pid = self.pid;
        self.last_ns = process::cpu_time_ns(pid).unwrap_or(self.last_ns);
        for tid in process::threads(pid).unwrap_or_default() {
            if self.threads.iter().all(|thread| thread.task.tid != tid)
                && let Some(thread) = Thread::of(Task { pid, tid }, true)
            {
                let name = process::thread_name(pid, tid).unwrap_or_default();
                seen.push(Seen::Thread { task: thread.task, name, time_ns });
                self.threads.push(thread);
            }
        }
        if now < self.news_at {
            return Vec::new();
        }
        self.news_at = now + NEWS;
        let program = process::program(pid);
        if program.is_some() && program != self.program {
            self.program = program;
            self.mappings_at = now;
            seen.push(Seen::Program { pid, name: process::name(pid).unwrap_or_default(), time_ns });
        }
        if now >= self.mappings_at {
            let mappings = Mapping::all_of(pid).unwrap_or_default();
            self.mappings_at = now + MAPPINGS.max(now.elapsed() * MAPPINGS_SHARE);
            if mappings != self.mappings && !mappings.is_empty() {
                seen.push(Seen::Mappings { pid, mappings: mappings.clone(), time_ns });
                self.mappings = mappings;
            }
        }
        process::children(pid, MOST_PARENTS)
    }

    /// CPU time for which no look stands, beyond chance, if looks are so far apart: that of threads which ended before one. Those that are
    /// met are no fair sample of them, because the slow ones are met more often.
    pub(super) fn missed_ns(&self, period_ns: u64) -> Option<u64> {
        let missed = self.last_ns.saturating_sub(self.first_ns).saturating_sub(self.covered_ns);
        let by_chance = 3.0 * (self.looks.max(1) as f64).sqrt() * period_ns as f64;
        (missed as f64 > by_chance).then_some(missed)
    }
}
