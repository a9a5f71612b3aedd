//! Finds inlined functions and the code that contains them, in one pass over all units with code.

use gimli::{AttributeValue, UnitOffset};
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::names::identity;
use super::paths::file_path;
use super::unit::Ranges;
use super::{DebugInfo, Dwarf, Slice, Unit};
use crate::split;

/// An inlined call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InlinedCall {
    /// The callee.
    pub name: String,
    /// An address of the code that contains it.
    pub host: u64,
    /// The file and line of the call, if known.
    pub place: Option<(String, u32)>,
    /// Start and end of its code.
    pub ranges: Vec<(u64, u64)>,
}

impl DebugInfo<'_> {
    /// Inlined calls of functions for which `shown` returns a name. Its argument is the linkage name, or else
    /// the source name.
    pub(crate) fn inlined_calls(&self, shown: impl Fn(&str) -> Option<String> + Sync) -> Vec<InlinedCall> {
        let of_unit = |row: usize| {
            let mut calls = Vec::new();
            let Some(unit) = self.units.get(row) else { return calls };
            // A damaged unit ends early; earlier results remain valid.
            match unit.dwo_id {
                None => {
                    let walk = Walk { info: Some(self), dwarf: self.units.dwarf, unit, lines: Some(unit) };
                    let _ = walk.run(&shown, &mut calls);
                }
                Some(id) => {
                    split::with_unit(self, unit, id, |dwarf, unit| {
                        let _ = Walk { info: None, dwarf, unit, lines: None }.run(&shown, &mut calls);
                    });
                }
            }
            calls
        };
        let rows = self.units.rows_with_code();
        rows.into_par_iter().flat_map_iter(of_unit).collect()
    }
}

/// One pass over a unit. References to other units are followed if `info` is given; the unit of `lines` names
/// the files.
struct Walk<'u, 'a> {
    info: Option<&'u DebugInfo<'a>>,
    dwarf: &'u Dwarf<'a>,
    unit: &'u Unit<'a>,
    lines: Option<&'u Unit<'a>>,
}

/// The attributes of an entry.
#[derive(Default)]
struct Entry {
    ranges: Ranges,
    /// The abstract origin: whether it is in the same unit, and its offset.
    origin: Option<(bool, usize)>,
    file: Option<u64>,
    line: u32,
}

impl<'a> Walk<'_, 'a> {
    fn run(
        &self,
        shown: &impl Fn(&str) -> Option<String>,
        calls: &mut Vec<InlinedCall>,
    ) -> gimli::Result<()> {
        let mut entries = self.unit.entries_raw(None)?;
        // The functions around the current entry: depth, and an address of their code.
        let mut hosts: Vec<(isize, Option<u64>)> = Vec::new();
        let mut names: FxHashMap<(bool, usize), Option<String>> = FxHashMap::default();
        while !entries.is_empty() {
            let offset = entries.next_offset();
            let depth = entries.next_depth();
            while hosts.last().is_some_and(|&(open, _)| open >= depth) {
                hosts.pop();
            }
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            let tag = abbreviation.tag();
            let is_inlined = tag == gimli::DW_TAG_inlined_subroutine;
            let host = hosts.last().and_then(|&(_, address)| address);
            if tag != gimli::DW_TAG_subprogram && (!is_inlined || host.is_none()) {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let mut entry = Entry::default();
            let mut name = None;
            for (at, &spec) in abbreviation.attributes().iter().enumerate() {
                self.attribute(&entries.read_attribute(spec)?, &mut entry);
                let Some(origin) = entry.origin.filter(|_| is_inlined && name.is_none()) else { continue };
                name.clone_from(names.entry(origin).or_insert_with(|| self.name(offset, shown)));
                // Most calls are of other functions; skip them.
                if name.is_none() {
                    entries.skip_attributes(&abbreviation.attributes()[at + 1..])?;
                    break;
                }
            }
            if !is_inlined {
                hosts.push((depth, self.first_address(&entry)));
            } else if let (Some(host), Some(name)) = (host, name) {
                let (place, ranges) = (self.place(&entry), self.ranges(&entry));
                calls.push(InlinedCall { name, host, place, ranges });
            }
        }
        Ok(())
    }

    fn attribute(&self, attribute: &gimli::Attribute<Slice<'a>>, entry: &mut Entry) {
        match (attribute.name(), attribute.value()) {
            (gimli::DW_AT_abstract_origin, AttributeValue::UnitRef(offset)) => {
                entry.origin = Some((true, offset.0));
            }
            (gimli::DW_AT_abstract_origin, AttributeValue::DebugInfoRef(offset)) => {
                entry.origin = Some((false, offset.0));
            }
            (gimli::DW_AT_call_file, AttributeValue::FileIndex(index)) => entry.file = Some(index),
            (gimli::DW_AT_call_line, _) => {
                let line = attribute.udata_value();
                entry.line = line.and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
            }
            _ => entry.ranges.attribute(self.unit.unit_ref(self.dwarf), attribute),
        }
    }

    fn first_address(&self, entry: &Entry) -> Option<u64> {
        let mut first = None;
        entry.ranges.each(self.unit.unit_ref(self.dwarf), |range| {
            first = first.or(Some(range.begin));
        });
        first
    }

    fn ranges(&self, entry: &Entry) -> Vec<(u64, u64)> {
        let mut ranges = Vec::new();
        entry.ranges.each(self.unit.unit_ref(self.dwarf), |range| ranges.push((range.begin, range.end)));
        ranges
    }

    fn name(&self, entry: UnitOffset<usize>, shown: &impl Fn(&str) -> Option<String>) -> Option<String> {
        let identity = identity(self.info, self.dwarf, self.unit, entry);
        shown(std::str::from_utf8(identity.linkage.or(identity.plain)?).ok()?)
    }

    fn place(&self, entry: &Entry) -> Option<(String, u32)> {
        let file = file_path(self.info?.units.dwarf, self.lines?, entry.file?)?;
        (entry.line > 0).then_some((file, entry.line))
    }
}
