//! Test helpers: findings of synthetic profiles.

use whyslow_analyze::Selection;
use whyslow_profile::{Metric, Profile, Samples, StackId};

use crate::{Allowed, Finding, Question, RuleId, explain};

/// All findings of a profile.
pub(super) fn found(profile: &Profile) -> Vec<Finding> {
    let allowed = Allowed::default();
    let selection = Selection::default();
    explain(&Question {
        profile,
        selection: &selection,
        only_metric: false,
        allowed: &allowed,
        file: "app.whyslow",
    })
    .findings
}

/// The finding of one rule, if there is one.
pub(super) fn of_rule(profile: &Profile, id: RuleId) -> Option<Finding> {
    let findings = found(profile).into_iter().filter(|finding| finding.rule.id == id).collect::<Vec<_>>();
    assert!(findings.len() < 2, "one finding per rule: {findings:?}");
    findings.into_iter().next()
}

/// The responsible line.
pub(super) fn line(finding: &Finding) -> u32 {
    finding.place.map_or(0, |place| place.line)
}

/// The percent that a finding explains.
pub(super) fn percent(finding: &Finding) -> u64 {
    (finding.share * 100.0).round() as u64
}

/// All evidence of a finding, as one text.
pub(super) fn evidence(finding: &Finding) -> String {
    finding.evidence.iter().map(|evidence| evidence.text.as_str()).collect::<Vec<_>>().join("\n")
}

/// Turns samples into waits where `is_wait` says so.
pub(super) fn waits_of(profile: &mut Profile, is_wait: impl Fn(&Profile, StackId) -> bool) {
    let all = std::mem::take(&mut profile.samples[0]);
    let mut waits: Samples = Samples::default();
    for row in 0..all.len() {
        let (time, thread, stack, value) =
            (all.time_ns[row], all.thread[row], all.stack[row], all.value[row]);
        let to = if is_wait(profile, stack) { &mut waits } else { &mut profile.samples[0] };
        to.push(time, thread, stack, value);
    }
    profile.set_metric(Metric::off_cpu_time(), waits);
}
