//! The counts of calls until they are rows.

use rustc_hash::FxHashMap;
use whyslow_numbers::{ClockNs, ProfileNs};
use whyslow_profile::{Lengths, MetricId, StackId, StringId, Syscalls, ThreadId};

use super::super::tables::Tables;
use super::files::{FileId, Files};
use super::meaning::error_name;

/// The time span of one metric sample.
const BUCKET_NS: u64 = 50_000_000;

/// The counts of all calls.
#[derive(Debug)]
pub(super) struct Counts {
    metrics: [MetricId; 3],
    rows: FxHashMap<Key, Row>,
    buckets: FxHashMap<(ThreadId, StackId), Bucket>,
    bucket_ns: ClockNs,
    errors: FxHashMap<u16, StringId>,
}

/// A call that has returned, or that its thread did not return from.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) key: Key,
    /// Whether its stack is that of another call.
    pub(super) is_spread: bool,
    pub(super) length_ns: u64,
    pub(super) bytes: u64,
    pub(super) end_ns: ClockNs,
}

/// The key of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) thread: ThreadId,
    pub(super) stack: StackId,
    pub(super) call: StringId,
    pub(super) file: Option<FileId>,
    pub(super) error: u16,
}

#[derive(Debug, Default)]
struct Row {
    last_ns: ProfileNs,
    count: u64,
    spread: u64,
    total_ns: u64,
    max_ns: u64,
    bytes: u64,
    lengths: Lengths,
}

#[derive(Debug, Default, Clone, Copy)]
struct Bucket {
    last_ns: ProfileNs,
    /// Calls, nanoseconds, bytes.
    values: [u64; 3],
}

impl Counts {
    /// No counts yet. The metrics are those of calls, nanoseconds and bytes.
    pub(super) fn new(metrics: [MetricId; 3]) -> Self {
        let (rows, buckets, errors) = Default::default();
        Self { metrics, rows, buckets, bucket_ns: ClockNs::MIN, errors }
    }

    /// Counts a call.
    pub(super) fn add(&mut self, tables: &mut Tables, counted: &Counted) {
        let Counted { key, is_spread, length_ns: length, bytes, end_ns } = *counted;
        let last_ns = tables.since_start(end_ns);
        let row = self.rows.entry(key).or_default();
        row.last_ns = last_ns;
        row.count += 1;
        row.spread += u64::from(is_spread);
        row.total_ns += length;
        row.max_ns = row.max_ns.max(length);
        row.bytes += bytes;
        row.lengths.add(length);
        let bucket = self.buckets.entry((key.thread, key.stack)).or_default();
        bucket.last_ns = last_ns;
        for (value, more) in bucket.values.iter_mut().zip([1, length, bytes]) {
            *value += more;
        }
        if end_ns.since(self.bucket_ns) >= BUCKET_NS {
            self.bucket_ns = end_ns;
            self.flush_buckets(tables);
        }
    }

    /// Adds the counts to the tables, except rows of files whose names are not certain once all records up to a time
    /// have been read.
    pub(super) fn flush(&mut self, tables: &mut Tables, files: &mut Files, read_ns: ClockNs) {
        self.flush_buckets(tables);
        let Self { rows, errors, .. } = self;
        let builder = &mut tables.builder;
        let mut ready: Vec<(Key, Row)> =
            rows.extract_if(|key, _| key.file.is_none_or(|file| files.is_certain(file, read_ns))).collect();
        ready.sort_by_key(|(key, row)| (row.last_ns, key.thread, key.stack, key.call, key.error));
        for (key, row) in ready {
            let error = (key.error > 0)
                .then(|| *errors.entry(key.error).or_insert_with(|| builder.string(&error_name(key.error))));
            let file = key.file.and_then(|file| files.name(builder, file));
            builder.syscalls(Syscalls {
                time_ns: row.last_ns.0,
                thread: key.thread,
                stack: key.stack,
                call: key.call,
                file,
                error,
                count: row.count,
                spread: row.spread,
                total_ns: row.total_ns,
                max_ns: row.max_ns,
                bytes: row.bytes,
                lengths: row.lengths,
            });
        }
    }

    /// Adds the samples of the three metrics.
    fn flush_buckets(&mut self, tables: &mut Tables) {
        let mut buckets: Vec<_> = self.buckets.drain().collect();
        buckets.sort_by_key(|((thread, stack), bucket)| (bucket.last_ns, *thread, *stack));
        for ((thread, stack), bucket) in buckets {
            for (metric, value) in self.metrics.into_iter().zip(bucket.values) {
                if value > 0 {
                    tables.builder.sample(metric, bucket.last_ns, thread, stack, value);
                }
            }
        }
    }
}
