//! The sampled processes and threads, as /proc shows them.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use whyslow_convert::Task;
use whyslow_numbers::ClockNs;
use whyslow_proc::tracee::Tracee;
use whyslow_proc::{Mapping, process};

use super::Seen;

/// How often to check for new programs, processes and mappings. Threads are listed in each round.
const RESCAN: Duration = Duration::from_millis(20);
const MAPPINGS: Duration = Duration::from_millis(500);
/// Reading mappings may take one part in this many of the time.
const MAPPINGS_SHARE: u32 = 50;
/// Threads whose child processes are listed, at most.
const MAX_PARENTS: usize = 64;

/// The kernel's counts of a thread, as of the last tick or context switch.
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
    /// Its open schedstat file. The kernel generates the contents on every read.
    times: File,
    /// The counts at the last read.
    read: Times,
    /// The CPU time that samples stand for.
    pub(super) covered_ns: u64,
    /// Whether it started during the recording and has no sample yet.
    pub(super) is_new: bool,
    /// Set while it was asked to stop.
    pub(super) stopping: Option<Tracee>,
}

impl Thread {
    /// A thread that exists. All CPU time of a new one counts.
    fn of(task: Task, is_new: bool) -> Option<Self> {
        let times = File::open(format!("/proc/{}/task/{}/schedstat", task.pid, task.tid)).ok()?;
        let mut thread = Self { task, times, read: Times::default(), covered_ns: 0, is_new, stopping: None };
        if !is_new {
            thread.read = thread.times()?;
            thread.covered_ns = thread.read.cpu_ns;
        }
        Some(thread)
    }

    /// The kernel's counts; `None` if the thread has exited.
    fn times(&self) -> Option<Times> {
        let mut text = [0; 64];
        let len = self.times.read_at(&mut text, 0).ok()?;
        let mut words = std::str::from_utf8(&text[..len]).ok()?.split_ascii_whitespace();
        let (cpu, _queued, turns) = (words.next()?, words.next()?, words.next()?);
        Some(Times { cpu_ns: cpu.parse().ok()?, turns: turns.parse().ok()? })
    }

    /// Whether it may be on a CPU now and ran since the last call. For a new thread, the kernel may not have
    /// counted anything yet. `None` if it has exited.
    pub(super) fn may_run(&mut self) -> Option<bool> {
        let now = self.times()?;
        let has_run = self.is_new || now.cpu_ns != self.read.cpu_ns;
        self.read = now;
        Some(has_run && process::Stat::of_thread(self.task.pid, self.task.tid)?.state == 'R')
    }

    /// The CPU time of the stopped thread, if it was running at the place where it stopped. A thread that
    /// first had to be given a CPU may have been preempted anywhere in the program; if it is in a system
    /// call, it more likely waited.
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
    rescan_at: Instant,
    mappings_at: Instant,
    /// CPU time of all its threads at the first and at the last reading, and the time that samples stand for.
    first_ns: u64,
    last_ns: u64,
    pub(super) covered_ns: u64,
    pub(super) samples: u64,
}

impl Process {
    /// A running process. All CPU time of a new one counts.
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
            rescan_at: now + RESCAN,
            mappings_at: now + MAPPINGS,
            first_ns,
            last_ns: cpu_ns,
            covered_ns: 0,
            samples: 0,
        }
    }

    /// Checks for changes. Returns the child processes that it has started.
    pub(super) fn refresh(&mut self, now: Instant, time_ns: ClockNs, seen: &mut Vec<Seen>) -> Vec<u32> {
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
        if now < self.rescan_at {
            return Vec::new();
        }
        self.rescan_at = now + RESCAN;
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
        process::children(pid, MAX_PARENTS)
    }

    /// CPU time that no sample stands for, beyond noise, with samples this far apart: that of threads which
    /// exited before a sample. The threads that do get samples do not represent them fairly, because
    /// longer-lived ones are hit more often.
    pub(super) fn missed_ns(&self, period_ns: u64) -> Option<u64> {
        let missed = self.last_ns.saturating_sub(self.first_ns).saturating_sub(self.covered_ns);
        let noise = 3.0 * (self.samples.max(1) as f64).sqrt() * period_ns as f64;
        (missed as f64 > noise).then_some(missed)
    }
}
