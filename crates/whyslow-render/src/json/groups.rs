//! Modules or crates as JSON.

use serde::Serialize;
use whyslow_analyze::{GroupBy, GroupRow, Groups};

use super::{Context, Cost, Head};

#[derive(Debug, Serialize)]
struct GroupJson<'a> {
    name: String,
    kind: &'static str,
    #[serde(flatten)]
    cost: Cost,
    self_samples: u64,
    total_samples: u64,
    #[serde(flatten)]
    module: Option<ModuleJson<'a>>,
}

/// Facts about a module in addition to its cost.
#[derive(Debug, Serialize)]
struct ModuleJson<'a> {
    module_kind: &'static str,
    build_id: Option<&'a str>,
    symbols: &'static str,
    optimised: &'static str,
}

impl<'a> GroupJson<'a> {
    fn new(context: &Context<'a>, groups: &Groups, row: &GroupRow) -> Self {
        let profile = context.profile;
        let module = row.module.map(|module| &profile.modules[module.index()]);
        Self {
            name: row.name.clone(),
            kind: row.kind.label(),
            cost: context.cost(row.self_value, row.total_value, groups.total_value),
            self_samples: row.self_samples,
            total_samples: row.total_samples,
            module: module.map(|module| ModuleJson {
                module_kind: module.kind.label(),
                build_id: module.build_id.map(|id| profile.text(id)),
                symbols: module.symbols.label(),
                optimised: module.optimised.label(),
            }),
        }
    }
}

/// Modules or crates, at most `limit` of them.
pub fn groups<'a>(
    context: &Context<'a>,
    groups: &Groups,
    by: GroupBy,
    limit: usize,
) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Body<'a> {
        #[serde(flatten)]
        head: Head<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        modules: Option<Vec<GroupJson<'a>>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        modules_left_out: Option<usize>,
        #[serde(skip_serializing_if = "Option::is_none")]
        crates: Option<Vec<GroupJson<'a>>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        crates_left_out: Option<usize>,
    }
    let rows = groups.rows.iter().take(limit).map(|row| GroupJson::new(context, groups, row));
    let (rows, left_out) = (rows.collect(), groups.rows.len().saturating_sub(limit));
    let head = |view| context.head(view, groups.total_samples, groups.total_value);
    let (modules, modules_left_out, crates, crates_left_out) = (None, None, None, None);
    match by {
        GroupBy::Module => Body {
            head: head("modules"),
            modules: Some(rows),
            modules_left_out: Some(left_out),
            crates,
            crates_left_out,
        },
        GroupBy::Crate => Body {
            head: head("crates"),
            modules,
            modules_left_out,
            crates: Some(rows),
            crates_left_out: Some(left_out),
        },
    }
}
