//! The kinds of time in each node of a call tree.

use whyslow_profile::Profile;

use super::kinds::{TimeKind, reasons_of};
use crate::call_tree::{CallTree, TreeOptions};
use crate::outline::Outline;
use crate::selection::{Selection, Weights};

/// For each node of a call tree, how much of its total is of each kind in [`TimeKind::ALL`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeSplit {
    /// Indexed by node.
    pub of_node: Vec<[u64; TimeKind::ALL.len()]>,
}

impl TimeSplit {
    /// For a tree built from the weights of a selection; `None` for metrics without waits.
    pub fn of(
        profile: &Profile,
        selection: &Selection,
        weights: &Weights,
        tree: &CallTree,
        options: &TreeOptions,
    ) -> Option<Self> {
        let samples = selection.samples(profile);
        let reasons = reasons_of(profile, selection.metric, &samples)?;
        let mut of_node = vec![[0; TimeKind::ALL.len()]; tree.len()];
        for (column, kind) in TimeKind::ALL.into_iter().enumerate() {
            let mut value = vec![0u64; weights.value.len()];
            for (row, reason) in reasons.iter().enumerate() {
                if reason.map_or(TimeKind::Running, TimeKind::of) == kind {
                    let sum = &mut value[samples.stack[row].index()];
                    *sum = sum.saturating_add(samples.value[row]);
                }
            }
            if value.iter().all(|value| *value == 0) {
                continue;
            }
            let part = CallTree::part(profile, weights, value, options);
            if part.parent != tree.parent {
                return None;
            }
            of_node.iter_mut().zip(part.total_value).for_each(|(node, total)| node[column] = total);
        }
        Some(Self { of_node })
    }

    /// The same for the folded tree.
    pub fn folded(&self, whole: &CallTree, outline: &Outline) -> Self {
        let mut of_node = vec![[0u64; TimeKind::ALL.len()]; outline.tree.len()];
        // A node's self value: its total without its children's.
        let mut own = self.of_node.clone();
        for node in 1..whole.len() {
            let (parent, of) = (whole.parent[node] as usize, self.of_node[node]);
            own[parent].iter_mut().zip(of).for_each(|(own, part)| *own = own.saturating_sub(part));
        }
        for (node, own) in own.into_iter().enumerate() {
            add(&mut of_node[outline.node_of[node] as usize], own);
        }
        for node in (1..outline.tree.len()).rev() {
            let of = of_node[node];
            add(&mut of_node[outline.tree.parent[node] as usize], of);
        }
        Self { of_node }
    }
}

fn add(to: &mut [u64; TimeKind::ALL.len()], more: [u64; TimeKind::ALL.len()]) {
    to.iter_mut().zip(more).for_each(|(sum, part)| *sum = sum.saturating_add(part));
}

#[cfg(test)]
mod tests {
    use whyslow_profile::{Metric, MetricId, Samples, ThreadId};

    use super::*;
    use crate::testing::profile;

    /// Wall time of a thread whose frames are folded: 3 running, 5 in a lock, 7 asleep.
    fn waits() -> Profile {
        const START: &str = "_start;__libc_start_main;__libc_start_call_main;std::rt::lang_start;app::main";
        let mut profile = profile(&format!(
            "{START};app::f;app::f;app::f 1
             {START};app::f;std::lock_contended;sys_futex_wait 1
             {START};std::thread::sleep;sys_hrtimer_nanosleep 1"
        ));
        let stacks = profile.samples[0].stack.clone();
        profile.samples[0] = Samples::default();
        profile.samples[0].push(1, ThreadId(0), stacks[0], 3);
        let name = profile.strings.push(Metric::off_cpu_time().name);
        profile.metrics.push(Metric::off_cpu_time().renamed(name));
        profile.samples.push(Samples::default());
        profile.samples[1].push(10, ThreadId(0), stacks[1], 5);
        profile.samples[1].push(20, ThreadId(0), stacks[2], 7);
        profile.add_wall_time();
        profile
    }

    #[test]
    fn splits_nodes_by_kind_of_time_also_when_folded() {
        let profile = waits();
        let (selection, options) =
            (Selection { metric: MetricId(2), ..Selection::default() }, TreeOptions::default());
        let weights = selection.weigh(&profile);
        let whole = CallTree::from_weights(&profile, &weights, &options);
        let split = TimeSplit::of(&profile, &selection, &weights, &whole, &options).expect("it has waits");
        let outline = Outline::folded_tree(&profile, &weights, &whole, &options);
        assert!(outline.tree.len() < whole.len(), "something is folded");
        for (tree, split) in [(&whole, &split), (&outline.tree, &split.folded(&whole, &outline))] {
            assert_eq!(split.of_node[0], [3, 0, 5, 0, 7, 0]);
            for (node, parts) in split.of_node.iter().enumerate() {
                assert_eq!(parts.iter().sum::<u64>(), tree.total_value[node], "node {node}");
            }
            let named = |name: &str| {
                let is = |node: &usize| CallTree::name(&profile, tree.label[*node]) == name;
                split.of_node[(0..tree.len()).find(is).expect("it is there")]
            };
            assert_eq!(named("app::f"), [3, 0, 5, 0, 0, 0]);
            assert_eq!(named("std::lock_contended"), [0, 0, 5, 0, 0, 0]);
        }
    }

    #[test]
    fn splits_callers_by_what_they_called() {
        let profile = waits();
        let selection = Selection { metric: MetricId(2), ..Selection::default() };
        let options = TreeOptions { inverted: true, ..TreeOptions::default() };
        let weights = selection.weigh(&profile);
        let whole = CallTree::from_weights(&profile, &weights, &options);
        let split = TimeSplit::of(&profile, &selection, &weights, &whole, &options).expect("it has waits");
        let outline = Outline::folded_tree(&profile, &weights, &whole, &options);
        for (tree, split) in [(&whole, &split), (&outline.tree, &split.folded(&whole, &outline))] {
            assert_eq!(split.of_node[0], [3, 0, 5, 0, 7, 0]);
            for (node, parts) in split.of_node.iter().enumerate() {
                assert_eq!(parts.iter().sum::<u64>(), tree.total_value[node], "node {node}");
            }
            let first = |name: &str| {
                let is = |node: &usize| {
                    tree.parent[*node] == 0 && CallTree::name(&profile, tree.label[*node]) == name
                };
                split.of_node[(1..tree.len()).find(is).expect("it is there")]
            };
            assert_eq!(first("app::f"), [3, 0, 0, 0, 0, 0], "what it does itself");
            assert_eq!(first("sys_futex_wait"), [0, 0, 5, 0, 0, 0]);
        }
    }

    #[test]
    fn light_caller_branches_end_as_in_the_whole_tree() {
        let mut profile = waits();
        profile.samples[0].value[0] = 1_000_000;
        profile.samples[2].value[0] = 1_000_000;
        let selection = Selection { metric: MetricId(2), ..Selection::default() };
        let options = TreeOptions { inverted: true, ..TreeOptions::default() };
        let weights = selection.weigh(&profile);
        let whole = CallTree::from_weights(&profile, &weights, &options);
        let split = TimeSplit::of(&profile, &selection, &weights, &whole, &options).expect("the same nodes");
        assert_eq!(split.of_node[0], [1_000_000, 0, 5, 0, 7, 0]);
    }

    #[test]
    fn cpu_time_is_not_split() {
        let profile = waits();
        let of = |row| {
            let selection = Selection { metric: MetricId(row), ..Selection::default() };
            let options = TreeOptions::default();
            let weights = selection.weigh(&profile);
            let tree = CallTree::from_weights(&profile, &weights, &options);
            TimeSplit::of(&profile, &selection, &weights, &tree, &options).is_some()
        };
        assert_eq!([of(0), of(1), of(2)], [false, true, true]);
    }
}
