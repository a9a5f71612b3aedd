//! Chunks: the unit of writing, checking and loss.

use std::io;

use super::column::Malformed;

/// The kind of a chunk's contents.
pub(super) type Kind = [u8; 4];

pub(super) const META: Kind = *b"META";
pub(super) const STRINGS: Kind = *b"STRS";
pub(super) const PROCESSES: Kind = *b"PROC";
pub(super) const THREADS: Kind = *b"THRD";
pub(super) const MODULES: Kind = *b"MODS";
pub(super) const METRICS: Kind = *b"METR";
pub(super) const SCALES: Kind = *b"SCAL";
pub(super) const LOCATIONS: Kind = *b"LOCS";
pub(super) const STACKS: Kind = *b"STAK";
pub(super) const SAMPLES: Kind = *b"SMPL";
pub(super) const FUNCTIONS: Kind = *b"FUNC";
pub(super) const FRAMES: Kind = *b"FRAM";
pub(super) const SOURCES: Kind = *b"SRCL";
pub(super) const CODE: Kind = *b"CODE";
pub(super) const TARGETS: Kind = *b"TARG";
pub(super) const WAIT_DETAILS: Kind = *b"WAIT";
pub(super) const STATICS: Kind = *b"STAT";
pub(super) const SPANS: Kind = *b"SPAN";
pub(super) const COUNTERS: Kind = *b"CNTR";
pub(super) const COUNTER_VALUES: Kind = *b"CVAL";
pub(super) const SYSCALLS: Kind = *b"SYSC";
pub(super) const HEAP_SITES: Kind = *b"HSIT";
pub(super) const HEAP_HISTOGRAMS: Kind = *b"HHST";
pub(super) const HEAP_GROWTH: Kind = *b"HGRO";
pub(super) const HEAP_TRANSFERS: Kind = *b"HTRF";
pub(super) const HEAP_ACCESSES: Kind = *b"HACC";
pub(super) const CAUSAL_POINTS: Kind = *b"CPNT";
pub(super) const CAUSAL_TARGETS: Kind = *b"CTGT";
pub(super) const EXPERIMENTS: Kind = *b"CEXP";
pub(super) const VISITS: Kind = *b"CVIS";

const CHUNK_HEADER_LEN: usize = 16;
/// The largest chunk that is read. Writers split their tables well below this.
const MAX_RAW_LEN: usize = 16 << 20;
const COMPRESSION_LEVEL: i32 = 3;
/// A chunk unpacks to at most this many times its stored length, so that a small hostile file cannot exhaust
/// the reader's memory. The rare table that packs better is padded with a frame that zstd skips.
const MAX_RATIO: usize = 32;
const SKIPPABLE_FRAME: u32 = 0x184D_2A50;

/// Packs chunks. Reuses one zstd context.
pub(super) struct Encoder(zstd::bulk::Compressor<'static>);

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Encoder")
    }
}

impl Encoder {
    pub(super) fn new() -> io::Result<Self> {
        zstd::bulk::Compressor::new(COMPRESSION_LEVEL).map(Self)
    }

    /// A chunk as bytes to append to a file.
    pub(super) fn encode(&mut self, kind: Kind, raw: &[u8]) -> io::Result<Vec<u8>> {
        if raw.len() > MAX_RAW_LEN {
            return Err(io::Error::other("a table is too large for one chunk"));
        }
        Ok(finish(kind, raw.len(), self.0.compress(raw)?))
    }
}

/// A chunk of packed bytes.
fn finish(kind: Kind, raw_len: usize, mut stored: Vec<u8>) -> Vec<u8> {
    if let Some(missing) = raw_len.div_ceil(MAX_RATIO).checked_sub(stored.len()).filter(|&len| len > 0) {
        stored.extend_from_slice(&SKIPPABLE_FRAME.to_le_bytes());
        stored.extend_from_slice(&(missing as u32).to_le_bytes());
        stored.resize(stored.len() + missing, 0);
    }
    let mut out = Vec::with_capacity(CHUNK_HEADER_LEN + stored.len());
    out.extend_from_slice(&kind);
    out.extend_from_slice(&(raw_len as u32).to_le_bytes());
    out.extend_from_slice(&(stored.len() as u32).to_le_bytes());
    let checksum = checksum(&out, &stored);
    out.extend_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(&stored);
    out
}

/// A chunk found in a file.
pub(super) struct Chunk<'a> {
    pub(super) kind: Kind,
    raw_len: usize,
    stored: &'a [u8],
}

/// Why there is no next chunk.
pub(super) enum NoChunk {
    /// The bytes end inside it.
    CutOff,
    /// Its checksum or its lengths are wrong.
    Bad(Malformed),
}

/// Takes the next chunk off the front of the bytes.
pub(super) fn next<'a>(bytes: &mut &'a [u8]) -> Result<Chunk<'a>, NoChunk> {
    let (header, rest) = bytes.split_at_checked(CHUNK_HEADER_LEN).ok_or(NoChunk::CutOff)?;
    let number = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let (stored, rest) = rest.split_at_checked(number(8) as usize).ok_or(NoChunk::CutOff)?;
    if checksum(&header[..12], stored) != number(12) {
        return Err(NoChunk::Bad("its checksum does not match"));
    }
    let raw_len = number(4) as usize;
    if raw_len > MAX_RAW_LEN || raw_len > stored.len() * MAX_RATIO {
        return Err(NoChunk::Bad("a chunk claims to be too large"));
    }
    *bytes = rest;
    Ok(Chunk { kind: [header[0], header[1], header[2], header[3]], raw_len, stored })
}

impl Chunk<'_> {
    pub(super) fn unpack(&self) -> Result<Vec<u8>, Malformed> {
        let raw = zstd::bulk::decompress(self.stored, self.raw_len).map_err(|_| "a chunk does not unpack")?;
        if raw.len() == self.raw_len { Ok(raw) } else { Err("a chunk unpacks to another length") }
    }
}

fn checksum(header: &[u8], stored: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header);
    hasher.update(stored);
    hasher.finalize()
}
