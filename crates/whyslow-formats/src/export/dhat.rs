//! Exports DHAT's JSON, version 2, for Valgrind's `dh_view.html`: one row per allocation site.

use std::io::{self, Write};

use rustc_hash::FxHashMap;
use serde::Serialize;
use whyslow_profile::HeapCounts;

use super::heap::{command, frame_texts, no_heap};
use super::{Export, LeftOut};

/// Blocks that live for less than this many microseconds are short-lived. Valgrind's DHAT uses 500
/// instructions.
const SHORT_LIVED_US: u64 = 10;

#[derive(Serialize)]
struct File {
    #[serde(rename = "dhatFileVersion")]
    version: u32,
    mode: &'static str,
    verb: &'static str,
    bklt: bool,
    bkacc: bool,
    tu: &'static str,
    #[serde(rename = "Mtu")]
    million_tu: &'static str,
    tuth: u64,
    cmd: String,
    pid: u32,
    tg: u64,
    te: u64,
    pps: Vec<Point>,
    ftbl: Vec<String>,
}

/// An allocation site, in DHAT's short names: total bytes and blocks, their lifetimes, the maximum live at
/// once, those at the global peak, those at the end, and the frames, innermost first.
#[derive(Serialize)]
struct Point {
    tb: u64,
    tbk: u64,
    tl: u64,
    mb: u64,
    mbk: u64,
    gb: u64,
    gbk: u64,
    eb: u64,
    ebk: u64,
    fs: Vec<u32>,
}

impl Point {
    fn new(counts: &HeapCounts, fs: Vec<u32>) -> Self {
        Self {
            tb: counts.bytes_allocated,
            tbk: counts.allocations,
            tl: counts.lifetime_ns / 1000,
            mb: counts.max_bytes,
            mbk: counts.max_blocks,
            gb: counts.peak_bytes,
            gbk: counts.peak_blocks,
            eb: counts.live_at_exit_bytes,
            ebk: counts.live_at_exit_blocks,
            fs,
        }
    }

    /// Adds a site with the same frames. The two maxima may be from different times, so their sum is an upper
    /// bound.
    fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.tb, other.tb),
            (&mut self.tbk, other.tbk),
            (&mut self.tl, other.tl),
            (&mut self.mb, other.mb),
            (&mut self.mbk, other.mbk),
            (&mut self.gb, other.gb),
            (&mut self.gbk, other.gbk),
            (&mut self.eb, other.eb),
            (&mut self.ebk, other.ebk),
        ];
        for (sum, more) in pairs {
            *sum = sum.saturating_add(more);
        }
    }
}

/// Writes the allocation sites. Returns what the format cannot hold.
pub fn write_dhat(export: &Export<'_>, out: &mut dyn Write) -> io::Result<Vec<LeftOut>> {
    let profile = export.profile;
    if profile.heap.is_empty() {
        return Err(no_heap("dhat"));
    }
    // The viewer treats row 0 as the root, whatever its text.
    let mut ftbl = vec!["[root]".to_owned()];
    let mut frames: FxHashMap<String, u32> = FxHashMap::default();
    // The viewer rejects a file in which two sites have the same frames.
    let mut rows: FxHashMap<Vec<u32>, usize> = FxHashMap::default();
    let mut pps: Vec<Point> = Vec::new();
    for site in &profile.heap.sites {
        let texts = frame_texts(profile, site.stack, export.inline);
        let id = |text: String| {
            *frames.entry(text).or_insert_with_key(|text| {
                ftbl.push(text.clone());
                ftbl.len() as u32 - 1
            })
        };
        let fs: Vec<u32> = texts.into_iter().map(id).collect();
        let point = Point::new(&site.counts, fs.clone());
        match rows.get(&fs) {
            Some(&row) => pps[row].add(&point),
            None => {
                rows.insert(fs, pps.len());
                pps.push(point);
            }
        }
    }
    let peak_ns = profile.meta.heap.as_ref().map_or(0, |facts| facts.peak_ns.0);
    let file = File {
        version: 2,
        mode: "heap",
        verb: "Allocated",
        bklt: true,
        bkacc: false,
        tu: "us",
        million_tu: "s",
        tuth: SHORT_LIVED_US,
        cmd: command(profile),
        pid: profile.processes.first().map_or(0, |process| process.pid),
        tg: peak_ns / 1000,
        te: (profile.meta.duration_ns / 1000).max(peak_ns / 1000),
        pps,
        ftbl,
    };
    serde_json::to_writer(&mut *out, &file)?;
    let mut left_out = vec![LeftOut::Timeline, LeftOut::Temporary, LeftOut::Threads];
    left_out.extend(export.left_out(&[LeftOut::Spans, LeftOut::Code]));
    Ok(left_out)
}
