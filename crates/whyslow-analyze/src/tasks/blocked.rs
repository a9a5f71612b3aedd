//! Calls that block an executor's worker: during such a call the worker polls no other task.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use whyslow_profile::{Profile, StackId, StringId};

use super::{Place, Places, task_of};
use crate::labels::{Label, Labels};
use crate::own::Charges;
use crate::selection::Selection;
use crate::waits::{Reason, Reasons, wait_metric};

/// Calls of one function from one line that block workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedWorker {
    /// The executor that owns the workers.
    pub executor: &'static str,
    /// What they wait for.
    pub reason: Reason,
    /// The function that your line calls; your own function if it makes the system call directly.
    pub call: Label,
    /// The function of your code, or the nearest to it.
    pub function: Label,
    /// The file of its line.
    pub file: Option<StringId>,
    /// The line; 0 if unknown.
    pub line: u32,
    /// The task.
    pub task: Label,
    /// How often.
    pub count: u64,
    /// How long in all.
    pub total_ns: u64,
    /// The longest call.
    pub max_ns: u64,
}

impl BlockedWorker {
    /// Shorter waits hold up little, such as those for a lock that another worker holds briefly.
    pub const SHORTEST_NS: u64 = 1_000_000;
    /// Calls with a shorter total are not listed.
    const MIN_NS: u64 = 10_000_000;

    /// Whether a thread with this wait reason is blocked by its own call.
    pub(super) fn blocks(reason: Reason) -> bool {
        match reason {
            Reason::Idle
            | Reason::Cpu
            | Reason::Short
            | Reason::NotSampled
            | Reason::PageFault
            | Reason::Stopped => false,
            Reason::Lock
            | Reason::Condition
            | Reason::Park
            | Reason::Join
            | Reason::Channel
            | Reason::Sleep
            | Reason::File
            | Reason::Network
            | Reason::Pipe
            | Reason::Child
            | Reason::Events
            | Reason::Signal
            | Reason::KernelLock
            | Reason::Terminal
            | Reason::Other => true,
        }
    }

    /// All of them, longest total first; none without recorded waits.
    pub fn find(profile: &Profile, selection: &Selection, charges: &Charges) -> Vec<Self> {
        let Some(metric) = wait_metric(profile) else { return Vec::new() };
        let labels = Labels::new(profile);
        let mut places = Places::new(profile, &labels);
        let mut reasons = Reasons::new(profile);
        let mut on_worker: FxHashMap<StackId, Option<(&'static str, Label, Reason)>> = FxHashMap::default();
        let mut found: FxHashMap<_, Self> = FxHashMap::default();
        Selection { metric, ..selection.clone() }.each_selected(profile, |_, stack, value| {
            if value < Self::SHORTEST_NS {
                return;
            }
            let place = *on_worker.entry(stack).or_insert_with(|| match places.of(stack) {
                Place::Task { executor, on_worker: true, chain } => {
                    let reason = reasons.of(stack);
                    let task = task_of(profile, &chain).filter(|_| Self::blocks(reason));
                    task.map(|task| (executor, task, reason))
                }
                _ => None,
            });
            let Some((executor, task, reason)) = place else { return };
            let frame = charges.of(stack).frame;
            let call = charges.beneath(profile, stack).last().map_or(frame.label, |frame| frame.label);
            let key = (executor, labels.code(call), labels.code(frame.label), frame.file, frame.line, reason);
            let row = found.entry(key).or_insert_with(|| Self {
                executor,
                reason,
                call: labels.label(labels.code(call)),
                function: labels.label(labels.code(frame.label)),
                file: frame.file,
                line: frame.line,
                task,
                count: 0,
                total_ns: 0,
                max_ns: 0,
            });
            row.count += 1;
            row.total_ns += value;
            row.max_ns = row.max_ns.max(value);
        });
        let mut found: Vec<Self> = found.into_values().filter(|row| row.total_ns >= Self::MIN_NS).collect();
        found.sort_by_key(|row| {
            (Reverse(row.total_ns), labels.code(row.function), row.line, labels.code(row.call))
        });
        found
    }
}
