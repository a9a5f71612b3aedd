//! How findings changed between two profiles.

use crate::Explanation;
use crate::finding::{Cost, Finding};

/// How a pattern changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Only in the second profile.
    New,
    /// A counted cost that grew.
    More,
    /// A counted cost that is the same.
    AsBefore,
    /// A counted cost that shrank.
    Less,
    /// In both profiles, at a sampled cost. One profile of each side does not show how much runs differ.
    Undecided,
    /// Only in the first profile.
    Gone,
}

impl Outcome {
    /// The word in JSON.
    pub fn label(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::More => "more",
            Self::AsBefore => "as before",
            Self::Less => "less",
            Self::Undecided => "undecided",
            Self::Gone => "gone",
        }
    }

    /// The word in text.
    pub fn word(self) -> &'static str {
        match self {
            Self::New => "only after",
            Self::AsBefore => "unchanged",
            Self::Gone => "only before",
            other => other.label(),
        }
    }
}

/// A pattern in two profiles.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// How it changed.
    pub outcome: Outcome,
    /// The finding in the first profile.
    pub before: Option<&'a Finding>,
    /// The finding in the second profile.
    pub after: Option<&'a Finding>,
}

impl Change<'_> {
    /// Whether its costs are sampled, so that another run may give others.
    pub fn is_sampled(&self) -> bool {
        self.before.into_iter().chain(self.after).any(|finding| !finding.is_counted())
    }
}

impl<'a> Change<'a> {
    /// All patterns of both profiles. `totals` are the values that shares of a cost are of, in both: shares alone do
    /// not say whether a pattern costs less.
    pub fn all(
        before: &'a Explanation,
        after: &'a Explanation,
        totals: impl Fn(Cost) -> [u64; 2],
    ) -> Vec<Self> {
        let same = |finding: &&Finding, in_other: &'a Explanation| {
            in_other.findings.iter().find(|other| other.rule == finding.rule && other.of == finding.of)
        };
        let kept = after.findings.iter().map(|finding| {
            let old = same(&finding, before);
            let outcome = old.map_or(Outcome::New, |old| compare(old, finding, totals(finding.of)));
            Self { outcome, before: old, after: Some(finding) }
        });
        let removed = before.findings.iter().filter(|finding| same(finding, after).is_none());
        let removed =
            removed.map(|finding| Self { outcome: Outcome::Gone, before: Some(finding), after: None });
        kept.chain(removed).collect()
    }
}

fn compare(before: &Finding, after: &Finding, totals: [u64; 2]) -> Outcome {
    if !(before.is_counted() && after.is_counted()) {
        return Outcome::Undecided;
    }
    let [before, after] = [before.share * totals[0] as f64, after.share * totals[1] as f64];
    // Shares of the same count may differ in their last digit.
    if (after - before).abs() < 0.5 {
        Outcome::AsBefore
    } else if after > before {
        Outcome::More
    } else {
        Outcome::Less
    }
}
