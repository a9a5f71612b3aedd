//! What is left when processes end, and when everything does.

use super::{ByThread, Tally, Transfer};
use crate::chains::Chain;
use crate::outcome::{CounterKind, CounterRow, Site};
use crate::weight::{Weight, add};

/// How long after the end of a process the next rows of the timeline begin: times are whole nanoseconds.
const AFTER_END_NS: u64 = 1000;

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It is gone.
    Exit,
    /// It has become another program, and its memory was taken from it.
    Exec,
}

impl Tally {
    /// A process has ended: its blocks are no longer live, but were never freed. One that executes another program has no exit.
    pub(crate) fn end_process(&mut self, process: u32, tick: u64, end: End) {
        if std::mem::replace(&mut self.processes[process as usize].ended, true) {
            return;
        }
        self.reach(tick);
        self.settle_log();
        self.note_heights(process, tick);
        let row = &mut self.processes[process as usize];
        let blocks = std::mem::take(&mut row.blocks);
        let away = std::mem::take(&mut row.away);
        let mappings = std::mem::take(&mut row.mappings).cut_all();
        let own = blocks.iter().map(|(_, block)| block).filter(|block| !block.inherited());
        for block in own.chain(away.values().filter_map(|away| away.block.as_ref())) {
            let weight = self.weights.of(block.size());
            if block.chain() == Chain::Growing {
                let site = self.entries[block.entry as usize].site;
                self.sites[site as usize].chains.reached(block.size(), weight);
            }
            self.left(process, block.entry, weight, tick.saturating_sub(block.tick), end);
        }
        for cut in mappings {
            let weight = self.cut_weight(&cut);
            self.left(process, cut.piece.entry, weight, tick.saturating_sub(cut.piece.tick), end);
        }
        self.bequeath(process, blocks);
        self.note_live(process, tick, 0);
        // What others do from now on is later than this end.
        self.close_rows();
        self.rows_from = tick + self.clock.span_ticks(AFTER_END_NS);
    }

    /// Notes how much there is before a process leaves it behind: that is no giving back.
    fn note_heights(&mut self, process: u32, tick: u64) {
        let end_ns = self.clock.ns(self.timeline.end);
        for &number in &self.touched {
            let site = self.entries[number as usize].site;
            self.sites[site as usize].went_on(end_ns);
        }
        self.course.add(end_ns, self.live_bytes);
        self.note_live(process, tick, self.processes[process as usize].live.now.bytes);
    }

    fn note_live(&mut self, process: u32, tick: u64, value: u64) {
        let time_ns = self.clock.ns(tick);
        self.counters.push(CounterRow { process, kind: CounterKind::Live, time_ns, value });
    }

    fn left(&mut self, process: u32, entry: u32, weight: Weight, ticks: u64, end: End) {
        let entry = &mut self.entries[entry as usize];
        entry.live.subtract(weight, self.epoch);
        let site = &mut self.sites[entry.site as usize];
        site.left(weight, ticks);
        let process = &mut self.processes[process as usize];
        process.live.subtract(weight, self.epoch);
        if end == End::Exit {
            add(&mut entry.exit_bytes, weight.bytes);
            site.exit += weight;
            process.exit += weight;
        } else {
            site.given_back += weight;
        }
        self.live_bytes = self.live_bytes.wrapping_sub(weight.bytes);
    }

    /// The sites and the transfers, after all processes have ended.
    pub(crate) fn finish(&mut self) -> (Vec<Site>, Vec<Transfer>) {
        self.close_bucket();
        self.close_rows();
        let mut by_site: Vec<(Weight, ByThread, ByThread)> = vec![Default::default(); self.sites.len()];
        for &number in self.entry_of.values() {
            let entry = &self.entries[number as usize];
            let (sum, peaks, exits) = &mut by_site[entry.site as usize];
            let peak = entry.live.at_peak(self.epoch);
            *sum += peak;
            if peak.bytes > 0 {
                peaks.push((entry.thread, peak.bytes));
            }
            if entry.exit_bytes > 0 {
                exits.push((entry.thread, entry.exit_bytes));
            }
        }
        let sites = self
            .sites
            .iter()
            .zip(by_site)
            .map(|(site, (peak, mut peaks, mut exits))| {
                peaks.sort_unstable();
                exits.sort_unstable();
                site.outcome(peak, peaks, exits, &self.weights, &self.clock)
            })
            .collect();
        (sites, self.transfers())
    }

    /// Who freed whose blocks.
    pub(super) fn transfers(&self) -> Vec<Transfer> {
        let moved = |(&(from, to), moved): (&(u32, u32), &Weight)| {
            (from, to, self.weights.blocks(moved.blocks), moved.bytes)
        };
        let mut transfers: Vec<_> = self.transfers.iter().map(moved).collect();
        transfers.sort_unstable();
        transfers
    }
}
