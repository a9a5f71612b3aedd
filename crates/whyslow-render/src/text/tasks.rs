//! Tasks of async Rust as text.

use whyslow_analyze::{Label, TaskChain, TaskTable};
use whyslow_explain::Finding;
use whyslow_profile::Profile;
use whyslow_words::Percent;

use super::explain::findings_of_view;
use super::layout::{
    BOLD, DIM, PLAIN, Page, columns, label_name, number_of, push_line, push_wrapped, right, styled,
    wide_enough, wrap,
};
use crate::units::duration;

const SHARE: usize = 8;
const NUMBER: usize = 10;
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
    let times =
        table.rows.iter().take(limit).flat_map(|row| [row.cost.cpu_ns, row.cost.blocked_ns]).map(duration);
    let number = wide_enough(times.collect::<Vec<_>>().iter().map(String::as_str), NUMBER);
    let blocked_title = if table.has_waits { right("blocked", number) } else { String::new() };
    let header =
        format!("{}{}{blocked_title}  task and its awaits", right("share", SHARE), right("CPU", number));
    push_line(&mut out, &styled(BOLD, header));
    let blocked_time = |ns: u64| match table.has_waits {
        true => right(&if ns > 0 { duration(ns) } else { "-".to_owned() }, number),
        false => String::new(),
    };
    for row in table.rows.iter().take(limit) {
        let share = Percent(row.cost.cpu_ns as f64 / table.total_ns.max(1) as f64);
        let numbers = format!(
            "{}{}{}  ",
            right(&share.to_string(), SHARE),
            right(&duration(row.cost.cpu_ns), number),
            blocked_time(row.cost.blocked_ns)
        );
        let indent = columns(&numbers);
        let width = page.width.saturating_sub(indent + row.executor.len() + 3);
        let name = page.fit(&label_name(profile, row.task), width);
        push_line(&mut out, &format!("{numbers}{name} {}", styled(DIM, format!("({})", row.executor))));
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
        for (functions, part) in awaited.iter().take(MOST_CHAINS) {
            let names = functions.iter().map(|label| format!("→ {}", label_name(profile, *label)));
            let words = format!("{} {}", Percent(*part), names.collect::<Vec<_>>().join(" "));
            for line in wrap(&words, page.width.saturating_sub(indent + 2)) {
                push_line(&mut out, &format!("{}{line}", " ".repeat(indent + 2)));
            }
        }
    }
    if table.rows.len() > limit {
        let more = number_of((table.rows.len() - limit) as u64, "more task", "more tasks");
        push_line(&mut out, &styled(DIM, format!("and {more}")));
    }
    out
}
