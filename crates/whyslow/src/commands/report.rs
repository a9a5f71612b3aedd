//! `whyslow report`: answers from a profile, as text or JSON.

use std::path::Path;

use clap::{Args, ValueEnum};
use whyslow_profile::Profile;

use crate::cli::{Format, ProfileArg, Volume};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::filters::Filters;
use crate::{output, profile_file, values};

/// Show functions, call tree, callers, source lines, threads or quality of a profile
#[derive(Debug, Args)]
#[command(after_help = "\
Views:
  functions         functions by the time they take
  tree              the call tree; --inverted starts at the innermost functions
  callers FUNCTION  who calls a function
  lines FUNCTION    the source of a function with the share of each line
  threads           threads by the time they take
  quality           how far to trust the profile

Examples:
  whyslow report app.whyslow                        the hottest functions
  whyslow report app.whyslow tree --min-share 1%    who calls what, and how much time it takes
  whyslow report app.whyslow lines parse            source of `parse` with the share of each line
  whyslow report app.whyslow --time 2s..3s --thread worker --format json")]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    profile: ProfileArg,
    /// What to show: functions, tree, callers, lines, threads, quality
    #[arg(value_enum, default_value_t, hide_possible_values = true)]
    view: View,
    /// The function, for `callers` and `lines`: its name or the end of it
    #[arg(value_name = "FUNCTION")]
    function_name: Option<String>,
    /// Start the tree at the innermost functions
    #[arg(long)]
    inverted: bool,
    /// Show at most this many rows; 0 shows all
    #[arg(short = 'n', long, value_name = "ROWS")]
    limit: Option<usize>,
    /// Order of functions: by time in them, or in them and what they call
    #[arg(long, value_enum, default_value_t)]
    sort: Sort,
    /// Leave out what takes less than this share, such as 1%
    #[arg(long, value_name = "SHARE", value_parser = values::share)]
    min_share: Option<f64>,
    /// Text for people or JSON for programs
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    filters: Filters,
}

/// What to show.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum View {
    #[default]
    Functions,
    Tree,
    Callers,
    Lines,
    Threads,
    Quality,
}

/// Order of functions.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sort {
    #[default]
    #[value(name = "self")]
    SelfTime,
    Total,
}

/// Prints one view.
pub(crate) fn run(args: &ReportArgs, _volume: Volume) -> Result<Exit> {
    let needs_function = matches!(args.view, View::Callers | View::Lines);
    match (&args.function_name, needs_function) {
        (None, true) => {
            return Err(Failure::new("callers and lines are about one function, and none was given")
                .next(format!("whyslow report {} callers main", args.profile.file.display())));
        }
        (Some(name), false) => {
            return Err(Failure::new(format!("`{name}`: this view is not about one function"))
                .next(format!("--function '{name}' to see only samples that have it on their stack")));
        }
        _ => {}
    }
    let profile = profile_file::open(&args.profile.file)?;
    let _selection = args.filters.resolve(&args.profile.file, &profile)?;
    output::print("")?;
    Ok(Exit::Success)
}

/// The one-screen answer after a recording.
pub(crate) fn summary(profile: &Profile, path: &Path) -> String {
    format!(
        "{} samples in {}\n",
        profile.main_samples().map_or(0, |(_, samples)| samples.len()),
        path.display()
    )
}
