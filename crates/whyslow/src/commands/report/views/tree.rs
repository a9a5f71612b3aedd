//! The call tree.

use whyslow_render::json;
use whyslow_render::text::{self, TreeView};

use super::{Needs, View, never};

pub(super) const VIEW: View = View {
    name: "tree",
    help: &[("tree", "the call tree; --inverted starts at the innermost functions")],
    function: Needs::Nothing,
    states_quality: false,
    of_samples: true,
    of_waits: false,
    refusal: never,
    text: |request, _, page| {
        let view = TreeView { inverted: request.args.inverted, min_share: request.min_share() };
        Ok(text::tree(request.profile, &request.readable_outline(), view, page))
    },
    json: |request, context| {
        let (weights, inverted) = (request.weights(), request.args.inverted);
        let outline = request.outline(&weights, inverted);
        let tree = json::tree(context, &outline, weights.total_count, inverted, request.min_share());
        request.written(json::to_string(&tree))
    },
};
