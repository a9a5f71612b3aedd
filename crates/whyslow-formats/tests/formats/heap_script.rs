//! Simulates a heap event by event: the profile that a recorder would write, and its exact numbers.

use std::collections::BTreeMap;

use whyslow_analyze::testing;
use whyslow_profile::heap::{counter, metric};
use whyslow_profile::{
    Counter, CounterId, Growth, HeapCounts, HeapFacts, HeapSite, Metric, Profile, ProfileNs, Samples,
    StackId, ThreadId, Unit,
};

/// The length of a bucket of the timeline.
const BUCKET_NS: u64 = 10_000_000;

struct Block {
    site: usize,
    thread: usize,
    size: u64,
    made_ns: u64,
    live: bool,
}

/// Allocations and frees in order of time.
pub(crate) struct Script {
    profile: Profile,
    stacks: Vec<StackId>,
    now_ns: u64,
    blocks: Vec<Block>,
    /// The block that each thread allocated last.
    last: Vec<Option<usize>>,
    counts: Vec<HeapCounts>,
    live: Vec<(u64, u64)>,
    peak_ns: u64,
    peak: u64,
    /// By metric name, bucket, thread and site.
    rows: BTreeMap<(&'static str, u64, usize, usize), u64>,
}

impl Script {
    /// A heap with these allocating stacks, in the notation of `testing::profile`, and two threads.
    pub(crate) fn new(stacks: &[&str]) -> Self {
        let text: String = stacks.iter().map(|stack| format!("{stack} 1\n")).collect();
        let mut profile = testing::profile(&format!("{text}worker: main 1"));
        let stacks = profile.samples[0].stack[..stacks.len()].to_vec();
        profile.metrics.clear();
        profile.samples.clear();
        profile.meta.user_time_ns = 0;
        Self {
            profile,
            now_ns: 0,
            blocks: Vec::new(),
            last: vec![None; 2],
            counts: vec![HeapCounts::default(); stacks.len()],
            live: vec![(0, 0); stacks.len()],
            stacks,
            peak_ns: 0,
            peak: 0,
            rows: BTreeMap::new(),
        }
    }

    /// Lets time pass.
    pub(crate) fn wait(&mut self, ns: u64) -> &mut Self {
        self.now_ns += ns;
        self
    }

    fn row(&mut self, name: &'static str, thread: usize, site: usize, value: u64) {
        *self.rows.entry((name, self.now_ns / BUCKET_NS * BUCKET_NS, thread, site)).or_default() += value;
    }

    /// Allocates a block.
    pub(crate) fn allocate(&mut self, thread: usize, site: usize, size: u64) -> usize {
        self.row(metric::ALLOCATIONS, thread, site, 1);
        self.row(metric::BYTES_ALLOCATED, thread, site, size);
        let counts = &mut self.counts[site];
        counts.allocations += 1;
        counts.bytes_allocated += size;
        let live = &mut self.live[site];
        *live = (live.0 + size, live.1 + 1);
        if live.0 > counts.max_bytes {
            (counts.max_bytes, counts.max_blocks) = *live;
        }
        let total: u64 = self.live.iter().map(|live| live.0).sum();
        if total > self.peak {
            (self.peak, self.peak_ns) = (total, self.now_ns);
            for (counts, live) in self.counts.iter_mut().zip(&self.live) {
                (counts.peak_bytes, counts.peak_blocks) = *live;
            }
        }
        let block = self.blocks.len();
        self.blocks.push(Block { site, thread, size, made_ns: self.now_ns, live: true });
        self.last[thread] = Some(block);
        block
    }

    /// Frees a block, once.
    pub(crate) fn free(&mut self, thread: usize, block: usize) {
        let Block { site, thread: maker, size, made_ns, live } = self.blocks[block];
        if !live {
            return;
        }
        self.blocks[block].live = false;
        self.row(metric::BYTES_FREED, maker, site, size);
        if maker == thread && self.last[thread] == Some(block) {
            self.row(metric::TEMPORARY, maker, site, 1);
            self.counts[site].temporary += 1;
        }
        let counts = &mut self.counts[site];
        counts.frees += 1;
        counts.bytes_freed += size;
        counts.lifetime_ns += self.now_ns - made_ns;
        self.live[site] = (self.live[site].0 - size, self.live[site].1 - 1);
    }

    /// The profile.
    pub(crate) fn finish(mut self) -> Profile {
        let end_ns = self.now_ns + 1_000_000;
        for block in self.blocks.iter().filter(|block| block.live) {
            let counts = &mut self.counts[block.site];
            counts.live_at_exit_bytes += block.size;
            counts.live_at_exit_blocks += 1;
            counts.lifetime_ns += end_ns - block.made_ns;
        }
        let profile = &mut self.profile;
        for (name, unit) in [
            (metric::BYTES_ALLOCATED, Unit::Bytes),
            (metric::ALLOCATIONS, Unit::Count),
            (metric::BYTES_FREED, Unit::Bytes),
            (metric::LIVE_AT_PEAK, Unit::Bytes),
            (metric::LIVE_AT_EXIT, Unit::Bytes),
            (metric::TEMPORARY, Unit::Count),
        ] {
            let mut samples = Samples::default();
            for (&(row, time, thread, site), &value) in &self.rows {
                if row == name && value > 0 {
                    samples.push(time, ThreadId::from(thread), self.stacks[site], value);
                }
            }
            for (counts, &stack) in self.counts.iter().zip(&self.stacks) {
                let (time, value) = match name {
                    metric::LIVE_AT_PEAK => (self.peak_ns, counts.peak_bytes),
                    metric::LIVE_AT_EXIT => (end_ns, counts.live_at_exit_bytes),
                    _ => continue,
                };
                if value > 0 {
                    samples.push(time, ThreadId(0), stack, value);
                }
            }
            let row = profile.strings.push(name);
            profile.metrics.push(Metric::of_name(name, unit).renamed(row));
            profile.samples.push(samples);
        }
        let sites = self.counts.iter().zip(&self.stacks).filter(|(counts, _)| counts.allocations > 0);
        profile.heap.sites = sites
            .map(|(counts, &stack)| HeapSite { stack, counts: *counts, growth: Growth::Unknown })
            .collect();
        let name = profile.strings.push(counter::RESIDENT);
        profile.counters.push(Counter { name, unit: Unit::Bytes, process: Some(0.into()) });
        profile.counter_values.push(CounterId(0), 0, 4 << 20);
        profile.meta.duration_ns = end_ns;
        profile.meta.heap = Some(HeapFacts {
            peak_bytes: self.peak,
            peak_ns: ProfileNs(self.peak_ns),
            temporary_within: 1,
            ..HeapFacts::default()
        });
        self.profile
    }
}

/// A parser that keeps a tree, a cache that leaks, and short-lived strings, some on another thread.
pub(crate) fn parser() -> Profile {
    let mut script = Script::new(&[
        "main@app.rs:3;parse@app.rs:20;+push@vec.rs:9;grow@vec.rs:40",
        "main@app.rs:3;cache::insert@cache.rs:7",
        "main@app.rs:4;fmt@app.rs:31",
        "main@app.rs:4;fmt@app.rs:31;[libc.so.6]",
        "[truncated];deep",
    ]);
    let mut nodes = Vec::new();
    for round in 0..200u64 {
        script.wait(700_000);
        nodes.push(script.allocate(0, 0, 100 + round));
        if round % 10 == 0 {
            script.allocate(1, 1, 1000 + round);
        }
        for size in 0..3 {
            let text = script.allocate(0, 2, 10 + size);
            script.free(0, text);
        }
        let handed = script.allocate(0, 3, 64);
        script.free(1, handed);
    }
    script.wait(20_000_000);
    for node in nodes {
        script.wait(50_000).free(0, node);
    }
    script.allocate(0, 4, 0);
    script.allocate(0, 4, 77);
    script.finish()
}
