//! The heap report as text.

mod accesses;
mod part;
mod sections;
mod spread;
#[cfg(test)]
mod tests;

use whyslow_analyze::heap::{Interval, SiteOrder, SiteRow, Sites, Trail};
use whyslow_analyze::{Overview, Quality, Warning};
use whyslow_profile::{HeapCounts, HeapFacts, Profile, Unit};
use whyslow_words::{Fact, Percent};

pub(crate) use self::accesses::access_words;
pub use self::part::heap_part;
use self::sections::{
    called_by, growth_chains, leaks, over_time, own_notes, processes, site_table, unused, way_in,
};
pub(super) use self::sections::{heap_table, line_words};
use super::layout::{
    BOLD, DIM, Page, columns, cut, label_name, number_of, push_line, push_titled, styled, wrap,
};
use super::quality::headline;
use super::remark::remark_lines;
use super::summary::{command_line, exit_words, next_commands};
use crate::sanitize::clean;
use crate::units::{Count, bytes, duration};

/// Default number of allocation sites in the main tables, and in the others.
const ROWS: usize = 5;
const FEWER_ROWS: usize = 3;
const MOST_WARNINGS: usize = 3;
/// Sites below this share of the total are shown only on demand.
const LEAST_SHARE: f64 = 0.005;
/// Temporary allocations below this share are not worth a section.
const NOTABLE: f64 = 0.01;

/// The contents of the heap report.
#[derive(Debug, Clone, Copy)]
pub struct HeapView<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// Its allocation sites.
    pub sites: &'a Sites,
    /// Its quality.
    pub quality: &'a Quality,
    /// Rows of each table; a screenful if `None`.
    pub limit: Option<usize>,
    /// Whether to show sizes, lifetimes and threads too.
    pub histograms: bool,
    /// After a recording: its file, quoted for the shell.
    pub saved: Option<&'a str>,
}

impl HeapView<'_> {
    fn rows(&self) -> usize {
        self.limit.unwrap_or(ROWS)
    }

    /// The number of rows of a main table: as many as requested, else a few that matter.
    fn notable(&self, values: impl Iterator<Item = u64>, whole: u64) -> usize {
        let least = match self.limit {
            Some(_) => 0.0,
            None => whole as f64 * LEAST_SHARE,
        };
        let values = values.take(self.rows()).collect::<Vec<_>>();
        match values.iter().take_while(|value| **value as f64 >= least).count() {
            // Many sites with a small share each.
            0 => values.len(),
            notable => notable,
        }
    }

    fn fewer_rows(&self) -> usize {
        self.limit.unwrap_or(FEWER_ROWS)
    }

    /// ` ±12.0 %` after a number of the whole program, if it is an estimate.
    fn roughly(&self, unit: Unit, number: impl Fn(&HeapCounts) -> u64 + 'static) -> String {
        let interval = self.sites.intervals.as_ref();
        let interval = interval.map(|intervals| intervals.of_all(self.profile, &number, unit));
        margin(interval, number(&self.sites.totals), unit)
    }

    /// The same for a number of one site.
    fn roughly_of(&self, row: &SiteRow, unit: Unit, number: impl Fn(&HeapCounts) -> u64 + 'static) -> String {
        let interval = self.sites.intervals.as_ref();
        let interval = interval.map(|intervals| intervals.of_row(self.profile, row, &number, unit));
        margin(interval, number(&row.counts), unit)
    }
}

/// Renders totals, quality, allocation sites, temporary, growing, leaked and unused memory, live bytes over
/// time, and the next commands. Empty sections are left out.
pub fn heap(view: &HeapView<'_>, page: Page) -> String {
    let Some(facts) = &view.profile.meta.heap else { return "the heap was not recorded\n".to_owned() };
    let mut out = head(view, facts, page);
    out.push_str(&tables(view, facts, page));
    out.push_str(&processes(view, &facts.by_process, page));
    out.push_str(&temporary(view, facts, page));
    out.push_str(&growth_chains(view, page));
    out.push_str(&leaks(view, facts, false, page));
    out.push_str(&unused(view, page));
    out.push_str(&accesses::accesses(view, page));
    out.push_str(&over_time(view, facts, page));
    if view.histograms {
        out.push_str(&spread::spread(view, facts, page));
    }
    if let Some(file) = view.saved {
        out.push_str(&foot(view, &clean(file), facts, page));
    }
    out
}

fn head(view: &HeapView<'_>, facts: &HeapFacts, page: Page) -> String {
    let HeapView { profile, sites, quality, .. } = *view;
    let mut out = String::new();
    if !profile.meta.command.is_empty() {
        push_line(&mut out, &styled(BOLD, cut(&command_line(&profile.meta.command), page.width)));
    }
    if let Some(snapshot) = &facts.snapshot {
        let title = format!("snapshot of process {} at {}", snapshot.pid, duration(snapshot.time_ns.0));
        push_line(&mut out, &title);
        if facts.processes > 1 {
            let whose = format!(
                "live and lost memory is of this process; all other numbers are of {} processes together",
                facts.processes
            );
            wrap(&whose, page.width).iter().for_each(|line| push_line(&mut out, line));
        }
    }
    let totals = &sites.totals;
    let wall = Overview::of(profile).duration_ns;
    let mut counts = format!(
        "{} wall, {}{}",
        duration(wall),
        number_of(totals.allocations, "allocation", "allocations"),
        view.roughly(Unit::Count, |counts| counts.allocations)
    );
    if wall > 0 && totals.allocations > 0 {
        let rate = totals.allocations as f64 / (wall as f64 / 1e9);
        counts.push_str(&format!(" ({} per second)", Count(rate.round() as u64)));
    }
    counts.push_str(&format!(
        ", {}{}, {}{} in all{}",
        number_of(totals.frees, "free", "frees"),
        view.roughly(Unit::Count, |counts| counts.frees),
        bytes(totals.bytes_allocated),
        view.roughly(Unit::Bytes, |counts| counts.bytes_allocated),
        exit_words(profile)
    ));
    let together = match facts.processes {
        0 | 1 => String::new(),
        processes => format!(" in {processes} processes together"),
    };
    let of_peak = sites.intervals.as_ref().map(|known| known.of_peak(profile));
    let of_peak = margin(of_peak, facts.peak_bytes, Unit::Bytes);
    let mut most =
        format!("peak {}{of_peak}{together} at {}", bytes(facts.peak_bytes), duration(facts.peak_ns.0));
    if profile.meta.max_resident_bytes > 0 {
        most.push_str(&format!(" (max resident {})", bytes(profile.meta.max_resident_bytes)));
    }
    most.push_str(match (&facts.snapshot, profile.meta.exit) {
        (Some(_), _) => ", live now ",
        (None, Some(_)) => ", live at exit ",
        // The program kept running after the recording.
        (None, None) => ", live at the end ",
    });
    most.push_str(&match totals.live_at_exit_blocks {
        0 => "nothing".to_owned(),
        blocks => format!(
            "{}{} in {}{}",
            bytes(totals.live_at_exit_bytes),
            view.roughly(Unit::Bytes, |counts| counts.live_at_exit_bytes),
            blocks_of(blocks),
            view.roughly(Unit::Count, |counts| counts.live_at_exit_blocks)
        ),
    });
    for line in [counts, most].iter().flat_map(|text| wrap(text, page.width)) {
        push_line(&mut out, &line);
    }
    let quality = quality.of_heap_alone();
    push_line(&mut out, &headline(&quality));
    // The leak section itself says why leaks were not searched for.
    let warnings = quality.warnings.iter().filter(|warning| !matches!(warning, Warning::NoLeakCheck(_)));
    let warnings = warnings.collect::<Vec<_>>();
    for warning in warnings.iter().take(MOST_WARNINGS) {
        out.push_str(&remark_lines(&warning.remark(), page.width));
    }
    if warnings.len() > MOST_WARNINGS {
        let more = warnings.len() - MOST_WARNINGS;
        push_line(&mut out, &styled(DIM, format!("+{more} more in the view `quality`")));
    }
    out
}

/// Renders the sites with the most bytes at the peak, the most bytes in all, and the most allocations.
fn tables(view: &HeapView<'_>, facts: &HeapFacts, page: Page) -> String {
    let totals = &view.sites.totals;
    let mut out = wrappers(view, page);
    let (mut said, mut opened) = (None, Vec::new());
    let at_peak = format!("{} in {}", bytes(facts.peak_bytes), blocks_of(totals.peak_blocks));
    let now = format!("{} in {}", bytes(totals.live_at_exit_bytes), blocks_of(totals.live_at_exit_blocks));
    let live_now = ("live now", SiteOrder::LiveAtExit, totals.live_at_exit_bytes, now);
    let always = [
        ("live at peak", SiteOrder::Peak, totals.peak_bytes, at_peak),
        ("allocated in all", SiteOrder::Bytes, totals.bytes_allocated, bytes(totals.bytes_allocated)),
        ("most allocations", SiteOrder::Allocations, totals.allocations, blocks_of(totals.allocations)),
    ];
    for (title, order, whole, note) in facts.snapshot.map(|_| live_now).into_iter().chain(always) {
        let rows = view.sites.by(order);
        let notable = view.notable(rows.iter().map(|row| row.key(order)), whole);
        let cells = rows.iter().take(notable).map(|row| {
            let share = Percent(row.key(order) as f64 / whole.max(1) as f64).to_string();
            match order {
                SiteOrder::Allocations => {
                    let often = view.roughly_of(row, Unit::Count, |counts| counts.allocations);
                    let size = view.roughly_of(row, Unit::Bytes, |counts| counts.bytes_allocated);
                    [
                        format!("{}{often}", Count(row.counts.allocations)),
                        share,
                        format!("{}{size}", bytes(row.counts.bytes_allocated)),
                    ]
                }
                _ => {
                    let size = view.roughly_of(row, Unit::Bytes, move |counts| order.key(counts));
                    let blocks = view.roughly_of(row, Unit::Count, move |counts| order.blocks(counts));
                    let blocks = format!("{}{blocks}", blocks_under_each_other(row.blocks(order)));
                    [format!("{}{size}", bytes(row.key(order))), share, blocks]
                }
            }
        });
        let cells = cells.collect::<Vec<_>>();
        if rows.is_empty() {
            continue;
        }
        push_section(&mut out, title, &note, cells.len(), rows.len(), page);
        let rows = &rows[..cells.len()];
        let mostly_for = view.sites.mostly_for(order);
        if let Some(mostly) = &mostly_for {
            let own = &mostly.0;
            // Most tables have the same call path, so print it once.
            let trail = match said.replace(*own) {
                Some(before) if before == *own => Trail::default(),
                _ => view.sites.inside(view.profile, own, order),
            };
            push_indented(&mut out, &way_in(view.profile, mostly, &trail, whole), page);
        }
        let mut notes = own_notes(view.profile, rows, mostly_for.as_ref().map(|(own, _)| own));
        // A site that holds most bytes shows its callers, once.
        if let (Some(row), Some(note)) = (rows.first(), notes.first_mut())
            && row.key(order) > whole / 2
            && !opened.contains(&row.stack)
        {
            opened.push(row.stack);
            let callers = called_by(view.profile, &view.sites.callers(view.profile, row, order));
            *note = [std::mem::take(note), callers]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join(", ");
        }
        out.push_str(&site_table(view.profile, rows, &cells, &notes, page));
    }
    out
}

/// Names the functions of the program that nearly all allocations go through.
fn wrappers(view: &HeapView<'_>, page: Page) -> String {
    let names = view.sites.wrappers.evident.iter().map(|&label| label_name(view.profile, label));
    let names = names.collect::<Vec<_>>();
    let mut out = String::new();
    if !names.is_empty() {
        let text = format!(
            "nearly all allocations go through {}: its callers are shown instead",
            names.join(" and ")
        );
        push_line(&mut out, "");
        wrap(&text, page.width).iter().for_each(|line| push_line(&mut out, &styled(DIM, line)));
    }
    out
}

fn temporary(view: &HeapView<'_>, facts: &HeapFacts, page: Page) -> String {
    let totals = &view.sites.totals;
    let share = totals.temporary as f64 / totals.allocations.max(1) as f64;
    if share < NOTABLE {
        return String::new();
    }
    let others = match facts.temporary_within {
        0 | 1 => "again".to_owned(),
        within => format!("{within} more times"),
    };
    let (was, its) = if totals.temporary == 1 { ("was", "its") } else { ("were", "their") };
    let note = format!(
        "{} ({}) {was} freed before {its} thread allocated {others}",
        number_of(totals.temporary, "allocation", "allocations"),
        Percent(share)
    );
    let rows = view.sites.by(SiteOrder::Temporary);
    let cells = rows.iter().take(view.fewer_rows()).map(|row| {
        let of_all = Percent(row.counts.temporary as f64 / totals.temporary.max(1) as f64);
        [
            Count(row.counts.temporary).to_string(),
            of_all.to_string(),
            format!("of {}", blocks_under_each_other(row.counts.allocations)),
        ]
    });
    let cells = cells.collect::<Vec<_>>();
    let mut out = String::new();
    push_section(&mut out, "temporary", &note, cells.len(), rows.len(), page);
    let notes = own_notes(view.profile, &rows[..cells.len()], None);
    out.push_str(&site_table(view.profile, &rows, &cells, &notes, page));
    out
}

/// Renders the leaks alone: each line with its callers.
pub fn leaks_of(view: &HeapView<'_>, page: Page) -> String {
    let Some(facts) = &view.profile.meta.heap else { return "the heap was not recorded\n".to_owned() };
    let text = leaks(view, facts, true, page);
    let text = text.trim_start_matches('\n');
    if text.is_empty() { "leaks: none: no block was live at the end\n".to_owned() } else { text.to_owned() }
}

fn foot(view: &HeapView<'_>, file: &str, facts: &HeapFacts, page: Page) -> String {
    let mut out = String::from("\n");
    push_line(&mut out, &format!("{} {file}", styled(BOLD, "saved:")));
    let metric = if facts.snapshot.is_some() { "live-at-exit" } else { "live-at-peak" };
    let totals = &view.sites.totals;
    let lost = totals.definitely_lost_blocks + totals.indirectly_lost_blocks + totals.possibly_lost_blocks;
    let mut commands = vec![
        format!("whyslow view {file}"),
        format!("whyslow flame {file} --metric {metric}"),
        format!("whyslow report {file} heap --histograms"),
    ];
    if lost > 0 {
        commands.insert(0, format!("whyslow report {file} leaks"));
    }
    out.push_str(&next_commands(commands, page.width));
    out
}

/// Appends a blank line and the title of a section, with the number of rows that follow.
fn push_section(out: &mut String, title: &str, note: &str, shown: usize, all: usize, page: Page) {
    out.push('\n');
    let title = format!("{title}: ");
    let mut lines = wrap(note, page.width.saturating_sub(columns(&title)));
    if shown < all {
        let more = format!("({} of {} lines)", Count(shown as u64), Count(all as u64));
        match lines.last_mut() {
            Some(last) if columns(&title) + columns(last) + 1 + columns(&more) <= page.width => {
                last.push_str(&format!(" {}", styled(DIM, more)));
            }
            _ => lines.push(styled(DIM, more)),
        }
    }
    push_titled(out, &title, BOLD, &lines);
}

/// The error of an estimate as ` ±12.0 %`; ` (at least 3)` or ` or more` if it has no useful upper end; empty for exact
/// counts.
fn margin(interval: Option<Interval>, number: u64, unit: Unit) -> String {
    let margin = |interval: Interval| match (interval.relative(number), unit) {
        (Some(share), _) => format!(" ±{}", Percent(share)),
        (None, _) if interval.low >= number => " or more".to_owned(),
        (None, Unit::Bytes) => format!(" (at least {})", bytes(interval.low)),
        (None, _) => format!(" (at least {})", Count(interval.low)),
    };
    interval.filter(|_| number > 0).map_or_else(String::new, margin)
}

/// Formats a count: `1 block`, `20,008 blocks`.
fn blocks_of(count: u64) -> String {
    number_of(count, "block", "blocks")
}

/// The same, padded for a column.
fn blocks_under_each_other(count: u64) -> String {
    let padding = if count == 1 { " " } else { "" };
    format!("{}{padding}", blocks_of(count))
}

/// Appends wrapped, indented lines.
fn push_indented(out: &mut String, text: &str, page: Page) {
    const INDENT: &str = "  ";
    push_titled(out, INDENT, DIM, &wrap(text, page.width.saturating_sub(INDENT.len())));
}
