//! Programs, processes and threads by time.

use whyslow_render::{json, text};

use super::{Needs, View, never};
use crate::commands::report::request::ROWS;

pub(super) const VIEW: View = View {
    name: "threads",
    help: &[("threads", "time by program, thread name, process and thread")],
    function: Needs::Nothing,
    states_quality: false,
    of_samples: false,
    of_waits: false,
    refusal: never,
    text: |request, _, page| {
        Ok(text::threads(request.profile, &request.threads(), request.limit(ROWS), page))
    },
    json: |request, context| request.written(json::to_string(&json::threads(context, &request.threads()))),
};
