//! The sections of the heap report.

use whyslow_analyze::heap::{Grower, SiteOrder, SiteRow, Sites, Trail, TrailStep, live_over_time};
use whyslow_analyze::{CallTree, Label, Overview, StackFrame, Warning, no_leak_check};
use whyslow_profile::{HeapCounts, HeapFacts, HeapProcess, LeakCheck, Profile, StringId, Unit};
use whyslow_words::{Fact, Percent, Severity};

use super::{HeapView, blocks_of, push_indented, push_section};
use crate::names::shorten;
use crate::sanitize::clean;
use crate::table::{Cell, Column, Table};
use crate::text::cells::{self, NAME};
use crate::text::layout::{
    BOLD, DIM, Page, columns, label_name, place, push_line, push_titled, right, styled, wrap,
};
use crate::text::remark::{push_fix, severity_style};
use crate::units::{Count, bytes, duration};

const VALUE: usize = 12;
/// Maximum width of a name and place in a sentence.
const IN_SENTENCE: usize = 40;
/// Width of the sparkline of live bytes.
const SPARKS: usize = 72;

/// Renders one row per site: a value, its share, a second value, the function and the place; below it the
/// row's note.
pub(super) fn site_table(
    profile: &Profile,
    rows: &[&SiteRow],
    cells: &[[String; 3]],
    notes: &[String],
    page: Page,
) -> String {
    let mut table = Table::new(vec![
        Column::number("value", "").least(10),
        Column::share("share", "").gap(2),
        Column::number("second", ""),
        Column::rest("function", "", NAME),
        Column::place("file", "line", ""),
    ])
    .full_names(page.full_names)
    .notes_at(2, 0);
    for (at, (row, numbers)) in rows.iter().zip(cells).enumerate() {
        let names =
            [cells::function(profile, row.label), cells::place(profile, row.file, row.line).style(DIM)];
        let shown = table.push(numbers.clone().map(Cell::text).into_iter().chain(names).collect());
        if let Some(note) = notes.get(at).filter(|note| !note.is_empty()) {
            shown.note(DIM, note);
        }
    }
    table.text(page.width)
}

/// The sites with all their numbers, most bytes at the peak first, at most `limit` of them.
pub(in crate::text) fn heap_table(profile: &Profile, sites: &Sites, limit: usize, page: Page) -> Table {
    /// The numbers that people see; data have all.
    const SHOWN: [(&str, &str); 5] = [
        ("peak_bytes", "at peak"),
        ("bytes_allocated", "allocated"),
        ("allocations", "allocations"),
        ("live_at_exit_bytes", "at exit"),
        ("definitely_lost_bytes", "lost"),
    ];
    let numbers = HeapCounts::COLUMNS.iter().map(|id| match SHOWN.iter().find(|(shown, _)| shown == id) {
        Some((_, title)) => Column::number(id, title),
        None => Column::number(id, id).in_data(),
    });
    let names = [
        Column::words("kind", "kind"),
        Column::rest("function", "function", NAME),
        Column::place("file", "line", "where"),
        Column::words("own_function", "for").in_data(),
        Column::place("own_file", "own_line", "at").in_data(),
    ];
    let mut table = Table::new(numbers.chain(names).collect()).full_names(page.full_names);
    for row in sites.rows.iter().take(limit) {
        let own = row.own.as_ref();
        let names = [
            cells::kind(CallTree::kind(profile, row.label)),
            cells::function(profile, row.label),
            cells::place(profile, row.file, row.line),
            Cell::maybe(own.map(|own| cells::function(profile, own.label))),
            Cell::maybe(own.map(|own| cells::place(profile, own.file, own.line))),
        ];
        let numbers = HeapCounts::COLUMNS.iter().zip(row.counts.numbers()).map(|(id, number)| match *id {
            id if id.ends_with("_ns") => Cell::duration(number),
            id if id.contains("bytes") || id == "largest_grown" => Cell::bytes(number),
            _ => Cell::count(number),
        });
        table.push(numbers.chain(names).collect());
    }
    table.limited(sites.rows.len(), limit, "more line", "more lines")
}

/// The note below each row: the user's line that it allocates for, unless that was already printed for all
/// rows.
pub(super) fn own_notes(profile: &Profile, rows: &[&SiteRow], said: Option<&StackFrame>) -> Vec<String> {
    let note = |row: &&SiteRow| match &row.own {
        Some(own) if Some(own) != said => format!("for {}", frame_words(profile, own)),
        _ => String::new(),
    };
    rows.iter().map(note).collect()
}

/// `>99.9 % for app::run (src/main.rs:7) → dep::build → dep::new 88.0 %`: the call path from the user's line
/// inwards, with shares of the total.
pub(super) fn way_in(
    profile: &Profile,
    (own, value): &(StackFrame, u64),
    trail: &Trail,
    everything: u64,
) -> String {
    let name = |frame: &StackFrame| shorten(&label_name(profile, frame.label), IN_SENTENCE);
    let share = share_of(*value, everything);
    let steps = step_words(&trail.steps, everything, &share, name);
    let way = steps.iter().map(|step| format!(" → {step}")).collect::<String>();
    format!("{share} for {}{way}", frame_words(profile, own))
}

/// `called by load (load.c:3) ← a (a.c:9) 50.0 %, b (b.c:2) 41.0 %`, with shares of the site; empty if no
/// caller is known.
pub(super) fn called_by(profile: &Profile, trail: &Trail) -> String {
    let name = |frame: &StackFrame| {
        let name = shorten(&label_name(profile, frame.label), IN_SENTENCE);
        match frame.file.and_then(|file| profile.text(file).rsplit('/').next()) {
            Some(file) => format!("{name} ({}:{})", clean(file), frame.line),
            None => name,
        }
    };
    let mut parts = step_words(&trail.steps, trail.whole, &share_of(1, 1), name);
    let branch = |step: &TrailStep| format!("{} {}", name(&step.frame), share_of(step.value, trail.whole));
    let branches = trail.branches.iter().map(branch).collect::<Vec<_>>();
    parts.extend(Some(branches.join(", ")).filter(|branches| !branches.is_empty()));
    if parts.is_empty() { String::new() } else { format!("called by {}", parts.join(" ← ")) }
}

/// Names of steps, with their shares where these change.
fn step_words(
    steps: &[TrailStep],
    whole: u64,
    before: &str,
    name: impl Fn(&StackFrame) -> String,
) -> Vec<String> {
    let mut before = before.to_owned();
    let words = steps.iter().map(|step| {
        let share = share_of(step.value, whole);
        let words =
            if share == before { name(&step.frame) } else { format!("{} {share}", name(&step.frame)) };
        before = share;
        words
    });
    words.collect()
}

fn share_of(value: u64, whole: u64) -> String {
    Percent(value as f64 / whole.max(1) as f64).to_string()
}

/// `file:line`.
fn place_of(profile: &Profile, file: Option<StringId>, line: u32, width: usize) -> String {
    file.map_or(String::new(), |file| place(&clean(profile.text(file)), line, width))
}

/// Formats `app::load (src/load.rs:12)`, for sentences.
fn name_and_place(profile: &Profile, label: Label, file: Option<StringId>, line: u32) -> String {
    let name = shorten(&label_name(profile, label), IN_SENTENCE);
    match place_of(profile, file, line, IN_SENTENCE) {
        place if place.is_empty() => name,
        place => format!("{name} ({place})"),
    }
}

fn frame_words(profile: &Profile, frame: &StackFrame) -> String {
    name_and_place(profile, frame.label, frame.file, frame.line)
}

/// The same for an allocation site, with the user's line that it allocates for.
pub(crate) fn line_words(profile: &Profile, row: &SiteRow) -> String {
    let line = name_and_place(profile, row.label, row.file, row.line);
    match &row.own {
        Some(own) => format!("{line} for {}", frame_words(profile, own)),
        None => line,
    }
}

/// Renders blocks that grew step by step where one allocation would suffice.
pub(super) fn growth_chains(view: &HeapView<'_>, page: Page) -> String {
    let rows = view.sites.by(SiteOrder::Copied);
    if rows.is_empty() {
        return String::new();
    }
    let totals = &view.sites.totals;
    let shown = rows.len().min(view.fewer_rows());
    let note = format!(
        "{} grew {}, {} copied",
        blocks_of(totals.growth_chains),
        times(totals.grown),
        bytes(totals.bytes_copied)
    );
    let mut out = String::new();
    push_section(&mut out, "growing blocks", &note, shown, rows.len(), page);
    for row in &rows[..shown] {
        push_indented(&mut out, &growth_sentence(view.profile, row), page);
    }
    out
}

fn growth_sentence(profile: &Profile, row: &SiteRow) -> String {
    let counts = &row.counts;
    let (one, many) = match row.grower {
        Grower::Vec => ("a Vec", "Vecs"),
        Grower::String => ("a String", "Strings"),
        Grower::Block => ("a block", "blocks"),
    };
    let at = line_words(profile, row);
    let (largest, copied) = (bytes(counts.largest_grown), bytes(counts.bytes_copied));
    let grew = match counts.growth_chains {
        0 | 1 => format!("{one} in {at} grew {} to {largest}, {copied} copied", times(counts.grown)),
        chains => format!(
            "{} {many} in {at} grew {} in all, up to {largest}, {copied} copied",
            Count(chains),
            times(counts.grown)
        ),
    };
    match row.capacity_advice() {
        Some(advice) => format!("{grew}: {}", advice.remark().text),
        None => grew,
    }
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{} times", Count(count)) }
}

/// Renders the leaked blocks, by class; on request each with the callers of its line.
pub(super) fn leaks(view: &HeapView<'_>, facts: &HeapFacts, with_callers: bool, page: Page) -> String {
    let totals = &view.sites.totals;
    let mut out = String::new();
    match &facts.leaks {
        LeakCheck::AtExit | LeakCheck::AtSnapshot(_) => {}
        _ if totals.live_at_exit_blocks == 0 => return out,
        LeakCheck::NotDone => {
            push_section(&mut out, "leaks", "not checked", 0, 0, page);
            return out;
        }
        LeakCheck::Impossible(why) => {
            let words = clean(&no_leak_check(why)).into_owned();
            push_section(&mut out, "leaks", &format!("not checked: {words}"), 0, 0, page);
            push_fix(&mut out, &Warning::NoLeakCheck(why.clone()).remark(), page.width);
            return out;
        }
    }
    let classes = [
        (
            "definitely",
            SiteOrder::DefinitelyLost,
            totals.definitely_lost_blocks,
            totals.definitely_lost_bytes,
        ),
        (
            "indirectly",
            SiteOrder::IndirectlyLost,
            totals.indirectly_lost_blocks,
            totals.indirectly_lost_bytes,
        ),
        ("possibly", SiteOrder::PossiblyLost, totals.possibly_lost_blocks, totals.possibly_lost_bytes),
    ];
    let mut parts = classes
        .iter()
        .filter(|(_, _, blocks, _)| *blocks > 0)
        .map(|(class, order, blocks, lost)| {
            let order = *order;
            let size = view.roughly(Unit::Bytes, move |counts| order.key(counts));
            format!("{}{size} {class} lost in {}", bytes(*lost), blocks_of(*blocks))
        })
        .collect::<Vec<_>>();
    if parts.is_empty() {
        let none = match (view.profile.meta.misses_allocations(), totals.allocations) {
            (true, 0) => "unknown, no allocation was recorded",
            (true, _) => "none seen, but not every allocation was recorded",
            (false, _) => "none",
        };
        parts.push(none.to_owned());
    }
    for (what, blocks, size) in [
        ("still reachable", totals.reachable_blocks, totals.reachable_bytes),
        ("suppressed", totals.suppressed_blocks, totals.suppressed_bytes),
    ] {
        if blocks > 0 {
            parts.push(format!("{} {what} in {}", bytes(size), blocks_of(blocks)));
        }
    }
    if let LeakCheck::AtSnapshot(time_ns) = facts.leaks {
        parts.push(format!("at {}", duration(time_ns.0)));
    }
    let (mut rows, mut orders, mut cells) = (Vec::new(), Vec::new(), Vec::new());
    for (class, order, _, whole) in classes {
        for row in view.sites.by(order) {
            let share = Percent(row.key(order) as f64 / whole.max(1) as f64);
            rows.push(row);
            orders.push(order);
            let size = view.roughly_of(row, Unit::Bytes, move |counts| order.key(counts));
            let blocks = view.roughly_of(row, Unit::Count, move |counts| order.blocks(counts));
            cells.push([
                format!("{}{size}", bytes(row.key(order))),
                share.to_string(),
                format!("{}{blocks} {class}", Count(row.blocks(order))),
            ]);
        }
    }
    cells.truncate(view.rows());
    push_section(&mut out, "leaks", &parts.join(", "), cells.len(), rows.len(), page);
    let mut notes = own_notes(view.profile, &rows[..cells.len()], None);
    if with_callers {
        for ((note, row), order) in notes.iter_mut().zip(&rows).zip(&orders) {
            let callers = called_by(view.profile, &view.sites.callers(view.profile, row, *order));
            let parts = [std::mem::take(note), callers];
            *note = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
        }
    }
    out.push_str(&site_table(view.profile, &rows, &cells, &notes, page));
    out
}

/// Renders memory that was never written to.
pub(super) fn unused(view: &HeapView<'_>, page: Page) -> String {
    let totals = &view.sites.totals;
    let rows = view.sites.by(SiteOrder::Unused);
    let passed_over = passed_over(view);
    let is_asked = view.profile.meta.heap.as_ref().is_some_and(|facts| facts.unused);
    if rows.is_empty() && (passed_over.is_empty() || !is_asked) {
        return String::new();
    }
    let mut note = format!(
        "{} of {} examined ({}) were never written to",
        bytes(totals.unused_bytes),
        bytes(totals.examined_bytes),
        Percent(totals.unused_bytes as f64 / totals.examined_bytes.max(1) as f64)
    );
    if is_asked {
        note.push_str(&passed_over);
    }
    let cells = rows.iter().take(view.fewer_rows()).map(|row| {
        let of_all = Percent(row.counts.unused_bytes as f64 / totals.unused_bytes.max(1) as f64);
        let examined = format!("of {}", bytes(row.counts.examined_bytes));
        [bytes(row.counts.unused_bytes), of_all.to_string(), examined]
    });
    let cells = cells.collect::<Vec<_>>();
    let mut out = String::new();
    push_section(&mut out, "unused", &note, cells.len(), rows.len(), page);
    let notes = own_notes(view.profile, &rows[..cells.len()], None);
    out.push_str(&site_table(view.profile, &rows, &cells, &notes, page));
    out
}

/// The blocks that were not examined for unwritten bytes, with the reason and the sites with most of them.
fn passed_over(view: &HeapView<'_>) -> String {
    let totals = &view.sites.totals;
    if totals.passed_over_blocks == 0 {
        return String::new();
    }
    let rows = view.sites.by(SiteOrder::PassedOver);
    let shown = rows.len().min(view.fewer_rows());
    let lines = rows[..shown]
        .iter()
        .map(|row| format!("{} in {}", bytes(row.counts.passed_over_bytes), line_words(view.profile, row)));
    let mut lines = lines.collect::<Vec<_>>().join(", ");
    if shown < rows.len() {
        lines.push_str(&format!(" and {} more lines", rows.len() - shown));
    }
    format!(
        "; not examined: {} in {} above 4 MiB, because that would take too long ({lines})",
        bytes(totals.passed_over_bytes),
        blocks_of(totals.passed_over_blocks)
    )
}

/// Renders live bytes from start to end, and the sites whose bytes only grow.
pub(super) fn over_time(view: &HeapView<'_>, facts: &HeapFacts, page: Page) -> String {
    let profile = view.profile;
    let line = live_over_time(profile, SPARKS.min(page.width.saturating_sub(4)));
    let most = line.iter().copied().max().unwrap_or(0);
    let growing = view.sites.by(SiteOrder::Growing);
    // A snapshot of one process among several has no timeline.
    if most == 0 && (facts.snapshot.is_none() || growing.is_empty()) {
        return String::new();
    }
    let class = match facts.growth.as_str() {
        "flat" => "flat",
        "linear" => "grow steadily",
        "sawtooth" => "rise and fall repeatedly",
        "unbounded" => "keep growing",
        _ => "",
    };
    let mut out = String::from("\n");
    push_line(&mut out, format!("{} {class}", styled(BOLD, "live bytes over time:")).trim_end());
    if most > 0 {
        let (end, width) = (duration(Overview::of(profile).duration_ns), line.len());
        push_line(&mut out, &format!("  {}", sparkline(&line, most)));
        push_line(&mut out, &styled(DIM, format!("  0{}", right(&end, width.saturating_sub(1)))));
    }
    let shown = growing.len().min(view.fewer_rows());
    let growing = growing[..shown]
        .iter()
        .map(|row| format!("{} to {}", line_words(profile, row), bytes(row.counts.max_bytes)));
    let growing = growing.collect::<Vec<_>>();
    if !growing.is_empty() {
        let text = growing.join("; ");
        let title = "  never shrinking: ";
        let style = severity_style(Severity::Warning);
        let lines = wrap(&text, page.width.saturating_sub(columns(title)));
        push_titled(&mut out, title, style, &lines);
    }
    out
}

fn sparkline(values: &[u64], most: u64) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |value: &u64| {
        let height = (u128::from(*value) * 8).div_ceil(u128::from(most.max(1)));
        BARS[(height as usize).min(8)]
    };
    values.iter().map(bar).collect()
}

/// Renders the processes, if there are several: each has its own peak at its own time.
pub(super) fn processes(view: &HeapView<'_>, all: &[HeapProcess], page: Page) -> String {
    let mut out = String::new();
    if all.len() < 2 {
        return out;
    }
    let shown = view.rows().min(all.len());
    push_section(&mut out, "processes", "each at its own peak", shown, all.len(), page);
    for process in all.iter().take(shown) {
        let peak = right(&bytes(process.peak_bytes), VALUE);
        let line = format!("{peak}  {} ({}), {}", clean(&process.name), process.pid, end_of(process));
        push_indented(&mut out, &line, page);
    }
    out
}

/// The live memory of a process at its exit.
pub(super) fn end_of(process: &HeapProcess) -> String {
    match (process.executed, process.live_at_exit_blocks) {
        (true, _) => "executed another program".to_owned(),
        (false, 0) => "nothing live at exit".to_owned(),
        (false, blocks) => {
            format!("{} live at exit in {}", bytes(process.live_at_exit_bytes), blocks_of(blocks))
        }
    }
}
