//! How many threads run at the same time, and what runs while only one does.

use whyslow_analyze::Parallelism;
use whyslow_render::{json, text};

use super::{Needs, View, never};
use crate::commands::report::request::Request;
use crate::failure::{Failure, Result};

pub(super) const VIEW: View = View {
    name: "parallelism",
    help: &[("parallelism", "how many threads run at the same time, and what runs alone")],
    function: Needs::Nothing,
    states_quality: false,
    of_samples: false,
    of_waits: false,
    refusal: never,
    text: |request, _, page| Ok(text::parallelism(&built(request)?, request.profile, page)),
    json: |request, context| {
        let limit = request.limit(usize::MAX);
        request.written(json::to_string(&json::parallelism(context, &built(request)?, limit)))
    },
};

fn built(request: &Request<'_>) -> Result<Parallelism> {
    request.parallelism().ok_or_else(|| {
        Failure::new(format!("{}: CPU time was not recorded", request.args.profile.file.display()))
            .next("whyslow record PROGRAM")
    })
}
