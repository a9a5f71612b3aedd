//! Which findings are reported, and in which order.

use rustc_hash::FxHashSet;
use whyslow_analyze::Weights;
use whyslow_profile::{StackId, StringId};
use whyslow_words::Percent;

use crate::finding::{Confidence, Cost, Finding};
use crate::rules::RuleId;

/// The fewest samples of a profile that rules look at.
pub(crate) const FEWEST_SAMPLES: u64 = 200;
/// The fewest samples of a finding.
pub(crate) const FEWEST_OF_ONE: u64 = 20;

/// Rules and lines for which the user wants no findings.
#[derive(Debug, Default, Clone)]
pub struct Allowed {
    /// Rules that are allowed everywhere.
    pub rules: FxHashSet<RuleId>,
    /// Rules that are allowed at these lines.
    pub lines: FxHashSet<(StringId, u32, RuleId)>,
}

impl Allowed {
    fn at(&self, finding: &Finding, file: Option<StringId>, line: u32) -> bool {
        file.is_some_and(|file| self.lines.contains(&(file, line, finding.rule.id)))
    }
}

/// Whether another finding already covers most of a finding's samples.
pub(crate) fn is_explained(finding: &Finding, found: &[Finding], weights: &Weights) -> bool {
    const MOST: f64 = 0.5;
    let of = |stacks: &mut dyn Iterator<Item = StackId>| -> u64 {
        stacks
            .map(|stack| weights.value.get(stack.index()).copied().unwrap_or(0))
            .fold(0, u64::saturating_add)
    };
    let own = finding.stacks.iter().copied().collect::<FxHashSet<_>>();
    let all = of(&mut own.iter().copied());
    let others = found.iter().filter(|other| other.of == finding.of);
    let shared = |other: &Finding| of(&mut other.stacks.iter().copied().filter(|stack| own.contains(stack)));
    others.into_iter().any(|other| all > 0 && shared(other) as f64 >= MOST * all as f64)
}

/// Removes allowed findings and sorts the rest, largest possible gain first. The second value counts the
/// removed ones.
pub(crate) fn order(found: Vec<Finding>, allowed: &Allowed) -> (Vec<Finding>, usize) {
    let before = found.len();
    let mut findings =
        found.into_iter().filter_map(|finding| without_allowed(finding, allowed)).collect::<Vec<_>>();
    let left_out = before - findings.len();
    findings.sort_by(|one, other| {
        (!one.of.is_time())
            .cmp(&!other.of.is_time())
            .then(other.share.total_cmp(&one.share))
            .then(one.rule.id.as_str().cmp(other.rule.id.as_str()))
    });
    (findings, left_out)
}

fn without_allowed(mut finding: Finding, allowed: &Allowed) -> Option<Finding> {
    if allowed.rules.contains(&finding.rule.id) {
        return None;
    }
    let is_allowed = |place: &crate::Place| allowed.at(&finding, place.file, place.line);
    let spared: f64 =
        finding.places.iter().filter(|(place, _)| is_allowed(place)).map(|(_, share)| share).sum();
    if spared == 0.0 {
        return Some(finding);
    }
    let places = finding.places.iter().filter(|(place, _)| !is_allowed(place)).copied().collect::<Vec<_>>();
    let rest = finding.share - spared;
    // The rest has to reach the threshold by itself.
    if places.is_empty() || rest < finding.rule.least_share() {
        return None;
    }
    let scale = rest / finding.share;
    finding.share = rest;
    finding.interval = finding.interval.map(|end| end * scale);
    finding.speedup = finding.speedup.map(|_| speedup(rest));
    finding.max_speedup = finding.max_speedup.map(|_| speedup(rest));
    finding.place = Some(places[0].0);
    let removed = finding.places.iter().filter(|(place, _)| !places.iter().any(|(kept, _)| kept == place));
    let removed = removed.map(|(place, _)| *place).collect::<Vec<_>>();
    finding.evidence.retain(|evidence| evidence.place.is_none_or(|place| !removed.contains(&place)));
    finding.places = places;
    Some(finding)
}

/// Rules by facts that are more exact than rules by names. Findings of both at the same lines become one.
const MORE_EXACT: &[(RuleId, &[RuleId])] = &[
    (RuleId::AllocationInLoop, &[RuleId::AllocatorHeavy]),
    (RuleId::ShortLivedAllocations, &[RuleId::AllocatorHeavy]),
    (RuleId::SmallTransfers, &[RuleId::UnbufferedWrites, RuleId::UnbufferedReads]),
];

/// Adds a finding by facts. If names on stacks show the same pattern, the two become one finding, with the
/// CPU share and the evidence of both.
pub(crate) fn unite(found: &mut Vec<Finding>, mut finding: Finding) {
    let general = MORE_EXACT.iter().find(|(id, _)| *id == finding.rule.id).map_or(&[][..], |(_, ids)| ids);
    let lines = finding.places.iter().map(|(place, _)| *place).collect::<Vec<_>>();
    let is_same = |other: &Finding| {
        let there: f64 =
            other.places.iter().filter(|(place, _)| lines.contains(place)).map(|row| row.1).sum();
        let is_general = general.contains(&other.rule.id) && there >= other.share / 2.0;
        other.of == Cost::Cpu && (other.rule == finding.rule || is_general)
    };
    let Some(other) = found.iter().position(is_same).map(|at| found.remove(at)) else {
        return found.push(finding);
    };
    // Names and machine code show the same samples: the larger share includes the other.
    if finding.of == Cost::Cpu && !finding.stacks.is_empty() && finding.share > other.share {
        finding.evidence.extend(other.evidence);
        return found.push(finding);
    }
    let of = finding.of;
    for evidence in finding.evidence.iter_mut().filter(|_| of != Cost::Cpu) {
        let share = evidence
            .share
            .take()
            .map_or(String::new(), |share| format!("{} of {}: ", Percent(share), of.label()));
        evidence.text.insert_str(0, &share);
    }
    let (place, rule) =
        if other.rule == finding.rule { (other.place, other.rule) } else { (finding.place, finding.rule) };
    finding.evidence.extend(other.evidence);
    found.push(Finding {
        rule,
        title: finding.title,
        place,
        evidence: finding.evidence,
        advice: finding.advice,
        confidence: Confidence::High,
        ..other
    });
}

/// The speedup if this share of the time is saved.
pub(crate) fn speedup(share: f64) -> f64 {
    1.0 / (1.0 - share.min(0.999))
}
