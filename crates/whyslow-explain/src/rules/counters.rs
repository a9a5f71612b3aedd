//! Rules over CPU counters of hot functions.

use whyslow_analyze::{OwnRow, OwnTable, Ratio, RatioKind, Ratios};

use crate::facts::Facts;
use crate::finding::{Confidence, Cost, Evidence, Finding, Measured, Place};
use crate::order::FEWEST_SAMPLES;
use crate::rule::{Rule, Signal};
use crate::rules::RuleId;

/// The smallest share of the CPU time of a hot function.
const HOT: f64 = 0.10;
/// Fewer instructions per cycle mean that the CPU waits. A current core can do four or more.
const WAITS_IPC: f64 = 1.0;

pub(super) static CACHE_MISSES: Rule = Rule {
    id: RuleId::CacheMisses,
    title: "a hot function waits for memory: its data is not in the caches",
    rust: "access memory in order, and less of it: a Vec instead of boxes and lists, u32 indices, a struct of arrays for fields that are read alone, \
           smaller blocks that fit into a cache",
    native: Some(
        "access memory in order, and less of it: arrays instead of lists and trees of pointers, 32-bit indices, an array per field for fields that are read alone, \
                  smaller blocks that fit into a cache",
    ),
    signal: Signal::Facts(cache_misses),
};

pub(super) static BRANCH_MISSES: Rule = Rule {
    id: RuleId::BranchMisses,
    title: "a hot function has branches that the CPU mispredicts",
    rust: "compute without the branch (min, max, arithmetic on bool as usize, select by index), sort or group the input by the condition, or decide once outside the loop",
    native: Some(
        "compute without the branch (min, max, masks, select by index), sort or group the input by the condition, or decide once outside the loop",
    ),
    signal: Signal::Facts(branch_misses),
};

/// The ratio of a function in the first column that `is_it` accepts.
fn of(ratios: &Ratios, row: &OwnRow, is_it: impl Fn(&RatioKind) -> bool) -> Option<Ratio> {
    let column = ratios.columns.iter().position(is_it)?;
    ratios.of(row.label).nth(column)?.filter(|ratio| ratio.is_known())
}

fn misses(kind: &RatioKind, parts: &[&str]) -> bool {
    matches!(kind, RatioKind::PerThousandInstructions(name) if parts.iter().any(|part| name.to_lowercase().contains(part)))
}

/// The hot functions with at least `least` events per thousand instructions and, if `waits`, few instructions
/// per cycle.
fn find(rule: &'static Rule, facts: &Facts<'_>, parts: &[&str], least: f64, waits: bool) -> Vec<Finding> {
    let profile = facts.question.profile;
    let Some(weights) = facts.cpu().filter(|weights| weights.total_count >= FEWEST_SAMPLES) else {
        return Vec::new();
    };
    let ratios = Ratios::own(profile, facts.question.selection, true);
    if !ratios.columns.iter().any(|kind| misses(kind, parts)) {
        return Vec::new();
    }
    let table = OwnTable::build(profile, weights, facts.charges());
    let is_hot = |row: &&OwnRow| row.own_value as f64 >= HOT * weights.total_value as f64;
    let ipc = |row: &OwnRow| of(&ratios, row, |kind| *kind == RatioKind::Ipc);
    let per_thousand = |row: &OwnRow| of(&ratios, row, |kind| misses(kind, parts));
    let is_so = |row: &&OwnRow| {
        let is_slow = ipc(row).is_some_and(|ipc| ipc.value < WAITS_IPC);
        per_thousand(row).is_some_and(|ratio| ratio.value >= least) && (is_slow || !waits)
    };
    let rows = table.rows.iter().filter(is_hot).filter(is_so).collect::<Vec<_>>();
    if rows.is_empty() {
        return Vec::new();
    }
    let share = |row: &OwnRow| Measured::counted(row.own_value, weights.total_value).share;
    let place = |row: &OwnRow| {
        let line = row.line.as_ref();
        Place { label: row.label, file: line.map(|line| line.file), line: line.map_or(0, |line| line.line) }
    };
    let words = |row: &OwnRow| {
        let misses = per_thousand(row).map_or(0.0, |ratio| ratio.value);
        let ipc =
            ipc(row).map_or(String::new(), |ipc| format!(" and {:.1} instructions per cycle", ipc.value));
        format!("{misses:.0} misses per thousand instructions{ipc}:")
    };
    let evidence = rows.iter().take(3).map(|row| Evidence::at(words(row), place(row), share(row))).collect();
    let places = rows.iter().map(|row| (place(row), share(row))).collect();
    let value = rows.iter().map(|row| row.own_value).sum();
    let measured = Measured::sampled(value, weights.total_value, weights.total_count);
    let finding = Finding::new(rule, facts.question, Cost::Cpu, measured, places);
    vec![Finding { evidence, confidence: Confidence::Medium, ..finding }]
}

fn cache_misses(rule: &'static Rule, facts: &Facts<'_>) -> Vec<Finding> {
    const LEAST: f64 = 10.0;
    find(rule, facts, &["cache-miss", "llc-load-miss", "l2", "longest_lat_cache.miss"], LEAST, true)
}

fn branch_misses(rule: &'static Rule, facts: &Facts<'_>) -> Vec<Finding> {
    const LEAST: f64 = 5.0;
    find(rule, facts, &["branch-miss"], LEAST, false)
}

#[cfg(test)]
mod tests {
    use whyslow_analyze::testing::{add_event, profile};
    use whyslow_profile::{Origin, Profile, Sampler};

    use super::super::testing::{evidence, line, of_rule, percent};
    use crate::RuleId;

    /// A hot and a cold function. The hot one has this many cycles and misses per thousand instructions.
    fn counted(event: &str, cycles: u64, misses: u64) -> Profile {
        let mut made = profile("app::main;app::hot@h.rs:4 300\napp::main;app::cold@c.rs:9 200");
        let origin = Origin::Sampled(Sampler { rate_hz: 1000, ..Sampler::default() });
        add_event(&mut made, "instructions", origin, |_| 1_000);
        add_event(&mut made, "cycles", origin, |name| if name == "app::hot" { cycles } else { 400 });
        add_event(&mut made, event, origin, |name| if name == "app::hot" { misses } else { 1 });
        made
    }

    #[test]
    fn a_hot_function_that_waits_for_memory_is_reported() {
        let finding = of_rule(&counted("cache-misses", 3_000, 30), RuleId::CacheMisses).unwrap();
        assert_eq!((line(&finding), percent(&finding)), (4, 60));
        assert!(
            evidence(&finding).contains("30 misses per thousand instructions and 0.3 instructions per cycle"),
            "{}",
            evidence(&finding)
        );
        assert_eq!(of_rule(&counted("cache-misses", 400, 30), RuleId::CacheMisses), None, "it does not wait");
        assert_eq!(of_rule(&counted("cache-misses", 3_000, 2), RuleId::CacheMisses), None);
        assert_eq!(of_rule(&counted("branch-misses", 3_000, 30), RuleId::CacheMisses), None);
    }

    #[test]
    fn a_hot_function_with_mispredicted_branches_is_reported() {
        let finding = of_rule(&counted("branch-misses", 600, 12), RuleId::BranchMisses).unwrap();
        assert_eq!((line(&finding), percent(&finding)), (4, 60));
        assert_eq!(of_rule(&counted("branch-misses", 600, 2), RuleId::BranchMisses), None);
    }
}
