//! What a finding's change can gain: without its own share, and without all of the functions that it is in.
//!
//! The share alone bounds nothing: a loop without its `dyn` calls is inlined and vectorised, a value that is
//! not cloned is not dropped either. What a change can save is limited by the functions that it changes,
//! together with everything that they call.

use rustc_hash::FxHashMap;
use whyslow_analyze::{Label, Weights, frames_at};
use whyslow_profile::{Profile, StackId};

use crate::finding::{Cost, Enclosing, Finding};
use crate::rules::ALL;

/// A bit per finding, of which a rule has at most one. With more rules, it has to be a larger type.
type Bits = u128;
const _: () = assert!(ALL.len() <= Bits::BITS as usize, "there are more rules than `Bits` has bits");

/// Adds to each finding about CPU time the functions that it is in, with their share.
pub(crate) fn add(profile: &Profile, weights: &Weights, findings: &mut [Finding]) {
    let of_cpu = findings.iter_mut().filter(|finding| finding.of == Cost::Cpu && finding.speedup.is_some());
    let mut bounded: Vec<&mut Finding> = of_cpu.take(Bits::BITS as usize).collect();
    let mut functions: FxHashMap<Label, Bits> = FxHashMap::default();
    for (row, finding) in bounded.iter().enumerate() {
        let places = finding.places.iter().map(|(place, _)| place).chain(&finding.place);
        places.for_each(|place| *functions.entry(place.label).or_default() |= 1 << row);
    }
    let values = values(profile, weights, &functions, bounded.len());
    for (row, (finding, value)) in bounded.iter_mut().zip(values).enumerate() {
        let Some(place) = finding.place else { continue };
        let count = functions.values().filter(|bits| **bits & 1 << row != 0).count();
        let share = (value as f64 / weights.total_value.max(1) as f64).clamp(finding.share, 1.0);
        finding.bounded_by(Enclosing { function: place.label, others: count - 1, share });
    }
}

/// The value of all stacks that pass through one of the functions of each finding.
fn values(
    profile: &Profile,
    weights: &Weights,
    functions: &FxHashMap<Label, Bits>,
    findings: usize,
) -> Vec<u64> {
    let mut values = vec![0_u64; findings];
    if findings == 0 {
        return values;
    }
    // Callers come before callees.
    let mut passes: Vec<Bits> = Vec::with_capacity(profile.stacks.len());
    for stack in (0..profile.stacks.len()).map(StackId::from) {
        let outside = profile.stacks.parent(stack).map_or(0, |parent| passes[parent.index()]);
        let frames = frames_at(profile, profile.stacks.location(stack), true);
        let bits =
            frames.fold(outside, |bits, frame| bits | functions.get(&frame.label).copied().unwrap_or(0));
        passes.push(bits);
        let own = weights.value.get(stack.index()).copied().unwrap_or(0);
        for (_, value) in values.iter_mut().enumerate().filter(|(row, _)| own > 0 && bits & 1 << row != 0) {
            *value = value.saturating_add(own);
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use whyslow_analyze::{CallTree, Selection, testing};

    use crate::{Allowed, Finding, Question, explain};

    fn first(folded: &str) -> (Finding, String) {
        let profile = testing::profile(folded);
        let (selection, allowed) = (Selection::default(), Allowed::default());
        let question = Question {
            profile: &profile,
            selection: &selection,
            only_metric: false,
            allowed: &allowed,
            file: "",
        };
        let finding = explain(&question).findings.remove(0);
        let name =
            finding.enclosing.map_or(String::new(), |of| CallTree::name(&profile, of.function).into_owned());
        (finding, name)
    }

    #[test]
    fn the_bound_is_that_of_the_function_with_its_callees() {
        let clone = "main@m.rs:1;app::copy@m.rs:9;<T as core::clone::Clone>::clone;malloc 100";
        let (finding, function) =
            first(&format!("{clone}\nmain@m.rs:1;app::copy@m.rs:9;app::work@m.rs:20 100\nmain@m.rs:2 200"));
        assert_eq!((finding.share, finding.speedup), (0.25, Some(1.0 / 0.75)));
        assert_eq!((finding.enclosing.map(|of| of.share), finding.max_speedup), (Some(0.5), Some(2.0)));
        assert_eq!(function, "app::copy");
    }

    #[test]
    fn all_functions_with_a_part_of_the_pattern_are_in_the_bound() {
        let clone =
            |line| format!("main@m.rs:1;app::f{line}@m.rs:{line};<T as core::clone::Clone>::clone 100");
        let (finding, _) = first(&format!("{}\n{}\nmain@m.rs:2 200", clone(3), clone(4)));
        let enclosing = finding.enclosing.map(|of| (of.others, of.share));
        assert_eq!((finding.share, enclosing), (0.5, Some((1, 0.5))));
    }
}
