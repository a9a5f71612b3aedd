//! How findings changed between two profiles.

use crate::Explanation;
use crate::finding::Finding;

/// How a pattern changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Only in the second profile.
    New,
    /// It costs more, beyond sampling error.
    More,
    /// The same within sampling error.
    AsBefore,
    /// It costs less, beyond sampling error.
    Less,
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
            Self::Gone => "gone",
        }
    }

    /// The word in text.
    pub fn word(self) -> &'static str {
        match self {
            Self::AsBefore => "unchanged",
            Self::Gone => "resolved",
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

impl<'a> Change<'a> {
    /// All patterns of both profiles. `totals` are the values of all samples: shares alone do not say whether
    /// a pattern costs less.
    pub fn all(before: &'a Explanation, after: &'a Explanation, totals: [u64; 2]) -> Vec<Self> {
        let same = |finding: &&Finding, in_other: &'a Explanation| {
            in_other.findings.iter().find(|other| other.rule == finding.rule && other.of == finding.of)
        };
        let kept = after.findings.iter().map(|finding| {
            let old = same(&finding, before);
            let outcome = old.map_or(Outcome::New, |old| compare(old, finding, totals));
            Self { outcome, before: old, after: Some(finding) }
        });
        let removed = before.findings.iter().filter(|finding| same(finding, after).is_none());
        let removed =
            removed.map(|finding| Self { outcome: Outcome::Gone, before: Some(finding), after: None });
        kept.chain(removed).collect()
    }
}

fn compare(before: &Finding, after: &Finding, totals: [u64; 2]) -> Outcome {
    let cost = |finding: &Finding, total: u64| finding.interval.map(|end| end * total as f64);
    let [[low, high], [new_low, new_high]] = [cost(before, totals[0]), cost(after, totals[1])];
    if new_low > high {
        Outcome::More
    } else if new_high < low {
        Outcome::Less
    } else {
        Outcome::AsBefore
    }
}
