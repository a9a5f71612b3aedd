//! Ptrace sampling of processes that already run, where perf events are not permitted.
//!
//! ```text
//! sampler    a recorder thread that stops each running thread of theirs, copies its registers and stack, and releases it
//! watched    the sampled processes and threads, as /proc shows them
//! (here)     feeds the samples to the converter
//! ```
//! A thread is stopped with ptrace, as a debugger would do it, and detached afterwards: signals reach it as
//! always, and if whyslow is killed, the kernel releases the thread. Waiting threads are left alone, because
//! a stop would end some of their waits. A sample stands for the CPU time that its thread has used since its
//! previous sample, as counted by the kernel.

mod sampler;
mod watched;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashSet;
use whyslow_convert::{Converter, Dump, Input, Sample, Task, UserStack, World};
use whyslow_numbers::{ClockNs, RunTimeAddress};
use whyslow_proc::Mapping;
use whyslow_processor::Processor;
use whyslow_profile::MetricId;
use whyslow_unwind::AnyRegisters;

use crate::RecordError;
use crate::mappings::take_mappings;
use crate::source::{LiveConverter, Source};
use sampler::Sampler;
pub(crate) use sampler::{Refusal, STACK_BYTES, refusal};

/// Samples of a thread per second, at most. Each costs the thread 10 to 30 µs of CPU time.
pub(crate) const MAX_HZ: u32 = 100;

/// A sample of a stopped thread.
#[derive(Debug)]
struct StackSample {
    time_ns: ClockNs,
    task: Task,
    /// The CPU time that it stands for.
    value_ns: u64,
    registers: [u64; 17],
    stack: Vec<u8>,
    /// Whether the stack continues beyond the copy.
    cut: bool,
}

/// An observation of the sampler thread.
#[derive(Debug)]
enum Seen {
    /// A process that a recorded one has started.
    Process { pid: u32, parent: u32, time_ns: ClockNs },
    /// A new thread.
    Thread { task: Task, name: String, time_ns: ClockNs },
    /// A process that has executed another program.
    Program { pid: u32, name: String, time_ns: ClockNs },
    /// The mappings of a process, after they have changed.
    Mappings { pid: u32, mappings: Vec<Mapping>, time_ns: ClockNs },
    /// A sample of a thread that ran.
    Sample(StackSample),
    /// A thread that has exited.
    Ended { task: Task, time_ns: ClockNs },
    /// CPU time of a process that no sample stands for.
    Missed { pid: u32, cpu_ns: u64, time_ns: ClockNs },
}

/// Observations that were not taken yet.
type Queue = Arc<Mutex<Vec<Seen>>>;

/// Samples running processes.
#[derive(Debug)]
pub(crate) struct PtraceSource {
    metric: MetricId,
    pids: Vec<u32>,
    rate_hz: u32,
    queue: Queue,
    sampler: Option<Sampler>,
    /// Processes whose mappings were read because of an unknown address. Once per drain is enough.
    read: FxHashSet<u32>,
}

impl PtraceSource {
    /// A source of samples of this metric, at this rate per second of CPU time.
    pub(crate) fn new(metric: MetricId, pids: &[u32], rate_hz: u32) -> Self {
        Self {
            metric,
            pids: pids.to_vec(),
            rate_hz,
            queue: Queue::default(),
            sampler: None,
            read: FxHashSet::default(),
        }
    }
}

impl Source for PtraceSource {
    fn start(&mut self, _converter: &mut LiveConverter) -> Result<(), RecordError> {
        let what = "ptrace sampling could not be started";
        let sampler = Sampler::start(&self.pids, self.rate_hz, Arc::clone(&self.queue));
        self.sampler = Some(sampler.map_err(|error| RecordError::System { what, error })?);
        Ok(())
    }

    fn drain(&mut self, _until: ClockNs, converter: &mut LiveConverter) {
        self.read.clear();
        let seen = std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner));
        for seen in &seen {
            self.take(seen, converter);
        }
    }

    /// Its thread goes on, because it also follows the processes.
    fn resume(&mut self, _converter: &mut LiveConverter) -> Result<(), RecordError> {
        Ok(())
    }

    fn stop(&mut self) {
        drop(self.sampler.take());
    }
}

impl PtraceSource {
    fn take<W: World>(&mut self, seen: &Seen, converter: &mut Converter<W>) {
        match seen {
            Seen::Process { pid, parent, time_ns } => {
                let (task, parent) = (Task::first_of(*pid), Task::first_of(*parent));
                converter.take(&Input::Forked { task, parent, time_ns: *time_ns });
            }
            Seen::Thread { task, name, time_ns } => {
                if task.tid != task.pid {
                    let parent = Task::first_of(task.pid);
                    converter.take(&Input::Forked { task: *task, parent, time_ns: *time_ns });
                }
                let name = Cow::from(name.as_str());
                converter.take(&Input::Named { task: *task, name, by_exec: false, time_ns: *time_ns });
            }
            Seen::Program { pid, name, time_ns } => {
                let (task, name) = (Task::first_of(*pid), Cow::from(name.as_str()));
                converter.take(&Input::Named { task, name, by_exec: true, time_ns: *time_ns });
            }
            Seen::Mappings { pid, mappings, time_ns } => take_mappings(*pid, *time_ns, mappings, converter),
            Seen::Sample(sample) => self.sample(sample, converter),
            Seen::Ended { task, time_ns } => converter.take(&Input::Ended { task: *task, time_ns: *time_ns }),
            Seen::Missed { pid, cpu_ns, time_ns } => {
                let (metric, task) = (self.metric, Task::first_of(*pid));
                converter.take(&Input::Unsampled { metric, task, time_ns: *time_ns, value: *cpu_ns });
            }
        }
    }

    fn sample<W: World>(&mut self, sample: &StackSample, converter: &mut Converter<W>) {
        let StackSample { time_ns, task, value_ns, registers, stack, cut } = sample;
        let registers = AnyRegisters::of_context(Processor::HOST, registers);
        // A library that was just loaded, or code generated at run time.
        if !converter.has_code(task.pid, RunTimeAddress(registers.ip())) && self.read.insert(task.pid) {
            take_mappings(task.pid, *time_ns, &Mapping::all_of(task.pid).unwrap_or_default(), converter);
        }
        let dump = Dump { sp: registers.sp(), bytes: stack, cut: *cut };
        converter.take(&Input::Sample(Sample {
            metric: self.metric,
            time_ns: *time_ns,
            task: *task,
            value: *value_ns,
            user: UserStack::Dump(registers, dump),
            kernel: &[],
        }));
    }
}
