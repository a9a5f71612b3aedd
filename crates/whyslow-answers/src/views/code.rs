//! Views of code: functions, trees, callers, lines, modules and crates.

use whyslow_analyze::{
    By, Callers, FunctionTable, GroupBy, Groups, HotLines, HotPath, Lines, Outline, OwnTable, Ratios, SortBy,
    Threads,
};
use whyslow_profile::Profile;

use super::{Needs, View, never};
use crate::answer::{Body, Functions, Tree};
use crate::query::{Query, Ranking};
use crate::refusal::Refusal;

/// Functions by cost.
pub static FUNCTIONS: View = View {
    name: "functions",
    help: &[("functions", "functions by own time; also --by self, --by total")],
    function: Needs::Nothing,
    of_samples: true,
    of_waits: false,
    topic: None,
    refusal: never,
    body: functions,
};

/// The call tree.
pub static TREE: View = View {
    name: "tree",
    help: &[("tree", "the call tree; --inverted starts at the innermost functions")],
    body: |query, profile| {
        let (weights, options) = (query.weights(profile), query.tree_options());
        let outline = match query.folds() {
            true => Outline::folded(profile, &weights, &options),
            false => Outline::from_weights(profile, &weights, &options),
        };
        Ok(Body::Tree(Tree { outline, samples: weights.total_count }))
    },
    ..FUNCTIONS
};

/// The callers and callees of a function.
pub static CALLERS: View = View {
    name: "callers",
    help: &[("callers FUNCTION", "the callers of a function")],
    function: Needs::One,
    body: |query, profile| {
        let build = if query.folds() { Callers::folded } else { Callers::build };
        let function = query.function.as_deref().unwrap_or_default();
        Ok(Body::Callers(Box::new(build(profile, &query.selection, function, query.inline)?)))
    },
    ..FUNCTIONS
};

/// The most expensive lines, or the lines of one function.
pub static LINES: View = View {
    name: "lines",
    help: &[
        ("lines", "the hottest lines by own time; also --by self"),
        ("lines FUNCTION", "the source of a function with the share of each line"),
    ],
    function: Needs::MaybeOne,
    body: |query, profile| match &query.function {
        Some(function) => Ok(Body::Lines(Box::new(Lines::build(profile, &query.selection, function)?))),
        None => hot_lines(query, profile),
    },
    ..FUNCTIONS
};

/// Modules.
pub static MODULES: View = View {
    name: "modules",
    help: &[("modules, crates", "time by program and library, or by crate")],
    body: |query, profile| Ok(groups(query, profile, GroupBy::Module)),
    ..FUNCTIONS
};

/// Crates.
pub static CRATES: View = View {
    name: "crates",
    help: &[],
    body: |query, profile| Ok(groups(query, profile, GroupBy::Crate)),
    ..FUNCTIONS
};

fn functions(query: &Query, profile: &Profile) -> Result<Body, Refusal> {
    let (selection, inline) = (&query.selection, query.inline);
    let (weights, charges) = (query.weights(profile), query.charges(profile));
    let mut own = OwnTable::build(profile, &weights, &charges);
    let min = query.min_value(own.total_value);
    own.rows.retain(|row| row.own_value >= min);
    own.ratios = Ratios::own(profile, selection, inline);
    let hot_path = HotPath::find(profile, &weights, &charges, &own);
    let by_total = query.ranking == Ranking::Total;
    let sort = if by_total { SortBy::Total } else { SortBy::SelfValue };
    let mut functions = FunctionTable::from_weights(profile, &weights, inline, sort);
    let min = query.min_value(functions.total_value);
    functions.rows.retain(|row| if by_total { row.total_value } else { row.self_value } >= min);
    functions.ratios = Ratios::functions(profile, selection, inline, sort);
    let threads = Threads::build(profile, selection);
    Ok(Body::Functions(Box::new(Functions { functions, own, hot_path, threads })))
}

fn hot_lines(query: &Query, profile: &Profile) -> Result<Body, Refusal> {
    let by = match query.ranking {
        Ranking::Own => By::Own,
        Ranking::SelfTime => By::SelfValue,
        Ranking::Total => return Err(Refusal::LinesHaveNoTotal),
    };
    let mut lines = HotLines::build(profile, &query.weights(profile), &query.charges(profile), by);
    let min = query.min_value(lines.total_value);
    lines.rows.retain(|row| if by == By::Own { row.own_value } else { row.self_value } >= min);
    Ok(Body::HotLines(lines))
}

fn groups(query: &Query, profile: &Profile, by: GroupBy) -> Body {
    let mut groups = Groups::build(profile, &query.selection, by);
    let min = groups.total_value as f64 * query.min_share.unwrap_or(0.0);
    groups.rows.retain(|row| row.self_value as f64 >= min);
    Body::Groups(by, groups)
}
