//! Where memory is allocated, what holds it, what leaks.

use whyslow_analyze::heap::{Sites, has_heap};
use whyslow_profile::{Metric, Profile, heap};
use whyslow_render::json;
use whyslow_render::text::{self, HeapView};

use super::{Needs, View};
use crate::cli::Format;
use crate::commands::report::ReportArgs;
use crate::failure::Failure;

pub(in crate::commands::report) const VIEW: View = View {
    name: "heap",
    help: &[("heap", "where memory is allocated, what holds it at the peak, what leaks")],
    function: Needs::Nothing,
    states_quality: true,
    of_waits: false,
    refusal,
    text: |request, quality, page| {
        let (profile, part) = (request.profile, request.args.filters.are_given());
        let sites =
            if part { Sites::of_selection(profile, request.selection) } else { Sites::build(profile) };
        let view = HeapView {
            profile,
            sites: &sites,
            quality,
            limit: request.args.limit.map(|_| request.limit(0)),
            histograms: request.histograms,
            saved: None,
        };
        Ok(if part {
            text::heap_part(&view, &request.processes(), page)
        } else {
            text::heap(&view, page)
        })
    },
    json: |request, context| {
        let weights = request.weights();
        request.written(json::to_string(&json::heap(context, weights.total_count, weights.total_value)))
    },
};

fn refusal(args: &ReportArgs, profile: &Profile) -> Option<Failure> {
    let file = args.profile.file.display();
    if !has_heap(profile) {
        let is_heap = |metric: &Metric| profile.text(metric.name) == heap::metric::BYTES_ALLOCATED;
        return Some(if !profile.sealed && profile.metrics.iter().any(is_heap) {
            Failure::new(format!("{file}: its recorder was stopped before it could add the heap up"))
                .next(format!("whyslow report {file} functions, for what was counted until then"))
        } else {
            Failure::new(format!("{file}: the heap is not in this recording"))
                .next("`whyslow heap -- PROGRAM`, or `whyslow record --heap PROGRAM`")
        });
    }
    (args.format == Format::Text && args.filters.are_more_than_who()).then(|| {
        Failure::new(
            "the view `heap` is of the whole recording: only --process and --thread choose a part of it",
        )
        .next(format!("whyslow report {file} functions with the same options"))
    })
}
