//! A function between its callers and its callees.

use whyslow_analyze::Callers;
use whyslow_profile::Profile;
use whyslow_words::Percent;

use super::layout::{BOLD, PLAIN, Page, columns, label_name, number_of, push_line, push_wrapped, styled};
use super::tree::{Direction, Drawing, has_folds, push_legend};
use crate::units::value;

/// Renders callers above and callees below; shares are relative to the function's own total.
pub fn callers(profile: &Profile, callers: &Callers, min_share: f64, page: Page) -> String {
    let mut out = String::new();
    let name = callers.labels.first().map_or(String::new(), |label| label_name(profile, *label));
    let of_all = |part: u64| Percent(part as f64 / callers.whole_value.max(1) as f64);
    push_line(&mut out, &styled(BOLD, page.fit(&name, page.width)));
    let mut costs = format!(
        "self {} ({}), total {} ({})",
        of_all(callers.self_value),
        value(callers.self_value, page.unit),
        of_all(callers.total_value),
        value(callers.total_value, page.unit),
    );
    if !page.counted {
        costs.push_str(&format!(", {}", number_of(callers.samples, "sample", "samples")));
    }
    push_wrapped(&mut out, PLAIN, &costs, page.width);
    let outlines = [
        ("called by", &callers.callers, Direction::Callers, "nothing: this is the outermost function"),
        ("calls", &callers.callees, Direction::Callees, "nothing"),
    ];
    for (title, outline, direction, nothing) in outlines {
        out.push('\n');
        if outline.tree.is_empty() {
            push_line(&mut out, &format!("{} {nothing}", styled(BOLD, title)));
            continue;
        }
        let room = page.width.saturating_sub(columns(title) + columns(" (shares of )"));
        push_line(&mut out, &format!("{} (shares of {})", styled(BOLD, title), page.fit(&name, room)));
        let whole = callers.total_value;
        Drawing { profile, outline, whole, min_share, direction, below: true, page }.draw(&mut out);
    }
    push_legend(&mut out, has_folds(&callers.callers) || has_folds(&callers.callees));
    out
}
