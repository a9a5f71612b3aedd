//! Tasks of async Rust as text.

use whyslow_analyze::{CallTree, Label, TaskChain, TaskRow, TaskTable};
use whyslow_explain::Finding;
use whyslow_profile::Profile;
use whyslow_words::Percent;

use super::cells::NAME;
use super::explain::findings_of_view;
use super::layout::{PLAIN, Page, push_wrapped};
use crate::table::{Cell, Column, Table};
use crate::units::duration;

/// Chains shown per task.
const MOST_CHAINS: usize = 3;
/// Chains with a smaller share of their task are noise.
const LEAST_CHAIN: f64 = 0.05;

/// Renders tasks by CPU and blocked time, at most `limit`, each with its chains of awaits.
pub fn tasks(table: &TaskTable, found: &[Finding], profile: &Profile, limit: usize, page: Page) -> String {
    let mut out = String::new();
    if table.rows.is_empty() {
        let words = "no stack has a task of tokio, async-executor (async-std, smol) or futures-executor";
        push_wrapped(&mut out, PLAIN, words, page.width);
        return out;
    }
    let mut intro = format!(
        "tasks took {} of {} CPU time; executor threads ran {} outside tasks",
        duration(table.cpu_ns),
        duration(table.total_ns),
        duration(table.executor_ns)
    );
    if table.blocking_ns > 0 {
        intro.push_str(&format!(", {} on threads for blocking calls", duration(table.blocking_ns)));
    }
    if !table.has_waits {
        intro.push_str("; to see calls that block a worker thread: whyslow record --off-cpu");
    }
    push_wrapped(&mut out, PLAIN, &intro, page.width);
    out.push_str(&findings_of_view(profile, found, page));
    out.push('\n');
    out.push_str(&task_table(table, profile, limit, page).text(page.width));
    out
}

/// Tasks by CPU and blocked time, at most `limit`, each with its chains of awaits below it.
pub(super) fn task_table(tasks: &TaskTable, profile: &Profile, limit: usize, page: Page) -> Table {
    let blocked = Column::number("blocked_ns", "blocked").least(8);
    let mut table = Table::new(vec![
        Column::share("share", "share"),
        Column::number("cpu_ns", "CPU").least(8),
        Column::number("samples", "samples").in_data(),
        if tasks.has_waits { blocked } else { blocked.in_data() },
        Column::rest("task", "task and its awaits", NAME),
        Column::words("executor", "executor").in_data(),
    ])
    .full_names(page.full_names)
    .notes_at(4, 2);
    for row in tasks.rows.iter().take(limit) {
        let blocked = match row.cost.blocked_ns {
            _ if !tasks.has_waits => Cell::nothing(),
            0 => Cell::duration(0).shown("-"),
            ns => Cell::duration(ns),
        };
        let shown = table.push(vec![
            Cell::part(row.cost.cpu_ns, tasks.total_ns),
            Cell::duration(row.cost.cpu_ns),
            Cell::count(row.cost.samples),
            blocked,
            Cell::name(CallTree::name(profile, row.task)).behind(format!("({})", row.executor)),
            Cell::text(row.executor),
        ]);
        for (functions, part) in awaited(row, profile).iter().take(MOST_CHAINS) {
            let names = functions.iter().map(|label| format!("→ {}", CallTree::name(profile, *label)));
            shown.note(PLAIN, format!("{} {}", Percent(*part), names.collect::<Vec<_>>().join(" ")));
        }
    }
    table.limited(tasks.rows.len(), limit, "more task", "more tasks")
}

/// The chains of awaits of a task, each with its part of the task's time.
fn awaited(row: &TaskRow, profile: &Profile) -> Vec<(Vec<Label>, f64)> {
    let whole = (row.cost.cpu_ns + row.cost.blocked_ns).max(1) as f64;
    let part = |chain: &TaskChain| (chain.cost.cpu_ns + chain.cost.blocked_ns) as f64 / whole;
    let mut awaited: Vec<(Vec<Label>, f64)> = Vec::new();
    for chain in &row.chains {
        let functions = chain.awaited(profile, row.task);
        match awaited.iter_mut().find(|(known, _)| *known == functions) {
            Some((_, sum)) => *sum += part(chain),
            None => awaited.push((functions, part(chain))),
        }
    }
    awaited.retain(|(functions, part)| !functions.is_empty() && *part >= LEAST_CHAIN);
    awaited.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    awaited
}
