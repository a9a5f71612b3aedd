//! The view of simulated caches.

use whyslow_analyze::{By, CacheAnswer, is_simulated};
use whyslow_explain::Topic;

use super::{FUNCTIONS, Needs, View};
use crate::answer::Body;
use crate::query::Ranking;
use crate::refusal::{Missing, Refusal};

/// References and misses of each cache, and where most misses are.
pub static CACHE: View = View {
    name: "cache",
    help: &[("cache", "misses of simulated caches, and where most are (whyslow cache)")],
    function: Needs::Nothing,
    topic: Some(Topic::Caches),
    refusal: |profile, _, _| (!is_simulated(profile)).then_some(MISSING),
    body: |query, profile| {
        let by = if query.ranking == Ranking::SelfTime { By::SelfValue } else { By::Own };
        let answer = CacheAnswer::of(profile, &query.selection, query.inline, by);
        answer.map(|answer| Body::Cache(Box::new(answer))).ok_or(MISSING)
    },
    ..FUNCTIONS
};

const MISSING: Refusal = Refusal::NotRecorded { missing: Missing::Simulation, noted: None };
