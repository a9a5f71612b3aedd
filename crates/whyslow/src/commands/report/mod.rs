//! `whyslow report`: answers from a profile, as text or JSON.

use std::path::Path;

use clap::{Args, ValueEnum};
use whyslow_analyze::heap::{Sites, has_heap, is_heap_only};
use whyslow_analyze::{
    By, Callers, Charges, FindError, FunctionTable, GroupBy, Groups, HotLines, HotPath, Lines, Outline,
    OwnTable, Quality, Selection, SortBy, SpanTable, Threads, TreeOptions, Weights,
};
use whyslow_profile::{HeapProcess, Metric, Profile, heap};
use whyslow_render::json::{self, Context};
use whyslow_render::text::{self, HeapView, Page, Summary, TreeView};

use crate::cli::{Format, ProfileArg, Volume};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::filters::Filters;
use crate::{output, profile_file, terminal, values};

/// Show functions, call tree, callers, source lines, threads, modules, crates, spans, heap or quality of a profile
#[derive(Debug, Args)]
#[command(after_help = "\
Views:
  functions         functions with all they call that is not yours; also --by self, --by total
  tree              the call tree; --inverted starts at the innermost functions
  callers FUNCTION  who calls a function
  lines             the hottest lines of all functions; --by self for time at the line itself
  lines FUNCTION    the source of a function with the share of each line
  threads           programs, thread names, processes and threads by the time they take
  modules, crates   programs and libraries, or crates, by the time their code takes
  spans             what the program marked itself (crate whyslow-mark), by name
  heap              where memory is allocated, what holds it at the peak, what leaks
  quality           how far to trust the profile

Examples:
  whyslow report app.whyslow                        your hottest functions
  whyslow report app.whyslow tree --min-share 1%    who calls what, and how much time it takes
  whyslow report app.whyslow --by self              the same by time in each function itself
  whyslow report app.whyslow lines parse            source of `parse` with the share of each line
  whyslow report app.whyslow tree --span load       only what ran inside spans called `load`
  whyslow report app.whyslow heap --histograms      the heap, with sizes, lifetimes and threads
  whyslow report app.whyslow heap --process cc1     what one program of several allocates
  whyslow report app.whyslow tree --metric live-at-peak    who holds the memory at the peak
  whyslow report app.whyslow --time 2s..3s --thread worker --format json")]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    profile: ProfileArg,
    /// What to show: functions, tree, callers, lines, threads, modules, crates, spans, heap, quality [default: functions; heap when
    /// nothing else was recorded]
    #[arg(value_enum, hide_possible_values = true)]
    view: Option<View>,
    /// The function, for `callers` and for the lines of one: its name or the end of it
    #[arg(value_name = "FUNCTION")]
    function_name: Option<String>,
    /// Start the tree at the innermost functions
    #[arg(long)]
    inverted: bool,
    /// Show every frame in trees, also those that only carry other code
    #[arg(long, alias = "whole")]
    unfolded: bool,
    /// Show at most this many rows; 0 shows all [default: 40, heap: 5 of each, JSON: all]
    #[arg(short = 'n', long, value_name = "ROWS")]
    limit: Option<usize>,
    /// What functions and lines are judged by: what they cost with all they call that is not yours, by themselves, or with
    /// all they call
    #[arg(long, value_enum, alias = "sort", default_value_t)]
    by: ReportBy,
    /// Show names whole, also where they do not fit the width
    #[arg(long)]
    full_names: bool,
    /// Leave out what takes less than this share, such as 5% [default: 1% in trees]
    #[arg(long, value_name = "SHARE", value_parser = values::share)]
    min_share: Option<f64>,
    /// With the heap: how large blocks are, how long they live, and which threads make and free them
    #[arg(long)]
    histograms: bool,
    /// Text for people or JSON for programs
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    filters: Filters,
}

/// What to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum View {
    Functions,
    Tree,
    Callers,
    Lines,
    Threads,
    Modules,
    Crates,
    Spans,
    Heap,
    Quality,
}

impl View {
    /// What the functions are grouped by, for views that do so.
    fn groups(self) -> GroupBy {
        if self == Self::Modules { GroupBy::Module } else { GroupBy::Crate }
    }
}

/// What functions and lines are judged by.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReportBy {
    #[default]
    Own,
    #[value(name = "self")]
    SelfTime,
    Total,
}

/// Functions shown as text when nobody says how many; JSON has all.
const ROWS: usize = 40;
/// Branches of trees that are shown when nobody says otherwise.
const MIN_SHARE: f64 = 0.01;

/// Prints one view.
pub(crate) fn run(args: &ReportArgs, volume: Volume) -> Result<Exit> {
    let function = args.function()?;
    let path = &args.profile.file;
    let mut profile = profile_file::open(path)?;
    let selection = args.filters.resolve(path, &mut profile)?;
    let view = args.view_of(&profile)?;
    let histograms = args.histograms || volume == Volume::Verbose;
    let request = Request { args, view, histograms, profile: &profile, selection: &selection, function };
    let answer = match args.format {
        Format::Text => request.text(),
        Format::Json => request.json(),
    };
    output::print(&answer?)?;
    Ok(Exit::Success)
}

impl ReportArgs {
    /// The view that was asked for; else the functions, and the heap when there is nothing else.
    fn view_of(&self, profile: &Profile) -> Result<View> {
        match self.view {
            Some(View::Heap) if !has_heap(profile) => {
                let file = self.profile.file.display();
                let is_heap = |metric: &Metric| profile.text(metric.name) == heap::metric::BYTES_ALLOCATED;
                Err(if !profile.sealed && profile.metrics.iter().any(is_heap) {
                    Failure::new(format!("{file}: its recorder was stopped before it could add the heap up"))
                        .next(format!("whyslow report {file} functions, for what was counted until then"))
                } else {
                    Failure::new(format!("{file}: the heap is not in this recording"))
                        .next("`whyslow heap -- PROGRAM`, or `whyslow record --heap PROGRAM`")
                })
            }
            Some(View::Heap) if self.format == Format::Text && self.filters.are_more_than_who() => {
                let file = self.profile.file.display();
                Err(Failure::new(
                    "the view `heap` is of the whole recording: only --process and --thread choose a part of it",
                )
                .next(format!("whyslow report {file} functions with the same options")))
            }
            Some(view) => Ok(view),
            // As JSON the functions come with the heap.
            None if self.format == Format::Text && !self.filters.are_given() && heap_is_all(profile) => {
                Ok(View::Heap)
            }
            None => Ok(View::Functions),
        }
    }

    /// The function that the view is about; empty for views that are not about one.
    fn function(&self) -> Result<&str> {
        let file = self.profile.file.display();
        match (&self.function_name, self.view) {
            (Some(name), Some(View::Callers | View::Lines)) => Ok(name),
            (None, Some(View::Callers)) => {
                Err(Failure::new("callers are those of one function, and none was given")
                    .next(format!("whyslow report {file} callers main")))
            }
            (None, _) => Ok(""),
            (Some(name), _) => Err(Failure::new(format!("`{name}`: this view is not about one function"))
                .next(format!("--function '{name}' to see only samples that have it on their stack"))),
        }
    }
}

/// A view of some samples of a profile.
struct Request<'a> {
    args: &'a ReportArgs,
    view: View,
    histograms: bool,
    profile: &'a Profile,
    selection: &'a Selection,
    function: &'a str,
}

impl Request<'_> {
    fn text(&self) -> Result<String> {
        let profile = self.profile;
        let page = Page::new(profile, self.selection.metric, terminal::width(std::io::stdout()))
            .with_full_names(self.args.full_names);
        let quality = Quality::of(profile);
        let view = match self.view {
            View::Functions if self.args.by == ReportBy::Own => {
                let weights = self.weights();
                text::own_functions(profile, &self.own(&weights).1, self.limit(ROWS), page)
            }
            View::Functions => {
                text::functions(profile, &self.functions(&self.weights()), self.limit(ROWS), page)
            }
            View::Tree => {
                let view = TreeView { inverted: self.args.inverted, min_share: self.min_share() };
                text::tree(profile, &self.readable_outline(), view, page)
            }
            View::Callers => {
                text::callers(profile, &self.callers(!self.args.unfolded)?, self.min_share(), page)
            }
            View::Lines if self.function.is_empty() => {
                text::hot_lines(profile, &self.hot_lines()?, self.limit(ROWS), page)
            }
            View::Lines => text::lines(profile, &self.lines()?, page),
            View::Threads => text::threads(profile, &self.threads(), self.limit(ROWS), page),
            View::Modules | View::Crates => {
                let by = self.view.groups();
                text::groups(profile, &self.groups(by), by, self.limit(ROWS), page)
            }
            View::Spans => text::spans(&self.spans(), self.limit(ROWS), page),
            View::Heap => {
                let part = self.args.filters.are_given();
                let sites =
                    if part { Sites::of_selection(profile, self.selection) } else { Sites::build(profile) };
                let view = HeapView {
                    profile,
                    sites: &sites,
                    quality: &quality,
                    limit: self.args.limit.map(|_| self.limit(0)),
                    histograms: self.histograms,
                    saved: None,
                };
                if part { text::heap_part(&view, &self.processes(), page) } else { text::heap(&view, page) }
            }
            View::Quality => text::quality(&quality, page.width),
        };
        Ok(match self.view {
            // They say it themselves.
            View::Heap | View::Quality => view,
            _ => format!("{}\n{view}", text::verdict_lines(&quality, page)),
        })
    }

    fn json(&self) -> Result<String> {
        let quality = Quality::of(self.profile);
        let context = Context {
            profile: self.profile,
            metric: self.selection.metric,
            quality: &quality,
            sites: &Sites::build(self.profile),
            site_limit: self.limit(usize::MAX),
        };
        let json = match self.view {
            View::Functions => {
                let weights = self.weights();
                let (charges, own) = self.own(&weights);
                let path = HotPath::find(self.profile, &weights, &charges, &own);
                let (functions, limit) = (self.functions(&weights), self.limit(usize::MAX));
                json::to_string(&json::report(&context, &functions, &own, &path, &self.threads(), limit))
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
            View::Callers => {
                json::to_string(&json::callers(&context, &self.callers(false)?, self.min_share()))
            }
            View::Lines if self.function.is_empty() => {
                let limit = self.limit(usize::MAX);
                json::to_string(&json::hot_lines(&context, &self.hot_lines()?, limit))
            }
            View::Lines => json::to_string(&json::lines(&context, &self.lines()?)),
            View::Threads => json::to_string(&json::threads(&context, &self.threads())),
            View::Modules | View::Crates => {
                let by = self.view.groups();
                json::to_string(&json::groups(&context, &self.groups(by), by, self.limit(usize::MAX)))
            }
            View::Spans => json::to_string(&json::spans(&context, &self.spans(), self.limit(usize::MAX))),
            View::Heap => {
                let weights = self.weights();
                json::to_string(&json::heap(&context, weights.total_count, weights.total_value))
            }
            View::Quality => json::to_string(&json::quality(&context, self.weights().total_value)),
        };
        json.map_err(|error| Failure::new(format!("{}: {error}", self.args.profile.file.display())))
    }

    /// The processes that were chosen as a whole, as the heap has them.
    fn processes(&self) -> Vec<HeapProcess> {
        let Selection { processes, threads, .. } = self.selection;
        let chosen = |process: &&HeapProcess| {
            threads.is_empty() && processes.iter().any(|pattern| pattern.matches(process.pid, &process.name))
        };
        let facts = self.profile.meta.heap.as_ref();
        facts.map_or(Vec::new(), |facts| facts.by_process.iter().filter(chosen).cloned().collect())
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
        let by_total = self.args.by == ReportBy::Total;
        let sort = if by_total { SortBy::Total } else { SortBy::SelfValue };
        let mut table = FunctionTable::from_weights(self.profile, weights, self.inline(), sort);
        let least = self.least(table.total_value);
        table.rows.retain(|row| if by_total { row.total_value } else { row.self_value } >= least);
        table
    }

    /// The frame each stack is charged to, and the functions that makes.
    fn own(&self, weights: &Weights) -> (Charges, OwnTable) {
        let charges = Charges::of_metric(self.profile, self.inline(), self.selection.metric);
        let mut table = OwnTable::build(self.profile, weights, &charges);
        let least = self.least(table.total_value);
        table.rows.retain(|row| row.own_value >= least);
        (charges, table)
    }

    fn hot_lines(&self) -> Result<HotLines> {
        let by = match self.args.by {
            ReportBy::Own => By::Own,
            ReportBy::SelfTime => By::SelfValue,
            ReportBy::Total => {
                return Err(Failure::new("--by total: the lines of all functions have no total")
                    .next("--by own or --by self, or `lines FUNCTION` for the lines of one"));
            }
        };
        let charges = Charges::of_metric(self.profile, self.inline(), self.selection.metric);
        let mut lines = HotLines::build(self.profile, &self.weights(), &charges, by);
        let least = self.least(lines.total_value);
        lines.rows.retain(|row| if by == By::Own { row.own_value } else { row.self_value } >= least);
        Ok(lines)
    }

    /// The least value that is shown of this whole, in tables.
    fn least(&self, whole: u64) -> u64 {
        self.args.min_share.map_or(0, |least| (whole as f64 * least).ceil() as u64)
    }

    fn outline(&self, weights: &Weights, inverted: bool) -> Outline {
        let options = TreeOptions { inline: self.inline(), inverted, ..TreeOptions::default() };
        Outline::from_weights(self.profile, weights, &options)
    }

    /// The tree for people: without what only carries other code, unless it was asked for.
    fn readable_outline(&self) -> Outline {
        let (weights, inverted) = (self.weights(), self.args.inverted);
        if self.args.unfolded {
            return self.outline(&weights, inverted);
        }
        let options = TreeOptions { inline: self.inline(), inverted, ..TreeOptions::default() };
        Outline::folded(self.profile, &weights, &options)
    }

    fn threads(&self) -> Threads {
        Threads::build(self.profile, self.selection)
    }

    fn groups(&self, by: GroupBy) -> Groups {
        let mut groups = Groups::build(self.profile, self.selection, by);
        let least = groups.total_value as f64 * self.args.min_share.unwrap_or(0.0);
        groups.rows.retain(|row| row.self_value as f64 >= least);
        groups
    }

    fn spans(&self) -> SpanTable {
        SpanTable::build(self.profile, self.selection)
    }

    fn callers(&self, folded: bool) -> Result<Callers> {
        let build = if folded { Callers::folded } else { Callers::build };
        build(self.profile, self.selection, self.function, self.inline())
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

/// Whether the heap was recorded to its end, and nothing else.
fn heap_is_all(profile: &Profile) -> bool {
    has_heap(profile) && is_heap_only(profile)
}

/// How far to trust a recording, for stderr.
pub(crate) fn verdict(profile: &Profile) -> String {
    let page = Page::new(profile, 0, terminal::width(std::io::stderr()));
    text::verdict_lines(&Quality::of(profile), page)
}

/// The one-screen answer after a recording, for stderr.
pub(crate) fn summary(profile: &Profile, saved: Option<&Path>, by: By) -> String {
    if heap_is_all(profile) {
        return heap_summary(profile, saved);
    }
    let weights = Selection::default().weigh(profile);
    let charges = Charges::new(profile, true);
    let own = OwnTable::build(profile, &weights, &charges);
    let file = saved.map(|path| path.display().to_string());
    let summary = Summary {
        profile,
        by,
        functions: &FunctionTable::from_weights(profile, &weights, true, SortBy::SelfValue),
        own: &own,
        hot_path: &HotPath::find(profile, &weights, &charges, &own),
        threads: &Threads::build(profile, &Selection::default()),
        quality: &Quality::of(profile),
        file: file.as_deref(),
    };
    text::summary(&summary, Page::new(profile, 0, terminal::width(std::io::stderr())))
}

/// The same for the heap alone.
pub(crate) fn heap_summary(profile: &Profile, saved: Option<&Path>) -> String {
    let file = saved.map(|path| path.display().to_string());
    let view = HeapView {
        profile,
        sites: &Sites::build(profile),
        quality: &Quality::of(profile),
        limit: None,
        histograms: false,
        saved: file.as_deref(),
    };
    text::heap(&view, Page::new(profile, 0, terminal::width(std::io::stderr())))
}
