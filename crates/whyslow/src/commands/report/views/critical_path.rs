//! What delayed the end of the recording, or of a time range.

use whyslow_render::{json, text};

use super::waits::without_waits;
use super::{Needs, View};
use crate::commands::report::request::ROWS;

pub(super) const VIEW: View = View {
    name: "critical-path",
    help: &[("critical-path", "what delayed the end, across threads (record --wakers)")],
    function: Needs::Nothing,
    states_quality: false,
    of_samples: false,
    of_waits: true,
    refusal: |args, profile| without_waits(args, profile, "whyslow record --wakers -- PROGRAM"),
    text: |request, _, page| {
        Ok(text::critical_path(&request.critical_path(), request.profile, request.limit(ROWS), page))
    },
    json: |request, context| {
        let path = request.critical_path();
        request.written(json::to_string(&json::critical_path(context, &path, request.limit(usize::MAX))))
    },
};
