//! The viewer's payload for tasks of async Rust: the chains of awaits, and the task of each stack.

use rustc_hash::FxHashMap;
use whyslow_analyze::{Charges, Label, StackPlace, TaskStacks, task_of};
use whyslow_profile::Profile;

use super::container::Columns;
use super::heap::function;
use super::payload::collect;
use super::texts::Texts;

/// Adds the tasks; nothing if no stack has one.
pub(super) fn push_tasks<'p>(
    profile: &'p Profile,
    charges: &Charges,
    columns: &mut Columns<'p>,
    texts: &mut Texts<'_>,
) {
    let stacks = TaskStacks::of(profile, charges);
    if stacks.chains.is_empty() {
        return;
    }
    let mut rows = FxHashMap::default();
    let mut tasks = Vec::new();
    let (mut of_chains, mut starts, mut functions) = (Vec::new(), vec![0], Vec::new());
    for (executor, chain) in &stacks.chains {
        let outermost = task_of(profile, chain).unwrap_or(Label::Unknown);
        let task = *rows.entry((*executor, outermost)).or_insert_with(|| {
            tasks.push((*executor, outermost));
            tasks.len() as u32 - 1
        });
        of_chains.push(task);
        functions.extend(chain.iter().map(|label| function(profile, *label)));
        starts.push(functions.len() as u32);
    }
    columns.u32("tasks.executor", collect(&tasks, |(executor, _)| texts.add((*executor).to_owned())));
    columns.u32("tasks.function", collect(&tasks, |(_, task)| function(profile, *task)));
    columns.u32("chains.task", of_chains);
    columns.u32("chains.functions", starts);
    columns.u32("chain_functions.function", functions);
    let place = |place: &StackPlace| match place {
        StackPlace::Outside => 0,
        StackPlace::Executor => 1,
        StackPlace::Blocking => 2,
        StackPlace::Chain(row) => 3 + *row as u32,
    };
    columns.u32("stacks.place", collect(&stacks.places, place));
    columns.u32("blocking.stack", collect(&stacks.blocking, |(stack, _)| stack.0));
    columns.u32("blocking.call", collect(&stacks.blocking, |(_, call)| function(profile, *call)));
}
