//! Imports perf.data: the output of `perf record`, as a file or a pipe.
//!
//! Stacks are unwound here, from the registers and stack bytes of `--call-graph dwarf`. Other recordings have
//! the kernel's callchains. Names are looked up afterwards, as for whyslow's own recordings.

mod check;
mod fields;
mod header;
mod plain;
mod records;
mod world;

use std::path::PathBuf;

use linux_perf_event_reader::{
    AttrFlags, PerfEventType, RawEventRecord, RecordType, SampleFormat, SamplingPolicy, SoftwareCounterType,
};
use rustc_hash::{FxHashMap, FxHashSet};
use whyslow_convert::{Converter, Input, Limits, Setup, perf};
use whyslow_numbers::ClockNs;
use whyslow_profile::{
    Builder, ImportNote, KernelView, Meta, Metric, MetricId, ModuleId, Note, Profile, Sampler, Unit,
};

use super::assemble::{check_sums, drop_empty_metrics};
use super::{Format, ImportError, ImportOptions, Imported, perf_event};
use header::{Event, Header};
use records::{Seen, Sink};
use world::RecordedWorld;

pub(super) fn looks_like(start: &[u8]) -> bool {
    start.starts_with(b"PERFILE2") || start.starts_with(b"2ELIFREP")
}

pub(super) fn read(bytes: &[u8], options: &ImportOptions) -> Result<Imported, ImportError> {
    let mut header = Header::parse(bytes)?;
    let mut conversion = Conversion { copies: options.copies.clone(), ..Conversion::default() };
    let seen = records::read(bytes, &mut header, options, &mut conversion)?;
    if header.events.is_empty() {
        return Err(ImportError::unusable(Format::PerfData, "the recorded events are missing"));
    }
    conversion.finish(&header, seen)
}

/// Passes records to the converter.
#[derive(Default)]
struct Conversion {
    /// Where copies of the recorded files are.
    copies: Option<PathBuf>,
    /// Created with the first record: in a pipe, facts about the machine precede it.
    converter: Option<Converter<RecordedWorld>>,
    reader: perf::Reader,
    /// Each event, with its metric.
    events: Vec<perf::Event>,
    by_name: FxHashMap<String, MetricId>,
    known_build_ids: usize,
    /// Whether a record had a time.
    started: bool,
    last: ClockNs,
    samples: u64,
}

impl Sink for Conversion {
    fn record(&mut self, header: &Header, event: usize, record: &RawEventRecord<'_>) {
        let facts = &header.facts;
        let converter = self.converter.get_or_insert_with(|| {
            let world = RecordedWorld::new(facts, self.copies.clone());
            let setup = Setup { limits: Limits::OF_A_FILE, ..Setup::default() };
            let processor = facts.processor().unwrap_or(setup.processor);
            Converter::new(world, Builder::new(), &Setup { processor, ..setup })
        });
        if self.known_build_ids != facts.build_ids.len() {
            self.known_build_ids = facts.build_ids.len();
            let build_ids = facts.build_ids.iter().map(|(path, id)| (path.clone(), id.clone()));
            converter.world_mut().build_ids.extend(build_ids);
        }
        while self.events.len() < header.events.len() {
            let event = &header.events[self.events.len()];
            let metric = metric_of(event, converter.rows_mut(), &mut self.by_name);
            self.events.push(perf::Event {
                metric,
                period: period_of(event),
                processor: facts.processor(),
                role: perf::Role::Counts,
            });
        }
        let Some(event) = self.events.get(event) else { return };
        let time = ClockNs::new(record.timestamp().unwrap_or(0));
        self.last = self.last.max(time);
        self.samples += u64::from(record.record_type == RecordType::SAMPLE);
        // The first time is the start of the recording.
        if time > ClockNs::MIN && !self.started {
            self.started = true;
            converter.take(&Input::Begins { time_ns: time });
        }
        if let Some(input) = self.reader.read(record, event) {
            converter.take(&input);
        }
    }

    fn end_round(&mut self) {
        if let Some(converter) = &mut self.converter {
            converter.begin_drain();
        }
    }
}

/// The metric of an event: clocks measure time, everything else counts. Events that give no samples share one.
fn metric_of(event: &Event, builder: &mut Builder, known: &mut FxHashMap<String, MetricId>) -> MetricId {
    let own = event.name.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| kind_of(event));
    let (name, unit) = match event.attr.type_ {
        PerfEventType::Software(SoftwareCounterType::CpuClock | SoftwareCounterType::TaskClock) => {
            let taken = known.contains_key(Metric::CPU_TIME);
            (if taken { own } else { Metric::CPU_TIME.to_owned() }, Unit::Nanoseconds)
        }
        PerfEventType::Software(SoftwareCounterType::Dummy) if !known.is_empty() => {
            return known.values().copied().min().unwrap_or(MetricId(0));
        }
        _ => (own, Unit::Count),
    };
    let rate_hz = match event.attr.sampling_policy {
        SamplingPolicy::Frequency(hz) => u32::try_from(hz).unwrap_or(0),
        SamplingPolicy::Period(_) | SamplingPolicy::NoSampling => 0,
    };
    let sampler = Sampler { rate_hz, ..Sampler::default() };
    *known.entry(name).or_insert_with_key(|name| builder.metric(perf_event::metric(name, unit, sampler)))
}

/// The name of an event that perf did not name.
fn kind_of(event: &Event) -> String {
    match event.attr.type_ {
        PerfEventType::Hardware(id, _) => words(&format!("{id:?}")),
        PerfEventType::Software(id) => words(&format!("{id:?}")),
        PerfEventType::HwCache(id, ..) => format!("cache {}", words(&format!("{id:?}"))),
        PerfEventType::Tracepoint(id) => format!("tracepoint {id}"),
        PerfEventType::Breakpoint(..) => "breakpoints".to_owned(),
        PerfEventType::DynamicPmu(unit, config, ..) => format!("event {unit}/{config:#x}"),
    }
}

/// `CpuCycles` becomes `cpu-cycles`.
fn words(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !text.is_empty() {
            text.push('-');
        }
        text.extend(c.to_lowercase());
    }
    text
}

/// The weight of a sample that has none.
fn period_of(event: &Event) -> u64 {
    match event.attr.sampling_policy {
        SamplingPolicy::Period(period) => period.get(),
        SamplingPolicy::Frequency(_) | SamplingPolicy::NoSampling => 1,
    }
}

impl Conversion {
    fn finish(self, header: &Header, seen: Seen) -> Result<Imported, ImportError> {
        let empty = || ImportError::unusable(Format::PerfData, "no records");
        let mut converter = self.converter.ok_or_else(empty)?;
        let start = converter.start();
        let mut meta = meta(header, &converter);
        meta.duration_ns = start.since(self.last).0;
        if let Some((wall, clock)) = header.facts.clock {
            meta.started_unix_ns = wall.saturating_add(start.time().raw()).saturating_sub(clock.raw());
        }
        let too_large = || ImportError::TooLarge { what: "too many rows".to_owned() };
        let rows = std::mem::take(converter.rows_mut());
        let mut profile = rows.into_profile(meta).ok_or_else(too_large)?;
        drop_empty_metrics(&mut profile);
        check_sums(&profile)?;
        keep_seen(&mut converter.world_mut().changed, &profile);
        keep_seen(&mut converter.world_mut().unproven, &profile);
        let notes = notes(header, &converter, seen, self.samples);
        profile.meta.notes = notes.into_iter().map(Note::from).collect();
        Ok(Imported { profile, left_out: seen.broken + converter.idle_samples() })
    }
}

/// Removes the files that are on no stack.
fn keep_seen(paths: &mut Vec<String>, profile: &Profile) {
    let modules: FxHashSet<ModuleId> = profile.locations.module.iter().flatten().copied().collect();
    let seen = modules.iter().filter_map(|module| profile.modules.get(module.index()));
    let seen: FxHashSet<&str> = seen.map(|module| profile.text(module.path)).collect();
    paths.retain(|path| seen.contains(path.as_str()));
    paths.sort();
    paths.dedup();
}

fn meta(header: &Header, converter: &Converter<RecordedWorld>) -> Meta {
    let facts = &header.facts;
    let mut meta = Meta { counters: converter.counters().clone(), ..Meta::default() };
    let version = if facts.version.is_empty() { String::new() } else { format!(" {}", facts.version) };
    meta.recorder = format!("perf{version}");
    meta.imported_from = Some("perf record".to_owned());
    // The program follows `--`. Without it, the program's options cannot be distinguished from perf's.
    meta.command = match facts.command.iter().position(|word| word == "--") {
        Some(at) => facts.command[at + 1..].to_vec(),
        None => facts.command.clone(),
    };
    if !facts.os_release.is_empty() {
        meta.host.os = format!("Linux {}", facts.os_release);
    }
    meta.host.arch.clone_from(&facts.arch);
    meta.host.cpu.clone_from(&facts.cpu);
    meta.host.cpus = facts.cpus;
    let hidden = header.events.iter().all(|event| event.attr.flags.contains(AttrFlags::EXCLUDE_KERNEL));
    meta.kernel = match (hidden, converter.world().same_kernel) {
        (true, _) => KernelView::Hidden,
        (false, true) => KernelView::Included,
        (false, false) => KernelView::Unnamed,
    };
    meta
}

/// Notes for the user.
fn notes(header: &Header, converter: &Converter<RecordedWorld>, seen: Seen, samples: u64) -> Vec<ImportNote> {
    let mut notes = Vec::new();
    let foreign = header.facts.processor().is_none();
    let dumps = header.events.iter().any(|event| event.attr.sample_format.contains(SampleFormat::STACK_USER));
    if header.unfinished {
        notes.push(ImportNote::PerfUnfinished);
    }
    if dumps && foreign {
        notes.push(ImportNote::ForeignStackBytes { arch: header.facts.arch.clone() });
    }
    let branches = header.events.iter().any(plain::has_branch_stacks);
    if branches && samples > 0 {
        notes.push(ImportNote::LbrStacks);
    } else if !dumps && converter.without_stack() == samples && samples > 0 {
        notes.push(ImportNote::NoCallStacks);
    } else if !dumps && samples > 0 {
        notes.push(ImportNote::KernelCallchains);
    }
    if converter.counters().truncated > 0 {
        notes.push(ImportNote::BeyondCopiedBytes { stacks: converter.counters().truncated, of: samples });
    }
    if let [file, more @ ..] = &converter.world().changed[..] {
        notes.push(ImportNote::ChangedFiles { file: file.clone(), more: more.len() as u64 });
    }
    if let [file, more @ ..] = &converter.world().unproven[..] {
        notes.push(ImportNote::UnprovenFiles { file: file.clone(), more: more.len() as u64 });
    }
    let kernel = header.events.iter().any(|event| !event.attr.flags.contains(AttrFlags::EXCLUDE_KERNEL));
    if kernel && !converter.world().same_kernel {
        notes.push(ImportNote::OtherKernel);
    }
    if converter.idle_samples() > 0 {
        notes.push(ImportNote::IdleCpus { samples: converter.idle_samples() });
    }
    if seen.traces > 0 {
        notes.push(ImportNote::HardwareTraces);
    }
    if seen.broken > 0 {
        notes.push(ImportNote::UnknownRecords { records: seen.broken });
    }
    notes
}
