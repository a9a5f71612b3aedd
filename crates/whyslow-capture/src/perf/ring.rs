//! The ring buffers that the kernel writes records into, and reading several of them in time order.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use linux_perf_event_reader::{RawData, RawEventRecord, RecordType};
use perf_event_open_sys::bindings::perf_event_mmap_page;
use rustix::mm::{MapFlags, ProtFlags};
use whyslow_numbers::ClockNs;

use super::layouts::Layouts;
use crate::arch;

/// A record in a ring.
pub(crate) type Record<'a> = RawEventRecord<'a>;

const HEADER: usize = 8;

/// The bytes that a rationed ring releases per drain, every 5 ms: 25,000 stacks of 8 KB per second. Each
/// costs the program about 2 µs, and the recorder as much again. An unused ration is not lost: a full ring, a
/// thousand stacks, is available at once.
const RATION: u64 = 1 << 20;

/// One ring: a page of positions, then the data.
#[derive(Debug)]
pub(crate) struct Ring {
    map: NonNull<u8>,
    map_len: usize,
    page: usize,
    /// The kernel's position at the start of this round; data before it is complete.
    head: u64,
    /// The reader's position.
    tail: u64,
    /// The position up to which a rationed ring was released.
    rationed: Option<u64>,
}

#[expect(
    unsafe_code,
    reason = "shared memory with the kernel is reached through raw pointers, only in this file"
)]
impl Ring {
    /// Maps the ring of an event. `data_len` is a power of two of pages.
    pub(crate) fn map(event: BorrowedFd<'_>, data_len: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let map_len = page + data_len;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice; nothing else refers to it.
        let map = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), map_len, protection, MapFlags::SHARED, event, 0)
        }?;
        let map = NonNull::new(map.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self { map, map_len, page, head: 0, tail: 0, rationed: None })
    }

    fn positions(&self) -> (&AtomicU64, &AtomicU64) {
        let page = self.map.as_ptr().cast::<perf_event_mmap_page>();
        // SAFETY: the first page of the mapping is a `perf_event_mmap_page` and lives as long as `self`. Both
        // fields are aligned 64-bit words that the kernel and this process access only as a whole.
        unsafe {
            (AtomicU64::from_ptr(&raw mut (*page).data_head), AtomicU64::from_ptr(&raw mut (*page).data_tail))
        }
    }

    /// The same ring, released in rations.
    pub(crate) fn in_rations(mut self) -> Self {
        self.rationed = Some(0);
        self
    }

    /// Reads how far the kernel has written.
    fn refresh(&mut self) {
        if let Some(rationed) = &mut self.rationed {
            *rationed = rationed.saturating_add(RATION).min(self.tail);
            let given_back = *rationed;
            self.positions().1.store(given_back, Ordering::Release);
        }
        self.head = self.positions().0.load(Ordering::Acquire);
    }

    /// Releases everything before the reader's position to the kernel.
    fn release(&self) {
        if self.rationed.is_some() {
            return;
        }
        self.positions().1.store(self.tail, Ordering::Release);
    }

    /// Prefetches the beginning of the record after the next `skip` bytes: another CPU wrote it, or it was
    /// written long ago, and reading it would stall on memory.
    fn fetch_ahead(&self, skip: u64) {
        /// Header, process, time, registers, and the innermost bytes of the stack.
        const LINES: usize = 6;
        const LINE: usize = 64;
        let size = self.map_len - self.page;
        for line in 0..LINES {
            let at = (self.tail as usize).wrapping_add(skip as usize + line * LINE) & (size - 1);
            // SAFETY: the place is inside the data area, whose length is `size`. It is not read: the kernel may be writing there.
            arch::fetch(unsafe { self.map.as_ptr().add(self.page + at) });
        }
    }

    /// `len` bytes from the reader's position, in two parts if they wrap around.
    fn data(&self, skip: usize, len: usize) -> RawData<'_> {
        let size = self.map_len - self.page;
        let start = (self.tail as usize).wrapping_add(skip) & (size - 1);
        let first = len.min(size - start);
        // SAFETY: both parts lie inside the data area, whose length is `size`. The kernel does not write
        // between the reader's position and `head` until they are released, which needs `&mut self` to move
        // on first.
        unsafe {
            let data = self.map.as_ptr().add(self.page);
            let head = std::slice::from_raw_parts(data.add(start), first);
            if first == len {
                return RawData::Single(head);
            }
            RawData::Split(head, std::slice::from_raw_parts(data, len - first))
        }
    }
}

impl Ring {
    /// The next complete record, if there is one.
    fn peek(&self, layouts: &Layouts) -> Option<(Record<'_>, u64)> {
        let available = self.head.wrapping_sub(self.tail);
        if available < HEADER as u64 {
            return None;
        }
        // Records begin at multiples of eight bytes, so no header wraps around.
        let RawData::Single(&[k0, k1, k2, k3, m0, m1, s0, s1]) = self.data(0, HEADER) else { return None };
        let kind = u32::from_ne_bytes([k0, k1, k2, k3]);
        let (misc, size) = (u16::from_ne_bytes([m0, m1]), u16::from_ne_bytes([s0, s1]));
        // The kernel never writes a record without a header; a smaller size would loop forever.
        let size = u64::from(size).max(HEADER as u64);
        if size > available {
            return None;
        }
        let body = self.data(HEADER, size as usize - HEADER);
        Some((layouts.record(RecordType(kind), misc, body), size))
    }
}

#[expect(unsafe_code, reason = "the mapping is given back")]
impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length, and no reference into it outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.map.as_ptr().cast(), self.map_len) };
    }
}

/// Reads several rings in time order.
#[derive(Debug, Default)]
pub(crate) struct Merge {
    rings: Vec<Ring>,
    next_time: Vec<Option<ClockNs>>,
}

impl Merge {
    pub(crate) fn new(rings: Vec<Ring>) -> Self {
        Self { next_time: vec![None; rings.len()], rings }
    }

    /// Hands over all records up to a time, oldest first. Later ones remain in the ring: another ring may
    /// still get an older one.
    pub(crate) fn drain(
        &mut self,
        until: ClockNs,
        layouts: &Layouts,
        mut take: impl FnMut(&Record<'_>),
    ) -> u64 {
        for (ring, next) in self.rings.iter_mut().zip(&mut self.next_time) {
            ring.refresh();
            *next = next_time(ring, layouts);
        }
        let mut records = 0;
        loop {
            let oldest = self.next_time.iter().enumerate();
            let oldest = oldest.filter_map(|(at, time)| time.map(|time| (time, at))).min();
            let Some((_, at)) = oldest.filter(|(time, _)| *time <= until) else { return records };
            let ring = &mut self.rings[at];
            let size = match ring.peek(layouts) {
                Some((record, size)) => {
                    ring.fetch_ahead(size);
                    take(&record);
                    size
                }
                None => return records,
            };
            ring.tail = ring.tail.wrapping_add(size);
            ring.release();
            self.next_time[at] = next_time(ring, layouts);
            records += 1;
        }
    }
}

/// The time of a ring's next record; records without one come first.
fn next_time(ring: &Ring, layouts: &Layouts) -> Option<ClockNs> {
    ring.peek(layouts).map(|(record, _)| ClockNs::new(record.timestamp().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::FileExt as _;

    use linux_perf_event_reader::SampleFormat;

    use super::super::layouts::tests::layout;
    use super::*;

    const DATA: usize = 4096;
    /// The offset of the kernel's position in the first page.
    const DATA_HEAD: u64 = 1024;

    /// A ring with records as the kernel writes them, from kinds and words.
    fn ring(records: &[(RecordType, &[u64])]) -> Ring {
        let file: File = tempfile::tempfile().unwrap();
        let page = rustix::param::page_size() as u64;
        file.set_len(page + DATA as u64).unwrap();
        let mut bytes = Vec::new();
        for (kind, words) in records {
            bytes.extend(kind.0.to_ne_bytes());
            bytes.extend(0u16.to_ne_bytes());
            bytes.extend((HEADER as u16 + 8 * words.len() as u16).to_ne_bytes());
            bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        }
        file.write_all_at(&bytes, page).unwrap();
        file.write_all_at(&(bytes.len() as u64).to_ne_bytes(), DATA_HEAD).unwrap();
        Ring::map(file.as_fd(), DATA).unwrap()
    }

    /// The clock's samples have a period. Those of the other event have an address first and no period. Both
    /// events write into both rings.
    #[test]
    fn reads_records_of_several_events_in_time_order_with_their_own_layouts() {
        const CLOCK: u64 = 7;
        const SWITCH: u64 = 9;
        const TASK: u64 = 5 | 6 << 32;
        let base = SampleFormat::IDENTIFIER | SampleFormat::TID | SampleFormat::TIME;
        let layouts = Layouts::several(vec![
            (layout(base | SampleFormat::PERIOD), vec![CLOCK, CLOCK + 100]),
            (layout(base | SampleFormat::IP), vec![SWITCH]),
        ]);
        let first = ring(&[
            (RecordType::SAMPLE, &[CLOCK, TASK, 10, 1000]),
            (RecordType::SAMPLE, &[SWITCH, 0x77, TASK, 30]),
        ]);
        let second = ring(&[
            (RecordType::SAMPLE, &[SWITCH, 0x66, TASK, 20]),
            // An exit: process, parent, threads, time; then task, time and event.
            (RecordType::EXIT, &[5 | 1 << 32, 6 | 1 << 32, 35, TASK, 35, CLOCK + 100]),
            (RecordType::SAMPLE, &[CLOCK + 100, TASK, 40, 2000]),
        ]);
        let mut seen = Vec::new();
        let records = Merge::new(vec![first, second]).drain(ClockNs::new(35), &layouts, |record| {
            let time = record.timestamp();
            match record.parse() {
                Ok(linux_perf_event_reader::EventRecord::Sample(sample)) => {
                    seen.push((layouts.event(record), time, sample.ip, sample.period));
                }
                Ok(_) => seen.push((layouts.event(record), time, None, None)),
                Err(error) => panic!("{error}"),
            }
        });
        assert_eq!(records, 4, "the last one is later");
        let expected = [
            (0, Some(10), None, Some(1000)),
            (1, Some(20), Some(0x66), None),
            (1, Some(30), Some(0x77), None),
            (0, Some(35), None, None),
        ];
        assert_eq!(seen, expected);
    }
}
