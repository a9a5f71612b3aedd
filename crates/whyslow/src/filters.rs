//! The options that filter samples; shared by all query commands.

use std::ops::Range;
use std::path::Path;

use clap::Args;
use whyslow_analyze::{Selection, SpanPattern, SpanThreads};
use whyslow_profile::{CodeKind, Profile};

use crate::failure::Result;
use crate::metric::MetricArgs;
use crate::{refusals, values};

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
    /// What they mean, for any front end.
    pub(crate) fn resolved(&self) -> whyslow_answers::Filters {
        whyslow_answers::Filters {
            metric: self.metric.resolved(),
            threads: self.thread.clone(),
            processes: self.process.clone(),
            time_ns: self.time.clone(),
            function: self.function.clone(),
            kinds: self.kind.clone(),
            spans: self.span.clone(),
            span_threads: self.span_threads,
        }
    }

    /// The samples of this profile that pass the filters. A computed metric is added to the profile.
    pub(crate) fn select(&self, path: &Path, profile: &mut Profile) -> Result<Selection> {
        self.resolved().resolve(profile).map_err(|error| refusals::of_filter(path, error))
    }
}
