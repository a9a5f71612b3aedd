//! What becomes of numbers when time goes on: buckets end, rows go out, threads that have ended are forgotten.

use super::Tally;
use crate::outcome::{CounterKind, CounterRow, TimelineRow};
use crate::weight::{Weight, add};

/// Time that a row of the timeline stands for at least, on average.
const ROW_NS: u64 = 10_000;
/// Ended threads after which their entries are looked through.
pub(super) const SWEEP_AFTER: usize = 64;

impl Tally {
    /// Time has come this far.
    #[inline]
    pub(crate) fn reach(&mut self, tick: u64) {
        if tick >= self.timeline.end {
            self.close_bucket();
            self.timeline.next(tick, &self.clock);
        }
    }

    /// The rows of what was touched since the last ones. With many stacks they come less often than buckets end, so that they are never more
    /// than one per [`ROW_NS`].
    #[cold]
    pub(super) fn close_rows(&mut self) {
        self.settle_log();
        let time_ns = self.clock.ns(self.rows_from);
        let end_ns = self.clock.ns(self.timeline.end);
        let touched = std::mem::take(&mut self.touched);
        self.rows_from = self.timeline.end;
        self.rows_until = self.rows_from + self.clock.span_ticks(touched.len() as u64 * ROW_NS);
        for number in touched {
            let entry = &mut self.entries[number as usize];
            let site = &mut self.sites[entry.site as usize];
            site.went_on(end_ns);
            site.made += entry.made;
            add(&mut site.temporary, entry.temporary);
            add(&mut site.unused_bytes, entry.unused);
            add(&mut self.totals.bytes_allocated, entry.made.bytes);
            self.rows.push(TimelineRow {
                time_ns,
                thread: entry.thread,
                stack: site.stack,
                allocations: self.weights.blocks(entry.made.blocks),
                bytes_allocated: entry.made.bytes,
                bytes_freed: entry.bytes_freed,
                temporary: self.weights.blocks(entry.temporary),
                unused_bytes: entry.unused,
            });
            self.sums.close(number, entry);
            entry.touched = false;
            entry.made = Weight::default();
            entry.bytes_freed = 0;
            entry.temporary = 0;
            entry.unused = 0;
        }
    }

    #[cold]
    pub(super) fn close_bucket(&mut self) {
        if self.timeline.end >= self.rows_until {
            self.close_rows();
        }
        let time_ns = self.clock.ns(self.timeline.start);
        let end_ns = self.clock.ns(self.timeline.end);
        let peak_ns = self.clock.ns(self.totals.peak_tick).clamp(time_ns, end_ns);
        for (row, process) in self.processes.iter().enumerate().filter(|(_, process)| !process.ended) {
            let mut live = |time_ns, value| {
                self.counters.push(CounterRow {
                    process: row as u32,
                    kind: CounterKind::Live,
                    time_ns,
                    value,
                });
            };
            if self.peaked {
                live(peak_ns, process.live.at_peak(self.epoch).bytes);
            }
            live(end_ns, process.live.now.bytes);
        }
        self.course.add(end_ns, self.live_bytes);
        self.peaked = false;
        if self.ended_threads >= SWEEP_AFTER {
            self.sweep();
        }
    }

    /// Throws away what threads that ended have left behind, unless it is live or was at the peak.
    fn sweep(&mut self) {
        self.ended_threads = 0;
        self.settle_log();
        for (number, entry) in self.entries.iter().enumerate() {
            let nothing = Weight::default();
            if self.threads[entry.thread as usize].ended
                && !entry.touched
                && entry.exit_bytes == 0
                && entry.live.now == nothing
                && entry.live.at_peak(self.epoch) == nothing
            {
                let key = (self.sites[entry.site as usize].stack, entry.thread);
                if self.entry_of.get(&key) == Some(&(number as u32)) {
                    self.entry_of.remove(&key);
                    self.sums.retire(number as u32, key.0, key.1);
                    self.free_entries.push(number as u32);
                }
            }
        }
    }
}
