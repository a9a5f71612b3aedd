//! Flame graphs as SVG files: of a profile, of selected samples, of what changed.

use whyslow_analyze::diff::Paths;
use whyslow_analyze::heap::is_heap_metric;
use whyslow_analyze::{CallTree, Outline, Overview, Quality, Selection, TimeSplit, TreeOptions};
use whyslow_profile::{Profile, Unit};
use whyslow_render::flame::{FlameOptions, diff_svg, folded_svg, svg};
use whyslow_render::text::verdict;
use whyslow_render::units::value;

use crate::cli::Volume;
use crate::failure::Result;
use crate::open;
use crate::output::{Output, note};
use crate::sides::Sides;

/// Writes a picture.
pub(crate) fn write(svg: &str, picture: &Output, open: bool, volume: Volume) -> Result {
    picture.write(|out| out.write_all(svg.as_bytes()))?;
    if let Output::File(path) = picture {
        if volume > Volume::Quiet {
            note(&format!("whyslow: flame graph: {}\n", path.display()));
        }
        if open {
            open::in_browser(path);
        }
    }
    Ok(())
}

/// Draws the change between two sides.
pub(crate) fn draw_diff(sides: &Sides, paths: &Paths, output: &Output, volume: Volume) -> Result {
    write(&diff_svg(paths, &diff_options(sides, paths)), output, false, volume)
}

/// The title and subtitle of a flame graph of changes.
pub(crate) fn diff_options(sides: &Sides, paths: &Paths) -> FlameOptions {
    let [before, after] = [&sides.before, &sides.after].map(|runs| title(&runs[0].profile));
    let metric = sides.before[0].profile.metrics.get(sides.before[0].selection.metric.index());
    let unit = metric.map_or_else(Default::default, |metric| metric.unit);
    let name = metric.map_or("", |metric| sides.before[0].profile.text(metric.name));
    let whole = &paths.total[0];
    let runs = match sides.before.len() {
        1 => "one run each: run-to-run noise is not known".to_owned(),
        runs => format!("means of {runs} runs each"),
    };
    FlameOptions {
        title: if before == after {
            format!("{after}: what changed")
        } else {
            format!("{before} → {after}")
        },
        subtitle: format!(
            "{name} {} → {}; {runs}; a frame is as wide as the larger of before and after",
            value(whole.before, unit),
            value(whole.after, unit)
        ),
        unit,
        ..FlameOptions::default()
    }
}

/// Draws a whole profile with the default options.
pub(crate) fn draw(profile: &Profile, output: &Output, open: bool, volume: Volume) -> Result {
    let everything = Selection { metric: profile.main_metric(), ..Selection::default() };
    write(&picture(profile, &everything, true), output, open, volume)
}

/// The flame graph of the selected samples with the default options.
pub(crate) fn picture(profile: &Profile, selection: &Selection, inline: bool) -> String {
    let options = FlameOptions {
        title: title(profile),
        subtitle: subtitle(profile, selection),
        ..FlameOptions::default()
    };
    let tree = TreeOptions { inline, ..TreeOptions::default() };
    drawn(profile, selection, &tree, &options, true)
}

/// The flame graph of the selected samples.
pub(crate) fn drawn(
    profile: &Profile,
    selection: &Selection,
    tree: &TreeOptions,
    options: &FlameOptions,
    folded: bool,
) -> String {
    let weights = selection.weigh(profile);
    let whole = CallTree::from_weights(profile, &weights, tree);
    let unit =
        profile.metrics.get(selection.metric.index()).map_or_else(Default::default, |metric| metric.unit);
    let times = TimeSplit::of(profile, selection, &weights, &whole, tree);
    let options = FlameOptions { unit, times, ..options.clone() };
    if folded {
        folded_svg(&Outline::folded_tree(profile, &weights, &whole, tree), &whole, profile, &options)
    } else {
        svg(&whole, profile, &options)
    }
}

/// What was recorded.
pub(crate) fn title(profile: &Profile) -> String {
    match profile.meta.command.as_slice() {
        [] => "Flame graph".to_owned(),
        words => words.join(" "),
    }
}

/// What was measured, and how far to trust it.
pub(crate) fn subtitle(profile: &Profile, selection: &Selection) -> String {
    let overview = Overview::of(profile);
    let plain =
        anstream::adapter::strip_str(&verdict(&Quality::of_metric(profile, selection.metric))).to_string();
    let seconds = overview.duration_ns as f64 / 1e9;
    let metric = profile.metrics.get(selection.metric.index());
    if let Some(metric) =
        metric.filter(|metric| metric.unit != Unit::Nanoseconds || is_heap_metric(profile, selection.metric))
    {
        let name = profile.text(metric.name);
        return match overview.duration_ns {
            0 => format!("{name}; {plain}"),
            _ => format!("{name}; {seconds:.2} s; {plain}"),
        };
    }
    format!("{seconds:.2} s, {:.2} s of CPU time; {plain}", overview.cpu_time_ns as f64 / 1e9)
}
