//! Tasks of async Rust as JSON.

use std::borrow::Cow;

use serde::Serialize;
use whyslow_analyze::{BlockedWorker, CallTree, TaskCost, TaskTable};
use whyslow_explain::Finding;
use whyslow_words::About;

use super::explain::ViewFindingJson;
use super::{Context, Head};

#[derive(Serialize)]
struct CostJson {
    cpu_ns: u64,
    samples: u64,
    blocked_ns: Option<u64>,
}

/// Tasks, at most `limit`, with their chains of awaits.
pub fn tasks<'a>(
    context: &Context<'a>,
    table: &TaskTable,
    blocked: &[BlockedWorker],
    found: &'a [Finding],
    limit: usize,
) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct ChainJson<'a> {
        functions: Vec<Cow<'a, str>>,
        #[serde(flatten)]
        cost: CostJson,
    }
    #[derive(Serialize)]
    struct TaskJson<'a> {
        task: Cow<'a, str>,
        executor: &'static str,
        share: f64,
        #[serde(flatten)]
        cost: CostJson,
        chains: Vec<ChainJson<'a>>,
    }
    #[derive(Serialize)]
    struct BlockedJson<'a> {
        executor: &'static str,
        reason: &'static str,
        call: Cow<'a, str>,
        function: Cow<'a, str>,
        file: Option<&'a str>,
        line: Option<u32>,
        task: Cow<'a, str>,
        count: u64,
        total_ns: u64,
        max_ns: u64,
    }
    #[derive(Serialize)]
    struct Body<'a> {
        #[serde(flatten)]
        head: Head<'a>,
        executor_ns: u64,
        blocking_ns: u64,
        tasks: Vec<TaskJson<'a>>,
        tasks_left_out: usize,
        blocked_workers: Vec<BlockedJson<'a>>,
        findings: Vec<ViewFindingJson<'a>>,
    }
    let profile = context.profile;
    let name = |label| CallTree::name(profile, label);
    let has_waits = table.has_waits;
    let cost = |cost: TaskCost| CostJson {
        cpu_ns: cost.cpu_ns,
        samples: cost.samples,
        blocked_ns: has_waits.then_some(cost.blocked_ns),
    };
    let tasks = table.rows.iter().take(limit).map(|row| TaskJson {
        task: name(row.task),
        executor: row.executor,
        share: row.cost.cpu_ns as f64 / table.total_ns.max(1) as f64,
        cost: cost(row.cost),
        chains: row
            .chains
            .iter()
            .map(|chain| ChainJson {
                functions: chain.functions.iter().map(|label| name(*label)).collect(),
                cost: cost(chain.cost),
            })
            .collect(),
    });
    let workers = blocked.iter().map(|row| BlockedJson {
        executor: row.executor,
        reason: row.reason.label(),
        call: name(row.call),
        function: name(row.function),
        file: row.file.map(|file| profile.text(file)),
        line: (row.line > 0).then_some(row.line),
        task: name(row.task),
        count: row.count,
        total_ns: row.total_ns,
        max_ns: row.max_ns,
    });
    Body {
        head: context.head("tasks", table.samples, table.cpu_ns),
        executor_ns: table.executor_ns,
        blocking_ns: table.blocking_ns,
        tasks: tasks.collect(),
        tasks_left_out: table.rows.len().saturating_sub(limit),
        blocked_workers: workers.collect(),
        findings: ViewFindingJson::all(profile, found, About::Waits),
    }
}
