//! Table columns with ratios of CPU counters per function.

use whyslow_analyze::{Label, Ratio, RatioKind, Ratios};

use super::layout::{DIM, Page, columns, push_wrapped, right};
use crate::sanitize::clean;

/// Number of columns that fit next to the names.
fn most_columns(page: Page) -> usize {
    if page.width >= 120 { 4 } else { 3 }
}

/// The column heading: `IPC`, `LLC-load/k`.
fn title(kind: &RatioKind) -> String {
    match kind {
        RatioKind::Ipc => "IPC".to_owned(),
        RatioKind::PerThousandInstructions(event) => {
            let plain = event.split(':').next().unwrap_or(event);
            let plain = plain.split('/').nth(1).unwrap_or(plain);
            format!("{}/k", clean(plain.strip_suffix("-misses").unwrap_or(plain)))
        }
    }
}

fn width(title: &str) -> usize {
    columns(title).max(5) + 2
}

fn titles(ratios: &Ratios, page: Page) -> Vec<String> {
    ratios.columns.iter().map(title).take(most_columns(page)).collect()
}

/// The column headings; empty without counters.
pub(super) fn header(ratios: &Ratios, page: Page) -> String {
    titles(ratios, page).iter().map(|title| right(title, width(title))).collect()
}

/// The cells of a function.
pub(super) fn cells(ratios: &Ratios, label: Label, page: Page) -> String {
    let cells = titles(ratios, page).into_iter().zip(ratios.of(label));
    cells.map(|(title, ratio)| right(&cell(ratio), width(&title))).collect()
}

/// Formats a ratio: `1.25`, or `?` with too few samples.
fn cell(ratio: Option<Ratio>) -> String {
    match ratio {
        None => "-".to_owned(),
        Some(Ratio { value: 0.0, .. }) => "0".to_owned(),
        Some(ratio) if !ratio.is_known() => "?".to_owned(),
        Some(Ratio { value, .. }) if value < 10.0 => format!("{value:.2}"),
        Some(Ratio { value, .. }) if value < 100.0 => format!("{value:.1}"),
        Some(Ratio { value, .. }) => format!("{value:.0}"),
    }
}

/// Appends the meaning of the columns, with the ratios of the whole program.
pub(super) fn push_meaning(out: &mut String, ratios: &Ratios, page: Page) {
    if ratios.columns.is_empty() {
        return;
    }
    let all =
        ratios.columns.iter().zip(&ratios.whole).take(most_columns(page)).map(|(kind, whole)| match kind {
            RatioKind::Ipc => format!("IPC: instructions per cycle, {} overall", cell(*whole)),
            RatioKind::PerThousandInstructions(event) => {
                format!(
                    "{}: {} per thousand instructions, {} overall",
                    title(kind),
                    clean(event),
                    cell(*whole)
                )
            }
        });
    let all = all.collect::<Vec<_>>().join("; ");
    push_wrapped(out, DIM, &format!("{all}; ?: too few samples"), page.width);
}
