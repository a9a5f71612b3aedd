//! Spans that the program marked.

use whyslow_render::{json, text};

use super::{Needs, View, never};
use crate::commands::report::request::ROWS;

pub(super) const VIEW: View = View {
    name: "spans",
    help: &[("spans", "spans that the program marked (crate whyslow-mark), by name")],
    function: Needs::Nothing,
    states_quality: false,
    of_samples: false,
    of_waits: false,
    refusal: never,
    text: |request, _, page| Ok(text::spans(&request.spans(), request.limit(ROWS), page)),
    json: |request, context| {
        let spans = request.spans();
        request.written(json::to_string(&json::spans(context, &spans, request.limit(usize::MAX))))
    },
};
