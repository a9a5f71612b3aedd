//! The overall shape of a profile: where to look if no known pattern explains it.

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};
use whyslow_analyze::heap::is_heap_only;
use whyslow_analyze::{Charges, Label, Nearness};
use whyslow_profile::StackId;

use crate::facts::{Facts, sampled_value};
use crate::finding::{Cost, Finding, Place};
use crate::order::FEWEST_SAMPLES;
use crate::waiting::Waiting;
use crate::{Question, cpu_metric};

/// The overall shape of a profile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// Too few samples to say anything.
    TooFew {
        /// How many there are.
        samples: u64,
        /// How many are needed.
        needed: u64,
    },
    /// All threads were blocked for most of the time: [`Waiting`].
    Waiting,
    /// One function has most of the sampled value.
    Hotspot {
        /// The function.
        function: Label,
        /// Its share.
        share: f64,
        /// Its hottest line, with the line's share.
        line: Option<(Place, f64)>,
        /// The share of it that findings explain.
        explained: f64,
    },
    /// Most of the sampled value is in other code that the user's code did not call.
    Frameworks {
        /// The share that is not charged to the user's code.
        share: f64,
    },
    /// Many functions have a little each.
    Spread {
        /// The share of the first.
        largest: f64,
        /// How many have 1 % or more.
        functions: usize,
    },
}

impl Shape {
    /// The shape of the selected samples.
    pub(crate) fn of(facts: &Facts<'_>, waiting: Option<&Waiting>) -> Self {
        const MOST: f64 = 0.5;
        const HOT: f64 = 0.3;
        /// From this share on, what ran says little about the time that passed.
        const IDLE: f64 = 0.7;
        let Question { profile, selection, .. } = *facts.question;
        let is_cpu = cpu_metric(profile, selection, facts.question.only_metric) == Some(selection.metric);
        let of_other = (!is_cpu).then(|| selection.weigh(profile));
        let Some(weights) = of_other.as_ref().or_else(|| facts.cpu()) else {
            return Self::TooFew { samples: 0, needed: FEWEST_SAMPLES };
        };
        let blocked = waiting.map_or(0.0, Waiting::blocked_share);
        // A recording of the heap alone is about memory, not about time.
        if blocked >= IDLE && selection.is_everything() && !is_heap_only(profile) {
            return Self::Waiting;
        }
        if weights.total_count < FEWEST_SAMPLES {
            return Self::TooFew { samples: weights.total_count, needed: FEWEST_SAMPLES };
        }
        let of_other = (!is_cpu).then(|| Charges::of_metric(profile, true, selection.metric));
        let charges = of_other.as_ref().unwrap_or_else(|| facts.charges());
        let mut own: FxHashMap<Label, u64> = FxHashMap::default();
        // Time that was not sampled belongs to no function.
        let is_seen = |stack: &usize| !profile.is_not_sampled(StackId::from(*stack));
        for stack in (0..weights.count.len()).filter(|stack| weights.count[*stack] > 0).filter(is_seen) {
            let value = own.entry(charges.of(StackId::from(stack)).frame.label).or_default();
            *value = value.saturating_add(weights.value[stack]);
        }
        let sampled = sampled_value(profile, weights);
        let share = |value: u64| value as f64 / sampled.max(1) as f64;
        let is_users = |label: Label| Nearness::of(profile, label) <= Nearness::Program;
        let largest = own.iter().max_by_key(|(_, value)| **value);
        let of_users: u64 = own.iter().filter(|(label, _)| is_users(**label)).map(|(_, value)| value).sum();
        match largest {
            Some((&function, &value))
                if share(value) >= HOT && (is_users(function) || share(value) >= MOST) =>
            {
                let mut lines: FxHashMap<Place, u64> = FxHashMap::default();
                for stack in (0..weights.count.len()).filter(|stack| weights.count[*stack] > 0) {
                    let frame = charges.of(StackId::from(stack)).frame;
                    if frame.label == function && frame.file.is_some() && frame.line > 0 {
                        let value = lines.entry(frame.into()).or_default();
                        *value = value.saturating_add(weights.value[stack]);
                    }
                }
                let hottest = lines.into_iter().max_by_key(|(place, value)| (*value, Reverse(place.line)));
                let line = hottest.map(|(place, value)| (place, share(value)));
                Self::Hotspot { function, share: share(value), line, explained: 0.0 }
            }
            Some(_) if share(of_users) < MOST && of_users > 0 => {
                Self::Frameworks { share: 1.0 - share(of_users) }
            }
            largest => Self::Spread {
                largest: largest.map_or(0.0, |(_, value)| share(*value)),
                functions: own.values().filter(|value| share(**value) >= 0.01).count(),
            },
        }
    }
}

impl Shape {
    /// The same shape with the part of a hotspot that findings explain.
    pub(crate) fn explained_by(mut self, facts: &Facts<'_>, findings: &[Finding]) -> Self {
        let profile = facts.question.profile;
        if let (Self::Hotspot { function, explained, .. }, Some(weights)) = (&mut self, facts.cpu()) {
            let of_cpu = findings.iter().filter(|finding| finding.of == Cost::Cpu);
            let stacks: FxHashSet<StackId> = of_cpu.flat_map(|finding| &finding.stacks).copied().collect();
            let is_its = |stack: &&StackId| facts.charges().of(**stack).frame.label == *function;
            let value: u64 = stacks.iter().filter(is_its).map(|stack| weights.value[stack.index()]).sum();
            *explained = value as f64 / sampled_value(profile, weights).max(1) as f64;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use whyslow_analyze::{CallTree, Selection, testing};
    use whyslow_profile::{ExitStatus, ThreadTimes};

    use super::*;
    use crate::{Allowed, RuleId, explain};

    #[test]
    fn a_starved_program_does_not_wait() {
        const S: u64 = 1_000_000_000;
        let mut profile = testing::profile("app::main@m.rs:3;app::count@m.rs:9 2000");
        profile.meta.duration_ns = 10 * S;
        profile.meta.user_time_ns = 2 * S;
        profile.meta.exit = Some(ExitStatus::Code(0));
        let (selection, allowed) = (Selection::default(), Allowed::default());
        let shape = |profile: &whyslow_profile::Profile| {
            let question =
                Question { profile, selection: &selection, only_metric: false, allowed: &allowed, file: "" };
            explain(&question).shape
        };
        assert_eq!(shape(&profile), Shape::Waiting);
        profile.threads[0].times =
            Some(ThreadTimes { ran_ns: 2 * S, queued_ns: 8 * S, ..ThreadTimes::default() });
        assert!(matches!(shape(&profile), Shape::Hotspot { .. }), "{:?}", shape(&profile));
    }

    #[test]
    fn time_that_was_not_sampled_hides_no_finding() {
        let profile = testing::profile(
            "[not sampled] 5000
             app::main@m.rs:3;app::count@m.rs:9;core::hash::sip::Hasher<S>::write 200
             app::main@m.rs:3;app::count@m.rs:9 3000",
        );
        let (selection, allowed) = (Selection::default(), Allowed::default());
        let question = Question {
            profile: &profile,
            selection: &selection,
            only_metric: false,
            allowed: &allowed,
            file: "",
        };
        let found = explain(&question);
        let shares: Vec<_> =
            found.findings.iter().map(|one| (one.rule.id, (one.share * 1000.0).round())).collect();
        assert_eq!(shares, [(RuleId::SipHash, 24.0)], "6 % of the samples, shown as a share of everything");
        let Shape::Hotspot { function, share, .. } = found.shape else { panic!("{:?}", found.shape) };
        assert_eq!((&*CallTree::name(&profile, function), share), ("app::count", 1.0));
    }

    #[test]
    fn a_hotspot_names_its_hottest_line_and_what_findings_explain_of_it() {
        let shape = |folded: &str| {
            let profile = testing::profile(folded);
            let (selection, allowed) = (Selection::default(), Allowed::default());
            let question = Question {
                profile: &profile,
                selection: &selection,
                only_metric: false,
                allowed: &allowed,
                file: "",
            };
            let found = explain(&question);
            let Shape::Hotspot { share, line, explained, .. } = found.shape else {
                panic!("{:?}", found.shape)
            };
            (share, line.map(|(place, share)| (place.line, share)), explained)
        };
        let hot = "app::main@m.rs:3;app::count@m.rs:9 100\napp::main@m.rs:3;app::count@m.rs:11 300";
        assert_eq!(shape(&format!("{hot}\napp::main@m.rs:4 600")).0, 0.6, "of several, the largest");
        assert_eq!(shape(&format!("{hot}\napp::main@m.rs:4 100")), (0.8, Some((11, 0.6)), 0.0));
        let hashing = "app::main@m.rs:3;app::count@m.rs:9;core::hash::sip::Hasher<S>::write 400";
        assert_eq!(shape(&format!("{hashing}\napp::main@m.rs:4 100")).2, 0.8);
    }
}
