//! Counting at the end of processes, and at the end of everything.

use super::{End, Tally};
use crate::ids::{ProcessRow, ThreadRow, Tick};
use crate::outcome::{Site, Transfer};
use crate::weight::Weight;

/// Time between the end of a process and the next timeline rows: times are whole nanoseconds.
const AFTER_END_NS: u64 = 1000;

/// Threads and bytes.
pub(super) type ByThread = Vec<(ThreadRow, u64)>;

impl Tally {
    /// Counts the end of a process: its blocks are no longer live, but were never freed. A process that
    /// executes another program has no exit.
    pub(crate) fn process_ended(&mut self, process: ProcessRow, tick: Tick, end: End) {
        if self.heights.process_ended(process) {
            return;
        }
        self.reach(tick);
        let Self { rules, ledger, heights, accounts, calendar, .. } = self;
        accounts.settle(rules);
        // The live bytes before the process ends: its end is not a free.
        let ((_, end_ns), now_ns) = (calendar.bucket_ns(&rules.clock), rules.clock.time(tick));
        accounts.reached(end_ns);
        heights.reached(end_ns);
        calendar.measured(process, now_ns, heights.bytes_of(process));
        let epoch = heights.epoch();
        let cuts = ledger.process_ended(process, |block| {
            let weight = rules.weights.of(block.size());
            accounts.growth_ended_with_process(block, weight);
            accounts.ended_with_process(block.entry, weight, tick.since(block.tick), end, epoch);
            heights.ended_with_process(process, weight, end);
        });
        for cut in cuts {
            let weight = self.cut_weight(&cut);
            let ticks = tick.since(cut.piece.tick);
            self.accounts.ended_with_process(cut.piece.entry, weight, ticks, end, epoch);
            self.heights.ended_with_process(process, weight, end);
        }
        self.calendar.measured(process, now_ns, 0);
        // Later events of other processes are after this end.
        self.close_rows();
        self.calendar.rows_start_at(tick.plus(self.rules.clock.span_ticks(AFTER_END_NS)));
    }

    /// The sites and the transfers, after all processes have ended.
    pub(crate) fn finish(&mut self) -> (Vec<Site>, Vec<Transfer>) {
        self.close_bucket();
        self.close_rows();
        let Self { rules, heights, accounts, .. } = self;
        let mut by_site: Vec<(Weight, ByThread, ByThread)> = vec![Default::default(); accounts.sites().len()];
        for (_, entry) in accounts.entries().iter() {
            let (sum, peaks, exits) = &mut by_site[entry.site.index()];
            let peak = entry.at_peak(heights.epoch());
            *sum += peak;
            if peak.bytes > 0 {
                peaks.push((entry.thread(), peak.bytes));
            }
            if entry.exit_bytes() > 0 {
                exits.push((entry.thread(), entry.exit_bytes()));
            }
        }
        // Each site is converted before the next one is taken out, so that they are not in memory twice.
        let mut sites = Vec::with_capacity(by_site.len());
        let outcomes = accounts.take_sites().zip(by_site).map(|(site, (peak, mut peaks, mut exits))| {
            peaks.sort_unstable();
            exits.sort_unstable();
            site.outcome(peak, peaks, exits, &rules.weights, &rules.clock)
        });
        sites.extend(outcomes);
        (sites, accounts.transfers(rules))
    }
}
