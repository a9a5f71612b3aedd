//! Feeds the CPU samples that programs take of themselves to the converter.

use std::borrow::Cow;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use whyslow_agent_host::{AgentHost, CpuRecord, CpuSample, Finished, Samples};
use whyslow_convert::{Converter, Dump, Input, Sample, Task, UserStack, World};
use whyslow_numbers::{ClockNs, RunTimeAddress};
use whyslow_proc as proc;
use whyslow_processor::Processor;
use whyslow_profile::MetricId;
use whyslow_unwind::AnyRegisters;

use super::accounts::Accounts;
use super::arrivals::{Arrivals, Arrived};
use crate::agent_source::AgentPart;
use crate::mappings::take_mappings;
use crate::source::{Ending, LiveConverter};

/// Reads the agent's records.
#[derive(Debug)]
pub(crate) struct TimerSource {
    metric: MetricId,
    /// Programs that have started and libraries that were loaded.
    arrivals: Arc<Arrivals>,
    /// The thread names that are known.
    names: FxHashMap<Task, String>,
    /// Processes whose mappings were read because of an unknown address. Once per drain is enough.
    read: FxHashSet<u32>,
    accounts: Accounts,
}

impl TimerSource {
    /// A source of samples of this metric.
    pub(crate) fn new(metric: MetricId, arrivals: Arc<Arrivals>) -> Self {
        let (names, read) = (FxHashMap::default(), FxHashSet::default());
        Self { metric, arrivals, names, read, accounts: Accounts::default() }
    }

    fn take<W: World>(&mut self, arrived: Vec<Arrived>, records: &[CpuRecord], converter: &mut Converter<W>) {
        let mut arrived = arrived.iter().peekable();
        for record in records {
            while let Some(next) = arrived.next_if(|next| next.time_ns <= record.time_ns()) {
                self.arrived(next, converter);
            }
            match record {
                CpuRecord::Sample(sample) => self.sample(sample, converter),
                CpuRecord::Begun { pid, tid, time_ns } => {
                    let (task, parent) = (Task { pid: *pid, tid: *tid }, Task::first_of(*pid));
                    // A thread that the process-wide timer hit may have a sample before it reports its name.
                    if !self.names.contains_key(&task) {
                        converter.take(&Input::Forked { task, parent, time_ns: *time_ns });
                    }
                }
                CpuRecord::Ended { pid, tid, name, cpu_ns, time_ns } => {
                    let task = Task { pid: *pid, tid: *tid };
                    self.name(task, name, *time_ns, converter);
                    self.accounts.ended(task, name, *cpu_ns, *time_ns);
                    self.names.remove(&task);
                    converter.take(&Input::Ended { task, time_ns: *time_ns });
                }
                CpuRecord::Forked { pid, parent, time_ns } => {
                    let (task, parent) = (Task::first_of(*pid), Task::first_of(*parent));
                    converter.take(&Input::Forked { task, parent, time_ns: *time_ns });
                }
            }
        }
        arrived.for_each(|arrived| self.arrived(arrived, converter));
    }

    fn arrived<W: World>(&mut self, arrived: &Arrived, converter: &mut Converter<W>) {
        let Arrived { pid, time_ns, program, mappings } = arrived;
        if let Some(name) = program {
            self.names.retain(|task, _| task.pid != *pid);
            let (task, name) = (Task::first_of(*pid), Cow::from(name.as_str()));
            converter.take(&Input::Named { task, name, by_exec: true, time_ns: *time_ns });
        }
        take_mappings(*pid, *time_ns, mappings, converter);
    }

    /// Reports a thread's name, unless it is known.
    fn name<W: World>(&mut self, task: Task, name: &str, time_ns: ClockNs, converter: &mut Converter<W>) {
        if self.names.get(&task).is_none_or(|known| known != name) {
            converter.take(&Input::Named { task, name: name.into(), by_exec: false, time_ns });
            self.names.insert(task, name.to_owned());
        }
    }

    fn sample<W: World>(&mut self, sample: &CpuSample, converter: &mut Converter<W>) {
        let CpuSample { time_ns, value_ns, pid, tid, name, registers, stack, cut } = sample;
        let (task, time_ns) = (Task { pid: *pid, tid: *tid }, *time_ns);
        self.name(task, name, time_ns, converter);
        self.accounts.sampled(task, *value_ns);
        let registers = AnyRegisters::of_context(Processor::HOST, registers);
        // Code generated at run time is not reported by the agent.
        if !converter.has_code(*pid, RunTimeAddress(registers.ip())) && self.read.insert(*pid) {
            take_mappings(*pid, time_ns, &proc::Mapping::all_of(*pid).unwrap_or_default(), converter);
        }
        let dump = Dump { sp: registers.sp(), bytes: stack, cut: *cut };
        converter.take(&Input::Sample(Sample {
            metric: self.metric,
            time_ns,
            task,
            value: *value_ns,
            user: UserStack::Dump(registers, dump),
            kernel: &[],
        }));
    }
}

impl AgentPart for TimerSource {
    fn drain(&mut self, host: &AgentHost, converter: &mut LiveConverter) {
        self.read.clear();
        // Records first, arrivals second: the code that a sample ran in was reported before the sample.
        let records = host.with(|samples: &mut Samples, programs| samples.take(programs)).unwrap_or_default();
        self.take(self.arrivals.take(), &records, converter);
    }

    fn finish(self: Box<Self>, finished: &Finished, ending: &mut Ending<'_>) {
        let losses = finished.with(|samples: &mut Samples, programs| samples.losses(programs));
        let losses = losses.unwrap_or_default();
        // The CPU time of exited threads that no sample stands for.
        for missing in self.accounts.missing(losses.period_ns) {
            let (metric, value) = (self.metric, missing.cpu_ns);
            let (task, time_ns) = (missing.task, missing.time_ns);
            ending.converter.take(&Input::Unsampled { metric, task, time_ns, value });
        }
        ending.meta.counters.lost_samples += losses.lost;
        ending.note(losses.notes());
    }
}
