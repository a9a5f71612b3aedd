//! The main path to an allocating line: its callers, or the way from your line to it.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use whyslow_profile::{Profile, StackId};

use super::sites::{SiteOrder, SiteRow, Sites};
use crate::labels::{self, Labels};
use crate::own::{Nearness, StackFrame, frames_of};

/// The maximum number of steps.
const MAX_STEPS: usize = 5;
/// The maximum number of branches at the end of a trail, and the minimum share of each.
const MAX_BRANCHES: usize = 3;
const MIN_BRANCH: f64 = 0.1;
/// The maximum number of frames examined per stack.
const MAX_FRAMES: usize = 256;

/// The functions that most of a value went through, one after another, and the functions that it is split
/// among at the end.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Trail {
    /// Each has more than half of the whole.
    pub steps: Vec<TrailStep>,
    /// Where no function has more than half: the largest, at least two.
    pub branches: Vec<TrailStep>,
    /// The value at the start of the trail.
    pub whole: u64,
}

/// A function on a trail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrailStep {
    /// The frame, as it is on the heaviest stack.
    pub frame: StackFrame,
    /// The part of the whole on stacks that match the trail so far.
    pub value: u64,
}

impl Sites {
    /// The callers of a line, from the inside out.
    pub fn callers(&self, profile: &Profile, row: &SiteRow, order: SiteOrder) -> Trail {
        let outwards = |stack| self.speaking(profile, stack).skip(1).collect();
        self.trail(profile, std::slice::from_ref(&row), order, outwards)
    }

    /// The path from a line of your code to the lines that allocate for it, from the outside in.
    pub fn inside(&self, profile: &Profile, own: &StackFrame, order: SiteOrder) -> Trail {
        let rows = self.rows.iter().filter(|row| row.own.is_some_and(|frame| same(&frame, own)));
        let inwards = |stack| {
            let inside = self.speaking(profile, stack).take_while(|frame| !same(frame, own));
            let mut frames = inside.collect::<Vec<_>>();
            frames.reverse();
            frames
        };
        self.trail(profile, &rows.collect::<Vec<_>>(), order, inwards)
    }

    /// The line of your code that others allocate most for, if that is more than half of everything.
    pub fn mostly_for(&self, order: SiteOrder) -> Option<(StackFrame, u64)> {
        let (mut whole, mut sums) = (0u64, FxHashMap::default());
        for row in &self.rows {
            whole = whole.saturating_add(row.key(order));
            if let Some(own) = row.own {
                let sum = &mut sums.entry((own.label, own.file, own.line)).or_insert((own, 0u64)).1;
                *sum = sum.saturating_add(row.key(order));
            }
        }
        sums.into_values().find(|(_, value)| *value > whole / 2)
    }

    /// The informative frames of a stack, innermost first, without direct repetitions.
    fn speaking<'a>(&'a self, profile: &'a Profile, stack: StackId) -> impl Iterator<Item = StackFrame> + 'a {
        let mut last = None;
        frames_of(profile, stack)
            .filter(|frame| self.wrappers.nearness(profile, frame.label) < Nearness::Wrapper)
            .filter(|frame| labels::carrier(profile, frame.label).is_none())
            .filter(move |frame| last.replace(frame.label) != Some(frame.label))
            .take(MAX_FRAMES)
    }

    fn trail(
        &self,
        profile: &Profile,
        rows: &[&SiteRow],
        order: SiteOrder,
        frames: impl Fn(StackId) -> Vec<StackFrame>,
    ) -> Trail {
        let sites = rows.iter().flat_map(|row| row.rows.iter().map(|&at| &profile.heap.sites[at as usize]));
        let stacks = sites.map(|site| (site.stack, order.key(&site.counts)));
        let stacks = stacks.filter(|(_, value)| *value > 0).map(|(stack, value)| (frames(stack), value));
        follow(&Labels::new(profile), stacks.collect())
    }
}

fn same(a: &StackFrame, b: &StackFrame) -> bool {
    (a.label, a.file, a.line) == (b.label, b.file, b.line)
}

fn follow(labels: &Labels, mut stacks: Vec<(Vec<StackFrame>, u64)>) -> Trail {
    let sum = |stacks: &[(Vec<StackFrame>, u64)]| {
        stacks.iter().fold(0u64, |sum, (_, value)| sum.saturating_add(*value))
    };
    let mut trail = Trail { whole: sum(&stacks), ..Trail::default() };
    // The frame of the heaviest stack stands for its function.
    stacks.sort_by_key(|(_, value)| Reverse(*value));
    for depth in 0..MAX_STEPS {
        let mut order: Vec<u32> = Vec::new();
        let mut nexts: FxHashMap<u32, TrailStep> = FxHashMap::default();
        for (frames, value) in &stacks {
            let Some(&frame) = frames.get(depth) else { continue };
            let code = labels.code(frame.label);
            let next = nexts.entry(code).or_insert_with(|| {
                order.push(code);
                TrailStep { frame, value: 0 }
            });
            next.value = next.value.saturating_add(*value);
        }
        let mut nexts = order.into_iter().map(|code| (code, nexts[&code])).collect::<Vec<_>>();
        nexts.sort_by_key(|(_, next)| Reverse(next.value));
        match nexts.first() {
            Some((code, next)) if next.value > trail.whole / 2 => {
                trail.steps.push(*next);
                stacks.retain(|(frames, _)| {
                    frames.get(depth).is_some_and(|frame| labels.code(frame.label) == *code)
                });
            }
            _ => {
                let least = trail.whole as f64 * MIN_BRANCH;
                let branches = nexts.iter().map(|(_, next)| *next).filter(|next| next.value as f64 >= least);
                trail.branches = branches.take(MAX_BRANCHES).collect();
                if trail.branches.len() < 2 {
                    trail.branches.clear();
                }
                break;
            }
        }
    }
    trail
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn shown(profile: &Profile, trail: &Trail) -> String {
        let text = |step: &TrailStep| {
            format!("{}:{} {}", labels::name(profile, step.frame.label), step.frame.line, step.value)
        };
        let texts = |steps: &[TrailStep]| steps.iter().map(text).collect::<Vec<_>>();
        format!("{} | {}", texts(&trail.steps).join(" < "), texts(&trail.branches).join(", "))
    }

    #[test]
    fn follows_callers_while_one_has_most() {
        let profile = testing::heap_profile(
            "_start;main@m.c:1;a@a.c:2;load@l.c:3;grow@g.c:9;xmalloc;malloc : peak_bytes=50
             _start;main@m.c:1;b@b.c:2;load@l.c:4;grow@g.c:9;xmalloc;malloc : peak_bytes=41
             _start;main@m.c:1;c@c.c:2;grow@g.c:9;xmalloc;malloc : peak_bytes=9",
        );
        let sites = Sites::build(&profile);
        assert_eq!(sites.rows.len(), 1);
        let trail = sites.callers(&profile, &sites.rows[0], SiteOrder::Peak);
        assert_eq!(trail.whole, 100);
        assert_eq!(shown(&profile, &trail), "load:3 91 | a:2 50, b:2 41");
    }

    #[test]
    fn path_inside_starts_at_your_line() {
        let profile = testing::heap_profile(
            "app::main@m.rs:1;app::run@m.rs:7;dep::build@d.rs:1;std::each;dep::new@d.rs:2;dep::a@d.rs:3 : peak_bytes=40
             app::main@m.rs:1;app::run@m.rs:7;dep::build@d.rs:1;dep::new@d.rs:2;dep::b@d.rs:4;malloc : peak_bytes=40
             app::main@m.rs:1;app::run@m.rs:8;dep::c@d.rs:5 : peak_bytes=20",
        );
        let sites = Sites::build(&profile);
        let (own, value) = sites.mostly_for(SiteOrder::Peak).unwrap();
        assert_eq!((own.line, value), (7, 80));
        let trail = sites.inside(&profile, &own, SiteOrder::Peak);
        assert_eq!(shown(&profile, &trail), "dep::build:1 80 < dep::new:2 80 | dep::a:3 40, dep::b:4 40");
    }

    #[test]
    fn mostly_for_needs_another_line_and_more_than_half() {
        let profile = testing::heap_profile(
            "app::main@m.rs:1 : peak_bytes=50\napp::main@m.rs:2;dep::c@d.rs:5 : peak_bytes=50",
        );
        assert_eq!(Sites::build(&profile).mostly_for(SiteOrder::Peak), None);
    }
}
