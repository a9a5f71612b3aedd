//! Table columns with ratios of CPU counters per function.

use whyslow_analyze::{Label, Ratio, RatioKind, Ratios};

use super::layout::{DIM, Page, push_wrapped};
use crate::sanitize::clean;
use crate::table::{Cell, Column};

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

/// The columns; none without counters. `shown` to people, as far as they fit.
pub(super) fn columns(ratios: &Ratios, shown: bool, page: Page) -> impl Iterator<Item = Column> {
    ratios.columns.iter().enumerate().map(move |(at, kind)| {
        let id = match kind {
            RatioKind::Ipc => "ipc".to_owned(),
            RatioKind::PerThousandInstructions(event) => format!("{event}_per_thousand_instructions"),
        };
        let column = Column::number(&id, &title(kind)).least(5);
        if shown && at < most_columns(page) { column } else { column.in_data() }
    })
}

/// The cells of a function.
pub(super) fn cells(ratios: &Ratios, label: Label) -> impl Iterator<Item = Cell> + '_ {
    let known = |ratio: Option<Ratio>| match ratio {
        Some(ratio) if ratio.is_known() || ratio.value == 0.0 => {
            Cell::number(ratio.value, words(Some(ratio)))
        }
        other => Cell::nothing().shown(words(other)),
    };
    ratios.of(label).map(known)
}

/// Formats a ratio: `1.25`, or `?` with too few samples.
fn words(ratio: Option<Ratio>) -> String {
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
            RatioKind::Ipc => format!("IPC: instructions per cycle, {} overall", words(*whole)),
            RatioKind::PerThousandInstructions(event) => {
                format!(
                    "{}: {} per thousand instructions, {} overall",
                    title(kind),
                    clean(event),
                    words(*whole)
                )
            }
        });
    let all = all.collect::<Vec<_>>().join("; ");
    push_wrapped(out, DIM, &format!("{all}; ?: too few samples"), page.width);
}
