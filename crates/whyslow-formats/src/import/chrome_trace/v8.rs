//! V8's sampled profiles: a `.cpuprofile` file, or its parts among trace events.
//!
//! ```text
//! node    = id, callFrame: {functionName, url, lineNumber}, children: ids  or  parent: id
//! samples = ids of nodes; timeDeltas = microseconds before each of them; endTime = microseconds
//! ```
//! Before 2016, `head` is a tree of nodes, and `timestamps` are the times of the samples.

use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::Value;
use whyslow_profile::{Frame, ImportNote, LocationId, Metric, Sampler, StackId, ThreadId};

use super::super::assemble::{Assembly, FunctionText};
use super::super::json::{Number, Text};
use super::document::{Event, Id};

/// A function on a stack.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Node<'a> {
    id: Number,
    parent: Option<Number>,
    #[serde(rename = "callFrame", borrow)]
    frame: CallFrame<'a>,
    children: Vec<Number>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CallFrame<'a> {
    #[serde(rename = "functionName", borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    url: Text<'a>,
    /// From 0; -1 if unknown.
    #[serde(rename = "lineNumber")]
    line: Option<Number>,
}

/// A node with its callees.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Tree<'a> {
    id: Number,
    #[serde(borrow)]
    function_name: Text<'a>,
    #[serde(borrow)]
    url: Text<'a>,
    /// From 1.
    line_number: Option<Number>,
    #[serde(borrow)]
    children: Vec<Tree<'a>>,
}

/// A stored node: name, file, line from 1.
type Kept = (String, String, u32);

/// One profile.
#[derive(Debug, Default)]
struct Profile {
    thread: Option<ThreadId>,
    start: f64,
    nodes: FxHashMap<u64, Kept>,
    parents: FxHashMap<u64, u64>,
    samples: Vec<u64>,
    deltas: Vec<f64>,
    /// The times of the samples, if there are no deltas.
    times: Vec<f64>,
    end: Option<f64>,
}

/// All profiles of a file.
#[derive(Debug, Default)]
pub(super) struct V8 {
    /// The profile of a `.cpuprofile`.
    file: Profile,
    /// The profiles among trace events, by process and id.
    parts: FxHashMap<(Id, Id), Profile>,
    /// Profiles that are one event each.
    whole: Vec<Profile>,
}

impl V8 {
    pub(super) fn file_nodes(&mut self, nodes: &[Node<'_>]) {
        self.file.add_nodes(nodes);
    }

    pub(super) fn file_samples(&mut self, samples: Vec<f64>) {
        self.file.samples = samples.into_iter().map(key).collect();
    }

    pub(super) fn file_deltas(&mut self, deltas: Vec<f64>) {
        self.file.deltas = deltas;
    }

    pub(super) fn file_start(&mut self, start: f64) {
        self.file.start = start;
    }

    pub(super) fn file_end(&mut self, end: f64) {
        self.file.end = Some(end);
    }

    pub(super) fn file_tree(&mut self, head: &Tree<'_>) {
        self.file.add_tree(head);
    }

    pub(super) fn file_times(&mut self, times: Vec<f64>) {
        self.file.times = times;
    }

    /// Whether an event holds a whole profile.
    pub(super) fn is_whole(event: &Event<'_>) -> bool {
        event.args.pointer("/data/cpuProfile/nodes").is_some()
    }

    /// Adds the profile of an event that holds all of it.
    pub(super) fn whole(&mut self, event: &Event<'_>, thread: ThreadId) {
        let Some(part) = event.args.pointer("/data/cpuProfile") else { return };
        let mut profile = Profile { thread: Some(thread), ..Profile::default() };
        let start = part.get("startTime").and_then(Value::as_f64);
        profile.start = start.unwrap_or(event.time.0);
        profile.add_part(part, None);
        self.whole.push(profile);
    }

    /// Adds a part of a profile. Returns false if it does not look like one.
    pub(super) fn chunk(&mut self, event: &Event<'_>, thread: ThreadId) -> bool {
        let Some(data) = event.args.get("data") else { return false };
        let profile = self.parts.entry((event.pid.clone(), event.id.clone())).or_default();
        if event.name.as_str() == "Profile" {
            profile.start = data.get("startTime").and_then(Value::as_f64).unwrap_or(event.time.0);
            profile.thread = Some(thread);
            return true;
        }
        profile.thread.get_or_insert(thread);
        let part = data.get("cpuProfile").unwrap_or(&Value::Null);
        profile.add_part(part, data.get("timeDeltas"));
        if let Some(end) = data.get("endTime").and_then(Value::as_f64) {
            profile.end = Some(end);
        }
        true
    }

    /// When the first sample was taken.
    pub(super) fn first(&self) -> Option<f64> {
        let profiles = self.parts.values().chain(&self.whole).chain([&self.file]);
        profiles.flat_map(|profile| profile.timed().into_iter().map(|(time, _)| time)).reduce(f64::min)
    }

    /// Adds the samples to the profile.
    pub(super) fn finish(self, assembly: &mut Assembly, since: impl Fn(f64) -> u64) {
        let mut parts: Vec<((Id, Id), Profile)> = self.parts.into_iter().collect();
        parts.sort_by_key(|(key, _)| format!("{} {}", key.0, key.1));
        let profiles = parts.into_iter().map(|(_, profile)| profile).chain(self.whole).chain([self.file]);
        let profiles: Vec<Profile> = profiles.filter(|profile| !profile.samples.is_empty()).collect();
        if profiles.is_empty() {
            return;
        }
        let metric = assembly.metric(Metric::cpu_time(Sampler::default()));
        for profile in profiles {
            let thread = profile.thread.unwrap_or_else(|| {
                let process = assembly.process(0, "cpuprofile");
                assembly.thread(process, 0, "main")
            });
            let mut stacks: FxHashMap<u64, Option<StackId>> = FxHashMap::default();
            let timed = profile.timed();
            let last = profile.last_length(&timed);
            for (at, &(time, node)) in timed.iter().enumerate() {
                let length = timed.get(at + 1).map_or(last, |(next, _)| next - time);
                let value = super::json::nanoseconds(length, super::NS_PER_US);
                match profile.stack(node, assembly, &mut stacks) {
                    Some(stack) if value > 0 => assembly.sample(metric, since(time), thread, stack, value),
                    _ => {}
                }
            }
        }
    }
}

impl Profile {
    /// Adds nodes and samples. The time deltas are in the part, or next to it.
    fn add_part(&mut self, part: &Value, deltas: Option<&Value>) {
        if let Some(nodes) = part.get("nodes")
            && let Ok(nodes) = Vec::<Node<'_>>::deserialize(nodes)
        {
            self.add_nodes(&nodes);
        }
        let numbers = |value: Option<&Value>| -> Vec<f64> {
            let items = value.and_then(Value::as_array);
            items.map(|items| items.iter().filter_map(Value::as_f64).collect()).unwrap_or_default()
        };
        self.samples.extend(numbers(part.get("samples")).into_iter().map(key));
        self.deltas.extend(numbers(deltas.or_else(|| part.get("timeDeltas"))));
        self.end = part.get("endTime").and_then(Value::as_f64).or(self.end);
    }

    fn add_tree(&mut self, head: &Tree<'_>) {
        let mut left = vec![head];
        while let Some(node) = left.pop() {
            let id = key(node.id.0);
            self.parents.extend(node.children.iter().map(|child| (key(child.id.0), id)));
            let line = node.line_number.map_or(0, |line| line.0 as u32);
            let name = node.function_name.as_str().to_owned();
            self.nodes.insert(id, (name, node.url.as_str().to_owned(), line));
            left.extend(&node.children);
        }
    }

    /// The samples with their times, in the order of time: a delta may be negative, because V8 takes samples
    /// on one thread and times on another.
    fn timed(&self) -> Vec<(f64, u64)> {
        let mut time = self.start;
        let mut timed: Vec<(f64, u64)> = Vec::with_capacity(self.samples.len());
        for (at, &node) in self.samples.iter().enumerate() {
            time += self.deltas.get(at).copied().unwrap_or(0.0);
            timed.push((self.times.get(at).copied().unwrap_or(time), node));
        }
        timed.sort_by(|a, b| a.0.total_cmp(&b.0));
        timed
    }

    /// How long the last sample counts: until the end, or as long as the one before.
    fn last_length(&self, timed: &[(f64, u64)]) -> f64 {
        let last = timed.last().map_or(0.0, |(time, _)| *time);
        match (self.end.filter(|end| *end > last), timed) {
            (Some(end), _) => end - last,
            (None, [.., (before, _), (last, _)]) => last - before,
            (None, _) => self.deltas.first().copied().unwrap_or(0.0),
        }
    }

    fn add_nodes(&mut self, nodes: &[Node<'_>]) {
        for node in nodes {
            let id = key(node.id.0);
            if let Some(parent) = node.parent {
                self.parents.insert(id, key(parent.0));
            }
            self.parents.extend(node.children.iter().map(|child| (key(child.0), id)));
            let line = node.frame.line.map_or(0, |line| (line.0 + 1.0) as u32);
            let name = node.frame.name.as_str();
            self.nodes.insert(id, (name.to_owned(), node.frame.url.as_str().to_owned(), line));
        }
    }

    /// The stack of a node; `None` for idle time and missing nodes.
    fn stack(
        &self,
        node: u64,
        assembly: &mut Assembly,
        known: &mut FxHashMap<u64, Option<StackId>>,
    ) -> Option<StackId> {
        // Walks from the node outwards to a known one, then back. A node that is its own caller ends the
        // walk.
        let mut path = Vec::new();
        let mut at = Some(node);
        let mut stack = None;
        while let Some(id) = at {
            if let Some(&found) = known.get(&id) {
                stack = found;
                break;
            }
            if path.len() > self.nodes.len() {
                known.extend(path.into_iter().map(|id| (id, None)));
                return None;
            }
            path.push(id);
            at = self.parents.get(&id).copied();
        }
        for &id in path.iter().rev() {
            let Some((name, file, line)) = self.nodes.get(&id) else {
                known.insert(id, stack);
                continue;
            };
            match name.as_str() {
                "(root)" => {}
                "(idle)" => {
                    assembly.note(ImportNote::IdleLeftOut);
                    stack = None;
                }
                name => {
                    let location = location(assembly, name, file, *line);
                    stack = Some(assembly.stack(stack, location));
                }
            }
            known.insert(id, stack);
        }
        stack
    }
}

fn location(assembly: &mut Assembly, name: &str, file: &str, line: u32) -> LocationId {
    let name = if name.is_empty() { "(anonymous)" } else { name };
    let file = (!file.is_empty()).then_some(file);
    let function = assembly.function(&FunctionText { name, file, line, module: None });
    let file = file.map(|file| assembly.text(file));
    assembly.location(None, 0, &[Frame { function, file, line }])
}

/// Ids are whole numbers.
fn key(id: f64) -> u64 {
    id as u64
}
