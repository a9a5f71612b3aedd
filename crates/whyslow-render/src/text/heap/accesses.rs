//! How often blocks are read and written, and which of their bytes are used.

use whyslow_analyze::heap::{BlockAccesses, SiteOrder, SiteRow};
use whyslow_profile::{HeapCounts, Unit};

use super::sections::{own_notes, site_table};
use super::{HeapView, push_section};
use crate::text::layout::{Page, number_of};
use crate::units::{bytes, value};

/// Renders reads and writes per line, most accessed first, with the offsets that are used.
pub(super) fn accesses(view: &HeapView<'_>, page: Page) -> String {
    let HeapCounts { bytes_read, bytes_written, bytes_allocated, .. } = view.sites.totals;
    if bytes_read == 0 && bytes_written == 0 {
        return String::new();
    }
    let rows = view.sites.by(SiteOrder::Bytes);
    let never_read = rows.iter().filter(|row| row.counts.bytes_read == 0);
    let unread: u64 = never_read.map(|row| row.counts.bytes_allocated).fold(0, u64::saturating_add);
    let note = format!(
        "{} read, {} written; {} of {} allocated are at lines whose blocks are never read",
        bytes(bytes_read),
        bytes(bytes_written),
        bytes(unread),
        bytes(bytes_allocated)
    );
    let cells: Vec<[String; 3]> = rows
        .iter()
        .take(view.fewer_rows())
        .map(|row| {
            let counts = &row.counts;
            [
                format!("{} read", bytes(counts.bytes_read)),
                format!("{} written", bytes(counts.bytes_written)),
                format!("of {}", bytes(counts.bytes_allocated)),
            ]
        })
        .collect();
    let mut out = String::new();
    push_section(&mut out, "accesses", &note, cells.len(), rows.len(), page);
    let mut notes = own_notes(view.profile, &rows[..cells.len()], None);
    for (note, row) in notes.iter_mut().zip(&rows) {
        let parts = [std::mem::take(note), words(view, row)];
        *note = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
    }
    out.push_str(&site_table(view.profile, &rows, &cells, &notes, page));
    out
}

fn words(view: &HeapView<'_>, row: &SiteRow) -> String {
    let used = BlockAccesses::of(view.profile, row).map(|accesses| access_words(&accesses));
    let unread = match (row.counts.bytes_read, row.counts.bytes_written) {
        (0, 0) => "never touched",
        (0, _) => "never read",
        _ => "",
    };
    let parts = [unread.to_owned(), used.unwrap_or_default()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

/// `of 96 bytes, 8 are used (offsets 0-7), 80 only initialised, 8 never touched (offsets 88-95)`
pub(crate) fn access_words(of: &BlockAccesses) -> String {
    let [dead, once, hot] = of.parts();
    if dead == 0 && once == 0 {
        return String::new();
    }
    let mut parts = Vec::new();
    if hot > 0 {
        parts.push(format!("{hot} used more than once{}", offsets(&of.hot())));
    }
    if once > 0 {
        parts.push(format!("{once} accessed at most once per block: initialised"));
    }
    if dead > 0 {
        parts.push(format!("{dead} never accessed{}", offsets(&of.dead())));
    }
    let blocks = value(of.blocks, Unit::Count);
    format!(
        "of {} in each of {blocks} {}: {}",
        number_of(of.bytes, "byte", "bytes"),
        if of.blocks == 1 { "block" } else { "blocks" },
        parts.join(", ")
    )
}

/// ` (offsets 0-7, 16-23)`; the first few.
fn offsets(stretches: &[(u64, u64)]) -> String {
    const MOST: usize = 4;
    let shown = stretches.iter().take(MOST).map(|(start, length)| match length {
        1 => start.to_string(),
        _ => format!("{start}-{}", start + length - 1),
    });
    let mut shown: Vec<String> = shown.collect();
    if stretches.len() > MOST {
        shown.push("…".to_owned());
    }
    let word = if shown.len() == 1 && !shown[0].contains('-') { "offset" } else { "offsets" };
    format!(" ({word} {})", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_analyze::heap::AccessStretch;

    #[test]
    fn the_offsets_that_are_used_are_named() {
        let run = |start, length, per_block| AccessStretch { start, length, per_block, is_least: false };
        let of = BlockAccesses {
            bytes: 96,
            blocks: 1000,
            runs: vec![run(0, 8, 40.0), run(8, 80, 1.0), run(88, 8, 0.0)],
        };
        assert_eq!(
            access_words(&of),
            "of 96 bytes in each of 1,000 blocks: 8 used more than once (offsets 0-7), 80 accessed at most once per block: \
             initialised, 8 never accessed (offsets 88-95)"
        );
        let all = BlockAccesses { runs: vec![run(0, 96, 2.0)], ..of };
        assert_eq!(access_words(&all), "", "nothing to say");
    }
}
