//! The hot path.

use whyslow_profile::{Carrier, CodeKind, Profile, StackId};

use crate::call_tree::{CallTree, TreeOptions};
use crate::growing::Repeat;
use crate::labels::{Label, Labels, is_not_sampled};
use crate::outline::Outline;
use crate::own::{Charges, OwnRow, OwnTable};
use crate::selection::Weights;
use crate::units::share;

/// Below the hottest function, branches with less than this share of everything are not followed.
const MIN_SHARE: f64 = 0.05;
/// A function with less than this share of everything does not tell where the time is.
const MIN_PATH: f64 = 0.1;
/// The heaviest branch is followed while it has at least this share of the one before.
const MIN_BRANCH: f64 = 0.5;

/// One step of the hot path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HotStep {
    /// The function.
    pub label: Label,
    /// Whether the compiler inlined it into the one before.
    pub inlined: bool,
    /// How often the frames that end here repeat.
    pub repeat: Repeat,
    /// Value of the samples that end here.
    pub self_value: u64,
    /// Value of the samples at or below here.
    pub total_value: u64,
    /// The part of it that is own time of the function with the most own time. Below that function it is
    /// never more than that own time, also if the function is recursive.
    pub leading_value: u64,
}

/// Where a hot path leads.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum PathEnd {
    /// To the function with the most own time.
    #[default]
    Function,
    /// To where the time of a program without a hot function branches out.
    Branch,
}

/// The path that leads to where most of the time is.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct HotPath {
    /// The functions, from the outside in.
    pub steps: Vec<HotStep>,
    /// Where it leads.
    pub end: PathEnd,
    /// The step of the function with the most own time; the steps after it are its callees. Of a branch, the
    /// last step.
    pub own_step: usize,
    /// The own value of that function, on all paths. Of a branch, the value at or below its last step.
    pub own_value: u64,
    /// The part of it that is on this path.
    pub path_value: u64,
}

impl HotPath {
    /// The heaviest path to the function with the most own time, and on from there until a function's self
    /// time exceeds its heaviest callee.
    ///
    /// Following the heaviest callee from the outside would miss a function that many call a little each.
    /// Where no function has much, that callee is what the program does most.
    /// Code that starts the program or runs your code is left out if your code follows.
    pub fn find(profile: &Profile, weights: &Weights, charges: &Charges, own: &OwnTable) -> Self {
        // Time without samples has no path.
        let sampled = |row: &&OwnRow| !is_not_sampled(profile, row.label);
        let Some(top) = own.rows.iter().find(sampled) else { return Self::default() };
        let labels = Labels::new(profile);
        let code = labels.code(top.label);
        let mut guiding = weights.clone();
        for stack in 0..weights.value.len() {
            if labels.code(charges.of(StackId::from(stack)).frame.label) != code {
                guiding.value[stack] = 0;
                guiding.count[stack] = 0;
            }
        }
        let options = TreeOptions { inline: charges.inline(), ..TreeOptions::default() };
        let outline = Outline::from_weights(profile, weights, &options);
        let guide = Outline::from_weights(profile, &guiding, &options);
        let mut path = follow(profile, &outline, &guide, top.label);
        path.own_value = top.own_value;
        if share(path.own_value, outline.total_value()) < MIN_PATH
            && let Some(branch) = heaviest_branch(profile, &outline)
        {
            path = branch;
        }
        path.drop_start(profile);
        path
    }

    /// Removes the steps before your code.
    fn drop_start(&mut self, profile: &Profile) {
        let kind = |step: &HotStep| CallTree::kind(profile, step.label);
        let starts = |step: &HotStep| is_start_up(&CallTree::name(profile, step.label));
        // A Rust program's C `main` is outside `lang_start`, and your own `main` inside it.
        let started = self.steps.iter().rposition(starts).map_or(0, |last| last + 1);
        let first = |wanted| self.steps[started..].iter().position(|step| kind(step) == wanted);
        let known = first(CodeKind::Yours).or_else(|| first(CodeKind::Dependency));
        if let Some(first) = known.or_else(|| first(CodeKind::Unknown)) {
            let dropped = (started + first).min(self.own_step);
            self.steps.drain(..dropped);
            self.own_step -= dropped;
        }
    }
}

/// Follows the guiding tree, and takes values from the whole one.
fn follow(profile: &Profile, outline: &Outline, guide: &Outline, top: Label) -> HotPath {
    let mut path = HotPath::default();
    let mut reached = false;
    let (mut at, mut whole) = (0u32, 0u32);
    while let Some(&child) = guide.children().of(at).first() {
        let (value, spent) = (guide.tree.total_value[child as usize], guide.tree.self_value[at as usize]);
        if reached && (value <= spent || share(value, outline.total_value()) < MIN_SHARE) {
            break;
        }
        let label = guide.tree.label[child as usize];
        // Kernel internals are not shown. Calling the kernel is what the caller can change.
        if reached
            && path.own_step + 1 < path.steps.len()
            && CallTree::kind(profile, label) == CodeKind::Kernel
        {
            break;
        }
        let same = |node: &&u32| outline.tree.label[**node as usize] == label;
        let Some(&node) = outline.children().of(whole).iter().find(same) else { break };
        (at, whole) = (child, node);
        // Of a recursive function, the outermost call has all of its own time below it.
        if label == top && !reached {
            reached = true;
            path.own_step = path.steps.len();
            path.path_value = value;
        }
        let tree = &outline.tree;
        path.steps.push(HotStep {
            label,
            inlined: tree.inlined[node as usize],
            repeat: outline.repeats.of(node),
            self_value: tree.self_value[node as usize],
            total_value: tree.total_value[node as usize],
            leading_value: value,
        });
    }
    path
}

/// The heaviest callee from the outside in, up to where no callee has most of it.
fn heaviest_branch(profile: &Profile, outline: &Outline) -> Option<HotPath> {
    let tree = &outline.tree;
    let mut path = HotPath { end: PathEnd::Branch, ..HotPath::default() };
    let (mut at, mut value) = (0u32, outline.total_value());
    while let Some(&child) = outline.children().of(at).first() {
        let (label, below) = (tree.label[child as usize], tree.total_value[child as usize]);
        // Threads and processes begin next to each other: of those, the heaviest one.
        let is_start = path.steps.iter().all(|step| is_start_up(&CallTree::name(profile, step.label)));
        if !is_start && (below as f64) < MIN_BRANCH * value as f64 {
            break;
        }
        if CallTree::kind(profile, label) == CodeKind::Kernel || is_not_sampled(profile, label) {
            break;
        }
        (at, value) = (child, below);
        path.steps.push(HotStep {
            label,
            inlined: tree.inlined[child as usize],
            repeat: outline.repeats.of(child),
            self_value: tree.self_value[child as usize],
            total_value: below,
            leading_value: below,
        });
    }
    let last = path.steps.last()?;
    (path.own_step, path.own_value, path.path_value) =
        (path.steps.len() - 1, last.total_value, last.total_value);
    (share(path.path_value, outline.total_value()) >= MIN_PATH).then_some(path)
}

/// Whether a name is of code that only starts a program or a thread.
pub fn is_start_up(name: &str) -> bool {
    Carrier::of_name(name).is_some_and(Carrier::starts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::Selection;
    use crate::testing::{self, SAMPLE_NS};

    fn found(folded: &str) -> (Vec<String>, HotPath) {
        let profile = testing::profile(folded);
        let weights = Selection::default().weigh(&profile);
        let charges = Charges::new(&profile, true);
        let own = OwnTable::build(&profile, &weights, &charges);
        let path = HotPath::find(&profile, &weights, &charges, &own);
        let names = path.steps.iter().map(|step| CallTree::name(&profile, step.label).into_owned());
        (names.collect(), path)
    }

    fn path(folded: &str) -> Vec<String> {
        found(folded).0
    }

    #[test]
    fn starts_at_your_code_and_ends_where_the_time_is() {
        assert_eq!(
            path(
                "_start;__libc_start_main;main;std::rt::lang_start;app::main;app::run;app::hot;dep::memcpy 4
                  _start;__libc_start_main;main;std::rt::lang_start;app::main;app::run;app::hot 6
                  _start;__libc_start_main;main;std::rt::lang_start;app::main;app::cold 5"
            ),
            ["app::main", "app::run", "app::hot"]
        );
    }

    #[test]
    fn leads_to_samples_and_not_to_time_without_any() {
        assert_eq!(path("[not sampled] 9\napp::main;app::hot 3"), ["app::main", "app::hot"]);
        assert_eq!(path("[not sampled] 9"), [""; 0]);
    }

    #[test]
    fn finds_a_function_that_many_call_a_little() {
        let callers =
            (0..10).map(|caller| format!("app::main;app::c{caller};app::hot;dep::x {}\n", 30 + caller));
        let folded =
            callers.collect::<String>() + "app::main;app::aside 60\napp::main;app::aside;app::other 50";
        let (names, path) = found(&folded);
        assert_eq!(names, ["app::main", "app::c9", "app::hot", "dep::x"]);
        assert_eq!((path.own_step, path.own_value / SAMPLE_NS, path.path_value / SAMPLE_NS), (2, 345, 39));
        assert_eq!(path.steps[0].total_value / SAMPLE_NS, 455, "of all samples, also those off the path");
    }

    #[test]
    fn no_step_below_a_recursive_function_has_more_than_its_own_time() {
        let leaves = (0..10)
            .map(|leaf| format!("app::main;app::total;std::fold;app::total;std::fold;app::leaf{leaf} 5\n"));
        let folded = leaves.collect::<String>()
            + "app::main;app::total;std::fold;app::total 30\napp::main;app::total;std::fold;app::total;std::fold 16";
        let (names, path) = found(&folded);
        assert_eq!(names, ["app::main", "app::total", "std::fold", "app::total"]);
        assert_eq!((path.own_step, path.own_value / SAMPLE_NS, path.path_value / SAMPLE_NS), (1, 46, 46));
        let leading = path.steps.iter().map(|step| step.leading_value / SAMPLE_NS).collect::<Vec<_>>();
        assert_eq!(leading, [46, 46, 46, 30]);
        assert_eq!(path.steps[2].total_value / SAMPLE_NS, 96, "with what others spend below");
    }

    #[test]
    fn leads_to_where_the_time_branches_out_if_no_function_has_much() {
        let pass = |pass: usize| format!("_start;app::main;app::compile;app::passes;app::pass{pass} 3\n");
        let folded = (0..15).map(pass).collect::<String>()
            + &(0..15)
                .map(|rule| format!("_start;app::main;app::parse;app::rule{rule} 2\n"))
                .collect::<String>();
        let (names, path) = found(&folded);
        assert_eq!(names, ["app::main", "app::compile", "app::passes"]);
        assert_eq!((path.end, path.own_step, path.own_value / SAMPLE_NS), (PathEnd::Branch, 2, 45));
    }

    #[test]
    fn leaves_out_code_that_runs_your_code() {
        assert_eq!(
            path("clone3;std::rt::thread;dep::pool;dep::run;app::task;dep::scan;std::copy 9"),
            ["app::task", "dep::scan", "std::copy"]
        );
        assert_eq!(path("_start;dep::pool;dep::run;std::wait 9"), ["dep::pool", "dep::run", "std::wait"]);
    }

    #[test]
    fn ends_where_the_kernel_is_called() {
        assert_eq!(path("app::main;std::read;sys_entry;sys_read 9"), ["app::main", "std::read"]);
        assert_eq!(path("app::main;sys_fault;sys_page;sys_zero 9"), ["app::main", "sys_fault"]);
    }

    #[test]
    fn program_with_only_start_up_code_still_has_a_path() {
        assert_eq!(path("_start;__libc_start_main 3"), ["_start", "__libc_start_main"]);
        assert_eq!(path(""), [""; 0]);
    }

    #[test]
    fn deep_recursion_is_one_step() {
        assert_eq!(path(&format!("main{};leaf 9", ";f".repeat(300))), ["main", "f", "leaf"]);
    }
}
