//! Where threads wait, for what, and how long.

use whyslow_analyze::{remark_of, wait_metric};
use whyslow_profile::{Note, Profile, RecordingNote};
use whyslow_render::{json, text};
use whyslow_words::Remark;

use super::{Needs, View};
use crate::commands::report::ReportArgs;
use crate::commands::report::request::ROWS;
use crate::failure::Failure;

/// The error if waits were not recorded, with the command that records them.
pub(super) fn without_waits(args: &ReportArgs, profile: &Profile, next: &str) -> Option<Failure> {
    let asked = |note: &RecordingNote| matches!(note, RecordingNote::WaitsNotRecorded);
    wait_metric(profile)
        .is_none()
        .then(|| not_recorded(args, profile, "waits were not recorded", asked, next))
}

/// The error of a view whose data are missing. If they were asked for, the recording knows why they are
/// missing, and the same command would not help.
pub(super) fn not_recorded(
    args: &ReportArgs,
    profile: &Profile,
    what: &str,
    asked: fn(&RecordingNote) -> bool,
    next: &str,
) -> Failure {
    let file = args.profile.file.display();
    let is_asked = |note: &&Note| matches!(note, Note::Recording(note) if asked(note));
    let note = profile.meta.notes.iter().find(is_asked).map(remark_of);
    match note {
        Some(Remark { text, fix: Some(fix), .. }) => Failure::new(format!("{file}: {text}")).next(fix),
        Some(Remark { text, .. }) => Failure::new(format!("{file}: {text}")),
        None => Failure::new(format!("{file}: {what}")).next(next),
    }
}

pub(super) const VIEW: View = View {
    name: "waits",
    help: &[("waits", "where threads wait, and for what (record --off-cpu)")],
    function: Needs::Nothing,
    states_quality: false,
    of_samples: false,
    of_waits: true,
    refusal: |args, profile| without_waits(args, profile, "whyslow record --off-cpu -- PROGRAM"),
    text: |request, _, page| {
        Ok(text::waits(&request.waits(), &request.blocked(), request.profile, request.limit(ROWS), page))
    },
    json: |request, context| {
        let waits = request.waits();
        request.written(json::to_string(&json::waits(
            context,
            &waits,
            &request.blocked(),
            request.limit(usize::MAX),
        )))
    },
};
