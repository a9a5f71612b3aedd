//! The thread that stops others and looks at them.

use std::io;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use whyslow_proc::kernel::Settings;
use whyslow_proc::process::Status;
use whyslow_proc::tracee::{Stop, Tracee};
use whyslow_proc::{Mapping, process};

use super::watched::{Process, Thread};
use super::{Look, Queue, Seen};
use crate::host;

/// How much of a stack is copied.
pub(crate) const STACK_BYTES: usize = 64 << 10;
/// How long it is waited for threads to stop. One that has to wait for a CPU or a disk takes longer, and is looked at in a later round.
const PATIENCE: Duration = Duration::from_millis(20);
/// How often it is asked meanwhile: at once for those that run, for others after a sleep.
const GLANCES: u32 = 50;
const NAP: Duration = Duration::from_micros(50);
/// Finding out who runs may take one part in so many of the time: with very many threads there are fewer looks.
const ROUND_SHARE: u32 = 20;

/// Looks until it is dropped.
#[derive(Debug)]
pub(super) struct Looker {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Looker {
    pub(super) fn start(pids: &[u32], hz: u32, queue: Queue) -> io::Result<Self> {
        let ends = Arc::new(AtomicBool::new(false));
        // One for each thread.
        host::raise_file_limit();
        let processes = pids.iter().map(|pid| Process::of(*pid, false)).collect();
        let interval = Duration::from_secs(1) / hz.max(1);
        let rounds = Rounds { processes, interval, queue, ends: Arc::clone(&ends), random: seed() };
        let thread =
            std::thread::Builder::new().name("whyslow-looks".to_owned()).spawn(move || rounds.run())?;
        Ok(Self { ends, thread: Some(thread) })
    }
}

impl Drop for Looker {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // Who is still being stopped is let go by the kernel when that thread ends.
            let _ = thread.join();
        }
    }
}

struct Rounds {
    processes: Vec<Process>,
    interval: Duration,
    queue: Queue,
    ends: Arc<AtomicBool>,
    random: u64,
}

impl Rounds {
    fn run(mut self) {
        let _first = host::GoFirst::new();
        while !self.ends.load(Ordering::Acquire) {
            let before = own_cpu_time();
            let mut seen = Vec::new();
            self.stop_who_runs(&mut seen);
            let pause = self.interval.max(own_cpu_time().saturating_sub(before) * ROUND_SHARE);
            self.look(&mut seen);
            self.tell(seen);
            // At random moments, lest they keep step with what the program does.
            std::thread::park_timeout(pause.mul_f64(0.5 + self.random()));
        }
        let mut seen = Vec::new();
        self.look(&mut seen);
        let time_ns = whyslow_proc::monotonic_ns();
        let period_ns = self.interval.as_nanos() as u64;
        seen.extend(self.processes.iter().filter_map(|process| {
            process.missed_ns(period_ns).map(|cpu_ns| Seen::Missed { pid: process.pid, cpu_ns, time_ns })
        }));
        self.tell(seen);
    }

    fn tell(&self, seen: Vec<Seen>) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).extend(seen);
    }

    /// Asks each thread that runs to stop.
    fn stop_who_runs(&mut self, seen: &mut Vec<Seen>) {
        let (now, time_ns) = (Instant::now(), whyslow_proc::monotonic_ns());
        let mut born = Vec::new();
        for process in &mut self.processes {
            for child in process.refresh(now, time_ns, seen) {
                born.push((child, process.pid));
            }
            process.threads.retain_mut(|thread| {
                let Some(runs) = thread.may_run() else {
                    seen.push(Seen::Ended { task: thread.task, time_ns: whyslow_proc::monotonic_ns() });
                    return false;
                };
                if runs && thread.stopping.is_none() {
                    thread.stopping = stop(thread);
                }
                true
            });
        }
        for (pid, parent) in born {
            if self.processes.iter().all(|process| process.pid != pid) {
                let process = Process::of(pid, true);
                seen.push(Seen::Process { pid, parent, time_ns });
                seen.push(Seen::Program { pid, name: process::name(pid).unwrap_or_default(), time_ns });
                seen.push(Seen::Mappings {
                    pid,
                    mappings: Mapping::all_of(pid).unwrap_or_default(),
                    time_ns,
                });
                for thread in &process.threads {
                    let name = process::thread_name(pid, thread.task.tid).unwrap_or_default();
                    seen.push(Seen::Thread { task: thread.task, name, time_ns });
                }
                self.processes.push(process);
            }
        }
    }

    /// Looks at those that have stopped, and lets them go.
    fn look(&mut self, seen: &mut Vec<Seen>) {
        let until = Instant::now() + PATIENCE;
        for glance in 0.. {
            let mut left = false;
            for Process { threads, covered_ns, looks, .. } in &mut self.processes {
                for thread in threads.iter_mut().filter(|thread| thread.stopping.is_some()) {
                    if let Some(look) = look_at(thread) {
                        *covered_ns += look.value_ns;
                        *looks += 1;
                        seen.push(Seen::Look(look));
                    }
                    left |= thread.stopping.is_some();
                }
            }
            if !left || Instant::now() >= until {
                return;
            }
            if glance < GLANCES {
                std::thread::yield_now();
            } else {
                std::thread::sleep(NAP);
            }
        }
    }

    /// A number from 0 to 1.
    fn random(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The CPU time of this thread.
fn own_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

fn seed() -> u64 {
    whyslow_proc::monotonic_ns() | 1
}

/// Asks a thread to stop. One that ends or that somebody else traces cannot be.
fn stop(thread: &Thread) -> Option<Tracee> {
    let tracee = Tracee::seize_thread(thread.task.tid).ok()?;
    tracee.interrupt().ok()?;
    Some(tracee)
}

/// What a thread shows that was asked to stop, if it has stopped; it is let go then.
fn look_at(thread: &mut Thread) -> Option<Look> {
    let tracee = thread.stopping.take()?;
    let signal = match tracee.stop() {
        Ok(Some(Stop::Interrupted | Stop::Group | Stop::Exec)) => 0,
        Ok(Some(Stop::Signal(signal))) => signal,
        Ok(Some(Stop::Ended)) => {
            tracee.reap();
            return None;
        }
        Ok(Some(Stop::Late) | None) => {
            thread.stopping = Some(tracee);
            return None;
        }
        Err(_) => return None,
    };
    let look = copy(&tracee, thread);
    // It has stopped, so this fails only when it was killed.
    let _ = tracee.detach(signal);
    look
}

/// What a thread that has stopped shows.
fn copy(tracee: &Tracee, thread: &mut Thread) -> Option<Look> {
    let registers = tracee.registers().ok()?;
    // It was switched off its CPU, so its time is exact.
    let cpu_ns = thread.ran_until_now(registers.are_in_a_call())?;
    let value_ns = cpu_ns.saturating_sub(thread.covered_ns);
    let mut stack = vec![0; STACK_BYTES];
    let read = whyslow_proc::read_memory(thread.task.tid, registers.sp(), &mut stack).unwrap_or(0);
    stack.truncate(read);
    if value_ns == 0 || !registers.are_of_64_bits() {
        return None;
    }
    (thread.covered_ns, thread.is_new) = (cpu_ns, false);
    let time_ns = whyslow_proc::monotonic_ns();
    Some(Look {
        time_ns,
        task: thread.task,
        value_ns,
        registers: registers.general(),
        cut: read == STACK_BYTES,
        stack,
    })
}

/// Why a process may not be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Somebody traces it already.
    Traced { by: u32 },
    /// It belongs to another user.
    OtherUser,
    /// Only who has started it may.
    NotItsParent { scope: i64 },
    /// Something else forbids it: a filter, or the process itself.
    Forbidden,
}

/// Whether a process may be looked at, without stopping it: reading its memory takes the same rights.
pub(crate) fn refusal(pid: u32) -> Option<Refusal> {
    if let Some(by) = Status::of(pid).and_then(|status| status.tracer()) {
        return Some(Refusal::Traced { by });
    }
    let mappings = Mapping::all_of(pid).unwrap_or_default();
    let mut byte = [0];
    let readable = mappings.iter().any(|mapping| {
        mapping.executable && whyslow_proc::read_memory(pid, mapping.start, &mut byte).is_ok()
    });
    if readable {
        return None;
    }
    let scope = Settings::now().ptrace_scope.unwrap_or(0);
    Some(match process::owner(pid) {
        Some(owner) if owner != whyslow_proc::user() => Refusal::OtherUser,
        _ if scope > 0 => Refusal::NotItsParent { scope },
        _ => Refusal::Forbidden,
    })
}
