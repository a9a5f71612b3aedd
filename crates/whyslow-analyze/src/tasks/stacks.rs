//! The place of each stack, for callers that add up samples themselves.

use rustc_hash::FxHashMap;
use whyslow_profile::{MetricId, Profile, StackId};

use super::{BlockedWorker, Place, Places, cpu_time};
use crate::labels::{Label, Labels};
use crate::own::Charges;
use crate::waits::{Reasons, wait_metric};

/// The place of a stack relative to executors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StackPlace {
    /// Outside any executor, or without samples of CPU time or waits.
    Outside,
    /// In an executor, but not in a task.
    Executor,
    /// On a thread for blocking calls.
    Blocking,
    /// In a task: a row of [`TaskStacks::chains`].
    Chain(usize),
}

/// The await chains of a profile, and the places of its stacks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskStacks {
    /// The executor, and the functions from the task to the innermost async one.
    pub chains: Vec<(&'static str, Vec<Label>)>,
    /// The place of each stack.
    pub places: Vec<StackPlace>,
    /// Stacks of waits that block a worker, with the function that your line calls.
    pub blocking: Vec<(StackId, Label)>,
}

impl TaskStacks {
    /// For all stacks with CPU time or waits.
    pub fn of(profile: &Profile, charges: &Charges) -> Self {
        let labels = Labels::new(profile);
        let mut places = Places::new(profile, &labels);
        let mut reasons = Reasons::new(profile);
        let mut rows: FxHashMap<_, usize> = FxHashMap::default();
        let mut stacks = Self { places: vec![StackPlace::Outside; profile.stacks.len()], ..Self::default() };
        let waits = sampled(profile, wait_metric(profile));
        let with_cpu = sampled(profile, cpu_time(profile));
        for stack in (0..profile.stacks.len()).filter(|stack| waits[*stack] || with_cpu[*stack]) {
            let id = StackId::from(stack);
            stacks.places[stack] = match places.of(id) {
                Place::Outside => StackPlace::Outside,
                Place::Executor => StackPlace::Executor,
                Place::Blocking => StackPlace::Blocking,
                Place::Task { executor, on_worker, chain } => {
                    if on_worker && waits[stack] && BlockedWorker::blocks(reasons.of(id)) {
                        let call = charges.beneath(profile, id).last().unwrap_or(charges.of(id).frame);
                        stacks.blocking.push((id, labels.label(labels.code(call.label))));
                    }
                    let chains = &mut stacks.chains;
                    StackPlace::Chain(*rows.entry((executor, chain)).or_insert_with_key(|key| {
                        chains.push(key.clone());
                        chains.len() - 1
                    }))
                }
            };
        }
        stacks
    }
}

/// For each stack, whether a metric has a sample on it.
fn sampled(profile: &Profile, metric: Option<MetricId>) -> Vec<bool> {
    let mut found = vec![false; profile.stacks.len()];
    let stacks = metric.into_iter().flat_map(|metric| &profile.samples[metric.index()].stack);
    stacks.for_each(|stack| found[stack.index()] = true);
    found
}
