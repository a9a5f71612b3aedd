//! Counts of each thread at each stack.

use rustc_hash::FxHashMap;
use whyslow_numbers::ClockNs;

use super::peak::Epoch;
use crate::ids::{EntryRow, SiteRow, StackRow, ThreadRow};
use crate::outcome::TimelineRow;
use crate::shelf::Shelf;
use crate::sys;
use crate::weight::{Weight, Weights, add};

/// The counts of a thread at a stack, over some time.
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

    /// The counts as a timeline row.
    pub(super) fn row(
        &self,
        time_ns: ClockNs,
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

/// The part of an entry that every event changes: one cache line.
#[derive(Debug)]
#[repr(align(64))]
struct Entry {
    live: Weight,
    /// The epoch of the peak in which `live` last changed.
    epoch: Epoch,
    /// Allocated since the last rows.
    allocated: Weight,
    bytes_freed: u64,
    temporary: u64,
    thread: ThreadRow,
    /// Whether it is in the list of entries that changed since the last rows.
    touched: bool,
}

/// The part of an entry that few events change.
#[derive(Debug, Default)]
struct Seldom {
    /// What was live at the start of its epoch.
    at_epoch: Weight,
    /// Unused bytes since the last rows.
    unused: u64,
    /// Bytes that were live when the process exited.
    exit_bytes: u64,
}

/// A read-only view of an entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    pub site: SiteRow,
    entry: &'a Entry,
    seldom: &'a Seldom,
}

impl Seen<'_> {
    pub(super) fn thread(&self) -> ThreadRow {
        self.entry.thread
    }

    /// Live now.
    pub(super) fn live(&self) -> Weight {
        self.entry.live
    }

    /// Live at the peak with this epoch.
    pub(super) fn at_peak(&self, epoch: Epoch) -> Weight {
        if self.entry.epoch == epoch { self.seldom.at_epoch } else { self.entry.live }
    }

    pub(super) fn exit_bytes(&self) -> u64 {
        self.seldom.exit_bytes
    }

    /// The counts since the last rows.
    pub(super) fn recent(&self) -> Activity {
        let Entry { allocated, bytes_freed, temporary, .. } = *self.entry;
        Activity { allocated, bytes_freed, temporary, unused: self.seldom.unused }
    }
}

/// All entries.
#[derive(Debug, Default)]
pub(super) struct Entries {
    entries: Shelf<Entry>,
    seldom: Shelf<Seldom>,
    /// The site of each entry.
    sites: Vec<SiteRow>,
    /// Rows that can be used again.
    free: Vec<EntryRow>,
    by_key: FxHashMap<(StackRow, ThreadRow), EntryRow>,
    /// Entries that changed since the last rows.
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
            live: Weight::default(),
            epoch,
            allocated: Weight::default(),
            bytes_freed: 0,
            temporary: 0,
            thread,
            touched: false,
        };
        let row = match self.free.pop() {
            Some(row) => {
                self.entries[row.index()] = new;
                self.seldom[row.index()] = Seldom::default();
                self.sites[row.index()] = site;
                row
            }
            None => {
                self.sites.push(site);
                self.seldom.push(Seldom::default());
                EntryRow::from(self.entries.push(new))
            }
        };
        self.by_key.insert((stack, thread), row);
        row
    }

    pub(super) fn get(&self, row: EntryRow) -> Seen<'_> {
        let at = row.index();
        Seen { site: self.sites[at], entry: &self.entries[at], seldom: &self.seldom[at] }
    }

    /// The entry, marked for a timeline row.
    #[inline]
    fn touch(&mut self, row: EntryRow) -> &mut Entry {
        let entry = &mut self.entries[row.index()];
        if !entry.touched {
            entry.touched = true;
            self.touched.push(row);
        }
        entry
    }

    /// The entry, after saving what was live at the start of the epoch.
    #[inline]
    fn touch_live(&mut self, row: EntryRow, epoch: Epoch) -> &mut Entry {
        let entry = &mut self.entries[row.index()];
        if entry.epoch != epoch {
            entry.epoch = epoch;
            self.seldom[row.index()].at_epoch = entry.live;
        }
        self.touch(row)
    }

    /// Counts an allocated block.
    #[inline]
    pub(super) fn allocated(&mut self, row: EntryRow, weight: Weight, epoch: Epoch) {
        let entry = self.touch_live(row, epoch);
        entry.live += weight;
        entry.allocated += weight;
    }

    /// Counts a freed block. Returns the thread that allocated it.
    #[inline]
    pub(super) fn freed(&mut self, row: EntryRow, weight: Weight, epoch: Epoch) -> ThreadRow {
        let entry = self.touch_live(row, epoch);
        entry.live -= weight;
        add(&mut entry.bytes_freed, weight.bytes);
        entry.thread
    }

    /// Counts a freed block as temporary.
    #[inline]
    pub(super) fn was_temporary(&mut self, row: EntryRow, blocks: u64) {
        add(&mut self.entries[row.index()].temporary, blocks);
    }

    /// Counts bytes of a block that were never written.
    pub(super) fn had_unused(&mut self, row: EntryRow, bytes: u64) {
        self.touch(row);
        add(&mut self.seldom[row.index()].unused, bytes);
    }

    /// Counts a block that ends with its process; `at_exit` if that is an exit. This adds no timeline row.
    pub(super) fn ended_with_process(&mut self, row: EntryRow, weight: Weight, epoch: Epoch, at_exit: bool) {
        let (entry, seldom) = (&mut self.entries[row.index()], &mut self.seldom[row.index()]);
        if entry.epoch != epoch {
            entry.epoch = epoch;
            seldom.at_epoch = entry.live;
        }
        entry.live -= weight;
        if at_exit {
            add(&mut seldom.exit_bytes, weight.bytes);
        }
    }

    /// The site of each entry.
    #[inline]
    pub(super) fn sites(&self) -> &[SiteRow] {
        &self.sites
    }

    /// Prefetches the memory of an entry.
    #[inline]
    pub(super) fn expect(&self, entry: EntryRow) {
        sys::prefetch(&self.entries[entry.index()]);
    }

    /// All entries in use.
    pub(super) fn iter(&self) -> impl Iterator<Item = (EntryRow, Seen<'_>)> {
        self.by_key.values().map(|&row| (row, self.get(row)))
    }

    /// The sites of entries that changed since the last rows.
    pub(super) fn touched(&self) -> impl ExactSizeIterator<Item = SiteRow> {
        self.touched.iter().map(|row| self.sites[row.index()])
    }

    /// Emits the rows of changed entries: site, thread and counts.
    pub(super) fn rows_closed(&mut self, mut each: impl FnMut(SiteRow, ThreadRow, &Activity)) {
        for row in self.touched.drain(..) {
            let (entry, seldom) = (&mut self.entries[row.index()], &mut self.seldom[row.index()]);
            entry.touched = false;
            let activity = Activity {
                allocated: std::mem::take(&mut entry.allocated),
                bytes_freed: std::mem::take(&mut entry.bytes_freed),
                temporary: std::mem::take(&mut entry.temporary),
                unused: std::mem::take(&mut seldom.unused),
            };
            self.closed.add(row, &activity);
            each(self.sites[row.index()], entry.thread, &activity);
        }
    }

    /// Drops the entries of exited threads, unless they have live blocks or had some at the peak.
    pub(super) fn sweep(
        &mut self,
        epoch: Epoch,
        has_ended: impl Fn(ThreadRow) -> bool,
        stack_of: impl Fn(SiteRow) -> StackRow,
    ) {
        let nothing = Weight::default();
        for row in (0..self.entries.len()).map(EntryRow::from) {
            let seen = self.get(row);
            if !has_ended(seen.thread())
                || seen.entry.touched
                || seen.exit_bytes() != 0
                || seen.live() != nothing
                || seen.at_peak(epoch) != nothing
            {
                continue;
            }
            let key = (stack_of(seen.site), seen.thread());
            if self.by_key.get(&key) == Some(&row) {
                self.by_key.remove(&key);
                self.closed.retire(row, key.0, key.1);
                self.free.push(row);
            }
        }
    }

    /// The total counts of an entry, including emitted rows.
    pub(super) fn in_all(&self, row: EntryRow) -> Activity {
        let mut sum = self.closed.of(row).copied().unwrap_or_default();
        sum.add(&self.get(row).recent());
        sum
    }

    /// The counts of dropped entries by stack, under the first such thread.
    pub(super) fn of_swept(&self) -> impl Iterator<Item = (StackRow, ThreadRow, Activity)> {
        self.closed.of_swept.iter().map(|(&stack, &(thread, sum))| (stack, thread, sum))
    }
}

/// The sums of all emitted rows.
#[derive(Debug, Default)]
struct Closed {
    by_entry: Shelf<Activity>,
    /// The counts of dropped entries by stack, under the first such thread.
    of_swept: FxHashMap<StackRow, (ThreadRow, Activity)>,
}

impl Closed {
    fn of(&self, row: EntryRow) -> Option<&Activity> {
        self.by_entry.get(row.index())
    }

    fn add(&mut self, row: EntryRow, activity: &Activity) {
        while self.by_entry.len() <= row.index() {
            self.by_entry.push(Activity::default());
        }
        self.by_entry[row.index()].add(activity);
    }

    fn retire(&mut self, row: EntryRow, stack: StackRow, thread: ThreadRow) {
        let has_any = row.index() < self.by_entry.len();
        let sum = if has_any { std::mem::take(&mut self.by_entry[row.index()]) } else { Activity::default() };
        self.of_swept.entry(stack).or_insert((thread, Activity::default())).1.add(&sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: Weight = Weight { blocks: 1, bytes: 10 };

    #[test]
    fn an_entry_keeps_its_value_at_the_peak_and_takes_one_cache_line() {
        assert_eq!(size_of::<Entry>(), 64);
        let mut entries = Entries::default();
        let row = entries.added(SiteRow(0), StackRow(5), ThreadRow(1), Epoch(0));
        entries.allocated(row, BLOCK, Epoch(0));
        assert_eq!(entries.get(row).at_peak(Epoch(1)), BLOCK, "it has not changed since");
        entries.freed(row, BLOCK, Epoch(1));
        assert_eq!((entries.get(row).at_peak(Epoch(1)), entries.get(row).live()), (BLOCK, Weight::default()));
        assert_eq!(entries.get(row).at_peak(Epoch(2)), Weight::default());
        entries.allocated(row, BLOCK, Epoch(2));
        entries.ended_with_process(row, BLOCK, Epoch(3), true);
        assert_eq!((entries.get(row).at_peak(Epoch(3)), entries.get(row).exit_bytes()), (BLOCK, 10));
    }

    #[test]
    fn emitted_rows_are_part_of_the_sum() {
        let mut entries = Entries::default();
        let row = entries.added(SiteRow(0), StackRow(5), ThreadRow(1), Epoch(0));
        assert_eq!(entries.find(StackRow(5), ThreadRow(1)), Some(row));
        for _ in 0..2 {
            entries.allocated(row, BLOCK, Epoch(0));
            assert_eq!(entries.freed(row, BLOCK, Epoch(0)), ThreadRow(1));
            let mut out = Vec::new();
            entries.rows_closed(|site, thread, did| out.push((site, thread, did.allocated, did.bytes_freed)));
            assert_eq!(out, [(SiteRow(0), ThreadRow(1), BLOCK, 10)]);
        }
        assert_eq!(entries.get(row).recent(), Activity::default());
        let sum = entries.in_all(row);
        assert_eq!((sum.allocated, sum.bytes_freed), (Weight { blocks: 2, bytes: 20 }, 20));
    }

    #[test]
    fn drops_an_empty_entry_of_an_exited_thread() {
        let mut entries = Entries::default();
        let [empty, live] =
            [0, 1].map(|stack| entries.added(SiteRow(stack), StackRow(stack), ThreadRow(0), Epoch(0)));
        entries.had_unused(empty, 7);
        entries.allocated(live, BLOCK, Epoch(0));
        entries.sweep(Epoch(1), |_| true, |site| StackRow(site.0));
        assert_eq!(entries.iter().count(), 2, "their rows have not been emitted");
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
