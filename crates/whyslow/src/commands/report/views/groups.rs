//! Modules or crates by time.

use whyslow_analyze::GroupBy;
use whyslow_render::json::{self, Context};
use whyslow_render::text::{self, Page};

use super::{Needs, View, never};
use crate::commands::report::request::{ROWS, Request};
use crate::failure::Result;

pub(super) const MODULES: View = View {
    name: "modules",
    help: &[("modules, crates", "time by program and library, or by crate")],
    function: Needs::Nothing,
    states_quality: false,
    of_samples: true,
    of_waits: false,
    refusal: never,
    text: |request, _, page| as_text(request, GroupBy::Module, page),
    json: |request, context| as_json(request, GroupBy::Module, context),
};

pub(super) const CRATES: View = View {
    name: "crates",
    help: &[],
    text: |request, _, page| as_text(request, GroupBy::Crate, page),
    json: |request, context| as_json(request, GroupBy::Crate, context),
    ..MODULES
};

fn as_text(request: &Request<'_>, by: GroupBy, page: Page) -> Result<String> {
    Ok(text::groups(request.profile, &request.groups(by), by, request.limit(ROWS), page))
}

fn as_json(request: &Request<'_>, by: GroupBy, context: &Context<'_>) -> Result<String> {
    let groups = request.groups(by);
    request.written(json::to_string(&json::groups(context, &groups, by, request.limit(usize::MAX))))
}
