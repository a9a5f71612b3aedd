//! Which event a record in a ring belongs to, and how the records of each event are laid out.

use linux_perf_event_reader::{RawData, RawEventRecord, RecordParseInfo, RecordType};
use rustc_hash::FxHashMap;

use super::Record;

/// The record layouts of a recording's events. With a single event, records do not contain its id. With
/// several, samples begin with the kernel's id of the event and all other records end with it.
#[derive(Debug)]
pub(crate) struct Layouts {
    rows: Vec<RecordParseInfo>,
    by_id: FxHashMap<u64, usize>,
}

impl Layouts {
    /// The layouts of several events, each with the kernel's ids: one per CPU and thread.
    pub(crate) fn several(events: Vec<(RecordParseInfo, Vec<u64>)>) -> Self {
        let by_id =
            events.iter().enumerate().flat_map(|(row, (_, ids))| ids.iter().map(move |id| (*id, row)));
        let by_id = by_id.collect();
        Self { rows: events.into_iter().map(|(layout, _)| layout).collect(), by_id }
    }

    /// A record, read with the layout of its event.
    pub(super) fn record<'a>(&self, kind: RecordType, misc: u16, body: RawData<'a>) -> Record<'a> {
        let record = RawEventRecord::new(kind, misc, body, self.rows[0]);
        match self.event(&record) {
            0 => record,
            row => RawEventRecord::new(kind, misc, body, self.rows[row]),
        }
    }

    /// The number of a record's event, in the order in which the events were given. A record without a known
    /// id belongs to the first.
    pub(crate) fn event(&self, record: &Record<'_>) -> usize {
        if self.rows.len() == 1 {
            return 0;
        }
        // All layouts have the id at the same offset.
        record.id().and_then(|id| self.by_id.get(&id)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use linux_perf_event_reader::{Endianness, PerfEventAttr, SampleFormat};

    use super::*;

    /// Every record contains its time and its event.
    const SAMPLE_ID_ALL: u64 = 1 << 18;

    /// The layout of samples with these parts.
    pub(in super::super) fn layout(format: SampleFormat) -> RecordParseInfo {
        let words = [128 << 32, 0, 1000, format.bits(), 0, SAMPLE_ID_ALL];
        let mut attr: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect();
        attr.resize(128, 0);
        let (attr, _) = PerfEventAttr::parse::<_, byteorder::NativeEndian>(attr.as_slice()).unwrap();
        RecordParseInfo::new(&attr, Endianness::NATIVE)
    }

    #[test]
    fn a_record_without_a_known_id_belongs_to_the_first_event() {
        let format = SampleFormat::IDENTIFIER | SampleFormat::TID | SampleFormat::TIME;
        let layouts = Layouts::several(vec![(layout(format), vec![1]), (layout(format), vec![2])]);
        for (id, event) in [(1u64, 0), (2, 1), (3, 0)] {
            let body = [id, 0, 0].map(u64::to_ne_bytes).concat();
            let record = layouts.record(RecordType::SAMPLE, 0, RawData::Single(&body));
            assert_eq!(layouts.event(&record), event, "{id}");
        }
    }
}
