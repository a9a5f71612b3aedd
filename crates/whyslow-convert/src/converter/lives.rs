//! Starts and ends: of processes, threads, rounds and the recording. Every part hears of them in the same order.

use whyslow_numbers::ClockNs;
use whyslow_profile::{ModuleKind, ProcessId, ThreadId};

use super::Converter;
use super::tasks::{Forgotten, LiveThread, Revived, UNKNOWN, nameless};
use crate::input::Task;
use crate::world::{Running, World};

impl<W: World> Converter<W> {
    /// Adds the recorded process before its first record.
    pub fn add_process(&mut self, pid: u32, name: &str) {
        let start = self.start().time();
        self.new_process(pid, None, name, start);
        self.new_thread(Task::first_of(pid), name, start);
    }

    /// Adds a process that already runs, with its threads and mappings, as far as the world knows them.
    pub fn add_running_process(&mut self, pid: u32) {
        let Running { name, threads, mappings } = self.world.running(pid).unwrap_or_default();
        let (name, start) = (name.unwrap_or_else(|| nameless(pid)), self.start().time());
        self.new_process(pid, None, &name, start);
        for (tid, own) in threads {
            self.new_thread(Task { pid, tid }, own.as_ref().unwrap_or(&name), start);
        }
        for row in mappings {
            let Self { world, tables, tasks, mappings, .. } = self;
            world.file_mapped(pid, None, &row.mapping.key.path, &|tid| tasks.rows_of(tid));
            if row.executable {
                let kind = if row.is_program { ModuleKind::Program } else { ModuleKind::Library };
                mappings.map(world, tables, pid, row.mapping, kind);
            }
        }
    }

    fn new_process(&mut self, pid: u32, parent: Option<u32>, name: &str, time: ClockNs) {
        let row = parent.and_then(|parent| self.tasks.process(parent));
        self.tasks.add_process(&mut self.tables, pid, row, name, time);
        self.mappings.process_started(pid, parent);
        self.stacks.process_changed(pid);
        self.world.process_started(pid);
    }

    fn new_thread(&mut self, task: Task, name: &str, time: ClockNs) {
        if let Some(replaced) = self.tasks.add_thread(&mut self.tables, task, name, time) {
            self.forget_thread(replaced);
        }
    }

    /// Ensures that a thread has its state. Adds a row only if no record was about the thread yet.
    pub(super) fn ensure_thread(&mut self, task: Task, time: ClockNs) -> Option<LiveThread> {
        if let Some(known) = self.tasks.thread_of(task) {
            return Some(known);
        }
        match self.tasks.revive(&self.tables, task) {
            Some(Revived { replaced, process }) => {
                if process {
                    self.mappings.process_started(task.pid, None);
                    self.stacks.process_changed(task.pid);
                }
                if let Some(replaced) = replaced {
                    self.forget_thread(replaced);
                }
            }
            None => {
                self.ensure_process(task.pid, time);
                if self.tasks.thread_of(task).is_none() {
                    self.new_thread(task, UNKNOWN, time);
                }
            }
        }
        self.tasks.thread_of(task)
    }

    /// Adds a process that was not announced.
    pub(super) fn ensure_process(&mut self, pid: u32, time: ClockNs) {
        if self.tasks.process(pid).is_none() {
            self.add_running_process(pid);
            self.tasks.seen(pid, time);
        }
    }

    /// The row of the process that had a number at a time. Adds one if no kernel record announced it.
    pub(super) fn process_at(
        &mut self,
        pid: u32,
        parent: Option<u32>,
        name: &str,
        time: ClockNs,
    ) -> ProcessId {
        if let Some(id) = self.tasks.process_at(&self.tables, pid, time) {
            return id;
        }
        self.new_process(pid, parent, name, time);
        self.tasks.seen(pid, time);
        // The process was added above.
        self.tasks.process(pid).unwrap_or_else(|| unreachable!())
    }

    /// The row of a thread, in the same way.
    pub(super) fn thread_at(&mut self, task: Task, name: &str, time: ClockNs) -> ThreadId {
        if let Some(id) = self.tasks.thread_at(&self.tables, task, time) {
            return id;
        }
        let process = self.process_at(task.pid, None, name, time);
        self.tasks.add_row_of_thread(&mut self.tables, task, process, name, time)
    }

    pub(super) fn forked(&mut self, task: Task, parent: Task, time: ClockNs) {
        let Task { pid, tid } = task;
        // A thread keeps its parent's name until it gets its own.
        let name = self.tasks.name_of(&self.tables, parent.tid);
        let is_process = pid != parent.pid;
        let adopted = is_process && self.tasks.adopt(&mut self.tables, pid, parent.pid, time, &name);
        if adopted {
            self.mappings.inherit(pid, parent.pid);
        } else if is_process {
            self.new_process(pid, Some(parent.pid), &name, time);
        } else if self.tasks.process(pid).is_none() {
            self.new_process(pid, None, &name, time);
        }
        if self.tasks.is_known_already(&mut self.tables, task, time, &name, adopted) {
            self.ensure_thread(task, time);
        } else {
            self.new_thread(task, &name, time);
        }
        // It is queued for its first CPU.
        if let (Some(waits), Some(thread)) = (&mut self.waits, self.tasks.thread(tid))
            && time >= self.taken_from_ns
        {
            waits.begins(thread, true, None, time);
        }
        if let Some(calls) = &mut self.calls
            && is_process
            && self.tasks.process(parent.pid).is_some()
        {
            calls.inherits(&mut self.world, parent.pid, pid);
        }
    }

    pub(super) fn named(&mut self, task: Task, name: &str, by_exec: bool, time: ClockNs) {
        let Task { pid, tid } = task;
        if by_exec && self.tasks.process(pid).is_some() {
            self.executed(task, time);
        }
        if self.tasks.process(pid).is_none() {
            self.new_process(pid, None, name, time);
        }
        if self.tasks.thread_of(task).is_none() {
            self.new_thread(task, name, time);
        }
        self.tasks.rename(&mut self.tables, task, name);
        if let Some(thread) = self.tasks.thread(tid) {
            self.stacks.forget(thread.id);
        }
    }

    /// A thread executes a program, so it is on a CPU. If it is one of several, it continues under the number of the
    /// first one, and all others exit. No record announces the end of its old number.
    fn executed(&mut self, task: Task, time: ClockNs) {
        self.mappings.executed(task.pid);
        self.stacks.process_changed(task.pid);
        for other in self.tasks.others(&self.tables, task) {
            self.end_thread(other, time);
        }
        self.tasks.goes_on(&mut self.tables, task);
        // The first thread does so before its events start.
        self.runs(task.tid, time);
        if let Some(calls) = &mut self.calls {
            calls.executed(task.pid, time);
        }
    }

    pub(super) fn ended(&mut self, task: Task, time: ClockNs) {
        self.end_thread(task.tid, time);
        // Threads can continue after the first one has exited.
        if !self.tasks.end_process(&mut self.tables, task, time) || task.pid != task.tid {
            return;
        }
        if self.mappings.process_ended(task.pid) {
            self.tables.counters.unobservable_execs += 1;
        }
        if let Some(calls) = &mut self.calls {
            calls.process_ended(task.pid, time);
        }
        self.world.process_ended(task.pid);
    }

    fn end_thread(&mut self, tid: u32, time: ClockNs) {
        let Some(thread) = self.tasks.thread(tid) else { return };
        self.store_times(thread, time);
        self.accounts.end(&mut self.tables, thread.id, time);
        self.end_call(thread, time);
        self.stacks.forget(thread.id);
        self.tasks.end_thread(&mut self.tables, tid, time);
    }

    /// Ends the wait of a thread, and stores its times.
    fn store_times(&mut self, thread: LiveThread, time: ClockNs) {
        let Self { waits: Some(waits), accounts, tables, mappings, .. } = self else { return };
        waits.ends(mappings, thread, None, time);
        waits.store_times(tables, thread, accounts.ran_ns(thread.id, time));
    }

    fn end_call(&mut self, thread: LiveThread, time: ClockNs) {
        if let Self { calls: Some(calls), world, tables, .. } = self {
            calls.thread_ends(world, tables, thread, time);
        }
    }

    /// Drops the state of a thread in all parts.
    fn forget_thread(&mut self, thread: ThreadId) {
        self.stacks.forget(thread);
        self.accounts.forget(thread);
        if let Some(waits) = &mut self.waits {
            waits.forget(thread);
        }
        if let Some(calls) = &mut self.calls {
            calls.forget(thread);
        }
    }

    /// Begins a round of records.
    pub fn begin_drain(&mut self) {
        self.stacks.begin_round();
        let Forgotten { threads, processes } = self.tasks.begin_round(&self.tables);
        threads.into_iter().for_each(|thread| self.forget_thread(thread));
        for pid in processes {
            self.mappings.forget(pid);
            self.stacks.process_changed(pid);
        }
    }

    /// All records up to a time have arrived.
    pub fn end_drain(&mut self, until: ClockNs) {
        if let Some(waits) = &mut self.waits {
            waits.end_round(until);
        }
    }

    /// Adds the rows of waits and calls that are complete.
    pub fn flush(&mut self, now: ClockNs) {
        if let Some(calls) = &mut self.calls {
            calls.flush(&mut self.tables);
        }
        if let Some(waits) = &mut self.waits {
            waits.settle(&mut self.tables, now, false);
        }
    }

    /// Ends the waits, system calls and accounts of all threads, and leaves out what happens until
    /// [`Self::resume`]. Processes, threads and mappings are still followed.
    pub fn pause(&mut self, time_ns: ClockNs) {
        for thread in self.tasks.all() {
            self.accounts.close(&mut self.tables, thread.id, time_ns);
        }
        self.end_waits(time_ns);
        self.end_calls(time_ns);
        self.taken_from_ns = ClockNs::MAX;
    }

    /// Takes everything from this time on. The states of threads must be reported anew, as for threads that
    /// already run when their recording starts.
    pub fn resume(&mut self, time_ns: ClockNs) {
        self.taken_from_ns = time_ns;
    }

    /// Ends what is under way at the end of the recording: accounts, waits and system calls.
    pub fn end(&mut self, time_ns: ClockNs) {
        let mut running = self.tasks.living(&self.tables);
        running.sort_unstable_by_key(|thread| thread.id);
        for thread in running {
            self.accounts.end(&mut self.tables, thread.id, time_ns);
        }
        self.end_waits(time_ns);
        self.end_calls(time_ns);
    }

    fn end_waits(&mut self, time: ClockNs) {
        for thread in self.tasks.living(&self.tables) {
            self.store_times(thread, time);
        }
        if let Some(waits) = &mut self.waits {
            waits.settle(&mut self.tables, time, true);
        }
    }

    fn end_calls(&mut self, time: ClockNs) {
        for thread in self.tasks.all() {
            self.end_call(thread, time);
        }
        if let Some(calls) = &mut self.calls {
            calls.end(&mut self.tables);
        }
    }
}
