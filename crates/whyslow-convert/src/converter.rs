//! Turns inputs into rows.

mod accounting;
mod calls;
mod mappings;
mod parked;
mod stacks;
mod tasks;
mod waits;

use std::collections::VecDeque;
use std::ops::Range;

use rustc_hash::FxHashMap;
use whyslow_processor::Processor;
use whyslow_profile::{Builder, Counters, MetricId, ProcessId, RelativeAddress, ThreadId};

use self::accounting::Accounting;
use self::calls::Calls;
pub use self::mappings::Limits;
use self::tasks::{ProcessState, Tasks, ThreadState};
pub use self::waits::WaitStacks;
use self::waits::{Losses, Waits};
use crate::input::{Input, Sample, Task};
use crate::modules::Modules;
use crate::walk::Spare;
use crate::world::World;

/// Turns the inputs of sources into rows of a profile's tables.
#[derive(Debug)]
pub struct Converter<W> {
    /// Answers all questions about the outside.
    pub world: W,
    /// The tables.
    pub builder: Builder,
    /// Counts kept during conversion.
    pub counters: Counters,
    /// Samples of the idle loop, which are dropped.
    pub idle_samples: u64,
    /// Samples of events without stacks, which have only an address.
    pub without_stack: u64,
    modules: Modules,
    processes: FxHashMap<u32, ProcessState>,
    threads: FxHashMap<u32, ThreadState>,
    start_ns: u64,
    /// Samples, switches, wakeups and system calls before this time are left out.
    taken_from_ns: u64,
    /// The address of the kernel's `_text`.
    kernel_base: u64,
    /// The addresses that the kernel's symbols cover.
    kernel_code: Range<u64>,
    limits: Limits,
    /// Set if events are bound to threads, and time without a sample is accounted for.
    accounting: Option<Accounting>,
    /// Whether context switches are recorded.
    has_switches: bool,
    /// Set if waits are recorded.
    waits: Option<Waits>,
    /// When records were lost.
    losses: Losses,
    /// Set if system calls are recorded.
    calls: Option<Calls>,
    drain: u64,
    /// Whether a live stack had to be read in this drain.
    read_live: bool,
    image_memory: usize,
    /// Threads that have exited: the drain, the system's number, the row.
    ended: VecDeque<(u64, u32, ThreadId)>,
    spare: Spare,
    /// Sum of the raw sample values of each metric.
    totals: Vec<u64>,
    /// The rows of all processes and threads, including exited ones.
    tasks: Tasks,
}

impl<W: World> Converter<W> {
    /// Creates a converter without rows. `start_ns` is time 0 of the profile, `kernel_base` the address of
    /// the kernel's `_text`.
    pub fn new(world: W, start_ns: u64, kernel_base: u64) -> Self {
        Self {
            world,
            builder: Builder::new(),
            counters: Counters::default(),
            idle_samples: 0,
            without_stack: 0,
            modules: Modules::new(Processor::HOST),
            processes: FxHashMap::default(),
            threads: FxHashMap::default(),
            start_ns,
            taken_from_ns: 0,
            kernel_base,
            kernel_code: 0..u64::MAX,
            limits: Limits::NONE,
            accounting: None,
            has_switches: false,
            waits: None,
            losses: Losses::default(),
            calls: None,
            drain: 0,
            read_live: false,
            image_memory: 0,
            ended: VecDeque::new(),
            spare: Spare::default(),
            totals: Vec::new(),
            tasks: Tasks::default(),
        }
    }

    /// The same for a recording of another processor.
    pub fn of(self, processor: Processor) -> Self {
        Self { modules: Modules::new(processor), ..self }
    }

    /// The same with limits, for a source that can contain anything.
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Sets time 0 of the profile, for sources that learn it from their first record.
    pub fn start_at(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
    }

    /// Time 0 of the profile.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Converts a time to the profile's.
    pub fn since_start(&self, time: u64) -> u64 {
        time.saturating_sub(self.start_ns)
    }

    /// Sets the nanoseconds per cycle, if samples of a metric are cycles: `seen_ns` is the CPU time that they
    /// stand for.
    pub fn set_cycle_worth(&mut self, metric: MetricId, seen_ns: u64) {
        let total = self.total(metric);
        if seen_ns > 0 && total > 0 {
            self.builder.cycle_worth(metric, seen_ns as f64 / total as f64);
        }
    }

    /// The sum of all sample values of a metric.
    pub fn total(&self, metric: MetricId) -> u64 {
        self.totals.get(metric.index()).copied().unwrap_or(0)
    }

    /// Begins a round of records. Drops the state of threads that exited some rounds ago, so that memory use
    /// depends on the running threads and not on all threads so far. Their rows are kept: the kernel may
    /// still sample them.
    pub fn begin_drain(&mut self) {
        const DRAINS_AFTER_EXIT: u64 = 4;
        self.drain += 1;
        self.read_live = false;
        while let Some(&(drain, tid, id)) = self.ended.front()
            && drain + DRAINS_AFTER_EXIT < self.drain
        {
            self.ended.pop_front();
            // Its numbers may belong to a new thread or process by now.
            if self.threads.get(&tid).is_some_and(|thread| thread.id == id) {
                self.forget_stacks(tid);
                self.threads.remove(&tid);
            }
            let process = self.builder.thread_row(id).process;
            let pid = self.builder.process_row(process).pid;
            if let Some(state) = self.processes.get_mut(&pid).filter(|state| state.id == process) {
                state.threads = state.threads.saturating_sub(1);
                if state.threads == 0 {
                    self.processes.remove(&pid);
                }
            }
        }
    }

    /// Whether a live stack had to be read in this round.
    pub fn has_read_live(&self) -> bool {
        self.read_live
    }

    /// Gives access to the parts that rows other than samples need: the world, the tables, and the current
    /// rows of thread numbers.
    pub fn with_tasks<T>(
        &mut self,
        add: impl FnOnce(&mut W, &mut Builder, crate::world::TaskRows<'_>) -> T,
    ) -> T {
        let Self { world, builder, threads, processes, .. } = self;
        add(world, builder, &task_rows(threads, processes))
    }

    /// Ends the waits, system calls and accounts of all threads, and leaves out what happens until
    /// [`Self::resume`]. Processes, threads and mappings are still followed.
    pub fn pause(&mut self, time_ns: u64) {
        self.close_accounts(time_ns);
        self.end_waits(time_ns);
        self.end_calls(time_ns);
        self.taken_from_ns = u64::MAX;
    }

    /// Takes everything from this time on. The states of threads must be reported anew, as for threads that
    /// already run when their recording starts.
    pub fn resume(&mut self, time_ns: u64) {
        self.taken_from_ns = time_ns;
    }

    /// Takes the next input.
    pub fn take(&mut self, input: &Input<'_>) {
        if input.observed_ns().is_some_and(|time_ns| time_ns < self.taken_from_ns) {
            return;
        }
        match *input {
            Input::Sample(ref sample) => self.sample(sample),
            Input::Mapped(ref mapped) => self.mapped(mapped),
            Input::KernelMapped(text, end) => self.kernel_mapped(text, end),
            Input::Named { task, ref name, by_exec, time_ns } => self.named(task, name, by_exec, time_ns),
            Input::Forked { task, parent, time_ns } => self.forked(task, parent, time_ns),
            Input::Ended { task, time_ns } => self.ended(task, time_ns),
            Input::Leaves(ref sample) => self.leaves(sample),
            Input::Enters(ref enters) => self.enters(enters),
            Input::Returns(ref returns) => self.returns(returns),
            Input::Lost { records, cpu, time_ns } => {
                self.counters.lost_samples += records;
                self.losses.add(cpu, time_ns);
                self.calls_lost();
            }
            Input::Wakes(ref wakes) => self.wakes(wakes),
            Input::Switched { tid, runs, preempted, cpu, time_ns } => {
                self.switched(tid, runs, preempted, cpu, time_ns);
            }
            Input::Throttled => self.counters.throttled += 1,
        }
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        let Sample { metric, time_ns: time, task: Task { pid, tid }, value, .. } = *sample;
        // Process 0 is the idle loop, -1 a task that has already exited.
        if pid == 0 || pid == u32::MAX {
            self.idle_samples += u64::from(pid == 0);
            return;
        }
        let tid = if tid == u32::MAX { self.leaving_thread(pid) } else { tid };
        self.ensure_thread(pid, tid, time);
        let user = self.user_stack(Task { pid, tid }, &sample.user);
        // A sample without an address still took its time.
        let stack = self.kernel_stack(sample.kernel, user).unwrap_or_else(|| {
            let nowhere = self.builder.location(None, RelativeAddress(0));
            self.builder.stack(None, nowhere)
        });
        let Some(thread) = self.threads.get(&tid).map(|thread| thread.id) else { return };
        let value = self.account_sample(metric, tid, time, value);
        if self.totals.len() <= metric.index() {
            self.totals.resize(metric.index() + 1, 0);
        }
        let total = &mut self.totals[metric.index()];
        *total = total.saturating_add(value);
        self.builder.sample(metric, time.saturating_sub(self.start_ns), thread, stack, value);
        self.account_gap(metric, tid, time);
    }
}

/// Finds the rows of a thread that is known now.
fn task_rows<'a>(
    threads: &'a FxHashMap<u32, ThreadState>,
    processes: &'a FxHashMap<u32, ProcessState>,
) -> impl Fn(u32) -> Option<(ThreadId, ProcessId)> + 'a {
    |tid| {
        let thread = threads.get(&tid)?;
        Some((thread.id, processes.get(&thread.pid)?.id))
    }
}
