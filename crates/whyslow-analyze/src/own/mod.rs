//! Charges each stack to a frame of your code.
//!
//! A sample in `memcpy` that `app::parse` caused through `Vec::push` is charged to the line of `app::parse`.
//! The charged frame is the nearest one by [`Nearness`]; among equally near frames it is the innermost.

mod functions;
mod lines;

pub use functions::{Beneath, OwnLine, OwnRow, OwnTable};
pub use lines::{By, HotLine, HotLines};

use rustc_hash::FxHashSet;
use whyslow_profile::{CodeKind, Frame, LocationId, MetricId, ModuleKind, Profile, StackId, StringId};

use crate::heap::{Wrappers, is_heap_metric};
use crate::labels::{self, Label, Labels};

/// One frame of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackFrame {
    /// The function.
    pub label: Label,
    /// The file of the line.
    pub file: Option<StringId>,
    /// The line; 0 if unknown.
    pub line: u32,
    /// Whether the compiler inlined it into the next one.
    pub inlined: bool,
}

impl StackFrame {
    fn named(frame: &Frame, inlined: bool) -> Self {
        Self { label: Label::Function(frame.function), file: frame.file, line: frame.line, inlined }
    }

    fn unnamed(profile: &Profile, location: LocationId) -> Self {
        Self { label: labels::without_frames(profile, location), file: None, line: 0, inlined: false }
    }
}

/// The frames of a stack, innermost first.
pub fn frames_of(profile: &Profile, stack: StackId) -> impl Iterator<Item = StackFrame> + '_ {
    profile.locations_of(stack).flat_map(|location| frames_at(profile, location, true).rev())
}

/// The frames of a location, outermost first; one frame without a name if nothing is known of it.
pub fn frames_at(
    profile: &Profile,
    location: LocationId,
    inline: bool,
) -> impl DoubleEndedIterator<Item = StackFrame> + '_ {
    let frames = labels::shown(profile, location, inline);
    let unnamed = frames.is_empty().then(|| StackFrame::unnamed(profile, location));
    let named = frames.iter().enumerate().map(|(depth, frame)| StackFrame::named(frame, depth > 0));
    named.chain(unnamed)
}

/// How near a frame is to your code, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// Your code.
    Own,
    /// Code of the program itself of unknown origin: built without debug info.
    Program,
    /// Code of a dependency.
    Dependency,
    /// Other code of unknown origin.
    Unknown,
    /// For memory: a function through which others allocate, see [`crate::heap::Wrappers`].
    Wrapper,
    /// The standard library, the runtime.
    Std,
    /// The kernel, which works for its caller.
    Kernel,
    /// The allocator, which works for its caller.
    Allocator,
    /// Frames that are not in the profile: the outer ones of a truncated stack, or a part of a deep recursion.
    Missing,
}

impl Nearness {
    /// How near a label is.
    pub fn of(profile: &Profile, label: Label) -> Self {
        match labels::kind(profile, label) {
            _ if label == Label::Truncated || labels::is_left_out(profile, label) => Self::Missing,
            CodeKind::Yours => Self::Own,
            CodeKind::Dependency => Self::Dependency,
            CodeKind::Unknown if is_of_program(profile, label) => Self::Program,
            CodeKind::Unknown => Self::Unknown,
            CodeKind::Std | CodeKind::Runtime => Self::Std,
            CodeKind::Kernel => Self::Kernel,
            CodeKind::Allocator => Self::Allocator,
        }
    }
}

fn is_of_program(profile: &Profile, label: Label) -> bool {
    let module = match label {
        Label::Function(id) => profile.functions.get(id.index()).and_then(|function| function.module),
        Label::Module(id) => Some(id),
        Label::Root | Label::Unknown | Label::Truncated | Label::Carried(_) => None,
    };
    let module = module.and_then(|id| profile.modules.get(id.index()));
    module.is_some_and(|module| module.kind == ModuleKind::Program)
}

/// The frame that each stack is charged to.
#[derive(Debug, Clone)]
pub struct Charges {
    frames: Vec<Charge>,
    inline: bool,
    /// For memory: the functions through which others allocate.
    wrappers: FxHashSet<Label>,
}

/// What a stack is charged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charge {
    /// The frame.
    pub frame: StackFrame,
    /// How near it is.
    pub nearness: Nearness,
    /// The stack that ends with the frame's location, and how many frames of the location are outside it.
    at: (StackId, u32),
}

impl Charges {
    /// Finds the charged frame of every stack. Without `inline`, inlined functions are part of the function
    /// they were inlined into.
    pub fn new(profile: &Profile, inline: bool) -> Self {
        Self::ranked(profile, inline, |label| Nearness::of(profile, label))
    }

    /// Charges memory to the functions that requested it, not to the wrappers through which they allocate.
    pub fn of_heap(profile: &Profile, inline: bool, wrappers: &Wrappers) -> Self {
        let charges = Self::ranked(profile, inline, |label| wrappers.nearness(profile, label));
        let functions = (0..profile.functions.len()).map(|id| Label::Function(id.into()));
        let is_wrapper = |label: &Label| wrappers.nearness(profile, *label) == Nearness::Wrapper;
        Self { wrappers: functions.filter(is_wrapper).collect(), ..charges }
    }

    /// The charges for a metric.
    pub fn of_metric(profile: &Profile, inline: bool, metric: MetricId) -> Self {
        if is_heap_metric(profile, metric) {
            Self::of_heap(profile, inline, &Wrappers::find(profile))
        } else {
            Self::new(profile, inline)
        }
    }

    /// Charges the innermost frame outside std, runtime, kernel, allocator and wrappers, whether it is your
    /// code or not.
    pub(crate) fn of_sites(profile: &Profile, wrappers: &Wrappers) -> Self {
        Self::ranked(profile, true, |label| match wrappers.nearness(profile, label) {
            near if near < Nearness::Wrapper => Nearness::Own,
            nearness => nearness,
        })
    }

    fn ranked(profile: &Profile, inline: bool, nearness_of: impl Fn(Label) -> Nearness) -> Self {
        let labels = Labels::new(profile);
        let mut frames: Vec<Charge> = Vec::with_capacity(profile.stacks.len());
        for index in 0..profile.stacks.len() {
            let stack = StackId::from(index);
            let mut best = profile.stacks.parent(stack).map(|parent| frames[parent.index()]);
            let here = (0u32..).zip(frames_at(profile, profile.stacks.location(stack), inline));
            // From the outside in: among equally near frames the innermost is charged.
            for (depth, frame) in here {
                let nearness = nearness_of(frame.label);
                if best.is_none_or(|best| nearness <= best.nearness) {
                    // Instances of a generic function at one line are one place.
                    let frame = StackFrame { label: labels.label(labels.code(frame.label)), ..frame };
                    best = Some(Charge { frame, nearness, at: (stack, depth) });
                }
            }
            frames.extend(best);
        }
        Self { frames, inline, wrappers: FxHashSet::default() }
    }

    /// Whether inlined functions count as separate functions.
    pub(crate) fn inline(&self) -> bool {
        self.inline
    }

    /// Whether others allocate through a function.
    pub(crate) fn is_wrapper(&self, label: Label) -> bool {
        self.wrappers.contains(&label)
    }

    /// What a stack is charged to.
    pub fn of(&self, stack: StackId) -> &Charge {
        &self.frames[stack.index()]
    }

    /// The innermost frame of a stack.
    pub(crate) fn innermost(&self, profile: &Profile, stack: StackId) -> StackFrame {
        self.beneath(profile, stack).next().unwrap_or(self.of(stack).frame)
    }

    /// The frames of a stack inside the charged one, innermost first.
    pub fn beneath<'a>(
        &self,
        profile: &'a Profile,
        stack: StackId,
    ) -> impl Iterator<Item = StackFrame> + use<'a> {
        let ((last, outside), inline) = (self.of(stack).at, self.inline);
        let whole = std::iter::successors(Some(stack), |&at| profile.stacks.parent(at))
            .take_while(move |&at| at != last)
            .flat_map(move |at| frames_at(profile, profile.stacks.location(at), inline).rev());
        let inlined = frames_at(profile, profile.stacks.location(last), inline).skip(outside as usize + 1);
        whole.chain(inlined.collect::<Vec<_>>().into_iter().rev())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// For the last stack of a profile: what it is charged to, and the frames inside that.
    fn charged(folded: &str) -> (String, u32, Vec<String>) {
        let profile = testing::profile(folded);
        let stack = *profile.samples[0].stack.last().unwrap();
        let charges = Charges::new(&profile, true);
        let name = |label| labels::name(&profile, label).into_owned();
        let frame = charges.of(stack).frame;
        let beneath = charges.beneath(&profile, stack).map(|frame| name(frame.label)).collect();
        (name(frame.label), frame.line, beneath)
    }

    #[test]
    fn calls_are_charged_to_your_line() {
        assert_eq!(
            charged("_start;app::main@m.rs:3;app::f@m.rs:9;dep::x;+dep::y;std::read;sys_read 1"),
            ("app::f".into(), 9, ["sys_read", "std::read", "dep::y", "dep::x"].map(str::to_owned).to_vec())
        );
        assert_eq!(
            charged("app::main@m.rs:3;+alloc::vec::push@v.rs:1;malloc 1"),
            ("app::main".into(), 3, ["malloc", "alloc::vec::push"].map(str::to_owned).to_vec())
        );
        assert_eq!(charged("app::main@m.rs:3;dep::each;app::f@m.rs:7 1"), ("app::f".into(), 7, vec![]));
    }

    #[test]
    fn without_your_code_the_nearest_dependency_or_caller_is_charged() {
        let name = |folded| charged(folded).0;
        assert_eq!(name("_start;dep::pool;dep::run;std::wait;sys_futex 1"), "dep::run");
        assert_eq!(name("_start;[libz.so];std::read;sys_read 1"), "[libz.so]");
        assert_eq!(name("_start;std::read;malloc;sys_brk 1"), "std::read");
        assert_eq!(name("sys_idle 1"), "sys_idle");
        assert_eq!(name("[truncated];std::read 1"), "std::read");
        assert_eq!(name("[truncated] 1"), "[truncated stack]");
    }

    #[test]
    fn program_code_without_debug_info_is_nearer_than_a_dependency() {
        let mut profile = testing::profile("main;dep::ssl;sys_read 1");
        profile.functions[0].kind = CodeKind::Unknown;
        let charges = Charges::new(&profile, true);
        let charge = charges.of(profile.samples[0].stack[0]);
        assert_eq!((charge.frame.label, charge.nearness), (Label::Function(0.into()), Nearness::Program));
    }

    #[test]
    fn without_inlining_the_owner_is_charged() {
        let profile = testing::profile("dep::x;+app::f;+std::y 1");
        let stack = profile.samples[0].stack[0];
        let charges = Charges::new(&profile, false);
        assert_eq!(labels::name(&profile, charges.of(stack).frame.label), "dep::x");
        assert_eq!(charges.beneath(&profile, stack).count(), 0);
    }
}
