//! What Rust finds in a part of a profile, as JSON. Functions and lines are texts: both sides number them in
//! their own way.

use serde_json::{Value, json};
use whyslow_analyze::{
    BlockedWorker, CallTree, Charges, CriticalPath, Did, FunctionTable, Label, Lines, LockSite, LockTable,
    Outline, Parallelism, Selection, Site, SortBy, SpanTable, SpanThreads, SyscallTable, TaskCost, TaskTable,
    TreeOptions, WaitTable, elapsed_time, wait_metric,
};
use whyslow_profile::{MetricId, Profile, StackId, StringId};

use crate::cases::{Case, Wanted};

/// All answers for a selection.
pub(crate) fn of(case: &Case, wanted: &Wanted) -> Value {
    let mut profile = case.profile.clone();
    if let Some((metric, samples)) = elapsed_time(&case.profile) {
        profile.set_metric(metric, samples);
    }
    let number = |row: &usize| profile.threads[*row].tid.to_string().parse().unwrap();
    let selection = Selection {
        threads: wanted.threads.iter().map(number).collect(),
        time_ns: wanted.time_ns.map(|(start, end)| start..end),
        ..Selection::default()
    };
    let asked = Asked { charges: Charges::new(&profile, true), profile: &profile, selection };
    let metrics = metrics_of(&profile).map(|metric| asked.metric(metric)).collect::<Vec<_>>();
    let lines = case.lines_of.iter().map(|name| asked.lines(name)).collect::<Vec<_>>();
    let mut answers = json!({
        "time": wanted.time_ns.map(|(start, end)| [start, end]), "threads": wanted.threads,
        "metrics": metrics, "lines": lines,
        "parallelism": asked.parallelism(), "tasks": asked.tasks(), "syscalls": asked.syscalls(),
    });
    if let Some(metric) = wait_metric(&profile) {
        answers["waits"] = asked.waits(metric);
        answers["locks"] = asked.locks(metric);
        answers["critical"] = asked.critical(metric);
    }
    answers
}

struct Asked<'p> {
    profile: &'p Profile,
    selection: Selection,
    charges: Charges,
}

impl Asked<'_> {
    fn of(&self, metric: MetricId) -> Selection {
        Selection { metric, ..self.selection.clone() }
    }

    fn name(&self, label: Label) -> String {
        CallTree::name(self.profile, label).into_owned()
    }

    fn text(&self, id: Option<StringId>) -> Option<&str> {
        id.map(|id| self.profile.text(id))
    }

    fn place(&self, label: Label, file: Option<StringId>, line: u32) -> Value {
        json!([self.name(label), self.text(file), line])
    }

    fn site(&self, site: Site) -> Value {
        self.place(site.label, site.file, site.line)
    }

    /// The total, functions, functions of yours by what they are charged with, and the call tree.
    fn metric(&self, metric: MetricId) -> Value {
        let weights = self.of(metric).weigh(self.profile);
        let table = FunctionTable::from_weights(self.profile, &weights, true, SortBy::Total);
        let functions = table.rows.iter().filter(|row| row.total_value > 0);
        let functions = functions.map(|row| json!([self.name(row.label), row.self_value, row.total_value]));
        let mut own: Vec<(Label, u64)> = Vec::new();
        for (stack, &value) in weights.value.iter().enumerate().filter(|(_, value)| **value > 0) {
            let label = self.charges.of(StackId::from(stack)).frame.label;
            match own.iter_mut().find(|(known, _)| *known == label) {
                Some((_, sum)) => *sum += value,
                None => own.push((label, value)),
            }
        }
        let tree = CallTree::from_weights(self.profile, &weights, &TreeOptions::default());
        json!({
            "name": self.profile.text(self.profile.metrics[metric.index()].name),
            "total": weights.total_value, "samples": weights.total_count,
            "functions": sorted(functions.collect()),
            "own": sorted(own.into_iter().map(|(label, value)| json!([self.name(label), value])).collect()),
            "tree": nodes(&tree, |node| self.name(tree.label[node]), |_| Vec::new()),
            "spans": self.spans(metric),
        })
    }

    /// The durations of the spans of each name, and the samples inside them: on their threads, and on all.
    fn spans(&self, metric: MetricId) -> Value {
        let inside = |span_threads| {
            SpanTable::build(self.profile, &Selection { span_threads, ..self.of(metric) }).rows
        };
        let during = inside(SpanThreads::All);
        let rows = inside(SpanThreads::Own).into_iter().zip(during).map(|(row, during)| {
            json!([
                row.name,
                row.count,
                row.total_ns,
                row.p50_ns,
                row.p95_ns,
                row.max_ns,
                row.value,
                during.value
            ])
        });
        rows.collect()
    }

    /// The cost of each line of a function.
    fn lines(&self, function: &str) -> Value {
        let Ok(lines) = Lines::build(self.profile, &self.of(self.profile.main_metric()), function) else {
            return json!({ "function": function });
        };
        let rows = lines.rows.iter();
        let rows = rows.map(|row| json!([self.text(row.file), row.line, row.self_value, row.total_value]));
        json!({
            "function": function, "self": lines.self_value, "total": lines.total_value,
            "rows": rows.collect::<Vec<_>>(),
        })
    }

    fn waits(&self, metric: MetricId) -> Value {
        let table = WaitTable::build(self.profile, &self.of(metric), &self.charges, 0);
        let rows = table.rows.iter().map(|row| {
            json!({
                "reason": row.reason.label(), "place": self.place(row.label, row.file, row.line),
                "count": row.count, "total": row.total_ns, "p50": row.p50_ns, "p99": row.p99_ns,
                "longest": row.max_ns,
            })
        });
        rows.collect()
    }

    fn locks(&self, metric: MetricId) -> Value {
        let table = LockTable::build(self.profile, &self.of(metric), &self.charges, 0);
        let site = |row: &LockSite| {
            json!({
                "place": self.site(row.site), "thread": row.thread.map(|thread| thread.0),
                "count": row.count, "total": row.total_ns,
            })
        };
        let rows = table.rows.iter().map(|row| {
            json!({
                "kind": row.kind, "address": row.address, "process": row.process.0,
                "count": row.count, "total": row.total_ns, "p99": row.p99_ns, "longest": row.max_ns,
                "waiters": row.waiters.iter().map(site).collect::<Vec<_>>(),
                "holders": row.holders.iter().map(site).collect::<Vec<_>>(),
            })
        });
        let edge = |edge: &whyslow_analyze::WaitEdge| {
            json!({
                "waiter": edge.waiter.0, "holder": edge.holder.0, "count": edge.count, "total": edge.total_ns,
            })
        };
        json!({
            "rows": rows.collect::<Vec<_>>(), "graph": table.graph.iter().map(edge).collect::<Vec<_>>(),
        })
    }

    fn critical(&self, metric: MetricId) -> Value {
        let Some(path) = CriticalPath::build(self.profile, &self.of(metric), &self.charges) else {
            return Value::Null;
        };
        let did = |did: Did| match did {
            Did::Ran => "ran",
            Did::Waited(reason) => reason.label(),
        };
        let steps = path.steps.iter().map(|step| {
            json!([
                step.thread.0,
                did(step.did),
                step.start_ns,
                step.end_ns,
                step.site.map(|site| self.site(site))
            ])
        });
        let rows = path.rows.iter().map(|row| {
            json!([row.thread.0, did(row.did), row.total_ns, row.site.map(|site| self.site(site))])
        });
        json!({
            "total": path.total_ns, "ran": path.ran_ns, "ends_in": path.ends_in.map(|thread| thread.0),
            "steps": steps.collect::<Vec<_>>(), "rows": rows.collect::<Vec<_>>(),
        })
    }

    fn parallelism(&self) -> Value {
        let Some(found) = Parallelism::build(self.profile, &self.selection, &self.charges) else {
            return Value::Null;
        };
        let levels = found.levels.iter().map(|level| {
            let functions = level.functions.iter().map(|row| {
                json!({
                    "place": self.place(row.label, row.file, row.line), "elapsed": row.elapsed_ns,
                    "share": row.share,
                })
            });
            json!({ "ns": level.ns, "samples": level.samples, "functions": functions.collect::<Vec<_>>() })
        });
        json!({ "exact": found.exact, "duration": found.duration_ns, "levels": levels.collect::<Vec<_>>() })
    }

    fn tasks(&self) -> Value {
        let table = TaskTable::build(self.profile, &self.selection);
        let cost = |cost: TaskCost| json!([cost.cpu_ns, cost.samples, cost.blocked_ns]);
        let rows = table.rows.iter().map(|row| {
            let chains = row.chains.iter().map(|chain| {
                let functions = chain.functions.iter().map(|label| self.name(*label)).collect::<Vec<_>>();
                let awaited = chain.awaited(self.profile, row.task);
                let awaited = awaited.iter().map(|label| self.name(*label)).collect::<Vec<_>>();
                json!({ "functions": functions, "awaited": awaited, "cost": cost(chain.cost) })
            });
            json!({
                "executor": row.executor, "task": self.name(row.task), "cost": cost(row.cost),
                "chains": chains.collect::<Vec<_>>(),
            })
        });
        let rows = rows.collect::<Vec<_>>();
        let blocked = BlockedWorker::find(self.profile, &self.selection, &self.charges);
        let blocked = blocked.iter().map(|row| {
            json!({
                "executor": row.executor, "reason": row.reason.label(), "call": self.name(row.call),
                "place": self.place(row.function, row.file, row.line), "task": self.name(row.task),
                "count": row.count, "total": row.total_ns, "longest": row.max_ns,
            })
        });
        json!({
            "rows": rows, "cpu": table.cpu_ns, "executor": table.executor_ns, "blocking": table.blocking_ns,
            "total": table.total_ns, "blocked": blocked.collect::<Vec<_>>(),
        })
    }

    fn syscalls(&self) -> Value {
        let table = SyscallTable::build(self.profile, &self.selection, &self.charges);
        let rows = table.rows.iter().map(|row| {
            let cost = &row.cost;
            let errors = row.errors.iter().map(|(error, count)| json!([self.profile.text(*error), count]));
            let files = row.targets.iter();
            let files = files.map(|(target, cost)| json!([self.profile.text(*target), cost.total_ns]));
            json!({
                "call": self.profile.text(row.call), "place": self.place(row.label, row.file, row.line),
                "onlyWaits": row.only_waits(self.profile), "count": cost.count, "failed": cost.failed,
                "total": cost.total_ns, "max": cost.max_ns, "p50": cost.quantile_ns(50),
                "p99": cost.quantile_ns(99), "bytes": cost.bytes,
                "errors": errors.collect::<Vec<_>>(), "files": files.collect::<Vec<_>>(),
            })
        });
        rows.collect()
    }
}

fn metrics_of(profile: &Profile) -> impl Iterator<Item = MetricId> {
    (0..profile.metrics.len()).map(MetricId::from)
}

/// The call tree of each metric, with recursion and code that only carries other code folded.
pub(crate) fn folded(profile: &Profile) -> Value {
    let trees = metrics_of(profile).map(|metric| {
        let weights = Selection { metric, ..Selection::default() }.weigh(profile);
        let outline = Outline::folded(profile, &weights, &TreeOptions::default());
        let name = |node: usize| {
            let fold = outline.folds.of(node as u32);
            match fold.frames {
                0 => CallTree::name(profile, outline.tree.label[node]).into_owned(),
                1 => format!("[{}: 1 frame]", fold.words()),
                frames => format!("[{}: {frames} frames]", fold.words()),
            }
        };
        let repeat = |node: usize| {
            let repeat = outline.repeats.of(node as u32);
            if repeat.times < 2 {
                return Vec::new();
            }
            vec![json!(repeat.frames), json!(repeat.times), json!(repeat.more)]
        };
        json!({
            "name": profile.text(profile.metrics[metric.index()].name),
            "tree": nodes(&outline.tree, name, repeat),
        })
    });
    trees.collect()
}

/// The nodes of a tree with a value, each before its children, which are sorted by name: depth, name, self,
/// total, and more.
fn nodes(tree: &CallTree, name: impl Fn(usize) -> String, more: impl Fn(usize) -> Vec<Value>) -> Value {
    let mut children = vec![Vec::new(); tree.len()];
    for node in (1..tree.len()).filter(|node| tree.total_value[*node] > 0) {
        children[tree.parent[node] as usize].push((name(node), node));
    }
    let mut rows = Vec::new();
    let mut open = vec![(0, 0, String::new())];
    while let Some((node, depth, name)) = open.pop() {
        if node > 0 {
            let (own, total) = (tree.self_value[node], tree.total_value[node]);
            let mut row = vec![json!(depth), json!(name), json!(own), json!(total)];
            row.extend(more(node));
            rows.push(Value::from(row));
        }
        children[node].sort();
        open.extend(children[node].drain(..).rev().map(|(name, child)| (child, depth + 1, name)));
    }
    rows.into()
}

/// Rows whose order depends on how functions are numbered.
fn sorted(mut rows: Vec<Value>) -> Value {
    rows.sort_by_cached_key(Value::to_string);
    rows.into()
}
