//! Reads the records of a perf.data file in order of time, in place. Compressed ones are unpacked on the way.
//!
//! perf writes the contents of its ring buffers, one buffer after the other, and ends each round with a
//! marker record. A record can be older than those before it, but not older than the newest record of the
//! round before the previous one.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::rc::Rc;

use linux_perf_event_reader::{
    CpuMode, Endianness, RawData, RawEventRecord, RecordType, get_record_id, get_record_identifier,
    get_record_timestamp,
};
use rustc_hash::FxHashMap;
use zstd::stream::raw::{Decoder, InBuffer, Operation as _, OutBuffer};

use super::super::{ImportError, ImportOptions};
use super::fields::Fields;
use super::header::{Header, at};
use super::plain::{self, Plain};

/// Record types that perf itself writes.
mod kind {
    pub(super) const FIRST: u32 = 64;
    pub(super) const ATTR: u32 = 64;
    pub(super) const TRACING_DATA: u32 = 66;
    pub(super) const BUILD_ID: u32 = 67;
    pub(super) const FINISHED_ROUND: u32 = 68;
    pub(super) const AUXTRACE: u32 = 71;
    pub(super) const EVENT_UPDATE: u32 = 78;
    pub(super) const FEATURE: u32 = 80;
    pub(super) const COMPRESSED: u32 = 81;
    pub(super) const COMPRESSED2: u32 = 83;
}

/// How much is held back for sorting before it is passed on unsorted: rows, and unpacked bytes.
const MOST_PENDING: usize = 1 << 21;
const MOST_UNPACKED_PENDING: usize = 256 << 20;
/// All compressed records together may unpack to this much, and beyond it to this many times the file's
/// length.
const ALWAYS_UNPACKED: u64 = 64 << 20;
const RATIO: u64 = 2000;

/// Receives the records.
pub(super) trait Sink {
    /// A record of the kernel, and the event it belongs to.
    fn record(&mut self, header: &Header, event: usize, record: &RawEventRecord<'_>);
    /// All later records are newer than the ones so far.
    fn end_round(&mut self);
}

/// Counts of skipped records.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// Hardware traces, which are not read.
    pub(super) traces: u64,
    /// Records whose content does not match their header.
    pub(super) broken: u64,
}

struct Pending {
    time: u64,
    /// Rows of the same age remain in the order of the file.
    number: u64,
    kind: u32,
    misc: u16,
    event: usize,
    start: usize,
    end: usize,
    /// The bytes, if they are not in the file.
    block: Option<Rc<[u8]>>,
}

impl PartialEq for Pending {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Pending {}

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The oldest is the greatest: the heap returns it first.
impl Ord for Pending {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.number).cmp(&(self.time, self.number))
    }
}

struct Reader<'a, S> {
    bytes: &'a [u8],
    header: &'a mut Header,
    sink: &'a mut S,
    pending: BinaryHeap<Pending>,
    number: u64,
    unpacked_pending: usize,
    newest: u64,
    /// The newest record of the previous round.
    newest_before: u64,
    unpacker: Option<Decoder<'static>>,
    /// The start of a record that continues in the next compressed record.
    left_over: Vec<u8>,
    unpack_limit: u64,
    /// The last value of each counter, by id.
    counted: FxHashMap<u64, u64>,
    seen: Seen,
}

/// Passes all records to the sink.
pub(super) fn read<S: Sink>(
    bytes: &[u8],
    header: &mut Header,
    options: &ImportOptions,
    sink: &mut S,
) -> Result<Seen, ImportError> {
    let most = (bytes.len() as u64).saturating_mul(RATIO).max(ALWAYS_UNPACKED);
    let mut reader = Reader {
        bytes,
        header,
        sink,
        pending: BinaryHeap::new(),
        number: 0,
        unpacked_pending: 0,
        newest: 0,
        newest_before: 0,
        unpacker: None,
        left_over: Vec::new(),
        unpack_limit: most.min(options.unpacked_limit),
        counted: FxHashMap::default(),
        seen: Seen::default(),
    };
    reader.run()?;
    Ok(reader.seen)
}

impl<S: Sink> Reader<'_, S> {
    fn run(&mut self) -> Result<(), ImportError> {
        let bytes = self.bytes;
        let (mut start, end) = self.header.data;
        while start < end {
            let mut fields = Fields::part(bytes, start, end, self.header.endian);
            let (kind, misc, size) = fields.record_header()?;
            let size = usize::from(size);
            if size < 8 {
                return Err(at(start, format!("invalid record size: {size} bytes")));
            }
            if size > end - start {
                if self.header.unfinished {
                    break;
                }
                // What follows a pipe's last record may be perf's own messages (`2>&1`).
                if self.header.is_pipe && !self.header.events.is_empty() {
                    self.seen.broken += 1;
                    break;
                }
                let there = end - start;
                return Err(at(start, format!("expected a record of {size} bytes, found {there} bytes")));
            }
            let body = fields.take(size - 8)?;
            let mut next = start + size;
            match kind {
                kind::COMPRESSED => self.unpack(body.rest(), start)?,
                kind::COMPRESSED2 => {
                    let mut body = body;
                    let len = usize::try_from(body.u64()?).unwrap_or(usize::MAX);
                    self.unpack(body.bytes(len)?, start)?;
                }
                // The trace follows the record, which contains its length.
                kind::AUXTRACE | kind::TRACING_DATA => {
                    let mut body = body;
                    self.seen.traces += u64::from(kind == kind::AUXTRACE);
                    let len = match kind {
                        kind::AUXTRACE => body.u64()?,
                        _ => u64::from(body.u32()?).next_multiple_of(8),
                    };
                    next = usize::try_from(len)
                        .ok()
                        .and_then(|len| next.checked_add(len))
                        .filter(|next| *next <= end)
                        .ok_or_else(|| {
                            at(start, format!("{len} bytes of trace reach beyond the end of the file"))
                        })?;
                }
                kind::FIRST.. => self.user_record(kind, misc, body),
                _ => self.kernel_record(kind, misc, start + 8, start + size, None),
            }
            start = next;
        }
        self.hand_over(u64::MAX);
        Ok(())
    }

    /// A record from perf, not from the kernel.
    fn user_record(&mut self, kind: u32, misc: u16, mut body: Fields<'_>) {
        // Unknown records of this kind are not needed to read the rest.
        match kind {
            kind::FINISHED_ROUND => {
                self.hand_over(self.newest_before);
                self.newest_before = self.newest;
                self.sink.end_round();
            }
            kind::ATTR => {
                let _ = self.header.pipe_event(body);
            }
            kind::EVENT_UPDATE => {
                let _ = self.header.pipe_name(body);
            }
            kind::BUILD_ID => {
                let _ = self.header.facts.build_id(misc, body);
            }
            kind::FEATURE => {
                if let Ok(number) = body.u64() {
                    let _ = self.header.facts.feature(number, body);
                }
            }
            _ => {}
        }
    }

    fn kernel_record(&mut self, kind: u32, misc: u16, start: usize, end: usize, block: Option<Rc<[u8]>>) {
        let bytes = block.as_deref().unwrap_or(self.bytes).get(start..end).unwrap_or_default();
        let record_type = RecordType(kind);
        let Some((event, time)) = self.event_and_time(record_type, bytes) else { return };
        // A record without a time is as old as its neighbours.
        let time = time.unwrap_or(if self.pending.is_empty() { 0 } else { self.newest });
        self.newest = self.newest.max(time);
        self.number += 1;
        self.pending.push(Pending { time, number: self.number, kind, misc, event, start, end, block });
        if self.pending.len() >= MOST_PENDING || self.unpacked_pending >= MOST_UNPACKED_PENDING {
            self.hand_over(u64::MAX);
        }
    }

    fn event_and_time(&self, record_type: RecordType, bytes: &[u8]) -> Option<(usize, Option<u64>)> {
        match self.header.endian {
            Endianness::LittleEndian => self.event_and_time_in::<byteorder::LittleEndian>(record_type, bytes),
            Endianness::BigEndian => self.event_and_time_in::<byteorder::BigEndian>(record_type, bytes),
        }
    }

    fn event_and_time_in<T: byteorder::ByteOrder>(
        &self,
        record_type: RecordType,
        bytes: &[u8],
    ) -> Option<(usize, Option<u64>)> {
        let data = RawData::Single(bytes);
        let events = &self.header.events;
        let first = &events.first()?.info;
        let id = if events.len() == 1 {
            None
        } else if self.header.same_layout {
            get_record_id::<T>(record_type, data, &first.id_parse_info)
        } else {
            // Events with different layouts have their id at the start and at the end.
            get_record_identifier::<T>(record_type, data, first.common_data_offset_from_end.is_some())
        };
        let event = id.and_then(|id| self.header.ids.get(&id).copied()).filter(|at| *at < events.len());
        let event = event.unwrap_or(0);
        Some((event, get_record_timestamp::<T>(record_type, data, &events[event].info)))
    }

    /// Passes on the records up to a time.
    fn hand_over(&mut self, until: u64) {
        while self.pending.peek().is_some_and(|row| row.time <= until) {
            let Some(row) = self.pending.pop() else { break };
            let bytes = row.block.as_deref().unwrap_or(self.bytes).get(row.start..row.end);
            let (Some(bytes), Some(event)) = (bytes, self.header.events.get(row.event)) else { continue };
            if row.block.is_some() {
                self.unpacked_pending -= bytes.len().min(self.unpacked_pending);
            }
            let kind = RecordType(row.kind);
            if kind == RecordType::SAMPLE && plain::is_needed(event) {
                let kernel = CpuMode::from_misc(row.misc) == CpuMode::Kernel;
                match Plain::parse(bytes, event, kernel) {
                    Some(sample) => self.counted_sample(&row, &sample),
                    None => self.seen.broken += 1,
                }
                continue;
            }
            if !super::check::is_sound(row.kind, row.misc, bytes, &event.info) {
                self.seen.broken += 1;
                continue;
            }
            let record = RawEventRecord::new(kind, row.misc, RawData::Single(bytes), event.info);
            self.sink.record(self.header, row.event, &record);
        }
    }

    /// Passes on a sample once for each of its counters, with the counter's growth.
    fn counted_sample(&mut self, row: &Pending, sample: &Plain<'_>) {
        let mut members: Vec<(usize, Option<u64>)> = Vec::new();
        for &(id, value) in &sample.values {
            let Some((id, &event)) = id.and_then(|id| Some((id, self.header.ids.get(&id)?))) else {
                continue;
            };
            let before = self.counted.insert(id, value).unwrap_or(0);
            members.push((event, Some(value.saturating_sub(before))));
        }
        if members.is_empty() {
            // A counter without an id, or no counter.
            members.push((row.event, None));
        }
        for (event, grown) in members.into_iter().filter(|(_, grown)| *grown != Some(0)) {
            let (bytes, info) = sample.with_period(grown);
            if super::check::is_sound(row.kind, row.misc, &bytes, &info) {
                let data = RawData::Single(&bytes);
                let record = RawEventRecord::new(RecordType(row.kind), row.misc, data, info);
                self.sink.record(self.header, event, &record);
            } else {
                self.seen.broken += 1;
            }
        }
    }

    /// Unpacks a part of the stream and reads the complete records in it.
    fn unpack(&mut self, packed: &[u8], offset: usize) -> Result<(), ImportError> {
        let broken = |error: std::io::Error| at(offset, format!("the compressed data is broken: {error}"));
        let unpacker = match &mut self.unpacker {
            Some(unpacker) => unpacker,
            none => none.insert(Decoder::new().map_err(broken)?),
        };
        let mut block = std::mem::take(&mut self.left_over);
        let mut part = vec![0; 256 << 10];
        let mut input = InBuffer::around(packed);
        loop {
            let mut output = OutBuffer::around(&mut part[..]);
            unpacker.run(&mut input, &mut output).map_err(broken)?;
            let written = output.pos();
            block.extend_from_slice(&part[..written]);
            let left = self.unpack_limit.checked_sub(written as u64);
            self.unpack_limit = left.ok_or_else(|| ImportError::TooLarge {
                what: "the compressed records unpack to more than a recording can hold".to_owned(),
            })?;
            if input.pos() >= packed.len() && written < part.len() {
                break;
            }
        }
        let block: Rc<[u8]> = block.into();
        let mut start = 0;
        loop {
            let mut fields = Fields::part(&block, start, block.len(), self.header.endian);
            let Ok((kind, misc, size)) = fields.record_header() else { break };
            let size = usize::from(size);
            if size < 8 {
                return Err(at(offset, format!("invalid size of a compressed record: {size} bytes")));
            }
            if size > block.len() - start {
                break;
            }
            if kind < kind::FIRST {
                self.unpacked_pending += size - 8;
                self.kernel_record(kind, misc, start + 8, start + size, Some(Rc::clone(&block)));
            } else if let Ok(body) = fields.take(size - 8) {
                self.user_record(kind, misc, body);
            }
            start += size;
        }
        self.left_over = block.get(start..).unwrap_or_default().to_vec();
        Ok(())
    }
}
