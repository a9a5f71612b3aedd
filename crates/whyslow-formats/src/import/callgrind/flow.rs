//! Distributes the cost of lighter calls over the lines that still have cost.
//!
//! A demand is the cost of a call whose stack is not divided further. From there, calls with cost left are
//! followed to a line with cost left, and the minimum along the path is taken from each. So each walk uses up
//! a demand, a call or a line. If calls have no cycles, everything is used up in the end.

use whyslow_profile::{MetricId, StackId, ThreadId};

use super::super::assemble::Assembly;
use super::named::Named;
use super::parse::{Function, Place};
use super::tree::Line;

/// The maximum length of a walk, and the maximum number of calls that all walks examine.
const LONGEST: usize = 200;
const MOST_STEPS: usize = 4_000_000;

/// The calls from one line to one function.
pub(super) struct Arc {
    pub(super) callee: usize,
    pub(super) place: Place,
    pub(super) cost: Vec<u64>,
    /// The cost that no stack has used yet.
    pub(super) left: Vec<u64>,
}

impl Arc {
    /// The calls from a function to others.
    pub(super) fn of(at: usize, function: &Function<'_>) -> Vec<Self> {
        let calls = function.calls.iter().filter(|((callee, ..), _)| *callee != at);
        let mut arcs: Vec<Self> = calls
            .map(|(&(callee, place), call)| Self {
                callee,
                place,
                cost: call.cost.to_vec(),
                left: call.cost.to_vec(),
            })
            .collect();
        arcs.sort_by_key(|arc| (arc.callee, arc.place));
        arcs
    }
}

/// The cost of a call, beneath the stack that made it.
pub(super) struct Demand {
    pub(super) function: usize,
    pub(super) parent: Option<StackId>,
    pub(super) share: Vec<u64>,
}

/// Lines and calls with their remaining cost, both by function.
pub(super) struct Flow<'a, 'n> {
    pub(super) lines: &'a mut [Vec<Line>],
    pub(super) arcs: &'a mut [Vec<Arc>],
    pub(super) named: &'a mut Named<'n>,
    pub(super) thread: ThreadId,
}

/// The first lines and calls of a function that are not used up.
#[derive(Debug, Default, Clone, Copy)]
struct Unused {
    line: usize,
    arc: usize,
}

impl Flow<'_, '_> {
    /// Finds lines for all demands.
    pub(super) fn satisfy(
        &mut self,
        assembly: &mut Assembly,
        mut demands: Vec<Demand>,
        metrics: &[MetricId],
    ) {
        let mut steps = 0;
        let mut unused = vec![Unused::default(); self.lines.len()];
        for (event, &metric) in metrics.iter().enumerate() {
            unused.fill(Unused::default());
            demands.sort_by_key(|demand| std::cmp::Reverse(demand.share[event]));
            for demand in &demands {
                let mut left = demand.share[event];
                while left > 0 && steps < MOST_STEPS {
                    match self.walk(demand.function, left, event, &mut unused, &mut steps) {
                        Walked::Line(found) => {
                            self.take(assembly, demand, &found, event, metric);
                            left -= found.value;
                        }
                        Walked::DeadEnd => {}
                        Walked::Nothing => break,
                    }
                }
            }
        }
    }

    /// Follows calls from a function to a line.
    fn walk(
        &mut self,
        from: usize,
        mut most: u64,
        event: usize,
        unused: &mut [Unused],
        steps: &mut usize,
    ) -> Walked {
        let mut way: Vec<(usize, usize)> = Vec::new();
        let mut at = from;
        loop {
            *steps += 1;
            let (lines, arcs, begin) = (&self.lines[at], &self.arcs[at], &mut unused[at]);
            begin.line += lines[begin.line..].iter().take_while(|line| line.rest[event].left == 0).count();
            if let Some(line) = lines.get(begin.line) {
                let value = line.rest[event].left.min(most);
                return Walked::Line(Found { way, function: at, line: begin.line, value });
            }
            begin.arc += arcs[begin.arc..].iter().take_while(|arc| arc.left[event] == 0).count();
            let is_open =
                |callee: usize| callee == from || way.iter().any(|&(function, _)| function == callee);
            let free = |arc: &Arc| arc.left[event] > 0 && !is_open(arc.callee);
            let rest = &arcs[begin.arc..];
            let next = rest.iter().position(free).filter(|_| way.len() < LONGEST);
            *steps += next.unwrap_or(rest.len());
            match (next, way.last()) {
                (Some(row), _) => {
                    let row = begin.arc + row;
                    most = most.min(arcs[row].left[event]);
                    way.push((at, row));
                    at = arcs[row].callee;
                }
                (None, Some(&(function, row))) => {
                    self.arcs[function][row].left[event] = 0;
                    return Walked::DeadEnd;
                }
                (None, None) => return Walked::Nothing,
            }
        }
    }

    /// Assigns a value to the line at the end of a path, and subtracts it from everything on the path.
    fn take(
        &mut self,
        assembly: &mut Assembly,
        demand: &Demand,
        found: &Found,
        event: usize,
        metric: MetricId,
    ) {
        let mut stack = demand.parent;
        for &(caller, row) in &found.way {
            let arc = &mut self.arcs[caller][row];
            arc.left[event] = arc.left[event].saturating_sub(found.value);
            let location = self.named.location(assembly, caller, arc.place);
            stack = Some(assembly.stack(stack, location));
        }
        let line = &mut self.lines[found.function][found.line];
        let location = self.named.location(assembly, found.function, line.place);
        let stack = assembly.stack(stack, location);
        line.rest[event].took(found.value, assembly.profile.samples[metric.index()].len());
        assembly.sample(metric, 0, self.thread, stack, found.value);
    }
}

/// The result of following calls.
enum Walked {
    Line(Found),
    /// A function with nothing left. Its call is now closed.
    DeadEnd,
    /// No path.
    Nothing,
}

/// A line with cost left.
struct Found {
    /// The calls that lead to it, each a function and the row of its call.
    way: Vec<(usize, usize)>,
    function: usize,
    /// The row of the line in its function.
    line: usize,
    /// The minimum of what they have left.
    value: u64,
}
