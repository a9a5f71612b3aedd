//! Which function an entry of the unwind tables belongs to.
//!
//! | section | a part of it | belongs to |
//! |---|---|---|
//! | `.eh_frame` | an entry (FDE) | the function that it describes |
//! | `.eh_frame` | what entries share (CIE), the end | nobody |
//! | `.eh_frame_hdr` | 8 bytes of its search table | the function whose address it has |
//! | `.gcc_except_table` | a table of landing pads, up to the next one | the function whose entry names it |

use std::ops::Range;

use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, LittleEndian, Pointer, UnwindSection as _};

use crate::layout::{Layout, Section};

/// The entry of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its bytes, as offsets in `.eh_frame`.
    pub at: Range<u64>,
    /// The function's code.
    pub code: Range<u64>,
    /// The address of its table of landing pads.
    pub landing_pads: Option<u64>,
}

/// The entries of `.eh_frame` in their order. A damaged entry ends the list.
pub(crate) fn entries(layout: &Layout, bytes: &[u8]) -> Vec<Entry> {
    let find = |name: &str| layout.sections.iter().find(|section| section.name == name);
    let Some(section) = find(".eh_frame").filter(|_| !layout.is_object) else { return Vec::new() };
    let data = &bytes[section.file.start as usize..section.file.end as usize];
    let eh_frame = EhFrame::from(EndianSlice::new(data, LittleEndian));
    let mut bases = BaseAddresses::default().set_eh_frame(section.address);
    if let Some(text) = find(".text") {
        bases = bases.set_text(text.address);
    }
    let mut found = Vec::new();
    let mut all = eh_frame.entries(&bases);
    while let Ok(Some(entry)) = all.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else { continue };
        let start = fde.offset() as u64;
        let Some(length) = total_length(data, start) else { break };
        let landing_pads = match fde.lsda() {
            Some(Pointer::Direct(address)) => Some(address),
            _ => None,
        };
        let code = fde.initial_address()..fde.end_address();
        found.push(Entry { at: start..start.saturating_add(length), code, landing_pads });
    }
    found
}

/// The length of an entry with its own field.
fn total_length(data: &[u8], at: u64) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let short = u32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?);
    if short < u32::MAX {
        return Some(u64::from(short) + 4);
    }
    let long = u64::from_le_bytes(data.get(at + 4..at + 12)?.try_into().ok()?);
    long.checked_add(12)
}

/// The parts of a section of unwind tables: offsets in the file, and an address in the function.
pub(crate) fn claims(section: &Section, bytes: &[u8], entries: &[Entry]) -> Vec<(Range<u64>, u64)> {
    let file = &section.file;
    let mut claims: Vec<(Range<u64>, u64)> = match section.name.as_str() {
        ".eh_frame" => {
            let claim = |entry: &Entry| {
                let at = |offset: u64| file.start.saturating_add(offset);
                (at(entry.at.start)..at(entry.at.end), entry.code.start)
            };
            entries.iter().map(claim).collect()
        }
        ".eh_frame_hdr" => search_table(section, bytes),
        name if name.starts_with(".gcc_except_table") => {
            let mut tables: Vec<(u64, u64)> =
                entries.iter().filter_map(|entry| Some((entry.landing_pads?, entry.code.start))).collect();
            tables.sort_unstable();
            tables.dedup_by_key(|(table, _)| *table);
            let end = section.address.saturating_add(file.end - file.start);
            let ends = tables.iter().skip(1).map(|(table, _)| *table).chain([end]);
            let in_file =
                |address: u64| Some(address.checked_sub(section.address)?.saturating_add(file.start));
            let claim =
                |((start, code), end): (&(u64, u64), u64)| Some((in_file(*start)?..in_file(end)?, *code));
            tables.iter().zip(ends).filter_map(claim).collect()
        }
        _ => Vec::new(),
    };
    claims.sort_by_key(|(range, _)| range.start);
    claims
}

/// ```text
/// .eh_frame_hdr = version:u8=1 encodings:u8×3 eh_frame:i32 count:u32 { function:i32 entry:i32 }
/// ```
/// Addresses count from the start of the section. Other encodings are not used by any linker.
fn search_table(section: &Section, bytes: &[u8]) -> Vec<(Range<u64>, u64)> {
    const HEAD: usize = 12;
    const USUAL: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
    let data = &bytes[section.file.start as usize..section.file.end as usize];
    if !data.starts_with(&USUAL) || data.len() < HEAD {
        return Vec::new();
    }
    let (rows, _) = data[HEAD..].as_chunks::<8>();
    let start = section.file.start + HEAD as u64;
    let claim = |(at, row): (u64, &[u8; 8])| {
        let offset = i32::from_le_bytes([row[0], row[1], row[2], row[3]]);
        let from = start + at * 8;
        (from..from + 8, section.address.wrapping_add_signed(offset.into()))
    };
    (0..).zip(rows).map(claim).collect()
}
