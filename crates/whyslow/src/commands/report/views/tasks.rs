//! Async tasks.

use whyslow_render::{json, text};

use super::{Needs, View, never};
use crate::commands::report::request::ROWS;

pub(super) const VIEW: View = View {
    name: "tasks",
    help: &[("tasks", "async tasks: CPU time, awaits, calls that block workers")],
    function: Needs::Nothing,
    states_quality: false,
    of_samples: false,
    of_waits: false,
    refusal: never,
    text: |request, _, page| {
        let (tasks, blocked) = (request.tasks(), request.blocked());
        Ok(text::tasks(&tasks, &blocked, request.profile, request.limit(ROWS), page))
    },
    json: |request, context| {
        let (tasks, blocked) = (request.tasks(), request.blocked());
        request.written(json::to_string(&json::tasks(context, &tasks, &blocked, request.limit(usize::MAX))))
    },
};
