//! Processes and threads: their starts, names and exits.

use rustc_hash::FxHashMap;
use whyslow_profile::{Builder, ModuleKind, Process, ProcessId, Thread, ThreadId, ThreadTimes};

use super::Converter;
use super::accounting::CpuTime;
use super::calls::InCall;
use super::waits::{Away, Snapshots, Unsplit};
use crate::completion::Images;
use crate::input::Task;
use crate::modules::ModuleIndex;
use crate::space::AddressSpace;
use crate::world::{Running, World};

/// The name of a thread of which nothing is known.
const UNKNOWN: &str = "unknown";

#[derive(Debug)]
pub(super) struct ProcessState {
    pub(super) id: ProcessId,
    pub(super) space: AddressSpace,
    /// Set between an exec and the first mapping of its program.
    pub(super) expects_program: bool,
    /// The module of its run-time code.
    pub(super) jit: Option<ModuleIndex>,
    /// Whether its memory can be read.
    pub(super) readable: bool,
    pub(super) threads: usize,
    /// Since when it is known, if no record announced its start.
    seen_ns: Option<u64>,
}

impl ProcessState {
    fn new(id: ProcessId, space: AddressSpace, readable: bool) -> Self {
        Self { id, space, expects_program: false, jit: None, readable, threads: 0, seen_ns: None }
    }
}

#[derive(Debug)]
pub(super) struct ThreadState {
    pub(super) id: ThreadId,
    pub(super) pid: u32,
    pub(super) images: Images,
    pub(super) cpu_time: CpuTime,
    pub(super) away: Away,
    pub(super) snapshots: Snapshots,
    /// Its waits until its run-queue delay is read.
    pub(super) unsplit: Unsplit,
    pub(super) call: InCall,
    /// Its time off CPUs so far.
    pub(super) times: ThreadTimes,
    /// Its run-queue delay by the kernel's account: at the start of the recording, and at the last reading.
    pub(super) queue: (u64, u64),
}

impl ThreadState {
    fn new(id: ThreadId, pid: u32) -> Self {
        Self {
            id,
            pid,
            images: Images::default(),
            cpu_time: CpuTime::default(),
            away: Away::default(),
            snapshots: Snapshots::default(),
            unsplit: Unsplit::default(),
            call: InCall::default(),
            times: ThreadTimes::default(),
            queue: (0, 0),
        }
    }
}

/// The name of a process of which nothing is known.
fn nameless(pid: u32) -> String {
    format!("pid {pid}")
}

/// Rows by the system's numbers.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    processes: FxHashMap<u32, ProcessId>,
    threads: FxHashMap<Task, ThreadId>,
    /// Earlier processes with the same number, oldest first.
    processes_before: FxHashMap<u32, Vec<ProcessId>>,
    threads_before: FxHashMap<Task, Vec<ThreadId>>,
}

impl Tasks {
    fn add_process(&mut self, pid: u32, id: ProcessId) {
        if let Some(before) = self.processes.insert(pid, id) {
            self.processes_before.entry(pid).or_default().push(before);
        }
    }

    fn add_thread(&mut self, task: Task, id: ThreadId) {
        if let Some(before) = self.threads.insert(task, id) {
            self.threads_before.entry(task).or_default().push(before);
        }
    }

    /// The process that had a number at a time.
    fn process_at(&self, builder: &Builder, pid: u32, time: u64) -> Option<ProcessId> {
        let before = self.processes_before.get(&pid).into_iter().flatten();
        last_started(before, *self.processes.get(&pid)?, |id| builder.process_row(id).start_ns <= time)
    }

    /// The thread that had a number at a time.
    fn thread_at(&self, builder: &Builder, task: Task, time: u64) -> Option<ThreadId> {
        let before = self.threads_before.get(&task).into_iter().flatten();
        last_started(before, *self.threads.get(&task)?, |id| builder.thread_row(id).start_ns <= time)
    }
}

/// The last row that had started by then; the first one if none had.
fn last_started<'a, Id: Copy + 'a>(
    before: impl DoubleEndedIterator<Item = &'a Id> + Clone,
    last: Id,
    started: impl Fn(Id) -> bool,
) -> Option<Id> {
    let rows = before.copied().chain([last]);
    rows.clone().rev().find(|id| started(*id)).or_else(|| rows.clone().next())
}

impl<W: World> Converter<W> {
    /// Adds the recorded process before its first record.
    pub fn add_process(&mut self, pid: u32, name: &str) {
        self.new_process(pid, None, name, self.start_ns);
        self.new_thread(pid, pid, name, self.start_ns);
    }

    /// Adds a process that already runs, with its threads and mappings, as far as the world knows them.
    pub fn add_running_process(&mut self, pid: u32) {
        let Running { name, threads, mappings } = self.world.running(pid).unwrap_or_default();
        let name = name.unwrap_or_else(|| nameless(pid));
        self.new_process(pid, None, &name, self.start_ns);
        for (tid, own) in threads {
            self.new_thread(pid, tid, own.as_ref().unwrap_or(&name), self.start_ns);
        }
        for row in mappings {
            let Self { world, threads, processes, .. } = self;
            world.file_mapped(pid, None, &row.mapping.key.path, &super::task_rows(threads, processes));
            if row.executable {
                let kind = if row.is_program { ModuleKind::Program } else { ModuleKind::Library };
                self.map(pid, row.mapping, kind);
            }
        }
    }

    pub(super) fn new_process(&mut self, pid: u32, parent: Option<u32>, name: &str, time: u64) {
        let parent = parent.and_then(|parent| self.processes.get(&parent));
        let space = parent.map(|parent| parent.space.clone()).unwrap_or_default();
        let parent = parent.map(|parent| parent.id);
        let name = self.builder.string(name);
        let start_ns = self.since_start(time);
        let id = self.builder.process(Process { pid, parent, name, start_ns, end_ns: None });
        self.tasks.add_process(pid, id);
        self.processes.insert(pid, ProcessState::new(id, space, self.world.has_memory()));
        self.world.process_started(pid);
    }

    pub(super) fn new_thread(&mut self, pid: u32, tid: u32, name: &str, time: u64) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.threads += 1;
        let name = self.builder.string(name);
        let process = process.id;
        let thread =
            Thread { process, tid, name, start_ns: self.since_start(time), end_ns: None, times: None };
        let id = self.builder.thread(thread);
        self.tasks.add_thread(Task { pid, tid }, id);
        self.forget_stacks(tid);
        self.threads.insert(tid, ThreadState::new(id, pid));
    }

    /// Ensures that a thread has its state. Adds a row only if no record was about the thread yet.
    ///
    /// A thread announces its exit before it leaves its CPU for the last time. On a busy machine it can queue
    /// there for longer than its state is kept, and be sampled once more: that sample still belongs to the
    /// exited thread.
    pub(super) fn ensure_thread(&mut self, pid: u32, tid: u32, time: u64) {
        if self.has_thread(pid, tid) {
            return;
        }
        match self.row_of(pid, tid) {
            Some(id) => {
                let row = self.builder.thread_row(id);
                let (process, ended) = (row.process, row.end_ns.is_some());
                let readable = self.world.has_memory();
                let state = self.processes.entry(pid);
                let state =
                    state.or_insert_with(|| ProcessState::new(process, AddressSpace::default(), readable));
                state.threads += 1;
                self.forget_stacks(tid);
                self.threads.insert(tid, ThreadState::new(id, pid));
                if ended {
                    self.ended.push_back((self.drain, tid, id));
                }
            }
            None => {
                self.ensure_process(pid, time);
                if !self.has_thread(pid, tid) {
                    self.new_thread(pid, tid, UNKNOWN, time);
                }
            }
        }
    }

    /// Whether a number belongs to a thread of this process, and not to an earlier one of another process.
    fn has_thread(&self, pid: u32, tid: u32) -> bool {
        self.threads.get(&tid).is_some_and(|thread| thread.pid == pid)
    }

    /// The row of a thread; `None` if there is none, or if its process's number was reused.
    fn row_of(&self, pid: u32, tid: u32) -> Option<ThreadId> {
        let id = *self.tasks.threads.get(&Task { pid, tid })?;
        let process = self.builder.thread_row(id).process;
        (self.tasks.processes.get(&pid) == Some(&process)).then_some(id)
    }

    /// Adds a process that was not announced.
    pub(super) fn ensure_process(&mut self, pid: u32, time: u64) {
        if self.processes.contains_key(&pid) {
            return;
        }
        self.add_running_process(pid);
        if let Some(process) = self.processes.get_mut(&pid) {
            process.seen_ns = Some(time);
        }
    }

    /// The row of the process that had a number at a time. Adds one if no kernel record announced it.
    pub fn task_process(&mut self, pid: u32, parent: Option<u32>, name: &str, time: u64) -> ProcessId {
        if let Some(id) = self.tasks.process_at(&self.builder, pid, self.since_start(time)) {
            return id;
        }
        self.new_process(pid, parent, name, time);
        let process = self.processes.get_mut(&pid);
        // The line above added the row.
        let process = process.unwrap_or_else(|| unreachable!());
        process.seen_ns = Some(time);
        process.id
    }

    /// The row of a thread, in the same way.
    pub fn task_thread(&mut self, pid: u32, tid: u32, name: &str, time: u64) -> ThreadId {
        let (task, start_ns) = (Task { pid, tid }, self.since_start(time));
        if let Some(id) = self.tasks.thread_at(&self.builder, task, start_ns) {
            return id;
        }
        let process = self.task_process(pid, None, name, time);
        let name = self.builder.string(name);
        let id = self.builder.thread(Thread { process, tid, name, start_ns, end_ns: None, times: None });
        self.tasks.add_thread(task, id);
        id
    }

    pub(super) fn forked(&mut self, Task { pid, tid }: Task, parent: Task, time: u64) {
        // A thread keeps its parent's name until it gets its own.
        let name = match self.threads.get(&parent.tid) {
            Some(parent) => self.name_of(parent.id),
            None => UNKNOWN.to_owned(),
        };
        let adopted = pid != parent.pid && self.adopt(pid, parent.pid, time, &name);
        if pid != parent.pid && !adopted {
            self.new_process(pid, Some(parent.pid), &name, time);
        } else if !self.processes.contains_key(&pid) {
            self.new_process(pid, None, &name, time);
        }
        if self.is_thread_known_already(Task { pid, tid }, time, &name, adopted) {
            self.ensure_thread(pid, tid, time);
        } else {
            self.new_thread(pid, tid, &name, time);
        }
        self.first_wait_begins(tid, time);
        self.descriptors_inherited(parent.pid, pid);
    }

    /// Completes a process that was seen before its fork record with what it inherits from its parent.
    /// Returns whether it is such a process. The records of another CPU can be late, while the agent in a
    /// process reports at once.
    fn adopt(&mut self, pid: u32, parent: u32, start: u64, name: &str) -> bool {
        let Some(process) = self.processes.get(&pid) else { return false };
        let (id, is_late) = (process.id, process.seen_ns.is_some_and(|seen| start <= seen));
        let row = self.builder.process_row(id);
        if !is_late || row.end_ns.is_some() {
            return false;
        }
        let is_nameless = self.builder.text(row.name) == nameless(pid);
        let name = if is_nameless { self.builder.string(name) } else { row.name };
        let start_ns = self.since_start(start);
        let parent = self.processes.get(&parent).map(|parent| (parent.id, parent.space.clone()));
        self.builder.update_process(id, |row| {
            (row.start_ns, row.name, row.parent) = (start_ns, name, parent.as_ref().map(|(id, _)| *id));
        });
        if let Some(process) = self.processes.get_mut(&pid) {
            process.seen_ns = None;
            match parent {
                Some((_, space)) if process.space.len() == 0 => process.space = space,
                Some((_, space)) if self.limits.may_copy(&space) => process.space.put_on(space),
                _ => {}
            }
        }
        true
    }

    /// Whether a thread was seen before its fork record. If it existed when the recording started, it is an
    /// earlier thread with the same number, unless its process is being `adopted`.
    fn is_thread_known_already(&mut self, task: Task, start: u64, name: &str, adopted: bool) -> bool {
        let Some(id) = self.row_of(task.pid, task.tid) else { return false };
        let row = self.builder.thread_row(id);
        let start_ns = self.since_start(start);
        let is_other = !adopted && (row.start_ns == 0 || row.start_ns < start_ns);
        if row.end_ns.is_some() || is_other {
            return false;
        }
        let nameless = self.builder.text(row.name) == UNKNOWN;
        let name = if nameless { self.builder.string(name) } else { row.name };
        self.builder.update_thread(id, |row| (row.start_ns, row.name) = (start_ns, name));
        true
    }

    fn name_of(&self, thread: ThreadId) -> String {
        self.builder.text(self.builder.thread_row(thread).name).to_owned()
    }

    pub(super) fn named(&mut self, Task { pid, tid }: Task, name: &str, by_exec: bool, time: u64) {
        if by_exec && let Some(process) = self.processes.get_mut(&pid) {
            process.space.clear();
            process.expects_program = true;
            process.jit = None;
            process.readable = self.world.has_memory();
            if process.threads > 1 {
                self.exec_of_many(pid, tid, time);
            }
            self.account_exec(tid, time);
            self.descriptors_after_exec(pid, time);
        }
        if !self.processes.contains_key(&pid) {
            self.new_process(pid, None, name, time);
        }
        if !self.has_thread(pid, tid) {
            self.new_thread(pid, tid, name, time);
        }
        let name = self.builder.string(name);
        if let Some(thread) = self.threads.get(&tid) {
            self.builder.update_thread(thread.id, |row| row.name = name);
        }
        self.forget_stacks(tid);
        if pid == tid
            && let Some(process) = self.processes.get(&pid)
        {
            self.builder.update_process(process.id, |row| row.name = name);
        }
    }

    /// A thread of several executes a program: it continues under the number of the first one, and all others
    /// exit. No record announces the end of its old number.
    fn exec_of_many(&mut self, pid: u32, tid: u32, time: u64) {
        let others = self.threads.iter().filter(|(other, state)| state.pid == pid && **other != tid);
        let others = others.map(|(other, state)| (*other, state.id)).collect::<Vec<_>>();
        for (other, id) in others {
            if self.builder.thread_row(id).end_ns.is_none() {
                self.end_thread(other, time);
            }
        }
        self.ended.retain(|(_, ended, _)| *ended != tid);
        if let Some(thread) = self.threads.get(&tid) {
            self.builder.update_thread(thread.id, |row| row.end_ns = None);
        }
        if let Some(process) = self.processes.get(&pid) {
            self.builder.update_process(process.id, |row| row.end_ns = None);
        }
    }

    fn end_thread(&mut self, tid: u32, time: u64) {
        self.store_times(tid, time);
        self.account_end(tid, time);
        self.thread_ends_in_call(tid, time);
        let end_ns = Some(self.since_start(time));
        self.forget_stacks(tid);
        let Some(thread) = self.threads.get(&tid) else { return };
        self.builder.update_thread(thread.id, |row| row.end_ns = end_ns);
        self.ended.push_back((self.drain, tid, thread.id));
    }

    /// Drops the kept stacks of a thread.
    pub(super) fn forget_stacks(&mut self, tid: u32) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            self.image_memory -= std::mem::take(&mut thread.images).memory();
        }
    }

    pub(super) fn ended(&mut self, Task { pid, tid }: Task, time: u64) {
        self.end_thread(tid, time);
        let end_ns = Some(self.since_start(time));
        let Some(process) = self.processes.get_mut(&pid) else { return };
        // Threads can continue after the first one has exited.
        if pid == tid || self.builder.process_row(process.id).end_ns.is_some() {
            self.builder.update_process(process.id, |row| row.end_ns = end_ns);
        }
        if pid == tid {
            if std::mem::take(&mut process.expects_program) {
                self.counters.unobservable_execs += 1;
            }
            self.descriptors_forgotten(pid, time);
            self.world.process_ended(pid);
        }
    }

    /// The thread of an exiting process that no longer has a number: the one that exited last.
    pub(super) fn leaving_thread(&self, pid: u32) -> u32 {
        let of_process = |tid: &u32| self.threads.get(tid).is_some_and(|thread| thread.pid == pid);
        self.ended.iter().rev().map(|(_, tid, _)| *tid).find(of_process).unwrap_or(pid)
    }

    /// The processes without an exit record: numbers and names.
    pub fn not_ended(&self) -> Vec<(u32, String)> {
        let running = |thread: &&ThreadState| self.builder.thread_row(thread.id).end_ns.is_none();
        let mut pids = self.threads.values().filter(running).map(|thread| thread.pid).collect::<Vec<_>>();
        pids.sort_unstable();
        pids.dedup();
        let name = |pid: u32| {
            let row = self.builder.process_row(self.processes.get(&pid)?.id);
            Some((pid, self.builder.text(row.name).to_owned()))
        };
        pids.into_iter().filter_map(name).collect()
    }
}

#[cfg(test)]
mod tests;
