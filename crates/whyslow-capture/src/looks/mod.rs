//! Stop and look: samples of processes that run already, where the kernel refuses perf events.
//!
//! ```text
//! looker     a thread of ours stops each of their threads that runs, copies its registers and its stack, and lets it go
//! watched    the processes and threads that are looked at, as /proc shows them
//! (here)     what was seen, as inputs of the converter
//! ```
//! A thread is stopped as a debugger would do it (ptrace) and is nobody's again afterwards: signals reach it as always, and
//! should whyslow die, the kernel lets go of it. Threads that wait are left alone, because a stop would end some of their waits.
//! A look stands for the CPU time that its thread has used since the one before, as the kernel has counted it.

mod looker;
mod watched;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashSet;
use whyslow_convert::{Converter, Dump, Input, Sample, Task, UserStack, World, context_registers};
use whyslow_proc::Mapping;
use whyslow_profile::MetricId;

use crate::mappings::take_mappings;
use looker::Looker;
pub(crate) use looker::{Refusal, STACK_BYTES, refusal};

/// At most so many looks at a thread in a second. Each costs it 10 to 30 µs of CPU time.
pub(crate) const MOST_HZ: u32 = 100;

/// What a look shows.
#[derive(Debug)]
struct Look {
    time_ns: u64,
    task: Task,
    /// The CPU time that it stands for.
    value_ns: u64,
    registers: [u64; 17],
    stack: Vec<u8>,
    /// Whether the stack goes on beyond that.
    cut: bool,
}

/// What was seen.
#[derive(Debug)]
enum Seen {
    /// A process that a recorded one has made.
    Process { pid: u32, parent: u32, time_ns: u64 },
    /// A thread that is new.
    Thread { task: Task, name: String, time_ns: u64 },
    /// A process executes another program.
    Program { pid: u32, name: String, time_ns: u64 },
    /// The mappings of a process are others than before.
    Mappings { pid: u32, mappings: Vec<Mapping>, time_ns: u64 },
    /// A thread that ran.
    Look(Look),
    /// A thread has ended.
    Ended { task: Task, time_ns: u64 },
    /// CPU time of a process for which no look stands.
    Missed { pid: u32, cpu_ns: u64, time_ns: u64 },
}

/// What was seen and not taken yet.
type Queue = Arc<Mutex<Vec<Seen>>>;

/// Looks at processes while it lives.
#[derive(Debug)]
pub(crate) struct LookSource {
    metric: MetricId,
    queue: Queue,
    looker: Option<Looker>,
    /// Processes whose mappings were read because of an address that nobody had told of. Once in a drain is enough.
    read: FxHashSet<u32>,
}

impl LookSource {
    /// Begins to look at processes, so often in a second of their CPU time.
    pub(crate) fn start(metric: MetricId, pids: &[u32], hz: u32) -> std::io::Result<Self> {
        let queue = Queue::default();
        let looker = Looker::start(pids, hz, Arc::clone(&queue))?;
        Ok(Self { metric, queue, looker: Some(looker), read: FxHashSet::default() })
    }

    /// Takes what is new.
    pub(crate) fn drain<W: World>(&mut self, converter: &mut Converter<W>) {
        self.read.clear();
        let seen = std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner));
        for seen in &seen {
            self.take(seen, converter);
        }
    }

    /// Looks no more, and takes the rest.
    pub(crate) fn finish<W: World>(&mut self, converter: &mut Converter<W>) {
        drop(self.looker.take());
        self.drain(converter);
    }

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
            Seen::Look(look) => self.look(look, converter),
            Seen::Ended { task, time_ns } => converter.take(&Input::Ended { task: *task, time_ns: *time_ns }),
            Seen::Missed { pid, cpu_ns, time_ns } => {
                converter.tell_not_sampled(self.metric, Task::first_of(*pid), *time_ns, *cpu_ns);
            }
        }
    }

    fn look<W: World>(&mut self, look: &Look, converter: &mut Converter<W>) {
        let Look { time_ns, task, value_ns, registers, stack, cut } = look;
        let registers = context_registers(registers);
        // A library that has just come, or code that was made at run time.
        if !converter.has_code(task.pid, registers.ip()) && self.read.insert(task.pid) {
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
