//! Profiles of what threads do over time: they run, and wait.

use whyslow_analyze::testing;
use whyslow_profile::{
    Metric, ModuleKind, Process, ProcessId, Profile, Samples, Span, StackId, Thread, ThreadId, WaitDetail,
    WaitFrame, WokenBy,
};

/// A time in microseconds, so that scenes read like a schedule.
pub(crate) const US: u64 = 1_000;
/// A millisecond.
pub(crate) const MS: u64 = 1_000_000;

/// A profile, and what is added to it.
pub(crate) struct Scene {
    pub(crate) profile: Profile,
    /// The stacks of the text, one per line.
    stacks: Vec<StackId>,
    cpu: Samples,
    waits: Samples,
}

impl Scene {
    /// With the stacks of a text in the format of [`testing::profile`], each line once, and no samples.
    pub(crate) fn new(stacks: &str, duration_ns: u64) -> Self {
        let lines = stacks.lines().map(|line| format!("{} 1", line.trim())).collect::<Vec<_>>();
        let mut profile = testing::profile(&lines.join("\n"));
        let stacks = profile.samples[0].stack.clone();
        profile.samples[0] = Samples::default();
        profile.threads.clear();
        let queued = WaitFrame::Queued;
        for row in 0..profile.modules.len() {
            if profile.text(profile.modules[row].path).ends_with(queued.label().trim_matches(['[', ']'])) {
                profile.modules[row].kind = ModuleKind::Waiting(queued);
            }
        }
        profile.meta.duration_ns = duration_ns;
        Self { profile, stacks, cpu: Samples::default(), waits: Samples::default() }
    }

    /// The stacks of the text.
    pub(crate) fn stacks(&self) -> Vec<StackId> {
        self.stacks.clone()
    }

    /// Adds a process that the first one started.
    pub(crate) fn process(&mut self, pid: u32, name: &str, start_ns: u64) -> ProcessId {
        let name = self.profile.strings.push(name);
        let parent = Some(ProcessId(0));
        self.profile.processes.push(Process { pid, parent, name, start_ns, end_ns: None });
        (self.profile.processes.len() - 1).into()
    }

    pub(crate) fn thread(
        &mut self,
        process: u32,
        tid: u32,
        name: &str,
        start_ns: u64,
        end_ns: Option<u64>,
    ) -> ThreadId {
        let name = self.profile.strings.push(name);
        let process = ProcessId(process);
        self.profile.threads.push(Thread { process, tid, name, start_ns, end_ns, times: None });
        (self.profile.threads.len() - 1).into()
    }

    pub(crate) fn span(&mut self, name: &str, thread: Option<ThreadId>, start_ns: u64, end_ns: u64) {
        let known = self.profile.strings.iter().position(|known| known == name);
        let name = known.map_or_else(|| self.profile.strings.push(name), Into::into);
        self.profile.spans.push(Span { name, thread, start_ns, end_ns, detail: None });
    }

    /// Adds a CPU sample that stands for the time before it.
    pub(crate) fn sample(&mut self, thread: ThreadId, time_ns: u64, stack: usize, value: u64) {
        self.cpu.push(time_ns, thread, self.stacks[stack], value);
    }

    /// Adds CPU samples at every `step`, up to the end of a stretch.
    pub(crate) fn ran(&mut self, thread: ThreadId, from: u64, to: u64, stack: usize, step: u64) {
        let mut time = from + step;
        while time <= to {
            self.sample(thread, time, stack, step);
            time += step;
        }
    }

    /// Adds a wait whose end nobody knows.
    pub(crate) fn waited(&mut self, thread: ThreadId, from: u64, to: u64, stack: usize) {
        self.waits.push(to, thread, self.stacks[stack], to - from);
    }

    /// Adds a wait with details.
    pub(crate) fn woken(&mut self, thread: ThreadId, from: u64, to: u64, stack: usize, by: Waker) {
        self.waited(thread, from, to, stack);
        let (waker, waker_stack) = by.thread.unzip();
        self.profile.wait_details.push(WaitDetail {
            thread,
            end_ns: to,
            cpu: Some(thread.0 % 2),
            argument: by.address,
            parked_on: 0,
            data: None,
            woken_by: by.what,
            waker,
            waker_stack: waker_stack.map(|stack| self.stacks[stack]),
        });
    }

    /// The profile with these samples; with a wait, wall time too.
    pub(crate) fn finish(mut self) -> Profile {
        self.profile.samples[0] = self.cpu;
        if !self.waits.is_empty() {
            self.profile.set_metric(Metric::off_cpu_time(), self.waits);
            self.profile.add_wall_time();
        }
        self.profile
    }
}

/// What ended a wait.
#[derive(Clone, Copy)]
pub(crate) struct Waker {
    what: WokenBy,
    thread: Option<(ThreadId, usize)>,
    address: u64,
}

impl Waker {
    /// A thread, at one of the scene's stacks.
    pub(crate) fn thread(thread: ThreadId, stack: usize) -> Self {
        Self { what: WokenBy::Thread, thread: Some((thread, stack)), address: 0 }
    }

    pub(crate) fn interrupt() -> Self {
        Self { what: WokenBy::Interrupt, thread: None, address: 0 }
    }

    pub(crate) fn unknown() -> Self {
        Self { what: WokenBy::Unknown, thread: None, address: 0 }
    }

    /// The same, where the thread waited on an address.
    pub(crate) fn on(self, address: u64) -> Self {
        Self { address, ..self }
    }
}
