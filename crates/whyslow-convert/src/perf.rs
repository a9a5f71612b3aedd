//! Turns the kernel's perf records into inputs: those of a live recording's rings, and those in a perf.data
//! file.

mod calls;

use std::borrow::Cow;

use linux_perf_event_reader::{
    CommOrExecRecord, ContextSwitchRecord, CpuMode, Endianness, EventRecord, ForkOrExitRecord, Mmap2FileId,
    Mmap2Record, MmapRecord, RawData, RawEventRecord, RecordType, SampleRecord, TaskWasPreempted,
};
use whyslow_numbers::{ClockNs, RunTimeAddress};
use whyslow_processor::Processor;
use whyslow_profile::MetricId;
use whyslow_unwind::AnyRegisters;

pub use self::calls::CallEvent;
use crate::input::{Dump, Input, Mapped, Sample, Task, UserStack, Wakes};
use crate::modules::KERNEL;

/// The kernel separates the parts of a callchain with marker values just below zero.
const FIRST_MARK: u64 = -4095_i64 as u64;
/// The marker before the user part.
const USER_MARK: u64 = -512_i64 as u64;

/// A bit in the protection of a mapping: it is code.
const PROT_EXEC: u32 = 4;

/// The event that a record belongs to. Each record carries its own layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The metric of its samples.
    pub metric: MetricId,
    /// The weight of a sample that does not carry its own.
    pub period: u64,
    /// The processor of its registers and stack bytes; `None` if they cannot be unwound.
    pub processor: Option<Processor>,
    /// What its samples mean.
    pub role: Role,
}

impl Event {
    /// An event of this machine.
    pub fn of_host(metric: MetricId, period: u64, role: Role) -> Self {
        Self { metric, period, processor: Some(Processor::HOST), role }
    }
}

/// What samples of an event mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// They become rows of the metric.
    Counts,
    /// A thread is about to leave its CPU.
    Leaves,
    /// A waiting thread is woken. Its number is in the tracepoint's data.
    Wakes {
        /// The offset of the number, in bytes.
        tid_at: usize,
        /// Whether the waker's stack is recorded.
        with_stack: bool,
    },
    /// A system call starts or returns.
    Calls(CallEvent),
}

/// Reads records. Holds copies of sample parts that are not contiguous.
#[derive(Debug, Default)]
pub struct Reader {
    kernel: Vec<u64>,
    user: Vec<u64>,
    stack: Vec<u8>,
}

impl Reader {
    /// Converts a record; `None` if it contains nothing useful.
    pub fn read<'a>(&'a mut self, record: &RawEventRecord<'a>, event: &Event) -> Option<Input<'a>> {
        if let (Role::Calls(call), RecordType::SAMPLE) = (event.role, record.record_type) {
            return self.read_call(record, call);
        }
        let time_ns = ClockNs::new(record.timestamp().unwrap_or(0));
        match record.parse() {
            Ok(EventRecord::Sample(sample)) => match event.role {
                Role::Counts | Role::Calls(_) => Some(Input::Sample(self.sample(&sample, event)?)),
                Role::Leaves => Some(Input::Leaves(self.sample(&sample, event)?)),
                Role::Wakes { tid_at, .. } => {
                    let (tid, in_interrupt) = woken(&sample.raw?, tid_at)?;
                    Some(Input::Wakes(Wakes { tid, by: self.sample(&sample, event)?, in_interrupt }))
                }
            },
            Ok(EventRecord::Mmap2(mmap)) => Some(Input::Mapped(mapped(mmap, time_ns))),
            Ok(EventRecord::Mmap(mmap)) => mapped_in_old_form(&mmap, time_ns),
            Ok(EventRecord::Comm(CommOrExecRecord { pid, tid, name, is_execve })) => {
                Some(Input::Named { task: task(pid, tid), name: text(&name), by_exec: is_execve, time_ns })
            }
            Ok(EventRecord::Fork(ForkOrExitRecord { pid, tid, ppid, ptid, timestamp })) => {
                Some(Input::Forked {
                    task: task(pid, tid),
                    parent: task(ppid, ptid),
                    time_ns: ClockNs::new(timestamp),
                })
            }
            Ok(EventRecord::Exit(ForkOrExitRecord { pid, tid, timestamp, .. })) => {
                Some(Input::Ended { task: task(pid, tid), time_ns: ClockNs::new(timestamp) })
            }
            Ok(EventRecord::Lost(lost)) => {
                Some(Input::Lost { records: lost.count, cpu: cpu_of(record), time_ns })
            }
            Ok(EventRecord::ContextSwitch(switch)) => {
                let common = record.common_data().ok()?;
                let (runs, preempted) = match switch {
                    ContextSwitchRecord::In { .. } => (true, false),
                    ContextSwitchRecord::Out { preempted, .. } => (false, preempted == TaskWasPreempted::Yes),
                };
                let tid = common.tid?.cast_unsigned();
                let time_ns = ClockNs::new(common.timestamp?);
                Some(Input::Switched { tid, runs, preempted, cpu: common.cpu, time_ns })
            }
            Ok(EventRecord::Throttle(_)) => Some(Input::Throttled),
            Ok(_) | Err(_) if record.record_type == RecordType::LOST_SAMPLES => {
                let mut data = record.data;
                let count = match record.parse_info.endian {
                    Endianness::LittleEndian => data.read_u64::<byteorder::LittleEndian>(),
                    Endianness::BigEndian => data.read_u64::<byteorder::BigEndian>(),
                };
                Some(Input::Lost { records: count.unwrap_or(0), cpu: cpu_of(record), time_ns })
            }
            Ok(_) | Err(_) => None,
        }
    }

    fn sample<'a>(&'a mut self, sample: &SampleRecord<'a>, event: &Event) -> Option<Sample<'a>> {
        let Self { kernel, user, stack } = self;
        kernel.clear();
        user.clear();
        let stack_bytes = event.processor.and_then(|processor| Some((processor, sample.user_stack?)));
        if let Some(callchain) = &sample.callchain {
            let mut addresses = (0..callchain.len()).filter_map(|at| callchain.get(at));
            kernel.extend(addresses.by_ref().take_while(|ip| *ip != USER_MARK).filter(|ip| *ip < FIRST_MARK));
            if stack_bytes.is_none() {
                user.extend(addresses.take_while(|ip| *ip < FIRST_MARK));
            }
        } else if stack_bytes.is_none() && sample.cpu_mode == CpuMode::Kernel {
            kernel.extend(sample.ip);
        }
        let user = match stack_bytes {
            Some((processor, (bytes, used))) => match user_registers(sample, processor) {
                Some(registers) => UserStack::Dump(registers, dump(registers.sp(), bytes, used, stack)),
                None => UserStack::None,
            },
            None if sample.callchain.is_none() => {
                UserStack::Address(sample.ip.filter(|_| sample.cpu_mode == CpuMode::User))
            }
            None if user.is_empty() => UserStack::None,
            None => UserStack::Frames(user),
        };
        Some(Sample {
            metric: event.metric,
            time_ns: ClockNs::new(sample.timestamp.unwrap_or(0)),
            task: task(sample.pid?, sample.tid?),
            value: sample.period.unwrap_or(event.period),
            user,
            kernel,
        })
    }
}

/// The registers of a sample; `None` for kernel threads and tasks that are exiting.
fn user_registers(sample: &SampleRecord<'_>, processor: Processor) -> Option<AnyRegisters> {
    let values = sample.user_regs.as_ref()?;
    AnyRegisters::of_sample(processor, |bit| values.get(bit))
}

/// The CPU of a record, if it has one.
fn cpu_of(record: &RawEventRecord<'_>) -> Option<u32> {
    record.common_data().ok()?.cpu
}

/// The offset of the flags in every tracepoint's data, and those flags that mean an interrupt and not the
/// thread's own code.
const FLAGS_AT: usize = 2;
const IN_INTERRUPT: u8 = 0x08 | 0x10;

/// The thread that a wakeup tracepoint names, and whether an interrupt wakes it.
fn woken(data: &RawData<'_>, tid_at: usize) -> Option<(u32, bool)> {
    let data = data.as_slice();
    let tid = data.get(tid_at..tid_at + 4)?.try_into().ok()?;
    Some((u32::from_ne_bytes(tid), data.get(FLAGS_AT)? & IN_INTERRUPT != 0))
}

/// Most dumps are contiguous in the ring and are read in place; one that wraps around is copied.
fn dump<'a>(sp: u64, stack: RawData<'a>, dyn_size: u64, copy: &'a mut Vec<u8>) -> Dump<'a> {
    let dyn_size = usize::try_from(dyn_size).unwrap_or(usize::MAX);
    let used = stack.len().min(dyn_size);
    let bytes = match stack {
        RawData::Single(bytes) => &bytes[..used],
        RawData::Split(first, second) => {
            copy.clear();
            copy.extend_from_slice(first);
            copy.extend_from_slice(second);
            &copy[..used]
        }
    };
    Dump { sp, bytes, cut: dyn_size >= stack.len() && !bytes.is_empty() }
}

fn mapped(mmap: Mmap2Record<'_>, time_ns: ClockNs) -> Mapped<'_> {
    let mut mapped = Mapped {
        pid: mmap.pid.cast_unsigned(),
        tid: Some(mmap.tid.cast_unsigned()),
        time_ns,
        path: text(&mmap.path),
        device: (0, 0),
        inode: 0,
        generation: 0,
        build_id: None,
        start: RunTimeAddress(mmap.address),
        end: RunTimeAddress(mmap.address.saturating_add(mmap.length)),
        offset: mmap.page_offset,
        executable: mmap.protection & PROT_EXEC != 0,
    };
    match mmap.file_id {
        Mmap2FileId::InodeAndVersion(file) => {
            mapped.device = (file.major, file.minor);
            (mapped.inode, mapped.generation) = (file.inode, file.inode_generation);
        }
        Mmap2FileId::BuildId(build_id) => mapped.build_id = Some(build_id),
    }
    mapped
}

/// A mapping in the older record format. The kernel's own mapping uses it too.
fn mapped_in_old_form<'a>(mmap: &MmapRecord<'a>, time_ns: ClockNs) -> Option<Input<'a>> {
    let path = text(&mmap.path);
    let [start, end] = [mmap.address, mmap.address.saturating_add(mmap.length)].map(RunTimeAddress);
    if mmap.cpu_mode == CpuMode::Kernel || mmap.pid == -1 {
        // `[kernel.kallsyms]_text`: the offset is the address of that symbol.
        let has_text = path.starts_with(KERNEL) && mmap.page_offset != 0;
        return has_text.then_some(Input::KernelMapped(RunTimeAddress(mmap.page_offset), end));
    }
    Some(Input::Mapped(Mapped {
        pid: mmap.pid.cast_unsigned(),
        tid: None,
        time_ns,
        path,
        device: (0, 0),
        inode: 0,
        generation: 0,
        build_id: None,
        start,
        end,
        offset: mmap.page_offset,
        executable: mmap.is_executable,
    }))
}

fn task(pid: i32, tid: i32) -> Task {
    Task { pid: pid.cast_unsigned(), tid: tid.cast_unsigned() }
}

fn text<'a>(bytes: &RawData<'a>) -> Cow<'a, str> {
    match bytes.as_slice() {
        Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux_perf_event_reader::{PerfEventAttr, RecordParseInfo, SampleFormat};
    use whyslow_unwind::Registers;

    const TASK: u64 = 100 | 101 << 32;
    const X86_64: Event =
        Event { metric: MetricId(0), period: 7, processor: Some(Processor::X86_64), role: Role::Counts };
    const FOREIGN: Event = Event { metric: MetricId(1), period: 7, processor: None, role: Role::Counts };
    const KERNEL_MARK: u64 = -128_i64 as u64;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The layout of samples with these parts and the registers ip, sp and bp.
    fn layout(format: SampleFormat) -> RecordParseInfo {
        const REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8;
        const SAMPLE_ID_ALL: u64 = 1 << 18;
        let mut attr = bytes(&[128 << 32, 0, 1000, format.bits(), 0, SAMPLE_ID_ALL, 0, 0, 0, 0, REGISTERS]);
        attr.resize(128, 0);
        let (attr, _) = PerfEventAttr::parse::<_, byteorder::LittleEndian>(attr.as_slice()).unwrap();
        RecordParseInfo::new(&attr, Endianness::LittleEndian)
    }

    fn record(data: RawData<'_>, misc: u16, format: SampleFormat) -> RawEventRecord<'_> {
        RawEventRecord::new(RecordType::SAMPLE, misc, data, layout(format))
    }

    fn sample<'a>(
        reader: &'a mut Reader,
        data: RawData<'a>,
        misc: u16,
        format: SampleFormat,
        event: &Event,
    ) -> Sample<'a> {
        match reader.read(&record(data, misc, format), event) {
            Some(Input::Sample(sample)) => sample,
            other => panic!("{other:?}"),
        }
    }

    const KERNEL_MODE: u16 = 1;
    const USER_MODE: u16 = 2;

    #[test]
    fn joins_a_dump_that_wraps_around_the_ring() {
        let format = SampleFormat::TID | SampleFormat::REGS_USER | SampleFormat::STACK_USER;
        // Task; 64-bit registers bp, sp, ip; size, the stack, how much of it is valid.
        let body = bytes(&[TASK, 2, 0x30, 0x20, 0x10, 24, 1, 2, 3, 16]);
        for at in [0, 50, 60, body.len()] {
            let mut reader = Reader::default();
            let (first, second) = body.split_at(at);
            let sample = sample(&mut reader, RawData::Split(first, second), USER_MODE, format, &X86_64);
            assert_eq!((sample.task, sample.value), (Task { pid: 100, tid: 101 }, 7));
            let UserStack::Dump(registers, dump) = sample.user else { panic!("{:?}", sample.user) };
            assert_eq!(registers, Registers::<whyslow_unwind::X86_64>::new(0x10, 0x20, 0x30).into());
            assert_eq!((dump.sp, dump.bytes, dump.cut), (0x20, &bytes(&[1, 2])[..], false), "at {at}");
        }
    }

    #[test]
    fn uses_the_callchain_for_stacks_of_another_architecture() {
        let format =
            SampleFormat::TID | SampleFormat::CALLCHAIN | SampleFormat::REGS_USER | SampleFormat::STACK_USER;
        let callchain = [5, KERNEL_MARK, 0x50, USER_MARK, 0x10, 0x11];
        let body = bytes(&[&[TASK][..], &callchain, &[2, 0x30, 0x20, 0x10, 8, 1, 8]].concat());
        let mut reader = Reader::default();
        let foreign = sample(&mut reader, RawData::Single(&body), USER_MODE, format, &FOREIGN);
        assert!(matches!(foreign.user, UserStack::Frames([0x10, 0x11])), "{foreign:?}");
        assert_eq!((foreign.kernel, foreign.metric), (&[0x50][..], MetricId(1)));
        let own = sample(&mut reader, RawData::Single(&body), USER_MODE, format, &X86_64);
        assert!(matches!(own.user, UserStack::Dump(_, Dump { cut: true, .. })), "{own:?}");
        assert_eq!((own.kernel, own.metric), (&[0x50][..], MetricId(0)));
    }

    #[test]
    fn assigns_a_lone_address_to_user_or_kernel() {
        let format = SampleFormat::IP | SampleFormat::TID;
        let body = bytes(&[0x77, TASK]);
        let mut reader = Reader::default();
        let user = sample(&mut reader, RawData::Single(&body), USER_MODE, format, &X86_64);
        assert!(matches!(user.user, UserStack::Address(Some(0x77))) && user.kernel.is_empty());
        let kernel = sample(&mut reader, RawData::Single(&body), KERNEL_MODE, format, &X86_64);
        assert!(matches!(kernel.user, UserStack::Address(None)), "{kernel:?}");
        assert_eq!(kernel.kernel, [0x77]);
    }

    /// Without permission for kernel mode, late hardware can still report a kernel address.
    #[test]
    fn a_late_kernel_address_does_not_replace_the_stack() {
        let format =
            SampleFormat::IP | SampleFormat::TID | SampleFormat::REGS_USER | SampleFormat::STACK_USER;
        let body = bytes(&[0x77, TASK, 2, 0x30, 0x20, 0x10, 8, 1, 8]);
        let mut reader = Reader::default();
        let late = sample(&mut reader, RawData::Single(&body), KERNEL_MODE, format, &X86_64);
        assert!(matches!(late.user, UserStack::Dump(..)) && late.kernel.is_empty(), "{late:?}");
    }

    /// Two events of one recording, each with its own layout.
    #[test]
    fn reads_every_event_with_its_own_layout() {
        let clock = SampleFormat::TID | SampleFormat::TIME | SampleFormat::PERIOD;
        let misses = SampleFormat::IP | SampleFormat::TID | SampleFormat::TIME | SampleFormat::CALLCHAIN;
        let mut reader = Reader::default();
        let body = bytes(&[TASK, 5, 1000]);
        let first = sample(&mut reader, RawData::Single(&body), USER_MODE, clock, &X86_64);
        assert_eq!((first.metric, first.time_ns.raw(), first.value), (MetricId(0), 5, 1000));
        let body = bytes(&[0x10, TASK, 6, 2, USER_MARK, 0x10]);
        let second = sample(&mut reader, RawData::Single(&body), USER_MODE, misses, &FOREIGN);
        assert_eq!((second.metric, second.time_ns.raw(), second.value), (MetricId(1), 6, 7));
        assert!(matches!(second.user, UserStack::Frames([0x10])), "{second:?}");
    }

    #[test]
    fn lost_records_have_their_cpu_and_the_time_of_the_next_record() {
        let format = SampleFormat::TID | SampleFormat::TIME | SampleFormat::CPU;
        // Event, count; then task, time, CPU.
        let body = bytes(&[0, 12, TASK, 5000, 3]);
        let record = RawEventRecord::new(RecordType::LOST, 0, RawData::Single(&body), layout(format));
        let read = Reader::default().read(&record, &X86_64).map(|input| match input {
            Input::Lost { records, cpu, time_ns } => (records, cpu, time_ns.raw()),
            other => panic!("{other:?}"),
        });
        assert_eq!(read, Some((12, Some(3), 5000)));
    }

    #[test]
    fn ignores_truncated_records() {
        let format = SampleFormat::TID | SampleFormat::CALLCHAIN;
        let body = bytes(&[TASK, 3, USER_MARK, 0x10]);
        for len in [0, 4, 8, 12, 24] {
            let data = RawData::Single(&body[..len]);
            assert!(Reader::default().read(&record(data, USER_MODE, format), &X86_64).is_none(), "{len}");
        }
    }
}
