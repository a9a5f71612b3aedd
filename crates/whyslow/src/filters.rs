//! The options that filter samples; shared by all query commands.

use std::ops::Range;
use std::path::Path;

use clap::Args;
use whyslow_analyze::{FunctionFilter, Pattern, Selection, SelectionError, SpanPattern, SpanThreads};
use whyslow_profile::{CodeKind, Profile};

use crate::failure::{Failure, Result};
use crate::metric::MetricArgs;
use crate::{shell, values};

/// Which samples to count.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct Filters {
    #[command(flatten)]
    metric: MetricArgs,
    /// Only threads with this TID or name (regex, repeatable)
    #[arg(long, value_name = "THREAD")]
    thread: Vec<String>,
    /// Only processes with this PID or name (regex, repeatable)
    #[arg(long, value_name = "PROCESS")]
    process: Vec<String>,
    /// Only this time range, such as 1.5s..2s, ..2s or 1.5s..
    #[arg(long, value_name = "A..B", value_parser = values::time_range)]
    time: Option<Range<u64>>,
    /// Only stacks that contain a matching function
    #[arg(long, value_name = "NAME")]
    function: Option<String>,
    /// Only code of this kind: yours, dependency, std, allocator, kernel, runtime, unknown
    #[arg(long, value_name = "KIND", value_parser = values::code_kind, value_delimiter = ',')]
    kind: Vec<CodeKind>,
    /// Only inside spans of this name, or span #ROW (repeatable)
    #[arg(long, value_name = "NAME")]
    span: Vec<SpanPattern>,
    /// Threads that --span covers: the span's own, or all
    #[arg(long, value_name = "own|all", default_value = "own", hide_default_value = true, value_parser = values::span_threads)]
    span_threads: SpanThreads,
    /// Merge inlined functions into their callers
    #[arg(long)]
    pub(crate) no_inline: bool,
}

impl Filters {
    /// All samples of a metric.
    pub(crate) fn of_metric(metric: MetricArgs) -> Self {
        Self {
            metric,
            thread: Vec::new(),
            process: Vec::new(),
            time: None,
            function: None,
            kind: Vec::new(),
            span: Vec::new(),
            span_threads: SpanThreads::Own,
            no_inline: false,
        }
    }

    /// Whether a filter other than `--thread` and `--process` was given.
    pub(crate) fn are_beyond_threads(&self) -> bool {
        let others = Self { thread: Vec::new(), process: Vec::new(), ..self.clone() };
        others.are_given()
    }

    /// Whether any filter was given.
    pub(crate) fn are_given(&self) -> bool {
        self.metric.is_given()
            || self.time.is_some()
            || self.function.is_some()
            || !(self.thread.is_empty() && self.process.is_empty())
            || !(self.kind.is_empty() && self.span.is_empty())
    }

    /// The samples of this profile that pass the filters. A filter that matches nothing is an error that
    /// names the filter. A computed metric is added to the profile.
    pub(crate) fn resolve(&self, path: &Path, profile: &mut Profile) -> Result<Selection> {
        let selection = self.selection(path, profile)?;
        let checked = selection.check(profile);
        checked.map(|()| selection).map_err(|error| refused(path, &error))
    }

    /// Like [`Filters::resolve`], for answers that do not consist of samples: no sample has to pass all filters.
    pub(crate) fn resolve_names(&self, path: &Path, profile: &mut Profile) -> Result<Selection> {
        let selection = self.selection(path, profile)?;
        let checked = selection.check_filters(profile);
        checked.map(|()| selection).map_err(|error| refused(path, &error))
    }

    /// The same filters, with a metric to use if none was given.
    #[must_use]
    pub(crate) fn with_default_metric(mut self, name: &str) -> Self {
        self.metric.set_default(name);
        self
    }

    /// Splits off `--function`, for commands that show the function among all samples.
    pub(crate) fn without_function(mut self) -> (Self, Option<FunctionFilter>) {
        let function = self.function.take();
        (self, function.as_deref().map(FunctionFilter::new))
    }

    /// The name of the requested metric, if the profile stores it.
    pub(crate) fn metric_in_file(&self) -> Option<&str> {
        self.metric.in_file()
    }

    /// Like [`Filters::resolve`], but a filter may match nothing.
    pub(crate) fn selection(&self, path: &Path, profile: &mut Profile) -> Result<Selection> {
        if self.time.is_some() && self.metric.has_live_at() {
            return Err(Failure::new("--live-at is one point in time, and --time is a range")
                .next("--live-at alone, or --metric live with --time ..END"));
        }
        let end_ns = self.time.as_ref().map_or(u64::MAX, |range| range.end);
        // Bytes live at the end of a range may have been allocated before it.
        let time_ns = self.time.clone().filter(|_| !self.metric.is_live());
        let function = self.function.as_deref().map(FunctionFilter::new);
        if let Some(filter) = function.as_ref().filter(|filter| !filter.selects_any(profile)) {
            unless_regex(filter)?;
        }
        Ok(Selection {
            metric: self.metric.resolve(path, profile, end_ns)?,
            threads: self.thread.iter().map(|text| pattern("--thread", text)).collect::<Result<_>>()?,
            processes: self.process.iter().map(|text| pattern("--process", text)).collect::<Result<_>>()?,
            time_ns,
            function,
            kinds: self.kind.clone(),
            spans: self.span.clone(),
            span_threads: self.span_threads,
        })
    }
}

fn refused(path: &Path, error: &SelectionError) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

fn pattern(option: &str, text: &str) -> Result<Pattern> {
    text.parse().map_err(|error| bad_regex(option, text, &error))
}

/// The error for a text that selects no function and is not a regular expression.
pub(crate) fn unless_regex(filter: &FunctionFilter) -> Result<()> {
    filter.error().map_or(Ok(()), |error| Err(bad_regex("--function", filter.text(), error)))
}

fn bad_regex(option: &str, text: &str, error: &regex::Error) -> Failure {
    // The last line of a syntax error says what is wrong; the lines before it show where.
    let error = error.to_string();
    let reason = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
    Failure::new(format!("{option} '{text}': not a regular expression: {reason}"))
        .next(format!("{option} {}, to search for this text", shell::quoted(&regex::escape(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_regex_is_explained_on_one_line() {
        let failure = unless_regex(&FunctionFilter::new("Vec<(")).unwrap_err().to_string();
        assert_eq!(
            failure,
            "--function 'Vec<(': not a regular expression: unclosed group; \
             try: --function 'Vec<\\(', to search for this text"
        );
    }
}
