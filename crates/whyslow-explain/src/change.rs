//! What became of findings between two profiles.

use crate::Explanation;
use crate::finding::Finding;

/// What became of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Became {
    /// It was not there before.
    New,
    /// It costs more, beyond what sampling can do.
    More,
    /// The same, as far as samples can tell.
    AsBefore,
    /// It costs less, beyond what sampling can do.
    Less,
    /// It is not there any more.
    Gone,
}

impl Became {
    /// The word in text and JSON.
    pub fn label(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::More => "more",
            Self::AsBefore => "as before",
            Self::Less => "less",
            Self::Gone => "gone",
        }
    }
}

/// A pattern in two profiles.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// What became of it.
    pub became: Became,
    /// Before.
    pub before: Option<&'a Finding>,
    /// After.
    pub after: Option<&'a Finding>,
}

impl<'a> Change<'a> {
    /// All patterns of both. `totals` are what all samples weigh: shares alone do not say whether something costs less.
    pub fn all(before: &'a Explanation, after: &'a Explanation, totals: [u64; 2]) -> Vec<Self> {
        let same = |finding: &&Finding, in_other: &'a Explanation| {
            in_other.findings.iter().find(|other| other.rule == finding.rule && other.of == finding.of)
        };
        let kept = after.findings.iter().map(|finding| {
            let old = same(&finding, before);
            let became = old.map_or(Became::New, |old| compare(old, finding, totals));
            Self { became, before: old, after: Some(finding) }
        });
        let gone = before.findings.iter().filter(|finding| same(finding, after).is_none());
        let gone = gone.map(|finding| Self { became: Became::Gone, before: Some(finding), after: None });
        kept.chain(gone).collect()
    }
}

fn compare(before: &Finding, after: &Finding, totals: [u64; 2]) -> Became {
    let cost = |finding: &Finding, total: u64| finding.interval.map(|end| end * total as f64);
    let [[low, high], [new_low, new_high]] = [cost(before, totals[0]), cost(after, totals[1])];
    if new_low > high {
        Became::More
    } else if new_high < low {
        Became::Less
    } else {
        Became::AsBefore
    }
}
