//! The header of a perf.data file: events, and perf's facts about the machine.
//!
//! ```text
//! file    = magic, size, attr size, attrs: section, data: section, types: section, features: 256 bits
//! section = offset, size                               all numbers are 64 bits unless said otherwise
//! attrs   = (perf_event_attr, ids: section)*
//! after the data: one section per feature bit that is set, in order
//! pipe    = magic, size = 16, records                  the same facts as separate records
//! ```

use linux_perf_event_reader::{Endianness, PerfEventAttr, RecordParseInfo};
use rustc_hash::FxHashMap;
use whyslow_numbers::ClockNs;
use whyslow_processor::Processor;

use super::super::{Format, ImportError};
use super::fields::Fields;

/// The numbers of features that are read.
pub(super) mod feature {
    pub(crate) const BUILD_ID: u64 = 2;
    pub(crate) const OS_RELEASE: u64 = 4;
    pub(crate) const VERSION: u64 = 5;
    pub(crate) const ARCH: u64 = 6;
    pub(crate) const CPUS: u64 = 7;
    pub(crate) const CPU_DESCRIPTION: u64 = 8;
    pub(crate) const COMMAND_LINE: u64 = 11;
    pub(crate) const EVENT_DESCRIPTION: u64 = 12;
    pub(crate) const CLOCK: u64 = 29;
}

/// An event that was recorded.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) attr: PerfEventAttr,
    pub(super) info: RecordParseInfo,
    pub(super) name: Option<String>,
    /// Whether counter values include the number of lost samples.
    pub(super) counts_lost: bool,
}

/// The attributes of an event, and the one flag of its read format that its parser does not know.
#[derive(Debug)]
struct RequestedEvent {
    attr: PerfEventAttr,
    counts_lost: bool,
}

/// Everything except the records.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) endian: Endianness,
    pub(super) events: Vec<Event>,
    /// Whether the records of all events have their id at the same position.
    pub(super) same_layout: bool,
    /// The event of each id.
    pub(super) ids: FxHashMap<u64, usize>,
    pub(super) facts: Facts,
    /// Where the records are.
    pub(super) data: (usize, usize),
    /// Whether perf was stopped before it wrote the end of the file.
    pub(super) unfinished: bool,
    /// Whether perf wrote to a pipe: there are only records.
    pub(super) is_pipe: bool,
}

/// Perf's facts about the recording.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) os_release: String,
    pub(super) version: String,
    pub(super) arch: String,
    pub(super) cpu: String,
    pub(super) cpus: u32,
    pub(super) command: Vec<String>,
    pub(super) build_ids: FxHashMap<String, String>,
    /// A point in time, in nanoseconds since 1970 and on the clock of the records.
    pub(super) clock: Option<(u64, ClockNs)>,
}

impl Facts {
    /// The processor of the recorded machine; `None` if its stacks cannot be unwound. Only old files do not say which
    /// it was.
    pub(super) fn processor(&self) -> Option<Processor> {
        if self.arch.is_empty() { Some(Processor::X86_64) } else { Processor::of(&self.arch) }
    }
}

pub(super) fn at(offset: usize, what: impl Into<String>) -> ImportError {
    ImportError::at_byte(Format::PerfData, offset as u64, what)
}

impl Header {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, ImportError> {
        let endian = match bytes.get(..8) {
            Some(b"PERFILE2") => Endianness::LittleEndian,
            Some(b"2ELIFREP") => Endianness::BigEndian,
            _ => return Err(at(0, "the file does not start with PERFILE2")),
        };
        let mut fields = Fields::new(bytes, endian);
        fields.skip(8)?;
        let size = fields.u64()?;
        let mut header = Self {
            endian,
            events: Vec::new(),
            same_layout: true,
            ids: FxHashMap::default(),
            facts: Facts::default(),
            data: (16, bytes.len()),
            unfinished: false,
            is_pipe: size == 16,
        };
        if header.is_pipe {
            return Ok(header);
        }
        if size < 104 {
            return Err(at(8, format!("a header of {size} bytes is too short")));
        }
        let attr_size = fields.u64()?;
        let attrs = fields.section("the list of events")?;
        let (data_offset, data_size) = (fields.u64()?, fields.u64()?);
        let _types = (fields.u64()?, fields.u64()?);
        let mut features = Vec::new();
        for word in 0..4 {
            let bits = fields.u64()?;
            features.extend((0..64).filter(|bit| bits >> bit & 1 != 0).map(|bit| word * 64 + bit));
        }
        header.data = data_range(bytes, data_offset, data_size)?;
        header.unfinished = data_size == 0;
        if !header.unfinished {
            header.features(bytes, &features)?;
        }
        header.attrs(bytes, attrs, attr_size)?;
        Ok(header)
    }

    fn features(&mut self, bytes: &[u8], features: &[u64]) -> Result<(), ImportError> {
        let mut table = Fields::new(bytes, self.endian);
        table.skip(self.data.1)?;
        let mut names = Vec::new();
        for &number in features {
            let (start, end) = table.section("a feature")?;
            let content = Fields::part(bytes, start, end, self.endian);
            // An unreadable feature only means that a fact is unknown.
            if number == feature::EVENT_DESCRIPTION {
                names = event_names(content).unwrap_or_default();
            } else {
                let _ = self.facts.feature(number, content);
            }
        }
        for (name, attr, ids) in names {
            self.ids.extend(ids.into_iter().map(|id| (id, self.events.len())));
            self.add_event(attr, Some(name));
        }
        Ok(())
    }

    /// Reads the list of events, unless the feature with their names contained all of them.
    fn attrs(&mut self, bytes: &[u8], section: (usize, usize), attr_size: u64) -> Result<(), ImportError> {
        if !self.events.is_empty() {
            return Ok(());
        }
        let size = usize::try_from(attr_size).unwrap_or(0);
        if !(64 + 16..=4096).contains(&size) {
            return Err(at(16, format!("invalid event size: {attr_size} bytes")));
        }
        for start in (section.0..section.1).step_by(size) {
            if section.1 - start < size {
                return Err(at(start, "the list of events is truncated"));
            }
            let attr = parse_attr(&bytes[start..start + size - 16], self.endian)
                .ok_or_else(|| at(start, "an event is invalid"))?;
            let mut fields = Fields::part(bytes, start + size - 16, start + size, self.endian);
            let (from, to) = fields.section("the ids of an event")?;
            let mut ids = Fields::part(bytes, from, to, self.endian);
            let event = self.events.len();
            while let Ok(id) = ids.u64() {
                self.ids.insert(id, event);
                if self.ids.len() > bytes.len() / 8 {
                    return Err(at(start, "more ids than fit into the file"));
                }
            }
            self.add_event(attr, None);
        }
        Ok(())
    }

    /// Adds an event of a pipe's stream.
    pub(super) fn pipe_event(&mut self, mut fields: Fields<'_>) -> Option<()> {
        let size = {
            let mut peek = fields;
            let _kind = peek.u32().ok()?;
            peek.u32().ok()? as usize
        };
        let attr = parse_attr(fields.bytes(size).ok()?, self.endian)?;
        while let Ok(id) = fields.u64() {
            self.ids.insert(id, self.events.len());
        }
        self.add_event(attr, None);
        Some(())
    }

    /// Reads the name of an event, by id, from a pipe's stream.
    pub(super) fn pipe_name(&mut self, mut fields: Fields<'_>) -> Option<()> {
        const NAME: u64 = 2;
        let (kind, id) = (fields.u64().ok()?, fields.u64().ok()?);
        let event = self.ids.get(&id).copied()?;
        if kind == NAME {
            self.events.get_mut(event)?.name = Some(fields.c_text());
        }
        Some(())
    }

    fn add_event(&mut self, requested: RequestedEvent, name: Option<String>) {
        let RequestedEvent { attr, counts_lost } = requested;
        let info = RecordParseInfo::new(&attr, self.endian);
        let first = self.events.first().map_or(info, |event| event.info);
        self.same_layout &= first.id_parse_info == info.id_parse_info;
        self.events.push(Event { attr, info, name, counts_lost });
    }
}

impl Facts {
    /// Reads one feature.
    pub(super) fn feature(&mut self, number: u64, mut fields: Fields<'_>) -> Result<(), ImportError> {
        match number {
            feature::BUILD_ID => {
                while let Ok((_, misc, size)) = fields.record_header() {
                    let body = fields.take(usize::from(size).saturating_sub(8))?;
                    self.build_id(misc, body);
                }
            }
            feature::OS_RELEASE => self.os_release = fields.text()?,
            feature::VERSION => self.version = fields.text()?,
            feature::ARCH => self.arch = fields.text()?,
            feature::CPU_DESCRIPTION => self.cpu = fields.text()?,
            feature::CPUS => {
                let _available = fields.u32()?;
                self.cpus = fields.u32()?;
            }
            feature::COMMAND_LINE => {
                let words = fields.u32()?;
                self.command.clear();
                for _ in 0..words {
                    self.command.push(fields.text()?);
                }
            }
            feature::CLOCK => {
                let (_version, _clock) = (fields.u32()?, fields.u32()?);
                self.clock = Some((fields.u64()?, ClockNs::new(fields.u64()?)));
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads the body of a build id record.
    pub(super) fn build_id(&mut self, misc: u16, mut fields: Fields<'_>) -> Option<()> {
        const SIZE_IS_SAID: u16 = 1 << 15;
        let _pid = fields.u32().ok()?;
        let id = fields.bytes(24).ok()?;
        let len = if misc & SIZE_IS_SAID != 0 {
            usize::from(id[20]).min(20)
        } else {
            let zeros = id[..20].rchunks(4).take_while(|part| part.iter().all(|byte| *byte == 0));
            20 - 4 * zeros.count()
        };
        let path = fields.c_text();
        let hex = id[..len].iter().map(|byte| format!("{byte:02x}")).collect();
        self.build_ids.insert(path, hex);
        Some(())
    }
}

/// Where the records are. They reach to the end of the file if perf was stopped before it wrote their size.
fn data_range(bytes: &[u8], offset: u64, size: u64) -> Result<(usize, usize), ImportError> {
    let len = bytes.len() as u64;
    let end = if size == 0 { Some(len) } else { offset.checked_add(size) };
    match end {
        Some(end) if offset <= end && end <= len => Ok((offset as usize, end as usize)),
        _ => Err(at(
            bytes.len(),
            format!(
                "the file ends here, but its header claims {size} bytes of records from byte {offset} on"
            ),
        )),
    }
}

type NamedEvent = (String, RequestedEvent, Vec<u64>);

/// The events with their names and ids.
fn event_names(mut fields: Fields<'_>) -> Result<Vec<NamedEvent>, ImportError> {
    let (count, size) = (fields.u32()?, fields.u32()? as usize);
    let mut found = Vec::new();
    for _ in 0..count {
        let attr =
            parse_attr(fields.bytes(size)?, fields.endian).ok_or_else(|| at(0, "an event is invalid"))?;
        let ids = fields.u32()?;
        let name = fields.text()?;
        let mut list = Vec::new();
        for _ in 0..ids {
            list.push(fields.u64()?);
        }
        found.push((name, attr, list));
    }
    Ok(found)
}

/// Reads an event, as far as it is present.
fn parse_attr(bytes: &[u8], endian: Endianness) -> Option<RequestedEvent> {
    const LOST: u64 = 1 << 4;
    let (attr, _) = match endian {
        Endianness::LittleEndian => PerfEventAttr::parse::<_, byteorder::LittleEndian>(bytes),
        Endianness::BigEndian => PerfEventAttr::parse::<_, byteorder::BigEndian>(bytes),
    }
    .ok()?;
    let mut fields = Fields::new(bytes, endian);
    fields.skip(32).ok()?;
    let counts_lost = fields.u64().is_ok_and(|read_format| read_format & LOST != 0);
    Some(RequestedEvent { attr, counts_lost })
}
