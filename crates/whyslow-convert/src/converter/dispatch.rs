//! Which parts an input is about.

use whyslow_numbers::{ClockNs, Start};
use whyslow_profile::batch::Batch;
use whyslow_profile::{ModuleKind, RelativeAddress, StackId, WokenBy};

use super::Converter;
use super::accounts;
use super::parked::parked_on;
use super::stacks::{Context, with_kernel};
use super::tasks::LiveThread;
use super::waits::{Leaving, Snapshot, Wakeup};
use crate::arch::system_call_argument;
use crate::input::{Enters, Input, Mapped, Returns, Sample, Task, UserStack, WaitSnapshot, Wakes};
use crate::world::World;

impl<W: World> Converter<W> {
    /// Takes the next input.
    pub fn take(&mut self, input: &Input<'_>) {
        if input.observed_ns().is_some_and(|time_ns| time_ns < self.taken_from_ns) {
            return;
        }
        match *input {
            Input::Begins { time_ns } => self.tables.start = Start::at(time_ns),
            Input::Sample(ref sample) => self.sample(sample),
            Input::Unsampled { metric, task, time_ns, value } => {
                let thread = self.ensure_thread(task, time_ns);
                if let Some(thread) = thread {
                    accounts::add_row(&mut self.tables, metric, thread.id, time_ns, value);
                }
            }
            Input::Mapped(ref mapped) => self.mapped(mapped),
            Input::KernelMapped(text, end) => self.mappings.kernel_mapped(&mut self.world, text, end),
            Input::Named { task, ref name, by_exec, time_ns } => self.named(task, name, by_exec, time_ns),
            Input::Forked { task, parent, time_ns } => self.forked(task, parent, time_ns),
            Input::Ended { task, time_ns } => self.ended(task, time_ns),
            Input::Leaves(ref sample) => self.leaves(sample),
            Input::Enters(ref enters) => self.enters(enters),
            Input::Returns(ref returns) => self.returns(returns),
            Input::Lost { records, cpu, time_ns } => self.lost(records, cpu, time_ns),
            Input::Wakes(ref wakes) => self.wakes(wakes),
            Input::Switched { tid, runs, preempted, cpu, time_ns } => {
                self.switched(tid, runs, preempted, cpu, time_ns);
            }
            Input::Runs { tid, time_ns } => self.runs(tid, time_ns),
            Input::Waits { tid, time_ns } => self.waits_already(tid, time_ns),
            Input::WaitSnapshot(ref snapshot) => self.snapshot(snapshot),
            Input::QueuedAtStart { tid, queued_ns } => {
                if let (Some(waits), Some(thread)) = (&mut self.waits, self.tasks.thread(tid)) {
                    waits.queued_at_start(thread, queued_ns);
                }
            }
            Input::Queued { tid, queued_ns, time_ns } => {
                if let (Some(waits), Some(thread)) = (&mut self.waits, self.tasks.thread(tid)) {
                    waits.queued(thread, queued_ns, time_ns);
                }
            }
            Input::Throttled => self.tables.counters.throttled += 1,
            Input::Heap(batch) => self.heap_batch(batch),
            Input::HeapSite(site) => {
                if let Some(heap) = &self.heap {
                    heap.add_site(&mut self.tables, site);
                }
            }
            Input::HeapTransfer(transfer) => {
                if let Some(heap) = &self.heap {
                    heap.add_transfer(&mut self.tables, transfer);
                }
            }
        }
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        let Sample { metric, time_ns: time, task: Task { pid, tid }, value, .. } = *sample;
        // Process 0 is the idle loop, -1 a task that has already exited.
        if pid == 0 || pid == u32::MAX {
            self.idle_samples += u64::from(pid == 0);
            return;
        }
        let tid = if tid == u32::MAX { self.tasks.leaving(pid) } else { tid };
        let Some(thread) = self.ensure_thread(Task { pid, tid }, time) else { return };
        // A sample without an address still took its time.
        let stack = self.stack_of(thread, sample).unwrap_or_else(|| {
            let nowhere = self.tables.builder.location(None, RelativeAddress(0));
            self.tables.builder.stack(None, nowhere)
        });
        let Self { accounts, tables, .. } = self;
        let value = accounts.weigh(metric, thread.id, time, value);
        tables.builder.sample(metric, tables.since_start(time), thread.id, stack, value);
        accounts.add_gap(tables, metric, thread.id, time);
    }

    /// The stack of a sample, in the program and in the kernel.
    fn stack_of(&mut self, thread: LiveThread, sample: &Sample<'_>) -> Option<StackId> {
        let user = self.user_stack(thread, &sample.user);
        let Self { world, tables, mappings: code, .. } = self;
        with_kernel(&mut Context { world, tables, code }, sample.kernel, user)
    }

    fn user_stack(&mut self, thread: LiveThread, user: &UserStack<'_>) -> Option<StackId> {
        let Self { world, tables, mappings: code, stacks, .. } = self;
        stacks.of_user(&mut Context { world, tables, code }, thread, user)
    }

    fn mapped(&mut self, mapped: &Mapped<'_>) {
        let Mapped { pid, tid, path, .. } = mapped;
        let Self { world, tasks, .. } = self;
        world.file_mapped(*pid, *tid, path, &|tid| tasks.rows_of(tid));
        if !mapped.executable {
            return;
        }
        if let Some(build_id) = &mapped.build_id {
            self.world.build_id_recorded(path, build_id);
        }
        self.ensure_process(*pid, mapped.time_ns);
        let comm = self.tasks.process_name(&self.tables, *pid);
        let is_program = self.mappings.is_program(*pid, comm, path);
        let kind = if is_program { ModuleKind::Program } else { ModuleKind::Library };
        self.mappings.map(&mut self.world, &mut self.tables, *pid, mapped.file_mapping(), kind);
    }

    fn lost(&mut self, records: u64, cpu: Option<u32>, time_ns: ClockNs) {
        self.tables.counters.lost_samples += records;
        if let Some(waits) = &mut self.waits {
            waits.lost(cpu, time_ns);
        }
        if let Some(calls) = &mut self.calls {
            calls.lost();
        }
    }

    /// A thread is about to leave its CPU.
    fn leaves(&mut self, sample: &Sample<'_>) {
        let Sample { time_ns, task: Task { pid, tid }, .. } = *sample;
        if !self.records_waits() || pid == 0 || tid == u32::MAX {
            return;
        }
        let Some(thread) = self.ensure_thread(sample.task, time_ns) else { return };
        let stack = self.stack_of(thread, sample);
        let (argument, parked) = match &sample.user {
            UserStack::Dump(registers, dump) => {
                let argument = system_call_argument(registers).unwrap_or(0);
                (argument, parked_on(&self.world, pid, argument, Some(dump)))
            }
            _ => (0, None),
        };
        if let Some(waits) = &mut self.waits {
            waits.leaves(thread, Leaving { stack, argument, parked });
        }
    }

    /// A waiting thread is woken.
    fn wakes(&mut self, Wakes { tid, by, in_interrupt }: &Wakes<'_>) {
        let Some(thread) = self.tasks.thread(*tid).filter(|_| self.waits.is_some()) else { return };
        let waker = self.tasks.thread_of(by.task);
        let mut wakeup = Wakeup { time: by.time_ns, by: WokenBy::OtherProgram, thread: None, stack: None };
        if *in_interrupt {
            wakeup.by = WokenBy::Interrupt;
        } else if let Some(waker) = waker {
            (wakeup.by, wakeup.thread) = (WokenBy::Thread, Some(waker.id));
            if !matches!(by.user, UserStack::None | UserStack::Address(_)) {
                wakeup.stack = self.stack_of(waker, by);
            }
        }
        if let Some(waits) = &mut self.waits {
            waits.wakes(thread, wakeup);
        }
    }

    fn switched(&mut self, tid: u32, runs: bool, preempted: bool, cpu: Option<u32>, time_ns: ClockNs) {
        let Some(thread) = self.tasks.thread(tid) else { return };
        let Self { waits, mappings, accounts, tables, .. } = self;
        match waits {
            Some(waits) if runs => waits.ends(mappings, thread, cpu, time_ns),
            Some(waits) => waits.begins(thread, preempted, cpu, time_ns),
            None => {}
        }
        accounts.switched(tables, thread.id, runs, time_ns);
    }

    /// A thread is on a CPU: it executes a program, or runs already.
    pub(super) fn runs(&mut self, tid: u32, time_ns: ClockNs) {
        if let Some(thread) = self.tasks.thread(tid).filter(|_| time_ns >= self.taken_from_ns) {
            self.accounts.runs(thread.id, time_ns);
        }
    }

    /// A thread already waits when its recording starts.
    fn waits_already(&mut self, tid: u32, time_ns: ClockNs) {
        let is_taken = time_ns >= self.taken_from_ns;
        let (Some(waits), Some(thread)) = (&mut self.waits, self.tasks.thread(tid)) else { return };
        if is_taken {
            waits.begins(thread, false, None, time_ns);
        }
        waits.waits_already(thread);
    }

    fn snapshot(&mut self, snapshot: &WaitSnapshot<'_>) {
        let WaitSnapshot { task, ref user, argument, frame, ref taken } = *snapshot;
        let Some(thread) = self.tasks.thread_of(task) else { return };
        let stack = self.user_stack(thread, user);
        let dump = match user {
            UserStack::Dump(_, dump) => Some(dump),
            _ => None,
        };
        let parked = parked_on(&self.world, task.pid, argument, dump);
        let Self { waits, tables, mappings, .. } = self;
        if let Some(waits) = waits {
            let snapshot = Snapshot { stack, argument, parked, frame, taken: taken.clone() };
            waits.add_snapshot(tables, mappings, thread, snapshot);
        }
    }

    fn records_waits(&self) -> bool {
        self.waits.as_ref().is_some_and(super::Waits::are_recorded)
    }

    /// A thread enters a system call.
    fn enters(&mut self, enters: &Enters<'_>) {
        let Enters { task, time_ns, .. } = *enters;
        if self.calls.is_none() || task.pid == 0 || task.tid == u32::MAX {
            return;
        }
        let Some(thread) = self.ensure_thread(task, time_ns) else { return };
        let stack = enters.stack.as_ref().and_then(|user| self.user_stack(thread, user));
        let Self { world, tables, calls: Some(calls), .. } = self else { return };
        match &enters.stack {
            Some(user) => calls.begins_at(tables, thread, enters, user, stack),
            None => calls.begins(world, tables, thread, enters),
        }
    }

    /// A system call returns.
    fn returns(&mut self, returns: &Returns) {
        let Returns { task, time_ns, .. } = *returns;
        if self.calls.is_none() || task.pid == 0 || task.tid == u32::MAX {
            return;
        }
        let Some(thread) = self.ensure_thread(task, time_ns) else { return };
        if let Self { world, tables, calls: Some(calls), .. } = self {
            calls.returns(world, tables, thread, returns);
        }
    }

    fn heap_batch(&mut self, batch: &Batch) {
        let Some(mut heap) = self.heap.take() else { return };
        for process in &batch.processes {
            let parent = process.parent.and_then(|row| heap.pid(&self.tables, row));
            let id = self.process_at(process.pid, parent, &process.name, process.start_ns);
            heap.add_process(&mut self.tables, id, &process.name);
        }
        for thread in &batch.threads {
            let pid = heap.pid(&self.tables, thread.process).unwrap_or(0);
            let task = Task { pid, tid: thread.tid };
            heap.add_thread(self.thread_at(task, &thread.name, thread.start_ns));
        }
        for module in &batch.modules {
            let pid = heap.pid(&self.tables, module.process).unwrap_or(0);
            let kind = if module.is_program { ModuleKind::Program } else { ModuleKind::Library };
            let Self { world, tables, mappings, .. } = self;
            heap.add_module(mappings.module(world, tables, pid, &module.path, kind));
        }
        heap.add(&mut self.tables, &self.mappings, batch);
        self.heap = Some(heap);
    }
}
