//! Exports Massif's text for `ms_print` and massif-visualizer: the heap's size over time, and which call
//! sites held it.

use std::cmp::Reverse;
use std::io::{self, Write};

use rustc_hash::FxHashMap;

use super::heap::timeline::Timeline;
use super::heap::{command, frame_texts, no_heap};
use super::{Export, LeftOut};

/// The maximum number of snapshots, and how many of them share one tree: Massif's defaults.
const SNAPSHOTS: usize = 100;
const DETAILED: usize = 10;
/// The share of the heap, in percent, below which call sites are merged.
const THRESHOLD: u64 = 1;

/// Writes the heap over time. Returns what the format cannot hold.
pub fn write_massif(export: &Export<'_>, out: &mut dyn Write) -> io::Result<Vec<LeftOut>> {
    let profile = export.profile;
    if profile.heap.is_empty() {
        return Err(no_heap("massif"));
    }
    let timeline = Timeline::new(profile);
    let sites = Sites::new(export);
    writeln!(out, "desc: whyslow {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "cmd: {}", command(profile))?;
    writeln!(out, "time_unit: ms")?;
    snapshot(out, 0, 0, 0, "empty")?;
    let mut live = vec![0u64; profile.heap.sites.len()];
    let mut next = vec![0usize; live.len()];
    let mut number = 0;
    for (period, shown) in shown(&timeline).into_iter().enumerate() {
        for (site, steps) in timeline.steps.iter().enumerate() {
            if let Some(step) = steps.get(next[site]).filter(|step| step.period == period) {
                live[site] = live[site] + step.bytes_allocated - step.bytes_freed;
                next[site] += 1;
            }
        }
        if !shown {
            continue;
        }
        number += 1;
        let total = live.iter().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
        let kind = match period {
            _ if period == timeline.peak => "peak",
            _ if number % DETAILED == 0 => "detailed",
            _ => "empty",
        };
        let time = timeline.end(period, profile.meta.duration_ns) / 1_000_000;
        snapshot(out, number, time, total, kind)?;
        if kind != "empty" {
            Tree::new(&sites, &live).write(&sites, total, out)?;
        }
    }
    let mut left_out = vec![LeftOut::Blocks, LeftOut::BetweenSnapshots, LeftOut::Threads];
    if timeline.peak_missed > 0 {
        left_out.push(LeftOut::PeakMissed(timeline.peak_missed));
    }
    left_out.extend(export.left_out(&[LeftOut::Spans, LeftOut::Code]));
    Ok(left_out)
}

/// Which periods end with a snapshot: the peak, the last one, and others evenly in between.
fn shown(timeline: &Timeline) -> Vec<bool> {
    let periods = timeline.starts.len();
    // One is the start, at which nothing is live, and one is the peak.
    let every = periods.div_ceil(SNAPSHOTS - 2).max(1);
    (0..periods)
        .map(|period| period == timeline.peak || (periods - 1 - period).is_multiple_of(every))
        .collect()
}

fn snapshot(out: &mut dyn Write, number: usize, time: u64, bytes: u64, tree: &str) -> io::Result<()> {
    writeln!(out, "#-----------\nsnapshot={number}\n#-----------")?;
    writeln!(out, "time={time}\nmem_heap_B={bytes}\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree={tree}")
}

/// The frames of each site, innermost first, as rows of texts.
struct Sites {
    frames: Vec<Vec<u32>>,
    texts: Vec<String>,
}

impl Sites {
    fn new(export: &Export<'_>) -> Self {
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
        let sites = export.profile.heap.sites.iter();
        let frames = sites
            .map(|site| {
                frame_texts(export.profile, site.stack, export.inline).into_iter().map(&mut id).collect()
            })
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
