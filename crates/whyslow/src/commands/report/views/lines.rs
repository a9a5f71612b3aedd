//! The hottest lines, or the source of one function.

use whyslow_render::{json, text};

use super::{Needs, View, never};
use crate::commands::report::request::ROWS;

pub(super) const VIEW: View = View {
    name: "lines",
    help: &[
        ("lines", "the hottest lines by own time; also --by self"),
        ("lines FUNCTION", "the source of a function with the share of each line"),
    ],
    function: Needs::MaybeOne,
    states_quality: false,
    of_samples: true,
    of_waits: false,
    refusal: never,
    text: |request, _, page| {
        Ok(if request.function.is_empty() {
            text::hot_lines(request.profile, &request.hot_lines()?, request.limit(ROWS), page)
        } else {
            text::lines(request.profile, &request.lines()?, page)
        })
    },
    json: |request, context| {
        request.written(if request.function.is_empty() {
            json::to_string(&json::hot_lines(context, &request.hot_lines()?, request.limit(usize::MAX)))
        } else {
            json::to_string(&json::lines(context, &request.lines()?))
        })
    },
};
