//! What each thread did at each stack.

use rustc_hash::FxHashMap;

use super::peak::{Epoch, Peaked};
use crate::ids::{EntryRow, SiteRow, StackRow, ThreadRow};
use crate::outcome::TimelineRow;
use crate::sys;
use crate::weight::{Weight, Weights, add};

/// What a thread did at a stack, over some time.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) struct Activity {
    pub allocated: Weight,
    pub bytes_freed: u64,
    pub temporary: u64,
    pub unused: u64,
}

impl Activity {
    pub(super) fn add(&mut self, more: &Self) {
        self.allocated += more.allocated;
        for (sum, more) in [
            (&mut self.bytes_freed, more.bytes_freed),
            (&mut self.temporary, more.temporary),
            (&mut self.unused, more.unused),
        ] {
            add(sum, more);
        }
    }

    /// As a row of the timeline.
    pub(super) fn row(
        &self,
        time_ns: u64,
        thread: ThreadRow,
        stack: StackRow,
        weights: &Weights,
    ) -> TimelineRow {
        TimelineRow {
            time_ns,
            thread,
            stack,
            allocations: weights.blocks(self.allocated.blocks),
            bytes_allocated: self.allocated.bytes,
            bytes_freed: self.bytes_freed,
            temporary: weights.blocks(self.temporary),
            unused_bytes: self.unused,
        }
    }
}

/// One thread at one stack: two cache lines.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Entry {
    site: SiteRow,
    thread: ThreadRow,
    /// Whether it is in the list of those that changed since the last rows.
    touched: bool,
    live: Peaked,
    /// Bytes that were live when the process ended.
    exit_bytes: u64,
    /// Since the last rows.
    recent: Activity,
}

impl Entry {
    pub(super) fn site(&self) -> SiteRow {
        self.site
    }

    pub(super) fn thread(&self) -> ThreadRow {
        self.thread
    }

    pub(super) fn live(&self) -> &Peaked {
        &self.live
    }

    pub(super) fn exit_bytes(&self) -> u64 {
        self.exit_bytes
    }

    /// What happened since the last rows.
    pub(super) fn recent(&self) -> &Activity {
        &self.recent
    }

    /// A block is made.
    #[inline]
    pub(super) fn allocated(&mut self, weight: Weight, epoch: Epoch) {
        self.live.add(weight, epoch);
        self.recent.allocated += weight;
    }

    /// A block is freed.
    #[inline]
    pub(super) fn freed(&mut self, weight: Weight, epoch: Epoch) {
        self.live.subtract(weight, epoch);
        add(&mut self.recent.bytes_freed, weight.bytes);
    }

    /// A block that was freed was temporary.
    #[inline]
    pub(super) fn was_temporary(&mut self, blocks: u64) {
        add(&mut self.recent.temporary, blocks);
    }

    /// So many bytes of a block were never written.
    pub(super) fn had_unused(&mut self, bytes: u64) {
        add(&mut self.recent.unused, bytes);
    }

    /// A block is taken from its process at its end; `at_exit`, if that is an exit.
    pub(super) fn ended_with_process(&mut self, weight: Weight, epoch: Epoch, at_exit: bool) {
        self.live.subtract(weight, epoch);
        if at_exit {
            add(&mut self.exit_bytes, weight.bytes);
        }
    }
}

/// All entries.
#[derive(Debug, Default)]
pub(super) struct Entries {
    entries: Vec<Entry>,
    /// The same as in each entry, close together.
    sites: Vec<SiteRow>,
    /// Rows that can be used again.
    free: Vec<EntryRow>,
    by_key: FxHashMap<(StackRow, ThreadRow), EntryRow>,
    /// Those that changed since the last rows.
    touched: Vec<EntryRow>,
    closed: Closed,
}

impl Entries {
    pub(super) fn find(&self, stack: StackRow, thread: ThreadRow) -> Option<EntryRow> {
        self.by_key.get(&(stack, thread)).copied()
    }

    pub(super) fn added(
        &mut self,
        site: SiteRow,
        stack: StackRow,
        thread: ThreadRow,
        epoch: Epoch,
    ) -> EntryRow {
        let new = Entry {
            site,
            thread,
            touched: false,
            live: Peaked::new(epoch),
            exit_bytes: 0,
            recent: Activity::default(),
        };
        let row = match self.free.pop() {
            Some(row) => {
                self.entries[row.index()] = new;
                self.sites[row.index()] = site;
                row
            }
            None => {
                self.entries.push(new);
                self.sites.push(site);
                EntryRow::from(self.entries.len() - 1)
            }
        };
        self.by_key.insert((stack, thread), row);
        row
    }

    pub(super) fn get(&self, entry: EntryRow) -> &Entry {
        &self.entries[entry.index()]
    }

    /// The entry, which does not get a row of the timeline for what is done to it.
    #[inline]
    pub(super) fn get_mut(&mut self, entry: EntryRow) -> &mut Entry {
        &mut self.entries[entry.index()]
    }

    /// The entry, which gets a row of the timeline.
    #[inline]
    pub(super) fn touch(&mut self, row: EntryRow) -> &mut Entry {
        let entry = &mut self.entries[row.index()];
        if !entry.touched {
            entry.touched = true;
            self.touched.push(row);
        }
        entry
    }

    /// The site of each entry.
    #[inline]
    pub(super) fn sites(&self) -> &[SiteRow] {
        &self.sites
    }

    /// Asks for the memory of an entry.
    #[inline]
    pub(super) fn expect(&self, entry: EntryRow) {
        let entry = &self.entries[entry.index()];
        sys::prefetch(entry);
        sys::prefetch(&entry.recent.temporary);
    }

    /// All that are in use.
    pub(super) fn iter(&self) -> impl Iterator<Item = (EntryRow, &Entry)> {
        self.by_key.values().map(|&row| (row, &self.entries[row.index()]))
    }

    /// Those that changed since the last rows.
    pub(super) fn touched(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.touched.iter().map(|row| &self.entries[row.index()])
    }

    /// The rows of what changed go out: who, and what they did.
    pub(super) fn rows_closed(&mut self, mut each: impl FnMut(SiteRow, ThreadRow, &Activity)) {
        for row in self.touched.drain(..) {
            let entry = &mut self.entries[row.index()];
            entry.touched = false;
            let activity = std::mem::take(&mut entry.recent);
            self.closed.add(row, &activity);
            each(entry.site, entry.thread, &activity);
        }
    }

    /// Throws away what threads that ended have left behind, unless it is live or was at the peak.
    pub(super) fn sweep(
        &mut self,
        epoch: Epoch,
        has_ended: impl Fn(ThreadRow) -> bool,
        stack_of: impl Fn(SiteRow) -> StackRow,
    ) {
        let nothing = Weight::default();
        for (number, entry) in self.entries.iter().enumerate() {
            if !has_ended(entry.thread)
                || entry.touched
                || entry.exit_bytes != 0
                || entry.live.now() != nothing
                || entry.live.at_peak(epoch) != nothing
            {
                continue;
            }
            let (row, key) = (EntryRow::from(number), (stack_of(entry.site), entry.thread));
            if self.by_key.get(&key) == Some(&row) {
                self.by_key.remove(&key);
                self.closed.retire(row, key.0, key.1);
                self.free.push(row);
            }
        }
    }

    /// What an entry did in all, rows that went out included.
    pub(super) fn in_all(&self, row: EntryRow) -> Activity {
        let mut sum = self.closed.by_entry.get(row.index()).copied().unwrap_or_default();
        sum.add(&self.entries[row.index()].recent);
        sum
    }

    /// What threads did that were thrown away, by stack, under the first such thread.
    pub(super) fn of_swept(&self) -> impl Iterator<Item = (StackRow, ThreadRow, Activity)> {
        self.closed.of_swept.iter().map(|(&stack, &(thread, sum))| (stack, thread, sum))
    }
}

/// The sums of all rows that went out.
#[derive(Debug, Default)]
struct Closed {
    by_entry: Vec<Activity>,
    /// By stack: what threads did that were thrown away, under the first such thread.
    of_swept: FxHashMap<StackRow, (ThreadRow, Activity)>,
}

impl Closed {
    fn add(&mut self, row: EntryRow, activity: &Activity) {
        if self.by_entry.len() <= row.index() {
            self.by_entry.resize(row.index() + 1, Activity::default());
        }
        self.by_entry[row.index()].add(activity);
    }

    fn retire(&mut self, row: EntryRow, stack: StackRow, thread: ThreadRow) {
        let sum = self.by_entry.get_mut(row.index()).map(std::mem::take).unwrap_or_default();
        self.of_swept.entry(stack).or_insert((thread, Activity::default())).1.add(&sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: Weight = Weight { blocks: 1, bytes: 10 };

    #[test]
    fn what_goes_out_in_rows_stays_in_the_sum() {
        let mut entries = Entries::default();
        let row = entries.added(SiteRow(0), StackRow(5), ThreadRow(1), Epoch(0));
        assert_eq!(entries.find(StackRow(5), ThreadRow(1)), Some(row));
        for _ in 0..2 {
            entries.touch(row).allocated(BLOCK, Epoch(0));
            entries.touch(row).freed(BLOCK, Epoch(0));
            let mut out = Vec::new();
            entries.rows_closed(|site, thread, did| out.push((site, thread, did.allocated, did.bytes_freed)));
            assert_eq!(out, [(SiteRow(0), ThreadRow(1), BLOCK, 10)]);
        }
        assert_eq!(*entries.get(row).recent(), Activity::default());
        let sum = entries.in_all(row);
        assert_eq!((sum.allocated, sum.bytes_freed), (Weight { blocks: 2, bytes: 20 }, 20));
    }

    #[test]
    fn an_entry_is_thrown_away_when_its_thread_has_ended_and_it_holds_nothing() {
        let mut entries = Entries::default();
        let [empty, live] =
            [0, 1].map(|stack| entries.added(SiteRow(stack), StackRow(stack), ThreadRow(0), Epoch(0)));
        entries.touch(empty).had_unused(7);
        entries.touch(live).allocated(BLOCK, Epoch(0));
        entries.sweep(Epoch(1), |_| true, |site| StackRow(site.0));
        assert_eq!(entries.iter().count(), 2, "their rows have not gone out");
        entries.rows_closed(|_, _, _| ());
        entries.sweep(Epoch(1), |_| false, |site| StackRow(site.0));
        assert_eq!(entries.iter().count(), 2);
        entries.sweep(Epoch(1), |_| true, |site| StackRow(site.0));
        assert_eq!(entries.iter().map(|(row, _)| row).collect::<Vec<_>>(), [live]);
        let swept: Vec<_> = entries.of_swept().map(|(stack, _, sum)| (stack, sum.unused)).collect();
        assert_eq!(swept, [(StackRow(0), 7)]);
        assert_eq!(
            entries.added(SiteRow(2), StackRow(2), ThreadRow(1), Epoch(1)),
            empty,
            "its row is used again"
        );
    }
}
