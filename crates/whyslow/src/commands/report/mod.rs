//! `whyslow report`: the views of a profile, as text or JSON.

mod request;
mod views;

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, FromArgMatches as _};
use whyslow_analyze::heap::{Sites, has_heap, is_heap_only};
use whyslow_analyze::remark_of;
use whyslow_analyze::{
    BlockedWorker, By, Charges, FunctionTable, HotPath, LockTable, OwnTable, Parallelism, Quality, Selection,
    SortBy, Spent, SyscallTable, Threads, Waited, has_syscalls, wait_metric,
};
use whyslow_profile::{Note, Profile, RecordingNote};
use whyslow_render::json::Context;
use whyslow_render::text::{self, HeapView, Page, Summary};

use self::request::Request;
use self::views::{Needs, View};
use crate::cli::{Format, ProfileArg, Volume};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::filters::Filters;
use crate::{output, profile_file, shell, terminal, values};

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
  whyslow report app.whyslow --time 2s..3s --thread worker --format json";

/// Show functions, call tree, source lines, threads, waits or the heap
#[derive(Debug, Args)]
#[command(after_help = format!("{}\n{EXAMPLES}", views::help()))]
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
    /// Show at most this many rows; 0 shows all [default: 40; heap: 5 of each; JSON: all]
    #[arg(short = 'n', long, value_name = "ROWS")]
    limit: Option<usize>,
    /// Rank by own (your code plus the libraries it calls), self or total
    #[arg(long, value_parser = report_by, alias = "sort", default_value = "own")]
    by: ReportBy,
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
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    filters: Filters,
}

/// The help of the argument VIEW.
fn view_help() -> String {
    "What to show, see below [default: functions; heap if only the heap was recorded]".to_owned()
}

fn view_parser() -> impl TypedValueParser<Value = &'static View> {
    PossibleValuesParser::new(views::ALL.map(|view| view.name)).map(|name| {
        // The parser accepts only names of views.
        views::ALL.into_iter().find(|view| view.name == name).unwrap_or(&views::FUNCTIONS)
    })
}

/// Parses the order of rows. The sort keys of perf are views here.
fn report_by(text: &str) -> std::result::Result<ReportBy, String> {
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
        ("own", _) => Ok(ReportBy::Own),
        ("self", _) => Ok(ReportBy::SelfTime),
        ("total", _) => Ok(ReportBy::Total),
        (_, Some(view)) => Err(format!("`{first}` of perf is a view here; try: whyslow report FILE {view}")),
        (_, None) => Err("expected own, self or total".to_owned()),
    }
}

/// What functions and lines are ranked by.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ReportBy {
    #[default]
    Own,
    SelfTime,
    Total,
}

/// Prints one view.
pub(crate) fn run(args: &ReportArgs, volume: Volume) -> Result<Exit> {
    output::print(&answer(args, volume)?)?;
    Ok(Exit::Success)
}

fn answer(args: &ReportArgs, volume: Volume) -> Result<String> {
    let function = args.function()?;
    let path = &args.profile.file;
    let mut profile = profile_file::open(path)?;
    let view = args.view_of(&profile)?;
    let selection = match view.of_samples {
        true => args.filters.resolve(path, &mut profile)?,
        false => args.filters.resolve_names(path, &mut profile)?,
    };
    let histograms = args.histograms || volume == Volume::Verbose;
    let request = Request { args, histograms, profile: &profile, selection: &selection, function };
    match args.format {
        Format::Text => as_text(view, &request),
        Format::Json => as_json(view, &request),
    }
}

fn as_text(view: &View, request: &Request<'_>) -> Result<String> {
    let profile = request.profile;
    let metric = view.metric(request);
    let page = Page::new(profile, metric, terminal::width(std::io::stdout()))
        .with_full_names(request.args.full_names);
    let quality = Quality::of_metric(profile, metric);
    let text = (view.text)(request, &quality, page)?;
    Ok(if view.states_quality { text } else { format!("{}\n{text}", text::verdict_lines(&quality, page)) })
}

fn as_json(view: &View, request: &Request<'_>) -> Result<String> {
    let metric = view.metric(request);
    let context = Context {
        profile: request.profile,
        metric,
        quality: &Quality::of_metric(request.profile, metric),
        sites: &Sites::build(request.profile),
        site_limit: request.limit(usize::MAX),
    };
    (view.json)(request, &context)
}

impl ReportArgs {
    /// The requested view; by default the functions, or the heap if nothing else was recorded.
    fn view_of(&self, profile: &Profile) -> Result<&'static View> {
        match self.view {
            Some(view) => match (view.refusal)(self, profile) {
                Some(failure) => Err(failure),
                None => Ok(view),
            },
            // In JSON, the functions include the heap.
            None if self.format == Format::Text && !self.filters.are_given() && heap_is_all(profile) => {
                Ok(&views::HEAP)
            }
            None => Ok(&views::FUNCTIONS),
        }
    }

    /// The function that the view shows; empty for views without one.
    fn function(&self) -> Result<&str> {
        let file = shell::file(&self.profile.file);
        match (&self.function_name, self.view.map_or(Needs::Nothing, |view| view.function)) {
            (Some(name), Needs::One | Needs::MaybeOne) => Ok(name),
            (None, Needs::One) => Err(Failure::new("the view `callers` needs a function")
                .next(format!("whyslow report {file} callers main"))),
            (None, _) => Ok(""),
            (Some(name), Needs::Nothing) => Err(Failure::new(format!(
                "`{name}`: this view takes no function"
            ))
            .next(format!("--function {}, to keep only samples with it on the stack", shell::quoted(name)))),
        }
    }
}

/// Whether a word is the name of a view.
pub(crate) fn is_view(word: &str) -> bool {
    views::ALL.iter().any(|view| view.name == word)
}

/// Whether the heap was recorded completely, and nothing else was.
fn heap_is_all(profile: &Profile) -> bool {
    has_heap(profile) && is_heap_only(profile)
}

/// How far to trust a recording, for stderr.
pub(crate) fn verdict(profile: &Profile) -> String {
    let page = Page::new(profile, 0, terminal::width(std::io::stderr()));
    text::verdict_lines(&Quality::of(profile), page)
}

/// What `whyslow report FILE --format json` prints.
pub(crate) fn as_json_file(path: &Path) -> Result<String> {
    let words = [OsStr::new("report"), path.as_os_str(), OsStr::new("--format"), OsStr::new("json")];
    let parsed = ReportArgs::augment_args(clap::Command::new("report")).try_get_matches_from(words);
    let args = parsed.and_then(|matches| ReportArgs::from_arg_matches(&matches));
    answer(&args.map_err(|error| Failure::new(error.to_string()))?, Volume::Normal)
}

/// All system calls, if recorded.
fn syscalls_of(profile: &Profile, charges: &Charges) -> Option<SyscallTable> {
    has_syscalls(profile).then(|| SyscallTable::build(profile, &Selection::default(), charges))
}

/// The most expensive system call of a recording, as a line for stderr, or why none was recorded. Empty if
/// system calls were not requested.
pub(crate) fn costliest_syscall(profile: &Profile, saved: &Path) -> String {
    let table = syscalls_of(profile, &Charges::new(profile, true));
    let file = shell::file(saved);
    if table.is_none() {
        let refused =
            |note: &&Note| matches!(note, Note::Recording(RecordingNote::SyscallsNotRecorded { .. }));
        let refused = profile.meta.notes.iter().find(refused);
        return refused.map_or_else(String::new, |note| format!("{}\n", text::remark_line(&remark_of(note))));
    }
    let line = table.and_then(|table| text::costliest_syscall(&table, profile, Some(&file)));
    line.map_or_else(String::new, |line| format!("{line}\n"))
}

/// The one-screen answer after a recording, for stderr.
pub(crate) fn summary(profile: &Profile, saved: Option<&Path>, by: By) -> String {
    if heap_is_all(profile) {
        return heap_summary(profile, saved);
    }
    let weights = Selection::default().weigh(profile);
    let charges = Charges::new(profile, true);
    let own = OwnTable::build(profile, &weights, &charges);
    let waited = Waited::of(profile, &charges);
    let spent = Spent::of(profile, &charges);
    let answered_by = match &spent {
        Spent::Waiting(_) => wait_metric(profile).unwrap_or(profile.main_metric()),
        Spent::Running | Spent::WaitingUnseen => profile.main_metric(),
    };
    let syscalls = syscalls_of(profile, &charges);
    let file = saved.map(shell::file);
    let summary = Summary {
        profile,
        by,
        functions: &FunctionTable::from_weights(profile, &weights, true, SortBy::SelfValue),
        own: &own,
        hot_path: &HotPath::find(profile, &weights, &charges, &own),
        waited: waited.as_ref(),
        spent: &spent,
        blocked: &BlockedWorker::find(profile, &Selection::default(), &charges),
        serial: Parallelism::build(profile, &Selection::default(), &charges)
            .and_then(|parallelism| parallelism.serial_part(profile)),
        syscalls: syscalls.as_ref(),
        findings: &super::explain::findings_for_summary(profile, file.as_deref()),
        threads: &Threads::build(profile, &Selection::default()),
        quality: &Quality::of_metric(profile, answered_by),
        file: file.as_deref(),
    };
    text::summary(&summary, Page::new(profile, 0, terminal::width(std::io::stderr())))
}

/// The locks that threads waited for, printed after a recording, for stderr.
pub(crate) fn locks_summary(profile: &Profile, saved: Option<&Path>, shortest: Duration) -> String {
    /// This many fit a screen.
    const LOCKS: usize = 4;
    let page = Page::new(profile, 0, terminal::width(std::io::stderr()));
    let metric = wait_metric(profile);
    let shown = metric.unwrap_or(profile.main_metric());
    let mut text = text::verdict_lines(&Quality::of_metric(profile, shown), page);
    text.push('\n');
    let Some(metric) = metric else {
        text.push_str("no waits were recorded, so no locks are known\n");
        return text;
    };
    let selection = Selection { metric, ..Selection::default() };
    let charges = Charges::of_metric(profile, true, metric);
    let table = LockTable::build(profile, &selection, &charges, shortest.as_nanos() as u64);
    text.push_str(&text::locks(&table, profile, LOCKS, page));
    if let Some(path) = saved {
        let file = shell::file(path);
        text.push_str(&format!("\nsaved: {file}; next: whyslow report {file} locks   whyslow report {file} waits   whyslow view {file}\n"));
    }
    text
}

/// The answer after a recording of the heap alone.
pub(crate) fn heap_summary(profile: &Profile, saved: Option<&Path>) -> String {
    let file = saved.map(shell::file);
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
