//! `whyslow flame`: a flame graph as SVG.

use std::path::PathBuf;

use clap::Args;
use whyslow_analyze::TreeOptions;
use whyslow_analyze::diff::Paths;
use whyslow_render::flame::{FlameOptions, diff_svg};

use crate::cli::{ProfileArg, Volume};
use crate::exit::Exit;
use crate::failure::Result;
use crate::filters::Filters;
use crate::output::Output;
use crate::pictures::{diff_options, drawn, subtitle, title, write};
use crate::sides::Sides;
use crate::{profile_file, values};

/// Draw a flame graph (interactive SVG)
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whyslow flame app.whyslow                          write app.svg
  whyslow flame app.whyslow -o - --thread main > main.svg
  whyslow flame app.whyslow --inverted --open
  whyslow flame app.whyslow --metric live-at-peak    memory at the peak
  whyslow flame --diff before.whyslow after.whyslow  what changed
  whyslow flame app.whyslow --metric wall-time       running and waiting")]
pub(crate) struct FlameArgs {
    #[command(flatten)]
    profile: ProfileArg,
    /// Write here instead of NAME.svg next to the profile; - is stdout
    #[arg(short, long, value_name = "SVG")]
    output: Option<PathBuf>,
    /// Draw the change since this profile: blue is less, orange more, grey within noise
    #[arg(long, value_name = "BEFORE", conflicts_with_all = ["inverted", "unfolded"])]
    diff: Option<PathBuf>,
    /// Draw callers above the innermost functions
    #[arg(long)]
    inverted: bool,
    /// Draw the root at the top
    #[arg(long)]
    icicle: bool,
    /// Draw every frame, also start-up and runtime frames
    #[arg(long, alias = "whole")]
    unfolded: bool,
    /// The title [default: the recorded command]
    #[arg(long)]
    title: Option<String>,
    /// Leave out boxes narrower than this
    #[arg(long, value_name = "PIXELS", default_value_t = 0.1, value_parser = values::pixels)]
    min_width: f64,
    /// Open the flame graph in a browser
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    filters: Filters,
}

/// Writes the flame graph.
pub(crate) fn run(args: &FlameArgs, volume: Volume) -> Result<Exit> {
    let file = &args.profile.file;
    let picture = Output::from(args.output.clone().unwrap_or_else(|| file.with_extension("svg")));
    if let Some(before) = &args.diff {
        let sides = Sides::open([vec![before.clone()], vec![file.clone()]], &args.filters.resolved())?;
        let [before, after] = sides.runs();
        let paths = Paths::of_runs(&before, &after, !args.filters.no_inline);
        let default = diff_options(&sides, &paths);
        let options = FlameOptions {
            title: args.title.clone().unwrap_or(default.title),
            inverted: args.icicle,
            min_width_px: args.min_width,
            ..default
        };
        write(&diff_svg(&paths, &options), &picture, args.open, volume)?;
        return Ok(Exit::Success);
    }
    let mut profile = profile_file::open(file)?;
    let selection = args.filters.select(file, &mut profile)?;
    let tree =
        TreeOptions { inline: !args.filters.no_inline, inverted: args.inverted, ..TreeOptions::default() };
    let options = FlameOptions {
        title: args.title.clone().unwrap_or_else(|| title(&profile)),
        subtitle: subtitle(&profile, &selection),
        inverted: args.inverted || args.icicle,
        callers: args.inverted,
        min_width_px: args.min_width,
        ..FlameOptions::default()
    };
    let svg = drawn(&profile, &selection, &tree, &options, !args.unfolded);
    write(&svg, &picture, args.open, volume)?;
    Ok(Exit::Success)
}
