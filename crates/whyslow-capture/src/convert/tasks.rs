//! Processes and threads: how they begin, what they are called, how they end.

use linux_perf_event_reader::{CommOrExecRecord, ForkOrExitRecord};
use rustc_hash::FxHashMap;
use whyslow_proc::process;
use whyslow_profile::{ModuleKind, Process, ProcessId, Thread, ThreadId};

use super::accounting::CpuTime;
use super::{Converter, text};
use crate::completion::Images;
use crate::marks;
use crate::modules::{AddressSpace, ModuleIndex};

/// What a thread is called of which nothing is known.
const UNKNOWN: &str = "unknown";

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

impl ProcessState {
    fn new(id: ProcessId, space: AddressSpace, readable: bool) -> Self {
        Self { id, space, expects_program: false, jit: None, readable, threads: 0 }
    }
}

#[derive(Debug)]
pub(super) struct ThreadState {
    pub(super) id: ThreadId,
    pub(super) pid: u32,
    pub(super) images: Images,
    pub(super) cpu_time: CpuTime,
}

impl ThreadState {
    fn new(id: ThreadId, pid: u32) -> Self {
        Self { id, pid, images: Images::default(), cpu_time: CpuTime::default() }
    }
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
        let name = process::name(pid).unwrap_or_else(|| format!("pid {pid}"));
        self.new_process(pid, None, &name, self.start_ns);
        for tid in process::threads(pid).unwrap_or_default() {
            let name = process::thread_name(pid, tid).unwrap_or_else(|| name.clone());
            self.new_thread(pid, tid, &name, self.start_ns);
        }
        let program = process::program(pid);
        for mapping in whyslow_proc::Mapping::all_of(pid).unwrap_or_default() {
            if marks::is_marker_file(&mapping.name) {
                let thread = marks::thread_in_name(&mapping.name).and_then(|tid| self.threads.get(&tid));
                self.marks.marker_file(pid, &mapping.name, thread.map(|thread| thread.id));
            }
            if !mapping.executable {
                continue;
            }
            let is_program = program.as_ref().is_some_and(|path| path.to_string_lossy() == mapping.name);
            let kind = if is_program { ModuleKind::Program } else { ModuleKind::Library };
            self.map(pid, mapping.into(), kind);
        }
    }

    pub(super) fn new_process(&mut self, pid: u32, parent: Option<u32>, name: &str, time: u64) {
        let parent = parent.and_then(|parent| self.processes.get(&parent));
        let space = parent.map(|parent| parent.space.clone()).unwrap_or_default();
        let parent = parent.map(|parent| parent.id);
        let name = self.builder.string(name);
        let start_ns = self.since_start(time);
        let id = self.builder.process(Process { pid, parent, name, start_ns, end_ns: None });
        self.tasks.processes.insert(pid, id);
        self.processes.insert(pid, ProcessState::new(id, space, self.is_live()));
        self.marks.process_started(pid);
    }

    pub(super) fn new_thread(&mut self, pid: u32, tid: u32, name: &str, time: u64) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.threads += 1;
        let name = self.builder.string(name);
        let process = process.id;
        let thread = Thread { process, tid, name, start_ns: self.since_start(time), end_ns: None };
        let id = self.builder.thread(thread);
        self.tasks.threads.insert((pid, tid), id);
        self.threads.insert(tid, ThreadState::new(id, pid));
    }

    /// Makes sure that a thread has its state; adds a row only when nothing has told of the thread yet.
    ///
    /// A thread announces its end before it leaves its CPU for the last time. On a busy machine it can wait there for longer than its
    /// state is kept, and be sampled once more: that is still the thread that ended.
    pub(super) fn know_thread(&mut self, pid: u32, tid: u32, time: u64) {
        if self.threads.get(&tid).is_some_and(|thread| thread.pid == pid) {
            return;
        }
        match self.row_of(pid, tid) {
            Some(id) => {
                let row = self.builder.thread_row(id);
                let (process, ended) = (row.process, row.end_ns.is_some());
                let live = self.is_live();
                let state = self.processes.entry(pid);
                state.or_insert_with(|| ProcessState::new(process, AddressSpace::default(), live)).threads +=
                    1;
                self.threads.insert(tid, ThreadState::new(id, pid));
                if ended {
                    self.ended.push_back((self.drain, tid, id));
                }
            }
            None => {
                self.know_process(pid);
                if self.threads.get(&tid).is_none_or(|thread| thread.pid != pid) {
                    self.new_thread(pid, tid, UNKNOWN, time);
                }
            }
        }
    }

    /// The row of a thread; `None` when there is none, or its process's number has been given to another one.
    fn row_of(&self, pid: u32, tid: u32) -> Option<ThreadId> {
        let id = *self.tasks.threads.get(&(pid, tid))?;
        let process = self.builder.thread_row(id).process;
        (self.tasks.processes.get(&pid) == Some(&process)).then_some(id)
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

    /// The row of a process; a new one when the kernel's records have not told of it.
    pub(crate) fn task_process(&mut self, pid: u32, parent: Option<u32>, name: &str, time: u64) -> ProcessId {
        if let Some(&id) = self.tasks.processes.get(&pid) {
            return id;
        }
        self.new_process(pid, parent, name, time);
        self.processes[&pid].id
    }

    /// The row of a thread, likewise.
    pub(crate) fn task_thread(&mut self, pid: u32, tid: u32, name: &str, time: u64) -> ThreadId {
        if let Some(&id) = self.tasks.threads.get(&(pid, tid)) {
            return id;
        }
        let process = self.task_process(pid, None, name, time);
        let name = self.builder.string(name);
        let start_ns = self.since_start(time);
        let id = self.builder.thread(Thread { process, tid, name, start_ns, end_ns: None });
        self.tasks.threads.insert((pid, tid), id);
        id
    }

    pub(super) fn fork(&mut self, fork: &ForkOrExitRecord) {
        let (pid, tid) = (fork.pid.cast_unsigned(), fork.tid.cast_unsigned());
        let (parent_pid, parent_tid) = (fork.ppid.cast_unsigned(), fork.ptid.cast_unsigned());
        // A thread keeps its parent's name until it gets one of its own.
        let name = match self.threads.get(&parent_tid) {
            Some(parent) => self.name_of(parent.id),
            None => UNKNOWN.to_owned(),
        };
        if pid != parent_pid {
            if !self.is_process_known_already(pid, parent_pid, fork.timestamp) {
                self.new_process(pid, Some(parent_pid), &name, fork.timestamp);
            }
        } else if !self.processes.contains_key(&pid) {
            self.new_process(pid, None, &name, fork.timestamp);
        }
        if self.is_thread_known_already(pid, tid, fork.timestamp, &name) {
            self.know_thread(pid, tid, fork.timestamp);
        } else {
            self.new_thread(pid, tid, &name, fork.timestamp);
        }
    }

    /// Whether the agent in a process was heard before the news of the process's start, which stays in its ring for a while.
    fn is_process_known_already(&mut self, pid: u32, parent: u32, start: u64) -> bool {
        let Some(id) = self.processes.get(&pid).map(|state| state.id) else { return false };
        let row = self.builder.process_row(id);
        let start_ns = self.since_start(start);
        if row.end_ns.is_some() || row.start_ns == 0 || row.start_ns < start_ns {
            return false;
        }
        let parent = self.processes.get(&parent).map(|parent| (parent.id, parent.space.clone()));
        let Some((parent, space)) = parent else { return true };
        self.builder.update_process(id, |row| (row.start_ns, row.parent) = (start_ns, Some(parent)));
        if let Some(state) = self.processes.get_mut(&pid) {
            state.space = space;
        }
        true
    }

    /// Whether a thread was seen before the news of its start, which another CPU can be late to give.
    fn is_thread_known_already(&mut self, pid: u32, tid: u32, start: u64, name: &str) -> bool {
        let Some(id) = self.row_of(pid, tid) else { return false };
        let row = self.builder.thread_row(id);
        let start_ns = self.since_start(start);
        if row.end_ns.is_some() || row.start_ns == 0 || row.start_ns < start_ns {
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
            if process.threads > 1 {
                self.exec_of_many(pid, tid, time);
            }
            self.account_exec(tid, time);
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

    /// A thread of several executes a program: it goes on under the number of the first one, and all others end, of which
    /// it itself gives no news under its old number.
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
        self.account_end(tid, time);
        let end_ns = Some(self.since_start(time));
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        self.builder.update_thread(thread.id, |row| row.end_ns = end_ns);
        self.image_memory -= thread.images.memory().min(self.image_memory);
        thread.images = Images::default();
        self.ended.push_back((self.drain, tid, thread.id));
    }

    pub(super) fn exit(&mut self, exit: &ForkOrExitRecord) {
        let (pid, tid) = (exit.pid.cast_unsigned(), exit.tid.cast_unsigned());
        self.end_thread(tid, exit.timestamp);
        let end_ns = Some(self.since_start(exit.timestamp));
        let Some(process) = self.processes.get_mut(&pid) else { return };
        // Threads can go on when the first one has ended.
        if pid == tid || self.builder.process_row(process.id).end_ns.is_some() {
            self.builder.update_process(process.id, |row| row.end_ns = end_ns);
        }
        if pid == tid {
            if std::mem::take(&mut process.expects_program) {
                self.counters.unobservable_execs += 1;
            }
            self.marks.process_ended(pid);
        }
    }

    /// The thread of a process that is on its way out and has no number any more: the last one that ended.
    pub(super) fn leaving_thread(&self, pid: u32) -> u32 {
        let of_process = |tid: &u32| self.threads.get(tid).is_some_and(|thread| thread.pid == pid);
        self.ended.iter().rev().map(|(_, tid, _)| *tid).find(of_process).unwrap_or(pid)
    }

    /// The processes that have not ended, by name, with their numbers.
    pub(crate) fn still_running(&self) -> Vec<(u32, String)> {
        let running = |thread: &&ThreadState| self.builder.thread_row(thread.id).end_ns.is_none();
        let mut pids = self.threads.values().filter(running).map(|thread| thread.pid).collect::<Vec<_>>();
        pids.sort_unstable();
        pids.dedup();
        let name = |pid: u32| {
            let row = self.builder.process_row(self.processes.get(&pid)?.id);
            Some((pid, self.builder.text(row.name).to_owned()))
        };
        pids.into_iter().filter(|pid| process::runs(*pid)).filter_map(name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::testing::Made;

    /// The kernel gives -1 for the number of a thread that has left its process but not its CPU.
    #[test]
    fn a_sample_on_the_way_out_belongs_to_the_thread_that_ended() {
        let mut converter = Converter::new(0, 0, Some(whyslow_profile::Sampler::default()));
        converter.add_process(100, "app");
        let made = [
            Made::fork(100, 100, 101, 1000),
            Made::exit(100, 101, 2000),
            Made::sample(100, u32::MAX, 2001, 1000),
        ];
        made.iter().for_each(|made| converter.record(&made.record()));
        let profile = converter.builder.into_profile(whyslow_profile::Meta::default()).unwrap();
        assert_eq!(profile.threads.iter().map(|thread| thread.tid).collect::<Vec<_>>(), [100, 101]);
        assert_eq!(profile.samples[0].thread, [whyslow_profile::ThreadId(1)]);
    }

    #[test]
    fn news_of_a_start_that_comes_late_makes_no_second_thread() {
        let mut converter = Converter::new(0, 0, Some(whyslow_profile::Sampler::default()));
        converter.add_process(100, "app");
        for made in [Made::sample(100, 101, 3 * 1000, 1000), Made::fork(100, 100, 101, 2 * 1000)] {
            converter.record(&made.record());
        }
        let profile = converter.builder.into_profile(whyslow_profile::Meta::default()).unwrap();
        let thread = &profile.threads[1];
        assert_eq!((profile.threads.len(), profile.text(thread.name), thread.start_ns), (2, "app", 2 * 1000));
    }

    /// On a busy machine a process that has announced its end can wait for its last turn on a CPU, and be sampled there.
    #[test]
    fn a_sample_long_after_the_end_makes_no_second_process() {
        let mut converter = Converter::new(0, 0, Some(whyslow_profile::Sampler::default()));
        converter.add_process(100, "app");
        let made = [
            Made::fork(100, 101, 101, 1000),
            Made::fork(101, 101, 102, 1500),
            Made::exit(101, 102, 2000),
            Made::exit(101, 101, 3000),
        ];
        made.iter().for_each(|made| converter.record(&made.record()));
        for time in [4000, 5000] {
            (0..10).for_each(|_| converter.begin_drain());
            assert!(!converter.processes.contains_key(&101), "its state is dropped");
            for tid in [101, 102] {
                converter.record(&Made::sample(101, tid, time, 1000).record());
            }
        }
        converter.record(&Made::fork(100, 101, 101, 6000).record());
        converter.record(&Made::sample(101, 101, 7000, 1000).record());
        let profile = converter.builder.into_profile(whyslow_profile::Meta::default()).unwrap();
        assert_eq!(
            profile.processes.iter().map(|process| (process.pid, process.end_ns)).collect::<Vec<_>>(),
            [(100, None), (101, Some(3000)), (101, None)],
            "one row per process; the number that was used again is another one"
        );
        assert_eq!(
            profile.threads.iter().map(|thread| (thread.process.0, thread.tid)).collect::<Vec<_>>(),
            [(0, 100), (1, 101), (1, 102), (2, 101)]
        );
        assert_eq!(
            profile.samples[0].thread.iter().map(|thread| thread.0).collect::<Vec<_>>(),
            [1, 2, 1, 2, 3]
        );
    }

    /// The heap's collector can hear of a process while the kernel's news of its start is still in a ring.
    #[test]
    fn a_process_whose_agent_is_heard_before_the_kernel_is_one_process() {
        let mut converter = Converter::new(0, 0, Some(whyslow_profile::Sampler::default()));
        converter.add_process(100, "app");
        let process = converter.task_process(101, None, "worker", 3000);
        let thread = converter.task_thread(101, 101, "worker", 3000);
        converter.record(&Made::fork(100, 101, 101, 2000).record());
        converter.record(&Made::exec(101, 101, 2500).record());
        converter.record(&Made::sample(101, 101, 4000, 1000).record());
        converter.record(&Made::exit(101, 101, 5000).record());
        let profile = converter.builder.into_profile(whyslow_profile::Meta::default()).unwrap();
        assert_eq!((profile.processes.len(), profile.threads.len()), (2, 2));
        let row = &profile.processes[process.index()];
        assert_eq!((row.start_ns, row.end_ns), (2000, Some(5000)));
        assert_eq!(row.parent, Some(ProcessId(0)));
        assert_eq!(profile.samples[0].thread, [thread]);
    }
}
