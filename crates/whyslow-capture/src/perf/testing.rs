//! Records as the kernel writes them, for tests.

use linux_perf_event_reader::{RawData, RecordParseInfo, RecordType};
use whyslow_processor::Processor;
use whyslow_unwind::AnyRegisters;

use super::{Bound, Plan, Record};

const COMM_EXEC: u16 = 1 << 13;

/// A record that owns its bytes.
pub(crate) struct TestRecord {
    kind: RecordType,
    misc: u16,
    body: Vec<u8>,
}

fn layout() -> RecordParseInfo {
    let plan = Plan {
        cycles: false,
        precise: 0,
        kernel: false,
        frequency_hz: 1000,
        stack_bytes: 0,
        bound: Bound::Cpu,
    };
    super::events::parse_info(&plan.attr(None)).unwrap()
}

impl TestRecord {
    fn new(kind: RecordType, misc: u16, numbers: &[u32]) -> Self {
        Self { kind, misc, body: numbers.iter().flat_map(|number| number.to_ne_bytes()).collect() }
    }

    fn and(mut self, number: u64) -> Self {
        self.body.extend(number.to_ne_bytes());
        self
    }

    /// Appends the common end of a record: process, thread, time, CPU.
    fn of(self, pid: u32, tid: u32, time: u64) -> Self {
        const CPU: u64 = 3;
        let mut record = self;
        record.body.extend([pid, tid].iter().flat_map(|number| number.to_ne_bytes()));
        record.and(time).and(CPU)
    }

    /// A thread is switched onto a CPU.
    pub(crate) fn switch_in(pid: u32, tid: u32, time: u64) -> Self {
        const UNRELATED: u32 = 7;
        Self::new(RecordType::SWITCH_CPU_WIDE, 0, &[UNRELATED, UNRELATED]).of(pid, tid, time)
    }

    /// A process or thread starts another.
    pub(crate) fn fork(parent: u32, pid: u32, tid: u32, time: u64) -> Self {
        let record = Self::new(RecordType::FORK, 0, &[pid, parent, tid, parent]);
        record.and(time).of(parent, parent, time)
    }

    pub(crate) fn exit(pid: u32, tid: u32, time: u64) -> Self {
        Self::new(RecordType::EXIT, 0, &[pid, 1, tid, 1]).and(time).of(pid, tid, time)
    }

    /// This many records did not fit into the ring.
    pub(crate) fn lost(records: u64, time: u64) -> Self {
        Self::new(RecordType::LOST, 0, &[]).and(0).and(records).of(0, 0, time)
    }

    /// A thread executes a program.
    pub(crate) fn exec(pid: u32, tid: u32, time: u64) -> Self {
        Self::new(RecordType::COMM, COMM_EXEC, &[pid, tid, u32::from_ne_bytes(*b"app\0"), 0])
            .of(pid, tid, time)
    }

    /// A sample in unmapped code: address, thread, time, period, registers, no stack bytes.
    pub(crate) fn sample(pid: u32, tid: u32, time: u64, period: u64) -> Self {
        const IS_64_BIT: u64 = 2;
        let record = Self::new(RecordType::SAMPLE, 0, &[0x1000, 0]);
        let record = record.of(pid, tid, time).and(period).and(IS_64_BIT);
        let registers = AnyRegisters::perf_mask(Processor::HOST).count_ones();
        (0..registers).fold(record, |record, _| record.and(0x1000)).and(0)
    }

    pub(crate) fn record(&self) -> Record<'_> {
        Record::new(self.kind, self.misc, RawData::Single(&self.body), layout())
    }
}
