//! What several targets do with the data they read.

use whyslow_analyze::{FunctionTable, Overview, Quality, Selection, SortBy};
use whyslow_profile::Profile;

/// Uses a profile as every report does: everything that a reader accepts must be safe to work with.
pub fn use_profile(profile: &Profile) {
    let _ = (Overview::of(profile), Quality::of(profile));
    for metric in profile.metric_ids() {
        let selection = Selection { metric, ..Selection::default() };
        let _ = FunctionTable::build(profile, &selection, true, SortBy::SelfValue);
    }
}
