//! `whyslow report`: the views of a profile, as text, JSON or tables for other programs.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use whyslow_answers::views::{self, View};
use whyslow_answers::{Answer, Body, Detail, Query, Ranking};
use whyslow_profile::Profile;
use whyslow_render::causal::curves;
use whyslow_render::{Table, text};

use crate::cli::{ProfileArg, Volume};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::filters::Filters;
use crate::output::{self, note_others};
use crate::{allowed, answers, profile_file, refusals, shell, terminal, values};

const EXAMPLES: &str = "\
Examples:
  whyslow report app.whyslow                      your hottest functions
  whyslow report app.whyslow tree --min-share 1%  the call tree with times
  whyslow report app.whyslow --by self            functions by self time
  whyslow report app.whyslow lines parse          source of `parse` with times
  whyslow report app.whyslow tree --span load     only inside spans `load`
  whyslow report app.whyslow heap --histograms    sizes, lifetimes, threads
  whyslow report app.whyslow heap --process cc1   the heap of one program
  whyslow report app.whyslow tree --metric live-at-peak   memory at the peak
  whyslow report app.whyslow waits --format csv   a table for a spreadsheet
  whyslow report app.whyslow --time 2s..3s --thread worker --format json";

/// Show functions, call tree, source lines, threads, waits or the heap
#[derive(Debug, Args)]
#[command(after_help = format!("{}\n{EXAMPLES}", views_help()))]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    profile: ProfileArg,
    #[arg(help = view_help(), value_parser = view_parser(), hide_possible_values = true)]
    view: Option<&'static View>,
    /// For `callers` and `lines`: a function, by its name or the end of it
    #[arg(value_name = "FUNCTION")]
    function_name: Option<String>,
    /// Start trees at the innermost functions
    #[arg(long)]
    inverted: bool,
    /// Show every frame in trees, also start-up and runtime frames
    #[arg(long, alias = "whole")]
    unfolded: bool,
    /// Show at most this many rows; 0 shows all [default: 40; heap: 5 of each; JSON, CSV: all]
    #[arg(short = 'n', long, value_name = "ROWS")]
    limit: Option<usize>,
    /// Rank by own (your code plus the libraries it calls), self or total
    #[arg(long, value_parser = report_by, alias = "sort", default_value = "own")]
    by: Ranking,
    /// Do not shorten names
    #[arg(long)]
    full_names: bool,
    /// Leave out rows below this share, such as 5% [default: 1% in trees]
    #[arg(long, value_name = "SHARE", value_parser = values::share)]
    min_share: Option<f64>,
    /// For `heap`: block sizes, lifetimes, and which threads allocate and free
    #[arg(long)]
    histograms: bool,
    /// For `waits` and `locks`: leave out shorter waits, such as 1ms
    #[arg(long, value_name = "TIME", value_parser = values::positive_duration)]
    min_wait: Option<Duration>,
    /// Output format; csv and markdown of tables only, svg of `causal` only
    #[arg(long, value_enum, default_value_t)]
    format: ReportFormat,
    #[command(flatten)]
    filters: Filters,
}

/// How to print a view.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ReportFormat {
    #[default]
    Text,
    Json,
    Csv,
    Markdown,
    Svg,
}

/// The help of the argument VIEW.
fn view_help() -> String {
    "What to show, see below [default: functions; heap if only the heap was recorded]".to_owned()
}

fn view_parser() -> impl TypedValueParser<Value = &'static View> {
    PossibleValuesParser::new(views::ALL.map(|view| view.name))
        // The parser accepts only names of views.
        .map(|name| views::named(&name).unwrap_or(&views::FUNCTIONS))
}

/// The section of the help that lists the views.
fn views_help() -> String {
    let mut text = String::from("Views:\n");
    for (typed, shown) in views::ALL.iter().flat_map(|view| view.help) {
        text.push_str(&format!("  {typed:<16}  {shown}\n"));
    }
    text
}

/// Parses the order of rows. The sort keys of perf are views here.
fn report_by(text: &str) -> std::result::Result<Ranking, String> {
    const VIEWS: [(&str, &[&str]); 5] = [
        ("modules", &["dso", "dso_from", "dso_to"]),
        ("functions", &["sym", "symbol", "overhead"]),
        ("threads", &["comm", "pid", "tid", "cpu"]),
        ("lines", &["srcline", "srcfile"]),
        ("callers FUNCTION", &["parent"]),
    ];
    let first = text.split(',').next().unwrap_or_default();
    let view = VIEWS.iter().find(|(_, keys)| keys.contains(&first)).map(|(view, _)| view);
    match (text, view) {
        ("own", _) => Ok(Ranking::Own),
        ("self", _) => Ok(Ranking::SelfTime),
        ("total", _) => Ok(Ranking::Total),
        (_, Some(view)) => Err(format!("`{first}` of perf is a view here; try: whyslow report FILE {view}")),
        (_, None) => Err("expected own, self or total".to_owned()),
    }
}

/// Prints one view.
pub(crate) fn run(args: &ReportArgs, volume: Volume) -> Result<Exit> {
    let path = &args.profile.file;
    let refused = |refusal| refusals::of(path, refusal);
    if let Some(view) = args.view {
        view.check_function(args.function_name.as_deref()).map_err(refused)?;
    } else if let Some(name) = &args.function_name {
        views::FUNCTIONS.check_function(Some(name)).map_err(refused)?;
    }
    let mut profile = profile_file::open(path)?;
    let query = args.query(&mut profile, volume)?;
    let answer = query.answer(&profile).map_err(refused)?;
    if let (Some(function), Some((found, others))) = (&query.function, answer.found()) {
        note_others(function, &found, others);
    }
    output::print(&match args.format {
        ReportFormat::Text => text::answer(&answer, terminal::width(std::io::stdout()), args.full_names),
        ReportFormat::Json => answers::as_json(path, &answer)?,
        ReportFormat::Csv => as_table(path, &answer, usize::MAX)?.csv(),
        ReportFormat::Markdown => as_table(path, &answer, text::ROWS)?.markdown(),
        ReportFormat::Svg => as_picture(path, &answer)?,
    })?;
    Ok(Exit::Success)
}

/// The table of an answer, with at most the given number of rows unless the query has a limit.
fn as_table(path: &Path, answer: &Answer<'_>, rows: usize) -> Result<Table> {
    text::table(answer, answer.query.limit.unwrap_or(rows)).ok_or_else(|| {
        let (file, view) = (shell::file(path), answer.query.view.name);
        Failure::new(format!("the view `{view}` is no table"))
            .next(format!("whyslow report {file} {view} --format json"))
    })
}

/// The picture of a view, if it has one.
fn as_picture(path: &Path, answer: &Answer<'_>) -> Result<String> {
    match &answer.body {
        Body::Causal(found) => Ok(curves(found, answer.profile)),
        _ => Err(Failure::new(format!(
            "--format svg: `{}` has no picture, only `causal` has",
            answer.query.view.name
        ))
        .next(format!("whyslow flame {}, for a flame graph", shell::file(path)))),
    }
}

impl ReportArgs {
    /// What the arguments ask of a profile.
    fn query(&self, profile: &mut Profile, volume: Volume) -> Result<Query> {
        let path = &self.profile.file;
        let detail = match self.format {
            ReportFormat::Json => Detail::Complete,
            ReportFormat::Text | ReportFormat::Csv | ReportFormat::Markdown | ReportFormat::Svg => {
                Detail::Screen
            }
        };
        let filters = self.filters.resolved();
        let view = self.view.unwrap_or_else(|| views::default_of(profile, detail, filters.narrowing()));
        let query = Query::new(view, detail, &filters, profile);
        let query = query.map_err(|refusal| refusals::of(path, refusal))?;
        let is_summary = *view == views::SUMMARY;
        let shows_findings = is_summary || view.topic.is_some();
        Ok(Query {
            function: self.function_name.clone(),
            ranking: self.by,
            inline: !self.filters.no_inline,
            inverted: self.inverted,
            unfolded: self.unfolded,
            limit: self.limit.map(|rows| if rows == 0 { usize::MAX } else { rows }),
            min_share: self.min_share,
            shortest_wait_ns: self.min_wait.map_or(0, |shortest| shortest.as_nanos() as u64),
            histograms: self.histograms || volume == Volume::Verbose,
            allowed: if shows_findings { allowed::read(None, profile)? } else { query.allowed },
            file: is_summary.then(|| shell::file(path)),
            ..query
        })
    }
}
