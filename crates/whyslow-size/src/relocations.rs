//! What the loader changes for whom: each entry of a relocation table belongs to the variable that it changes or,
//! where that has no name, to the function that it stores.
//!
//! ```text
//! .rela.dyn = { place:u64 information:u64 addend:i64 }     sorted by nothing in particular
//! ```

use std::ops::Range;

use crate::layout::Section;
use crate::owners::OwnerId;
use crate::symbols::Map;

const ENTRY: usize = 24;

/// The entries with an owner: offsets in the file.
pub(crate) fn claims(section: &Section, bytes: &[u8], map: &Map) -> Vec<(Range<u64>, OwnerId)> {
    if !section.loaded || !section.name.starts_with(".rela") {
        return Vec::new();
    }
    let data = &bytes[section.file.start as usize..section.file.end as usize];
    let (rows, _) = data.as_chunks::<ENTRY>();
    let start = section.file.start;
    let claim = |(at, row): (u64, &[u8; ENTRY])| {
        let field = |from: usize| {
            let mut field = [0; 8];
            field.copy_from_slice(&row[from..from + 8]);
            u64::from_le_bytes(field)
        };
        let owner = map.owner(field(0)).or_else(|| map.owner(field(16)))?;
        let from = start + at * ENTRY as u64;
        Some((from..from + ENTRY as u64, owner))
    };
    (0..).zip(rows).filter_map(claim).collect()
}
