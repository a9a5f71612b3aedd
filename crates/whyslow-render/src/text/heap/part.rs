//! The heap of some threads or processes of a recording.

use whyslow_analyze::heap::SiteOrder;
use whyslow_profile::HeapProcess;
use whyslow_words::Percent;

use super::sections::{end_of, own_notes, processes, site_table};
use super::{HeapView, push_section};
use crate::sanitize::clean;
use crate::text::layout::{BOLD, DIM, Page, cut, number_of, push_line, styled, wrap};
use crate::text::quality::headline;
use crate::text::summary::command_line;
use crate::units::{Count, bytes};

/// Renders the counts that exist per thread: allocations, their live bytes at the recording's overall peak,
/// and at the end. `sites` belong to the chosen threads; `chosen` lists the processes that were chosen as a
/// whole.
pub fn heap_part(view: &HeapView<'_>, chosen: &[HeapProcess], page: Page) -> String {
    let HeapView { profile, sites, quality, .. } = *view;
    let totals = &sites.totals;
    let mut out = String::new();
    if !profile.meta.command.is_empty() {
        push_line(&mut out, &styled(BOLD, cut(&command_line(&profile.meta.command), page.width)));
    }
    let counts = number_of(totals.allocations, "allocation", "allocations");
    let mut lines = vec![format!("{counts}, {} in all", bytes(totals.bytes_allocated))];
    if let [process] = chosen {
        let name = format!("{} ({})", clean(&process.name), process.pid);
        lines[0].insert_str(0, &format!("{name}: "));
        lines.push(format!("own peak {}, {}", bytes(process.peak_bytes), end_of(process)));
    }
    lines.iter().flat_map(|line| wrap(line, page.width)).for_each(|line| push_line(&mut out, &line));
    push_line(&mut out, &headline(&quality.of_heap_alone()));
    let tables = [
        ("live at the peak of all processes", SiteOrder::Peak, totals.peak_bytes, bytes(totals.peak_bytes)),
        ("allocated in all", SiteOrder::Bytes, totals.bytes_allocated, bytes(totals.bytes_allocated)),
        (
            "most allocations",
            SiteOrder::Allocations,
            totals.allocations,
            number_of(totals.allocations, "block", "blocks"),
        ),
        ("live at exit", SiteOrder::LiveAtExit, totals.live_at_exit_bytes, bytes(totals.live_at_exit_bytes)),
    ];
    for (title, order, whole, note) in tables {
        let rows = sites.by(order);
        let notable = view.notable(rows.iter().map(|row| row.key(order)), whole);
        let cells: Vec<[String; 3]> = rows
            .iter()
            .take(notable)
            .map(|row| {
                let share = Percent(row.key(order) as f64 / whole.max(1) as f64).to_string();
                match order {
                    SiteOrder::Allocations => {
                        [Count(row.key(order)).to_string(), share, bytes(row.counts.bytes_allocated)]
                    }
                    _ => [bytes(row.key(order)), share, String::new()],
                }
            })
            .collect();
        if !rows.is_empty() {
            push_section(&mut out, title, &note, cells.len(), rows.len(), page);
            let notes = own_notes(profile, &rows[..cells.len()], None);
            out.push_str(&site_table(profile, &rows, &cells, &notes, page));
        }
    }
    out.push_str(&processes(view, chosen, page));
    out.push('\n');
    let rest = "leaks, growth, sizes and lifetimes exist only for all processes together: run without --process and --thread";
    wrap(rest, page.width).iter().for_each(|line| push_line(&mut out, &styled(DIM, line)));
    out
}
