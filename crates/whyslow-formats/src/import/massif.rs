//! Imports massif.out: the heap's size over time, and for some snapshots the call sites that held it.
//!
//! ```text
//! desc: --time-unit=ms
//! cmd: ./app one
//! time_unit: ms
//! #-----------
//! snapshot=3
//! #-----------
//! time=120
//! mem_heap_B=12000
//! mem_heap_extra_B=16
//! mem_stacks_B=0
//! heap_tree=peak
//! n2: 12000 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
//!  n1: 8000 0x1091A3: load (main.c:10)
//!   n0: 8000 0x1091F0: main (main.c:20)
//!  n0: 4000 in 3 places, all below massif's threshold (1.00%)
//! ```
//! A tree goes from the allocating function outwards. Each line says how many lines of callers are below it.

use whyslow_profile::heap::{counter, metric};
use whyslow_profile::{
    ImportNote, LocationId, MemoryCurve, MemorySnapshot, MemoryTime, Metric, MetricId, SnapshotKind,
    ThreadId, Unit,
};

use super::assemble::Assembly;
use super::{Format, ImportError, ImportOptions, Imported, dhat, lines};

/// Deeper trees are truncated: massif keeps 30 frames by default.
const DEEPEST: usize = 1000;

pub(super) fn looks_like(start: &[u8]) -> bool {
    let start = lines::whole(start);
    let mut head = lines::numbered(start).take(10).map(|(_, line)| line);
    lines::is_text(start)
        && head.next().is_some_and(|line| line.starts_with("desc:"))
        && head.any(|line| line.starts_with("time_unit:"))
}

/// A snapshot.
#[derive(Debug, Default)]
struct Snapshot {
    time: u64,
    heap: u64,
    extra: u64,
    stacks: u64,
    is_peak: bool,
    /// The lines of the tree: line number, depth, and the text after the number of callers.
    tree: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    line: u64,
    depth: usize,
    callers: u64,
    bytes: u64,
    place: String,
}

pub(super) fn read(bytes: &[u8], _options: &ImportOptions) -> Result<Imported, ImportError> {
    let mut assembly = Assembly::new("massif");
    let mut unit = String::new();
    let mut snapshots: Vec<Snapshot> = Vec::new();
    let mut program = "program".to_owned();
    for (number, line) in lines::numbered(bytes) {
        let wrong = |what: &str| ImportError::at_line(Format::Massif, number, what);
        if line.starts_with('#') || line.trim().is_empty() || line.starts_with("desc:") {
            continue;
        }
        if let Some(command) = line.strip_prefix("cmd:") {
            assembly.profile.meta.command = command.split_whitespace().map(str::to_owned).collect();
            let first = command.split_whitespace().next().unwrap_or("program");
            first.rsplit('/').next().unwrap_or(first).clone_into(&mut program);
        } else if let Some(text) = line.strip_prefix("time_unit:") {
            text.trim().clone_into(&mut unit);
        } else if line.starts_with("snapshot=") {
            snapshots.push(Snapshot::default());
        } else {
            let last = snapshots.last_mut().ok_or_else(|| wrong("this line is before the first snapshot"))?;
            last.take(number, &line).map_err(wrong)?;
        }
    }
    if snapshots.is_empty() {
        return Err(ImportError::unusable(Format::Massif, "no snapshots"));
    }
    if unit != "ms" && snapshots.iter().all(|snapshot| snapshot.tree.is_empty()) {
        return Err(ImportError::unusable(Format::Massif, "no snapshot has a call tree"));
    }
    assembly.profile.meta.memory = Some(MemoryCurve {
        time: match unit.as_str() {
            "ms" => MemoryTime::Milliseconds,
            "B" => MemoryTime::Bytes,
            _ => MemoryTime::Instructions,
        },
        snapshots: snapshots.iter().map(Snapshot::row).collect(),
    });
    let process = assembly.process(0, &program);
    let thread = assembly.thread(process, 0, "all threads");
    let ns = |time: u64| if unit == "ms" { time.saturating_mul(1_000_000) } else { 0 };
    let peak = snapshots.iter().rposition(|snapshot| snapshot.is_peak);
    let peak = peak.or_else(|| {
        let with_tree = snapshots.iter().enumerate().filter(|(_, snapshot)| !snapshot.tree.is_empty());
        with_tree.max_by_key(|(_, snapshot)| snapshot.heap).map(|(row, _)| row)
    });
    let metric = assembly.metric(Metric::of_name(metric::LIVE_AT_PEAK, Unit::Bytes));
    if let Some(snapshot) = peak.map(|row| &snapshots[row]) {
        snapshot.add(&mut assembly, metric, thread, ns(snapshot.time))?;
    }
    if let Some(last) =
        snapshots.last().filter(|last| !last.tree.is_empty() && peak != Some(snapshots.len() - 1))
    {
        let metric = assembly.metric(Metric::of_name(metric::LIVE_AT_EXIT, Unit::Bytes));
        last.add(&mut assembly, metric, thread, ns(last.time))?;
    }
    if unit == "ms" {
        let live = assembly.counter(counter::LIVE, Unit::Bytes, Some(process));
        for snapshot in &snapshots {
            assembly.counter_value(live, ns(snapshot.time), i64::try_from(snapshot.heap).unwrap_or(i64::MAX));
        }
    } else {
        assembly.note(ImportNote::MassifTime);
    }
    assembly.note(ImportNote::MassifMoments);
    assembly.finish()
}

impl Snapshot {
    fn take(&mut self, number: u64, line: &str) -> Result<(), &'static str> {
        let count = |text: &str| text.trim().parse().map_err(|_| "not a number");
        match line.split_once('=') {
            Some(("time", value)) => self.time = count(value)?,
            Some(("mem_heap_B", value)) => self.heap = count(value)?,
            Some(("heap_tree", value)) => self.is_peak = value == "peak",
            Some(("mem_heap_extra_B", value)) => self.extra = count(value)?,
            Some(("mem_stacks_B", value)) => self.stacks = count(value)?,
            Some((key, _)) if key.starts_with("mem_") => {}
            _ => self.tree.push(Node::parse(number, line).ok_or("unknown line")?),
        }
        Ok(())
    }

    /// Its numbers.
    fn row(&self) -> MemorySnapshot {
        let kind = match (self.is_peak, self.tree.is_empty()) {
            (true, _) => SnapshotKind::Peak,
            (false, false) => SnapshotKind::Detailed,
            (false, true) => SnapshotKind::Plain,
        };
        MemorySnapshot { time: self.time, useful: self.heap, extra: self.extra, stacks: self.stacks, kind }
    }

    /// Adds the tree. Each line without callers is one stack. So is the part of a line that its callers do
    /// not cover.
    fn add(
        &self,
        assembly: &mut Assembly,
        metric: MetricId,
        thread: ThreadId,
        time_ns: u64,
    ) -> Result<(), ImportError> {
        // The locations from the allocating function to this line.
        let mut path: Vec<LocationId> = Vec::new();
        for (row, node) in self.tree.iter().enumerate() {
            let next = self.tree.get(row + 1);
            if node.depth > path.len() + usize::from(row > 0) || node.depth > DEEPEST {
                let what = "this line is nested too deep below the previous one";
                return Err(ImportError::at_line(Format::Massif, node.line, what));
            }
            // The first line is the whole heap.
            path.truncate(node.depth.saturating_sub(1));
            if node.depth > 0 {
                path.push(if node.is_rest() {
                    LocationId::TRUNCATED
                } else {
                    dhat::location(assembly, &node.place)
                });
            }
            let is_leaf = node.callers == 0 || next.is_none_or(|next| next.depth <= node.depth);
            if !is_leaf || node.bytes == 0 {
                continue;
            }
            let mut stack = None;
            for &location in path.iter().rev() {
                stack = Some(assembly.stack(stack, location));
            }
            let stack = stack.unwrap_or_else(|| {
                let unknown = assembly.location(None, 0, &[]);
                assembly.stack(None, unknown)
            });
            assembly.sample(metric, time_ns, thread, stack, node.bytes);
        }
        Ok(())
    }
}

impl Node {
    /// `  n1: 8000 0x1091A3: load (main.c:10)`.
    fn parse(line: u64, text: &str) -> Option<Self> {
        let rest = text.trim_start_matches(' ');
        let depth = text.len() - rest.len();
        let (callers, rest) = rest.strip_prefix('n')?.split_once(": ")?;
        let (bytes, place) = rest.split_once(' ')?;
        let (callers, bytes) = (callers.parse().ok()?, bytes.parse().ok()?);
        Some(Self { line, depth, callers, bytes, place: place.to_owned() })
    }

    /// Whether it stands for several places below the threshold.
    fn is_rest(&self) -> bool {
        self.place.starts_with("in ") && self.place.contains("below massif's threshold")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FoldedOptions, write_folded};

    const SAMPLE: &str = "\
desc: --time-unit=ms
cmd: ./app one
time_unit: ms
#-----------
snapshot=0
#-----------
time=0
mem_heap_B=0
mem_heap_extra_B=0
mem_stacks_B=0
heap_tree=empty
#-----------
snapshot=1
#-----------
time=120
mem_heap_B=12000
mem_heap_extra_B=16
mem_stacks_B=0
heap_tree=peak
n3: 12000 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
 n2: 8000 0x1091A3: load (main.c:10)
  n0: 5000 0x1091F0: main (main.c:20)
  n0: 3000 in 2 places, all below massif's threshold (1.00%)
 n0: 3000 0x1091F0: main (main.c:21)
 n0: 1000 in 3 places, all below massif's threshold (1.00%)
#-----------
snapshot=2
#-----------
time=200
mem_heap_B=500
mem_heap_extra_B=0
mem_stacks_B=0
heap_tree=detailed
n1: 500 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
 n0: 500 0x1091F0: main (main.c:22)
";

    fn folded(imported: &Imported, row: u32) -> Vec<String> {
        let mut out = Vec::new();
        let selection = whyslow_analyze::Selection { metric: MetricId(row), ..Default::default() };
        write_folded(&imported.profile, &selection, &FoldedOptions::default(), &mut out).expect("memory");
        let mut lines: Vec<String> =
            String::from_utf8(out).expect("UTF-8").lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    #[test]
    fn the_peak_the_end_and_the_timeline_are_read() {
        assert!(looks_like(SAMPLE.as_bytes()));
        let imported = read(SAMPLE.as_bytes(), &ImportOptions::default()).expect("it is massif's");
        assert_eq!(
            folded(&imported, 0),
            ["[truncated stack] 1000", "[truncated stack];load 3000", "main 3000", "main;load 5000"]
        );
        assert_eq!(folded(&imported, 1), ["main 500"]);
        let profile = &imported.profile;
        assert_eq!(profile.counter_values.value, [0, 12_000, 500]);
        assert_eq!(profile.counter_values.time_ns, [0, 120_000_000, 200_000_000]);
        assert_eq!(profile.meta.command, ["./app", "one"]);
    }

    #[test]
    fn broken_files_are_errors_with_a_line() {
        let broken =
            |text: &str| read(text.as_bytes(), &ImportOptions::default()).expect_err("broken").to_string();
        assert!(broken("desc:\ntime=1\n").ends_with(": line 2: this line is before the first snapshot"));
        assert!(broken("snapshot=0\ntime=x\n").ends_with(": line 2: not a number"));
        assert!(broken("snapshot=0\nhello\n").ends_with(": line 2: unknown line"));
        assert!(broken("desc: x\n").ends_with(": no snapshots"));
        let deep = "snapshot=0\nheap_tree=peak\nn1: 5 all\n   n0: 5 0x1: f (a.c:1)\n";
        assert!(broken(deep).ends_with(": line 4: this line is nested too deep below the previous one"));
    }

    #[test]
    fn a_file_without_call_trees_and_times_is_an_error() {
        let text = "desc: (none)\ncmd: ./app\ntime_unit: i\nsnapshot=0\ntime=0\nmem_heap_B=100\n\
            mem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree=empty\n";
        let error =
            read(text.as_bytes(), &ImportOptions::default()).expect_err("nothing to show").to_string();
        assert_eq!(error, "cannot be used as massif output: no snapshot has a call tree");
    }
}
