//! Processes and threads: which run now, and the rows of all.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use whyslow_numbers::{ClockNs, ProfileNs};
use whyslow_profile::{Builder, Process, ProcessId, Thread, ThreadId};

use super::tables::Tables;
use crate::input::Task;

/// The name of a thread of which nothing is known.
pub(super) const UNKNOWN: &str = "unknown";

/// The name of a process of which nothing is known.
pub(super) fn nameless(pid: u32) -> String {
    format!("pid {pid}")
}

/// A thread that has its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LiveThread {
    pub(super) id: ThreadId,
    pub(super) task: Task,
}

#[derive(Debug)]
struct ProcessState {
    id: ProcessId,
    threads: usize,
    /// Since when it is known, if no record announced its start.
    seen_ns: Option<ClockNs>,
}

#[derive(Debug, Clone, Copy)]
struct ThreadState {
    id: ThreadId,
    pid: u32,
}

/// The processes and threads of a recording, by the system's numbers. The numbers of those that exited some rounds
/// ago are forgotten, so that memory use depends on the running threads and not on all threads so far. Their rows
/// are kept: the kernel may still sample them.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    processes: FxHashMap<u32, ProcessState>,
    threads: FxHashMap<u32, ThreadState>,
    rows: Rows,
    /// Threads that have exited: the round, the system's number, the row.
    ended: VecDeque<(u64, u32, ThreadId)>,
    round: u64,
}

/// What has lost its state.
#[derive(Debug, Default)]
pub(super) struct Forgotten {
    pub(super) threads: Vec<ThreadId>,
    pub(super) processes: Vec<u32>,
}

/// A thread that has its state again.
#[derive(Debug)]
pub(super) struct Revived {
    /// The thread that had its number.
    pub(super) replaced: Option<ThreadId>,
    /// Whether its process has its state again, too.
    pub(super) process: bool,
}

impl Tasks {
    /// The thread that has a number now.
    #[inline]
    pub(super) fn thread(&self, tid: u32) -> Option<LiveThread> {
        self.threads.get(&tid).map(|state| LiveThread { id: state.id, task: Task { pid: state.pid, tid } })
    }

    /// The thread that has a number now, if it is of this process and not an earlier one of another.
    #[inline]
    pub(super) fn thread_of(&self, task: Task) -> Option<LiveThread> {
        self.thread(task.tid).filter(|thread| thread.task.pid == task.pid)
    }

    /// The process that has a number now.
    pub(super) fn process(&self, pid: u32) -> Option<ProcessId> {
        self.processes.get(&pid).map(|process| process.id)
    }

    /// The rows of a thread and its process.
    pub(super) fn rows_of(&self, tid: u32) -> Option<(ThreadId, ProcessId)> {
        let thread = self.threads.get(&tid)?;
        Some((thread.id, self.process(thread.pid)?))
    }

    /// All threads that have their state, by number.
    pub(super) fn all(&self) -> Vec<LiveThread> {
        let mut threads: Vec<LiveThread> = self.threads.keys().filter_map(|tid| self.thread(*tid)).collect();
        threads.sort_unstable_by_key(|thread| thread.task.tid);
        threads
    }

    /// The threads that have not exited, by number.
    pub(super) fn living(&self, tables: &Tables) -> Vec<LiveThread> {
        let mut threads = self.all();
        threads.retain(|thread| tables.builder.thread_row(thread.id).end_ns.is_none());
        threads
    }

    /// Begins a round of records.
    pub(super) fn begin_round(&mut self, tables: &Tables) -> Forgotten {
        const ROUNDS_AFTER_EXIT: u64 = 4;
        self.round += 1;
        let mut forgotten = Forgotten::default();
        while let Some(&(round, tid, id)) = self.ended.front()
            && round + ROUNDS_AFTER_EXIT < self.round
        {
            self.ended.pop_front();
            // Its numbers may belong to a new thread or process by now.
            if self.threads.get(&tid).is_some_and(|thread| thread.id == id) {
                self.threads.remove(&tid);
                forgotten.threads.push(id);
            }
            let process = tables.builder.thread_row(id).process;
            let pid = tables.builder.process_row(process).pid;
            if let Some(state) = self.processes.get_mut(&pid).filter(|state| state.id == process) {
                state.threads = state.threads.saturating_sub(1);
                if state.threads == 0 {
                    self.processes.remove(&pid);
                    forgotten.processes.push(pid);
                }
            }
        }
        forgotten
    }

    /// Adds a process.
    pub(super) fn add_process(
        &mut self,
        tables: &mut Tables,
        pid: u32,
        parent: Option<ProcessId>,
        name: &str,
        time: ClockNs,
    ) {
        let name = tables.builder.string(name);
        let start_ns = tables.since_start(time).0;
        let id = tables.builder.process(Process { pid, parent, name, start_ns, end_ns: None });
        self.rows.add_process(pid, id);
        self.processes.insert(pid, ProcessState { id, threads: 0, seen_ns: None });
    }

    /// Adds a thread of a known process. Returns the one that had its number.
    pub(super) fn add_thread(
        &mut self,
        tables: &mut Tables,
        task: Task,
        name: &str,
        time: ClockNs,
    ) -> Option<ThreadId> {
        let process = self.processes.get_mut(&task.pid)?;
        process.threads += 1;
        let (process, name, start_ns) = (process.id, tables.builder.string(name), tables.since_start(time).0);
        let thread = Thread { process, tid: task.tid, name, start_ns, end_ns: None, times: None };
        let id = tables.builder.thread(thread);
        self.rows.add_thread(task, id);
        self.threads.insert(task.tid, ThreadState { id, pid: task.pid }).map(|state| state.id)
    }

    /// Gives a thread its state again that has a row; `None` if it has none, or if its process's number was reused.
    ///
    /// A thread announces its exit before it leaves its CPU for the last time. On a busy machine it can queue there for
    /// longer than its state is kept, and be sampled once more: that sample still belongs to the exited thread.
    pub(super) fn revive(&mut self, tables: &Tables, task: Task) -> Option<Revived> {
        let id = self.row_of(tables, task)?;
        let row = tables.builder.thread_row(id);
        let mut is_new = false;
        let process = self.processes.entry(task.pid).or_insert_with(|| {
            is_new = true;
            ProcessState { id: row.process, threads: 0, seen_ns: None }
        });
        process.threads += 1;
        let replaced = self.threads.insert(task.tid, ThreadState { id, pid: task.pid });
        if row.end_ns.is_some() {
            self.ended.push_back((self.round, task.tid, id));
        }
        Some(Revived { replaced: replaced.map(|state| state.id), process: is_new })
    }

    fn row_of(&self, tables: &Tables, task: Task) -> Option<ThreadId> {
        let id = *self.rows.threads.get(&task)?;
        let process = tables.builder.thread_row(id).process;
        (self.rows.processes.get(&task.pid) == Some(&process)).then_some(id)
    }

    /// A process is known since a time, although no record announced its start.
    pub(super) fn seen(&mut self, pid: u32, time: ClockNs) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.seen_ns = Some(time);
        }
    }

    /// The row of the process that had a number at a time.
    pub(super) fn process_at(&self, tables: &Tables, pid: u32, time: ClockNs) -> Option<ProcessId> {
        self.rows.process_at(&tables.builder, pid, tables.since_start(time))
    }

    /// The row of the thread that had a number at a time.
    pub(super) fn thread_at(&self, tables: &Tables, task: Task, time: ClockNs) -> Option<ThreadId> {
        self.rows.thread_at(&tables.builder, task, tables.since_start(time))
    }

    /// Adds the row of a thread that no kernel record announced, and that may have exited.
    pub(super) fn add_row_of_thread(
        &mut self,
        tables: &mut Tables,
        task: Task,
        process: ProcessId,
        name: &str,
        time: ClockNs,
    ) -> ThreadId {
        let (name, start_ns) = (tables.builder.string(name), tables.since_start(time).0);
        let thread = Thread { process, tid: task.tid, name, start_ns, end_ns: None, times: None };
        let id = tables.builder.thread(thread);
        self.rows.add_thread(task, id);
        id
    }

    /// The name of a thread, which its children have until they get their own.
    pub(super) fn name_of(&self, tables: &Tables, tid: u32) -> String {
        let name = self.threads.get(&tid).map(|thread| tables.builder.thread_row(thread.id).name);
        name.map_or(UNKNOWN, |name| tables.builder.text(name)).to_owned()
    }

    /// The name of a process.
    pub(super) fn process_name<'a>(&self, tables: &'a Tables, pid: u32) -> Option<&'a str> {
        Some(tables.builder.text(tables.builder.process_row(self.process(pid)?).name))
    }

    /// Completes a process that was seen before its fork record with its parent, name and start. Returns whether it is
    /// such a process. The records of another CPU can be late, while the agent in a process reports at once.
    pub(super) fn adopt(
        &mut self,
        tables: &mut Tables,
        pid: u32,
        parent: u32,
        start: ClockNs,
        name: &str,
    ) -> bool {
        let parent = self.process(parent);
        let Some(process) = self.processes.get_mut(&pid) else { return false };
        let (id, is_late) = (process.id, process.seen_ns.is_some_and(|seen| start <= seen));
        let row = tables.builder.process_row(id);
        if !is_late || row.end_ns.is_some() {
            return false;
        }
        let is_nameless = tables.builder.text(row.name) == nameless(pid);
        let name = if is_nameless { tables.builder.string(name) } else { row.name };
        let start_ns = tables.since_start(start).0;
        tables.builder.update_process(id, |row| {
            (row.start_ns, row.name, row.parent) = (start_ns, name, parent);
        });
        process.seen_ns = None;
        true
    }

    /// Whether a thread was seen before its fork record. If it existed when the recording started, it is an earlier
    /// thread with the same number, unless its process is being `adopted`.
    pub(super) fn is_known_already(
        &self,
        tables: &mut Tables,
        task: Task,
        start: ClockNs,
        name: &str,
        adopted: bool,
    ) -> bool {
        let Some(id) = self.row_of(tables, task) else { return false };
        let row = tables.builder.thread_row(id);
        let start_ns = tables.since_start(start).0;
        let is_other = !adopted && (row.start_ns == 0 || row.start_ns < start_ns);
        if row.end_ns.is_some() || is_other {
            return false;
        }
        let nameless = tables.builder.text(row.name) == UNKNOWN;
        let name = if nameless { tables.builder.string(name) } else { row.name };
        tables.builder.update_thread(id, |row| (row.start_ns, row.name) = (start_ns, name));
        true
    }

    /// Names a thread, and its process if it is the first one.
    pub(super) fn rename(&self, tables: &mut Tables, task: Task, name: &str) {
        let name = tables.builder.string(name);
        if let Some(thread) = self.threads.get(&task.tid) {
            tables.builder.update_thread(thread.id, |row| row.name = name);
        }
        if task.pid == task.tid
            && let Some(process) = self.processes.get(&task.pid)
        {
            tables.builder.update_process(process.id, |row| row.name = name);
        }
    }

    /// The threads of a process that have not exited, except this one, if it has several.
    pub(super) fn others(&self, tables: &Tables, task: Task) -> Vec<u32> {
        if self.processes.get(&task.pid).is_none_or(|process| process.threads <= 1) {
            return Vec::new();
        }
        let others = self.threads.iter().filter(|(tid, state)| state.pid == task.pid && **tid != task.tid);
        let living = others.filter(|(_, state)| tables.builder.thread_row(state.id).end_ns.is_none());
        living.map(|(tid, _)| *tid).collect()
    }

    /// A thread of several continues under the number of its process's first one, whose end was announced.
    pub(super) fn goes_on(&mut self, tables: &mut Tables, task: Task) {
        if self.processes.get(&task.pid).is_none_or(|process| process.threads <= 1) {
            return;
        }
        self.ended.retain(|(_, ended, _)| *ended != task.tid);
        if let Some(thread) = self.threads.get(&task.tid) {
            tables.builder.update_thread(thread.id, |row| row.end_ns = None);
        }
        if let Some(process) = self.processes.get(&task.pid) {
            tables.builder.update_process(process.id, |row| row.end_ns = None);
        }
    }

    /// A thread has exited.
    pub(super) fn end_thread(&mut self, tables: &mut Tables, tid: u32, time: ClockNs) {
        let end_ns = Some(tables.since_start(time).0);
        let Some(thread) = self.threads.get(&tid) else { return };
        tables.builder.update_thread(thread.id, |row| row.end_ns = end_ns);
        self.ended.push_back((self.round, tid, thread.id));
    }

    /// A process ends with its first thread, or with the last one that goes on after it. Returns whether the process is
    /// known.
    pub(super) fn end_process(&self, tables: &mut Tables, task: Task, time: ClockNs) -> bool {
        let end_ns = Some(tables.since_start(time).0);
        let Some(process) = self.processes.get(&task.pid) else { return false };
        if task.pid == task.tid || tables.builder.process_row(process.id).end_ns.is_some() {
            tables.builder.update_process(process.id, |row| row.end_ns = end_ns);
        }
        true
    }

    /// The thread of an exiting process that no longer has a number: the one that exited last.
    pub(super) fn leaving(&self, pid: u32) -> u32 {
        let of_process = |tid: &u32| self.threads.get(tid).is_some_and(|thread| thread.pid == pid);
        self.ended.iter().rev().map(|(_, tid, _)| *tid).find(of_process).unwrap_or(pid)
    }

    /// The processes without an exit record: numbers and names.
    pub(super) fn not_ended(&self, tables: &Tables) -> Vec<(u32, String)> {
        let mut pids: Vec<u32> = self.living(tables).into_iter().map(|thread| thread.task.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        let name = |pid: u32| Some((pid, self.process_name(tables, pid)?.to_owned()));
        pids.into_iter().filter_map(name).collect()
    }
}

/// Rows by the system's numbers.
#[derive(Debug, Default)]
struct Rows {
    processes: FxHashMap<u32, ProcessId>,
    threads: FxHashMap<Task, ThreadId>,
    /// Earlier processes with the same number, oldest first.
    processes_before: FxHashMap<u32, Vec<ProcessId>>,
    threads_before: FxHashMap<Task, Vec<ThreadId>>,
}

impl Rows {
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
    fn process_at(&self, builder: &Builder, pid: u32, time: ProfileNs) -> Option<ProcessId> {
        let before = self.processes_before.get(&pid).into_iter().flatten();
        last_started(before, *self.processes.get(&pid)?, |id| builder.process_row(id).start_ns <= time.0)
    }

    /// The thread that had a number at a time.
    fn thread_at(&self, builder: &Builder, task: Task, time: ProfileNs) -> Option<ThreadId> {
        let before = self.threads_before.get(&task).into_iter().flatten();
        last_started(before, *self.threads.get(&task)?, |id| builder.thread_row(id).start_ns <= time.0)
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

#[cfg(test)]
impl Tasks {
    /// The numbers of threads and processes that have their state.
    pub(super) fn kept(&self) -> (usize, usize) {
        (self.threads.len(), self.processes.len())
    }

    /// The number of a process's threads.
    pub(super) fn threads_of(&self, pid: u32) -> Option<usize> {
        self.processes.get(&pid).map(|process| process.threads)
    }
}

#[cfg(test)]
mod tests;
