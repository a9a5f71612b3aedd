//! Long texts in read-only data: string literals, embedded files, tables of words.

use whyslow_analyze::size::LongText;
use whyslow_profile::size::Part;

use crate::measure::Pieces;

const SHORTEST: usize = 64;
/// The maximum number of texts that are kept.
const MOST: usize = 100;
/// How much of a text is kept.
const KEPT: usize = 80;

/// The longest runs of text, longest first. Rust writes literals one after the other, without an end, so that several
/// can be one run.
pub(crate) fn longest(pieces: &Pieces<'_>, bytes: &[u8]) -> Vec<LongText> {
    let mut found: Vec<(usize, usize, usize)> = Vec::new();
    for (region, row) in &pieces.layout.regions {
        if pieces.layout.sections[*row].part != Part::ReadOnly {
            continue;
        }
        let (start, data) = (region.start as usize, &bytes[region.start as usize..region.end as usize]);
        let mut at = 0;
        for run in data.split(|byte| !is_text(*byte)) {
            if run.len() >= SHORTEST {
                found.push((run.len(), start + at, *row));
            }
            at += run.len() + 1;
        }
    }
    found.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    found.truncate(MOST);
    let text = |(len, at, row): (usize, usize, usize)| LongText {
        len: len as u64,
        section: pieces.layout.sections[row].name.clone(),
        start: String::from_utf8_lossy(&bytes[at..at + len.min(KEPT)]).into_owned(),
    };
    found.into_iter().map(text).collect()
}

/// ASCII that is printed, white space, and the bytes of other letters in UTF-8.
fn is_text(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\n' | b'\t' | b'\r' | 0xc2..=0xf4 | 0x80..=0xbf)
}
