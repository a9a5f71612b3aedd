//! Processes and threads: how they begin, what they are called, how they end.

use rustc_hash::FxHashMap;
use whyslow_profile::{Builder, ModuleKind, Process, ProcessId, Thread, ThreadId};

use super::Converter;
use super::accounting::CpuTime;
use crate::completion::Images;
use crate::input::Task;
use crate::modules::ModuleIndex;
use crate::space::AddressSpace;
use crate::world::{Running, World};

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
    /// Since when it is known, if nobody has told of its start.
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
}

impl ThreadState {
    fn new(id: ThreadId, pid: u32) -> Self {
        Self { id, pid, images: Images::default(), cpu_time: CpuTime::default() }
    }
}

/// What a process is called of which nothing is known.
fn nameless(pid: u32) -> String {
    format!("pid {pid}")
}

/// Rows by the system's numbers.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    processes: FxHashMap<u32, ProcessId>,
    threads: FxHashMap<Task, ThreadId>,
    /// Those that had a number before the ones above, oldest first.
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
        last_begun(before, *self.processes.get(&pid)?, |id| builder.process_row(id).start_ns <= time)
    }

    /// The thread that had a number at a time.
    fn thread_at(&self, builder: &Builder, task: Task, time: u64) -> Option<ThreadId> {
        let before = self.threads_before.get(&task).into_iter().flatten();
        last_begun(before, *self.threads.get(&task)?, |id| builder.thread_row(id).start_ns <= time)
    }
}

/// The last row that had begun; the first one if none had.
fn last_begun<'a, Id: Copy + 'a>(
    before: impl DoubleEndedIterator<Item = &'a Id> + Clone,
    last: Id,
    begun: impl Fn(Id) -> bool,
) -> Option<Id> {
    let rows = before.copied().chain([last]);
    rows.clone().rev().find(|id| begun(*id)).or_else(|| rows.clone().next())
}

impl<W: World> Converter<W> {
    /// Adds the process that is recorded, before its first record.
    pub fn add_process(&mut self, pid: u32, name: &str) {
        self.new_process(pid, None, name, self.start_ns);
        self.new_thread(pid, pid, name, self.start_ns);
    }

    /// Adds a process that runs already, with its threads and mappings, as far as the world knows them.
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
        let thread = Thread { process, tid, name, start_ns: self.since_start(time), end_ns: None };
        let id = self.builder.thread(thread);
        self.tasks.add_thread(Task { pid, tid }, id);
        self.threads.insert(tid, ThreadState::new(id, pid));
    }

    /// Makes sure that a thread has its state; adds a row only when nothing has told of the thread yet.
    ///
    /// A thread announces its end before it leaves its CPU for the last time. On a busy machine it can wait there for longer than its
    /// state is kept, and be sampled once more: that is still the thread that ended.
    pub(super) fn know_thread(&mut self, pid: u32, tid: u32, time: u64) {
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
                self.threads.insert(tid, ThreadState::new(id, pid));
                if ended {
                    self.ended.push_back((self.drain, tid, id));
                }
            }
            None => {
                self.know_process(pid, time);
                if !self.has_thread(pid, tid) {
                    self.new_thread(pid, tid, UNKNOWN, time);
                }
            }
        }
    }

    /// Whether a number is that of a thread of this process, and not one that another process has left.
    fn has_thread(&self, pid: u32, tid: u32) -> bool {
        self.threads.get(&tid).is_some_and(|thread| thread.pid == pid)
    }

    /// The row of a thread; `None` when there is none, or its process's number has been given to another one.
    fn row_of(&self, pid: u32, tid: u32) -> Option<ThreadId> {
        let id = *self.tasks.threads.get(&Task { pid, tid })?;
        let process = self.builder.thread_row(id).process;
        (self.tasks.processes.get(&pid) == Some(&process)).then_some(id)
    }

    /// Adds a process that was not announced.
    pub(super) fn know_process(&mut self, pid: u32, time: u64) {
        if self.processes.contains_key(&pid) {
            return;
        }
        self.add_running_process(pid);
        if let Some(process) = self.processes.get_mut(&pid) {
            process.seen_ns = Some(time);
        }
    }

    /// The row of the process that had a number at a time; a new one when the kernel's records have not told of it.
    pub fn task_process(&mut self, pid: u32, parent: Option<u32>, name: &str, time: u64) -> ProcessId {
        if let Some(id) = self.tasks.process_at(&self.builder, pid, self.since_start(time)) {
            return id;
        }
        self.new_process(pid, parent, name, time);
        let process = self.processes.get_mut(&pid);
        // The row was added in the line above.
        let process = process.unwrap_or_else(|| unreachable!());
        process.seen_ns = Some(time);
        process.id
    }

    /// The row of a thread, likewise.
    pub fn task_thread(&mut self, pid: u32, tid: u32, name: &str, time: u64) -> ThreadId {
        let (task, start_ns) = (Task { pid, tid }, self.since_start(time));
        if let Some(id) = self.tasks.thread_at(&self.builder, task, start_ns) {
            return id;
        }
        let process = self.task_process(pid, None, name, time);
        let name = self.builder.string(name);
        let id = self.builder.thread(Thread { process, tid, name, start_ns, end_ns: None });
        self.tasks.add_thread(task, id);
        id
    }

    pub(super) fn forked(&mut self, Task { pid, tid }: Task, parent: Task, time: u64) {
        // A thread keeps its parent's name until it gets one of its own.
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
            self.know_thread(pid, tid, time);
        } else {
            self.new_thread(pid, tid, &name, time);
        }
    }

    /// Gives a process that was seen before the news of its start what it has from its parent; whether it is such a one. Another CPU
    /// can be late to give that news, and the agent in a process is heard at once.
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

    /// Whether a thread was seen before the news of its start. One that was there when the recording began is another one that had the
    /// number, unless its process is `adopted` just now.
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
        }
        if !self.processes.contains_key(&pid) {
            self.new_process(pid, None, name, time);
        }
        if !self.has_thread(pid, tid) {
            self.new_thread(pid, tid, name, time);
        }
        let name = self.builder.string(name);
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

    pub(super) fn ended(&mut self, Task { pid, tid }: Task, time: u64) {
        self.end_thread(tid, time);
        let end_ns = Some(self.since_start(time));
        let Some(process) = self.processes.get_mut(&pid) else { return };
        // Threads can go on when the first one has ended.
        if pid == tid || self.builder.process_row(process.id).end_ns.is_some() {
            self.builder.update_process(process.id, |row| row.end_ns = end_ns);
        }
        if pid == tid {
            if std::mem::take(&mut process.expects_program) {
                self.counters.unobservable_execs += 1;
            }
            self.world.process_ended(pid);
        }
    }

    /// The thread of a process that is on its way out and has no number any more: the last one that ended.
    pub(super) fn leaving_thread(&self, pid: u32) -> u32 {
        let of_process = |tid: &u32| self.threads.get(tid).is_some_and(|thread| thread.pid == pid);
        self.ended.iter().rev().map(|(_, tid, _)| *tid).find(of_process).unwrap_or(pid)
    }

    /// The processes of which no end was heard: numbers and names.
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
mod tests {
    use super::*;
    use crate::testing::{Recorded, process_words, thread_of, thread_words};

    const APP: (u32, u32) = (100, 100);

    /// A recording of a program with one thread and a page of code.
    fn recorded() -> Recorded {
        let mut recorded = Recorded::new();
        recorded.converter.add_process(100, "app");
        recorded.map(100, "/bin/app", 0x1000);
        recorded
    }

    /// Rounds of records in which nothing happens.
    fn rounds(recorded: &mut Recorded) {
        (0..10).for_each(|_| recorded.converter.begin_drain());
    }

    /// The kernel gives -1 for the number of a thread that has left its process but not its CPU.
    #[test]
    fn a_sample_on_the_way_out_belongs_to_the_thread_that_ended() {
        let mut recorded = recorded();
        recorded.fork(100, (100, 101), 1000);
        recorded.exit((100, 101), 2000);
        recorded.sample_at((100, u32::MAX), 2001, 0x1010);
        let profile = recorded.profile();
        assert_eq!(thread_words(&profile), ["100 app 0..", "101 app 1000..2000"]);
        assert_eq!(thread_of(&profile, 0), ThreadId(1));
    }

    #[test]
    fn a_child_has_its_parents_code_and_from_then_on_its_own() {
        let mut recorded = recorded();
        recorded.fork(100, (101, 101), 10);
        recorded.map(101, "/lib/plugin", 0x1000);
        recorded.map(100, "/lib/other", 0x5000);
        for pid in [100, 101] {
            recorded.sample_at((pid, pid), 20, 0x1010);
            recorded.sample_at((pid, pid), 21, 0x5010);
        }
        assert_eq!(recorded.stacks(), ["/bin/app+10", "/lib/other+10", "/lib/plugin+10", "?5010"]);
    }

    #[test]
    fn an_exec_forgets_the_code_and_all_other_threads() {
        let mut recorded = recorded();
        recorded.fork(100, (100, 101), 5);
        recorded.exec(APP, "next", 10);
        recorded.sample_at(APP, 20, 0x1010);
        recorded.map(100, "/bin/next", 0x2000);
        recorded.map(100, "/lib/shared.so", 0x3000);
        recorded.sample_at(APP, 30, 0x2010);
        let kinds = |profile: &whyslow_profile::Profile| {
            profile.modules.iter().map(|module| module.kind).collect::<Vec<_>>()
        };
        let profile = recorded.profile();
        assert_eq!(process_words(&profile), ["100 next 0.."]);
        assert_eq!(thread_words(&profile), ["100 next 0..", "101 app 5..10"]);
        assert_eq!(kinds(&profile)[1..], [ModuleKind::Program, ModuleKind::Library]);
    }

    #[test]
    fn an_exec_leaves_no_code_of_the_program_before() {
        let mut recorded = recorded();
        recorded.sample_at(APP, 1, 0x1010);
        recorded.exec(APP, "next", 10);
        recorded.sample_at(APP, 20, 0x1010);
        recorded.map(100, "/bin/next", 0x1000);
        recorded.sample_at(APP, 30, 0x1010);
        assert_eq!(recorded.stacks(), ["/bin/app+10", "?1010", "/bin/next+10"]);
    }

    #[test]
    fn an_exec_of_a_program_that_maps_nothing_is_counted() {
        let mut recorded = recorded();
        recorded.exec(APP, "secret", 10);
        recorded.exit(APP, 20);
        assert_eq!(recorded.converter.counters.unobservable_execs, 1);
        assert_eq!(recorded.converter.world.told, ["100 started", "100 ended"]);
    }

    /// The number of a process is given to another one at once, and after a while.
    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        for wait in [false, true] {
            let mut recorded = recorded();
            recorded.fork(100, (101, 101), 10);
            recorded.map(101, "/lib/first", 0x2000);
            recorded.sample_at((101, 101), 11, 0x2010);
            recorded.exit((101, 101), 20);
            if wait {
                rounds(&mut recorded);
            }
            recorded.fork(100, (101, 101), 30);
            recorded.sample_at((101, 101), 31, 0x2010);
            rounds(&mut recorded);
            recorded.sample_at((101, 101), 32, 0x2010);
            let rows = recorded.rows();
            let expected = [(1, 1, "/lib/first+10"), (2, 2, "?2010"), (2, 2, "?2010")];
            assert_eq!(rows, expected.map(|(process, thread, stack)| (process, thread, stack.to_owned())));
        }
    }

    /// Nobody told of the end of a thread and of the start of another process's thread under its number.
    #[test]
    fn a_threads_number_in_another_process_is_another_thread() {
        let mut recorded = recorded();
        recorded.fork(100, (100, 105), 10);
        recorded.fork(100, (200, 200), 20);
        recorded.sample_at((200, 105), 30, 0x1010);
        let profile = recorded.profile();
        let thread = &profile.threads[thread_of(&profile, 0).index()];
        assert_eq!(profile.processes[thread.process.index()].pid, 200);
    }

    #[test]
    fn threads_that_ended_are_forgotten_and_those_that_go_on_are_not() {
        let mut recorded = recorded();
        for tid in 101..1000 {
            recorded.fork(100, (100, tid), 10);
            recorded.exit((100, tid), 20);
        }
        recorded.exit(APP, 30);
        recorded.fork(100, (100, 2000), 25);
        rounds(&mut recorded);
        assert_eq!(recorded.converter.threads.len(), 1);
        assert_eq!(recorded.converter.processes[&100].threads, 1);
        recorded.exit((100, 2000), 40);
        rounds(&mut recorded);
        assert!(recorded.converter.threads.is_empty() && recorded.converter.processes.is_empty());
        let profile = recorded.profile();
        assert_eq!(process_words(&profile), ["100 app 0..40"], "it ends with its last thread");
    }

    #[test]
    fn news_of_a_start_that_comes_late_makes_no_second_thread() {
        let mut recorded = recorded();
        recorded.sample_at((100, 101), 3000, 0x1010);
        recorded.fork(100, (100, 101), 2000);
        assert_eq!(thread_words(&recorded.profile()), ["100 app 0..", "101 app 2000.."]);
    }

    /// The parent's CPU can be later to give its news than the child's.
    #[test]
    fn news_of_a_start_that_comes_late_makes_no_second_process() {
        let mut recorded = recorded();
        recorded.sample_at((101, 101), 3000, 0x1010);
        recorded.map(101, "/lib/early", 0x8000);
        recorded.fork(100, (101, 101), 2000);
        recorded.sample_at((101, 101), 3001, 0x1010);
        recorded.sample_at((101, 101), 3002, 0x8010);
        let profile = recorded.profile();
        let stacks = (0..3).map(|at| crate::testing::stack_words(&profile, at)).collect::<Vec<_>>();
        assert_eq!(stacks, ["?1010", "/bin/app+10", "/lib/early+10"]);
        assert_eq!(process_words(&profile), ["100 app 0..", "101 app 2000.."]);
        assert_eq!(thread_words(&profile), ["100 app 0..", "101 app 2000.."]);
        assert_eq!(profile.processes[1].parent, Some(ProcessId(0)));
    }

    /// On a busy machine a process that has announced its end can wait for its last turn on a CPU, and be sampled there.
    #[test]
    fn a_sample_long_after_the_end_makes_no_second_process() {
        let mut recorded = recorded();
        recorded.fork(100, (101, 101), 1000);
        recorded.fork(101, (101, 102), 1500);
        recorded.exit((101, 102), 2000);
        recorded.exit((101, 101), 3000);
        for time in [4000, 5000] {
            rounds(&mut recorded);
            assert!(!recorded.converter.processes.contains_key(&101), "its state is dropped");
            for tid in [101, 102] {
                recorded.sample_at((101, tid), time, 0x1010);
            }
        }
        recorded.fork(100, (101, 101), 6000);
        recorded.sample_at((101, 101), 7000, 0x1010);
        let profile = recorded.profile();
        assert_eq!(process_words(&profile), ["100 app 0..", "101 app 1000..3000", "101 app 6000.."]);
        let threads = profile.threads.iter().map(|thread| (thread.process.0, thread.tid));
        assert_eq!(threads.collect::<Vec<_>>(), [(0, 100), (1, 101), (1, 102), (2, 101)]);
        assert_eq!((0..5).map(|at| thread_of(&profile, at).0).collect::<Vec<_>>(), [1, 2, 1, 2, 3]);
    }

    /// The heap's collector can hear of a process while the kernel's news of its start is still in a ring.
    #[test]
    fn a_process_whose_agent_is_heard_before_the_kernel_is_one_process() {
        let mut recorded = recorded();
        let process = recorded.converter.task_process(101, None, "worker", 3000);
        let thread = recorded.converter.task_thread(101, 101, "worker", 3000);
        recorded.fork(100, (101, 101), 2000);
        recorded.exec((101, 101), "app", 2500);
        recorded.sample_at((101, 101), 4000, 0x1010);
        recorded.exit((101, 101), 5000);
        let profile = recorded.profile();
        assert_eq!((profile.processes.len(), profile.threads.len()), (2, 2));
        let row = &profile.processes[process.index()];
        assert_eq!((row.start_ns, row.end_ns, row.parent), (2000, Some(5000), Some(ProcessId(0))));
        assert_eq!(thread_of(&profile, 0), thread);
    }

    /// The same, where the process could be asked for its threads, which looked as if they had always been there.
    #[test]
    fn late_news_of_a_start_makes_no_second_thread_of_a_process_that_was_asked() {
        let mut recorded = recorded();
        let (name, threads) = (Some("child".to_owned()), vec![(101, None)]);
        recorded.converter.world.running.insert(101, Running { name, threads, mappings: Vec::new() });
        recorded.sample_at((101, 101), 3000, 0x1010);
        recorded.fork(100, (101, 101), 2000);
        recorded.sample_at((101, 101), 3001, 0x1010);
        assert_eq!(recorded.rows().iter().map(|(_, thread, _)| *thread).collect::<Vec<_>>(), [1, 1]);
    }

    #[test]
    fn a_start_after_the_first_sight_is_that_of_another_process() {
        let mut recorded = recorded();
        recorded.sample_at((101, 101), 1000, 0x1010);
        recorded.fork(100, (101, 101), 2000);
        assert_eq!(process_words(&recorded.profile()), ["100 app 0..", "101 pid 101 0..", "101 app 2000.."]);
    }

    #[test]
    fn an_unannounced_process_is_what_the_world_says_it_is() {
        let mut recorded = recorded();
        let key = crate::FileKey { path: "/bin/daemon".to_owned(), device: (0, 0), inode: 7 };
        let mapping = crate::FileMapping { key, generation: 0, start: 0x4000, end: 0x5000, offset: 0 };
        let running = Running {
            name: Some("daemon".to_owned()),
            threads: vec![(300, None), (301, Some("worker".to_owned()))],
            mappings: vec![crate::RunningMapping { mapping, executable: true, is_program: true }],
        };
        recorded.converter.world.running.insert(300, running);
        recorded.sample_at((300, 301), 50, 0x4010);
        recorded.sample_at((400, 400), 60, 0x4010);
        let profile = recorded.profile();
        assert_eq!(
            thread_words(&profile),
            ["100 app 0..", "300 daemon 0..", "301 worker 0..", "400 unknown 60.."]
        );
        assert_eq!(process_words(&profile), ["100 app 0..", "300 daemon 0..", "400 pid 400 0.."]);
        assert_eq!(crate::testing::stack_words(&profile, 0), "/bin/daemon+10");
    }

    /// Another source, such as the heap's, refers to processes by number, and later than they lived.
    #[test]
    fn other_sources_find_the_process_that_had_a_number_then() {
        let mut recorded = Recorded::new();
        recorded.converter.add_process(100, "app");
        for (start, end) in [(10, 20), (30, 40)] {
            recorded.fork(100, (101, 101), start);
            recorded.exit((101, 101), end);
        }
        rounds(&mut recorded);
        let converter = &mut recorded.converter;
        let processes = [5, 15, 35, 50].map(|time| converter.task_process(101, None, "?", time).0);
        assert_eq!(processes, [1, 1, 2, 2]);
        assert_eq!([15, 35].map(|time| converter.task_thread(101, 101, "?", time).0), [1, 2]);
        let new = converter.task_thread(102, 103, "agent", 60);
        assert_eq!(converter.task_thread(102, 103, "agent", 70), new);
        assert_eq!(
            process_words(&recorded.profile()),
            ["100 app 0..", "101 app 10..20", "101 app 30..40", "102 agent 60.."]
        );
    }

    #[test]
    fn the_idle_loop_and_tasks_without_a_number_have_no_rows() {
        let mut recorded = recorded();
        recorded.sample_at((0, 0), 1, 0x1010);
        recorded.sample_at((u32::MAX, u32::MAX), 1, 0x1010);
        assert_eq!(recorded.converter.idle_samples, 1);
        assert!(recorded.stacks().is_empty());
    }
}
