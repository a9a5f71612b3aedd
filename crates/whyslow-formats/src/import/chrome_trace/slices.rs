//! The slices of one thread, as spans and as stacks over time.

use whyslow_profile::{Frame, FunctionId, ImportNote, MetricId, Span, StackId, StringId, ThreadId};

use super::super::assemble::{Assembly, FunctionText};

#[derive(Debug, Clone, Copy)]
struct Slice {
    start: f64,
    end: f64,
    name: StringId,
    detail: Option<StringId>,
}

/// Slices in the order of the file.
#[derive(Debug, Default)]
pub(super) struct Slices {
    whole: Vec<Slice>,
    open: Vec<Slice>,
    last: f64,
}

impl Slices {
    pub(super) fn begin(&mut self, start: f64, name: StringId, detail: Option<StringId>) {
        self.open.push(Slice { start, end: start, name, detail });
        self.last = self.last.max(start);
    }

    /// Ends the slice that started last. Returns false if none is open.
    pub(super) fn end(&mut self, end: f64) -> bool {
        let Some(slice) = self.open.pop() else { return false };
        let end = end.max(slice.start);
        self.last = self.last.max(end);
        self.whole.push(Slice { end, ..slice });
        true
    }

    pub(super) fn add(&mut self, start: f64, end: f64, name: StringId, detail: Option<StringId>) {
        self.last = self.last.max(end);
        self.whole.push(Slice { start, end, name, detail });
    }

    /// When the first slice starts.
    pub(super) fn first(&self) -> Option<f64> {
        self.whole.iter().chain(&self.open).map(|slice| slice.start).reduce(f64::min)
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
        if !self.open.is_empty() {
            assembly.note(ImportNote::OpenStretches);
            let last = self.last;
            self.whole.extend(self.open.drain(..).map(|slice| Slice { end: last.max(slice.start), ..slice }));
        }
        // Outer slices first: they start earlier, or end later.
        self.whole.sort_by(|a, b| a.start.total_cmp(&b.start).then(b.end.total_cmp(&a.end)));
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
    let name = if name.is_empty() { "[no name]" } else { &name };
    assembly.function(&FunctionText { name, ..FunctionText::default() })
}
