//! A synthetic world, synthetic stacks, and recordings without a kernel.

use std::borrow::Cow;
use std::cell::Cell;

use rustc_hash::FxHashMap;
use whyslow_numbers::{ClockNs, RunTimeAddress};
use whyslow_processor::Processor;
use whyslow_profile::{Builder, Meta, Metric, MetricId, Profile, Sampler, ThreadId};
use whyslow_unwind::{Image, Registers, X86_64};

use crate::{
    Converter, Dump, FileKey, FileMapping, Input, Mapped, Opened, ReadError, Running, Sample, Setup, Task,
    UserStack, World,
};

/// The world that a test defines.
#[derive(Debug, Default)]
pub(crate) struct Fake {
    /// The files that can be opened, by path.
    pub(crate) files: FxHashMap<String, Vec<u8>>,
    /// The stacks in the memory of processes, one version per read; the last version repeats.
    pub(crate) memory: FxHashMap<u32, Vec<Vec<TestStack>>>,
    pub(crate) reads: Cell<usize>,
    /// Processes whose memory may not be read.
    pub(crate) refusing: Vec<u32>,
    pub(crate) running: FxHashMap<u32, Running>,
    /// What descriptors refer to, and the time of the answer.
    pub(crate) descriptors: FxHashMap<(u32, i32), (String, ClockNs)>,
    /// The notifications received, in order.
    pub(crate) reported: Vec<String>,
}

impl World for Fake {
    fn open(&mut self, _pid: u32, mapping: &FileMapping) -> Opened {
        let name = mapping.key.path.clone();
        let image = self.files.get(&name).and_then(|bytes| Image::from_bytes(bytes.clone()).ok());
        Opened { name, image, build_id: None }
    }

    fn identify(&mut self, _pid: u32, path: &str) -> FileKey {
        FileKey { path: path.to_owned(), device: (0, 0), inode: 0 }
    }

    fn vdso(&mut self) -> Opened {
        Opened { name: crate::VDSO.to_owned(), image: None, build_id: None }
    }

    fn kernel_build_id(&mut self) -> Option<String> {
        None
    }

    fn is_kernel_at(&mut self, _text: RunTimeAddress) -> bool {
        false
    }

    fn has_memory(&self) -> bool {
        true
    }

    fn read_memory(&self, pid: u32, address: RunTimeAddress, into: &mut [u8]) -> Result<usize, ReadError> {
        let number = self.reads.replace(self.reads.get() + 1);
        if self.refusing.contains(&pid) {
            return Err(ReadError::Refused);
        }
        let versions = self.memory.get(&pid).ok_or(ReadError::Missing)?;
        let stacks = versions.get(number).or(versions.last()).ok_or(ReadError::Missing)?;
        let there = stacks.iter().find_map(|stack| stack.bytes_from(address.0)).ok_or(ReadError::Missing)?;
        let len = there.len().min(into.len());
        into[..len].copy_from_slice(&there[..len]);
        Ok(len)
    }

    fn running(&mut self, pid: u32) -> Option<Running> {
        self.running.get(&pid).cloned()
    }

    fn descriptor(&mut self, pid: u32, descriptor: i32) -> Option<(String, ClockNs)> {
        self.descriptors.get(&(pid, descriptor)).cloned()
    }

    fn process_started(&mut self, pid: u32) {
        self.reported.push(format!("{pid} started"));
    }

    fn process_ended(&mut self, pid: u32) {
        self.reported.push(format!("{pid} ended"));
    }
}

/// A stack of functions that keep their frame pointers.
#[derive(Debug, Clone)]
pub(crate) struct TestStack {
    pub(crate) ip: u64,
    pub(crate) sp: u64,
    pub(crate) bp: u64,
    pub(crate) bytes: Vec<u8>,
}

impl TestStack {
    /// Takes the address in each function, innermost first, and the bytes per frame. `seed` fills the locals.
    pub(crate) fn new(sp: u64, functions: &[u64], frame: usize, seed: u8) -> Self {
        let mut bytes = vec![seed; frame * functions.len()];
        for at in 0..functions.len() {
            let end = (at + 1) * frame;
            let caller = functions.get(at + 1).copied().unwrap_or(0);
            let caller_bp = if caller == 0 { 0 } else { sp + (end + frame - 16) as u64 };
            bytes[end - 16..end - 8].copy_from_slice(&caller_bp.to_le_bytes());
            bytes[end - 8..end].copy_from_slice(&caller.to_le_bytes());
        }
        Self { ip: functions[0], sp, bp: sp + frame as u64 - 16, bytes }
    }

    fn bytes_from(&self, address: u64) -> Option<&[u8]> {
        let at = usize::try_from(address.checked_sub(self.sp)?).ok()?;
        self.bytes.get(at..).filter(|there| !there.is_empty())
    }

    /// A sample of it with this many bytes copied.
    pub(crate) fn dump(&self, copied: usize) -> UserStack<'_> {
        let registers = Registers::<X86_64>::new(self.ip, self.sp, self.bp).into();
        let bytes = &self.bytes[..copied.min(self.bytes.len())];
        UserStack::Dump(registers, Dump { sp: self.sp, bytes, cut: copied < self.bytes.len() })
    }
}

/// A time of the recording's clock.
pub(crate) const fn at(ns: u64) -> ClockNs {
    ClockNs::new(ns)
}

/// A recording whose events a test defines.
pub(crate) struct Recorded {
    pub(crate) converter: Converter<Fake>,
    pub(crate) metric: MetricId,
}

impl Recorded {
    pub(crate) fn new() -> Self {
        Self::with(|_, _| {})
    }

    /// A recording of more than samples: `more` gets the metrics and the setup of samples.
    pub(crate) fn with(more: impl FnOnce(&mut Builder, &mut Setup)) -> Self {
        let (mut rows, mut setup) =
            (Builder::new(), Setup { processor: Processor::X86_64, ..Setup::default() });
        let metric = rows.metric(Metric::cpu_time(Sampler::default()));
        more(&mut rows, &mut setup);
        Self { converter: Converter::new(Fake::default(), rows, &setup), metric }
    }

    pub(crate) fn sample(&mut self, (pid, tid): (u32, u32), time_ns: u64, user: UserStack<'_>) {
        let Self { converter, metric } = self;
        let task = Task { pid, tid };
        converter.take(&Input::Sample(Sample {
            metric: *metric,
            time_ns: at(time_ns),
            task,
            value: 1,
            user,
            kernel: &[],
        }));
    }

    /// A sample of one frame.
    pub(crate) fn sample_at(&mut self, task: (u32, u32), time_ns: u64, address: u64) {
        self.sample(task, time_ns, UserStack::Frames(&[address]));
    }

    pub(crate) fn map(&mut self, pid: u32, path: &str, start: u64) {
        self.map_file(pid, path, start, (1, 0));
    }

    /// Maps a page of a file with an inode and a generation.
    pub(crate) fn map_file(&mut self, pid: u32, path: &str, start: u64, (inode, generation): (u64, u64)) {
        self.converter.take(&Input::Mapped(Mapped {
            pid,
            tid: Some(pid),
            time_ns: at(0),
            path: Cow::Borrowed(path),
            device: (8, 1),
            inode,
            generation,
            build_id: None,
            start: RunTimeAddress(start),
            end: RunTimeAddress(start + 0x1000),
            offset: 0,
            executable: true,
        }));
    }

    /// Process or thread `parent` starts a thread.
    pub(crate) fn fork(&mut self, parent: u32, (pid, tid): (u32, u32), time_ns: u64) {
        let parent = Task { pid: parent, tid: parent };
        self.converter.take(&Input::Forked { task: Task { pid, tid }, parent, time_ns: at(time_ns) });
    }

    pub(crate) fn exec(&mut self, (pid, tid): (u32, u32), name: &str, time_ns: u64) {
        let (task, name) = (Task { pid, tid }, Cow::Borrowed(name));
        self.converter.take(&Input::Named { task, name, by_exec: true, time_ns: at(time_ns) });
    }

    pub(crate) fn exit(&mut self, (pid, tid): (u32, u32), time_ns: u64) {
        self.converter.take(&Input::Ended { task: Task { pid, tid }, time_ns: at(time_ns) });
    }

    pub(crate) fn profile(self) -> Profile {
        self.converter.finish().rows.into_profile(Meta::default()).unwrap()
    }

    /// Each sample: the process and thread as row numbers, and the stack, innermost first.
    pub(crate) fn rows(self) -> Vec<(u32, u32, String)> {
        let profile = self.profile();
        let samples = &profile.samples[0];
        let row = |at: usize| {
            let thread = samples.thread[at];
            (profile.threads[thread.index()].process.0, thread.0, stack_words(&profile, at))
        };
        (0..samples.len()).map(row).collect()
    }

    /// The stacks alone.
    pub(crate) fn stacks(self) -> Vec<String> {
        self.rows().into_iter().map(|(_, _, stack)| stack).collect()
    }
}

/// The process's number, name, start and end.
pub(crate) fn process_words(profile: &Profile) -> Vec<String> {
    let end = |end: Option<u64>| end.map_or_else(String::new, |end| end.to_string());
    let word = |row: &whyslow_profile::Process| {
        format!("{} {} {}..{}", row.pid, profile.text(row.name), row.start_ns, end(row.end_ns))
    };
    profile.processes.iter().map(word).collect()
}

/// The same for threads.
pub(crate) fn thread_words(profile: &Profile) -> Vec<String> {
    let end = |end: Option<u64>| end.map_or_else(String::new, |end| end.to_string());
    let word = |row: &whyslow_profile::Thread| {
        format!("{} {} {}..{}", row.tid, profile.text(row.name), row.start_ns, end(row.end_ns))
    };
    profile.threads.iter().map(word).collect()
}

pub(crate) fn thread_of(profile: &Profile, sample: usize) -> ThreadId {
    profile.samples[0].thread[sample]
}

pub(crate) fn stack_words(profile: &Profile, sample: usize) -> String {
    let mut words = Vec::new();
    let mut next = Some(profile.samples[0].stack[sample]);
    while let Some(stack) = next {
        let location = profile.stacks.location(stack);
        let module = profile.locations.module[location.index()];
        let address = profile.locations.address[location.index()].0;
        words.push(match module {
            _ if location == whyslow_profile::LocationId::TRUNCATED => "...".to_owned(),
            None => format!("?{address:x}"),
            Some(module) => {
                format!("{}+{address:x}", profile.text(profile.modules[module.index()].path))
            }
        });
        next = profile.stacks.parent(stack);
    }
    words.join(" ")
}
