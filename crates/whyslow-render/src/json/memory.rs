//! Memory over time as JSON.

use serde::Serialize;
use whyslow_analyze::heap::{Memory, MemoryNode, MemoryPlace};
use whyslow_profile::{MemorySnapshot, Profile, SnapshotKind};

use super::{Context, Head};

#[derive(Serialize)]
struct SnapshotJson {
    time: u64,
    total_bytes: u64,
    useful_bytes: u64,
    extra_bytes: Option<u64>,
    stack_bytes: Option<u64>,
    kind: &'static str,
}

#[derive(Serialize)]
struct NodeJson<'a> {
    depth: usize,
    bytes: u64,
    name: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    smaller_places: Option<usize>,
}

impl SnapshotJson {
    fn of(row: &MemorySnapshot, knows_extra: bool) -> Self {
        Self {
            time: row.time,
            total_bytes: row.total(),
            useful_bytes: row.useful,
            extra_bytes: knows_extra.then_some(row.extra),
            stack_bytes: knows_extra.then_some(row.stacks),
            kind: match row.kind {
                SnapshotKind::Plain => "plain",
                SnapshotKind::Detailed => "detailed",
                SnapshotKind::Peak => "peak",
            },
        }
    }
}

impl<'a> NodeJson<'a> {
    fn of(node: &MemoryNode, profile: &'a Profile) -> Self {
        let frame = match node.place {
            MemoryPlace::Frame(_, frame) => frame,
            MemoryPlace::Whole | MemoryPlace::Small(_) => None,
        };
        Self {
            depth: node.depth,
            bytes: node.bytes,
            name: frame.map(|frame| profile.text(profile.functions[frame.function.index()].name)),
            file: frame.and_then(|frame| frame.file).map(|file| profile.text(file)),
            line: frame.map(|frame| frame.line).filter(|line| *line > 0),
            smaller_places: match node.place {
                MemoryPlace::Small(places) => Some(places),
                MemoryPlace::Whole | MemoryPlace::Frame(..) => None,
            },
        }
    }
}

/// The snapshots, and the call sites at the peak.
pub(super) fn memory<'a>(context: &Context<'a>, memory: &Memory) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Body<'a> {
        #[serde(flatten)]
        head: Head<'a>,
        time_unit: whyslow_profile::MemoryTime,
        snapshots: Vec<SnapshotJson>,
        peak: Option<usize>,
        tree: Vec<NodeJson<'a>>,
    }
    let peak = memory.peak.map_or(0, |row| memory.rows[row].total());
    Body {
        head: context.head("memory", memory.rows.len() as u64, peak),
        time_unit: memory.time,
        snapshots: memory.rows.iter().map(|row| SnapshotJson::of(row, memory.knows_extra)).collect(),
        peak: memory.peak,
        tree: memory.tree.iter().map(|node| NodeJson::of(node, context.profile)).collect(),
    }
}
