//! The callers and callees of a function.

use whyslow_profile::{LocationId, Profile, StackId};

use crate::call_tree::TreeOptions;
use crate::find::{FindError, Found, find};
use crate::folding::Folding;
use crate::functions::{FunctionTable, SortBy};
use crate::growing::{Cursor, Growing, Outward};
use crate::labels::{Label, Labels};
use crate::outline::Outline;
use crate::selection::{Selection, Weights};

/// A function between its callers and its callees. The root of both trees is the function.
///
/// If it is recursive, a sample counts for the caller of the outermost call and for the callee of the
/// innermost one. So both trees add up to the function's total, and its calls to itself are not in them.
#[derive(Debug, Clone, PartialEq)]
pub struct Callers {
    /// The function; several when functions of different files share the name.
    pub labels: Vec<Label>,
    /// The names of other functions that the query fits as well.
    pub others: Vec<String>,
    /// Value of the samples whose innermost frame it is.
    pub self_value: u64,
    /// Value of the samples with it on their stack.
    pub total_value: u64,
    /// How many samples `total_value` is made of.
    pub samples: u64,
    /// Value of all selected samples.
    pub whole_value: u64,
    /// How many samples were selected.
    pub whole_samples: u64,
    /// Below each node are its callers.
    pub callers: Outline,
    /// Below each node are its callees. The root's own value is the function's.
    pub callees: Outline,
}

impl Callers {
    /// Finds a function, its callers and its callees.
    pub fn build(
        profile: &Profile,
        selection: &Selection,
        query: &str,
        inline: bool,
    ) -> Result<Self, FindError> {
        Self::find(profile, selection, query, inline, false)
    }

    /// The same, with code that only carries other code folded, as in [`Outline::folded`].
    pub fn folded(
        profile: &Profile,
        selection: &Selection,
        query: &str,
        inline: bool,
    ) -> Result<Self, FindError> {
        Self::find(profile, selection, query, inline, true)
    }

    fn find(
        profile: &Profile,
        selection: &Selection,
        query: &str,
        inline: bool,
        folded: bool,
    ) -> Result<Self, FindError> {
        let weights = selection.weigh(profile);
        let table = FunctionTable::from_weights(profile, &weights, inline, SortBy::Total);
        let Found { labels: found, others } = find(profile, &table, query)?;

        let labels = Labels::new(profile);
        let mut wanted = vec![false; labels.len()];
        for &label in &found {
            wanted[labels.code(label) as usize] = true;
        }
        let options = TreeOptions { inline, ..TreeOptions::default() };
        let folding = folded.then(|| Folding::new(profile, &labels, &weights, inline));
        let search = Search {
            profile,
            weights: &weights,
            labels: &labels,
            wanted: &wanted,
            options: &options,
            folding: folding.as_ref(),
        };
        let (callers, samples) = search.callers();
        let callees = search.callees();
        Ok(Self {
            labels: found,
            others,
            self_value: callees.tree.self_value[0],
            total_value: callees.total_value(),
            samples,
            whole_value: weights.total_value,
            whole_samples: weights.total_count,
            callers,
            callees,
        })
    }
}

struct Search<'a> {
    profile: &'a Profile,
    weights: &'a Weights,
    labels: &'a Labels,
    wanted: &'a [bool],
    options: &'a TreeOptions,
    /// What is folded in addition to recursion.
    folding: Option<&'a Folding<'a>>,
}

impl Search<'_> {
    fn codes(&self, location: LocationId, codes: &mut Vec<(u32, bool)>) {
        codes.clear();
        let inline = self.options.inline;
        self.labels
            .outermost_first(self.profile, location, inline, |code, inlined| codes.push((code, inlined)));
    }

    /// Everything outside the outermost call of the function.
    fn callers(&self) -> (Outline, u64) {
        let stacks = &self.profile.stacks;
        let (value, count) = self.weights.with_callees(self.profile);
        let mut growing = self.growing();
        let mut inside = vec![false; stacks.len()];
        let mut codes = Vec::new();
        let mut entries = Vec::new();
        let mut samples = 0;
        for stack in (0..stacks.len()).filter(|&stack| count[stack] > 0) {
            let id = StackId::from(stack);
            if stacks.parent(id).is_some_and(|parent| inside[parent.index()]) {
                inside[stack] = true;
                continue;
            }
            self.codes(stacks.location(id), &mut codes);
            let Some(first) = codes.iter().position(|(code, _)| self.wanted[*code as usize]) else {
                continue;
            };
            inside[stack] = true;
            samples += count[stack];
            let mut at = Cursor::default();
            for &(code, inlined) in codes[..first].iter().rev() {
                let _ = growing.step(&mut at, code, inlined);
            }
            entries.push(Outward { at, next: stacks.parent(id), value: value[stack], adds: value[stack] });
        }
        growing.outwards(self.profile, entries);
        (self.outline(growing), samples)
    }

    /// Everything inside the innermost call of the function.
    fn callees(&self) -> Outline {
        let stacks = &self.profile.stacks;
        let (_, count) = self.weights.with_callees(self.profile);
        let mut growing = self.growing();
        let mut ends: Vec<Option<Cursor>> = vec![None; stacks.len()];
        let mut codes = Vec::new();
        for stack in (0..stacks.len()).filter(|&stack| count[stack] > 0) {
            let id = StackId::from(stack);
            let mut at = stacks.parent(id).and_then(|parent| ends[parent.index()]);
            self.codes(stacks.location(id), &mut codes);
            let mut below = &codes[..];
            if let Some(last) = codes.iter().rposition(|(code, _)| self.wanted[*code as usize]) {
                at = Some(Cursor::default());
                below = &codes[last + 1..];
            }
            if let Some(at) = &mut at {
                for &(code, inlined) in below {
                    let _ = growing.step(at, code, inlined);
                }
                growing.add(at.node, self.weights.value[stack]);
            }
            ends[stack] = at;
        }
        self.outline(growing)
    }

    fn growing(&self) -> Growing<'_> {
        Growing::new(self.labels, self.options, self.folding.is_none())
    }

    fn outline(&self, growing: Growing<'_>) -> Outline {
        match self.folding {
            Some(folding) => Outline::from_whole(&growing.finish().0, folding, self.options),
            None => Outline::from_parts(growing.finish()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_tree::CallTree;
    use crate::testing::{self, SAMPLE_NS};

    fn direct(profile: &Profile, outline: &Outline) -> Vec<String> {
        let shown = outline.children_from(0, 0).iter().map(|&node| {
            let name = CallTree::name(profile, outline.tree.label[node as usize]);
            format!("{name} {}", outline.tree.total_value[node as usize] / SAMPLE_NS)
        });
        shown.collect()
    }

    #[test]
    fn callers_and_callees_add_up_to_the_function() {
        let profile = testing::profile("main;a;f;g 4\nmain;b;f 3\nmain;b;f;h 2\nmain 9");
        let callers = Callers::build(&profile, &Selection::default(), "f", true).unwrap();
        assert_eq!(direct(&profile, &callers.callers), ["b 5", "a 4"]);
        assert_eq!(direct(&profile, &callers.callees), ["g 4", "h 2"]);
        assert_eq!(callers.self_value, 3 * SAMPLE_NS);
        assert_eq!(callers.total_value, 9 * SAMPLE_NS);
        assert_eq!((callers.samples, callers.whole_samples), (9, 18));
        assert_eq!(callers.callers.total_value(), callers.total_value);
    }

    #[test]
    fn recursion_counts_for_the_outermost_caller_and_the_innermost_callee() {
        let profile = testing::profile("main;a;f;x;f;g 4\nmain;f;f;f 1");
        let callers = Callers::build(&profile, &Selection::default(), "f", true).unwrap();
        assert_eq!(direct(&profile, &callers.callers), ["a 4", "main 1"]);
        assert_eq!(direct(&profile, &callers.callees), ["g 4"]);
        assert_eq!((callers.self_value, callers.total_value), (SAMPLE_NS, 5 * SAMPLE_NS));
    }

    #[test]
    fn includes_inlined_callers_and_callees() {
        let profile = testing::profile("main;a;+f;+g 4");
        let callers = Callers::build(&profile, &Selection::default(), "f", true).unwrap();
        assert_eq!(direct(&profile, &callers.callers), ["a 4"]);
        assert_eq!(direct(&profile, &callers.callees), ["g 4"]);
        let error = Callers::build(&profile, &Selection::default(), "f", false).unwrap_err();
        assert!(matches!(error, FindError::Unknown { .. }));
    }

    #[test]
    fn folds_carrier_code_around_the_function() {
        let profile = testing::profile(
            "_start;__libc_start_main;std::rt::lang_start;main;f;core::iter::map;core::iter::fold;core::ops::function::call;g 4",
        );
        let callers = Callers::folded(&profile, &Selection::default(), "f", true).unwrap();
        let shown = |outline: &Outline| {
            (0..outline.tree.len() as u32).map(|node| outline.folds.of(node).frames).collect::<Vec<_>>()
        };
        assert_eq!(shown(&callers.callers), [0, 0, 3]);
        assert_eq!(shown(&callers.callees), [0, 3, 0]);
        assert_eq!(callers.total_value, 4 * SAMPLE_NS);
    }

    #[test]
    fn an_outermost_function_has_no_callers() {
        let profile = testing::profile("main;a 4");
        let callers = Callers::build(&profile, &Selection::default(), "main", true).unwrap();
        assert!(callers.callers.tree.is_empty());
        assert_eq!(callers.callers.total_value(), 4 * SAMPLE_NS);
    }
}
