//! Exports the format of Valgrind's callgrind: costs per function and line, and calls with what they cost, for
//! KCachegrind, QCachegrind and callgrind_annotate.
//!
//! The format has pairs of caller and callee, not stacks. A call that recurses counts once per stack.

use std::io::{self, Write};

use rustc_hash::{FxHashMap, FxHashSet};
use whyslow_analyze::Label;
use whyslow_profile::{StackId, Unit};

use super::places::{module_of, places};
use super::{Export, LeftOut, one_line};

/// A function as the format names it: file, module, name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    object: String,
    file: String,
    name: String,
}

#[derive(Debug, Default)]
struct Costs {
    /// Own costs by line.
    own: FxHashMap<u32, u64>,
    /// Costs of calls by line and callee.
    calls: FxHashMap<(u32, usize), u64>,
    /// The line of its definition.
    definition: u32,
}

/// Writes the selected samples. Returns what the format cannot hold.
pub fn write_callgrind(export: &Export<'_>, out: &mut dyn Write) -> io::Result<Vec<LeftOut>> {
    let mut graph = Graph::default();
    let mut by_stack: FxHashMap<StackId, u64> = FxHashMap::default();
    for row in 0..export.samples.len() {
        let sum = by_stack.entry(export.samples.stack[row]).or_default();
        *sum = sum.saturating_add(export.samples.value[row]);
    }
    for (stack, value) in by_stack {
        graph.add(export, stack, value);
    }
    graph.write(export, out)?;
    let mut left_out: Vec<LeftOut> = export.other_metrics().into_iter().collect();
    left_out.extend([LeftOut::Times, LeftOut::Stacks]);
    left_out.extend(export.left_out(&[LeftOut::Inlining, LeftOut::Spans, LeftOut::Counters, LeftOut::Code]));
    Ok(left_out)
}

/// All functions and their costs.
#[derive(Default)]
struct Graph {
    ids: FxHashMap<Key, usize>,
    keys: Vec<Key>,
    costs: Vec<Costs>,
}

impl Graph {
    fn add(&mut self, export: &Export<'_>, stack: StackId, value: u64) {
        let profile = export.profile;
        let locations: Vec<_> = profile.locations_of(stack).collect();
        let mut frames: Vec<(usize, u32)> = Vec::new();
        for &location in locations.iter().rev() {
            for place in places(profile, location, export.inline) {
                let module = match place.label {
                    Label::Function(id) => {
                        profile.functions[id.index()].module.or(module_of(profile, location))
                    }
                    _ => module_of(profile, location),
                };
                let module = module.and_then(|module| profile.modules.get(module.index()));
                let object = module.map_or("", |module| profile.text(module.path));
                let key = Key {
                    object: written(object),
                    file: written(export.definition(place.label).0.or(place.file).unwrap_or("")),
                    name: written(&place.name),
                };
                let id = self.id(key);
                self.costs[id].definition = place.definition;
                frames.push((id, place.line));
            }
        }
        let mut seen = FxHashSet::default();
        for pair in frames.windows(2) {
            let [(caller, line), (callee, _)] = [pair[0], pair[1]];
            if seen.insert((caller, callee)) {
                let sum = self.costs[caller].calls.entry((line, callee)).or_default();
                *sum = sum.saturating_add(value);
            }
        }
        if let Some(&(leaf, line)) = frames.last() {
            let sum = self.costs[leaf].own.entry(line).or_default();
            *sum = sum.saturating_add(value);
        }
    }

    fn id(&mut self, key: Key) -> usize {
        if let Some(&known) = self.ids.get(&key) {
            return known;
        }
        let id = self.keys.len();
        self.ids.insert(key.clone(), id);
        self.keys.push(key);
        self.costs.push(Costs::default());
        id
    }

    fn write(&self, export: &Export<'_>, out: &mut dyn Write) -> io::Result<()> {
        let meta = &export.profile.meta;
        let event = match export.unit() {
            Unit::Nanoseconds => "ns",
            Unit::Bytes => "Bytes",
            Unit::Count => "Events",
        };
        let title = written(export.metric_name());
        writeln!(out, "# callgrind format\nversion: 1\ncreator: whyslow {}", env!("CARGO_PKG_VERSION"))?;
        writeln!(out, "cmd: {}\npositions: line", one_line(&meta.command.join(" ")))?;
        writeln!(out, "event: {event} : {title}\nevents: {event}")?;
        let total = export.samples.value.iter().fold(0u64, |sum, value| sum.saturating_add(*value));
        writeln!(out, "summary: {total}")?;
        let mut order: Vec<usize> = (0..self.keys.len()).collect();
        order.sort_by_key(|id| &self.keys[*id]);
        for id in order {
            let (Key { object, file, name }, costs) = (&self.keys[id], &self.costs[id]);
            writeln!(out, "\nob={object}\nfl={file}\nfn={name}")?;
            let mut own: Vec<_> = costs.own.iter().collect();
            own.sort_unstable();
            for (line, value) in own {
                writeln!(out, "{line} {value}")?;
            }
            let mut calls: Vec<_> = costs.calls.iter().collect();
            calls.sort_unstable();
            for (&(line, callee), value) in calls {
                let Key { object, file, name } = &self.keys[callee];
                // Samples do not count calls, and readers take a cost after 0 calls for the caller's own.
                let to = self.costs[callee].definition;
                writeln!(out, "cob={object}\ncfi={file}\ncfn={name}\ncalls=1 {to}\n{line} {value}")?;
            }
        }
        Ok(())
    }
}

/// A name on one line. An empty one is the format's `???`.
fn written(name: &str) -> String {
    match one_line(name).trim() {
        "" => "???".to_owned(),
        name => name.to_owned(),
    }
}
