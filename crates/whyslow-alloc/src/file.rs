//! Writes the same file as `whyslow heap`, or one with the program's own events. Functions and lines are
//! looked up when the file is opened.

use std::io;
use std::path::Path;

use rustc_hash::FxHashMap;
use whyslow_profile::heap::{counter, metric};
use whyslow_profile::{
    Builder, Counter, Growth, GrowthBar, Heap, HeapCounts, HeapFacts, HeapNote, HeapSite, HeapTransfer,
    HistogramBar, HistogramOf, Host, LocationId, Meta, Metric, Module, ModuleId, ModuleKind, Note, Optimised,
    Origin, Process, ProcessId, ProfileNs, RecordingNote, RelativeAddress, StackId, SymbolState, Thread,
    ThreadId, Unit, file,
};

use crate::ad_hoc::EventRow;
use crate::modules::{self, Kind};
use crate::outcome::{ChainBar, Outcome, Site};
use crate::recorded::{Counted, Recorded};
use crate::stack::{self, CUT, Place};

/// Writes what was recorded.
pub(crate) fn write(recorded: &Recorded, path: &Path) -> io::Result<()> {
    let mut builder = Builder::new();
    let program = std::env::current_exe().unwrap_or_default();
    let name = builder.string(&program.file_name().unwrap_or_default().to_string_lossy());
    let process = builder.process(Process {
        pid: std::process::id(),
        parent: None,
        name,
        start_ns: 0,
        end_ns: Some(recorded.end_ns),
    });
    let threads: Vec<ThreadId> = recorded
        .threads
        .iter()
        .map(|thread| {
            let name = builder.string(&thread.name);
            builder.thread(Thread {
                process,
                tid: thread.tid,
                name,
                start_ns: thread.start_ns,
                end_ns: None,
                times: None,
            })
        })
        .collect();
    let mut stacks = Stacks::new();
    match &recorded.counted {
        Counted::Heap(outcome) => {
            let sites: Vec<StackId> =
                outcome.sites.iter().map(|site| stacks.id(&mut builder, site.stack)).collect();
            add_samples(&mut builder, outcome, &threads, &sites);
            add_live(&mut builder, outcome, process);
            builder.heap(heap(outcome, &threads, &sites));
        }
        Counted::Events { rows, .. } => add_events(&mut builder, rows, &threads, &mut stacks),
    }
    let meta = meta(recorded, stacks.unknown);
    let profile =
        builder.into_profile(meta).ok_or_else(|| io::Error::other("the profile was already written"))?;
    file::write(path, &profile)
}

/// The profile's stacks and modules.
struct Stacks {
    modules: Vec<modules::Module>,
    ids: FxHashMap<usize, ModuleId>,
    stacks: FxHashMap<u32, StackId>,
    /// Whether a stack was unknown.
    unknown: bool,
}

impl Stacks {
    fn new() -> Self {
        Self {
            modules: modules::all(),
            ids: FxHashMap::default(),
            stacks: FxHashMap::default(),
            unknown: false,
        }
    }

    fn id(&mut self, builder: &mut Builder, stack: u32) -> StackId {
        // From the innermost frame outwards to a known one, then back.
        let mut new = Vec::new();
        let mut at = stack;
        while stack::place(at).is_some() && !self.stacks.contains_key(&at) {
            new.push(at);
            at = stack::caller(at);
        }
        let mut parent = self.stacks.get(&at).copied();
        for &node in new.iter().rev() {
            let Some(place) = stack::place(node) else { continue };
            let location = self.location(builder, place);
            let id = builder.stack(parent, location);
            self.stacks.insert(node, id);
            parent = Some(id);
        }
        parent.unwrap_or_else(|| {
            self.unknown = true;
            builder.stack(None, LocationId::TRUNCATED)
        })
    }

    fn location(&mut self, builder: &mut Builder, place: Place) -> LocationId {
        if place.return_address == CUT {
            return LocationId::TRUNCATED;
        }
        let call = place.return_address.wrapping_sub(1);
        let Some(row) = modules::find(&self.modules, place) else {
            return builder.location(None, RelativeAddress(call));
        };
        let module = &self.modules[row];
        let id = *self.ids.entry(row).or_insert_with(|| {
            let (kind, symbols) = match module.kind {
                Kind::Program => (ModuleKind::Program, SymbolState::NotLoaded),
                Kind::Library => (ModuleKind::Library, SymbolState::NotLoaded),
                Kind::Vdso => (ModuleKind::Vdso, SymbolState::NotLoaded),
            };
            let path = builder.string(&module.path);
            let build_id = module.build_id.as_ref().map(|id| builder.string(id));
            builder.module(Module { path, build_id, kind, symbols, optimised: Optimised::Unknown })
        });
        builder.location(Some(id), RelativeAddress(call - module.base))
    }
}

/// One table of samples per metric.
fn add_samples(builder: &mut Builder, outcome: &Outcome, threads: &[ThreadId], sites: &[StackId]) {
    let [allocated, allocations, freed, peak, exit, temporary] = [
        (metric::BYTES_ALLOCATED, Unit::Bytes),
        (metric::ALLOCATIONS, Unit::Count),
        (metric::BYTES_FREED, Unit::Bytes),
        (metric::LIVE_AT_PEAK, Unit::Bytes),
        (metric::LIVE_AT_EXIT, Unit::Bytes),
        (metric::TEMPORARY, Unit::Count),
    ]
    .map(|(name, unit)| builder.metric(Metric::of_name(name, unit)));
    let mut add = |metric, time_ns, thread: u32, site: u32, value| {
        if value > 0 {
            builder.sample(metric, ProfileNs(time_ns), threads[thread as usize], sites[site as usize], value);
        }
    };
    for row in &outcome.rows {
        add(allocated, row.time_ns, row.thread, row.site, row.allocated.bytes);
        add(allocations, row.time_ns, row.thread, row.site, row.allocated.blocks);
        add(freed, row.time_ns, row.thread, row.site, row.bytes_freed);
        add(temporary, row.time_ns, row.thread, row.site, row.temporary);
    }
    for share in &outcome.shares {
        add(peak, outcome.totals.peak_ns, share.thread, share.site, share.at_peak);
        add(exit, outcome.end_ns, share.thread, share.site, share.live);
    }
}

/// Adds the program's own events. They have no times: only their number per thread is kept.
fn add_events(builder: &mut Builder, rows: &[EventRow], threads: &[ThreadId], stacks: &mut Stacks) {
    let [units, events] = ["units", "events"]
        .map(|name| builder.metric(Metric::unknown(name, Unit::Count).with_origin(Origin::Counted)));
    for row in rows {
        let (thread, stack) = (threads[row.thread as usize], stacks.id(builder, row.stack));
        for (metric, value) in [(units, row.counted.units), (events, row.counted.events)] {
            if value > 0 {
                builder.sample(metric, ProfileNs(0), thread, stack, value);
            }
        }
    }
}

/// Adds live bytes over time: the level at the end of each bucket, and the peak.
fn add_live(builder: &mut Builder, outcome: &Outcome, process: ProcessId) {
    let name = builder.string(counter::LIVE);
    let live_counter = builder.counter(Counter { name, unit: Unit::Bytes, process: Some(process) });
    let mut rows: Vec<(u64, i64)> = outcome
        .rows
        .iter()
        .map(|row| (row.time_ns, row.allocated.bytes as i64 - row.bytes_freed as i64))
        .collect();
    rows.sort_unstable_by_key(|row| row.0);
    let mut values = vec![(outcome.totals.peak_ns, outcome.totals.peak.bytes as i64)];
    let mut live = 0;
    for (number, (_, change)) in rows.iter().enumerate() {
        live += change;
        let next = rows.get(number + 1).map_or(outcome.end_ns, |next| next.0);
        if next != rows[number].0 || number + 1 == rows.len() {
            values.push((next, live));
        }
    }
    values.sort_by_key(|value| value.0);
    for (time_ns, value) in values {
        builder.counter_value(live_counter, ProfileNs(time_ns), value);
    }
}

fn counts(site: &Site) -> HeapCounts {
    HeapCounts {
        allocations: site.allocated.blocks,
        bytes_allocated: site.allocated.bytes,
        frees: site.freed.blocks,
        bytes_freed: site.freed.bytes,
        peak_bytes: site.at_peak.bytes,
        peak_blocks: site.at_peak.blocks,
        max_bytes: site.most.bytes,
        max_blocks: site.most.blocks,
        live_at_exit_blocks: site.live.blocks,
        live_at_exit_bytes: site.live.bytes,
        temporary: site.temporary,
        lifetime_ns: site.lifetime_ns,
        grown: site.grown,
        growth_chains: site.growth_chains,
        bytes_copied: site.bytes_copied,
        largest_grown: site.largest_grown,
        bytes_grown_to: site.chains.iter().map(|bar| bar.reached.bytes).sum(),
        freed_elsewhere: site.freed_elsewhere,
        ..HeapCounts::default()
    }
}

fn heap(outcome: &Outcome, threads: &[ThreadId], sites: &[StackId]) -> Heap {
    let mut heap = Heap::default();
    for (row, (site, &stack)) in outcome.sites.iter().zip(sites).enumerate() {
        heap.sites.push(HeapSite { stack, counts: counts(site), growth: Growth::Unknown });
        for (of, bars) in [(HistogramOf::Size, &site.sizes), (HistogramOf::Lifetime, &site.lifetimes)] {
            heap.histograms.extend(
                bars.iter()
                    .enumerate()
                    .filter(|(_, blocks)| **blocks > 0)
                    .map(|(bar, &blocks)| HistogramBar { site: row as u32, of, bar: bar as u8, blocks }),
            );
        }
        let bars = (0..).zip(&site.chains).filter(|(_, bar)| **bar != ChainBar::default());
        heap.growth.extend(bars.map(|(bits, bar)| GrowthBar {
            site: row as u64,
            bar: bits,
            grown: bar.grown,
            bytes_copied: bar.bytes_copied,
            reached: bar.reached.blocks,
            reached_bytes: bar.reached.bytes,
            largest: bar.largest,
        }));
    }
    heap.transfers = outcome
        .transfers
        .iter()
        .map(|transfer| HeapTransfer {
            from: threads[transfer.from as usize],
            to: threads[transfer.to as usize],
            blocks: transfer.moved.blocks,
            bytes: transfer.moved.bytes,
        })
        .collect();
    heap
}

fn meta(recorded: &Recorded, unknown_stacks: bool) -> Meta {
    let (note, heap) = match &recorded.counted {
        Counted::Heap(outcome) => (Note::from(HeapNote::OnlyGlobalAllocator), Some(heap_facts(outcome))),
        Counted::Events { .. } => (RecordingNote::OwnEvents.into(), None),
    };
    let mut notes = vec![note];
    if unknown_stacks {
        notes.push(HeapNote::StacksNotKept.into());
    }
    Meta {
        command: std::env::args_os().map(|part| part.to_string_lossy().into_owned()).collect(),
        recorder: concat!("whyslow-alloc ", env!("CARGO_PKG_VERSION")).to_owned(),
        started_unix_ns: recorded.started_unix_ns,
        duration_ns: recorded.end_ns,
        host: Host {
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            cpus: std::thread::available_parallelism().map_or(0, |cpus| cpus.get() as u32),
            ..Host::default()
        },
        heap,
        notes,
        ..Meta::default()
    }
}

fn heap_facts(outcome: &Outcome) -> HeapFacts {
    HeapFacts {
        peak_bytes: outcome.totals.peak.bytes,
        peak_ns: ProfileNs(outcome.totals.peak_ns),
        unknown_frees: outcome.totals.unknown_frees,
        temporary_within: 1,
        growth: Growth::Unknown.label().to_owned(),
        processes: 1,
        allocators: vec!["the Rust global allocator (whyslow-alloc)".to_owned()],
        ..HeapFacts::default()
    }
}
