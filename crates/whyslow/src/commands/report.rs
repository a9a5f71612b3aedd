//! `whyslow report`: answers from a profile, as text or JSON.

use std::path::Path;

use clap::{Args, ValueEnum};
use whyslow_analyze::{
    Callers, FindError, FunctionTable, Lines, Outline, Quality, Selection, SortBy, SpanTable, Threads,
    TreeOptions, Weights, hot_path,
};
use whyslow_profile::Profile;
use whyslow_render::json::{self, Context};
use whyslow_render::text::{self, Page, Summary, TreeView};

use crate::cli::{Format, ProfileArg, Volume};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::filters::Filters;
use crate::{output, profile_file, terminal, values};

/// Show functions, call tree, callers, source lines, threads, spans or quality of a profile
#[derive(Debug, Args)]
#[command(after_help = "\
Views:
  functions         functions by the time they take
  tree              the call tree; --inverted starts at the innermost functions
  callers FUNCTION  who calls a function
  lines FUNCTION    the source of a function with the share of each line
  threads           threads by the time they take
  spans             what the program marked itself (crate whyslow-mark), by name
  quality           how far to trust the profile

Examples:
  whyslow report app.whyslow                        the hottest functions
  whyslow report app.whyslow tree --min-share 1%    who calls what, and how much time it takes
  whyslow report app.whyslow lines parse            source of `parse` with the share of each line
  whyslow report app.whyslow tree --span load       only what ran inside spans called `load`
  whyslow report app.whyslow --time 2s..3s --thread worker --format json")]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    profile: ProfileArg,
    /// What to show: functions, tree, callers, lines, threads, spans, quality
    #[arg(value_enum, default_value_t, hide_possible_values = true)]
    view: View,
    /// The function, for `callers` and `lines`: its name or the end of it
    #[arg(value_name = "FUNCTION")]
    function_name: Option<String>,
    /// Start the tree at the innermost functions
    #[arg(long)]
    inverted: bool,
    /// Show at most this many rows; 0 shows all [default: 40, JSON: all]
    #[arg(short = 'n', long, value_name = "ROWS")]
    limit: Option<usize>,
    /// Order of functions: by time in them, or in them and what they call
    #[arg(long, value_enum, default_value_t)]
    sort: Sort,
    /// Leave out what takes less than this share, such as 5% [default: 1% in trees]
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
    Spans,
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

/// Functions shown as text when nobody says how many; JSON has all.
const ROWS: usize = 40;
/// Branches of trees that are shown when nobody says otherwise.
const MIN_SHARE: f64 = 0.01;

/// Prints one view.
pub(crate) fn run(args: &ReportArgs, _volume: Volume) -> Result<Exit> {
    let function = args.function()?;
    let path = &args.profile.file;
    let profile = profile_file::open(path)?;
    let selection = args.filters.resolve(path, &profile)?;
    let request = Request { args, profile: &profile, selection: &selection, function };
    let answer = match args.format {
        Format::Text => request.text(),
        Format::Json => request.json(),
    };
    output::print(&answer?)?;
    Ok(Exit::Success)
}

impl ReportArgs {
    /// The function that the view is about; empty for views that are not about one.
    fn function(&self) -> Result<&str> {
        let file = self.profile.file.display();
        let about_one = matches!(self.view, View::Callers | View::Lines);
        match &self.function_name {
            Some(name) if about_one => Ok(name),
            None if !about_one => Ok(""),
            None => Err(Failure::new("callers and lines are about one function, and none was given")
                .next(format!("whyslow report {file} callers main"))),
            Some(name) => Err(Failure::new(format!("`{name}`: this view is not about one function"))
                .next(format!("--function '{name}' to see only samples that have it on their stack"))),
        }
    }
}

/// A view of some samples of a profile.
struct Request<'a> {
    args: &'a ReportArgs,
    profile: &'a Profile,
    selection: &'a Selection,
    function: &'a str,
}

impl Request<'_> {
    fn text(&self) -> Result<String> {
        let profile = self.profile;
        let page = Page::new(profile, self.selection.metric, terminal::width(std::io::stdout()));
        Ok(match self.args.view {
            View::Functions => {
                text::functions(profile, &self.functions(&self.weights()), self.limit(ROWS), page)
            }
            View::Tree => {
                let view = TreeView { inverted: self.args.inverted, min_share: self.min_share() };
                text::tree(profile, &self.outline(&self.weights(), self.args.inverted), view, page)
            }
            View::Callers => text::callers(profile, &self.callers()?, self.min_share(), page),
            View::Lines => text::lines(profile, &self.lines()?, page),
            View::Threads => text::threads(profile, &self.threads(), self.limit(ROWS), page),
            View::Spans => text::spans(&self.spans(), self.limit(ROWS), page),
            View::Quality => text::quality(&Quality::of(profile), page.width),
        })
    }

    fn json(&self) -> Result<String> {
        let quality = Quality::of(self.profile);
        let context = Context { profile: self.profile, metric: self.selection.metric, quality: &quality };
        let json = match self.args.view {
            View::Functions => {
                let weights = self.weights();
                let hot_path = hot_path(self.profile, &self.outline(&weights, false));
                let (functions, limit) = (self.functions(&weights), self.limit(usize::MAX));
                json::to_string(&json::report(&context, &functions, &hot_path, &self.threads(), limit))
            }
            View::Tree => {
                let (weights, inverted) = (self.weights(), self.args.inverted);
                let outline = self.outline(&weights, inverted);
                json::to_string(&json::tree(
                    &context,
                    &outline,
                    weights.total_count,
                    inverted,
                    self.min_share(),
                ))
            }
            View::Callers => json::to_string(&json::callers(&context, &self.callers()?, self.min_share())),
            View::Lines => json::to_string(&json::lines(&context, &self.lines()?)),
            View::Threads => json::to_string(&json::threads(&context, &self.threads())),
            View::Spans => json::to_string(&json::spans(&context, &self.spans(), self.limit(usize::MAX))),
            View::Quality => json::to_string(&json::quality(&context, self.weights().total_value)),
        };
        json.map_err(|error| Failure::new(format!("{}: {error}", self.args.profile.file.display())))
    }

    fn inline(&self) -> bool {
        !self.args.filters.no_inline
    }

    fn limit(&self, usual: usize) -> usize {
        match self.args.limit {
            None => usual,
            Some(0) => usize::MAX,
            Some(rows) => rows,
        }
    }

    fn min_share(&self) -> f64 {
        self.args.min_share.unwrap_or(MIN_SHARE)
    }

    fn weights(&self) -> Weights {
        self.selection.weigh(self.profile)
    }

    fn functions(&self, weights: &Weights) -> FunctionTable {
        let mut table =
            FunctionTable::from_weights(self.profile, weights, self.inline(), self.args.sort.into());
        if let Some(least) = self.args.min_share {
            let least = table.total_value as f64 * least;
            table.rows.retain(|row| {
                let value = match self.args.sort {
                    Sort::SelfTime => row.self_value,
                    Sort::Total => row.total_value,
                };
                value as f64 >= least
            });
        }
        table
    }

    fn outline(&self, weights: &Weights, inverted: bool) -> Outline {
        let options = TreeOptions { inline: self.inline(), inverted, ..TreeOptions::default() };
        Outline::from_weights(self.profile, weights, &options)
    }

    fn threads(&self) -> Threads {
        Threads::build(self.profile, self.selection)
    }

    fn spans(&self) -> SpanTable {
        SpanTable::build(self.profile, self.selection)
    }

    fn callers(&self) -> Result<Callers> {
        Callers::build(self.profile, self.selection, self.function, self.inline())
            .map_err(|error| self.not_found(&error))
    }

    fn lines(&self) -> Result<Lines> {
        Lines::build(self.profile, self.selection, self.function).map_err(|error| self.not_found(&error))
    }

    fn not_found(&self, error: &FindError) -> Failure {
        let failure = Failure::new(format!("{}: {error}", self.args.profile.file.display()));
        match error {
            FindError::Ambiguous { candidates, .. } => {
                let first = candidates.first().map_or("", String::as_str);
                failure.next(format!("more of its name, such as '{first}'"))
            }
            // It names what there is.
            FindError::Unknown { .. } => failure,
        }
    }
}

impl From<Sort> for SortBy {
    fn from(sort: Sort) -> Self {
        match sort {
            Sort::SelfTime => Self::SelfValue,
            Sort::Total => Self::Total,
        }
    }
}

/// The one-screen answer after a recording, for stderr.
pub(crate) fn summary(profile: &Profile, path: &Path) -> String {
    let weights = Selection::default().weigh(profile);
    let functions = FunctionTable::from_weights(profile, &weights, true, SortBy::SelfValue);
    let hot_path = hot_path(profile, &Outline::from_weights(profile, &weights, &TreeOptions::default()));
    let summary = Summary {
        profile,
        functions: &functions,
        hot_path: &hot_path,
        quality: &Quality::of(profile),
        file: &path.display().to_string(),
    };
    text::summary(&summary, Page::new(profile, 0, terminal::width(std::io::stderr())))
}
