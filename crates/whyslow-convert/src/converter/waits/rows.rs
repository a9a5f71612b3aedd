//! Waits become rows once their stacks are known: their own, or that of a wait that is alike.

use rustc_hash::FxHashMap;
use whyslow_profile::{Builder, SpecialFrame, ThreadId, WaitDetail, WaitFrame, WokenBy};

use super::super::setup::{WaitSetup, WaitStackSource};
use super::super::tables::Tables;
use super::alike::{Alike, ThreadKind};
use super::ended::Ended;

/// A wait without a stack is called too short only below this length.
const SHORT_NS: u64 = 10_000_000;
/// How many waits are kept until one that is alike has a stack.
const MAX_KEPT: usize = 50_000;

/// Waits that are not rows yet: their lengths are known, but not every stack. Snapshots that are still to come may help.
#[derive(Debug)]
pub(super) struct Rows {
    setup: WaitSetup,
    unsettled: Vec<Ended>,
    alike: Alike,
    stacks: WaitStacks,
}

/// How many waits have a stack, of their own or of another wait.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct WaitStacks {
    /// The number of blocking waits.
    pub waits: u64,
    /// Their total length.
    pub total_ns: u64,
    /// The number of those with a stack of their own.
    pub with_stack: u64,
    /// The number of those with the stack of another wait that is alike.
    pub estimated: u64,
    /// Their total length.
    pub estimated_ns: u64,
}

impl Rows {
    pub(super) fn new(setup: WaitSetup) -> Self {
        let alike = Alike::new(setup.lengths_known);
        Self { setup, unsettled: Vec::new(), alike, stacks: WaitStacks::default() }
    }

    /// Where stacks come from.
    pub(super) fn stacks_from(&self) -> WaitStackSource {
        self.setup.stacks
    }

    /// Whether run-queue delay after waits is known from the kernel's account alone.
    pub(super) fn estimates_queues(&self) -> bool {
        self.setup.estimates_queues
    }

    /// How many waits have a stack.
    pub(super) fn stacks(&self) -> WaitStacks {
        self.stacks
    }

    /// Counts a wait.
    pub(super) fn count(&mut self, ended: &Ended) {
        if !ended.preempted {
            self.stacks.waits += 1;
            self.stacks.with_stack += u64::from(ended.place.is_some());
        }
    }

    /// Adds a wait whose length is known.
    pub(super) fn add(&mut self, ended: Ended) {
        self.unsettled.push(ended);
    }

    /// Adds waits whose lengths are known.
    pub(super) fn add_all(&mut self, mut ended: Vec<Ended>) {
        self.unsettled.append(&mut ended);
    }

    /// Writes the rows of the waits whose stack is known, or will never be.
    pub(super) fn settle(&mut self, tables: &mut Tables, last: bool) {
        let mut unsettled = std::mem::take(&mut self.unsettled);
        unsettled.sort_by_key(|wait| wait.end);
        let mut kinds = FxHashMap::default();
        for wait in &unsettled {
            let kind: &ThreadKind =
                kinds.entry(wait.thread).or_insert_with(|| thread_kind(&tables.builder, wait.thread));
            if let Some(place) = wait.place.filter(|_| !wait.preempted) {
                self.alike.add(wait.thread, kind, wait.likeness_ns(), wait.end, place);
            }
        }
        for mut wait in unsettled {
            let length_ns = wait.blocked_ns();
            if !wait.preempted && wait.place.is_none() {
                let kind = &kinds[&wait.thread];
                wait.place = self.alike.find(wait.thread, kind, wait.likeness_ns(), wait.end);
                if wait.place.is_none() && !last && self.unsettled.len() < MAX_KEPT {
                    self.unsettled.push(wait);
                    continue;
                }
                self.stacks.estimated += u64::from(wait.place.is_some());
                self.stacks.estimated_ns += if wait.place.is_some() { length_ns } else { 0 };
            }
            self.stacks.total_ns += length_ns;
            let too_short = self.setup.stacks == WaitStackSource::Snapshots && length_ns < SHORT_NS;
            self.write(tables, &wait, if too_short { WaitFrame::TooShort } else { WaitFrame::NoStack });
        }
    }

    /// Writes the rows of a wait: blocked, and then queued.
    fn write(&self, tables: &mut Tables, wait: &Ended, no_stack: WaitFrame) {
        let metric = self.setup.metric;
        let Ended { thread, ready, end, preempted, cpu, woken, place, .. } = *wait;
        let (ready_ns, end_ns) = (tables.since_start(ready), tables.since_start(end));
        let (argument, parked_on, data) =
            place.map_or((0, 0, None), |place| (place.argument, place.parked_on, place.data));
        let builder = &mut tables.builder;
        builder.wait_detail(WaitDetail {
            thread,
            end_ns: if preempted { end_ns } else { ready_ns }.0,
            cpu,
            argument,
            parked_on,
            data,
            woken_by: woken.map_or(WokenBy::Unknown, |woken| woken.by),
            waker: woken.and_then(|woken| woken.thread),
            waker_stack: woken.and_then(|woken| woken.stack),
        });
        let stack = place.map(|place| place.stack);
        if !preempted {
            let stack = stack.unwrap_or_else(|| {
                let no_stack = builder.special(SpecialFrame::Waiting(no_stack));
                builder.stack(None, no_stack)
            });
            builder.sample(metric, ready_ns, thread, stack, wait.blocked_ns());
        }
        if preempted || wait.queued_ns() > 0 {
            let queued = builder.special(SpecialFrame::Waiting(WaitFrame::Queued));
            let stack = builder.stack(stack, queued);
            builder.sample(metric, end_ns, thread, stack, wait.queued_ns());
        }
    }
}

fn thread_kind(builder: &Builder, id: ThreadId) -> ThreadKind {
    let row = builder.thread_row(id);
    let first = builder.process_row(row.process).pid == row.tid;
    ThreadKind::new(row.process, first, builder.text(row.name))
}
