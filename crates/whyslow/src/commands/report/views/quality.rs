//! How far to trust the profile.

use whyslow_render::{json, text};

use super::{Needs, View, never};

pub(super) const VIEW: View = View {
    name: "quality",
    help: &[("quality", "how far to trust the profile")],
    function: Needs::Nothing,
    states_quality: true,
    of_samples: true,
    of_waits: false,
    refusal: never,
    text: |_, quality, page| Ok(text::quality(quality, page.width)),
    json: |request, context| {
        let total = request.weights().total_value;
        request.written(json::to_string(&json::quality(context, total)))
    },
};
