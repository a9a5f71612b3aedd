//! Records of system calls, from the tracepoints `raw_syscalls:sys_enter` and `raw_syscalls:sys_exit`.
//!
//! ```text
//! sample = [event: u64], ip: u64, pid: u32, tid: u32, time: u64, raw [, registers and stack]
//! raw    = size: u32, common fields: 8 bytes, number: i64, arguments: 6 × u64 │ result: i64
//! ```

use byteorder::NativeEndian;
use linux_perf_event_reader::{EventRecord, RawData, RawEventRecord, RecordType, SampleFormat};
use whyslow_numbers::ClockNs;
use whyslow_profile::MetricId;

use super::{Event, Reader};
use crate::input::{Enters, Input, Returns, Task};

/// The system call event of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEvent {
    /// Every entry, without its stack.
    Enter,
    /// Every exit.
    Return,
    /// Entries with their stacks: all of them, or some if there are too many.
    EnterWithStack,
}

/// The value before the registers of a 32-bit program.
const ABI_32: u64 = 1;

impl Reader {
    /// Converts a system call record; `None` if it contains nothing useful.
    pub(super) fn read_call<'a>(
        &'a mut self,
        record: &RawEventRecord<'a>,
        event: CallEvent,
    ) -> Option<Input<'a>> {
        if record.record_type != RecordType::SAMPLE {
            return None;
        }
        let mut data = record.data;
        let names_event = record.parse_info.sample_format.contains(SampleFormat::IDENTIFIER);
        data.skip(if names_event { 16 } else { 8 }).ok()?;
        let pid = data.read_u32::<NativeEndian>().ok()?;
        let task = Task { pid, tid: data.read_u32::<NativeEndian>().ok()? };
        let time_ns = ClockNs::new(data.read_u64::<NativeEndian>().ok()?);
        let size = data.read_u32::<NativeEndian>().ok()?;
        let mut raw = data.split_off_prefix(size as usize).ok()?;
        raw.skip(8).ok()?;
        let number = raw.read_u64::<NativeEndian>().ok()?.cast_signed();
        if event == CallEvent::Return {
            let result = raw.read_u64::<NativeEndian>().ok()?.cast_signed();
            return Some(Input::Returns(Returns { task, time_ns, number, result }));
        }
        let arguments = words(&mut raw)?;
        let (mut stack, mut is_32_bit) = (None, false);
        if event == CallEvent::EnterWithStack {
            is_32_bit = data.read_u64::<NativeEndian>().ok()? == ABI_32;
            let Ok(EventRecord::Sample(sample)) = record.parse() else { return None };
            let whole = Event::of_host(MetricId(0), 1, super::Role::Counts);
            stack = Some(self.sample(&sample, &whole)?.user);
        }
        Some(Input::Enters(Enters { task, time_ns, number, arguments, stack, is_32_bit }))
    }
}

fn words(data: &mut RawData<'_>) -> Option<[u64; 6]> {
    let mut words = [0; 6];
    for word in &mut words {
        *word = data.read_u64::<NativeEndian>().ok()?;
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use linux_perf_event_reader::{Endianness, PerfEventAttr, RecordParseInfo};

    use super::*;
    use crate::input::UserStack;

    const TASK: u64 = 100 | 101 << 32;

    fn layout(format: SampleFormat) -> RecordParseInfo {
        const REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8;
        let words = [128 << 32, 0, 1, format.bits(), 0, 0, 0, 0, 0, 0, REGISTERS];
        let mut attr: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect();
        attr.resize(128, 0);
        let (attr, _) = PerfEventAttr::parse::<_, NativeEndian>(attr.as_slice()).unwrap();
        RecordParseInfo::new(&attr, Endianness::NATIVE)
    }

    /// A sample with these words after the common fields, and others after those.
    fn body(words: &[u64], behind: &[u64]) -> Vec<u8> {
        let raw: Vec<u8> = [7].iter().chain(words).flat_map(|word: &u64| word.to_ne_bytes()).collect();
        let mut bytes: Vec<u8> =
            [9, 0x77, TASK, 55].iter().flat_map(|word: &u64| word.to_ne_bytes()).collect();
        bytes.extend((raw.len() as u32 + 4).to_ne_bytes());
        bytes.extend(raw);
        bytes.extend([0; 4]);
        bytes.extend(behind.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn reads_calls_and_their_results() {
        let format = SampleFormat::IDENTIFIER | SampleFormat::IP | SampleFormat::TID | SampleFormat::TIME;
        let format = format | SampleFormat::RAW;
        let mut reader = Reader::default();
        let bytes = body(&[1, 3, 0x5000, 12, 0, 0, 0], &[]);
        let record = RawEventRecord::new(RecordType::SAMPLE, 0, RawData::Single(&bytes), layout(format));
        let Some(Input::Enters(enters)) = reader.read_call(&record, CallEvent::Enter) else { panic!() };
        assert_eq!((enters.task, enters.time_ns.raw(), enters.number), (Task { pid: 100, tid: 101 }, 55, 1));
        assert_eq!((enters.arguments, enters.stack.is_none()), ([3, 0x5000, 12, 0, 0, 0], true));
        let bytes = body(&[1, -2_i64 as u64], &[]);
        let record = RawEventRecord::new(RecordType::SAMPLE, 0, RawData::Single(&bytes), layout(format));
        let Some(Input::Returns(returns)) = reader.read_call(&record, CallEvent::Return) else { panic!() };
        assert_eq!((returns.number, returns.result, returns.time_ns.raw()), (1, -2, 55));
        let format = format | SampleFormat::REGS_USER | SampleFormat::STACK_USER;
        for (abi, is_32_bit) in [(1, true), (2, false)] {
            let bytes = body(&[1, 3, 0, 0, 0, 0, 0], &[abi, 0x30, 0x20, 0x10, 8, 5, 8]);
            for at in [0, 40, 70, 130] {
                let (first, second) = bytes.split_at(at);
                let data = RawData::Split(first, second);
                let record = RawEventRecord::new(RecordType::SAMPLE, 2, data, layout(format));
                let read = reader.read_call(&record, CallEvent::EnterWithStack);
                let Some(Input::Enters(enters)) = read else { panic!("{read:?}") };
                assert_eq!((enters.is_32_bit, enters.arguments[0]), (is_32_bit, 3));
                assert!(matches!(enters.stack, Some(UserStack::Dump(..))), "{enters:?}");
            }
        }
    }

    #[test]
    fn ignores_truncated_records() {
        let format = SampleFormat::IDENTIFIER | SampleFormat::IP | SampleFormat::TID | SampleFormat::TIME;
        let bytes = body(&[1, 3, 0x5000, 12, 0, 0, 0], &[]);
        for len in 0..bytes.len() - 4 {
            let data = RawData::Single(&bytes[..len]);
            let record = RawEventRecord::new(RecordType::SAMPLE, 0, data, layout(format | SampleFormat::RAW));
            assert!(Reader::default().read_call(&record, CallEvent::Enter).is_none(), "{len}");
        }
    }
}
