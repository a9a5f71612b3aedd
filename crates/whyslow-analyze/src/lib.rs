//! Answers from a profile: trees, function tables, quality. Pure functions; nothing here reads a file or
//! prints.
//!
//! A [`Selection`] says which samples count. Everything else is computed from the [`Weights`] that it gives
//! each stack. Stacks can be ten thousand frames deep, so nothing here recurses over depth.

mod caches;
mod call_tree;
mod callers;
mod command;
mod counting;
pub mod diff;
mod find;
mod folding;
mod function_filter;
mod functions;
mod generic;
mod groups;
mod growing;
pub mod heap;
mod hot_path;
mod labels;
mod lines;
mod outline;
mod overview;
mod own;
mod parallelism;
mod perf_level;
#[cfg(test)]
mod properties;
mod quality;
mod ratios;
mod remark;
pub mod scale;
mod selection;
pub mod size;
mod spans;
pub mod stat;
mod syscalls;
mod tasks;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod threads;
mod units;
mod waits;
mod walk;

pub use caches::{CacheAnswer, CacheLevel, Caches, Misses, is_simulated};
pub use call_tree::{CallTree, Children, TreeOptions};
pub use callers::Callers;
pub use command::record_again;
pub use counting::is_counted;
pub use find::{Candidate, FindError, candidates, meant};
pub use folding::{Fold, Folds};
pub use function_filter::FunctionFilter;
pub use functions::{FunctionRow, FunctionTable, Share, SortBy};
pub use generic::generic_name;
pub use groups::{GroupBy, GroupRow, Groups};
pub use growing::{Repeat, Repeats};
pub use hot_path::{HotPath, HotStep, PathEnd, is_start_up};
pub use labels::{Label, first_alike};
pub use lines::{LineRow, Lines};
pub use outline::{Outline, OutlineItem};
pub use overview::Overview;
pub use own::{
    Beneath, By, Charge, Charges, HotLine, HotLines, Nearness, OwnLine, OwnRow, OwnTable, StackFrame,
    frames_at, frames_of,
};
pub use parallelism::{
    BusyFunction, Concurrency, ELAPSED_TIME, Level, Parallelism, Slice, concurrency, elapsed_time,
};
pub use perf_level::PerfLevel;
pub use quality::{
    BuiltWith, Grade, HeapQuality, ModuleShare, Quality, Runtime, WaitQuality, Warning, runs_hidden_script,
};
pub use ratios::{Ratio, RatioKind, Ratios};
pub use remark::{no_leak_check, remark_of};
pub use selection::{Pattern, Selection, SelectionError, Weights};
pub use spans::{SpanPattern, SpanRow, SpanTable, SpanThreads};
pub use syscalls::{SyscallCost, SyscallNote, SyscallRow, SyscallTable, has_syscalls, only_waits};
pub use tasks::{BlockedWorker, StackPlace, TaskChain, TaskCost, TaskRow, TaskStacks, TaskTable, task_of};
pub use threads::{NameRow, ProcessRow, ThreadRow, Threads};
pub use units::value;
pub use waits::{
    CriticalPath, Did, LockName, LockRow, LockSite, LockTable, PathRow, PathStep, Reason, Site, Spent,
    TimeKind, TimeSplit, Together, WaitEdge, WaitRow, WaitTable, has_wakers, row_reasons, starter_of,
    wait_metric,
};
