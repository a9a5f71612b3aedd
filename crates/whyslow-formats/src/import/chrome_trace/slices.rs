//! The slices of one thread, as spans and as stacks over time.

use whyslow_profile::{
    Frame, FunctionId, ImportNote, MetricId, Span, SpecialFrame, StackId, StringId, ThreadId,
};

use super::super::assemble::{Assembly, FunctionText};

#[derive(Debug, Clone, Copy)]
struct Slice {
    start: f64,
    end: f64,
    name: StringId,
    detail: Option<StringId>,
    /// Tells which of two slices of the same time is the outer one.
    order: usize,
}

/// A begin with its name, or an end, which may have a name.
#[derive(Debug, Clone, Copy)]
enum Edge {
    Begin { name: StringId, detail: Option<StringId> },
    End { name: Option<StringId> },
}

/// Slices and edges in the order of the file, which need not be the order of time.
#[derive(Debug, Default)]
pub(super) struct Slices {
    whole: Vec<Slice>,
    edges: Vec<(f64, Edge)>,
}

impl Slices {
    pub(super) fn begin(&mut self, start: f64, name: StringId, detail: Option<StringId>) {
        self.edges.push((start, Edge::Begin { name, detail }));
    }

    pub(super) fn end(&mut self, end: f64, name: Option<StringId>) {
        self.edges.push((end, Edge::End { name }));
    }

    pub(super) fn add(&mut self, start: f64, end: f64, name: StringId, detail: Option<StringId>) {
        let order = self.whole.len();
        self.whole.push(Slice { start, end, name, detail, order });
    }

    /// When the first slice starts.
    pub(super) fn first(&self) -> Option<f64> {
        let begins = self.edges.iter().filter(|(_, edge)| matches!(edge, Edge::Begin { .. }));
        self.whole.iter().map(|slice| slice.start).chain(begins.map(|(time, _)| *time)).reduce(f64::min)
    }

    /// Joins begins and ends in the order of time. Returns how many ends have no begin, and how many begins
    /// no end: those slices last until the end of the thread's events.
    pub(super) fn join(&mut self) -> (u64, u64) {
        let mut edges = std::mem::take(&mut self.edges);
        edges.sort_by(|a, b| a.0.total_cmp(&b.0));
        let last = self.whole.iter().map(|slice| slice.end);
        let last = last.chain(edges.iter().map(|(time, _)| *time)).fold(f64::NEG_INFINITY, f64::max);
        let mut open: Vec<Slice> = Vec::new();
        let mut unmatched = 0;
        let first = self.whole.len();
        for (at, (time, edge)) in edges.into_iter().enumerate() {
            match edge {
                Edge::Begin { name, detail } => {
                    open.push(Slice { start: time, end: time, name, detail, order: first + at });
                }
                Edge::End { name } => {
                    let named = |slice: &Slice| name.is_none_or(|name| name == slice.name);
                    match open.iter().rposition(named) {
                        Some(at) => self.whole.push(Slice { end: time, ..open.remove(at) }),
                        None => unmatched += 1,
                    }
                }
            }
        }
        let without_end = open.len() as u64;
        self.whole.extend(open.into_iter().map(|slice| Slice { end: last.max(slice.start), ..slice }));
        (unmatched, without_end)
    }

    /// Adds the slices to the profile. Each sample is an interval in which nothing changes, weighted by its
    /// length.
    pub(super) fn finish(
        mut self,
        assembly: &mut Assembly,
        metric: MetricId,
        thread: ThreadId,
        since: impl Fn(f64) -> u64,
    ) {
        // Outer slices first: they start earlier, or end later.
        let by_time = |a: &Slice, b: &Slice| a.start.total_cmp(&b.start).then(b.end.total_cmp(&a.end));
        self.whole.sort_by(|a, b| by_time(a, b).then(a.order.cmp(&b.order)));
        let mut running: Vec<(u64, StackId)> = Vec::new();
        let mut now = 0;
        let mut overlapping = false;
        for slice in &self.whole {
            let (start_ns, end_ns) = (since(slice.start), since(slice.end));
            let &Slice { name, detail, .. } = slice;
            assembly.span(Span { name, thread: Some(thread), start_ns, end_ns, detail });
            leave(assembly, metric, thread, &mut running, &mut now, start_ns);
            let (outer_end, parent) =
                running.last().map_or((u64::MAX, None), |&(end, stack)| (end, Some(stack)));
            if let Some(&(_, stack)) = running.last()
                && start_ns > now
            {
                assembly.sample(metric, now, thread, stack, start_ns - now);
            }
            now = now.max(start_ns);
            overlapping |= end_ns > outer_end;
            let function = function(assembly, name);
            let location = assembly.location(None, 0, &[Frame { function, file: None, line: 0 }]);
            let stack = assembly.stack(parent, location);
            running.push((end_ns.min(outer_end), stack));
        }
        leave(assembly, metric, thread, &mut running, &mut now, u64::MAX);
        if overlapping {
            assembly.note(ImportNote::OverlappingStretches);
        }
    }
}

/// Closes the slices that have ended by a time.
fn leave(
    assembly: &mut Assembly,
    metric: MetricId,
    thread: ThreadId,
    running: &mut Vec<(u64, StackId)>,
    now: &mut u64,
    until: u64,
) {
    while let Some(&(end, stack)) = running.last().filter(|(end, _)| *end <= until) {
        if end > *now {
            assembly.sample(metric, *now, thread, stack, end - *now);
            *now = end;
        }
        running.pop();
    }
}

fn function(assembly: &mut Assembly, name: StringId) -> FunctionId {
    let name = assembly.profile.text(name).to_owned();
    let name = if name.is_empty() { SpecialFrame::NoName.text() } else { &name };
    assembly.function(&FunctionText { name, ..FunctionText::default() })
}
