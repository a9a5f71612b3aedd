//! Heap batches: maps the numbers of their rows to rows of the profile. Everything else about them is only in the
//! profile.

use rustc_hash::FxHashMap;
use whyslow_numbers::ClockNs;
use whyslow_profile::batch::{
    Batch, CounterKind, CounterRow, ProcessRow, SiteEnd, StackSeen, TimelineRow, Transfer,
};
use whyslow_profile::heap::counter;
use whyslow_profile::{
    Counter, CounterId, GrowthBar, HeapSite, HeapTransfer, HistogramBar, HistogramOf, LocationId, MetricId,
    ModuleId, ProcessId, RelativeAddress, StackId, ThreadId, Unit,
};

use super::mappings::Mappings;
use super::setup::HeapMetrics;
use super::tables::Tables;

/// The rows of all batches so far.
#[derive(Debug)]
pub(super) struct HeapRows {
    metrics: HeapMetrics,
    processes: Vec<ProcessId>,
    threads: Vec<ThreadId>,
    modules: Vec<ModuleId>,
    stacks: Vec<StackId>,
    /// The root of truncated stacks.
    cut: Option<StackId>,
    counters: FxHashMap<(ProcessRow, CounterKind), CounterId>,
}

impl HeapRows {
    /// No rows yet.
    pub(super) fn new(metrics: HeapMetrics) -> Self {
        Self {
            metrics,
            processes: Vec::new(),
            threads: Vec::new(),
            modules: Vec::new(),
            stacks: Vec::new(),
            cut: None,
            counters: FxHashMap::default(),
        }
    }

    /// The next process. One that is reported again has executed another program, and has this name now.
    pub(super) fn add_process(&mut self, tables: &mut Tables, id: ProcessId, name: &str) {
        if self.processes.contains(&id) && !name.is_empty() {
            let name = tables.builder.string(name);
            tables.builder.update_process(id, |row| row.name = name);
        }
        self.processes.push(id);
    }

    /// The next thread.
    pub(super) fn add_thread(&mut self, id: ThreadId) {
        self.threads.push(id);
    }

    /// The next module.
    pub(super) fn add_module(&mut self, id: ModuleId) {
        self.modules.push(id);
    }

    /// The operating system's number of a process.
    pub(super) fn pid(&self, tables: &Tables, row: ProcessRow) -> Option<u32> {
        self.processes.get(row.index()).map(|&id| tables.builder.process_row(id).pid)
    }

    /// The processes of the recording that have not exited: numbers and names.
    pub(super) fn living(&self, tables: &Tables) -> Vec<(u32, String)> {
        let mut processes = self.processes.clone();
        processes.sort_unstable();
        processes.dedup();
        let rows = processes.into_iter().map(|id| tables.builder.process_row(id));
        let living = rows.filter(|row| row.end_ns.is_none());
        living.map(|row| (row.pid, tables.builder.text(row.name).to_owned())).collect()
    }

    /// Adds the stacks, counts and ends of a batch whose processes, threads and modules are known.
    pub(super) fn add(&mut self, tables: &mut Tables, code: &Mappings, batch: &Batch) {
        for stack in &batch.stacks {
            self.add_stack(tables, code, stack);
        }
        for row in &batch.rows {
            self.add_counts(tables, row);
        }
        for row in &batch.counters {
            self.add_counter(tables, row);
        }
        for &(process, time_ns) in &batch.ended {
            let row = process.index();
            let Some(&id) = self.processes.get(row) else { continue };
            // A process that executed another program continues.
            if self.processes[row + 1..].contains(&id) {
                continue;
            }
            let end_ns = Some(tables.since_start(time_ns).0);
            tables.builder.update_process(id, |row| row.end_ns = row.end_ns.or(end_ns));
        }
    }

    fn add_stack(&mut self, tables: &mut Tables, code: &Mappings, stack: &StackSeen) {
        let module = stack.module.and_then(|row| self.modules.get(row.index()).copied());
        let mut address = RelativeAddress(stack.address);
        let mut parent = stack.parent.and_then(|row| self.stacks.get(row.index()).copied());
        if parent.is_some()
            && parent == self.cut
            && let Some(begin) = module.and_then(|module| code.stack_begin(module, address))
        {
            (parent, address) = (None, begin);
        }
        let location = match (module, stack.address) {
            (None, 0) => LocationId::TRUNCATED,
            _ => tables.builder.location(module, address),
        };
        let row = tables.builder.stack(parent, location);
        if parent.is_none() && location == LocationId::TRUNCATED {
            self.cut = Some(row);
        }
        self.stacks.push(row);
    }

    fn add_counts(&mut self, tables: &mut Tables, row: &TimelineRow) {
        let (Some(&thread), Some(&stack)) =
            (self.threads.get(row.thread.index()), self.stacks.get(row.stack.index()))
        else {
            return;
        };
        let (metrics, time) = (self.metrics, tables.since_start(row.time_ns));
        let values = [
            (Some(metrics.bytes_allocated), row.bytes_allocated),
            (Some(metrics.allocations), row.allocations),
            (Some(metrics.bytes_freed), row.bytes_freed),
            (Some(metrics.temporary), row.temporary),
            (metrics.unused, row.unused_bytes),
        ];
        for (metric, value) in values {
            if let (Some(metric), 1..) = (metric, value) {
                tables.builder.sample(metric, time, thread, stack, value);
            }
        }
    }

    fn add_counter(&mut self, tables: &mut Tables, row: &CounterRow) {
        let Some(&process) = self.processes.get(row.process.index()) else { return };
        let name = match row.kind {
            CounterKind::Live => counter::LIVE,
            CounterKind::Resident => counter::RESIDENT,
        };
        let builder = &mut tables.builder;
        let counter = *self.counters.entry((row.process, row.kind)).or_insert_with(|| {
            let name = builder.string(name);
            builder.counter(Counter { name, unit: Unit::Bytes, process: Some(process) })
        });
        let time = tables.since_start(row.time_ns);
        let value = i64::try_from(row.value).unwrap_or(i64::MAX);
        tables.builder.counter_value(counter, time, value);
    }

    /// Adds the final numbers of a site.
    pub(super) fn add_site(&self, tables: &mut Tables, site: &SiteEnd<'_>) {
        let Some(&stack) = self.stacks.get(site.stack.index()) else { return };
        let heap = tables.builder.heap_mut();
        let row = heap.sites.len() as u32;
        heap.sites.push(HeapSite { stack, counts: site.counts, growth: site.growth });
        for (of, bars) in [(HistogramOf::Size, site.sizes), (HistogramOf::Lifetime, site.lifetimes)] {
            heap.histograms.extend(bars.iter().map(|&(bar, blocks)| HistogramBar {
                site: row,
                of,
                bar,
                blocks,
            }));
        }
        heap.growth.extend(site.chains.iter().map(|bar| GrowthBar { site: row.into(), ..*bar }));
        for (metric, (time, by_thread)) in
            [(self.metrics.live_at_peak, site.peak), (self.metrics.live_at_exit, site.exit)]
        {
            self.add_live(tables, metric, time, stack, by_thread);
        }
    }

    fn add_live(
        &self,
        tables: &mut Tables,
        metric: MetricId,
        time: ClockNs,
        stack: StackId,
        by_thread: &[(whyslow_profile::batch::ThreadRow, u64)],
    ) {
        let time = tables.since_start(time);
        for &(thread, bytes) in by_thread.iter().filter(|(_, bytes)| *bytes > 0) {
            if let Some(&thread) = self.threads.get(thread.index()) {
                tables.builder.sample(metric, time, thread, stack, bytes);
            }
        }
    }

    /// Adds blocks that another thread freed than the one that allocated them.
    pub(super) fn add_transfer(&self, tables: &mut Tables, transfer: Transfer) {
        let Transfer { from, to, blocks, bytes } = transfer;
        if let (Some(&from), Some(&to)) = (self.threads.get(from.index()), self.threads.get(to.index())) {
            tables.builder.heap_mut().transfers.push(HeapTransfer { from, to, blocks, bytes });
        }
    }
}
