//! Lost memory: each line that allocated it, with its callers.

use whyslow_analyze::heap::Sites;
use whyslow_render::text::{self, HeapView};

use super::{Needs, View, heap};

/// This many lines fit a screen with their callers.
const LINES: usize = 20;

pub(super) const VIEW: View = View {
    name: "leaks",
    help: &[("leaks", "memory that is lost, by line, with callers")],
    function: Needs::Nothing,
    states_quality: false,
    of_samples: true,
    of_waits: false,
    refusal: heap::refusal,
    text: |request, quality, page| {
        let (profile, part) = (request.profile, request.args.filters.are_given());
        let sites =
            if part { Sites::of_selection(profile, request.selection) } else { Sites::build(profile) };
        let limit = Some(request.limit(LINES));
        let view = HeapView { profile, sites: &sites, quality, limit, histograms: false, saved: None };
        Ok(text::leaks_of(&view, page))
    },
    json: heap::VIEW.json,
};
