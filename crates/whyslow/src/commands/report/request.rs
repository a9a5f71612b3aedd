//! A request for one view of some samples, and the tables that views consist of.

use std::fmt::Display;

use whyslow_analyze::{
    BlockedWorker, By, CallTree, Callers, Charges, CriticalPath, FindError, FunctionTable, GroupBy, Groups,
    HotLines, Label, Lines, LockTable, Outline, OwnTable, Parallelism, Ratios, Selection, SortBy, SpanTable,
    SyscallTable, TaskTable, Threads, TreeOptions, WaitTable, Weights, wait_metric,
};
use whyslow_profile::{HeapProcess, Profile};

use super::{ReportArgs, ReportBy};
use crate::failure::{Failure, Result};
use crate::output::note_others;
use crate::shell;

/// Default number of functions in text; JSON has all.
pub(super) const ROWS: usize = 40;
/// Default smallest share of a branch in trees.
const MIN_SHARE: f64 = 0.01;

/// The view's arguments, profile and selection.
pub(super) struct Request<'a> {
    pub(super) args: &'a ReportArgs,
    pub(super) histograms: bool,
    pub(super) profile: &'a Profile,
    pub(super) selection: &'a Selection,
    /// The function that the view shows; empty for views without one.
    pub(super) function: &'a str,
}

impl Request<'_> {
    /// JSON, or why it could not be written.
    pub(super) fn written(&self, json: std::result::Result<String, impl Display>) -> Result<String> {
        json.map_err(|error| Failure::new(format!("{}: {error}", self.args.profile.file.display())))
    }

    /// The selected processes, as the heap has them; none if threads are selected.
    pub(super) fn processes(&self) -> Vec<HeapProcess> {
        let Selection { processes, threads, .. } = self.selection;
        let chosen = |process: &&HeapProcess| {
            threads.is_empty() && processes.iter().any(|pattern| pattern.matches(process.pid, &process.name))
        };
        let facts = self.profile.meta.heap.as_ref();
        facts.map_or(Vec::new(), |facts| facts.by_process.iter().filter(chosen).cloned().collect())
    }

    pub(super) fn inline(&self) -> bool {
        !self.args.filters.no_inline
    }

    pub(super) fn limit(&self, default: usize) -> usize {
        match self.args.limit {
            None => default,
            Some(0) => usize::MAX,
            Some(rows) => rows,
        }
    }

    pub(super) fn min_share(&self) -> f64 {
        self.args.min_share.unwrap_or(MIN_SHARE)
    }

    pub(super) fn weights(&self) -> Weights {
        self.selection.weigh(self.profile)
    }

    pub(super) fn functions(&self, weights: &Weights) -> FunctionTable {
        let by_total = self.args.by == ReportBy::Total;
        let sort = if by_total { SortBy::Total } else { SortBy::SelfValue };
        let mut table = FunctionTable::from_weights(self.profile, weights, self.inline(), sort);
        let min = self.min_value(table.total_value);
        table.rows.retain(|row| if by_total { row.total_value } else { row.self_value } >= min);
        table.ratios = Ratios::functions(self.profile, self.selection, self.inline(), sort);
        table
    }

    /// The selected waits, whatever metric was requested, and the frames that they are charged to.
    fn of_waits(&self) -> (Selection, Charges) {
        let metric = wait_metric(self.profile).unwrap_or(self.selection.metric);
        let charges = Charges::of_metric(self.profile, self.inline(), metric);
        (Selection { metric, ..self.selection.clone() }, charges)
    }

    /// Shorter waits are left out.
    fn shortest_wait(&self) -> u64 {
        self.args.min_wait.map_or(0, |shortest| shortest.as_nanos() as u64)
    }

    pub(super) fn waits(&self) -> WaitTable {
        let (selection, charges) = self.of_waits();
        WaitTable::build(self.profile, &selection, &charges, self.shortest_wait())
    }

    pub(super) fn locks(&self) -> LockTable {
        let (selection, charges) = self.of_waits();
        LockTable::build(self.profile, &selection, &charges, self.shortest_wait())
    }

    pub(super) fn critical_path(&self) -> CriticalPath {
        let (selection, charges) = self.of_waits();
        CriticalPath::build(self.profile, &selection, &charges).unwrap_or_default()
    }

    /// The selected async tasks.
    pub(super) fn tasks(&self) -> TaskTable {
        TaskTable::build(self.profile, self.selection)
    }

    /// The selected calls that block worker threads.
    pub(super) fn blocked(&self) -> Vec<BlockedWorker> {
        BlockedWorker::find(self.profile, self.selection, &Charges::new(self.profile, self.inline()))
    }

    /// How many threads were busy, and what ran; `None` without CPU time.
    pub(super) fn parallelism(&self) -> Option<Parallelism> {
        Parallelism::build(self.profile, self.selection, &Charges::new(self.profile, self.inline()))
    }

    /// The selected system calls.
    pub(super) fn syscalls(&self) -> SyscallTable {
        let charges = Charges::new(self.profile, self.inline());
        SyscallTable::build(self.profile, self.selection, &charges)
    }

    /// The frame that each stack is charged to, and the functions with their own time.
    pub(super) fn own(&self, weights: &Weights) -> (Charges, OwnTable) {
        let charges = Charges::of_metric(self.profile, self.inline(), self.selection.metric);
        let mut table = OwnTable::build(self.profile, weights, &charges);
        let min = self.min_value(table.total_value);
        table.rows.retain(|row| row.own_value >= min);
        table.ratios = Ratios::own(self.profile, self.selection, self.inline());
        (charges, table)
    }

    pub(super) fn hot_lines(&self) -> Result<HotLines> {
        let by = match self.args.by {
            ReportBy::Own => By::Own,
            ReportBy::SelfTime => By::SelfValue,
            ReportBy::Total => {
                return Err(Failure::new("--by total: lines of all functions have no total")
                    .next("--by own or --by self, or `lines FUNCTION` for one function"));
            }
        };
        let charges = Charges::of_metric(self.profile, self.inline(), self.selection.metric);
        let mut lines = HotLines::build(self.profile, &self.weights(), &charges, by);
        let min = self.min_value(lines.total_value);
        lines.rows.retain(|row| if by == By::Own { row.own_value } else { row.self_value } >= min);
        Ok(lines)
    }

    /// The smallest value that tables show, of this total.
    pub(super) fn min_value(&self, total: u64) -> u64 {
        self.args.min_share.map_or(0, |min| (total as f64 * min).ceil() as u64)
    }

    pub(super) fn outline(&self, weights: &Weights, inverted: bool) -> Outline {
        let options = TreeOptions { inline: self.inline(), inverted, ..TreeOptions::default() };
        Outline::from_weights(self.profile, weights, &options)
    }

    /// The tree for text: without plumbing, unless `--unfolded` was given.
    pub(super) fn readable_outline(&self) -> Outline {
        let (weights, inverted) = (self.weights(), self.args.inverted);
        if self.args.unfolded {
            return self.outline(&weights, inverted);
        }
        let options = TreeOptions { inline: self.inline(), inverted, ..TreeOptions::default() };
        Outline::folded(self.profile, &weights, &options)
    }

    pub(super) fn threads(&self) -> Threads {
        Threads::build(self.profile, self.selection)
    }

    pub(super) fn groups(&self, by: GroupBy) -> Groups {
        let mut groups = Groups::build(self.profile, self.selection, by);
        let min = groups.total_value as f64 * self.args.min_share.unwrap_or(0.0);
        groups.rows.retain(|row| row.self_value as f64 >= min);
        groups
    }

    pub(super) fn spans(&self) -> SpanTable {
        SpanTable::build(self.profile, self.selection)
    }

    pub(super) fn callers(&self, folded: bool) -> Result<Callers> {
        let build = if folded { Callers::folded } else { Callers::build };
        let callers = build(self.profile, self.selection, self.function, self.inline())
            .map_err(|error| self.not_found(&error))?;
        self.tell_others(&callers.labels, &callers.others);
        Ok(callers)
    }

    pub(super) fn lines(&self) -> Result<Lines> {
        let lines = Lines::build(self.profile, self.selection, self.function)
            .map_err(|error| self.not_found(&error))?;
        self.tell_others(&lines.labels, &lines.others);
        Ok(lines)
    }

    fn tell_others(&self, labels: &[Label], others: &[String]) {
        if let Some(&label) = labels.first() {
            note_others(self.function, &CallTree::name(self.profile, label), others);
        }
    }

    pub(super) fn not_found(&self, error: &FindError) -> Failure {
        let failure = Failure::new(format!("{}: {error}", self.args.profile.file.display()));
        match error {
            FindError::Ambiguous { candidates, .. } => {
                let first = candidates.first().map_or("", String::as_str);
                failure.next(format!("more of the name, such as {}", shell::quoted(first)))
            }
            // The message names similar functions.
            FindError::Unknown { .. } => failure,
        }
    }
}
