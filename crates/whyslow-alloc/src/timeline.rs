//! Allocations over time, in buckets. When there are too many rows, the bucket width doubles, so memory is
//! bounded however long the program runs.

use crate::tally::Weight;

const FIRST_WIDTH_NS: u64 = 10_000_000;
/// Above this many rows, buckets become wider.
const MOST_ROWS: usize = 1 << 18;

/// The changes of one entry in one bucket.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    bucket: u64,
    pub(crate) entry: u32,
    pub(crate) allocated: Weight,
    pub(crate) bytes_freed: u64,
    pub(crate) temporary: u64,
}

/// The rows so far.
#[derive(Debug)]
pub(crate) struct Timeline {
    width_ns: u64,
    most_rows: usize,
    rows: Vec<Row>,
    /// The last row of each entry.
    last: Vec<u32>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { width_ns: FIRST_WIDTH_NS, most_rows: MOST_ROWS, rows: Vec::new(), last: Vec::new() }
    }
}

impl Timeline {
    /// The row of an entry at a time. Times do not go back.
    pub(crate) fn row(&mut self, time_ns: u64, entry: u32) -> &mut Row {
        let bucket = time_ns / self.width_ns;
        let entry_row = entry as usize;
        if self.last.len() <= entry_row {
            self.last.resize(entry_row + 1, u32::MAX);
        }
        let mut row = self.last[entry_row] as usize;
        if self.rows.get(row).is_none_or(|row| row.bucket != bucket) {
            row = self.rows.len();
            self.last[entry_row] = row as u32;
            self.rows.push(Row { bucket, entry, ..Row::default() });
        }
        &mut self.rows[row]
    }

    /// Makes buckets wider if there are too many rows.
    pub(crate) fn trim(&mut self) {
        if self.rows.len() <= self.most_rows {
            return;
        }
        self.width_ns *= 2;
        for row in &mut self.rows {
            row.bucket /= 2;
        }
        self.rows.sort_unstable_by_key(|row| (row.bucket, row.entry));
        self.rows.dedup_by(|row, kept| {
            let same = (row.bucket, row.entry) == (kept.bucket, kept.entry);
            if same {
                kept.allocated += row.allocated;
                kept.bytes_freed += row.bytes_freed;
                kept.temporary += row.temporary;
            }
            same
        });
        for (number, row) in self.rows.iter().enumerate() {
            self.last[row.entry as usize] = number as u32;
        }
        // With very many entries, wider buckets alone do not reduce the rows enough.
        self.most_rows = self.most_rows.max(self.rows.len() + self.rows.len() / 2);
    }

    /// The rows, with the start of their buckets.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u64, &Row)> {
        self.rows.iter().map(|row| (row.bucket * self.width_ns, row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_keeps_few_rows_and_every_byte() {
        let mut timeline = Timeline { most_rows: 100, ..Timeline::default() };
        for turn in 0..10_000u64 {
            for entry in 0..3 {
                let row = timeline.row(turn * 7_000_000, entry);
                row.allocated += Weight { blocks: 1, bytes: turn };
                row.bytes_freed += 1;
            }
            timeline.trim();
        }
        std::assert!(timeline.rows.len() <= 100);
        let sum = |of: fn(&Row) -> u64| timeline.rows().map(|(_, row)| of(row)).sum::<u64>();
        std::assert_eq!(sum(|row| row.allocated.blocks), 30_000);
        std::assert_eq!(sum(|row| row.allocated.bytes), 3 * (0..10_000).sum::<u64>());
        std::assert_eq!(sum(|row| row.bytes_freed), 30_000);
        let times: Vec<u64> =
            timeline.rows().filter(|(_, row)| row.entry == 0).map(|(time, _)| time).collect();
        std::assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
        std::assert_eq!(times[0], 0);
    }
}
