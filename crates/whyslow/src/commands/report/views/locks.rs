//! Lock contention.

use whyslow_render::{json, text};

use super::waits::without_waits;
use super::{Needs, View};
use crate::commands::report::request::ROWS;

pub(super) const VIEW: View = View {
    name: "locks",
    help: &[("locks", "locks that threads waited for, and their holders")],
    function: Needs::Nothing,
    states_quality: false,
    of_samples: false,
    of_waits: true,
    refusal: |args, profile| without_waits(args, profile, "whyslow locks -- PROGRAM"),
    text: |request, _, page| Ok(text::locks(&request.locks(), request.profile, request.limit(ROWS), page)),
    json: |request, context| {
        let locks = request.locks();
        request.written(json::to_string(&json::locks(context, &locks, request.limit(usize::MAX))))
    },
};
