//! The name and place of definition of a function entry.

use gimli::{AttributeValue, UnitOffset};

use super::{DebugInfo, Dwarf, Unit};

/// Maximum number of references followed from one entry to the next.
const LONGEST_CHAIN: usize = 16;

/// The facts about a function from an entry and the entries it refers to.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Identity<'a> {
    /// The linkage name.
    pub linkage: Option<&'a [u8]>,
    /// The name in the source.
    pub plain: Option<&'a [u8]>,
    /// The file of the definition: which unit's table, which row.
    pub file: Option<(FileTable, u64)>,
    /// The line of the definition, 0 if unknown.
    pub line: u32,
}

/// A unit whose line table has a file name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FileTable {
    /// The unit being resolved (its skeleton, if it is split).
    Own,
    /// Another unit of the same file, by the offset of one of its entries.
    Other(usize),
    /// A unit of the supplementary file.
    Supplementary(usize),
}

/// Where an entry is.
#[derive(Clone, Copy)]
struct Place<'u, 'a> {
    dwarf: &'u Dwarf<'a>,
    unit: &'u Unit<'a>,
    offset: UnitOffset<usize>,
    table: FileTable,
}

/// Collects everything about the function of an entry of `unit`. References out of the unit are followed into
/// `info`; split units have none.
pub(crate) fn identity<'u, 'a: 'u>(
    info: Option<&'u DebugInfo<'a>>,
    dwarf: &'u Dwarf<'a>,
    unit: &'u Unit<'a>,
    entry: UnitOffset<usize>,
) -> Identity<'a> {
    let mut identity = Identity::default();
    let mut place = Place { dwarf, unit, offset: entry, table: FileTable::Own };
    for _ in 0..LONGEST_CHAIN {
        let Ok(next) = read_entry(place, &mut identity) else { break };
        let done = identity.linkage.is_some() && identity.line != 0;
        match next.filter(|_| !done).and_then(|next| follow(info, place, next)) {
            Some(next) => place = next,
            None => break,
        }
    }
    identity
}

fn read_entry<'a>(
    place: Place<'_, 'a>,
    identity: &mut Identity<'a>,
) -> gimli::Result<Option<AttributeValue<super::Slice<'a>>>> {
    let mut entries = place.unit.entries_raw(Some(place.offset))?;
    let Some(abbreviation) = entries.read_abbreviation()? else { return Ok(None) };
    let mut next = None;
    let mut file = None;
    let mut line = 0;
    for &spec in abbreviation.attributes() {
        let attribute = entries.read_attribute(spec)?;
        let text = || place.dwarf.attr_string(place.unit, attribute.value()).ok().map(|text| text.slice());
        match attribute.name() {
            gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                identity.linkage = identity.linkage.or_else(text);
            }
            gimli::DW_AT_name => identity.plain = identity.plain.or_else(text),
            gimli::DW_AT_decl_file => {
                file = attribute.udata_value().or(match attribute.value() {
                    AttributeValue::FileIndex(index) => Some(index),
                    _ => None,
                });
            }
            gimli::DW_AT_decl_line => {
                line = attribute.udata_value().and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
            }
            gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => next = Some(attribute.value()),
            _ => {}
        }
    }
    if identity.line == 0 && line != 0 {
        identity.line = line;
        identity.file = file.map(|file| (place.table, file)).or(identity.file);
    }
    Ok(next)
}

fn follow<'u, 'a: 'u>(
    info: Option<&'u DebugInfo<'a>>,
    place: Place<'u, 'a>,
    reference: AttributeValue<super::Slice<'a>>,
) -> Option<Place<'u, 'a>> {
    match reference {
        AttributeValue::UnitRef(offset) => Some(Place { offset, ..place }),
        AttributeValue::DebugInfoRef(target) => {
            let info = info?;
            let (units, table): (_, fn(usize) -> FileTable) = match place.table {
                FileTable::Supplementary(_) => (info.supplementary.as_ref()?, FileTable::Supplementary),
                _ => (&info.units, FileTable::Other),
            };
            let (unit, offset) = units.holding(target)?;
            Some(Place { dwarf: units.dwarf, unit, offset, table: table(target.0) })
        }
        AttributeValue::DebugInfoRefSup(target) => {
            let units = info?.supplementary.as_ref()?;
            let (unit, offset) = units.holding(target)?;
            Some(Place { dwarf: units.dwarf, unit, offset, table: FileTable::Supplementary(target.0) })
        }
        _ => None,
    }
}
