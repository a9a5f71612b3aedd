//! Writes profiles: streamed from a builder while recording, or a whole profile at once.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use super::chunk::{self, Encoder, Kind};
use super::{HEADER_LEN, MAGIC, VERSION, causal, heap, syscalls, tables, targets, waits};
use crate::builder::Builder;
use crate::ids::{LocationId, MetricId};
use crate::{CounterValues, Heap, Meta, Profile, Samples, Trigger, WaitDetails};

/// Tables are split into chunks after this many rows, or this many bytes of text or code.
const ROWS_PER_CHUNK: usize = 250_000;
const BYTES_PER_CHUNK: usize = 4 << 20;

/// Appends chunks to a file. Appended chunks remain readable whatever happens later: an append that fails
/// (disk full) leaves the file unchanged, and can be retried.
#[derive(Debug)]
pub struct Writer {
    file: File,
    len: u64,
    encoder: Encoder,
    /// The number of texts in the file.
    strings: usize,
    /// Set after the symbols, which must be last: their texts take the row numbers that a builder would
    /// assign next.
    has_symbols: bool,
}

impl Writer {
    /// Starts a profile in an empty file.
    pub fn new(mut file: File, meta: &Meta) -> io::Result<Self> {
        file.write_all(&header(0))?;
        let (len, encoder) = (HEADER_LEN as u64, Encoder::new()?);
        let mut writer = Self { file, len, encoder, strings: 0, has_symbols: false };
        writer.meta(meta)?;
        Ok(writer)
    }

    /// Appends all new rows of the builder, which then forgets them.
    pub fn append(&mut self, builder: &mut Builder) -> io::Result<()> {
        builder.dirty_processes.sort_unstable();
        builder.dirty_processes.dedup();
        builder.dirty_threads.sort_unstable();
        builder.dirty_threads.dedup();
        builder.dirty_targets.sort_unstable();
        builder.dirty_targets.dedup();
        self.refuse_after_symbols()?;
        self.all_or_nothing(|writer| writer.builder_tables(builder))?;
        self.strings += builder.strings.rows.len();
        builder.flushed();
        Ok(())
    }

    /// Appends what symbolising added to a profile that was read back from this file: texts, module states,
    /// functions, frames, source lines, code. Nothing can be appended after it.
    pub fn append_symbols(&mut self, profile: &Profile) -> io::Result<()> {
        self.refuse_after_symbols()?;
        self.all_or_nothing(|writer| writer.symbol_tables(profile))?;
        self.has_symbols = true;
        Ok(())
    }

    /// Replaces the allocation sites that were appended before.
    pub fn replace_heap_sites(&mut self, heap: &Heap) -> io::Result<()> {
        self.refuse_after_symbols()?;
        self.all_or_nothing(|writer| writer.heap_sites(heap))
    }

    fn refuse_after_symbols(&self) -> io::Result<()> {
        if self.has_symbols {
            return Err(io::Error::other("nothing can be appended after the symbols"));
        }
        Ok(())
    }

    fn builder_tables(&mut self, b: &Builder) -> io::Result<()> {
        self.sized_table(
            chunk::STRINGS,
            &b.strings.rows,
            |text| text.len(),
            |rows| tables::write_strings(rows.iter().map(|text| &**text)),
        )?;
        self.table(chunk::PROCESSES, &b.dirty_processes, |rows| {
            tables::write_processes(rows.iter().map(|id| (id.0, &b.processes[id.index()])))
        })?;
        self.table(chunk::THREADS, &b.dirty_threads, |rows| {
            tables::write_threads(rows.iter().map(|id| (id.0, &b.threads[id.index()])))
        })?;
        self.numbered_table(chunk::MODULES, b.modules.first, &b.modules.rows, |rows| {
            tables::write_modules(rows.iter().copied())
        })?;
        self.table(chunk::METRICS, &b.metrics.rows, |rows| tables::write_metrics(rows.iter()))?;
        self.table(chunk::SCALES, &b.scales, tables::write_scales)?;
        self.table(chunk::LOCATIONS, &b.locations.rows, |rows| {
            tables::write_locations(rows.iter().copied())
        })?;
        self.table(chunk::STACKS, &b.stacks.rows, |rows| tables::write_stacks(rows.iter().copied()))?;
        self.samples(&b.samples)?;
        self.wait_details(&b.wait_details)?;
        self.table(chunk::SPANS, &b.spans, |rows| tables::write_spans(rows.iter()))?;
        self.table(chunk::COUNTERS, &b.counters.rows, |rows| tables::write_counters(rows.iter()))?;
        self.counter_values(&b.counter_values)?;
        self.table(chunk::SYSCALLS, &b.syscalls, syscalls::write)?;
        self.causal_tables(b)?;
        self.heap(&b.heap)
    }

    fn causal_tables(&mut self, b: &Builder) -> io::Result<()> {
        self.table(chunk::CAUSAL_POINTS, &b.points.rows, causal::write_points)?;
        self.table(chunk::CAUSAL_TARGETS, &b.dirty_targets, |rows| {
            let rows = rows.iter().map(|id| (id.0, &b.targets[id.index()]));
            causal::write_targets(&rows.collect::<Vec<_>>())
        })?;
        self.table(chunk::EXPERIMENTS, &b.experiments.rows, causal::write_experiments)?;
        self.table(chunk::VISITS, &b.visits, causal::write_visits)
    }

    fn heap_sites(&mut self, heap: &Heap) -> io::Result<()> {
        self.numbered_table(chunk::HEAP_SITES, 0, &heap.sites, heap::write_sites)
    }

    fn heap(&mut self, heap: &Heap) -> io::Result<()> {
        self.heap_sites(heap)?;
        self.table(chunk::HEAP_HISTOGRAMS, &heap.histograms, heap::write_histograms)?;
        self.table(chunk::HEAP_GROWTH, &heap.growth, heap::write_growth)?;
        self.table(chunk::HEAP_TRANSFERS, &heap.transfers, heap::write_transfers)?;
        self.table(chunk::HEAP_ACCESSES, &heap.accesses, heap::write_accesses)
    }

    fn wait_details(&mut self, details: &WaitDetails) -> io::Result<()> {
        for start in (0..details.len()).step_by(ROWS_PER_CHUNK) {
            let rows = start..details.len().min(start + ROWS_PER_CHUNK);
            self.chunk(chunk::WAIT_DETAILS, &waits::write_details(details, rows))?;
        }
        Ok(())
    }

    fn counter_values(&mut self, values: &CounterValues) -> io::Result<()> {
        for start in (0..values.len()).step_by(ROWS_PER_CHUNK) {
            let rows = start..values.len().min(start + ROWS_PER_CHUNK);
            self.chunk(chunk::COUNTER_VALUES, &tables::write_counter_values(values, rows))?;
        }
        Ok(())
    }

    fn symbol_tables(&mut self, profile: &Profile) -> io::Result<()> {
        let texts = profile.strings.iter().skip(self.strings).collect::<Vec<_>>();
        self.sized_table(
            chunk::STRINGS,
            &texts,
            |text| text.len(),
            |rows| tables::write_strings(rows.iter().copied()),
        )?;
        self.numbered_table(chunk::MODULES, 0, &profile.modules, |rows| {
            tables::write_modules(rows.iter().copied())
        })?;
        self.table(chunk::FUNCTIONS, &profile.functions, |rows| tables::write_functions(rows.iter()))?;
        let frames = (0..profile.locations.len())
            .map(LocationId::from)
            .flat_map(|location| profile.frames.of(location).iter().map(move |frame| (location, *frame)))
            .collect::<Vec<_>>();
        // The frames of one location must be in one chunk: the reader takes each group as complete.
        let groups = frames.chunk_by(|a, b| a.0 == b.0).collect::<Vec<_>>();
        self.table(chunk::FRAMES, &groups, |groups| {
            tables::write_frames(groups.iter().copied().flatten().copied())
        })?;
        self.table(chunk::STATICS, &profile.statics, waits::write_statics)?;
        self.table(chunk::SOURCES, &profile.sources.rows, |rows| tables::write_sources(rows.iter()))?;
        self.sized_table(
            chunk::CODE,
            &profile.code.rows,
            |code| code.bytes.len(),
            |rows| tables::write_code(rows.iter()),
        )?;
        self.table(chunk::TARGETS, &profile.targets, targets::write)
    }

    fn samples(&mut self, metrics: &[Samples]) -> io::Result<()> {
        for (metric, samples) in (0..).map(MetricId).zip(metrics) {
            for start in (0..samples.len()).step_by(ROWS_PER_CHUNK) {
                let rows = start..samples.len().min(start + ROWS_PER_CHUNK);
                self.chunk(chunk::SAMPLES, &tables::write_samples(metric, samples, rows))?;
            }
        }
        Ok(())
    }

    /// Replaces the facts about the recording.
    pub fn meta(&mut self, meta: &Meta) -> io::Result<()> {
        let json = serde_json::to_vec(meta)?;
        self.all_or_nothing(|writer| writer.chunk(chunk::META, &json))
    }

    /// Seals the file: from now on a missing byte is an error.
    pub fn seal(mut self) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&header(self.len))?;
        self.file.flush()
    }

    /// Bytes written so far.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Never true: a file starts with a header.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn table<T>(&mut self, kind: Kind, rows: &[T], encode: impl Fn(&[T]) -> Vec<u8>) -> io::Result<()> {
        rows.chunks(ROWS_PER_CHUNK).try_for_each(|part| self.chunk(kind, &encode(part)))
    }

    /// A table whose rows carry their number, because a later chunk can replace them.
    fn numbered_table<T>(
        &mut self,
        kind: Kind,
        first: u32,
        rows: &[T],
        encode: impl Fn(&[(u32, &T)]) -> Vec<u8>,
    ) -> io::Result<()> {
        self.table(kind, &(first..).zip(rows).collect::<Vec<_>>(), encode)
    }

    /// A table whose rows differ in size.
    fn sized_table<T>(
        &mut self,
        kind: Kind,
        mut rows: &[T],
        size: impl Fn(&T) -> usize,
        encode: impl Fn(&[T]) -> Vec<u8>,
    ) -> io::Result<()> {
        while !rows.is_empty() {
            let mut bytes = 0;
            let fits = |row: &&T| {
                bytes += size(row);
                bytes <= BYTES_PER_CHUNK
            };
            let count = rows.iter().take(ROWS_PER_CHUNK).take_while(fits).count().max(1);
            let (part, rest) = rows.split_at(count);
            self.chunk(kind, &encode(part))?;
            rows = rest;
        }
        Ok(())
    }

    fn chunk(&mut self, kind: Kind, raw: &[u8]) -> io::Result<()> {
        let bytes = self.encoder.encode(kind, raw)?;
        self.file.write_all(&bytes)?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Appends several chunks, or undoes the partial write.
    fn all_or_nothing(&mut self, append: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        let before = self.len;
        append(self).inspect_err(|_| {
            self.len = before;
            // If even this fails, the reader drops the incomplete chunk.
            let _ = self.file.set_len(before);
            let _ = self.file.seek(SeekFrom::Start(before));
        })
    }
}

/// Writes a whole profile to a new file, which replaces an old one only when it is complete.
pub fn write(path: &Path, profile: &Profile) -> io::Result<()> {
    // Follows a link, so that its target is replaced and not the link.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return write_to(File::create(&path)?, profile);
    }
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
    let written = File::create(&temporary)
        .and_then(|file| write_to(file, profile))
        .and_then(|()| std::fs::rename(&temporary, &path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

fn write_to(file: File, profile: &Profile) -> io::Result<()> {
    let mut writer = Writer::new(file, &profile.meta)?;
    let texts = profile.strings.iter().collect::<Vec<_>>();
    writer.sized_table(
        chunk::STRINGS,
        &texts,
        |text| text.len(),
        |rows| tables::write_strings(rows.iter().copied()),
    )?;
    writer.strings = texts.len();
    writer.numbered_table(chunk::PROCESSES, 0, &profile.processes, |rows| {
        tables::write_processes(rows.iter().copied())
    })?;
    writer.numbered_table(chunk::THREADS, 0, &profile.threads, |rows| {
        tables::write_threads(rows.iter().copied())
    })?;
    writer.numbered_table(chunk::MODULES, 0, &profile.modules, |rows| {
        tables::write_modules(rows.iter().copied())
    })?;
    writer.table(chunk::METRICS, &profile.metrics, |rows| tables::write_metrics(rows.iter()))?;
    // In memory, values triggered by the cycle counter are already nanoseconds.
    let counts_cycles =
        |metric: &MetricId| profile.metrics[metric.index()].origin.sampler().trigger == Trigger::Cycles;
    let scales = profile.metric_ids().filter(counts_cycles).map(|metric| (metric, 1.0));
    writer.table(chunk::SCALES, &scales.collect::<Vec<_>>(), tables::write_scales)?;
    let locations = profile.locations.module.iter().copied().zip(profile.locations.address.iter().copied());
    let locations = locations.skip(1).collect::<Vec<_>>();
    writer.table(chunk::LOCATIONS, &locations, |rows| tables::write_locations(rows.iter().copied()))?;
    let stacks = (0..profile.stacks.len()).map(crate::StackId::from);
    let stacks =
        stacks.map(|id| (profile.stacks.parent(id), profile.stacks.location(id))).collect::<Vec<_>>();
    writer.table(chunk::STACKS, &stacks, |rows| tables::write_stacks(rows.iter().copied()))?;
    writer.samples(&profile.samples)?;
    writer.wait_details(&profile.wait_details)?;
    writer.table(chunk::SPANS, &profile.spans, |rows| tables::write_spans(rows.iter()))?;
    writer.table(chunk::COUNTERS, &profile.counters, |rows| tables::write_counters(rows.iter()))?;
    writer.counter_values(&profile.counter_values)?;
    writer.table(chunk::SYSCALLS, &profile.syscalls, syscalls::write)?;
    let causal = &profile.causal;
    writer.table(chunk::CAUSAL_POINTS, &causal.points, causal::write_points)?;
    writer.numbered_table(chunk::CAUSAL_TARGETS, 0, &causal.targets, causal::write_targets)?;
    writer.table(chunk::EXPERIMENTS, &causal.experiments, causal::write_experiments)?;
    writer.table(chunk::VISITS, &causal.visits, causal::write_visits)?;
    writer.heap(&profile.heap)?;
    writer.append_symbols(profile)?;
    // An incomplete profile remains incomplete.
    if profile.sealed { writer.seal() } else { Ok(()) }
}

fn header(sealed_len: u64) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..20].copy_from_slice(&sealed_len.to_le_bytes());
    let checksum = crc32fast::hash(&header[..20]);
    header[20..].copy_from_slice(&checksum.to_le_bytes());
    header
}
