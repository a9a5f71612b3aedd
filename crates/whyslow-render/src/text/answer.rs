//! The text of any answer.

use whyslow_analyze::heap::Sites;
use whyslow_answers::{Answer, Body, PartOfHeap, Query, Ranking};

use super::caches::cache_table;
use super::causal::causal_table;
use super::critical::critical_path_table;
use super::functions::function_table;
use super::groups::group_table;
use super::heap::heap_table;
use super::lines::line_table;
use super::locks::lock_table;
use super::memory::memory_table;
use super::own::{hot_line_table, own_table};
use super::parallelism::level_table;
use super::quality::experiment_lines;
use super::spans::span_table;
use super::syscalls::syscall_table;
use super::tasks::task_table;
use super::threads::thread_table;
use super::waits::wait_table;
use super::{
    HeapView, Page, TreeView, caches, callers, causal, critical_path, functions, groups, heap, heap_part,
    hot_lines, leaks_of, lines, locks, memory, own_functions, parallelism, programs, quality, spans,
    summary::summary, syscalls, tasks, threads, tree, verdict_lines, waits,
};
use crate::table::Table;

/// Default number of rows.
pub const ROWS: usize = 40;
/// This many lost lines fit a screen with their callers.
const LEAKS: usize = 20;

/// Renders an answer for a terminal of this width. Above most views is how far to trust the profile.
pub fn answer(answer: &Answer<'_>, width: usize, full_names: bool) -> String {
    let page = Page::new(answer.profile, answer.metric, width).with_full_names(full_names);
    let text = body(answer, page);
    match answer.body {
        Body::Summary(_) | Body::Heap(_) | Body::Memory(_) | Body::Cache(_) | Body::Quality { .. } => text,
        Body::Causal(_) => format!("{}{text}", experiment_lines(&answer.quality, page)),
        _ => format!("{}\n{text}", verdict_lines(&answer.quality, page)),
    }
}

fn body(answer: &Answer<'_>, page: Page) -> String {
    let Answer { profile, query, .. } = *answer;
    let rows = query.limit.unwrap_or(ROWS);
    match &answer.body {
        Body::Summary(summary) if summary.is_of_heap => heap_of(answer, page),
        Body::Summary(body) => {
            // Its functions are about the main metric, also if its waits are the answer.
            let page = Page::new(profile, profile.main_metric(), page.width);
            summary(body, answer, page)
        }
        Body::Functions(body) => {
            let programs = programs(profile, &body.threads, page);
            let functions = match query.ranking {
                Ranking::Own => own_functions(profile, &body.own, rows, page),
                Ranking::SelfTime | Ranking::Total => functions(profile, &body.functions, rows, page),
            };
            format!("{programs}{functions}")
        }
        Body::Tree(body) => {
            let view = TreeView { inverted: query.inverted, min_share: query.min_branch() };
            tree(profile, &body.outline, view, page)
        }
        Body::Callers(body) => callers(profile, body, query.min_branch(), page),
        Body::Lines(body) => lines(profile, body, page),
        Body::HotLines(body) => hot_lines(profile, body, rows, page),
        Body::Threads(body) => threads(profile, body, rows, page),
        Body::Groups(by, body) => groups(profile, body, *by, rows, page),
        Body::Spans(body) => spans(body, rows, page),
        Body::Waits(body) => waits(body, &answer.findings, profile, rows, page),
        Body::Locks(body) => locks(body, profile, rows, page),
        Body::CriticalPath(body) => critical_path(body, profile, rows, page),
        Body::Tasks(body, _) => tasks(body, &answer.findings, profile, rows, page),
        Body::Parallelism(body) => parallelism(body, &answer.findings, profile, page),
        Body::Syscalls(body) => syscalls(body, &answer.findings, profile, rows, page),
        Body::Cache(body) => caches(body, answer, page),
        Body::Causal(body) => causal(body, profile, rows, page),
        Body::Heap(_) | Body::Leaks(_) => heap_of(answer, page),
        Body::Memory(body) => memory(body, profile, page),
        Body::Quality { .. } => quality(&answer.quality, page.width),
    }
}

/// The main table of an answer, at most `limit` rows of it, with complete names; `None` for views that are no
/// table: trees and the quality.
pub fn table(answer: &Answer<'_>, limit: usize) -> Option<Table> {
    let profile = answer.profile;
    let page = Page::new(profile, answer.metric, usize::MAX).with_full_names(true);
    Some(match &answer.body {
        Body::Functions(body) => match answer.query.ranking {
            Ranking::Own => own_table(profile, &body.own, limit, true, page),
            Ranking::SelfTime | Ranking::Total => function_table(profile, &body.functions, limit, true, page),
        },
        Body::Lines(body) => line_table(profile, body, page),
        Body::HotLines(body) => hot_line_table(profile, body, limit, page),
        Body::Threads(body) => thread_table(profile, body, limit, page),
        Body::Groups(by, body) => group_table(profile, body, *by, limit, page),
        Body::Spans(body) => span_table(body, limit, page),
        Body::Waits(body) => wait_table(body, profile, limit, page),
        Body::Locks(body) => lock_table(body, profile, limit, page),
        Body::CriticalPath(body) => critical_path_table(body, profile, limit, page),
        Body::Tasks(body, _) => task_table(body, profile, limit, page),
        Body::Parallelism(body) => level_table(body, profile, limit, page),
        Body::Syscalls(body) => syscall_table(body, profile, limit, page),
        Body::Cache(body) => cache_table(&body.caches),
        Body::Causal(body) => causal_table(body, profile, limit, page),
        Body::Memory(body) => memory_table(body, limit),
        Body::Heap(_) | Body::Leaks(_) => heap_table(profile, sites_of(answer)?, limit, page),
        Body::Summary(_) | Body::Tree(_) | Body::Callers(_) | Body::Quality { .. } => return None,
    })
}

/// The part of the heap that an answer is about, if it is not the whole.
fn part_of<'a>(answer: &'a Answer<'_>) -> Option<&'a PartOfHeap> {
    match &answer.body {
        Body::Heap(heap) | Body::Leaks(heap) => heap.part.as_ref(),
        _ => None,
    }
}

fn sites_of<'a>(answer: &'a Answer<'_>) -> Option<&'a Sites> {
    part_of(answer).map(|part| &part.sites).or(answer.sites.as_ref())
}

fn heap_of(answer: &Answer<'_>, page: Page) -> String {
    let Answer { profile, query, quality, body, .. } = answer;
    let part = part_of(answer);
    let Some(sites) = sites_of(answer) else { return String::new() };
    let Query { limit, histograms, .. } = **query;
    let view = HeapView { profile, sites, quality, limit, histograms, saved: query.file.as_deref() };
    match (body, part) {
        (Body::Leaks(_), _) => {
            leaks_of(&HeapView { limit: limit.or(Some(LEAKS)), histograms: false, saved: None, ..view }, page)
        }
        (_, Some(part)) => heap_part(&view, &part.processes, page),
        (_, None) => heap(&view, page),
    }
}
