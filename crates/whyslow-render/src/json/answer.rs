//! The JSON of any answer.

use whyslow_answers::{Answer, Body};

use super::{
    Context, caches, callers, causal, critical_path, groups, heap, hot_lines, lines, locks, memory,
    parallelism, quality, report, spans, syscalls, tasks, threads, to_string, tree, waits,
};

impl<'a> Context<'a> {
    fn of(answer: &'a Answer<'_>) -> Self {
        Self {
            profile: answer.profile,
            metric: answer.metric,
            quality: &answer.quality,
            sites: answer.sites.as_ref(),
            site_limit: answer.query.limit.unwrap_or(usize::MAX),
        }
    }
}

/// Writes an answer as indented JSON with a trailing newline. Without a limit in its query, it has all rows.
pub fn answer(answer: &Answer<'_>) -> serde_json::Result<String> {
    let (context, query) = (Context::of(answer), answer.query);
    let (c, found, rows) = (&context, &answer.findings, query.limit.unwrap_or(usize::MAX));
    match &answer.body {
        Body::Summary(body) => to_string(&super::summary::summary(c, body, answer)),
        Body::Functions(body) => {
            to_string(&report(c, &body.functions, &body.own, &body.hot_path, &body.threads, rows))
        }
        Body::Tree(body) => {
            to_string(&tree(c, &body.outline, body.samples, query.inverted, query.min_branch()))
        }
        Body::Callers(body) => to_string(&callers(c, body, query.min_branch())),
        Body::Lines(body) => to_string(&lines(c, body)),
        Body::HotLines(body) => to_string(&hot_lines(c, body, rows)),
        Body::Threads(body) => to_string(&threads(c, body)),
        Body::Groups(by, body) => to_string(&groups(c, body, *by, rows)),
        Body::Spans(body) => to_string(&spans(c, body, rows)),
        Body::Waits(body) => to_string(&waits(c, body, found, rows)),
        Body::Locks(body) => to_string(&locks(c, body, rows)),
        Body::CriticalPath(body) => to_string(&critical_path(c, body, rows)),
        Body::Tasks(body, blocked) => to_string(&tasks(c, body, blocked, found, rows)),
        Body::Parallelism(body) => to_string(&parallelism(c, body, found, rows)),
        Body::Syscalls(body) => to_string(&syscalls(c, body, found, rows)),
        Body::Cache(body) => to_string(&caches(c, body, query.limit)),
        Body::Causal(body) => to_string(&causal(c, body, rows)),
        Body::Heap(body) | Body::Leaks(body) => to_string(&heap(c, body.samples, body.value)),
        Body::Memory(body) => to_string(&memory(c, body)),
        Body::Quality { value } => to_string(&quality(c, *value)),
    }
}
