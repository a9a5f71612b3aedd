//! The callers of a function.

use whyslow_render::{json, text};

use super::{Needs, View, never};

pub(super) const VIEW: View = View {
    name: "callers",
    help: &[("callers FUNCTION", "the callers of a function")],
    function: Needs::One,
    states_quality: false,
    of_samples: true,
    of_waits: false,
    refusal: never,
    text: |request, _, page| {
        let callers = request.callers(!request.args.unfolded)?;
        Ok(text::callers(request.profile, &callers, request.min_share(), page))
    },
    json: |request, context| {
        let callers = request.callers(false)?;
        request.written(json::to_string(&json::callers(context, &callers, request.min_share())))
    },
};
