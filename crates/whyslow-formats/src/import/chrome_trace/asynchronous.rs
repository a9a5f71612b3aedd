//! Slices that belong to no thread: `b` and `e`, and the older `S` and `F`, with the same id.
//!
//! An id counts in the whole trace, `id2.local` in its process. Events of several processes are not in order of
//! time, so pairs are only made at the end.

use rustc_hash::FxHashMap;
use whyslow_profile::{ProcessId, StringId};

use super::Mark;

/// What the two ends of a slice share.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The only process that knows the id, if there is one.
    pub(super) process: Option<ProcessId>,
    pub(super) category: StringId,
    pub(super) scope: StringId,
    pub(super) id: String,
    pub(super) name: StringId,
}

/// One end of a slice.
#[derive(Debug)]
pub(super) struct End {
    pub(super) time: f64,
    pub(super) begins: bool,
    pub(super) detail: Option<StringId>,
}

/// The ends of all slices.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// Where each key is in `rows`.
    keys: FxHashMap<Key, usize>,
    /// Name and ends per key, in the order of the file.
    rows: Vec<(StringId, Vec<End>)>,
}

impl Ends {
    pub(super) fn add(&mut self, key: Key, end: End) {
        let name = key.name;
        let row = *self.keys.entry(key).or_insert(self.rows.len());
        if row == self.rows.len() {
            self.rows.push((name, Vec::new()));
        }
        self.rows[row].1.push(end);
    }

    /// Joins each end with the latest begin before it. Returns the slices and the number of events left over.
    pub(super) fn join(self) -> (Vec<Mark>, u64) {
        let (mut slices, mut unmatched) = (Vec::new(), 0);
        for (name, mut ends) in self.rows {
            ends.sort_by(|a, b| a.time.total_cmp(&b.time));
            let mut open: Vec<End> = Vec::new();
            for end in ends {
                if end.begins {
                    open.push(end);
                } else if let Some(End { time, detail, .. }) = open.pop() {
                    slices.push(Mark { name, thread: None, start: time, end: end.time, detail });
                } else {
                    unmatched += 1;
                }
            }
            unmatched += open.len() as u64;
        }
        (slices, unmatched)
    }
}
