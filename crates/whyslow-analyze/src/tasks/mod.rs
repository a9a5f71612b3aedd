//! Tasks of async Rust, as their stacks show them: which task is polled, which async functions it awaits, how
//! much CPU time it takes and how long it blocks its worker.
//!
//! ```text
//! chain = the outermost function inside the innermost poll of an executor, and the async functions on its stack: each awaits the next
//! task  = the outermost function of the chain that is your code, such as a handler that a server's library calls; else the outermost one
//! ```
//! A task that waits to be polled is on no stack: neither polls nor the time between them are known.

mod blocked;
pub(crate) mod executor;
mod stacks;

pub use blocked::BlockedWorker;
pub use stacks::{StackPlace, TaskStacks};

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use whyslow_profile::{CodeKind, Profile, StackId};

use self::executor::{Role, is_future};
use crate::labels::{self, Label, Labels};
use crate::own::frames_of;
use crate::parallelism::cpu_time;
use crate::selection::Selection;
use crate::waits::{Reason, Reasons, wait_metric};

/// All tasks, most CPU and blocked time first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskTable {
    /// One for each executor and outermost function.
    pub rows: Vec<TaskRow>,
    /// CPU time of tasks.
    pub cpu_ns: u64,
    /// CPU time of executor threads outside tasks.
    pub executor_ns: u64,
    /// CPU time on threads for blocking calls.
    pub blocking_ns: u64,
    /// All CPU time.
    pub total_ns: u64,
    /// CPU samples in tasks.
    pub samples: u64,
    /// Whether waits were recorded.
    pub has_waits: bool,
}

/// Tasks of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRow {
    /// The executor that polls them.
    pub executor: &'static str,
    /// The outermost function of your code in the task, or its outermost function.
    pub task: Label,
    /// Its cost.
    pub cost: TaskCost,
    /// The await chains, largest first.
    pub chains: Vec<TaskChain>,
}

/// One await chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskChain {
    /// From the function that the executor polls to the innermost async function.
    pub functions: Vec<Label>,
    /// Its cost.
    pub cost: TaskCost,
}

/// Time of tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaskCost {
    /// On a CPU.
    pub cpu_ns: u64,
    /// CPU samples.
    pub samples: u64,
    /// In waits that block their thread, which polls no other task in the meantime.
    pub blocked_ns: u64,
}

impl TaskChain {
    /// The functions that the task awaits, without those of libraries that only lead to your code. Of a
    /// chain that ends in a library, the last function is kept: it is what the task awaits.
    pub fn awaited(&self, profile: &Profile, task: Label) -> Vec<Label> {
        let is_own = |label: &Label| labels::kind(profile, *label) == CodeKind::Yours;
        let at = self.functions.iter().position(|label| *label == task).unwrap_or(0);
        let inner = self.functions.get(at + 1..).unwrap_or_default();
        let last = inner.len().saturating_sub(1);
        let kept = inner.iter().enumerate().filter(|(at, label)| *at == last || is_own(label));
        kept.map(|(_, label)| *label).collect()
    }
}

impl TaskCost {
    fn add(&mut self, other: Self) {
        self.cpu_ns += other.cpu_ns;
        self.samples += other.samples;
        self.blocked_ns += other.blocked_ns;
    }

    fn all(self) -> u64 {
        self.cpu_ns + self.blocked_ns
    }
}

/// The task of a chain: its outermost function that is your code, or else its outermost one.
pub fn task_of(profile: &Profile, chain: &[Label]) -> Option<Label> {
    let is_own = |label: &&Label| labels::kind(profile, **label) == CodeKind::Yours;
    chain.iter().find(is_own).or(chain.first()).copied()
}

/// The place of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Outside any executor.
    Outside,
    /// In an executor, but not in a task.
    Executor,
    /// On a thread for blocking calls.
    Blocking,
    /// In a task that an executor polls, on one of its workers or in a call of `block_on`, through these
    /// functions.
    Task { executor: &'static str, on_worker: bool, chain: Vec<Label> },
}

/// Finds the places of stacks, and caches the role of each function.
pub(crate) struct Places<'a> {
    profile: &'a Profile,
    labels: &'a Labels,
    known: FxHashMap<Label, (Option<Role>, bool, bool)>,
}

impl<'a> Places<'a> {
    pub(crate) fn new(profile: &'a Profile, labels: &'a Labels) -> Self {
        Self { profile, labels, known: FxHashMap::default() }
    }

    pub(crate) fn of(&mut self, stack: StackId) -> Place {
        let Self { profile, labels, known } = self;
        let mut frames: Vec<Label> = frames_of(profile, stack).map(|frame| frame.label).collect();
        frames.reverse();
        let mut place = Place::Outside;
        let mut in_loop = false;
        for label in frames {
            let (role, is_task, awaits) = *known.entry(label).or_insert_with(|| {
                let carries = labels::carrier(profile, label).is_some();
                let awaits = !carries && is_future(profile, label);
                // Not the executor's own work, such as counting references.
                let kinds = [CodeKind::Yours, CodeKind::Dependency, CodeKind::Unknown];
                let is_code = !carries && kinds.contains(&labels::kind(profile, label));
                (Role::of(profile, label), awaits || is_code, awaits)
            });
            match (role, &mut place) {
                (Some(Role::Blocking(_)), _) => (place, in_loop) = (Place::Blocking, false),
                (Some(Role::Loop(_)), _) => (place, in_loop) = (Place::Executor, true),
                (Some(Role::Poll(_)), Place::Blocking) => {}
                (Some(Role::Poll(executor)), _) => {
                    place = Place::Task { executor, on_worker: in_loop, chain: Vec::new() };
                }
                (Some(Role::Job) | None, Place::Task { chain, .. }) => {
                    if awaits || (chain.is_empty() && is_task) {
                        chain.push(labels.label(labels.code(label)));
                    }
                }
                (Some(Role::Job) | None, _) => {}
            }
        }
        match place {
            Place::Task { chain, .. } if chain.is_empty() => Place::Executor,
            place => place,
        }
    }
}

impl TaskTable {
    /// The selected tasks.
    pub fn build(profile: &Profile, selection: &Selection) -> Self {
        let labels = Labels::new(profile);
        let mut places = Places::new(profile, &labels);
        let mut place_of: FxHashMap<StackId, Place> = FxHashMap::default();
        let mut chains: FxHashMap<(&'static str, Vec<Label>), TaskCost> = FxHashMap::default();
        let mut table = Self::default();
        if let Some(metric) = cpu_time(profile) {
            Selection { metric, ..selection.clone() }.each_selected(profile, |_, stack, value| {
                table.total_ns += value;
                match place_of.entry(stack).or_insert_with(|| places.of(stack)) {
                    Place::Outside => {}
                    Place::Executor => table.executor_ns += value,
                    Place::Blocking => table.blocking_ns += value,
                    Place::Task { executor, chain, .. } => {
                        let samples = u64::from(!profile.is_not_sampled(stack));
                        table.samples += samples;
                        let cost = TaskCost { cpu_ns: value, samples, blocked_ns: 0 };
                        chains.entry((executor, chain.clone())).or_default().add(cost);
                    }
                }
            });
        }
        if let Some(metric) = wait_metric(profile) {
            table.has_waits = true;
            let mut reasons = Reasons::new(profile);
            Selection { metric, ..selection.clone() }.each_selected(profile, |_, stack, value| {
                if let Place::Task { executor, chain, .. } =
                    place_of.entry(stack).or_insert_with(|| places.of(stack))
                    && !matches!(reasons.of(stack), Reason::Idle | Reason::Cpu)
                {
                    let cost = TaskCost { blocked_ns: value, ..TaskCost::default() };
                    chains.entry((executor, chain.clone())).or_default().add(cost);
                }
            });
        }
        table.add_chains(profile, &labels, chains);
        table
    }

    fn add_chains(
        &mut self,
        profile: &Profile,
        labels: &Labels,
        chains: FxHashMap<(&'static str, Vec<Label>), TaskCost>,
    ) {
        let mut rows: FxHashMap<(&'static str, Label), TaskRow> = FxHashMap::default();
        for ((executor, functions), cost) in chains {
            let Some(task) = task_of(profile, &functions) else { continue };
            let row = rows.entry((executor, task)).or_insert_with(|| TaskRow {
                executor,
                task,
                cost: TaskCost::default(),
                chains: Vec::new(),
            });
            row.cost.add(cost);
            row.chains.push(TaskChain { functions, cost });
            self.cpu_ns += cost.cpu_ns;
        }
        self.rows = rows.into_values().collect();
        let codes =
            |functions: &[Label]| functions.iter().map(|label| labels.code(*label)).collect::<Vec<_>>();
        for row in &mut self.rows {
            row.chains.sort_by_cached_key(|chain| (Reverse(chain.cost.all()), codes(&chain.functions)));
        }
        self.rows.sort_by_key(|row| (Reverse(row.cost.all()), row.executor, labels.code(row.task)));
    }
}

#[cfg(test)]
mod tests;
