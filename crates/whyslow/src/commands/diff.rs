//! `whyslow diff`: what changed between two profiles, or several runs of each side, as text or JSON.

use std::path::PathBuf;

use clap::Args;
use whyslow_analyze::Quality;
use whyslow_analyze::diff::{Diff, Focus, Paths};
use whyslow_profile::Profile;
use whyslow_render::json;
use whyslow_render::text::{self, DiffFile, DiffView, Page};

use crate::cli::{Format, Volume};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::filters::Filters;
use crate::output::Output;
use crate::sides::{Sides, SidesArgs};
use crate::{output, terminal};

/// Say what changed between two profiles: functions by time, or lines that allocate
#[derive(Debug, Args)]
#[command(
    override_usage = "whyslow diff [OPTIONS] BEFORE AFTER\n       whyslow diff [OPTIONS] --before FILE... --after FILE...\n       \
        whyslow diff [OPTIONS] --runs N 'COMMAND BEFORE' 'COMMAND AFTER'",
    after_help = "\
Functions and lines are matched by name, file and source text, so that a rebuilt program is
compared with what it was. Where samples stand for more, each change has a 95 % interval, and
is called more or less only when chance does not explain it; the rest is undecided.
One run of each side does not say how much runs differ from each other; several do.

Examples:
  whyslow diff --runs 6 './old input' './new input'    records both, in turn, and compares
  whyslow heap -o before.whyslow -- ./app       then change the program, and
  whyslow heap -o after.whyslow -- ./app
  whyslow diff before.whyslow after.whyslow     which lines allocate more or less
  whyslow diff before.whyslow after.whyslow --metric live-at-peak
  whyslow diff before.whyslow after.whyslow --thread worker --format json
  whyslow diff --before old*.whyslow --after new*.whyslow"
)]
pub(crate) struct DiffArgs {
    /// Show at most this many rows of each table; 0 shows all [default: 10 that changed; JSON: all]
    #[arg(short = 'n', long, value_name = "ROWS")]
    limit: Option<usize>,
    /// Show which call paths changed, too
    #[arg(long)]
    paths: bool,
    /// Draw what changed as a flame graph, too
    #[arg(long, value_name = "SVG")]
    flame: Option<PathBuf>,
    /// Text for people or JSON for programs
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    sides: SidesArgs,
    #[command(flatten)]
    filters: Filters,
}

/// Prints the comparison.
pub(crate) fn run(args: &DiffArgs, volume: Volume) -> Result<Exit> {
    let sides = Sides::load(&args.sides, &args.filters, volume)?;
    let [before, after] = sides.runs();
    let diff = Diff::of_runs(&before, &after, !args.filters.no_inline);
    let inline = !args.filters.no_inline;
    let needs_paths = args.paths || args.flame.is_some();
    let paths = needs_paths.then(|| Paths::of_runs(&before, &after, inline));
    if let (Some(paths), Some(file)) = (&paths, &args.flame) {
        super::flame::draw_diff(&sides, paths, &Output::from(file.clone()), volume)?;
    }
    let wanted = sides.after[0].selection.function.as_ref();
    let focus = wanted.and_then(|wanted| Focus::of_runs(&before, &after, inline, |name| wanted.is_match(name)));
    let [before_names, after_names] = sides.names();
    let qualities = [&sides.before[0], &sides.after[0]]
        .map(|run| Quality::of_metric(&run.profile, run.selection.metric));
    let view = DiffView {
        diff: &diff,
        before: file(&before_names, &before.profile, &qualities[0]),
        after: file(&after_names, &after.profile, &qualities[1]),
        limit: args.limit.map(|rows| if rows == 0 { usize::MAX } else { rows }),
        paths: paths.as_ref().filter(|_| args.paths),
        focus: focus.as_ref(),
    };
    let answer = match args.format {
        Format::Text => {
            let width = terminal::width(std::io::stdout());
            text::diff(&view, Page::new(&after.profile, sides.after[0].selection.metric, width))
        }
        Format::Json => json::to_string(&json::diff(&view))
            .map_err(|error| Failure::new(format!("{}: {error}", after_names[0])))?,
    };
    output::print(&answer)?;
    Ok(Exit::Success)
}

/// The runs of one side, as the answer names them.
pub(super) fn file<'a>(names: &'a [String], profile: &'a Profile, quality: &'a Quality) -> DiffFile<'a> {
    let (name, more) = names.split_first().map_or(("", &[][..]), |(name, more)| (name.as_str(), more));
    DiffFile { name, profile, quality, more }
}
