//! The number of busy threads over time, as text.

use whyslow_analyze::{CallTree, Parallelism};
use whyslow_explain::Finding;
use whyslow_profile::Profile;

use super::cells::{self, NAME};
use super::explain::findings_of_view;
use super::layout::{DIM, PLAIN, Page, push_line, push_wrapped, styled};
use crate::table::{Cell, Column, Table};
use crate::units::duration;

/// Functions shown per level.
const MOST_FUNCTIONS: usize = 3;
/// Width of a place.
const PLACE: usize = 30;
/// The heights of the curve's characters.
const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Renders the share of time with 0, 1, 2, … busy threads, the functions that ran, and the curve.
pub fn parallelism(parallelism: &Parallelism, found: &[Finding], profile: &Profile, page: Page) -> String {
    let mut out = String::new();
    let intro = if parallelism.exact {
        "busy threads over time: running, or queued for a CPU"
    } else {
        "running threads over time, estimated from CPU samples; for exact numbers: whyslow record --off-cpu"
    };
    push_wrapped(&mut out, PLAIN, intro, page.width);
    out.push_str(&findings_of_view(profile, found, page));
    out.push('\n');
    out.push_str(&level_table(parallelism, profile, MOST_FUNCTIONS, page).text(page.width));
    out.push_str(&curve(parallelism, page));
    out
}

/// The time with each number of busy threads, and at most `most` functions that ran.
pub(super) fn level_table(parallelism: &Parallelism, profile: &Profile, most: usize, page: Page) -> Table {
    let mut table = Table::new(vec![
        Column::share("threads", "threads"),
        Column::share("share", "share").gap(2),
        Column::number("ns", "time").least(8),
        Column::share("function_share", "running functions").gap(2).least(8).heads_next(),
        Column::rest("function", "", NAME),
        Column::place("file", "line", "").most(PLACE),
    ])
    .full_names(page.full_names);
    for (threads, level) in parallelism.levels.iter().enumerate().filter(|(_, level)| level.ns > 0) {
        let numbers = |repeats: bool| {
            [
                Cell::count(threads as u64).repeats(repeats),
                Cell::share(parallelism.share(threads)).repeats(repeats),
                Cell::duration(level.ns).repeats(repeats),
            ]
        };
        let functions = if threads == 0 { &[] } else { level.notable(most) };
        if functions.is_empty() {
            let nothing = [Cell::nothing(), Cell::nothing(), Cell::nothing()];
            table.push(numbers(false).into_iter().chain(nothing).collect());
        }
        for (index, function) in functions.iter().enumerate() {
            let function = [
                Cell::share(function.share),
                Cell::name(CallTree::name(profile, function.label)),
                cells::place(profile, function.file, function.line),
            ];
            table.push(numbers(index > 0).into_iter().chain(function).collect());
        }
    }
    table
}

/// A line of characters whose heights are the numbers of busy threads.
fn curve(parallelism: &Parallelism, page: Page) -> String {
    let busy = |at: usize| {
        let slice = &parallelism.curve[at];
        slice.running + slice.queued
    };
    let slices = parallelism.curve.len();
    let most = (0..slices).map(busy).fold(0.0, f64::max);
    if most <= 0.0 {
        return String::new();
    }
    let width = page.width.min(slices);
    let letters = (0..width).map(|column| {
        let (from, to) =
            (column * slices / width, ((column + 1) * slices / width).max(column * slices / width + 1));
        let mean = (from..to).map(busy).sum::<f64>() / (to - from) as f64;
        HEIGHTS[((mean / most * 8.0).round() as usize).min(8)]
    });
    let mut out = String::from("\n");
    push_line(&mut out, &letters.collect::<String>());
    let words = format!(
        "{} in all, {} per character; peak: {most:.1} threads",
        duration(parallelism.duration_ns),
        duration(parallelism.duration_ns / width.max(1) as u64)
    );
    push_line(&mut out, &styled(DIM, words));
    out
}
