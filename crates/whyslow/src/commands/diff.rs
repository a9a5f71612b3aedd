//! `whyslow diff`: what changed between two profiles, or between several runs of each side, as text or JSON.

use std::path::PathBuf;

use clap::Args;
use whyslow_analyze::Quality;
use whyslow_analyze::diff::{Diff, Focus, Paths};
use whyslow_render::json;
use whyslow_render::text::{self, DiffView, Page};

use crate::cli::{Format, Volume};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::filters::Filters;
use crate::output::Output;
use crate::sides::{Sides, SidesArgs, file};
use crate::{output, pictures, terminal};

/// Compare two profiles: functions by time, or lines that allocate
#[derive(Debug, Args)]
#[command(
    override_usage = "whyslow diff [OPTIONS] BEFORE AFTER\n       whyslow diff [OPTIONS] --before FILE... --after FILE...\n       \
        whyslow diff [OPTIONS] --runs N 'COMMAND BEFORE' 'COMMAND AFTER'",
    after_help = "\
whyslow matches functions and lines by name, file and source text, so a rebuilt
program compares with its old build. In sampled profiles, each change has a 95 %
confidence interval. A change is called `more` or `less` only if it is outside
noise; otherwise it is undecided. A single run per side cannot show run-to-run
noise; several runs can.

Examples:
  whyslow diff --runs 6 './old input' './new input'   record both and compare
  whyslow heap -o before.whyslow -- ./app             then change the program
  whyslow heap -o after.whyslow -- ./app
  whyslow diff before.whyslow after.whyslow           lines that allocate more
  whyslow diff before.whyslow after.whyslow --metric live-at-peak
  whyslow diff before.whyslow after.whyslow --thread worker --format json
  whyslow diff --before old*.whyslow --after new*.whyslow"
)]
pub(crate) struct DiffArgs {
    /// Rows per table; 0 shows all [default: 10; JSON: all]
    #[arg(short = 'n', long, value_name = "ROWS")]
    limit: Option<usize>,
    /// Also show which call paths changed
    #[arg(long)]
    paths: bool,
    /// Also draw the change as a flame graph
    #[arg(long, value_name = "SVG")]
    flame: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    sides: SidesArgs,
    #[command(flatten)]
    filters: Filters,
}

/// Prints the comparison.
pub(crate) fn run(args: &DiffArgs, volume: Volume) -> Result<Exit> {
    let sides = Sides::load(&args.sides, &args.filters.resolved(), volume)?;
    let [before, after] = sides.runs();
    let diff = Diff::of_runs(&before, &after, !args.filters.no_inline);
    let inline = !args.filters.no_inline;
    let needs_paths = args.paths || args.flame.is_some();
    let paths = needs_paths.then(|| Paths::of_runs(&before, &after, inline));
    if let (Some(paths), Some(file)) = (&paths, &args.flame) {
        pictures::draw_diff(&sides, paths, &Output::from(file.clone()), volume)?;
    }
    let wanted = sides.after[0].selection.function.as_ref();
    let focus = wanted.and_then(|wanted| Focus::of_runs(&before, &after, inline, wanted));
    let [before_names, after_names] = sides.names();
    let qualities =
        [&sides.before[0], &sides.after[0]].map(|run| Quality::of_metric(&run.profile, run.selection.metric));
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
