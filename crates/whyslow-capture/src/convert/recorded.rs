//! Records out of a file: the same tables as from a live recording, but nothing is asked of running processes.

use std::path::PathBuf;

use linux_perf_event_reader::{CpuMode, MmapRecord, SampleRecord};
use rustc_hash::FxHashMap;
use whyslow_proc::kernel;
use whyslow_profile::{
    Builder, Counters, LocationId, Metric, MetricId, ModuleKind, RelativeAddress, StackId,
};

use super::{Converter, FIRST_MARK, FileKey, FileMapping, USER_MARK, text};
use crate::modules::{AddressSpace, KERNEL, RecordedFiles};
use crate::perf::Record;

/// What a recording tells of the machine it was made on.
#[derive(Debug, Default, Clone)]
pub struct RecordedOn {
    /// Build ids of mapped files by path, in hexadecimal.
    pub build_ids: FxHashMap<String, String>,
    /// Whether registers and stack bytes are those of x86-64 and can be unwound.
    pub x86_64: bool,
    /// The kernel's release, which must do where there is no build id of it.
    pub os_release: String,
    /// A folder with copies of the recorded files, looked at before their own places.
    pub copies: Option<PathBuf>,
}

/// The event that a record belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledEvent {
    /// Where its samples go.
    pub metric: MetricId,
    /// What a sample weighs that does not say so itself.
    pub period: u64,
}

/// What came out of a recording.
#[derive(Debug)]
pub struct Converted {
    /// The tables.
    pub builder: Builder,
    /// What was counted on the way.
    pub counters: Counters,
    /// Samples of the idle loop, which are left out.
    pub idle_samples: u64,
    /// Samples that held no call stack, only an address.
    pub without_stack: u64,
    /// Whether the kernel of the recording is the one that runs now, and its names can be had.
    pub same_kernel: bool,
    /// Files that are there, but were rebuilt since the recording.
    pub changed: Vec<String>,
    /// Files that were taken although the recording has no build id to prove them.
    pub unproven: Vec<String>,
}

/// State that only records out of a file need.
#[derive(Debug)]
pub(super) struct File {
    pub(super) period: u64,
    x86_64: bool,
    without_stack: u64,
    /// The addresses of the kernel's own code, without its modules.
    kernel_code: (u64, u64),
    /// Whether the kernel has not been started again since, so that its modules are where they were.
    same_boot: bool,
    started: bool,
    /// Mappings that may still be copied because a fork changes them.
    copies_left: usize,
}

/// The kernel allows a process about as many mappings.
const MOST_MAPPINGS: usize = 1 << 16;
/// Copies of mappings over all forks: bounds the memory that a file can ask for.
const MOST_COPIES: usize = 4 << 20;

impl File {
    /// Whether a process may get one more mapping.
    pub(super) fn may_map(&mut self, space: &AddressSpace) -> bool {
        if space.is_shared() {
            let Some(left) = self.copies_left.checked_sub(space.len()) else { return false };
            self.copies_left = left;
        }
        space.len() < MOST_MAPPINGS
    }
}

/// Turns the records of a file into a profile's tables.
///
/// Stacks are unwound from the recorded registers and stack bytes, with the unwind information of the mapped files as
/// far as they are on this machine and are the recorded ones. A stack that goes on beyond the recorded bytes stays
/// truncated: there is no live process to look at.
#[derive(Debug)]
pub struct RecordConverter {
    converter: Converter,
}

impl RecordConverter {
    /// Starts with what the file says of its machine.
    pub fn new(on: RecordedOn) -> Self {
        let mut converter = Converter::new(0, 0, None);
        let same_kernel = match on.build_ids.get(KERNEL) {
            Some(recorded) => kernel::build_id().is_some_and(|id| id.is(recorded)),
            None => !on.os_release.is_empty() && kernel::release() == on.os_release,
        };
        converter.modules.recorded = Some(RecordedFiles {
            build_ids: on.build_ids,
            same_kernel,
            copies: on.copies,
            ..RecordedFiles::default()
        });
        converter.file = Some(File {
            period: 1,
            x86_64: on.x86_64,
            without_stack: 0,
            kernel_code: (0, u64::MAX),
            same_boot: same_kernel,
            started: false,
            copies_left: MOST_COPIES,
        });
        Self { converter }
    }

    /// Adds a metric.
    pub fn metric(&mut self, metric: Metric<&str>) -> MetricId {
        self.converter.builder.metric(metric)
    }

    /// Takes build ids that were learned later, for files that are not mapped yet.
    pub fn tell_build_ids<'a>(&mut self, build_ids: impl Iterator<Item = (&'a String, &'a String)>) {
        if let Some(files) = &mut self.converter.modules.recorded {
            files.build_ids.extend(build_ids.map(|(path, id)| (path.clone(), id.clone())));
        }
    }

    /// Takes the next record in order of time. The first time that is not 0 is the start of the recording.
    pub fn record(&mut self, record: &Record<'_>, event: SampledEvent) {
        let converter = &mut self.converter;
        converter.metric = event.metric;
        if let Some(file) = &mut converter.file {
            file.period = event.period;
            if !file.started
                && let Some(time) = record.timestamp().filter(|time| *time > 0)
            {
                file.started = true;
                converter.start_ns = time;
            }
        }
        converter.record(record);
    }

    /// Says that all records of a round are given: threads that ended long ago can be forgotten.
    pub fn end_round(&mut self) {
        self.converter.begin_drain();
    }

    /// The time that is 0 in the profile.
    pub fn start_ns(&self) -> u64 {
        self.converter.start_ns
    }

    /// The tables.
    pub fn finish(self) -> Converted {
        let Converter { builder, counters, modules, file, idle_samples, .. } = self.converter;
        let files = modules.recorded.unwrap_or_default();
        Converted {
            builder,
            counters,
            idle_samples,
            without_stack: file.map_or(0, |file| file.without_stack),
            same_kernel: files.same_kernel,
            changed: files.changed,
            unproven: files.unproven,
        }
    }
}

impl Converter {
    /// Whether a mapping is the program's own file: the first after an exec, or, where the exec was not recorded, the
    /// one that the process is named after.
    pub(super) fn is_program(&mut self, pid: u32, path: &str) -> bool {
        const LONGEST_COMM: usize = 15;
        let Some(process) = self.processes.get_mut(&pid) else { return false };
        if !path.starts_with('/') {
            return false;
        }
        if std::mem::take(&mut process.expects_program) {
            return true;
        }
        let name = path.rsplit('/').next().unwrap_or(path).as_bytes();
        let comm = self.builder.text(self.builder.process_row(process.id).name).as_bytes();
        self.file.is_some() && &name[..name.len().min(LONGEST_COMM)] == comm
    }

    /// A mapping in the older form of record. The kernel's own is there too.
    pub(super) fn old_mmap(&mut self, mmap: &MmapRecord<'_>) {
        let Some(file) = &mut self.file else { return };
        let path = text(&mmap.path);
        if mmap.cpu_mode == CpuMode::Kernel || mmap.pid == -1 {
            // `[kernel.kallsyms]_text`: the offset is the address of that symbol.
            if path.starts_with(KERNEL) && mmap.page_offset != 0 {
                self.kernel_base = mmap.page_offset;
                file.kernel_code = (mmap.page_offset, mmap.address.saturating_add(mmap.length));
                file.same_boot &= kernel::text_address() == Some(mmap.page_offset);
            }
            return;
        }
        let pid = mmap.pid.cast_unsigned();
        if mmap.is_executable {
            self.know_process(pid);
            let is_program = self.is_program(pid, &path);
            let kind = if is_program { ModuleKind::Program } else { ModuleKind::Library };
            let mapping = FileMapping {
                key: FileKey { path, device: (0, 0), inode: 0 },
                generation: 0,
                start: mmap.address,
                end: mmap.address.saturating_add(mmap.length),
                offset: mmap.page_offset,
            };
            self.map(pid, mapping, kind);
        }
    }

    /// The user's stack of a sample that cannot be unwound from stack bytes: the user's part of its callchain, or the
    /// one address that it has. `None` when there are stack bytes.
    pub(super) fn callchain_instead(
        &mut self,
        sample: &SampleRecord<'_>,
        pid: u32,
    ) -> Option<Option<StackId>> {
        let file = self.file.as_mut()?;
        if sample.user_stack.is_some() && file.x86_64 {
            return None;
        }
        let Some(callchain) = &sample.callchain else {
            file.without_stack += 1;
            let user = sample.ip.filter(|_| sample.cpu_mode == CpuMode::User);
            return Some(user.and_then(|ip| self.user_frames(pid, &[ip])));
        };
        let addresses = (0..callchain.len()).filter_map(|at| callchain.get(at));
        let user: Vec<u64> =
            addresses.skip_while(|ip| *ip != USER_MARK).skip(1).take_while(|ip| *ip < FIRST_MARK).collect();
        if user.is_empty() {
            self.counters.without_user_stack += 1;
        }
        Some(self.user_frames(pid, &user))
    }

    /// A stack of addresses, innermost first, of which all but the first are return addresses.
    fn user_frames(&mut self, pid: u32, addresses: &[u64]) -> Option<StackId> {
        let Self { builder, modules, processes, counters, .. } = self;
        let space = &processes.get(&pid)?.space;
        let mut locations = Vec::with_capacity(addresses.len());
        let mut cut = false;
        for (at, ip) in addresses.iter().enumerate() {
            let address = if at == 0 { *ip } else { ip.wrapping_sub(1) };
            match space.find(address) {
                Some(mapping) => {
                    let id = modules.get(mapping.module).id;
                    locations.push(builder.location(Some(id), mapping.relative_address(address)));
                }
                None if at == 0 => locations.push(builder.location(None, RelativeAddress(address))),
                // What is no code was no return address: the frame pointer was used for something else.
                None => {
                    cut = true;
                    break;
                }
            }
        }
        counters.no_unwind_info += u64::from(cut);
        let root = cut.then(|| builder.stack(None, LocationId::TRUNCATED));
        locations.iter().rev().fold(root, |parent, &location| Some(builder.stack(parent, location)))
    }

    /// The kernel's address of a sample without a callchain.
    pub(super) fn kernel_address(&self, sample: &SampleRecord<'_>) -> Option<u64> {
        let alone = self.file.is_some() && sample.callchain.is_none();
        sample.ip.filter(|_| alone && sample.cpu_mode == CpuMode::Kernel)
    }

    /// Whether the kernel's own names can speak for one of its addresses: modules move with every boot.
    pub(super) fn is_kernel_code(&self, address: u64) -> bool {
        self.file
            .as_ref()
            .is_none_or(|file| file.same_boot || (file.kernel_code.0..file.kernel_code.1).contains(&address))
    }
}
