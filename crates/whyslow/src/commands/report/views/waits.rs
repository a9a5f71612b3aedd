//! Where threads wait, for what, and how long.

use whyslow_analyze::wait_metric;
use whyslow_profile::Profile;
use whyslow_render::{json, text};

use super::{Needs, View};
use crate::commands::report::ReportArgs;
use crate::commands::report::request::ROWS;
use crate::failure::Failure;

/// The error if waits were not recorded, with the command that records them.
pub(super) fn without_waits(args: &ReportArgs, profile: &Profile, next: &str) -> Option<Failure> {
    wait_metric(profile).is_none().then(|| {
        Failure::new(format!("{}: waits were not recorded", args.profile.file.display())).next(next)
    })
}

pub(super) const VIEW: View = View {
    name: "waits",
    help: &[("waits", "where threads wait, and for what (record --off-cpu)")],
    function: Needs::Nothing,
    states_quality: false,
    of_samples: false,
    of_waits: true,
    refusal: |args, profile| without_waits(args, profile, "whyslow record --off-cpu -- PROGRAM"),
    text: |request, _, page| Ok(text::waits(&request.waits(), &request.blocked(), request.profile, request.limit(ROWS), page)),
    json: |request, context| {
        let waits = request.waits();
        request.written(json::to_string(&json::waits(context, &waits, &request.blocked(), request.limit(usize::MAX))))
    },
};
