//! Programs, processes and threads by the time they take.

use whyslow_render::{json, text};

use super::{Needs, View, never};
use crate::commands::report::request::ROWS;

pub(super) const VIEW: View = View {
    name: "threads",
    help: &[("threads", "programs, thread names, processes and threads by the time they take")],
    function: Needs::Nothing,
    states_quality: false,
    of_waits: false,
    refusal: never,
    text: |request, _, page| {
        Ok(text::threads(request.profile, &request.threads(), request.limit(ROWS), page))
    },
    json: |request, context| request.written(json::to_string(&json::threads(context, &request.threads()))),
};
