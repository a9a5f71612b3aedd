//! Stacks out of calls.
//!
//! With `own(f)` the own cost of a function and `cost(c → f)` that of all its calls from `c`:
//!
//! ```text
//! all(f)      = own(f) + Σ cost(f → g)
//! root(f)     = all(f) - Σ cost(c → f)                   what no recorded caller pays for
//! share of a stack … → c → f  =  share(… → c) · cost(c → f) / all(c)
//! own cost at that stack      =  share · own(f) / all(f)
//! ```
//! The heaviest stacks are made first, down to a small share of the whole. What is left of a line's own cost is added
//! to its heaviest stack when it is a rounding error, and else stands on a stack without callers: the sum of a line is
//! always exact.

use std::collections::BinaryHeap;

use whyslow_profile::{Frame, FunctionId, LocationId, MetricId, StackId, StringId, ThreadId};

use super::super::assemble::Assembly;
use super::parse::{Costs, Function};

/// Stacks below this share of every event's total are not made.
const LEAST_SHARE: f64 = 1e-4;
const MOST_STACKS: usize = 50_000;
const MOST_SAMPLES: usize = 4_000_000;
const DEEPEST: usize = 1000;
/// A rest of a line's cost below this share of it is a rounding error.
const ROUNDING: f64 = 0.01;

/// What the profile calls functions and files.
pub(super) struct Named<'a> {
    pub(super) functions: &'a [FunctionId],
    pub(super) files: &'a [Option<StringId>],
}

impl Named<'_> {
    fn location(&self, assembly: &mut Assembly, function: usize, file: usize, line: u32) -> LocationId {
        let id = self.functions[function];
        let module = assembly.profile.functions.get(id.index()).and_then(|function| function.module);
        let file = self.files.get(file).copied().flatten();
        assembly.location(module, 0, &[Frame { function: id, file, line }])
    }
}

/// A stack that may be made.
struct Node {
    weight: f64,
    function: usize,
    parent: Option<StackId>,
    depth: usize,
    share: Vec<f64>,
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

/// The rest of one line's own cost of one event, and the heaviest sample of it.
#[derive(Clone, Copy)]
struct Rest {
    left: u64,
    heaviest: Option<(usize, u64)>,
}

struct Line {
    file: usize,
    line: u32,
    cost: Vec<u64>,
    rest: Vec<Rest>,
}

pub(super) fn add_samples(
    assembly: &mut Assembly,
    costs: &Costs<'_>,
    named: &Named<'_>,
    metrics: &[MetricId],
    thread: ThreadId,
) {
    let events = metrics.len();
    let mut lines: Vec<Vec<Line>> = costs.functions.iter().map(own_lines).collect();
    let mut totals = vec![0.0; events];
    let mut all = vec![vec![0.0; events]; costs.functions.len()];
    let mut root = all.clone();
    let mut called = vec![false; costs.functions.len()];
    for (at, function) in costs.functions.iter().enumerate() {
        for cost in function.own.values() {
            add(&mut all[at], cost);
            add(&mut root[at], cost);
            add(&mut totals, cost);
        }
        for (&(callee, ..), cost) in &function.calls {
            add(&mut all[at], cost);
            add(&mut root[at], cost);
            subtract(&mut root[callee], cost);
            called[callee] = true;
        }
    }

    let weight = |share: &[f64]| {
        let parts = share.iter().zip(&totals);
        parts.map(|(part, total)| if *total > 0.0 { part / total } else { 0.0 }).fold(0.0, f64::max)
    };
    let mut heap: BinaryHeap<Node> = root
        .into_iter()
        .enumerate()
        .map(|(function, share)| Node { weight: weight(&share), function, parent: None, depth: 0, share })
        .filter(|node| node.weight >= LEAST_SHARE)
        .collect();
    let (mut stacks, mut samples) = (0, 0);
    while let Some(node) = heap.pop() {
        stacks += 1;
        if stacks > MOST_STACKS || samples > MOST_SAMPLES {
            break;
        }
        let whole = &all[node.function];
        let scale: Vec<f64> =
            node.share.iter().zip(whole).map(|(share, whole)| ratio(*share, *whole)).collect();
        for line in &mut lines[node.function] {
            let location = named.location(assembly, node.function, line.file, line.line);
            let stack = assembly.stack(node.parent, location);
            for event in 0..events {
                let value =
                    ((line.cost[event] as f64 * scale[event]).round() as u64).min(line.rest[event].left);
                if value > 0 {
                    line.rest[event].took(value, assembly.profile.samples[metrics[event].index()].len());
                    assembly.sample(metrics[event], 0, thread, stack, value);
                    samples += 1;
                }
            }
        }
        if node.depth >= DEEPEST {
            continue;
        }
        let mut calls: Vec<_> = costs.functions[node.function].calls.iter().collect();
        calls.sort_by_key(|(key, _)| **key);
        for (&(callee, file, line), cost) in calls {
            let share: Vec<f64> = cost.iter().zip(&scale).map(|(cost, scale)| *cost as f64 * scale).collect();
            let weight = weight(&share);
            if weight >= LEAST_SHARE {
                let location = named.location(assembly, node.function, file, line);
                let parent = Some(assembly.stack(node.parent, location));
                heap.push(Node { weight, function: callee, parent, depth: node.depth + 1, share });
            }
        }
    }
    add_rests(assembly, &lines, &called, named, metrics, thread);
}

/// Adds what the stacks left over.
fn add_rests(
    assembly: &mut Assembly,
    lines: &[Vec<Line>],
    called: &[bool],
    named: &Named<'_>,
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
                let location = named.location(assembly, function, line.file, line.line);
                let stack = assembly.stack(callers, location);
                assembly.sample(metrics[event], 0, thread, stack, rest.left);
            }
        }
    }
}

impl Rest {
    fn took(&mut self, value: u64, row: usize) {
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
        .map(|(&(file, line), cost)| {
            let rest = cost.iter().map(|&left| Rest { left, heaviest: None }).collect();
            Line { file, line, cost: cost.to_vec(), rest }
        })
        .collect();
    lines.sort_by_key(|line| (line.file, line.line));
    lines
}

fn add(sum: &mut [f64], cost: &[u64]) {
    sum.iter_mut().zip(cost).for_each(|(sum, cost)| *sum += *cost as f64);
}

fn subtract(sum: &mut [f64], cost: &[u64]) {
    sum.iter_mut().zip(cost).for_each(|(sum, cost)| *sum -= *cost as f64);
}

/// A part of a whole, between 0 and 1.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}
