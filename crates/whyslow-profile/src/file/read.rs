//! Reads profiles. Checks every reference once, so that the rest of whyslow can index without checks.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::chunk::{self, Chunk, NoChunk};
use super::column::{ColumnReader, Malformed};
use super::{
    HEADER_LEN, MAGIC, ReadError, VERSION, causal, heap, syscalls, tables, targets, version1, waits,
};
use crate::{Profile, Sampler, Samples, Trigger};

/// Reads a profile. Memory use is limited to a multiple of the file's size.
pub fn read(path: &Path) -> Result<Profile, ReadError> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    // A file that is not a profile need not be read to its end.
    file.by_ref().take(MAGIC.len() as u64).read_to_end(&mut bytes)?;
    if bytes == MAGIC {
        file.read_to_end(&mut bytes)?;
    }
    read_bytes(&bytes)
}

/// Reads a profile from the bytes of a file.
pub fn read_bytes(bytes: &[u8]) -> Result<Profile, ReadError> {
    if bytes.is_empty() {
        return Err(ReadError::Empty);
    }
    if !bytes.starts_with(MAGIC) && !MAGIC.starts_with(bytes) {
        return Err(ReadError::NotAProfile);
    }
    let Some((header, mut rest)) = bytes.split_at_checked(HEADER_LEN) else {
        return Err(ReadError::CutOff { expected: HEADER_LEN as u64, actual: bytes.len() as u64 });
    };
    let number = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let version = number(8);
    if version > VERSION {
        return Err(ReadError::Newer { found: version });
    }
    if crc32fast::hash(&header[..20]) != number(20) || version == 0 {
        return Err(ReadError::Damaged { offset: 0, what: "its header does not match its checksum" });
    }
    let sealed_len = u64::from(number(12)) | u64::from(number(16)) << 32;
    let mut profile = Profile { sealed: sealed_len != 0, ..Profile::default() };
    if profile.sealed && sealed_len != bytes.len() as u64 {
        return Err(if sealed_len > bytes.len() as u64 {
            ReadError::CutOff { expected: sealed_len, actual: bytes.len() as u64 }
        } else {
            ReadError::Damaged { offset: sealed_len, what: "there are bytes after its end" }
        });
    }

    let mut chunks = 0;
    let mut file_only = FileOnly::default();
    while !rest.is_empty() {
        let offset = (bytes.len() - rest.len()) as u64;
        let damaged = |what| ReadError::Damaged { offset, what };
        let chunk = match chunk::next(&mut rest) {
            Ok(chunk) => chunk,
            // The recorder was killed while writing this chunk.
            Err(_) if !profile.sealed => break,
            Err(NoChunk::CutOff) => return Err(damaged("a chunk ends after the file")),
            Err(NoChunk::Bad(what)) => return Err(damaged(what)),
        };
        apply(&chunk, &mut profile, &mut file_only).map_err(damaged)?;
        chunks += 1;
    }
    if chunks == 0 {
        return Err(ReadError::Empty);
    }
    let end = (bytes.len() - rest.len()) as u64;
    tables::check_whole(&profile).map_err(|what| ReadError::Damaged { offset: end, what })?;
    if version == 1 {
        version1::settle(&mut profile, file_only.version1, &mut file_only.scales);
    }
    let scales = file_only.scales.into_iter().chain(std::iter::repeat(None));
    for ((metric, samples), scale) in profile.metrics.iter().zip(&mut profile.samples).zip(scales) {
        cycles_to_time(metric.origin.sampler(), samples, scale);
    }
    Ok(profile)
}

/// Contents of a file that are not part of a profile in memory.
#[derive(Default)]
struct FileOnly {
    /// The length of one cycle, per metric.
    scales: Vec<Option<f64>>,
    version1: version1::Facts,
}

/// Converts cycles to nanoseconds. An unsealed recording does not know the length of a cycle; there, the
/// typical sample stands for one interval of the requested rate.
fn cycles_to_time(sampler: Sampler, samples: &mut Samples, scale: Option<f64>) {
    if sampler.trigger != Trigger::Cycles {
        return;
    }
    let usable = |scale: &f64| scale.is_finite() && *scale > 0.0;
    let scale = scale.filter(usable).or_else(|| {
        let mut sorted = samples.value.clone();
        sorted.sort_unstable();
        let typical = *sorted.get(sorted.len() / 2)?;
        Some(1e9 / f64::from(sampler.rate_hz.max(1)) / typical.max(1) as f64)
    });
    // A profile that was read and written again already has its time in nanoseconds.
    if let Some(scale) = scale.filter(|scale| *scale != 1.0) {
        samples.scale(scale);
    }
}

fn apply(chunk: &Chunk<'_>, profile: &mut Profile, file_only: &mut FileOnly) -> Result<(), Malformed> {
    let read = match chunk.kind {
        chunk::META => {
            let raw = chunk.unpack()?;
            let unreadable = |_| "its description is not readable";
            profile.meta = serde_json::from_slice(&raw).map_err(unreadable)?;
            file_only.version1 = serde_json::from_slice(&raw).map_err(unreadable)?;
            return Ok(());
        }
        chunk::SCALES => {
            let raw = chunk.unpack()?;
            return tables::read_scales(&ColumnReader::new(&raw)?, profile, &mut file_only.scales);
        }
        chunk::STRINGS => tables::read_strings,
        chunk::PROCESSES => tables::read_processes,
        chunk::THREADS => tables::read_threads,
        chunk::MODULES => tables::read_modules,
        chunk::METRICS => tables::read_metrics,
        chunk::LOCATIONS => tables::read_locations,
        chunk::STACKS => tables::read_stacks,
        chunk::SAMPLES => tables::read_samples,
        chunk::FUNCTIONS => tables::read_functions,
        chunk::FRAMES => tables::read_frames,
        chunk::SOURCES => tables::read_sources,
        chunk::CODE => tables::read_code,
        chunk::TARGETS => targets::read,
        chunk::WAIT_DETAILS => waits::read_details,
        chunk::STATICS => waits::read_statics,
        chunk::SPANS => tables::read_spans,
        chunk::COUNTERS => tables::read_counters,
        chunk::COUNTER_VALUES => tables::read_counter_values,
        chunk::SYSCALLS => syscalls::read,
        chunk::HEAP_SITES => heap::read_sites,
        chunk::HEAP_HISTOGRAMS => heap::read_histograms,
        chunk::HEAP_GROWTH => heap::read_growth,
        chunk::HEAP_TRANSFERS => heap::read_transfers,
        chunk::HEAP_ACCESSES => heap::read_accesses,
        chunk::CAUSAL_POINTS => causal::read_points,
        chunk::CAUSAL_TARGETS => causal::read_targets,
        chunk::EXPERIMENTS => causal::read_experiments,
        chunk::VISITS => causal::read_visits,
        _ => return Ok(()),
    };
    let raw = chunk.unpack()?;
    read(&ColumnReader::new(&raw)?, profile)
}
