//! The thread that stops other threads and copies their stacks.

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
use super::{Queue, Seen, StackSample};
use crate::host;

/// How much of a stack is copied.
pub(crate) const STACK_BYTES: usize = 64 << 10;
/// How long to wait for threads to stop. A thread that queues for a CPU or waits for a disk takes longer, and
/// is sampled in a later round.
const STOP_TIMEOUT: Duration = Duration::from_millis(20);
/// How often to check for stopped threads without sleeping, which suffices for running ones. After that, the
/// checks are `NAP` apart.
const SPINS: u32 = 50;
const NAP: Duration = Duration::from_micros(50);
/// Finding the running threads may take one part in this many of the time: with very many threads there are
/// fewer samples.
const ROUND_SHARE: u32 = 20;

/// Samples until it is dropped.
#[derive(Debug)]
pub(super) struct Sampler {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    pub(super) fn start(pids: &[u32], hz: u32, queue: Queue) -> io::Result<Self> {
        let ends = Arc::new(AtomicBool::new(false));
        // Each sampled thread needs an open file.
        host::raise_file_limit();
        let processes = pids.iter().map(|pid| Process::of(*pid, false)).collect();
        let interval = Duration::from_secs(1) / hz.max(1);
        let rounds = Rounds { processes, interval, queue, ends: Arc::clone(&ends), random: seed() };
        let thread =
            std::thread::Builder::new().name("whyslow-ptrace".to_owned()).spawn(move || rounds.run())?;
        Ok(Self { ends, thread: Some(thread) })
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The kernel releases threads that are still being stopped when this thread exits.
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
        let _priority = host::RaisedPriority::new();
        while !self.ends.load(Ordering::Acquire) {
            let before = own_cpu_time();
            let mut seen = Vec::new();
            self.stop_running_threads(&mut seen);
            let pause = self.interval.max(own_cpu_time().saturating_sub(before) * ROUND_SHARE);
            self.sample_stopped(&mut seen);
            self.publish(seen);
            // At random intervals, so that samples do not run in step with the program.
            std::thread::park_timeout(pause.mul_f64(0.5 + self.random()));
        }
        let mut seen = Vec::new();
        self.sample_stopped(&mut seen);
        let time_ns = whyslow_proc::now();
        let period_ns = self.interval.as_nanos() as u64;
        seen.extend(self.processes.iter().filter_map(|process| {
            process.missed_ns(period_ns).map(|cpu_ns| Seen::Missed { pid: process.pid, cpu_ns, time_ns })
        }));
        self.publish(seen);
    }

    fn publish(&self, seen: Vec<Seen>) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).extend(seen);
    }

    /// Asks each running thread to stop.
    fn stop_running_threads(&mut self, seen: &mut Vec<Seen>) {
        let (now, time_ns) = (Instant::now(), whyslow_proc::now());
        let mut born = Vec::new();
        for process in &mut self.processes {
            for child in process.refresh(now, time_ns, seen) {
                born.push((child, process.pid));
            }
            process.threads.retain_mut(|thread| {
                let Some(runs) = thread.may_run() else {
                    seen.push(Seen::Ended { task: thread.task, time_ns: whyslow_proc::now() });
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

    /// Samples the threads that have stopped, and releases them.
    fn sample_stopped(&mut self, seen: &mut Vec<Seen>) {
        let until = Instant::now() + STOP_TIMEOUT;
        for check in 0.. {
            let mut left = false;
            for Process { threads, covered_ns, samples, .. } in &mut self.processes {
                for thread in threads.iter_mut().filter(|thread| thread.stopping.is_some()) {
                    if let Some(sample) = sample_if_stopped(thread) {
                        *covered_ns += sample.value_ns;
                        *samples += 1;
                        seen.push(Seen::Sample(sample));
                    }
                    left |= thread.stopping.is_some();
                }
            }
            if !left || Instant::now() >= until {
                return;
            }
            if check < SPINS {
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
    whyslow_proc::now().raw() | 1
}

/// Asks a thread to stop. Fails for one that is exiting or traced by another process.
fn stop(thread: &Thread) -> Option<Tracee> {
    let tracee = Tracee::seize_thread(thread.task.tid).ok()?;
    tracee.interrupt().ok()?;
    Some(tracee)
}

/// Samples a thread that was asked to stop, if it has stopped, and releases it.
fn sample_if_stopped(thread: &mut Thread) -> Option<StackSample> {
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
    let sample = copy(&tracee, thread);
    // The thread has stopped, so this fails only if it was killed.
    let _ = tracee.detach(signal);
    sample
}

/// Copies the registers and the stack of a stopped thread.
fn copy(tracee: &Tracee, thread: &mut Thread) -> Option<StackSample> {
    let registers = tracee.registers().ok()?;
    // The thread was switched off its CPU, so its time is exact.
    let cpu_ns = thread.ran_until_now(registers.are_in_a_call())?;
    let value_ns = cpu_ns.saturating_sub(thread.covered_ns);
    let mut stack = vec![0; STACK_BYTES];
    let read = whyslow_proc::read_memory(thread.task.tid, registers.sp(), &mut stack).unwrap_or(0);
    stack.truncate(read);
    if value_ns == 0 || !registers.are_of_64_bits() {
        return None;
    }
    (thread.covered_ns, thread.is_new) = (cpu_ns, false);
    let time_ns = whyslow_proc::now();
    Some(StackSample {
        time_ns,
        task: thread.task,
        value_ns,
        registers: registers.general(),
        cut: read == STACK_BYTES,
        stack,
    })
}

/// Why a process may not be stopped with ptrace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Another process already traces it.
    Traced { by: u32 },
    /// It belongs to another user.
    OtherUser,
    /// Only a process that started it, directly or through others, may trace it.
    NotItsParent { scope: i64 },
    /// Something else forbids it: a seccomp filter, or the process itself.
    Forbidden,
}

/// How often its memory is read before that counts as refused, and the time between.
const LOOKS: u32 = 10;
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

fn is_code_readable(pid: u32) -> bool {
    let mut byte = [0];
    let mappings = Mapping::all_of(pid).unwrap_or_default();
    mappings
        .iter()
        .any(|mapping| mapping.executable && whyslow_proc::read_memory(pid, mapping.start, &mut byte).is_ok())
}

/// Checks whether a process may be stopped, without stopping it: reading its memory needs the same
/// permission.
pub(crate) fn refusal(pid: u32) -> Option<Refusal> {
    if let Some(by) = Status::of(pid).and_then(|status| status.tracer()) {
        return Some(Refusal::Traced { by });
    }
    // In the middle of an exec, a process has no code for a moment.
    for look in 0..LOOKS {
        if look > 0 {
            std::thread::sleep(BETWEEN_LOOKS);
        }
        if is_code_readable(pid) {
            return None;
        }
    }
    let scope = Settings::now().ptrace_scope.unwrap_or(0);
    Some(match process::owner(pid) {
        Some(owner) if owner != whyslow_proc::user() => Refusal::OtherUser,
        _ if scope > 0 => Refusal::NotItsParent { scope },
        _ => Refusal::Forbidden,
    })
}
