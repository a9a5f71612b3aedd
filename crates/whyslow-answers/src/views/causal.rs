//! The view of experiments: what speeding up a line would buy.

use whyslow_analyze::remark_of;
use whyslow_causal::estimate;
use whyslow_profile::{CausalNote, Note, Profile};

use super::{Needs, View};
use crate::answer::Body;
use crate::filters::Narrowing;
use crate::refusal::{Missing, Refusal};

/// What speeding up each target would buy.
pub static CAUSAL: View = View {
    name: "causal",
    help: &[("causal", "what speeding up a line or function would buy (whyslow causal)")],
    function: Needs::Nothing,
    of_samples: false,
    of_waits: false,
    topic: None,
    refusal: |profile, _, narrowing| {
        if profile.causal.experiments.is_empty() {
            return Some(not_recorded(profile));
        }
        (narrowing > Narrowing::None).then_some(Refusal::CausalOfAPart)
    },
    body: |_, profile| Ok(Body::Causal(Box::new(estimate(&profile.causal, profile.meta.host.cpus)))),
};

/// If experiments were wanted, the recording knows why there are none.
fn not_recorded(profile: &Profile) -> Refusal {
    let noted = profile.meta.notes.iter().find(|note| {
        let is_reason = |note: &CausalNote| {
            matches!(note, CausalNote::CausalFewInScope { .. } | CausalNote::CausalOverloaded { .. })
        };
        matches!(note, Note::Causal(note) if is_reason(note))
    });
    Refusal::NotRecorded { missing: Missing::Experiments, noted: noted.map(remark_of) }
}
