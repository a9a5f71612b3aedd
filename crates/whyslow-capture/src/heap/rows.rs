//! Turns the collector's batches into rows of the profile, next to those of the CPU samples.

use std::borrow::Borrow;

use rustc_hash::FxHashMap;
use whyslow_convert::Converter;
use whyslow_heap::{Batch, CounterKind, Outcome, ProcessRow, Site, Transfer};
use whyslow_proc::process;
use whyslow_profile::heap::{counter, metric};
use whyslow_profile::{
    Builder, Counter, CounterId, GrowthBar, Heap, HeapNote, HeapSite, HeapTransfer, HistogramBar,
    HistogramOf, LocationId, Metric, MetricId, ModuleId, ModuleKind, Origin, Process, ProcessId,
    RelativeAddress, StackId, ThreadId, Unit,
};

use crate::HeapOptions;
use crate::live::LiveWorld;

/// The metrics of a heap recording.
#[derive(Debug, Clone, Copy)]
struct Metrics {
    bytes_allocated: MetricId,
    allocations: MetricId,
    bytes_freed: MetricId,
    live_at_peak: MetricId,
    live_at_exit: MetricId,
    temporary: MetricId,
    unused: Option<MetricId>,
}

/// Maps the collector's rows to rows of the profile. Everything else about them is only in the profile.
#[derive(Debug)]
pub(crate) struct HeapRows {
    metrics: Metrics,
    processes: Vec<ProcessId>,
    threads: Vec<ThreadId>,
    modules: Vec<ModuleId>,
    stacks: Vec<StackId>,
    /// The root of truncated stacks.
    cut: Option<StackId>,
    counters: FxHashMap<(ProcessRow, CounterKind), CounterId>,
}

impl HeapRows {
    /// Creates the rows of a recording with these options.
    pub(crate) fn new(converter: &mut Converter<LiveWorld>, options: &HeapOptions) -> Self {
        let builder = &mut converter.builder;
        let origin = if options.sample_bytes.is_some() { Origin::Estimated } else { Origin::Counted };
        let mut add = |name, unit| builder.metric(Metric::of_name(name, unit).with_origin(origin));
        let metrics = Metrics {
            bytes_allocated: add(metric::BYTES_ALLOCATED, Unit::Bytes),
            allocations: add(metric::ALLOCATIONS, Unit::Count),
            bytes_freed: add(metric::BYTES_FREED, Unit::Bytes),
            live_at_peak: add(metric::LIVE_AT_PEAK, Unit::Bytes),
            live_at_exit: add(metric::LIVE_AT_EXIT, Unit::Bytes),
            temporary: add(metric::TEMPORARY, Unit::Count),
            unused: options.unused.then(|| add(metric::UNUSED, Unit::Bytes)),
        };
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

    /// Adds new rows.
    pub(crate) fn add(&mut self, converter: &mut Converter<LiveWorld>, batch: &Batch) {
        self.add_tables(converter, batch);
        let metrics = self.metrics;
        for row in &batch.rows {
            let (Some(&thread), Some(&stack)) =
                (self.threads.get(row.thread.index()), self.stacks.get(row.stack.index()))
            else {
                continue;
            };
            let time = converter.since_start(row.time_ns);
            let values = [
                (Some(metrics.bytes_allocated), row.bytes_allocated),
                (Some(metrics.allocations), row.allocations),
                (Some(metrics.bytes_freed), row.bytes_freed),
                (Some(metrics.temporary), row.temporary),
                (metrics.unused, row.unused_bytes),
            ];
            for (metric, value) in values {
                if let (Some(metric), 1..) = (metric, value) {
                    converter.builder.sample(metric, time, thread, stack, value);
                }
            }
        }
        for row in &batch.counters {
            let Some(&process) = self.processes.get(row.process.index()) else { continue };
            let name = match row.kind {
                CounterKind::Live => counter::LIVE,
                CounterKind::Resident => counter::RESIDENT,
            };
            let builder = &mut converter.builder;
            let counter = *self.counters.entry((row.process, row.kind)).or_insert_with(|| {
                let name = builder.string(name);
                builder.counter(Counter { name, unit: Unit::Bytes, process: Some(process) })
            });
            let (time, value) = (converter.since_start(row.time_ns), row.value);
            converter.builder.counter_value(counter, time, i64::try_from(value).unwrap_or(i64::MAX));
        }
        for &(process, time_ns) in &batch.ended {
            let row = process.index();
            let Some(&id) = self.processes.get(row) else { continue };
            // A process that executed another program continues.
            if self.processes[row + 1..].contains(&id) {
                continue;
            }
            let end_ns = Some(converter.since_start(time_ns));
            converter.builder.update_process(id, |row| row.end_ns = row.end_ns.or(end_ns));
        }
    }

    fn pid(&self, converter: &Converter<LiveWorld>, row: ProcessRow) -> Option<u32> {
        self.processes.get(row.index()).map(|&id| converter.builder.process_row(id).pid)
    }

    fn add_tables(&mut self, converter: &mut Converter<LiveWorld>, batch: &Batch) {
        for process in &batch.processes {
            let parent = process.parent.and_then(|row| self.pid(converter, row));
            let id = converter.task_process(process.pid, parent, &process.name, process.start_ns);
            // A process that is reported again has executed another program.
            if self.processes.contains(&id) && !process.name.is_empty() {
                let name = converter.builder.string(&process.name);
                converter.builder.update_process(id, |row| row.name = name);
            }
            self.processes.push(id);
        }
        for thread in &batch.threads {
            let pid = self.pid(converter, thread.process).unwrap_or(0);
            self.threads.push(converter.task_thread(pid, thread.tid, &thread.name, thread.start_ns));
        }
        for module in &batch.modules {
            let pid = self.pid(converter, module.process).unwrap_or(0);
            let kind = if module.is_program { ModuleKind::Program } else { ModuleKind::Library };
            self.modules.push(converter.module(pid, &module.path, kind));
        }
        for stack in &batch.stacks {
            let module = stack.module.and_then(|row| self.modules.get(row.index()).copied());
            let mut address = RelativeAddress(stack.address);
            let mut parent = stack.parent.and_then(|row| self.stacks.get(row.index()).copied());
            if parent.is_some()
                && parent == self.cut
                && let Some(begin) = module.and_then(|module| converter.stack_begin(module, address))
            {
                (parent, address) = (None, begin);
            }
            let location = match (module, stack.address) {
                (None, 0) => LocationId::TRUNCATED,
                _ => converter.builder.location(module, address),
            };
            let row = converter.builder.stack(parent, location);
            if parent.is_none() && location == LocationId::TRUNCATED {
                self.cut = Some(row);
            }
            self.stacks.push(row);
        }
    }

    /// The note about processes that outlive the program that started them.
    fn outliving(&self, builder: &Builder) -> Option<HeapNote> {
        let mut processes = self.processes.clone();
        processes.sort_unstable();
        processes.dedup();
        let rows = processes.into_iter().map(|id| builder.process_row(id));
        let lives = |process: &&Process| process.end_ns.is_none() && process::runs(process.pid);
        let living: Vec<_> = rows.filter(lives).collect();
        let first = living.first()?;
        let more = living.len() as u64 - 1;
        let name = builder.text(first.name).to_owned();
        Some(HeapNote::ProcessesWentOn { pid: first.pid, name, more })
    }

    /// Adds the data that is only known at the end, and frees the outcome's sites one by one. Returns the
    /// notes.
    pub(crate) fn finish(
        self,
        converter: &mut Converter<LiveWorld>,
        outcome: &mut Outcome,
        end_ns: u64,
    ) -> Option<HeapNote> {
        let sites = std::mem::take(&mut outcome.sites).into_iter();
        self.finish_with(converter, outcome, sites, end_ns)
    }

    /// Like [`Self::finish`], with the outcome's sites passed separately.
    pub(super) fn finish_with(
        mut self,
        converter: &mut Converter<LiveWorld>,
        outcome: &Outcome,
        sites: impl ExactSizeIterator<Item = impl Borrow<Site>>,
        end_ns: u64,
    ) -> Option<HeapNote> {
        self.add(converter, &outcome.batch);
        let mut heap = Heap::default();
        let (peak, end) = (converter.since_start(outcome.facts.peak_ns), converter.since_start(end_ns));
        heap.sites.reserve_exact(sites.len());
        for site in sites {
            let site = site.borrow();
            let Some(&stack) = self.stacks.get(site.stack.index()) else { continue };
            let row = heap.sites.len() as u32;
            heap.sites.push(HeapSite { stack, counts: site.counts, growth: site.growth });
            for (of, blocks) in [(HistogramOf::Size, &site.sizes), (HistogramOf::Lifetime, &site.lifetimes)] {
                heap.histograms.extend(blocks.bars().map(|(bar, blocks)| HistogramBar {
                    site: row,
                    of,
                    bar,
                    blocks,
                }));
            }
            heap.growth.extend(site.chains.iter().map(|bar| GrowthBar { site: row.into(), ..*bar }));
            let tables = [
                (self.metrics.live_at_peak, peak, &site.peak_by_thread),
                (self.metrics.live_at_exit, end, &site.exit_by_thread),
            ];
            for (metric, time, by_thread) in tables {
                for &(thread, bytes) in by_thread.iter().filter(|(_, bytes)| *bytes > 0) {
                    if let Some(&thread) = self.threads.get(thread.index()) {
                        converter.builder.sample(metric, time, thread, stack, bytes);
                    }
                }
            }
        }
        for &Transfer { from, to, blocks, bytes } in &outcome.transfers {
            if let (Some(&from), Some(&to)) = (self.threads.get(from.index()), self.threads.get(to.index())) {
                heap.transfers.push(HeapTransfer { from, to, blocks, bytes });
            }
        }
        converter.builder.heap(heap);
        self.outliving(&converter.builder)
    }
}

#[cfg(test)]
mod tests {
    use whyslow_heap::ProcessSeen;

    use super::*;

    #[test]
    fn a_process_that_executes_another_program_is_one_process_with_its_last_name() {
        let mut converter = Converter::new(LiveWorld::default(), 0, 0);
        let mut rows = HeapRows::new(&mut converter, &HeapOptions::default());
        let pid = std::process::id();
        let seen = |name: &str, start_ns| ProcessSeen { pid, parent: None, name: name.to_owned(), start_ns };
        let processes = vec![seen("sh", 1), seen("app", 5)];
        let executed = Batch { processes, ended: vec![(ProcessRow(0), 5)], ..Batch::default() };
        rows.add(&mut converter, &executed);
        assert_eq!(rows.processes[0], rows.processes[1]);
        let row = converter.builder.process_row(rows.processes[0]);
        assert_eq!((converter.builder.text(row.name), row.end_ns), ("app", None));
        assert!(rows.outliving(&converter.builder).is_some(), "it still runs");
        rows.add(&mut converter, &Batch { ended: vec![(ProcessRow(1), 9)], ..Batch::default() });
        assert_eq!(converter.builder.process_row(rows.processes[0]).end_ns, Some(9));
        assert!(rows.outliving(&converter.builder).is_none());
    }
}
