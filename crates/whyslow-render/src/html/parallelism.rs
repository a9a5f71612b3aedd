//! The viewer's payload for parallelism: the facts that it cannot derive from samples and waits.

use rustc_hash::FxHashMap;
use serde::Serialize;
use whyslow_analyze::heap::is_heap_metric;
use whyslow_analyze::{Charges, Parallelism};
use whyslow_profile::{MetricId, Profile};

use super::container::{Columns, NONE};
use super::heap::function;
use super::payload::collect;
use super::texts::Texts;

/// For the payload's header.
#[derive(Serialize)]
pub(super) struct ParallelismHead {
    /// Whether the recording is complete: threads without further records run until its end.
    sealed: bool,
    /// The end of the recording.
    end_ns: u64,
}

impl ParallelismHead {
    pub(super) fn of(profile: &Profile) -> Self {
        Self { sealed: profile.sealed, end_ns: Parallelism::end_ns(profile) }
    }
}

/// Adds the lines of the user's code that samples (but for the heap's), waits, wakers and system calls are
/// charged to, and the line of each stack.
pub(super) fn push_charges<'p>(
    profile: &'p Profile,
    charges: &Charges,
    columns: &mut Columns<'p>,
    texts: &mut Texts<'_>,
) {
    let mut lines = FxHashMap::default();
    let mut rows = Vec::new();
    let mut of_stacks = vec![NONE; profile.stacks.len()];
    let metrics = (0..profile.samples.len()).filter(|row| !is_heap_metric(profile, MetricId::from(*row)));
    let sampled = metrics.flat_map(|metric| profile.samples[metric].stack.iter().copied());
    let wakers = profile.wait_details.waker_stack.iter().flatten().copied();
    for stack in sampled.chain(wakers).chain(profile.syscalls.iter().map(|row| row.stack)) {
        let frame = charges.of(stack).frame;
        let line = lines.entry((frame.label, frame.file, frame.line)).or_insert_with(|| {
            rows.push(frame);
            rows.len() as u32 - 1
        });
        of_stacks[stack.index()] = *line;
    }
    columns.u32("stacks.charge", of_stacks);
    columns.u32("charges.function", collect(&rows, |row| function(profile, row.label)));
    columns.u32("charges.file", collect(&rows, |row| texts.maybe(row.file)));
    columns.u32("charges.line", collect(&rows, |row| row.line));
}
