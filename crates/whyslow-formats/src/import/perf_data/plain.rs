//! Converts samples with counter values or branch records to plain ones with a weight and a callchain.
//!
//! ```text
//! sample  = identifier, ip, tid, time, addr, id, stream id, cpu, period, read, callchain, raw, branches, the rest
//! read    = value, [enabled], [running], [id], [lost]                        of one counter
//!         | count, [enabled], [running], (value, [id], [lost])*              of a group (`-e '{a,b}:S'`)
//! branches = count, [hardware index], (from, to, flags)*                     each newest first
//! ```
//! One sample of a group stands for all its events: each has the growth of its counter since the previous sample as weight.

use linux_perf_event_reader::{BranchSampleFormat, Endianness, ReadFormat, RecordParseInfo, SampleFormat};

use super::fields::Fields;
use super::header::Event;

/// Marks the start of the user part of a callchain.
const USER_MARK: u64 = -512_i64 as u64;

/// The maximum number of events of a group that are read.
const MOST_MEMBERS: u64 = 64;

/// A sample without the parts that the parser rejects.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plain<'a> {
    endian: Endianness,
    info: RecordParseInfo,
    /// Up to the period.
    head: &'a [u8],
    period: Option<u64>,
    callchain: Option<Vec<u64>>,
    tail: Vec<u8>,
    /// The counters and their ids; empty if it has none.
    pub(super) values: Vec<(Option<u64>, u64)>,
}

/// Whether the user's stack is in the branch records (`--call-graph lbr`).
pub(super) fn has_branch_stacks(event: &Event) -> bool {
    event.info.sample_format.contains(SampleFormat::BRANCH_STACK | SampleFormat::CALLCHAIN)
        && event.info.branch_sample_format.contains(BranchSampleFormat::CALL_STACK)
}

/// Whether samples of an event have to be converted.
pub(super) fn is_needed(event: &Event) -> bool {
    event.info.sample_format.contains(SampleFormat::READ) || has_branch_stacks(event)
}

impl<'a> Plain<'a> {
    /// Parses a sample; `None` if it does not match its event.
    pub(super) fn parse(bytes: &'a [u8], event: &Event, kernel_mode: bool) -> Option<Self> {
        let info = event.info;
        let format = info.sample_format;
        let before = SampleFormat::IDENTIFIER
            | SampleFormat::IP
            | SampleFormat::TID
            | SampleFormat::TIME
            | SampleFormat::ADDR
            | SampleFormat::ID
            | SampleFormat::STREAM_ID
            | SampleFormat::CPU;
        let mut fields = Fields::new(bytes, info.endian);
        let head = fields.bytes(8 * format.intersection(before).bits().count_ones() as usize).ok()?;
        let period = if format.contains(SampleFormat::PERIOD) { Some(fields.u64().ok()?) } else { None };
        let mut values = Vec::new();
        if format.contains(SampleFormat::READ) {
            values = counters(&mut fields, info.read_format, event.counts_lost)?;
        }
        let mut plain =
            Self { endian: info.endian, info, head, period, callchain: None, tail: Vec::new(), values };
        if has_branch_stacks(event) {
            let mut callchain = numbers(&mut fields)?;
            if format.contains(SampleFormat::RAW) {
                let mut peek = fields;
                let size = peek.u32().ok()? as usize;
                plain.tail.extend(fields.bytes(size.checked_add(4)?).ok()?);
            }
            let branches = branches(&mut fields, info.branch_sample_format)?;
            let ip = plain.ip().filter(|_| !kernel_mode);
            add_branches(&mut callchain, ip, &branches);
            plain.callchain = Some(callchain);
            plain.info.sample_format.remove(SampleFormat::BRANCH_STACK);
        }
        plain.info.sample_format.remove(SampleFormat::READ);
        plain.tail.extend(fields.rest());
        Some(plain)
    }

    fn ip(&self) -> Option<u64> {
        let format = self.info.sample_format;
        let mut fields = Fields::new(self.head, self.endian);
        if format.contains(SampleFormat::IDENTIFIER) {
            fields.u64().ok()?;
        }
        if format.contains(SampleFormat::IP) { fields.u64().ok() } else { None }
    }

    /// The bytes of the sample with this weight, or its own weight, and how to read them.
    pub(super) fn with_period(&self, period: Option<u64>) -> (Vec<u8>, RecordParseInfo) {
        let mut info = self.info;
        let mut bytes = self.head.to_vec();
        if let Some(period) = period.or(self.period) {
            info.sample_format.insert(SampleFormat::PERIOD);
            bytes.extend(word(period, self.endian));
        }
        if let Some(callchain) = &self.callchain {
            bytes.extend(word(callchain.len() as u64, self.endian));
            bytes.extend(callchain.iter().flat_map(|ip| word(*ip, self.endian)));
        }
        bytes.extend(&self.tail);
        (bytes, info)
    }
}

fn word(value: u64, endian: Endianness) -> [u8; 8] {
    match endian {
        Endianness::LittleEndian => value.to_le_bytes(),
        Endianness::BigEndian => value.to_be_bytes(),
    }
}

fn counters(
    fields: &mut Fields<'_>,
    format: ReadFormat,
    counts_lost: bool,
) -> Option<Vec<(Option<u64>, u64)>> {
    let has = |flag| format.contains(flag);
    let times =
        usize::from(has(ReadFormat::TOTAL_TIME_ENABLED)) + usize::from(has(ReadFormat::TOTAL_TIME_RUNNING));
    let id = |fields: &mut Fields<'_>| {
        let id = if has(ReadFormat::ID) { Some(fields.u64().ok()?) } else { None };
        if counts_lost {
            fields.u64().ok()?;
        }
        Some(id)
    };
    if !has(ReadFormat::GROUP) {
        let value = fields.u64().ok()?;
        fields.skip(8 * times).ok()?;
        return Some(vec![(id(fields)?, value)]);
    }
    let count = fields.u64().ok()?;
    fields.skip(8 * times).ok()?;
    let mut values = Vec::new();
    for _ in 0..Some(count).filter(|count| *count <= MOST_MEMBERS)? {
        let value = fields.u64().ok()?;
        values.push((id(fields)?, value));
    }
    Some(values)
}

/// A count, then that many numbers.
fn numbers(fields: &mut Fields<'_>) -> Option<Vec<u64>> {
    let count = usize::try_from(fields.u64().ok()?).ok()?;
    let mut part = fields.take(count.checked_mul(8)?).ok()?;
    Some(std::iter::from_fn(|| part.u64().ok()).collect())
}

/// The branches as from and to, newest first.
fn branches(fields: &mut Fields<'_>, format: BranchSampleFormat) -> Option<Vec<(u64, u64)>> {
    let count = usize::try_from(fields.u64().ok()?).ok()?;
    if format.contains(BranchSampleFormat::HW_INDEX) {
        fields.u64().ok()?;
    }
    let mut part = fields.take(count.checked_mul(24)?).ok()?;
    Some(
        std::iter::from_fn(|| Some((part.u64().ok()?, part.u64().ok()?, part.u64().ok()?)))
            .map(|row| (row.0, row.1))
            .collect(),
    )
}

/// Replaces the user part of a callchain with the calls in the CPU's branch records.
fn add_branches(callchain: &mut Vec<u64>, ip: Option<u64>, branches: &[(u64, u64)]) {
    let Some(&(_, called)) = branches.first() else { return };
    let kernel = callchain.iter().position(|ip| *ip == USER_MARK).unwrap_or(callchain.len());
    callchain.truncate(kernel);
    callchain.push(USER_MARK);
    // In the kernel, the user's instruction address is unknown, but its function was called last.
    callchain.push(ip.unwrap_or(called));
    // Branch records have the address of the call; callchains have the one after it.
    callchain.extend(branches.iter().map(|(from, _)| from.saturating_add(1)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::perf_data::header::Header;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// An event with these kinds of sample, read format and branches.
    fn event(sample: SampleFormat, read: u64, branches: BranchSampleFormat) -> Event {
        let mut attr = bytes(&[128 << 32, 0, 1000, sample.bits(), read, 0, 0, 0, 0, branches.bits()]);
        attr.resize(128, 0);
        let mut section = bytes(&[0x3245_4c49_4652_4550, 104, 144, 104, 144, 248, 0, 0, 0, 0, 0, 0, 0]);
        section.extend(attr);
        section.extend(bytes(&[0, 0]));
        let mut header = Header::parse(&section).expect("it is a header");
        header.events.remove(0)
    }

    const GROUP: u64 = 1 << 3;
    const ID: u64 = 1 << 2;
    const LOST: u64 = 1 << 4;

    #[test]
    fn counters_of_a_group_are_separated() {
        let format = SampleFormat::IP | SampleFormat::READ | SampleFormat::CALLCHAIN;
        let group = event(format, GROUP | ID | LOST | 1, BranchSampleFormat::empty());
        assert!(is_needed(&group));
        // ip; count, time enabled, (value, id, lost) twice; callchain.
        let sample = bytes(&[0x1000, 2, 77, 500, 11, 0, 9, 12, 0, 1, 0x1000]);
        let plain = Plain::parse(&sample, &group, false).expect("it is whole");
        assert_eq!(plain.values, [(Some(11), 500), (Some(12), 9)]);
        let (plain_bytes, info) = plain.with_period(Some(9));
        assert_eq!(plain_bytes, bytes(&[0x1000, 9, 1, 0x1000]));
        assert_eq!(info.sample_format, SampleFormat::IP | SampleFormat::PERIOD | SampleFormat::CALLCHAIN);
        let single = event(format, ID | LOST, BranchSampleFormat::empty());
        let plain = Plain::parse(&sample[..40], &single, false).expect("it is whole");
        assert_eq!(plain.values, [(Some(77), 2)]);
        for len in 0..72 {
            assert_eq!(Plain::parse(&sample[..len], &group, false), None, "cut at {len}");
        }
        let many = bytes(&[0x1000, u64::MAX, 0]);
        assert_eq!(Plain::parse(&many, &group, false), None);
    }

    #[test]
    fn branch_records_become_the_users_stack() {
        let format = SampleFormat::IP | SampleFormat::CALLCHAIN | SampleFormat::BRANCH_STACK;
        let event = event(format, 0, BranchSampleFormat::CALL_STACK);
        assert!(has_branch_stacks(&event));
        let sample = bytes(&[0x1008, 2, USER_MARK, 0x1008, 2, 0x2004, 0x1000, 0, 0x3004, 0x2000, 0]);
        let (plain, info) = Plain::parse(&sample, &event, false).expect("it is whole").with_period(None);
        assert_eq!(plain, bytes(&[0x1008, 4, USER_MARK, 0x1008, 0x2005, 0x3005]));
        assert_eq!(info.sample_format, SampleFormat::IP | SampleFormat::CALLCHAIN);
        // In the kernel, the kernel part of the callchain comes first.
        let kernel = -128_i64 as u64;
        let sample = bytes(&[0xffff, 2, kernel, 0xffff, 1, 0x2004, 0x1000, 0]);
        let (plain, _) = Plain::parse(&sample, &event, true).expect("it is whole").with_period(None);
        assert_eq!(plain, bytes(&[0xffff, 5, kernel, 0xffff, USER_MARK, 0x1000, 0x2005]));
        // Without any branch, the callchain is what there is.
        let sample = bytes(&[0x1008, 2, USER_MARK, 0x1008, 0]);
        let (plain, _) = Plain::parse(&sample, &event, false).expect("it is whole").with_period(None);
        assert_eq!(plain, bytes(&[0x1008, 2, USER_MARK, 0x1008]));
        let claims = bytes(&[0x1008, u64::MAX / 4, USER_MARK]);
        assert_eq!(Plain::parse(&claims, &event, false), None);
    }
}
