//! The viewer's payload for waits: the reason of each wait, and the kind of time of each reason.

use rustc_hash::FxHashMap;
use serde::Serialize;
use whyslow_analyze::{Charges, LockRow, LockTable, Reason, Selection, TimeKind, row_reasons, wait_metric};
use whyslow_profile::{MetricId, Profile, ThreadId, WaitDetail, WokenBy};

use super::container::{Columns, NONE};
use super::heap::function;
use super::payload::collect;
use super::texts::Texts;

/// The names of the reasons and kinds of time, for the payload's header.
#[derive(Serialize)]
pub(super) struct WaitHead {
    time_kinds: Vec<Kind>,
    reasons: Vec<Word>,
}

#[derive(Serialize)]
struct Kind {
    word: &'static str,
    state: &'static str,
}

#[derive(Serialize)]
struct Word {
    word: &'static str,
    /// The row of its kind of time.
    kind: usize,
}

impl WaitHead {
    /// The names, if the profile has waits.
    pub(super) fn of(profile: &Profile) -> Option<Self> {
        wait_metric(profile)?;
        let kind = |kind: TimeKind| Kind { word: kind.word(), state: kind.state() };
        let place = |reason| TimeKind::ALL.iter().position(|kind| *kind == TimeKind::of(reason));
        let word = |reason: Reason| Word { word: reason.label(), kind: place(reason).unwrap_or(0) };
        Some(Self { time_kinds: TimeKind::ALL.map(kind).into(), reasons: Reason::ALL.map(word).into() })
    }
}

/// For each row of a metric's samples: 0 if the thread ran, else 1 + the row of the wait's reason. `None` for
/// metrics without waits.
pub(super) fn reasons(profile: &Profile, metric: MetricId) -> Option<Vec<u8>> {
    let code = |reason| 1 + Reason::ALL.iter().position(|known| *known == reason).unwrap_or(0) as u8;
    Some(row_reasons(profile, metric)?.into_iter().map(|reason| reason.map_or(0, code)).collect())
}

/// Further facts about single waits.
pub(super) struct Details<'p> {
    profile: &'p Profile,
    metric: MetricId,
    row_of: FxHashMap<(ThreadId, u64), usize>,
}

impl<'p> Details<'p> {
    /// The facts about the waits of a metric, if there are any.
    pub(super) fn of(profile: &'p Profile, metric: MetricId) -> Option<Self> {
        let details = &profile.wait_details;
        if details.is_empty() || wait_metric(profile) != Some(metric) {
            return None;
        }
        let row_of = (0..details.len()).map(|row| ((details.thread[row], details.end_ns[row]), row));
        Some(Self { profile, metric, row_of: row_of.collect() })
    }

    /// Adds a column for each fact, with the rows of the metric's samples in this order.
    pub(super) fn push(&self, columns: &mut Columns<'p>, name: impl Fn(&str) -> String, rows: &[usize]) {
        let samples = &self.profile.samples[self.metric.index()];
        let found = collect(rows, |&row| {
            let key = (samples.thread[row], samples.time_ns[row]);
            self.row_of.get(&key).map(|&at| self.profile.wait_details.row(at))
        });
        let number =
            |fact: fn(WaitDetail) -> Option<u32>| collect(&found, |row| row.and_then(fact).unwrap_or(NONE));
        columns.u32(name("cpu"), number(|row| row.cpu));
        columns.u32(name("waker"), number(|row| row.waker.map(|thread| thread.0)));
        columns.u32(name("waker_stack"), number(|row| row.waker_stack.map(|stack| stack.0)));
        columns.f64(name("argument"), collect(&found, |row| row.map_or(0.0, |row| row.argument as f64)));
        let woken_by = |row: &Option<WaitDetail>| row.map_or(WokenBy::Unknown, |row| row.woken_by).code();
        columns.u8(name("woken_by"), collect(&found, woken_by));
    }
}

/// Adds the contended locks, and the lock of each wait in this order. Adds nothing if no thread waited for a
/// lock.
pub(super) fn push_locks<'p>(
    profile: &'p Profile,
    metric: MetricId,
    columns: &mut Columns<'p>,
    texts: &mut Texts<'_>,
    name: impl Fn(&str) -> String,
    rows: &[usize],
) {
    let charges = Charges::new(profile, true);
    let locks = LockTable::build(profile, &Selection { metric, ..Selection::default() }, &charges, 0);
    if locks.rows.is_empty() {
        return;
    }
    let of_waits = locks.of_waits(profile, &charges, &profile.samples[metric.index()]);
    columns.u32(name("lock"), collect(rows, |&row| of_waits[row].unwrap_or(NONE)));
    let rows = &locks.rows;
    columns.u32("locks.kind", collect(rows, |row| texts.add(row.kind.to_owned())));
    let names = |row: &LockRow| row.name.map_or(NONE, |name| texts.add(name.words(profile)));
    columns.u32("locks.name", collect(rows, names));
    let address = |address: Option<u64>| address.map_or(f64::NAN, |address| address as f64);
    columns.f64("locks.address", collect(rows, |row| address(row.address)));
    columns.u32("locks.process", collect(rows, |row| row.process.0));
    columns.u32("locks.function", collect(rows, |row| function(profile, row.site.label)));
    columns.u32("locks.file", collect(rows, |row| texts.maybe(row.site.file)));
    columns.u32("locks.line", collect(rows, |row| row.site.line));
}
