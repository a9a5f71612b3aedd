//! Reconstructs stacks from calls.
//!
//! With `own(f)` the own cost of a function and `cost(c → f)` that of all its calls from `c`:
//!
//! ```text
//! all(f)      = own(f) + Σ cost(f → g)
//! root(f)     = all(f) - Σ cost(c → f)                   cost without a recorded caller
//! share of a stack … → c → f  =  share(… → c) · cost(c → f) / all(c)
//! own cost at that stack      =  share · own(f) / all(f)
//! ```
//! The heaviest stacks are built first, down to a small share of the total. The cost of the lighter calls is then distributed
//! along calls with cost left ([`flow`]), so that the inclusive cost of every function and call matches the file. Only the
//! rest that a cycle of calls leaves is on a stack without callers. The sum of a line is always exact.

use std::collections::BinaryHeap;

use whyslow_profile::{LocationId, MetricId, StackId, ThreadId};

use super::super::assemble::Assembly;
use super::flow::{Arc, Demand, Flow};
use super::named::Named;
use super::parse::{Costs, Function, Place};

/// Stacks below this share of every event's total are not built.
const LEAST_SHARE: f64 = 1e-4;
const MOST_STACKS: usize = 50_000;
const MOST_SAMPLES: usize = 4_000_000;
const DEEPEST: usize = 1000;
/// A remainder below this share of a line's cost is a rounding error.
const ROUNDING: f64 = 0.01;

/// A candidate stack.
struct Node {
    weight: f64,
    function: usize,
    parent: Option<StackId>,
    depth: usize,
    share: Vec<u64>,
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Node {}

impl PartialOrd for Node {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Node {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.weight.total_cmp(&other.weight).then_with(|| other.function.cmp(&self.function))
    }
}

impl From<Node> for Demand {
    fn from(node: Node) -> Self {
        Self { function: node.function, parent: node.parent, share: node.share }
    }
}

/// The remainder of one line's own cost for one event, and its heaviest sample.
#[derive(Clone, Copy)]
pub(super) struct Rest {
    pub(super) left: u64,
    heaviest: Option<(usize, u64)>,
}

pub(super) struct Line {
    pub(super) place: Place,
    cost: Vec<u64>,
    pub(super) rest: Vec<Rest>,
}

pub(super) fn add_samples(
    assembly: &mut Assembly,
    costs: &Costs<'_>,
    named: &mut Named<'_>,
    metrics: &[MetricId],
    thread: ThreadId,
) {
    let events = metrics.len();
    let mut lines: Vec<Vec<Line>> = costs.functions.iter().map(own_lines).collect();
    let mut totals = vec![0; events];
    let mut all = vec![vec![0; events]; costs.functions.len()];
    let mut paid = all.clone();
    for (at, function) in costs.functions.iter().enumerate() {
        for cost in function.own.values() {
            add(&mut all[at], cost);
            add(&mut totals, cost);
        }
        // The cost of a recursive call is the function's own anyway.
        for (&(callee, _), call) in function.calls.iter().filter(|((callee, _), _)| *callee != at) {
            add(&mut all[at], &call.cost);
            add(&mut paid[callee], &call.cost);
        }
    }
    let called: Vec<bool> = paid.iter().map(|paid| paid.iter().any(|cost| *cost > 0)).collect();
    let root = all.iter().zip(&paid).map(|(all, paid)| {
        all.iter().zip(paid).map(|(all, paid)| all.saturating_sub(*paid)).collect::<Vec<u64>>()
    });
    let mut arcs: Vec<Vec<Arc>> =
        costs.functions.iter().enumerate().map(|(at, function)| Arc::of(at, function)).collect();
    let mut demands: Vec<Demand> = Vec::new();

    let weight = |share: &[u64]| {
        let parts = share.iter().zip(&totals);
        parts
            .map(|(&part, &total)| if total > 0 { part as f64 / total as f64 } else { 0.0 })
            .fold(0.0, f64::max)
    };
    let mut heap: BinaryHeap<Node> = BinaryHeap::new();
    for (function, share) in root.enumerate() {
        let node = Node { weight: weight(&share), function, parent: None, depth: 0, share };
        if node.weight >= LEAST_SHARE {
            heap.push(node);
        } else if node.weight > 0.0 {
            demands.push(node.into());
        }
    }
    let (mut stacks, mut samples) = (0, 0);
    while let Some(node) = heap.pop() {
        stacks += 1;
        if stacks > MOST_STACKS || samples > MOST_SAMPLES || node.depth >= DEEPEST {
            demands.push(node.into());
            continue;
        }
        let whole = &all[node.function];
        let part = |cost: &[u64], event: usize| part(cost[event], node.share[event], whole[event]);
        // What the lines and the heavier calls do not take is distributed later.
        let mut left = node.share.clone();
        for line in &mut lines[node.function] {
            let location = named.location(assembly, node.function, line.place);
            let stack = assembly.stack(node.parent, location);
            for event in 0..events {
                let value = part(&line.cost, event).min(line.rest[event].left).min(left[event]);
                if value > 0 {
                    left[event] -= value;
                    line.rest[event].took(value, assembly.profile.samples[metrics[event].index()].len());
                    assembly.sample(metrics[event], 0, thread, stack, value);
                    samples += 1;
                }
            }
        }
        for arc in &mut arcs[node.function] {
            let share: Vec<u64> = (0..events)
                .map(|event| part(&arc.cost, event).min(arc.left[event]).min(left[event]))
                .collect();
            let weight = weight(&share);
            if weight >= LEAST_SHARE {
                subtract(&mut arc.left, &share);
                subtract(&mut left, &share);
                let location = named.location(assembly, node.function, arc.place);
                let parent = Some(assembly.stack(node.parent, location));
                heap.push(Node { weight, function: arc.callee, parent, depth: node.depth + 1, share });
            }
        }
        demands.push(Demand { function: node.function, parent: node.parent, share: left });
    }
    Flow { lines: &mut lines, arcs: &mut arcs, named: &mut *named, thread }
        .satisfy(assembly, demands, metrics);
    add_rests(assembly, &lines, &called, named, metrics, thread);
}

/// Adds the remainders that stacks do not cover.
fn add_rests(
    assembly: &mut Assembly,
    lines: &[Vec<Line>],
    called: &[bool],
    named: &mut Named<'_>,
    metrics: &[MetricId],
    thread: ThreadId,
) {
    for (function, lines) in lines.iter().enumerate() {
        for line in lines {
            for (event, rest) in line.rest.iter().enumerate().filter(|(_, rest)| rest.left > 0) {
                let small = rest.left as f64 <= line.cost[event] as f64 * ROUNDING || rest.left < 100;
                if let Some((row, _)) = rest.heaviest.filter(|_| small) {
                    assembly.profile.samples[metrics[event].index()].value[row] += rest.left;
                    continue;
                }
                let callers = called[function].then(|| assembly.stack(None, LocationId::TRUNCATED));
                let location = named.location(assembly, function, line.place);
                let stack = assembly.stack(callers, location);
                assembly.sample(metrics[event], 0, thread, stack, rest.left);
            }
        }
    }
}

impl Rest {
    pub(super) fn took(&mut self, value: u64, row: usize) {
        self.left -= value;
        if self.heaviest.is_none_or(|(_, heaviest)| heaviest < value) {
            self.heaviest = Some((row, value));
        }
    }
}

fn own_lines(function: &Function<'_>) -> Vec<Line> {
    let mut lines: Vec<Line> = function
        .own
        .iter()
        .map(|(&place, cost)| {
            let rest = cost.iter().map(|&left| Rest { left, heaviest: None }).collect();
            Line { place, cost: cost.to_vec(), rest }
        })
        .collect();
    lines.sort_by_key(|line| line.place);
    lines
}

fn add(sum: &mut [u64], cost: &[u64]) {
    sum.iter_mut().zip(cost).for_each(|(sum, cost)| *sum = sum.saturating_add(*cost));
}

fn subtract(sum: &mut [u64], cost: &[u64]) {
    sum.iter_mut().zip(cost).for_each(|(sum, cost)| *sum = sum.saturating_sub(*cost));
}

/// `cost · share / whole`, rounded down; the whole cost if the share exceeds the total, as in a cycle of
/// calls.
fn part(cost: u64, share: u64, whole: u64) -> u64 {
    if share >= whole { cost } else { (u128::from(cost) * u128::from(share) / u128::from(whole)) as u64 }
}
