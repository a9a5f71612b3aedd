//! A recording with its answer: what `whyslow PROGRAM` does, and every command that is like it.

use std::ffi::OsStr;

use whyslow_analyze::remark_of;
use whyslow_capture::{Options, Target};
use whyslow_heap::leaks::suppressions::Suppressions;
use whyslow_profile::{Note, Profile, RecordingNote};

use super::{Keep, Shown, run};
use crate::answers;
use crate::cli::{Format, Volume};
use crate::exit::Exit;
use crate::failure::{Result, warn};
use crate::output::note;

/// Records and prints the one-screen answer, to stderr. An answer in JSON is alone there.
pub(crate) fn record_and_answer(
    target: &Target,
    name: &OsStr,
    how: Options,
    keep: &Keep,
    shown: Shown,
    volume: Volume,
) -> Result<Exit> {
    let others = if shown.format == Format::Json { Volume::Quiet } else { volume };
    let recorded = run(target, name, how, keep, others, &Suppressions::default())?;
    if volume > Volume::Quiet {
        note(&answers::summary(&recorded.profile, recorded.saved(), shown)?);
    }
    warn_about_missing_events(&recorded.profile, others);
    recorded.draw(keep, others)?;
    recorded.exit()
}

/// Warns about each requested event that was not recorded, or not completely.
pub(crate) fn warn_about_missing_events(profile: &Profile, volume: Volume) {
    let is_missing = |note: &&Note| {
        let of_events = matches!(
            note,
            Note::Recording(RecordingNote::EventNotRecorded { .. } | RecordingNote::EventsMissed { .. })
        );
        of_events && volume > Volume::Quiet
    };
    for note in profile.meta.notes.iter().filter(is_missing) {
        let remark = remark_of(note);
        let fix = remark.fix.map(|fix| format!("; try: {fix}")).unwrap_or_default();
        warn(&format!("{}{fix}", remark.text));
    }
}
