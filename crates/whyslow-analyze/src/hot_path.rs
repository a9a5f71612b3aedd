//! The one path that matters most.

use whyslow_profile::{Carrier, CodeKind, Profile};

use crate::call_tree::CallTree;
use crate::growing::Repeat;
use crate::labels::Label;
use crate::outline::Outline;
use crate::units::share;

/// A branch with less than this share of everything is not worth following.
const LEAST_SHARE: f64 = 0.05;

/// One step of the hottest path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HotStep {
    /// The function.
    pub label: Label,
    /// Whether the compiler inlined it into the one before.
    pub inlined: bool,
    /// How often the frames that end here came again.
    pub repeat: Repeat,
    /// Value of the samples that end here.
    pub self_value: u64,
    /// Value of the samples at or below here.
    pub total_value: u64,
}

/// Follows the heaviest callee from the outside in, until a function spends more by itself than in its heaviest callee.
/// What starts programs is left out when something of the user's comes after it.
pub fn hot_path(profile: &Profile, top_down: &Outline) -> Vec<HotStep> {
    let tree = &top_down.tree;
    let mut steps = Vec::new();
    let mut node = 0u32;
    while let Some(&child) = top_down.children.of(node).first() {
        let at = child as usize;
        let done = tree.total_value[at] <= tree.self_value[node as usize]
            || share(tree.total_value[at], top_down.total_value()) < LEAST_SHARE;
        if done {
            break;
        }
        node = child;
        steps.push(HotStep {
            label: tree.label[at],
            inlined: tree.inlined[at],
            repeat: top_down.repeats[at],
            self_value: tree.self_value[at],
            total_value: tree.total_value[at],
        });
    }
    let starts = |step: &HotStep| is_start_up(&CallTree::name(profile, step.label));
    let users = |step: &HotStep| {
        matches!(CallTree::kind(profile, step.label), CodeKind::Yours | CodeKind::Dependency)
    };
    // A Rust program's C `main` is outside of `lang_start`, and the user's own `main` inside.
    let started = steps.iter().rposition(starts).map_or(0, |last| last + 1);
    if let Some(first) = steps[started..].iter().position(users) {
        steps.drain(..started + first);
    }
    steps
}

/// True for names of code that only starts a program or a thread.
pub fn is_start_up(name: &str) -> bool {
    Carrier::of_name(name).is_some_and(Carrier::starts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_tree::TreeOptions;
    use crate::selection::Selection;
    use crate::testing;

    fn path(folded: &str) -> Vec<String> {
        let profile = testing::profile(folded);
        let outline = Outline::build(&profile, &Selection::default(), &TreeOptions::default());
        let steps = hot_path(&profile, &outline);
        steps.iter().map(|step| CallTree::name(&profile, step.label).into_owned()).collect()
    }

    #[test]
    fn it_starts_at_the_users_code_and_ends_where_the_time_is() {
        assert_eq!(
            path(
                "_start;__libc_start_main;main;std::rt::lang_start;app::main;app::run;app::hot;memcpy 4
                  _start;__libc_start_main;main;std::rt::lang_start;app::main;app::run;app::hot 6
                  _start;__libc_start_main;main;std::rt::lang_start;app::main;app::cold 5"
            ),
            ["app::main", "app::run", "app::hot"]
        );
    }

    #[test]
    fn a_program_of_nothing_but_start_up_still_has_a_path() {
        assert_eq!(path("_start;__libc_start_main 3"), ["_start", "__libc_start_main"]);
        assert_eq!(path(""), [""; 0]);
    }

    #[test]
    fn deep_recursion_is_one_step() {
        assert_eq!(path(&format!("main{};leaf 9", ";f".repeat(300))), ["main", "f", "leaf"]);
    }
}
