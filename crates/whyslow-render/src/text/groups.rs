//! The table of modules or crates.

use whyslow_analyze::{GroupBy, Groups};
use whyslow_profile::Profile;

use super::cells::{NAME, kind, kind_column};
use super::layout::{DIM, Page, kind_style};
use crate::table::{Cell, Column, Table};

/// Renders modules or crates by self cost, at most `limit` of them.
pub fn groups(profile: &Profile, groups: &Groups, by: GroupBy, limit: usize, page: Page) -> String {
    group_table(profile, groups, by, limit, page).text(page.width)
}

/// Modules or crates by self cost, at most `limit` of them.
pub(super) fn group_table(
    profile: &Profile,
    groups: &Groups,
    by: GroupBy,
    limit: usize,
    page: Page,
) -> Table {
    let (what, one, many) = match by {
        GroupBy::Module => ("module", "more module", "more modules"),
        GroupBy::Crate => ("crate", "more crate", "more crates"),
    };
    let symbols = Column::words("symbols", "symbols").gap(1).least(11);
    let mut table = Table::new(vec![
        Column::share("self_share", "self"),
        Column::share("total_share", "total"),
        Column::amount("self", "self", page.unit).least(8),
        Column::amount("total", "total", page.unit).in_data(),
        kind_column(),
        if by == GroupBy::Module { symbols } else { symbols.in_data() },
        Column::rest("name", what, NAME).gap(1),
    ]);
    for row in groups.rows.iter().take(limit) {
        let state = row.module.map_or("", |module| profile.modules[module.index()].symbols.label());
        let name = if row.name.contains('/') { Cell::path(&row.name) } else { Cell::verbatim(&row.name) };
        table.push(vec![
            Cell::share(groups.share(row.self_value).value),
            Cell::share(groups.share(row.total_value).value),
            Cell::amount(row.self_value, page.unit),
            Cell::amount(row.total_value, page.unit),
            kind(row.kind),
            Cell::text(state).style(DIM),
            name.style(kind_style(row.kind)),
        ]);
    }
    table.limited(groups.rows.len(), limit, one, many)
}
