//! Processes and threads: how they begin, what they are called, how they end.

use std::fs;

use linux_perf_event_reader::{CommOrExecRecord, ForkOrExitRecord};
use rustc_hash::FxHashMap;
use whyslow_profile::{ModuleKind, Process, ProcessId, Thread, ThreadId};

use super::{Converter, text};
use crate::completion::Images;
use crate::maps::MapsLine;
use crate::marks;
use crate::modules::{AddressSpace, ModuleIndex};

#[derive(Debug)]
pub(super) struct ProcessState {
    pub(super) id: ProcessId,
    pub(super) space: AddressSpace,
    /// Between an exec and the first mapping of its program.
    pub(super) expects_program: bool,
    /// Where run-time code belongs.
    pub(super) jit: Option<ModuleIndex>,
    /// Whether its memory can be read.
    pub(super) readable: bool,
    pub(super) threads: usize,
}

#[derive(Debug)]
pub(super) struct ThreadState {
    pub(super) id: ThreadId,
    pub(super) pid: u32,
    pub(super) images: Images,
}

/// Rows by the operating system's numbers; the latest of a number that was used again.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    pub(super) processes: FxHashMap<u32, ProcessId>,
    pub(super) threads: FxHashMap<(u32, u32), ThreadId>,
}

impl Converter {
    /// Adds the process that is recorded, before its first record.
    pub(crate) fn add_process(&mut self, pid: u32, name: &str) {
        self.new_process(pid, None, name, self.start_ns);
        self.new_thread(pid, pid, name, self.start_ns);
    }

    /// Adds a process that runs already, with its threads and mappings.
    pub(crate) fn add_running_process(&mut self, pid: u32) {
        let name = comm(&format!("/proc/{pid}/comm")).unwrap_or_else(|| format!("pid {pid}"));
        self.new_process(pid, None, &name, self.start_ns);
        for tid in crate::threads_of(pid) {
            let name = comm(&format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_else(|| name.clone());
            self.new_thread(pid, tid, &name, self.start_ns);
        }
        let exe = fs::read_link(format!("/proc/{pid}/exe")).ok();
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        for line in maps.lines().filter_map(MapsLine::parse) {
            if marks::is_marker_file(line.path) {
                let thread = marks::thread_in_name(line.path).and_then(|tid| self.threads.get(&tid));
                self.marks.marker_file(pid, line.path, thread.map(|thread| thread.id));
            }
            if !line.executable {
                continue;
            }
            let is_program = exe.as_ref().is_some_and(|exe| exe.as_os_str() == line.path);
            let kind = if is_program { ModuleKind::Program } else { ModuleKind::Library };
            self.map(pid, line.mapping(), kind);
        }
    }

    pub(super) fn new_process(&mut self, pid: u32, parent: Option<u32>, name: &str, time: u64) {
        let parent = parent.and_then(|parent| self.processes.get(&parent));
        let space = parent.map(|parent| parent.space.clone()).unwrap_or_default();
        let parent = parent.map(|parent| parent.id);
        let name = self.builder.string(name);
        let start_ns = self.since_start(time);
        let id = self.builder.process(Process { pid, parent, name, start_ns, end_ns: None });
        if let Some(tasks) = &mut self.tasks {
            tasks.processes.insert(pid, id);
        }
        let state = ProcessState {
            id,
            space,
            expects_program: false,
            jit: None,
            readable: self.is_live(),
            threads: 0,
        };
        self.processes.insert(pid, state);
        self.marks.process_started(pid);
    }

    pub(super) fn new_thread(&mut self, pid: u32, tid: u32, name: &str, time: u64) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.threads += 1;
        let name = self.builder.string(name);
        let process = process.id;
        let thread = Thread { process, tid, name, start_ns: self.since_start(time), end_ns: None };
        let id = self.builder.thread(thread);
        if let Some(tasks) = &mut self.tasks {
            tasks.threads.insert((pid, tid), id);
        }
        self.threads.insert(tid, ThreadState { id, pid, images: Images::default() });
    }

    /// Adds a process that was not announced.
    pub(super) fn know_process(&mut self, pid: u32) {
        if self.processes.contains_key(&pid) {
            return;
        }
        if self.is_live() {
            self.add_running_process(pid);
        } else {
            self.new_process(pid, None, &format!("pid {pid}"), self.start_ns);
        }
    }

    /// Keeps the rows of processes and threads that have ended. To be called before there are any.
    pub(crate) fn remember_tasks(&mut self) {
        self.tasks = Some(Tasks::default());
    }

    /// The row of a process; a new one when the kernel's records have not told of it.
    pub(crate) fn task_process(&mut self, pid: u32, parent: Option<u32>, name: &str, time: u64) -> ProcessId {
        if let Some(&id) = self.tasks.as_ref().and_then(|tasks| tasks.processes.get(&pid)) {
            return id;
        }
        self.new_process(pid, parent, name, time);
        self.processes[&pid].id
    }

    /// The row of a thread, likewise.
    pub(crate) fn task_thread(&mut self, pid: u32, tid: u32, name: &str, time: u64) -> ThreadId {
        if let Some(&id) = self.tasks.as_ref().and_then(|tasks| tasks.threads.get(&(pid, tid))) {
            return id;
        }
        let process = self.task_process(pid, None, name, time);
        let name = self.builder.string(name);
        let start_ns = self.since_start(time);
        let id = self.builder.thread(Thread { process, tid, name, start_ns, end_ns: None });
        if let Some(tasks) = &mut self.tasks {
            tasks.threads.insert((pid, tid), id);
        }
        id
    }

    pub(super) fn fork(&mut self, fork: &ForkOrExitRecord) {
        let (pid, tid) = (fork.pid.cast_unsigned(), fork.tid.cast_unsigned());
        let (parent_pid, parent_tid) = (fork.ppid.cast_unsigned(), fork.ptid.cast_unsigned());
        // A thread keeps its parent's name until it gets one of its own.
        let name = match self.threads.get(&parent_tid) {
            Some(parent) => self.name_of(parent.id),
            None => "unknown".to_owned(),
        };
        if pid != parent_pid {
            self.new_process(pid, Some(parent_pid), &name, fork.timestamp);
        } else if !self.processes.contains_key(&pid) {
            self.new_process(pid, None, &name, fork.timestamp);
        }
        self.new_thread(pid, tid, &name, fork.timestamp);
    }

    fn name_of(&self, thread: ThreadId) -> String {
        self.builder.text(self.builder.thread_row(thread).name).to_owned()
    }

    pub(super) fn comm(&mut self, comm: &CommOrExecRecord<'_>, time: u64) {
        let (pid, tid) = (comm.pid.cast_unsigned(), comm.tid.cast_unsigned());
        let name = text(&comm.name);
        let live = self.is_live();
        if comm.is_execve
            && let Some(process) = self.processes.get_mut(&pid)
        {
            process.space.clear();
            process.expects_program = true;
            process.jit = None;
            process.readable = live;
        }
        if !self.processes.contains_key(&pid) {
            self.new_process(pid, None, &name, time);
        }
        if !self.threads.contains_key(&tid) {
            self.new_thread(pid, tid, &name, time);
        }
        let name = self.builder.string(&name);
        if let Some(thread) = self.threads.get_mut(&tid) {
            self.builder.update_thread(thread.id, |row| row.name = name);
            thread.images = Images::default();
        }
        if pid == tid
            && let Some(process) = self.processes.get(&pid)
        {
            self.builder.update_process(process.id, |row| row.name = name);
        }
    }

    pub(super) fn exit(&mut self, exit: &ForkOrExitRecord) {
        let (pid, tid) = (exit.pid.cast_unsigned(), exit.tid.cast_unsigned());
        let end_ns = Some(self.since_start(exit.timestamp));
        if let Some(thread) = self.threads.get_mut(&tid) {
            self.builder.update_thread(thread.id, |row| row.end_ns = end_ns);
            self.image_memory -= thread.images.memory().min(self.image_memory);
            thread.images = Images::default();
        }
        if pid == tid
            && let Some(process) = self.processes.get_mut(&pid)
        {
            self.builder.update_process(process.id, |row| row.end_ns = end_ns);
            if std::mem::take(&mut process.expects_program) {
                self.counters.unobservable_execs += 1;
            }
            self.marks.process_ended(pid);
        }
    }
}

fn comm(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim_end().to_owned())
}
