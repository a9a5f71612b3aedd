//! Exports Massif's text for `ms_print` and massif-visualizer: the heap's size over time, and which call
//! sites held it.

use std::cmp::Reverse;
use std::io::{self, Write};

use rustc_hash::FxHashMap;
use whyslow_analyze::heap::{Snapshots, Timeline, has_memory};
use whyslow_profile::heap::metric;
use whyslow_profile::{MemoryCurve, MemorySnapshot, MemoryTime, SnapshotKind, StackId};

use super::heap::{command, frame_texts, no_heap};
use super::{Export, LeftOut};

/// The share of the heap, in percent, below which call sites are merged.
const THRESHOLD: u64 = 1;

/// Writes the memory over time. Returns what the format cannot hold.
pub fn write_massif(export: &Export<'_>, out: &mut dyn Write) -> io::Result<Vec<LeftOut>> {
    let profile = export.profile;
    if !has_memory(profile) {
        return Err(no_heap("massif"));
    }
    writeln!(out, "desc: whyslow {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "cmd: {}", command(profile))?;
    if let Some(curve) = &profile.meta.memory {
        return imported(export, curve, out);
    }
    writeln!(out, "time_unit: ms")?;
    let timeline = Timeline::new(profile);
    let sites = Sites::of_heap(export);
    let (mut number, mut written) = (0, Ok(()));
    Snapshots::of(&timeline).each(profile, |row, live| {
        if written.is_ok() {
            let row = MemorySnapshot { time: row.time / 1_000_000, ..row };
            written = snapshot(out, number, &row, &sites, live);
            number += 1;
        }
    });
    written?;
    let mut left_out = vec![LeftOut::Blocks, LeftOut::BetweenSnapshots, LeftOut::Threads];
    if timeline.peak_missed > 0 {
        left_out.push(LeftOut::PeakMissed(timeline.peak_missed));
    }
    left_out.extend(export.left_out(&[LeftOut::Spans, LeftOut::Code]));
    Ok(left_out)
}

/// Writes the snapshots of another tool. Call sites are known at the peak, and at the end if that was detailed.
fn imported(export: &Export<'_>, curve: &MemoryCurve, out: &mut dyn Write) -> io::Result<Vec<LeftOut>> {
    let unit = match curve.time {
        MemoryTime::Instructions => "i",
        MemoryTime::Bytes => "B",
        MemoryTime::Milliseconds | MemoryTime::Nanoseconds => "ms",
    };
    writeln!(out, "time_unit: {unit}")?;
    let at_peak = Sites::of_samples(export, metric::LIVE_AT_PEAK);
    let at_exit = Sites::of_samples(export, metric::LIVE_AT_EXIT);
    let last = curve.snapshots.len().saturating_sub(1);
    for (number, row) in curve.snapshots.iter().enumerate() {
        let time = if curve.time == MemoryTime::Nanoseconds { row.time / 1_000_000 } else { row.time };
        let (sites, live) = if row.kind == SnapshotKind::Peak { &at_peak } else { &at_exit };
        let has_tree = row.kind == SnapshotKind::Peak || row.kind == SnapshotKind::Detailed && number == last;
        let kind = if has_tree && !live.is_empty() { row.kind } else { SnapshotKind::Plain };
        snapshot(out, number, &MemorySnapshot { time, kind, ..*row }, sites, live)?;
    }
    Ok(vec![LeftOut::BetweenSnapshots])
}

fn snapshot(
    out: &mut dyn Write,
    number: usize,
    row: &MemorySnapshot,
    sites: &Sites,
    live: &[u64],
) -> io::Result<()> {
    let tree = match row.kind {
        SnapshotKind::Plain => "empty",
        SnapshotKind::Detailed => "detailed",
        SnapshotKind::Peak => "peak",
    };
    writeln!(out, "#-----------\nsnapshot={number}\n#-----------")?;
    writeln!(out, "time={}\nmem_heap_B={}\nmem_heap_extra_B={}", row.time, row.useful, row.extra)?;
    writeln!(out, "mem_stacks_B={}\nheap_tree={tree}", row.stacks)?;
    if row.kind != SnapshotKind::Plain {
        Tree::new(sites, live).write(sites, row.useful, out)?;
    }
    Ok(())
}

/// The frames of each site, innermost first, as rows of texts.
struct Sites {
    frames: Vec<Vec<u32>>,
    texts: Vec<String>,
}

impl Sites {
    fn of_heap(export: &Export<'_>) -> Self {
        Self::of(export, export.profile.heap.sites.iter().map(|site| site.stack))
    }

    /// The stacks of a metric, and the bytes of each.
    fn of_samples(export: &Export<'_>, metric: &str) -> (Self, Vec<u64>) {
        let metric = export.profile.metric_named(metric);
        let samples = metric.and_then(|metric| export.profile.samples.get(metric.index()));
        let stacks = samples.map_or(&[][..], |samples| &samples.stack);
        (
            Self::of(export, stacks.iter().copied()),
            samples.map_or_else(Vec::new, |samples| samples.value.clone()),
        )
    }

    fn of(export: &Export<'_>, stacks: impl Iterator<Item = StackId>) -> Self {
        let mut ids = FxHashMap::<String, u32>::default();
        let mut texts = Vec::new();
        let mut id = |text: String| {
            // ms_print treats everything after this character as a comment.
            let text = text.replace('#', ":");
            *ids.entry(text).or_insert_with_key(|text| {
                texts.push(text.clone());
                texts.len() as u32 - 1
            })
        };
        let frames = stacks
            .map(|stack| frame_texts(export.profile, stack, export.inline).into_iter().map(&mut id).collect())
            .collect();
        Self { frames, texts }
    }
}

/// The call sites that held the heap at one point in time, from the allocating function outwards. Node 0 is
/// the total.
struct Tree {
    bytes: Vec<u64>,
    text: Vec<u32>,
    children: Vec<Vec<u32>>,
}

impl Tree {
    fn new(sites: &Sites, live: &[u64]) -> Self {
        let mut tree = Self { bytes: vec![0], text: vec![0], children: vec![Vec::new()] };
        let mut ids: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        for (frames, &bytes) in sites.frames.iter().zip(live).filter(|&(_, &bytes)| bytes > 0) {
            let mut node = 0u32;
            tree.bytes[0] = tree.bytes[0].saturating_add(bytes);
            for &text in frames {
                let child = *ids.entry((node, text)).or_insert_with(|| {
                    let child = tree.bytes.len() as u32;
                    tree.bytes.push(0);
                    tree.text.push(text);
                    tree.children.push(Vec::new());
                    tree.children[node as usize].push(child);
                    child
                });
                node = child;
                tree.bytes[node as usize] = tree.bytes[node as usize].saturating_add(bytes);
            }
        }
        for children in &mut tree.children {
            children.sort_by_key(|&child| Reverse(tree.bytes[child as usize]));
        }
        tree
    }

    /// Writes one line per node, its callers below it. Callers below the threshold share one line.
    fn write(&self, sites: &Sites, total: u64, out: &mut dyn Write) -> io::Result<()> {
        let significant = |node: u32| {
            u128::from(self.bytes[node as usize]) * 100 >= u128::from(total) * u128::from(THRESHOLD)
        };
        enum Line {
            Node(u32),
            Small { places: usize, bytes: u64 },
        }
        let mut lines = vec![(0usize, Line::Node(0))];
        while let Some((depth, line)) = lines.pop() {
            let indent = " ".repeat(depth);
            let node = match line {
                Line::Small { places, bytes } => {
                    let (places, all) = if places == 1 {
                        ("1 place".to_owned(), "")
                    } else {
                        (format!("{places} places"), "all ")
                    };
                    writeln!(
                        out,
                        "{indent}n0: {bytes} in {places}, {all}below massif's threshold ({THRESHOLD}.00%)"
                    )?;
                    continue;
                }
                Line::Node(node) => node as usize,
            };
            let children = &self.children[node];
            let large = children.partition_point(|&child| significant(child));
            let small = &children[large..];
            let below = large + usize::from(!small.is_empty());
            let what = match node {
                0 => "(heap allocation functions) malloc/new/new[], --alloc-fns, etc.",
                _ => &sites.texts[self.text[node] as usize],
            };
            writeln!(out, "{indent}n{below}: {} {what}", self.bytes[node])?;
            if !small.is_empty() {
                let bytes =
                    small.iter().fold(0u64, |sum, &child| sum.saturating_add(self.bytes[child as usize]));
                lines.push((depth + 1, Line::Small { places: small.len(), bytes }));
            }
            lines.extend(children[..large].iter().rev().map(|&child| (depth + 1, Line::Node(child))));
        }
        Ok(())
    }
}
