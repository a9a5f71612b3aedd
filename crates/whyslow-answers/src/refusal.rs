//! Why a question has no answer, as values. A front end turns them into words with the next step.

use std::fmt;

use whyslow_analyze::{FindError, SelectionError};
use whyslow_words::Remark;

/// Why a query has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The view is about one function, and none is named.
    #[error("the view `{view}` needs a function")]
    NeedsFunction {
        /// The view's name.
        view: &'static str,
    },
    /// A function is named for a view that takes none.
    #[error("`{function}`: this view takes no function")]
    TakesNoFunction {
        /// The named function.
        function: String,
    },
    /// The filters.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The name does not lead to one function.
    #[error(transparent)]
    Function(#[from] FindError),
    /// What the view consists of was not recorded.
    #[error("{}", .noted.as_ref().map_or(.missing.words(), |remark| remark.text.as_str()))]
    NotRecorded {
        /// What is missing.
        missing: Missing,
        /// Why the recorder could not record it, if it was asked to.
        noted: Option<Remark>,
    },
    /// The recorder was stopped too early.
    #[error("its recorder was stopped before it summed up the heap")]
    HeapNotSummedUp,
    /// Another tool's recording has live bytes only.
    #[error("{tool} records live bytes and no allocations")]
    OnlyLiveBytes {
        /// The tool.
        tool: String,
    },
    /// The heap is summed up per thread and process, not over time or by metric.
    #[error("the view `heap` accepts only the filters --process and --thread")]
    HeapOfAPart,
    /// The one-screen answer is about the whole recording.
    #[error("the view `summary` shows everything and accepts no filters")]
    SummaryOfAPart,
    /// Experiments are about the whole program.
    #[error("the view `causal` is about the whole program and accepts no filters")]
    CausalOfAPart,
    /// Lines of all functions have no total cost.
    #[error("--by total: lines of all functions have no total")]
    LinesHaveNoTotal,
}

/// What a view consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Samples of CPU time.
    CpuTime,
    /// Waits.
    Waits,
    /// Waits for locks.
    Locks,
    /// Who ended each wait.
    Wakers,
    /// System calls.
    Syscalls,
    /// Allocations.
    Heap,
    /// Experiments of causal profiling.
    Experiments,
    /// A simulated program.
    Simulation,
}

impl Missing {
    /// That it is missing.
    pub fn words(self) -> &'static str {
        match self {
            Self::CpuTime => "CPU time was not recorded",
            Self::Waits | Self::Locks | Self::Wakers => "waits were not recorded",
            Self::Syscalls => "system calls were not recorded",
            Self::Heap => "the heap was not recorded",
            Self::Simulation => "no caches were simulated",
            Self::Experiments => "there are no experiments of causal profiling",
        }
    }
}

/// A filter whose text is a regular expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterName {
    /// `--thread`
    Thread,
    /// `--process`
    Process,
    /// `--function`
    Function,
}

impl fmt::Display for FilterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Thread => "thread",
            Self::Process => "process",
            Self::Function => "function",
        })
    }
}

/// Why filters select nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// A text is neither a name nor a regular expression.
    #[error("{filter} '{text}': not a regular expression: {reason}")]
    NoRegex {
        /// The filter.
        filter: FilterName,
        /// Its text.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Live bytes at a time, in a range of time.
    #[error("live bytes belong to one point in time, and a range was given as well")]
    LiveAtInARange,
    /// Live bytes at a time, and another metric.
    #[error("live bytes at a point in time were requested, and the metric '{metric}'")]
    LiveAtOfAnotherMetric {
        /// The other metric.
        metric: String,
    },
    /// A filter matches nothing, or no sample passes all of them.
    #[error(transparent)]
    Selection(#[from] SelectionError),
}

impl FilterError {
    pub(crate) fn regex(filter: FilterName, text: &str, error: &regex::Error) -> Self {
        // The last line of a syntax error says what is wrong; the lines before it show where.
        let error = error.to_string();
        let reason = error.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        Self::NoRegex { filter, text: text.to_owned(), reason }
    }
}
