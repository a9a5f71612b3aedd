//! Where memory is allocated, what holds it, and leaks.

use whyslow_analyze::heap::{Sites, has_heap};
use whyslow_profile::{Profile, heap};
use whyslow_render::json;
use whyslow_render::text::{self, HeapView};

use super::{Needs, View};
use crate::cli::Format;
use crate::commands::report::ReportArgs;
use crate::failure::Failure;
use crate::shell;

pub(in crate::commands::report) const VIEW: View = View {
    name: "heap",
    help: &[("heap", "where memory is allocated, what holds it at the peak, leaks")],
    function: Needs::Nothing,
    states_quality: true,
    of_samples: true,
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
        Ok(if part { text::heap_part(&view, &request.processes(), page) } else { text::heap(&view, page) })
    },
    json: |request, context| {
        let weights = request.weights();
        request.written(json::to_string(&json::heap(context, weights.total_count, weights.total_value)))
    },
};

pub(super) fn refusal(args: &ReportArgs, profile: &Profile) -> Option<Failure> {
    let (file, word) = (args.profile.file.display(), shell::file(&args.profile.file));
    if !has_heap(profile) {
        let has = |name: &str| profile.metrics.iter().any(|metric| profile.text(metric.name) == name);
        return Some(if !profile.sealed && has(heap::metric::BYTES_ALLOCATED) {
            Failure::new(format!("{file}: its recorder was stopped before it summed up the heap"))
                .next(format!("whyslow report {word} functions, for the samples saved before that"))
        } else if let (true, Some(tool)) = (has(heap::metric::LIVE_AT_PEAK), &profile.meta.imported_from) {
            let tool = whyslow_render::sanitize::clean(tool).into_owned();
            Failure::new(format!("{file}: {tool} records live bytes and no allocations"))
                .next(format!("whyslow report {word} functions --metric {}", heap::metric::LIVE_AT_PEAK))
        } else {
            Failure::new(format!("{file}: the heap was not recorded"))
                .next("`whyslow heap -- PROGRAM`, or `whyslow record --heap PROGRAM`")
        });
    }
    (args.format == Format::Text && args.filters.are_beyond_threads()).then(|| {
        Failure::new("the view `heap` accepts only the filters --process and --thread")
            .next(format!("whyslow report {word} functions with the same options"))
    })
}
