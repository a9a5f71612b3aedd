//! The number of busy threads over time, as text.

use whyslow_analyze::{BusyFunction, Parallelism};
use whyslow_explain::Finding;
use whyslow_profile::Profile;
use whyslow_words::Percent;

use super::explain::findings_of_view;
use super::layout::{
    BOLD, DIM, PLAIN, Page, label_name, place, push_line, push_wrapped, right, styled, wide_enough,
};
use crate::sanitize::clean;
use crate::units::duration;

const THREADS: usize = 8;
const SHARE: usize = 9;
const TIME: usize = 10;
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
    let times: Vec<String> = parallelism.levels.iter().map(|level| duration(level.ns)).collect();
    let time = wide_enough(times.iter().map(String::as_str), TIME);
    push_line(
        &mut out,
        &styled(
            BOLD,
            format!(
                "{}{}{}  running functions",
                right("threads", THREADS),
                right("share", SHARE),
                right("time", time)
            ),
        ),
    );
    let lead = THREADS + SHARE + time + 2;
    for (threads, level) in parallelism.levels.iter().enumerate().filter(|(_, level)| level.ns > 0) {
        let numbers = format!(
            "{}{}{}  ",
            right(&threads.to_string(), THREADS),
            right(&Percent(parallelism.share(threads)).to_string(), SHARE),
            right(&duration(level.ns), time)
        );
        let functions = if threads == 0 { &[] } else { level.notable(MOST_FUNCTIONS) };
        if functions.is_empty() {
            push_line(&mut out, &numbers);
        }
        for (index, function) in functions.iter().enumerate() {
            let before = if index == 0 { numbers.clone() } else { " ".repeat(lead) };
            let share = right(&Percent(function.share).to_string(), SHARE - 1);
            let at = function_place(function, profile, PLACE);
            let width = page.width.saturating_sub(lead + SHARE + 1 + at.chars().count() + 2);
            let name = page.fit(&label_name(profile, function.label), width);
            push_line(&mut out, &format!("{before}{share}  {name}  {at}"));
        }
    }
    out.push_str(&curve(parallelism, page));
    out
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

fn function_place(function: &BusyFunction, profile: &Profile, width: usize) -> String {
    function.file.map_or(String::new(), |file| place(&clean(profile.text(file)), function.line, width))
}
