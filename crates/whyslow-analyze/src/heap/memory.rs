//! Memory over time: snapshots, and the call sites that held the memory at the peak, from the allocating function
//! outwards.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use whyslow_profile::heap::metric;
use whyslow_profile::{Frame, LocationId, MemorySnapshot, MemoryTime, Profile, SnapshotKind, StackId};

use super::Timeline;
use super::profile_facts::samples_of;

/// The maximum number of snapshots, and how many of them share one list of call sites: Massif's defaults.
const SNAPSHOTS: usize = 100;
const DETAILED: usize = 10;
/// The share of the memory below which call sites of whyslow's recordings are merged, in percent.
const THRESHOLD: u64 = 1;

/// Whether memory over time is known.
pub fn has_memory(profile: &Profile) -> bool {
    profile.meta.memory.is_some() || !profile.heap.is_empty()
}

/// A call site that held memory at the peak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryNode {
    /// How far it is from the allocating function; 0 is all of the heap.
    pub depth: usize,
    /// The bytes.
    pub bytes: u64,
    /// The place.
    pub place: MemoryPlace,
}

/// A place in the tree of call sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryPlace {
    /// All of the heap.
    Whole,
    /// A frame.
    Frame(LocationId, Option<Frame>),
    /// So many smaller places; 0 if their number is not known.
    Small(usize),
}

/// Memory over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// What the times count.
    pub time: MemoryTime,
    /// The snapshots in order of time.
    pub rows: Vec<MemorySnapshot>,
    /// The row of the peak.
    pub peak: Option<usize>,
    /// Whether the bytes that the allocator adds are known.
    pub knows_extra: bool,
    /// The call sites at the peak, each before its callers.
    pub tree: Vec<MemoryNode>,
}

impl Memory {
    /// Builds it from a heap recording, or from an import that has snapshots; `None` for other profiles.
    pub fn of(profile: &Profile) -> Option<Self> {
        let (time, rows, knows_extra) = match &profile.meta.memory {
            Some(curve) => (curve.time, curve.snapshots.clone(), true),
            None if profile.heap.is_empty() => return None,
            None => {
                let timeline = Timeline::new(profile);
                let mut rows = Vec::new();
                Snapshots::of(&timeline).each(profile, |row, _| rows.push(row));
                (MemoryTime::Nanoseconds, rows, false)
            }
        };
        let peak = rows.iter().rposition(|row| row.kind == SnapshotKind::Peak);
        let peak = peak.or_else(|| (0..rows.len()).max_by_key(|row| rows[*row].total()));
        let tree = Tree::of(profile).lines(if knows_extra { 0 } else { THRESHOLD });
        Some(Self { time, rows, peak, knows_extra, tree })
    }
}

/// The snapshots of a recording: the start, the peak, the end, and others evenly in between.
#[derive(Debug)]
pub struct Snapshots<'t> {
    timeline: &'t Timeline,
    shown: Vec<bool>,
}

impl<'t> Snapshots<'t> {
    /// Chooses them.
    pub fn of(timeline: &'t Timeline) -> Self {
        let periods = timeline.starts.len();
        // One is the start, at which nothing is live, and one is the peak.
        let every = periods.div_ceil(SNAPSHOTS - 2).max(1);
        let shown = (0..periods)
            .map(|period| period == timeline.peak || (periods - 1 - period).is_multiple_of(every))
            .collect();
        Self { timeline, shown }
    }

    /// Calls `each` with every snapshot and the live bytes of each site. Times are nanoseconds.
    pub fn each(&self, profile: &Profile, mut each: impl FnMut(MemorySnapshot, &[u64])) {
        let mut live = vec![0u64; profile.heap.sites.len()];
        let mut next = vec![0usize; live.len()];
        each(MemorySnapshot::default(), &live);
        let mut number = 0;
        for (period, shown) in self.shown.iter().enumerate() {
            for (site, steps) in self.timeline.steps.iter().enumerate() {
                if let Some(step) = steps.get(next[site]).filter(|step| step.period == period) {
                    live[site] = live[site] + step.bytes_allocated - step.bytes_freed;
                    next[site] += 1;
                }
            }
            if !shown {
                continue;
            }
            number += 1;
            let kind = match period {
                _ if period == self.timeline.peak => SnapshotKind::Peak,
                _ if number % DETAILED == 0 => SnapshotKind::Detailed,
                _ => SnapshotKind::Plain,
            };
            let useful = live.iter().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
            let time = self.timeline.end(period, profile.meta.duration_ns);
            each(MemorySnapshot { time, useful, kind, ..MemorySnapshot::default() }, &live);
        }
    }
}

/// The call sites at the peak. Node 0 is the whole heap.
struct Tree {
    bytes: Vec<u64>,
    place: Vec<MemoryPlace>,
    children: Vec<Vec<u32>>,
}

impl Tree {
    fn of(profile: &Profile) -> Self {
        let mut tree = Self { bytes: vec![0], place: vec![MemoryPlace::Whole], children: vec![Vec::new()] };
        let mut ids: FxHashMap<(u32, LocationId, usize), u32> = FxHashMap::default();
        let Some(samples) = samples_of(profile, metric::LIVE_AT_PEAK) else { return tree };
        for (&stack, &bytes) in samples.stack.iter().zip(&samples.value) {
            tree.bytes[0] = tree.bytes[0].saturating_add(bytes);
            let mut node = 0;
            for (location, index, frame) in frames(profile, stack) {
                let place = match location {
                    LocationId::TRUNCATED => MemoryPlace::Small(0),
                    _ => MemoryPlace::Frame(location, frame),
                };
                node = *ids.entry((node, location, index)).or_insert_with(|| {
                    let child = tree.bytes.len() as u32;
                    tree.bytes.push(0);
                    tree.place.push(place);
                    tree.children.push(Vec::new());
                    tree.children[node as usize].push(child);
                    child
                });
                tree.bytes[node as usize] = tree.bytes[node as usize].saturating_add(bytes);
            }
        }
        for children in &mut tree.children {
            children.sort_by_key(|&child| Reverse(tree.bytes[child as usize]));
        }
        tree
    }

    /// The nodes, each before its callers. Callers below the threshold are one node, the last one.
    fn lines(&self, threshold: u64) -> Vec<MemoryNode> {
        let whole = u128::from(self.bytes[0]) * u128::from(threshold);
        let bytes = |node: u32| self.bytes[node as usize];
        let mut lines = Vec::new();
        let all = MemoryNode { depth: 0, bytes: self.bytes[0], place: MemoryPlace::Whole };
        // Nodes still to write, the next one on top. Small places have no node of their own.
        let mut next = vec![(all, Some(0_u32))];
        while let Some((line, node)) = next.pop() {
            let depth = line.depth + 1;
            lines.push(line);
            let Some(node) = node else { continue };
            // Sorted by bytes, largest first.
            let children = &self.children[node as usize];
            let large = children.partition_point(|&child| u128::from(bytes(child)) * 100 >= whole);
            let (large, small) = children.split_at(large);
            if !small.is_empty() {
                let sum = small.iter().fold(0u64, |sum, &child| sum.saturating_add(bytes(child)));
                next.push((MemoryNode { depth, bytes: sum, place: MemoryPlace::Small(small.len()) }, None));
            }
            let line = |&child: &u32| {
                let place = self.place[child as usize];
                (MemoryNode { depth, bytes: bytes(child), place }, Some(child))
            };
            next.extend(large.iter().rev().map(line));
        }
        lines
    }
}

/// The frames of a stack, innermost first: location, number in it, and meaning.
fn frames(
    profile: &Profile,
    stack: StackId,
) -> impl Iterator<Item = (LocationId, usize, Option<Frame>)> + '_ {
    profile.locations_of(stack).flat_map(|location| {
        let frames = profile.frames.of(location);
        let named =
            frames.iter().enumerate().rev().map(move |(index, frame)| (location, index, Some(*frame)));
        let unnamed = frames.is_empty().then_some((location, 0, None));
        named.chain(unnamed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    const MS: u64 = 1_000_000;

    #[test]
    fn snapshots_of_a_recording_have_the_peak_and_the_end() {
        let mut profile = testing::heap_profile(
            "main;load : bytes_allocated=100 bytes_freed=60 peak_bytes=100 live_at_exit_bytes=40 made_ms=10 freed_ms=50
             main;keep : bytes_allocated=7 peak_bytes=7 live_at_exit_bytes=7 made_ms=20",
        );
        profile.meta.duration_ns = 100 * MS;
        if let Some(facts) = &mut profile.meta.heap {
            facts.peak_bytes = 107;
            facts.peak_ns = whyslow_profile::ProfileNs(30 * MS);
        }
        let memory = Memory::of(&profile).unwrap();
        let peak = &memory.rows[memory.peak.unwrap()];
        assert_eq!((peak.useful, peak.kind), (107, SnapshotKind::Peak));
        assert_eq!(memory.rows.first().map(|row| row.useful), Some(0));
        assert_eq!(memory.rows.last().map(|row| row.useful), Some(47));
        assert!(!memory.knows_extra && memory.time == MemoryTime::Nanoseconds);
    }

    #[test]
    fn call_sites_at_the_peak_go_from_the_allocating_function_outwards() {
        let mut profile = testing::profile("main;load;read 600\nmain;load 390\nmain;tiny 6\nmain;dot 4");
        profile.meta.memory = Some(whyslow_profile::MemoryCurve::default());
        let name = profile.strings.push(metric::LIVE_AT_PEAK);
        profile.metrics[0].name = name;
        let whole = Tree::of(&profile).bytes[0];
        let shown = |threshold| {
            let lines = Tree::of(&profile).lines(threshold).into_iter();
            let text = |node: MemoryNode| {
                let name = match node.place {
                    MemoryPlace::Whole => "all".to_owned(),
                    MemoryPlace::Small(places) => format!("{places} small"),
                    MemoryPlace::Frame(_, frame) => {
                        profile.text(profile.functions[frame.unwrap().function.index()].name).to_owned()
                    }
                };
                // The profile counts time for a sample; the weights are in proportion.
                format!("{} {name} {}", node.depth, node.bytes * 1000 / whole)
            };
            lines.map(text).collect::<Vec<_>>()
        };
        assert_eq!(
            shown(1),
            [
                "0 all 1000",
                "1 read 600",
                "2 load 600",
                "3 main 600",
                "1 load 390",
                "2 main 390",
                "1 2 small 10"
            ]
        );
        assert_eq!(shown(0).len(), 10);
    }

    #[test]
    fn other_profiles_have_no_snapshots() {
        assert_eq!(Memory::of(&testing::profile("main 1")), None);
    }
}
