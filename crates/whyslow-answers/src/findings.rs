//! The findings of a whole profile.

use whyslow_analyze::Selection;
use whyslow_explain::{Allowed, Explanation, Question, explain};
use whyslow_profile::Profile;

/// The findings of a whole profile, as `whyslow explain` without options has them. `file` is its name in commands.
pub fn whole_explanation(profile: &Profile, allowed: &Allowed, file: &str) -> Explanation {
    let selection = Selection { metric: profile.main_metric(), ..Selection::default() };
    explain(&Question { profile, selection: &selection, only_metric: false, allowed, file })
}
