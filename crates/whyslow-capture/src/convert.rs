//! From the kernel's records to the tables of a profile.

mod accounting;
mod recorded;
mod tasks;

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use linux_perf_event_reader::{EventRecord, Mmap2FileId, Mmap2Record, RawData, RecordType, SampleRecord};
use rustc_hash::FxHashMap;
use whyslow_elf::FileBytes;
use whyslow_proc::process;
use whyslow_profile::{
    Builder, Counters, LocationId, Metric, MetricId, ModuleId, ModuleKind, RelativeAddress, Sampler, StackId,
    ThreadId,
};
use whyslow_unwind::{Register, Registers};

use self::accounting::Accounting;
use self::tasks::{ProcessState, Tasks, ThreadState};
use crate::completion::{Completion, Dump, Images, Read};
use crate::maps::MappedAs;
use crate::marks::{self, Marks};
use crate::modules::{FileKey, FileMapping, Mapping, Modules};
use crate::ours::Ours;
use crate::perf::{Record, user_register_names};
use crate::walk::{Ended, Walk, WalkedFrame, World};

/// The kernel marks the parts of a callchain with numbers just below zero.
const FIRST_MARK: u64 = -4095_i64 as u64;
const USER_MARK: u64 = -512_i64 as u64;

/// Memory for images of live stacks, over all threads.
const IMAGES_MOST: usize = 64 << 20;

/// Turns records into rows.
#[derive(Debug)]
pub(crate) struct Converter {
    pub(crate) builder: Builder,
    pub(crate) counters: Counters,
    /// What the programs mark themselves.
    pub(crate) marks: Marks,
    metric: MetricId,
    modules: Modules,
    processes: FxHashMap<u32, ProcessState>,
    threads: FxHashMap<u32, ThreadState>,
    start_ns: u64,
    kernel_base: u64,
    /// Whose records are taken.
    pub(crate) ours: Ours,
    /// Whether records were lost since forks were last looked for.
    lost: bool,
    /// Set when events are bound to threads, and time without a sample is accounted for.
    accounting: Option<Accounting>,
    drain: u64,
    /// Whether a live stack had to be read in this drain.
    read_live: bool,
    image_memory: usize,
    /// Threads that have ended: the drain, the system's number, the row.
    ended: VecDeque<(u64, u32, ThreadId)>,
    frames: Vec<WalkedFrame>,
    stack_bytes: Vec<u8>,
    /// Sum of the raw sample values.
    total_value: u64,
    /// Samples of the idle loop, which are left out.
    idle_samples: u64,
    /// The rows of all processes and threads there ever were.
    tasks: Tasks,
    /// Set when the records come out of a file: nothing that runs now has to do with them.
    file: Option<recorded::File>,
}

pub use recorded::{Converted, RecordConverter, RecordedOn, SampledEvent};

impl Converter {
    /// `sampler`: what chooses the samples of CPU time, if there will be any.
    pub(crate) fn new(start_ns: u64, kernel_base: u64, sampler: Option<Sampler>) -> Self {
        let mut builder = Builder::new();
        let metric = sampler.map_or(MetricId(0), |sampler| builder.metric(Metric::cpu_time(sampler)));
        Self {
            builder,
            counters: Counters::default(),
            marks: Marks::default(),
            metric,
            modules: Modules::default(),
            processes: FxHashMap::default(),
            threads: FxHashMap::default(),
            start_ns,
            kernel_base,
            ours: Ours::default(),
            lost: false,
            accounting: None,
            drain: 0,
            read_live: false,
            image_memory: 0,
            ended: VecDeque::new(),
            frames: Vec::new(),
            stack_bytes: Vec::new(),
            total_value: 0,
            idle_samples: 0,
            tasks: Tasks::default(),
            file: None,
        }
    }

    /// Says what a cycle was worth when this much CPU time was seen, if samples are cycles.
    pub(crate) fn tell_cycle_worth(&mut self, seen_ns: u64) {
        if seen_ns > 0 && self.total_value > 0 {
            self.builder.cycle_worth(self.metric, seen_ns as f64 / self.total_value as f64);
        }
    }

    /// Begins a round of records. The state of threads that ended some rounds ago is dropped, so that memory depends on what lives,
    /// not on what has lived. Their rows stay known: the kernel may still sample them, see [`Self::know_thread`].
    pub(crate) fn begin_drain(&mut self) {
        const MOURNED_DRAINS: u64 = 4;
        self.drain += 1;
        self.read_live = false;
        if std::mem::take(&mut self.lost) {
            self.ours.search(process::parents);
        }
        while let Some(&(drain, tid, id)) = self.ended.front()
            && drain + MOURNED_DRAINS < self.drain
        {
            self.ended.pop_front();
            // Its numbers may belong to a new thread or process by now.
            if self.threads.get(&tid).is_some_and(|thread| thread.id == id) {
                self.threads.remove(&tid);
            }
            let process = self.builder.thread_row(id).process;
            let pid = self.builder.process_row(process).pid;
            if let Some(state) = self.processes.get_mut(&pid).filter(|state| state.id == process) {
                state.threads = state.threads.saturating_sub(1);
                if state.threads == 0 {
                    self.processes.remove(&pid);
                }
            }
        }
    }

    /// Whether a live stack had to be read in this round.
    pub(crate) fn has_read_live(&self) -> bool {
        self.read_live
    }

    /// Adds the marks of the programs up to a time, when the records up to then are there.
    pub(crate) fn add_marks(&mut self, until: u64) {
        let Self { marks, builder, threads, processes, .. } = self;
        marks.add(until, builder, &|tid| {
            let thread = threads.get(&tid)?;
            Some((thread.id, processes.get(&thread.pid)?.id))
        });
    }

    /// Takes one record.
    pub(crate) fn record(&mut self, record: &Record<'_>) {
        if !self.ours.takes(record) {
            return;
        }
        let time = record.timestamp().unwrap_or(self.start_ns);
        match record.parse() {
            Ok(EventRecord::Sample(sample)) => self.sample(&sample),
            Ok(EventRecord::Mmap2(mmap)) => self.mmap(&mmap),
            Ok(EventRecord::Mmap(mmap)) => self.old_mmap(&mmap),
            Ok(EventRecord::Comm(comm)) => self.comm(&comm, time),
            Ok(EventRecord::Fork(fork)) => self.fork(&fork),
            Ok(EventRecord::Exit(exit)) => self.exit(&exit),
            Ok(EventRecord::Lost(lost)) => {
                self.counters.lost_samples += lost.count;
                self.lost = true;
            }
            Ok(EventRecord::ContextSwitch(switch)) => self.switched(record, &switch),
            Ok(EventRecord::Throttle(_)) => self.counters.throttled += 1,
            Ok(_) | Err(_) => {
                if record.record_type == RecordType::LOST_SAMPLES {
                    let mut data = record.data;
                    self.counters.lost_samples += data.read_u64::<byteorder::NativeEndian>().unwrap_or(0);
                }
            }
        }
    }

    pub(crate) fn since_start(&self, time: u64) -> u64 {
        time.saturating_sub(self.start_ns)
    }

    /// The module of a file that a process has mapped.
    pub(crate) fn module(&mut self, pid: u32, path: &Path, kind: ModuleKind) -> ModuleId {
        let path = path.to_string_lossy().into_owned();
        let Self { modules, builder, .. } = self;
        if path == crate::modules::VDSO {
            let index = modules.vdso(builder);
            return modules.get(index).id;
        }
        // The process may have its own root.
        let file = fs::metadata(process::file_in_root(pid, &path)).or_else(|_| fs::metadata(&path)).ok();
        let device = file.as_ref().map_or((0, 0), |file| {
            let device = file.dev();
            (rustix::fs::major(device), rustix::fs::minor(device))
        });
        let inode = file.map_or(0, |file| file.ino());
        let key = FileKey { path, device, inode };
        let mapping = FileMapping { key, generation: 0, start: 0, end: 0, offset: 0 };
        let index = modules.file(builder, pid, mapping, kind);
        modules.get(index).id
    }

    /// The files of the modules, which may have lost their names by now.
    pub(crate) fn files(&self) -> Vec<(ModuleId, FileBytes)> {
        self.modules.files()
    }

    /// Where a stack begins that could not be followed beyond a call at this address of a module, if it begins there.
    pub(crate) fn stack_begin(&self, module: ModuleId, call: RelativeAddress) -> Option<RelativeAddress> {
        self.modules.stack_begin(module, call)
    }

    fn mmap(&mut self, mmap: &Mmap2Record<'_>) {
        const PROT_EXEC: u32 = rustix::mm::ProtFlags::EXEC.bits();
        let (pid, tid) = (mmap.pid.cast_unsigned(), mmap.tid.cast_unsigned());
        if mmap.path.as_slice().ends_with(b".txt") {
            let path = text(&mmap.path);
            if marks::is_marker_file(&path) {
                self.marks.marker_file(pid, &path, self.threads.get(&tid).map(|thread| thread.id));
            }
        }
        if mmap.protection & PROT_EXEC == 0 {
            return;
        }
        let (device, inode, generation) = match &mmap.file_id {
            Mmap2FileId::InodeAndVersion(file) => {
                ((file.major, file.minor), file.inode, file.inode_generation)
            }
            Mmap2FileId::BuildId(_) => ((0, 0), 0, 0),
        };
        let key = FileKey { path: text(&mmap.path), device, inode };
        if let Mmap2FileId::BuildId(build_id) = &mmap.file_id {
            self.modules.tell_build_id(&key.path, build_id);
        }
        if !self.is_live() {
            self.know_process(pid);
        }
        let is_program = self.is_program(pid, &key.path);
        let kind = if is_program { ModuleKind::Program } else { ModuleKind::Library };
        let (start, end) = (mmap.address, mmap.address.saturating_add(mmap.length));
        self.map(pid, FileMapping { key, generation, start, end, offset: mmap.page_offset }, kind);
    }

    /// Adds an executable mapping to a process.
    fn map(&mut self, pid: u32, mapping: FileMapping, kind: ModuleKind) {
        let FileMapping { start, end, offset, .. } = mapping;
        let Self { processes, modules, builder, counters, file, .. } = self;
        let Some(process) = processes.get_mut(&pid) else { return };
        if !file.as_mut().is_none_or(|file| file.may_map(&process.space)) {
            counters.lost_records += 1;
            return;
        }
        let described = MappedAs::from_path(&mapping.key.path);
        let file = match described {
            MappedAs::Vdso => Some(modules.vdso(builder)),
            MappedAs::JitDump => {
                // The program announces the file that describes its run-time code by mapping it.
                let described = modules.jit(builder, pid, Some(&mapping.key.path));
                if let Some(undescribed) = process.jit.replace(described) {
                    process.space.replace_module(undescribed, described);
                }
                return;
            }
            MappedAs::Anonymous => None,
            MappedAs::Memfd => modules.nameless_file(builder, pid, mapping, kind),
            MappedAs::File => Some(modules.file(builder, pid, mapping, kind)),
        };
        let (module, relative) = match file {
            Some(module) if described == MappedAs::Vdso => (module, 0),
            Some(module) => {
                let image = modules.get(module).unwinder.image();
                (module, image.and_then(|image| image.relative_address(offset)).unwrap_or(offset))
            }
            None => (*process.jit.get_or_insert_with(|| modules.jit(builder, pid, None)), start),
        };
        process.space.insert(Mapping { start, end, module, relative });
    }

    fn sample(&mut self, sample: &SampleRecord<'_>) {
        let (Some(pid), Some(tid)) = (sample.pid, sample.tid) else { return };
        let time = sample.timestamp.unwrap_or(self.start_ns);
        let (pid, tid) = (pid.cast_unsigned(), tid.cast_unsigned());
        // Thread 0 is the idle loop, -1 a task that is already gone.
        if pid == 0 || pid == u32::MAX {
            self.idle_samples += u64::from(pid == 0);
            return;
        }
        let tid = if tid == u32::MAX { self.leaving_thread(pid) } else { tid };
        self.know_thread(pid, tid, time);
        let user = match self.callchain_instead(sample, pid) {
            Some(user) => user,
            None => self.user_stack(sample, pid, tid),
        };
        let Some(stack) = self.kernel_stack(sample, user) else { return };
        let Some(thread) = self.threads.get(&tid) else { return };
        let value = sample.period.unwrap_or_else(|| self.file.as_ref().map_or(1, |file| file.period));
        self.total_value = self.total_value.saturating_add(value);
        self.builder.sample(self.metric, self.since_start(time), thread.id, stack, value);
        self.account_sample(tid, time);
    }

    /// Puts the kernel's part of the callchain on top of the user's stack.
    fn kernel_stack(&mut self, sample: &SampleRecord<'_>, mut stack: Option<StackId>) -> Option<StackId> {
        let kernel: Vec<u64> = match &sample.callchain {
            Some(callchain) => (0..callchain.len())
                .filter_map(|at| callchain.get(at))
                .take_while(|ip| *ip != USER_MARK)
                .filter(|ip| *ip < FIRST_MARK)
                .collect(),
            None => self.kernel_address(sample).into_iter().collect(),
        };
        if kernel.is_empty() {
            return stack;
        }
        let module = self.modules.kernel(&mut self.builder);
        let id = self.modules.get(module).id;
        for (at, ip) in kernel.iter().enumerate().rev() {
            let address = if at == 0 { *ip } else { ip.wrapping_sub(1) };
            let location = if self.is_kernel_code(address) {
                let relative = RelativeAddress(address.wrapping_sub(self.kernel_base));
                self.builder.location(Some(id), relative)
            } else {
                self.builder.location(None, RelativeAddress(address))
            };
            stack = Some(self.builder.stack(stack, location));
        }
        stack
    }

    fn is_live(&self) -> bool {
        self.file.is_none()
    }

    fn user_stack(&mut self, sample: &SampleRecord<'_>, pid: u32, tid: u32) -> Option<StackId> {
        let Some(registers) = user_registers(sample) else {
            self.counters.without_user_stack += 1;
            return None;
        };
        let (stack, dyn_size) = sample.user_stack.unwrap_or((RawData::empty(), 0));
        let full = dyn_size as usize >= stack.len();
        let used = stack.len().min(dyn_size as usize);
        // Most dumps lie in one piece in the ring and are read there; one that wraps around is copied.
        let mut copy = std::mem::take(&mut self.stack_bytes);
        let bytes = match stack {
            RawData::Single(bytes) => &bytes[..used],
            RawData::Split(first, second) => {
                copy.clear();
                copy.extend_from_slice(first);
                copy.extend_from_slice(second);
                &copy[..used]
            }
        };
        let dump = Dump { sp: registers.sp(), bytes, cut: full && !bytes.is_empty() };
        let walked = self.walk(registers, &dump, pid, tid);
        self.stack_bytes = copy;
        walked
    }

    fn walk(&mut self, registers: Registers, dump: &Dump<'_>, pid: u32, tid: u32) -> Option<StackId> {
        let Self { builder, modules, processes, threads, counters, drain, frames, .. } = self;
        let (process, thread) = (processes.get_mut(&pid)?, threads.get_mut(&tid)?);
        let mut world = World { modules, space: &process.space, builder };
        let mut walk = Walk::start(registers, std::mem::take(frames));
        let ended = walk.run(&mut world, &mut |address| dump.read(address), |_, _, _| None);
        let behind_signal =
            walk.signal.filter(|signal| signal.is_on_another_stack() && !dump.holds(signal.sp));
        let stack = match (ended, behind_signal) {
            (Ended::Complete, _) => {
                counters.complete_in_dump += 1;
                walk.intern(world.builder, None, |_, _| {})
            }
            (Ended::OutOfMemory(_), Some(signal)) => {
                let completion = Completion { dump, pid, drain: *drain };
                let in_dump = walk.mark();
                let mut read = Read::No;
                if process.readable {
                    self.read_live = true;
                    self.image_memory -= thread.images.memory().min(self.image_memory);
                    read = completion.behind_signal(signal, &mut walk, &mut world, &mut thread.images);
                    self.image_memory += thread.images.memory();
                }
                match read {
                    Read::Complete(stack) => {
                        counters.completed_by_read += 1;
                        Some(stack)
                    }
                    Read::Joined(stack) => {
                        counters.completed_by_join += 1;
                        Some(stack)
                    }
                    Read::No | Read::Unreadable => {
                        process.readable &= !matches!(read, Read::Unreadable);
                        walk.rewind(&in_dump);
                        counters.cut_at_signal += 1;
                        truncated(&walk, world.builder)
                    }
                }
            }
            // Beyond the copied bytes, not somewhere else.
            (Ended::OutOfMemory(address), None) if dump.cut && address >= dump.sp => {
                let completion = Completion { dump, pid, drain: *drain };
                let in_dump = walk.mark();
                if let Some(stack) = completion.join(&mut walk, &mut world, &mut thread.images) {
                    counters.completed_by_join += 1;
                    Some(stack)
                } else {
                    walk.rewind(&in_dump);
                    let may_read = process.readable && !thread.images.is_fresh(*drain);
                    if may_read {
                        self.read_live = true;
                        self.image_memory -= thread.images.memory().min(self.image_memory);
                    }
                    let read = if may_read {
                        completion.read(&mut walk, &mut world, &mut thread.images)
                    } else {
                        Read::No
                    };
                    if may_read {
                        self.image_memory += thread.images.memory();
                    }
                    match read {
                        Read::Complete(stack) | Read::Joined(stack) => {
                            counters.completed_by_read += 1;
                            Some(stack)
                        }
                        Read::No | Read::Unreadable => {
                            process.readable &= !matches!(read, Read::Unreadable);
                            walk.rewind(&in_dump);
                            counters.truncated += 1;
                            truncated(&walk, world.builder)
                        }
                    }
                }
            }
            (Ended::OutOfMemory(_) | Ended::Lost | Ended::Known(_), _) => {
                counters.no_unwind_info += 1;
                truncated(&walk, world.builder)
            }
        };
        *frames = walk.frames;
        if self.image_memory > IMAGES_MOST {
            self.image_memory = 0;
            self.threads.values_mut().for_each(|thread| thread.images = Images::default());
        }
        stack
    }
}

/// A stack that is honest about its missing outer frames.
fn truncated(walk: &Walk, builder: &mut Builder) -> Option<StackId> {
    let root = builder.stack(None, LocationId::TRUNCATED);
    walk.intern(builder, Some(root), |_, _| {})
}

/// The registers of a sample; `None` for kernel threads and tasks that are exiting.
fn user_registers(sample: &SampleRecord<'_>) -> Option<Registers> {
    let values = sample.user_regs.as_ref()?;
    let mut registers = Registers::new(values.get(8)?, values.get(7)?, values.get(6)?);
    for (bit, name) in user_register_names() {
        if let Some(value) = values.get(bit) {
            registers.set(name, value);
        }
    }
    (registers.get(Register::RIP)? != 0).then_some(registers)
}

fn text(bytes: &RawData<'_>) -> String {
    String::from_utf8_lossy(&bytes.as_slice()).into_owned()
}
