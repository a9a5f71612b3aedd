//! `whyslow diff`: what changed between two profiles, as text or JSON.

use std::path::{Path, PathBuf};

use clap::Args;
use whyslow_analyze::diff::{Diff, Side, shared_metrics};
use whyslow_analyze::{Quality, Selection};
use whyslow_profile::Profile;
use whyslow_render::json;
use whyslow_render::text::{self, DiffFile, DiffView, Page};

use crate::cli::{Format, Volume};
use crate::exit::Exit;
use crate::failure::{Failure, Result, warn};
use crate::filters::Filters;
use crate::{output, profile_file, terminal};

/// Say what changed between two profiles: functions by time, or lines that allocate
#[derive(Debug, Args)]
#[command(after_help = "\
Functions and lines are matched by name, file and source text, so that a rebuilt program is
compared with what it was. Where samples stand for more, each change has a 95 % interval, and
is called more or less only when chance does not explain it; the rest is undecided.

Examples:
  whyslow heap -o before.whyslow -- ./app       then change the program, and
  whyslow heap -o after.whyslow -- ./app
  whyslow diff before.whyslow after.whyslow     which lines allocate more or less
  whyslow diff before.whyslow after.whyslow --metric live-at-peak
  whyslow diff before.whyslow after.whyslow --thread worker --format json")]
pub(crate) struct DiffArgs {
    /// The profile from before the change
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The profile from after it
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Show at most this many rows of each table; 0 shows all [default: 10 that changed; JSON: all]
    #[arg(short = 'n', long, value_name = "ROWS")]
    limit: Option<usize>,
    /// Text for people or JSON for programs
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    filters: Filters,
}

/// Prints the comparison.
pub(crate) fn run(args: &DiffArgs, _: Volume) -> Result<Exit> {
    let (first, second) = (args.before.as_path(), args.after.as_path());
    let mut before = profile_file::open(first)?;
    let mut after = profile_file::open(second)?;
    let shared = shared_metrics(&before, &after);
    let filters = match (args.filters.metric_in_file(), shared.first()) {
        (Some(name), _) => {
            check_shared(name, &shared, [(first, &before), (second, &after)])?;
            args.filters.clone()
        }
        (None, Some(usual)) => args.filters.clone().with_usual_metric(usual),
        (None, None) => return Err(nothing_shared([(first, &before), (second, &after)])),
    };
    let selections = [filters.selection(first, &mut before)?, filters.selection(second, &mut after)?];
    check([(first, &before, &selections[0]), (second, &after, &selections[1])])?;
    let side = |profile, selection| Side { profile, selection };
    let diff =
        Diff::build(side(&before, &selections[0]), side(&after, &selections[1]), !args.filters.no_inline);
    let qualities = [
        Quality::of_metric(&before, selections[0].metric),
        Quality::of_metric(&after, selections[1].metric),
    ];
    let names = [first, second].map(|path| path.display().to_string());
    let view = DiffView {
        diff: &diff,
        before: DiffFile { name: &names[0], profile: &before, quality: &qualities[0] },
        after: DiffFile { name: &names[1], profile: &after, quality: &qualities[1] },
        limit: args.limit.map(|rows| if rows == 0 { usize::MAX } else { rows }),
    };
    let answer = match args.format {
        Format::Text => {
            let width = terminal::width(std::io::stdout());
            text::diff(&view, Page::new(&after, selections[1].metric, width))
        }
        Format::Json => json::to_string(&json::diff(&view))
            .map_err(|error| Failure::new(format!("{}: {error}", second.display())))?,
    };
    output::print(&answer)?;
    Ok(Exit::Success)
}

/// A filter that matches nothing on one side is an answer: what it matches is on the other side alone.
fn check(sides: [(&Path, &Profile, &Selection); 2]) -> Result {
    let errors = sides.map(|(path, profile, selection)| (path, selection.check(profile).err()));
    match errors {
        [(path, Some(error)), (_, Some(_))] => Err(Failure::new(format!("{}: {error}", path.display()))),
        [(path, Some(error)), _] | [_, (path, Some(error))] => {
            warn(&format!("{}: {error}; so it has nothing of what is compared", path.display()));
            Ok(())
        }
        _ => Ok(()),
    }
}

fn check_shared(name: &str, shared: &[String], sides: [(&Path, &Profile); 2]) -> Result {
    if shared.iter().any(|metric| metric == name) {
        return Ok(());
    }
    if shared.is_empty() {
        return Err(nothing_shared(sides));
    }
    let list = shared.join(", ");
    let lacking = sides.iter().find(|(_, profile)| Selection::metric_named(profile, name).is_err());
    let what = match lacking {
        Some((path, _)) => format!("{}: there is no metric '{name}'", path.display()),
        None => format!("the metric '{name}' does not count the same in both"),
    };
    Err(Failure::new(what).next(format!("--metric with one that both have: {list}")))
}

fn nothing_shared(sides: [(&Path, &Profile); 2]) -> Failure {
    let metrics = sides.map(|(path, profile)| {
        let names = profile.metrics.iter().map(|metric| profile.text(metric.name)).collect::<Vec<_>>();
        let names = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        format!("{} has {names}", path.display())
    });
    Failure::new(format!("the profiles have no metric in common: {}", metrics.join("; ")))
        .next("record both in the same way, with `whyslow record` or with `whyslow heap`")
}
