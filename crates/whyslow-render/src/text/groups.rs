//! The table of modules or crates.

use whyslow_analyze::{GroupBy, Groups};
use whyslow_profile::Profile;

use super::layout::{BOLD, DIM, Page, columns, cut, kind_style, left, push_line, right, styled};
use crate::names::ending;
use crate::sanitize::clean;
use crate::units::{Count, Percent, value};

const SHARE: usize = 8;
const TIME: usize = 10;
const KIND: usize = 11;
/// Width of the symbols column.
const SYMBOLS: usize = 12;

/// Renders modules or crates by self cost, at most `limit` of them.
pub fn groups(profile: &Profile, groups: &Groups, by: GroupBy, limit: usize, page: Page) -> String {
    let (what, many) = match by {
        GroupBy::Module => ("module", "modules"),
        GroupBy::Crate => ("crate", "crates"),
    };
    let symbols = if by == GroupBy::Module { SYMBOLS } else { 0 };
    let width = page.width.saturating_sub(2 * SHARE + TIME + 2 + KIND + symbols);
    let mut out = String::new();
    let mut header = format!(
        "{}{}{}  {}",
        right("self", SHARE),
        right("total", SHARE),
        right("self", TIME),
        left("kind", KIND)
    );
    if symbols > 0 {
        header.push_str(&left("symbols", symbols));
    }
    push_line(&mut out, &styled(BOLD, header + what));
    for row in groups.rows.iter().take(limit) {
        let style = kind_style(row.kind);
        let mut line = format!(
            "{:>SHARE$}{:>SHARE$}{}  {}",
            Percent(groups.share(row.self_value).value),
            Percent(groups.share(row.total_value).value),
            right(&value(row.self_value, page.unit), TIME),
            styled(style, left(row.kind.label(), KIND)),
        );
        if symbols > 0 {
            let state = row.module.map_or("", |module| profile.modules[module.index()].symbols.label());
            line.push_str(&styled(DIM, left(state, symbols)));
        }
        line.push_str(&styled(style, short(&clean(&row.name), width)));
        push_line(&mut out, &line);
    }
    let more = groups.rows.len().saturating_sub(limit);
    if more > 0 {
        push_line(&mut out, &styled(DIM, format!("and {} more {many}", Count(more as u64))));
    }
    out
}

/// Cuts the start of a path: its end says most.
fn short(name: &str, width: usize) -> String {
    if columns(name) <= width || !name.contains('/') {
        return cut(name, width);
    }
    format!("…{}", ending(name, width.saturating_sub(1)))
}
