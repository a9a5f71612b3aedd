//! Writing: streaming from a builder while recording, or a whole profile at once.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use super::chunk::{self, Kind};
use super::{HEADER_LEN, MAGIC, VERSION, tables};
use crate::builder::Builder;
use crate::ids::LocationId;
use crate::{Meta, Profile};

/// Rows per chunk when a whole table is written at once.
const ROWS_PER_CHUNK: usize = 250_000;

/// Appends chunks to a file. What was appended stays readable whatever happens later.
#[derive(Debug)]
pub struct Writer {
    file: File,
    len: u64,
    /// How much of a profile's tables is already in the file; see [`Writer::append_symbols`].
    strings: usize,
}

impl Writer {
    /// Starts a profile in an empty file.
    pub fn new(mut file: File, meta: &Meta) -> io::Result<Self> {
        file.write_all(&header(0))?;
        let mut writer = Self { file, len: HEADER_LEN as u64, strings: 0 };
        writer.meta(meta)?;
        Ok(writer)
    }

    /// Appends all rows that are new in the builder, which then forgets them.
    pub fn append(&mut self, builder: &mut Builder) -> io::Result<()> {
        let b = &mut *builder;
        b.dirty_processes.sort_unstable();
        b.dirty_processes.dedup();
        b.dirty_threads.sort_unstable();
        b.dirty_threads.dedup();
        let strings = self.strings + b.strings.rows.len();
        self.table(chunk::STRINGS, b.strings.rows.len(), || {
            tables::write_strings(b.strings.rows.iter().map(|text| &**text))
        })?;
        self.table(chunk::PROCESSES, b.dirty_processes.len(), || {
            tables::write_processes(b.dirty_processes.iter().map(|id| (id.0, &b.processes[id.index()])))
        })?;
        self.table(chunk::THREADS, b.dirty_threads.len(), || {
            tables::write_threads(b.dirty_threads.iter().map(|id| (id.0, &b.threads[id.index()])))
        })?;
        self.table(chunk::MODULES, b.modules.rows.len(), || {
            tables::write_modules((b.modules.first..).zip(&b.modules.rows))
        })?;
        self.table(chunk::METRICS, b.metrics.rows.len(), || tables::write_metrics(b.metrics.rows.iter()))?;
        self.table(chunk::LOCATIONS, b.locations.rows.len(), || {
            tables::write_locations(b.locations.rows.iter().copied())
        })?;
        self.table(chunk::STACKS, b.stacks.rows.len(), || tables::write_stacks(b.stacks.rows.iter().copied()))?;
        for (metric, samples) in b.samples.iter().enumerate() {
            self.table(chunk::SAMPLES, samples.len(), || {
                tables::write_samples(metric as u32, samples, 0..samples.len())
            })?;
        }
        self.strings = strings;
        b.flushed();
        Ok(())
    }

    /// Appends what symbolising added to a profile that was read back from this file: texts, module states,
    /// functions, frames, source lines, code.
    pub fn append_symbols(&mut self, profile: &Profile) -> io::Result<()> {
        let texts = profile.strings.iter().skip(self.strings).collect::<Vec<_>>();
        self.tables(chunk::STRINGS, &texts, |rows| tables::write_strings(rows.iter().copied()))?;
        self.strings = profile.strings.len();
        let modules = (0u32..).zip(&profile.modules).collect::<Vec<_>>();
        self.tables(chunk::MODULES, &modules, |rows| tables::write_modules(rows.iter().copied()))?;
        self.tables(chunk::FUNCTIONS, &profile.functions, |rows| tables::write_functions(rows.iter()))?;
        let frames = (0..profile.locations.len())
            .map(LocationId::from)
            .flat_map(|location| profile.frames.of(location).iter().map(move |frame| (location, *frame)))
            .collect::<Vec<_>>();
        // A location's frames must not be split between chunks, so this table is one.
        self.table(chunk::FRAMES, frames.len(), || tables::write_frames(frames.iter().copied()))?;
        self.tables(chunk::SOURCES, &profile.sources.rows, |rows| tables::write_sources(rows.iter()))?;
        self.tables(chunk::CODE, &profile.code.rows, |rows| tables::write_code(rows.iter()))
    }

    /// Replaces the facts about the recording.
    pub fn meta(&mut self, meta: &Meta) -> io::Result<()> {
        let json = serde_json::to_vec(meta)?;
        self.chunk(chunk::META, &json)
    }

    /// Ends the file: from now on a missing byte is an error.
    pub fn seal(mut self) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&header(self.len))?;
        self.file.flush()
    }

    /// Bytes written so far.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Never true: a file starts with its header.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn tables<T>(&mut self, kind: Kind, rows: &[T], encode: impl Fn(&[T]) -> Vec<u8>) -> io::Result<()> {
        rows.chunks(ROWS_PER_CHUNK).try_for_each(|part| self.chunk(kind, &encode(part)))
    }

    fn table(&mut self, kind: Kind, rows: usize, encode: impl FnOnce() -> Vec<u8>) -> io::Result<()> {
        if rows == 0 { Ok(()) } else { self.chunk(kind, &encode()) }
    }

    /// Appends one chunk; when that fails (disk full), takes its beginning away again.
    fn chunk(&mut self, kind: Kind, raw: &[u8]) -> io::Result<()> {
        let bytes = chunk::encode(kind, raw)?;
        if let Err(error) = self.file.write_all(&bytes) {
            // The file was at `len` before; if even this fails the reader drops the cut chunk.
            let _ = self.file.set_len(self.len);
            let _ = self.file.seek(SeekFrom::End(0));
            return Err(error);
        }
        self.len += bytes.len() as u64;
        Ok(())
    }
}

/// Writes a whole profile to a new file.
pub fn write(path: &Path, profile: &Profile) -> io::Result<()> {
    let mut writer = Writer::new(File::create(path)?, &profile.meta)?;
    let texts = profile.strings.iter().collect::<Vec<_>>();
    writer.tables(chunk::STRINGS, &texts, |rows| tables::write_strings(rows.iter().copied()))?;
    writer.strings = texts.len();
    let processes = (0u32..).zip(&profile.processes).collect::<Vec<_>>();
    writer.tables(chunk::PROCESSES, &processes, |rows| tables::write_processes(rows.iter().copied()))?;
    let threads = (0u32..).zip(&profile.threads).collect::<Vec<_>>();
    writer.tables(chunk::THREADS, &threads, |rows| tables::write_threads(rows.iter().copied()))?;
    let modules = (0u32..).zip(&profile.modules).collect::<Vec<_>>();
    writer.tables(chunk::MODULES, &modules, |rows| tables::write_modules(rows.iter().copied()))?;
    writer.tables(chunk::METRICS, &profile.metrics, |rows| tables::write_metrics(rows.iter()))?;
    let locations = profile.locations.module.iter().copied().zip(profile.locations.address.iter().copied());
    let locations = locations.skip(1).collect::<Vec<_>>();
    writer.tables(chunk::LOCATIONS, &locations, |rows| tables::write_locations(rows.iter().copied()))?;
    let stacks = (0..profile.stacks.len()).map(crate::StackId::from);
    let stacks = stacks.map(|id| (profile.stacks.parent(id), profile.stacks.location(id))).collect::<Vec<_>>();
    writer.tables(chunk::STACKS, &stacks, |rows| tables::write_stacks(rows.iter().copied()))?;
    for (metric, samples) in profile.samples.iter().enumerate() {
        for start in (0..samples.len()).step_by(ROWS_PER_CHUNK) {
            let rows = start..samples.len().min(start + ROWS_PER_CHUNK);
            writer.chunk(chunk::SAMPLES, &tables::write_samples(metric as u32, samples, rows))?;
        }
    }
    writer.append_symbols(profile)?;
    writer.seal()
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
