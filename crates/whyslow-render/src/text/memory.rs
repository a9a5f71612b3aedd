//! Memory over time: a graph, the snapshots, and the call sites that held it at the peak. It shows what ms_print shows.

use whyslow_analyze::heap::{Memory, MemoryNode, MemoryPlace};
use whyslow_profile::{Frame, LocationId, MemorySnapshot, MemoryTime, Profile, SnapshotKind};
use whyslow_words::{Percent, number_of};

use super::layout::{BOLD, DIM, PLAIN, Page, push_line, push_wrapped, right, styled};
use crate::names::{place, shorten};
use crate::sanitize::clean;
use crate::table::{Cell, Column, Table};
use crate::units::{Count, bytes, duration};

/// Columns and lines of the graph: those of ms_print.
const WIDTH: usize = 72;
const HEIGHT: usize = 20;
/// The width of the numbers beside the graph.
const LABEL: usize = 9;

/// Renders the graph, the snapshots and the tree.
pub fn memory(memory: &Memory, profile: &Profile, page: Page) -> String {
    let mut out = String::new();
    let peak = memory.peak.map(|row| &memory.rows[row]);
    if let Some(peak) = peak {
        let mut words = format!("peak {} at {}", bytes(peak.total()), time(peak.time, memory.time));
        if memory.knows_extra {
            words.push_str(&format!("; {} of it requested by the program", bytes(peak.useful)));
        }
        push_line(&mut out, &styled(BOLD, words));
    }
    let mut about = "bars are snapshots; #: the peak; @: with call sites".to_owned();
    if !memory.knows_extra {
        about.push_str("; bytes that the allocator adds and stacks are not recorded");
    }
    push_wrapped(&mut out, DIM, &about, page.width);
    out.push('\n');
    graph(&mut out, memory, page.width);
    out.push('\n');
    out.push_str(&memory_table(memory, usize::MAX).text(page.width));
    if let (Some(peak), false) = (peak, memory.tree.is_empty()) {
        out.push('\n');
        let of = "call sites at the peak, from the allocating function outwards; % of all bytes at that time";
        push_wrapped(&mut out, PLAIN, of, page.width);
        for node in &memory.tree {
            tree_line(&mut out, node, peak.total(), profile, page);
        }
    }
    out
}

fn time(value: u64, unit: MemoryTime) -> String {
    match unit {
        MemoryTime::Instructions => format!("{} instructions", Count(value)),
        MemoryTime::Milliseconds => format!("{} ms", Count(value)),
        MemoryTime::Bytes => format!("{} bytes allocated and freed", Count(value)),
        MemoryTime::Nanoseconds => duration(value),
    }
}

/// The snapshots as bars over time.
fn graph(out: &mut String, memory: &Memory, width: usize) {
    let rows = &memory.rows;
    let most = rows.iter().map(MemorySnapshot::total).max().unwrap_or(0);
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return };
    if most == 0 {
        return;
    }
    let columns = WIDTH.min(width.saturating_sub(LABEL + 3)).max(10);
    let span = u128::from(last.time.saturating_sub(first.time)).max(1);
    let mut bars = vec![(0_usize, ' '); columns];
    for row in rows {
        let into = u128::from(row.time.saturating_sub(first.time));
        let at = ((into * (columns as u128 - 1) / span) as usize).min(columns - 1);
        let height = (u128::from(row.total()) * HEIGHT as u128).div_ceil(u128::from(most)) as usize;
        let mark = match row.kind {
            SnapshotKind::Peak => '#',
            SnapshotKind::Detailed => '@',
            SnapshotKind::Plain => ':',
        };
        let bar = &mut bars[at];
        // The peak is always shown, and a snapshot with call sites rather than one without.
        let rank = |mark: char| [' ', ':', '@', '#'].iter().position(|known| *known == mark);
        *bar = (bar.0.max(height), if rank(mark) >= rank(bar.1) { mark } else { bar.1 });
    }
    for line in (1..=HEIGHT).rev() {
        let label = if line == HEIGHT { bytes(most) } else { String::new() };
        let marks: String =
            bars.iter().map(|(height, mark)| if *height >= line { *mark } else { ' ' }).collect();
        push_line(out, &format!("{} │{marks}", right(&label, LABEL)));
    }
    let end = match memory.time {
        MemoryTime::Bytes => bytes(last.time),
        unit => time(last.time, unit),
    };
    push_line(out, &format!("{} └{}", right("0 B", LABEL), "─".repeat(columns)));
    push_line(out, &right(&end, LABEL + 2 + columns));
}

/// The snapshots as a table.
pub(super) fn memory_table(memory: &Memory, limit: usize) -> Table {
    let unit = match memory.time {
        MemoryTime::Instructions => "instructions",
        MemoryTime::Milliseconds => "ms",
        MemoryTime::Bytes => "bytes",
        MemoryTime::Nanoseconds => "ns",
    };
    let title =
        if memory.time == MemoryTime::Nanoseconds { "time".to_owned() } else { format!("time({unit})") };
    let mut columns = vec![
        Column::number("n", "n").gap(0).least(3),
        Column::number(&format!("time_{unit}"), &title),
        Column::number("total_bytes", "total(B)"),
    ];
    if memory.knows_extra {
        columns.extend([
            Column::number("useful_bytes", "useful(B)"),
            Column::number("extra_bytes", "extra(B)"),
            Column::number("stack_bytes", "stacks(B)"),
        ]);
    }
    columns.push(Column::words("kind", ""));
    let mut table = Table::new(columns);
    for (number, row) in memory.rows.iter().enumerate().take(limit) {
        let when = match memory.time {
            MemoryTime::Nanoseconds => Cell::duration(row.time),
            _ => Cell::count(row.time),
        };
        let mut cells = vec![Cell::count(number as u64), when, Cell::count(row.total())];
        if memory.knows_extra {
            cells.extend([row.useful, row.extra, row.stacks].map(Cell::count));
        }
        cells.push(match row.kind {
            SnapshotKind::Peak => Cell::text("peak").style(BOLD),
            SnapshotKind::Detailed => Cell::text("detailed").style(DIM),
            SnapshotKind::Plain => Cell::nothing(),
        });
        table.push(cells);
    }
    table.limited(memory.rows.len(), limit, "more snapshot", "more snapshots")
}

fn tree_line(out: &mut String, node: &MemoryNode, total: u64, profile: &Profile, page: Page) {
    let share = Percent(node.bytes as f64 / total.max(1) as f64);
    let lead = match node.depth {
        0 => String::new(),
        depth => format!("{}->", "| ".repeat(depth.min(40) - 1)),
    };
    let start = format!("{lead}{share} ({} B) ", Count(node.bytes));
    let room = page.width.saturating_sub(start.chars().count()).max(20);
    let what = match node.place {
        MemoryPlace::Whole => "in all allocating functions".to_owned(),
        MemoryPlace::Small(0) => "in smaller places".to_owned(),
        MemoryPlace::Small(places) => {
            format!("in {}", number_of(places as u64, "smaller place", "smaller places"))
        }
        MemoryPlace::Frame(location, frame) => frame_words(profile, location, frame, room, page),
    };
    push_line(out, &format!("{start}{what}"));
}

/// `parse (main.rs:12)`
fn frame_words(
    profile: &Profile,
    location: LocationId,
    frame: Option<Frame>,
    room: usize,
    page: Page,
) -> String {
    let Some(frame) = frame else {
        let module = profile.locations.module[location.index()];
        let module = module.and_then(|module| profile.modules.get(module.index()));
        let path = module.map_or("[unknown]", |module| profile.text(module.path));
        return format!("??? (in {})", clean(path));
    };
    let name = clean(profile.text(profile.functions[frame.function.index()].name)).into_owned();
    let file = frame.file.map(|file| place(&clean(profile.text(file)), frame.line, 40));
    let file = file.map_or_else(String::new, |file| format!(" ({file})"));
    let left = room.saturating_sub(file.chars().count()).max(12);
    let name = if page.full_names { name } else { shorten(&name, left) };
    format!("{name}{file}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::plain;

    fn row(time: u64, useful: u64, kind: SnapshotKind) -> MemorySnapshot {
        MemorySnapshot { time, useful, extra: useful / 10, stacks: 0, kind }
    }

    #[test]
    fn bars_are_as_high_as_their_part_of_the_peak() {
        let memory = Memory {
            time: MemoryTime::Instructions,
            rows: vec![
                row(0, 0, SnapshotKind::Plain),
                row(500, 50, SnapshotKind::Detailed),
                row(700, 100, SnapshotKind::Peak),
                row(1000, 10, SnapshotKind::Plain),
            ],
            peak: Some(2),
            knows_extra: true,
            tree: Vec::new(),
        };
        let mut out = String::new();
        graph(&mut out, &memory, 100);
        let count = |mark: char| out.chars().filter(|c| *c == mark).count();
        assert_eq!((count('#'), count('@'), count(':')), (20, 10, 2), "{out}");
        assert!(out.lines().next().unwrap().starts_with("    110 B"), "{out}");
        assert!(out.contains("1,000 instructions"));
    }

    #[test]
    fn the_table_has_useful_and_extra_bytes_only_if_they_are_known() {
        let rows = vec![row(0, 0, SnapshotKind::Plain), row(70, 100, SnapshotKind::Peak)];
        let mut memory = Memory {
            time: MemoryTime::Milliseconds,
            rows,
            peak: Some(1),
            knows_extra: true,
            tree: Vec::new(),
        };
        let table = plain(&memory_table(&memory, usize::MAX).text(100));
        assert!(table.contains("useful(B)") && table.contains("time(ms)"), "{table}");
        assert!(
            table
                .lines()
                .any(|line| line.split_whitespace().eq(["1", "70", "110", "100", "10", "0", "peak"]))
        );
        memory.knows_extra = false;
        assert!(!memory_table(&memory, usize::MAX).text(100).contains("useful"));
    }
}
