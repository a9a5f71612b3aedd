//! The rule over simulated caches: lines that miss at nearly every access.

use rustc_hash::FxHashMap;
use whyslow_analyze::{Nearness, StackFrame, frames_at};
use whyslow_asm::{Body, Processor};
use whyslow_profile::{LocationId, MetricId, ModuleId, Origin, Profile, StackId};

use crate::facts::Facts;
use crate::finding::{Confidence, Cost, Evidence, Finding, Measured, Place};
use crate::rule::{Rule, Signal};
use crate::rules::RuleId;

/// The smallest share of all misses.
const LEAST: f64 = 0.05;
/// Fewer misses are a start-up.
const FEWEST: u64 = 1000;
/// Misses per access, where the size of an access is not known. Reads of 32 bytes in order miss at every second one.
const WITHOUT_SIZE: f64 = 0.75;
/// How many times as many misses as in order, where it is known.
const TIMES: f64 = 4.0;
/// The least misses per access, so that neighbours of large things do not count.
const LEAST_RATE: f64 = 0.2;
/// Bytes of a line of every supported processor.
const LINE: u64 = 64;

pub(super) static POOR_LOCALITY: Rule = Rule {
    id: RuleId::PoorLocality,
    title: "a line misses the cache at nearly every access: neighbours in memory are not used together",
    rust: "let the innermost loop walk along memory (swap the loops, or work in blocks), keep together what is used together, and use a Vec and indices instead of \
           boxes and lists",
    native: Some(
        "let the innermost loop walk along memory (swap the loops, or work in blocks), keep together what is used together, and use arrays and indices instead of \
         lists and trees of pointers",
    ),
    signal: Signal::Facts(poor_locality),
};

/// What the accesses of a line do.
#[derive(Default, Clone, Copy)]
struct Line {
    accesses: u64,
    misses: u64,
    /// The bytes of all accesses: in order, there is a miss per line of them. None if a size is not known.
    in_order: Option<u64>,
}

fn poor_locality(rule: &'static Rule, facts: &Facts<'_>) -> Vec<Finding> {
    let profile = facts.question.profile;
    if facts.question.only_metric && !is_simulated(profile, facts.question.selection.metric) {
        return Vec::new();
    }
    let lines = lines(facts);
    let total: u64 = lines.values().map(|line| line.misses).fold(0, u64::saturating_add);
    let mut found: Vec<(Place, Line)> = lines
        .into_iter()
        .filter(|(_, line)| line.misses >= FEWEST && line.misses as f64 >= total as f64 * LEAST)
        .filter(|(place, line)| line.is_poor() && place.file.is_some())
        .collect();
    found.sort_by_key(|(place, line)| (std::cmp::Reverse(line.misses), place.line));
    if found.is_empty() {
        return Vec::new();
    }
    let share = |line: &Line| Measured::counted(line.misses, total).share;
    let evidence =
        found.iter().take(3).map(|(place, line)| Evidence::at(line.words(), *place, share(line))).collect();
    let places = found.iter().map(|(place, line)| (*place, share(line))).collect();
    let misses = found.iter().map(|(_, line)| line.misses).fold(0, u64::saturating_add);
    let measured = Measured::counted(misses, total);
    let finding = Finding::new(rule, facts.question, Cost::Misses, measured, places);
    let known = found.iter().all(|(_, line)| line.in_order.is_some());
    let confidence = if known { Confidence::High } else { Confidence::Medium };
    vec![Finding { evidence, confidence, ..finding }]
}

impl Line {
    fn rate(self) -> f64 {
        self.misses as f64 / self.accesses.max(1) as f64
    }

    fn is_poor(self) -> bool {
        match self.in_order {
            Some(in_order) => {
                self.rate() >= LEAST_RATE && self.misses as f64 * LINE as f64 >= TIMES * in_order as f64
            }
            None => self.rate() >= WITHOUT_SIZE,
        }
    }

    /// `4,000,000 misses of 4,000,000 accesses, 16 where 1 is needed:`
    fn words(self) -> String {
        let times = self.in_order.filter(|in_order| *in_order > 0).map(|in_order| {
            let times = self.misses as f64 * LINE as f64 / in_order as f64;
            format!(", {times:.0} where 1 is needed in order")
        });
        format!(
            "{} D1 misses of {} accesses (simulated){}:",
            grouped(self.misses),
            grouped(self.accesses),
            times.unwrap_or_default()
        )
    }
}

/// `4,000,000`
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let comma = |at: usize| at > 0 && (digits.len() - at).is_multiple_of(3);
    let letters = digits.chars().enumerate();
    letters.flat_map(|(at, digit)| comma(at).then_some(',').into_iter().chain([digit])).collect()
}

fn is_simulated(profile: &Profile, metric: MetricId) -> bool {
    profile.metrics.get(metric.index()).is_some_and(|metric| metric.origin == Origin::Simulated)
}

/// Accesses and misses of each line of the user's code and its dependencies.
fn lines(facts: &Facts<'_>) -> FxHashMap<Place, Line> {
    let profile = facts.question.profile;
    let simulated = |name: &str| {
        profile.metric_where(|metric| metric.origin == Origin::Simulated && profile.text(metric.name) == name)
    };
    let metrics = ["Dr", "Dw", "D1mr", "D1mw"].map(simulated);
    let mut lines: FxHashMap<Place, Line> = FxHashMap::default();
    if metrics[2].is_none() && metrics[3].is_none() {
        return lines;
    }
    let sizes = sizes(profile);
    for (which, metric) in metrics.into_iter().enumerate() {
        let Some(metric) = metric else { continue };
        let weights = facts.selection(metric).weigh(profile);
        for (stack, &value) in weights.value.iter().enumerate().filter(|(_, value)| **value > 0) {
            let location = profile.stacks.location(StackId::from(stack));
            // Inlined library code belongs to the line that it is inlined into; other library code is not the user's.
            let mut frames = frames_at(profile, location, true).rev();
            let is_near = |frame: &StackFrame| Nearness::of(profile, frame.label) <= Nearness::Dependency;
            let Some(frame) = frames.find(is_near) else { continue };
            let first = Line { in_order: Some(0), ..Line::default() };
            let line = lines.entry(Place::from(frame)).or_insert(first);
            if which >= 2 {
                line.misses = line.misses.saturating_add(value);
                continue;
            }
            line.accesses = line.accesses.saturating_add(value);
            line.in_order = match (line.in_order, sizes.get(&location)) {
                (Some(sum), Some(size)) => Some(sum.saturating_add(value.saturating_mul(*size))),
                _ => None,
            };
        }
    }
    lines
}

/// How many bytes the instruction at each location reads or writes, if its code is in the profile.
fn sizes(profile: &Profile) -> FxHashMap<LocationId, u64> {
    let mut sizes = FxHashMap::default();
    let Some(processor) = Processor::of(&profile.meta.host.arch) else { return sizes };
    let mut at: FxHashMap<(ModuleId, u64), u64> = FxHashMap::default();
    for code in &profile.code.rows {
        for instruction in &Body::new(processor, code, |_| None).instructions {
            if let Some(memory) = instruction.memory.filter(|memory| memory.size > 0) {
                at.insert((code.module, instruction.address), memory.size.into());
            }
        }
    }
    for row in 0..profile.locations.len() {
        let Some(module) = profile.locations.module[row] else { continue };
        if let Some(size) = at.get(&(module, profile.locations.address[row].0)) {
            sizes.insert(LocationId::from(row), *size);
        }
    }
    sizes
}

#[cfg(test)]
mod tests {
    use whyslow_analyze::testing::{add_event, profile};
    use whyslow_profile::Profile;

    use super::super::testing::{evidence, line, of_rule, percent};
    use super::*;

    /// Two lines with as many reads; one misses this often, the other once per 16 reads.
    fn simulated(misses: u64) -> Profile {
        let mut made = profile("app::main;app::column@m.rs:4 100\napp::main;app::row@m.rs:9 100");
        add_event(&mut made, "Dr", Origin::Simulated, |_| 16_000);
        let of = |name: &str| if name == "app::column" { misses } else { 1_000 };
        add_event(&mut made, "D1mr", Origin::Simulated, of);
        made
    }

    #[test]
    fn a_line_that_misses_at_each_access_is_reported() {
        let finding = of_rule(&simulated(16_000), RuleId::PoorLocality).unwrap();
        assert_eq!((line(&finding), percent(&finding), finding.of), (4, 94, Cost::Misses));
        assert_eq!(finding.confidence, Confidence::Medium, "the size of an access is not known");
        assert!(evidence(&finding).contains("1,600,000 D1 misses of 1,600,000 accesses (simulated):"));
        assert_eq!(finding.speedup, None, "misses are no time");
    }

    #[test]
    fn reads_in_order_are_not_reported() {
        assert_eq!(of_rule(&simulated(1_000), RuleId::PoorLocality), None);
        assert_eq!(
            of_rule(&simulated(8_000), RuleId::PoorLocality),
            None,
            "32-byte reads in order miss as often"
        );
    }

    #[test]
    fn real_counters_are_another_rules_matter() {
        let mut made = profile("app::main;app::column@m.rs:4 100");
        add_event(&mut made, "Dr", Origin::Counted, |_| 16_000);
        add_event(&mut made, "D1mr", Origin::Counted, |_| 16_000);
        assert_eq!(of_rule(&made, RuleId::PoorLocality), None);
    }

    #[test]
    fn misses_are_compared_with_those_in_order() {
        let line = |misses, size: u64| Line { accesses: 4_000_000, misses, in_order: Some(4_000_000 * size) };
        assert!(line(4_000_000, 4).is_poor() && !line(250_000, 4).is_poor());
        assert!(!line(2_000_000, 32).is_poor(), "every second access is in order");
        assert!(
            line(4_000_000, 4).words().contains("16 where 1 is needed in order"),
            "{}",
            line(4_000_000, 4).words()
        );
        assert_eq!([grouped(7), grouped(1_000), grouped(1_234_567)], ["7", "1,000", "1,234,567"]);
    }
}
