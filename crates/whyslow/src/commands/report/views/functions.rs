//! Functions by cost.

use whyslow_analyze::HotPath;
use whyslow_render::{json, text};

use super::{Needs, View, never};
use crate::commands::report::ReportBy;
use crate::commands::report::request::ROWS;

pub(in crate::commands::report) const VIEW: View = View {
    name: "functions",
    help: &[("functions", "functions by own time; also --by self, --by total")],
    function: Needs::Nothing,
    states_quality: false,
    of_samples: true,
    of_waits: false,
    refusal: never,
    text: |request, _, page| {
        let (profile, weights, limit) = (request.profile, request.weights(), request.limit(ROWS));
        let programs = text::programs(profile, &request.threads(), page);
        let functions = match request.args.by {
            ReportBy::Own => text::own_functions(profile, &request.own(&weights).1, limit, page),
            ReportBy::SelfTime | ReportBy::Total => {
                text::functions(profile, &request.functions(&weights), limit, page)
            }
        };
        Ok(format!("{programs}{functions}"))
    },
    json: |request, context| {
        let weights = request.weights();
        let (charges, own) = request.own(&weights);
        let path = HotPath::find(request.profile, &weights, &charges, &own);
        let (functions, limit) = (request.functions(&weights), request.limit(usize::MAX));
        request.written(json::to_string(&json::report(
            context,
            &functions,
            &own,
            &path,
            &request.threads(),
            limit,
        )))
    },
};
