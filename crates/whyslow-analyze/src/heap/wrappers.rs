//! Functions through which a program allocates, and which say nothing about who requested the memory.
//!
//! Some are known by their names ([`is_allocation_wrapper`]). Others are evident from the profile. Call the
//! innermost function of an allocating stack that is not std, runtime, kernel, allocator or a wrapper
//! *direct*. F is a wrapper if
//!
//! - F is direct for at least [`NEARLY_ALL`] of all bytes or of all allocations,
//! - at least [`MANY`] other functions call it there, and
//! - F is nowhere else on an allocating stack: it does nothing but allocate.
//!
//! Then F counts as a wrapper and the search starts again, since wrappers call wrappers. A function that
//! allocates everything in a loop is not one: it has one caller. Neither is one that recurses, or that works
//! with what it allocated.

use rustc_hash::{FxHashMap, FxHashSet};
use whyslow_profile::{Profile, StackId, is_allocation_wrapper};

use crate::labels::{Label, Labels};
use crate::own::{Nearness, frames_at};

/// The minimum share of everything that goes through a wrapper.
const NEARLY_ALL: f64 = 0.9;
/// The minimum number of callers of a wrapper.
const MANY: usize = 5;
/// The maximum number of nested wrappers to find.
const MAX_EVIDENT: usize = 8;

/// The functions of a profile that allocate for others.
#[derive(Debug)]
pub struct Wrappers {
    /// Indexed by label number.
    is_wrapper: Vec<bool>,
    labels: Labels,
    /// Wrappers that are evident from the profile, innermost first.
    pub evident: Vec<Label>,
}

impl Wrappers {
    /// Wrappers known by name: the same in every profile of a program.
    pub fn known(profile: &Profile) -> Self {
        let labels = Labels::new(profile);
        let mut is_wrapper = vec![false; labels.len()];
        for (id, function) in profile.functions.iter().enumerate() {
            if is_allocation_wrapper(profile.text(function.name), function.kind) {
                is_wrapper[labels.code(Label::Function(id.into())) as usize] = true;
            }
        }
        Self { is_wrapper, labels, evident: Vec::new() }
    }

    /// Wrappers known by name, and those evident from the profile.
    pub fn find(profile: &Profile) -> Self {
        let mut wrappers = Self::known(profile);
        while wrappers.evident.len() < MAX_EVIDENT
            && let Some(code) = wrappers.next_evident(profile)
        {
            wrappers.is_wrapper[code as usize] = true;
            wrappers.evident.push(wrappers.labels.label(code));
        }
        wrappers
    }

    /// How near a label is to your code, for memory.
    pub(crate) fn nearness(&self, profile: &Profile, label: Label) -> Nearness {
        match Nearness::of(profile, label) {
            near if near < Nearness::Wrapper && self.is_wrapper[self.labels.code(label) as usize] => {
                Nearness::Wrapper
            }
            nearness => nearness,
        }
    }

    fn next_evident(&self, profile: &Profile) -> Option<u32> {
        let stacks = self.direct_and_caller(profile);
        let mut sums: FxHashMap<u32, Sums> = FxHashMap::default();
        let mut whole = (0u64, 0u64);
        for site in &profile.heap.sites {
            let Some((direct, caller)) = stacks[site.stack.index()] else { continue };
            let sum = sums.entry(direct).or_default();
            for (bytes, allocations) in [(&mut whole.0, &mut whole.1), (&mut sum.bytes, &mut sum.allocations)]
            {
                *bytes = bytes.saturating_add(site.counts.bytes_allocated);
                *allocations = allocations.saturating_add(site.counts.allocations);
            }
            sum.callers.extend(caller);
        }
        let nearly_all = |part: u64, whole: u64| whole > 0 && part as f64 >= whole as f64 * NEARLY_ALL;
        let found = sums.iter().filter(|(_, sum)| {
            let through = nearly_all(sum.bytes, whole.0) || nearly_all(sum.allocations, whole.1);
            through && sum.callers.len() >= MANY
        });
        let code = found.max_by_key(|(code, sum)| (sum.allocations, **code)).map(|(&code, _)| code)?;
        self.only_allocates(profile, code, &stacks).then_some(code)
    }

    /// For each stack, its direct function and the next function outside it.
    fn direct_and_caller(&self, profile: &Profile) -> Vec<Option<(u32, Option<u32>)>> {
        let mut stacks: Vec<Option<(u32, Option<u32>)>> = Vec::with_capacity(profile.stacks.len());
        for stack in (0..profile.stacks.len()).map(StackId::from) {
            let mut at = profile.stacks.parent(stack).and_then(|parent| stacks[parent.index()]);
            for frame in frames_at(profile, profile.stacks.location(stack), true) {
                if self.nearness(profile, frame.label) >= Nearness::Wrapper {
                    continue;
                }
                let code = self.labels.code(frame.label);
                at = match at {
                    Some((direct, caller)) if direct == code => Some((direct, caller)),
                    outer => Some((code, outer.map(|(direct, _)| direct))),
                };
            }
            stacks.push(at);
        }
        stacks
    }

    /// Whether a function appears on allocating stacks only once each, and only as the direct one.
    fn only_allocates(&self, profile: &Profile, code: u32, stacks: &[Option<(u32, Option<u32>)>]) -> bool {
        let mut times: Vec<u32> = Vec::with_capacity(profile.stacks.len());
        for stack in (0..profile.stacks.len()).map(StackId::from) {
            let outer = profile.stacks.parent(stack).map_or(0, |parent| times[parent.index()]);
            let here = frames_at(profile, profile.stacks.location(stack), true);
            let here = here.filter(|frame| self.labels.code(frame.label) == code).count();
            times.push(outer.saturating_add(here as u32));
        }
        profile.heap.sites.iter().all(|site| match times[site.stack.index()] {
            0 => true,
            1 => stacks[site.stack.index()].is_some_and(|(direct, _)| direct == code),
            _ => false,
        })
    }
}

/// The totals of a direct function.
#[derive(Default)]
struct Sums {
    bytes: u64,
    allocations: u64,
    callers: FxHashSet<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{labels, testing};

    fn evident(text: &str) -> Vec<String> {
        let profile = testing::heap_profile(text);
        let evident = Wrappers::find(&profile).evident;
        evident.into_iter().map(|label| labels::name(&profile, label).into_owned()).collect()
    }

    /// Five functions that allocate through the given one.
    fn callers_of(inner: &str) -> String {
        let line = |name| format!("main;{name};{inner} : allocations=10 bytes_allocated=100\n");
        ["a", "b", "c", "d", "e"].map(line).concat()
    }

    #[test]
    fn finds_a_function_that_all_others_allocate_through() {
        assert_eq!(evident(&callers_of("room;std::x;malloc")), ["room"]);
        assert_eq!(evident(&callers_of("more_room;room;malloc")), Vec::<String>::new());
        let both = callers_of("room;malloc") + &callers_of("get_room;room;malloc");
        assert_eq!(evident(&both), ["room"]);
    }

    #[test]
    fn wrappers_around_known_wrappers_are_evident() {
        assert_eq!(evident(&callers_of("room;xmalloc;malloc")), ["room"]);
    }

    #[test]
    fn function_that_allocates_everything_is_not_a_wrapper() {
        assert_eq!(evident("main;load;malloc : allocations=9 bytes_allocated=900"), Vec::<String>::new());
        let few =
            "main;a;load : allocations=9 bytes_allocated=9\nmain;b;load : allocations=9 bytes_allocated=9";
        assert_eq!(evident(few), Vec::<String>::new());
    }

    #[test]
    fn recursive_function_or_one_with_allocating_callees_is_not_a_wrapper() {
        let recursive = callers_of("parse") + "main;parse;a;parse : allocations=1 bytes_allocated=1";
        assert_eq!(evident(&recursive), Vec::<String>::new());
        let works = callers_of("insert") + "main;a;insert;hash : allocations=1 bytes_allocated=1";
        assert_eq!(evident(&works), Vec::<String>::new());
    }

    #[test]
    fn half_of_everything_is_not_enough() {
        let half = callers_of("room") + "main;other : allocations=50 bytes_allocated=500";
        assert_eq!(evident(&half), Vec::<String>::new());
    }
}
