//! What several targets do with what they read.

use whyslow_analyze::{FunctionTable, Overview, Quality, Selection, SortBy};
use whyslow_profile::Profile;

/// Looks at a profile as every report does: whatever a reader lets through must be safe to work with.
pub fn look_at(profile: &Profile) {
    let _ = (Overview::of(profile), Quality::of(profile));
    for metric in 0..profile.metrics.len() {
        let selection = Selection { metric, ..Selection::default() };
        let _ = FunctionTable::build(profile, &selection, true, SortBy::SelfValue);
    }
}
