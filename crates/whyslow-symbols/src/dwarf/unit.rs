//! Reads one unit for the addresses wanted from it: functions, inlined calls, lines.

use gimli::{AttributeValue, UnitOffset, UnitRef};
use rustc_hash::FxHashMap;
use whyslow_numbers::FileAddress;
use whyslow_profile::AsyncForm;

use super::lines::{Line, lines_of};
use super::names::{FileTable, Identity, identity};
use super::paths::file_path;
use super::{DebugInfo, Dwarf, Found, Slice, Unit};
use crate::answers::{RawFrame, RawFunction, TextId};
use crate::optimised::{Evidence, producer_flag};
use crate::split;

/// Resolves the sorted addresses in one unit.
pub(crate) fn resolve(info: &DebugInfo<'_>, row: usize, wanted: &[u64]) -> Found {
    let mut found = Found::default();
    let Some(unit) = info.units.get(row) else { return found };
    let mut files = Files { info, unit, paths: FxHashMap::default(), std: FxHashMap::default() };
    let Some(dwo_id) = unit.dwo_id else {
        let walked = Walk::run(info.units.dwarf, unit, wanted);
        let lines = Lines::read(unit, wanted, &walked);
        answer(Some(info), &mut files, info.units.dwarf, unit, wanted, &lines, walked, &mut found);
        return found;
    };
    let opened = split::with_unit(info, unit, dwo_id, |dwarf, split_unit| {
        let walked = Walk::run(dwarf, split_unit, wanted);
        let lines = Lines::read(unit, wanted, &walked);
        answer(None, &mut files, dwarf, split_unit, wanted, &lines, walked, &mut found);
    });
    if opened.is_none() {
        found.missing_units = 1;
        for (&address, line) in wanted.iter().zip(lines_of(unit, wanted)) {
            found.lines.extend(line.map(|line| (address, files.path(FileTable::Own, line.file), line.line)));
        }
    }
    found
}

/// Lines of the wanted addresses and of the starts of their functions.
struct Lines {
    addresses: Vec<u64>,
    lines: Vec<Option<Line>>,
}

impl Lines {
    fn read(unit: &Unit<'_>, wanted: &[u64], walked: &Walk) -> Self {
        let starts = walked.innermost.iter().flatten().map(|&(_, (start, _))| start);
        let mut addresses: Vec<u64> = wanted.iter().copied().chain(starts).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let lines = lines_of(unit, &addresses);
        Self { addresses, lines }
    }

    fn at(&self, address: u64) -> Option<Line> {
        self.lines[self.addresses.binary_search(&address).ok()?]
    }
}

/// Paths of the files that entries refer to.
struct Files<'i, 'a> {
    info: &'i DebugInfo<'a>,
    unit: &'i Unit<'a>,
    paths: FxHashMap<(FileTable, u64), Option<TextId>>,
    std: FxHashMap<u64, bool>,
}

impl Files<'_, '_> {
    fn path(&self, table: FileTable, index: u64) -> Option<String> {
        let in_units = |units: &super::Units<'_>, offset| {
            let (unit, _) = units.holding(gimli::DebugInfoOffset(offset))?;
            file_path(units.dwarf, unit, index)
        };
        match table {
            FileTable::Own => file_path(self.info.units.dwarf, self.unit, index),
            FileTable::Other(offset) => in_units(&self.info.units, offset),
            FileTable::Supplementary(offset) => in_units(self.info.supplementary.as_ref()?, offset),
        }
    }

    fn text(&mut self, found: &mut Found, table: FileTable, index: u64) -> Option<TextId> {
        if let Some(&known) = self.paths.get(&(table, index)) {
            return known;
        }
        let text = self.path(table, index).map(|path| found.answers.text_id(&path));
        self.paths.insert((table, index), text);
        text
    }

    /// Whether a file of this unit belongs to the standard library.
    fn is_std(&mut self, index: u64) -> bool {
        if let Some(&known) = self.std.get(&index) {
            return known;
        }
        let is = self.path(FileTable::Own, index).is_some_and(|path| crate::kind::is_std_path(&path));
        self.std.insert(index, is);
        is
    }
}

/// A function, or a call inlined into one, that covers wanted addresses.
struct Node {
    entry: UnitOffset<usize>,
    /// The node it is inlined into; `None` for a function.
    parent: Option<usize>,
    /// The function at the end of the chain of parents.
    function: usize,
    depth: u32,
    call_file: Option<u64>,
    call_line: u32,
}

/// One pass over a unit's entries.
struct Walk {
    nodes: Vec<Node>,
    /// For each wanted address: the innermost node, and the range of its function.
    innermost: Vec<Option<(usize, (u64, u64))>>,
    /// File indices of inlined calls in the nodes, whether or not they cover a wanted address.
    inlined_from: Vec<Option<u64>>,
    functions: u32,
}

impl Walk {
    fn run(dwarf: &Dwarf<'_>, unit: &Unit<'_>, wanted: &[u64]) -> Self {
        let mut walk = Self {
            nodes: Vec::new(),
            innermost: vec![None; wanted.len()],
            inlined_from: Vec::new(),
            functions: 0,
        };
        // A damaged unit ends here; earlier results remain valid.
        let _ = walk.entries(unit.unit_ref(dwarf), wanted);
        walk
    }

    fn entries(&mut self, unit: UnitRef<'_, Slice<'_>>, wanted: &[u64]) -> gimli::Result<()> {
        let mut entries = unit.entries_raw(None)?;
        // Functions and inlined calls around the current entry: depth, and the node if it covers wanted addresses.
        let mut scopes: Vec<(isize, Option<usize>)> = Vec::new();
        let mut covered = Vec::new();
        while !entries.is_empty() {
            let offset = entries.next_offset();
            let depth = entries.next_depth();
            // Every entry closes the scopes of its siblings, even a lexical block, which may contain further
            // inlined calls.
            while scopes.last().is_some_and(|&(open, _)| open >= depth) {
                scopes.pop();
            }
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            let tag = abbreviation.tag();
            if tag != gimli::DW_TAG_subprogram && tag != gimli::DW_TAG_inlined_subroutine {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let parent = scopes.last().and_then(|&(_, node)| node);
            let inlined = tag == gimli::DW_TAG_inlined_subroutine;
            if inlined && parent.is_none() {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let mut ranges = Ranges::default();
            let mut call_file = None;
            let mut call_line = 0;
            for &spec in abbreviation.attributes() {
                let attribute = entries.read_attribute(spec)?;
                match attribute.name() {
                    gimli::DW_AT_call_file => {
                        if let AttributeValue::FileIndex(index) = attribute.value()
                            // Up to version 4, row 0 means "no file".
                            && (index > 0 || unit.header.version() >= 5)
                        {
                            call_file = Some(index);
                        }
                    }
                    gimli::DW_AT_call_line => {
                        let line = attribute.udata_value();
                        call_line = line.and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
                    }
                    _ => ranges.attribute(unit, &attribute),
                }
            }
            covered.clear();
            ranges.each(unit, |range| {
                let first = wanted.partition_point(|&address| address < range.begin);
                let count = wanted[first..].iter().take_while(|&&address| address < range.end).count();
                covered.extend((first..first + count).map(|index| (index, range)));
            });
            if inlined {
                self.inlined_from.push(call_file);
            }
            let node = (!covered.is_empty()).then(|| {
                let parent = parent.filter(|_| inlined);
                let id = self.nodes.len();
                let (function, node_depth) = parent
                    .map_or((id, 0), |parent| (self.nodes[parent].function, self.nodes[parent].depth + 1));
                self.functions += u32::from(!inlined);
                self.nodes.push(Node {
                    entry: offset,
                    parent,
                    function,
                    depth: node_depth,
                    call_file,
                    call_line,
                });
                for &(index, range) in &covered {
                    self.cover(index, id, (range.begin, range.end));
                }
                id
            });
            scopes.push((depth, node));
        }
        Ok(())
    }

    /// Makes a node the innermost one of an address if it is deeper and inside the same function.
    fn cover(&mut self, index: usize, id: usize, range: (u64, u64)) {
        let node = &self.nodes[id];
        match &mut self.innermost[index] {
            slot @ None if node.parent.is_none() => *slot = Some((id, range)),
            Some((current, _)) => {
                let current_node = &self.nodes[*current];
                if current_node.function == node.function && current_node.depth < node.depth {
                    *current = id;
                }
            }
            None => {}
        }
    }
}

/// Turns nodes and lines into frames.
#[expect(clippy::too_many_arguments, reason = "a split unit has other sections than its line table")]
fn answer<'u, 'a: 'u>(
    references: Option<&'u DebugInfo<'a>>,
    files: &mut Files<'_, '_>,
    dwarf: &'u Dwarf<'a>,
    unit: &'u Unit<'a>,
    wanted: &[u64],
    lines: &Lines,
    walked: Walk,
    found: &mut Found,
) {
    found.evidence = evidence(files, dwarf, unit, wanted, &walked);
    let mut functions: FxHashMap<usize, Option<u32>> = FxHashMap::default();
    let mut frames = Vec::new();
    for (&address, innermost) in wanted.iter().zip(&walked.innermost) {
        let own_line = lines.at(address);
        let Some((innermost, extent)) = *innermost else {
            found
                .lines
                .extend(own_line.map(|line| (address, files.path(FileTable::Own, line.file), line.line)));
            continue;
        };
        frames.clear();
        let mut file = own_line.and_then(|line| files.text(found, FileTable::Own, line.file));
        let mut line = own_line.map_or(0, |line| line.line);
        let mut next = Some(innermost);
        while let Some(id) = next {
            let node = &walked.nodes[id];
            let function = match functions.get(&id) {
                Some(&known) => known,
                None => {
                    let identity = identity(references, dwarf, unit, node.entry);
                    let symbol = if node.parent.is_none() {
                        files.info.symbols.find(FileAddress(address))
                    } else {
                        None
                    };
                    let start = lines.at(extent.0).filter(|line| node.parent.is_none() && line.line > 0);
                    let start =
                        start.map(|start| (files.text(found, FileTable::Own, start.file), start.line));
                    // The first instruction can belong to another, inlined function. The sampled lines of
                    // this one are its own.
                    let seen = start.filter(|start| file.is_none() || start.0 == file).unwrap_or((file, 0));
                    let function =
                        function_id(files, found, &identity, symbol.map(|symbol| symbol.name), seen);
                    functions.insert(id, function);
                    function
                }
            };
            // Line 0 is code that the compiler attributes to no line; its file is meaningless too.
            let shown_file = file.filter(|_| line > 0);
            frames.extend(function.map(|function| RawFrame { function, file: shown_file, line }));
            file = node.call_file.and_then(|index| files.text(found, FileTable::Own, index));
            line = node.call_line;
            next = node.parent;
        }
        frames.reverse();
        if frames.is_empty() {
            found
                .lines
                .extend(own_line.map(|line| (address, files.path(FileTable::Own, line.file), line.line)));
        } else {
            let extent = (FileAddress(extent.0), FileAddress(extent.1));
            found.answers.add(FileAddress(address), extent, &frames);
        }
    }
}

/// The row of a function. Its own linkage name has priority, then a mangled symbol at its address (debug info
/// with only line tables omits linkage names), then the plain name. Without a stated definition, the first
/// line of the function counts as the definition, or the file it was sampled in.
fn function_id(
    files: &mut Files<'_, '_>,
    found: &mut Found,
    identity: &Identity<'_>,
    symbol: Option<&str>,
    seen: (Option<TextId>, u32),
) -> Option<u32> {
    let mangled = symbol.filter(|name| crate::demangle::is_mangled(name));
    let name = match (identity.linkage, mangled, identity.plain, symbol) {
        (Some(name), ..) | (None, None, Some(name), _) => String::from_utf8_lossy(name),
        (None, Some(name), ..) | (None, None, None, Some(name)) => name.into(),
        (None, None, None, None) => return None,
    };
    let name = found.answers.text_id(&name);
    let file = identity.file.and_then(|(table, index)| files.text(found, table, index));
    let (file, line) = if file.is_some() { (file, identity.line) } else { seen };
    let form = identity.plain.and_then(|plain| AsyncForm::of_debug_name(std::str::from_utf8(plain).ok()?));
    Some(found.answers.function_id(RawFunction { name, file, line, form }))
}

fn evidence<'a>(
    files: &mut Files<'_, '_>,
    dwarf: &Dwarf<'a>,
    unit: &Unit<'a>,
    wanted: &[u64],
    walked: &Walk,
) -> Evidence {
    let mut evidence = Evidence::default();
    let mut entries = unit.entries();
    let Ok(Some(root)) = entries.next_dfs() else { return evidence };
    let text = |value: Option<AttributeValue<Slice<'a>>>| {
        let text = value.and_then(|value| dwarf.attr_string(unit, value).ok());
        text.map(|text| text.to_string_lossy()).unwrap_or_default()
    };
    if root.attr_value(gimli::DW_AT_language) == Some(AttributeValue::Language(gimli::DW_LANG_Rust)) {
        let folder = unit.comp_dir.map(|folder| folder.to_string_lossy()).unwrap_or_default();
        let name = text(root.attr_value(gimli::DW_AT_name));
        if !crate::kind::is_std_path(&folder) && !crate::kind::is_std_path(&name) {
            evidence.rust_functions = walked.functions;
            let written_outside = |file: &&Option<u64>| file.is_some_and(|file| !files.is_std(file));
            evidence.rust_inlined = walked.inlined_from.iter().filter(written_outside).count() as u32;
        }
        return evidence;
    }
    let flag = match root.attr_value(gimli::DW_AT_APPLE_optimized) {
        Some(AttributeValue::Flag(true)) => Some(true),
        _ => producer_flag(&text(root.attr_value(gimli::DW_AT_producer))),
    };
    match flag {
        Some(true) => evidence.flagged_yes = wanted.len() as u32,
        Some(false) => evidence.flagged_no = wanted.len() as u32,
        None => {}
    }
    evidence
}

/// The attributes of an entry that determine its addresses.
#[derive(Default)]
pub(crate) struct Ranges {
    low: Option<u64>,
    high: Option<u64>,
    size: Option<u64>,
    list: Option<gimli::RangeListsOffset<usize>>,
}

impl Ranges {
    /// Reads an attribute of the entry.
    pub(crate) fn attribute<'a>(
        &mut self,
        unit: UnitRef<'_, Slice<'a>>,
        attribute: &gimli::Attribute<Slice<'a>>,
    ) {
        let address = |value| match value {
            AttributeValue::Addr(address) => Some(address),
            AttributeValue::DebugAddrIndex(index) => unit.address(index).ok(),
            _ => None,
        };
        match attribute.name() {
            gimli::DW_AT_low_pc => self.low = address(attribute.value()),
            gimli::DW_AT_high_pc => match attribute.value() {
                AttributeValue::Udata(size) => self.size = Some(size),
                value => self.high = address(value),
            },
            gimli::DW_AT_ranges => self.list = unit.attr_ranges_offset(attribute.value()).ok().flatten(),
            _ => {}
        }
    }

    /// Calls `each` for every non-empty range.
    pub(crate) fn each(&self, unit: UnitRef<'_, Slice<'_>>, mut each: impl FnMut(gimli::Range)) {
        if let Some(list) = self.list {
            let Ok(mut list) = unit.ranges(list) else { return };
            while let Ok(Some(range)) = list.next() {
                if range.begin < range.end {
                    each(range);
                }
            }
        } else if let Some(begin) = self.low {
            let end = self.high.or_else(|| begin.checked_add(self.size?));
            if let Some(end) = end.filter(|&end| begin < end) {
                each(gimli::Range { begin, end });
            }
        }
    }
}
