//! The functions of Go programs: the Go runtime has a table of them that `strip` does not remove.
//!
//! ```text
//! .gopclntab = magic:u32 0 0 quantum:u8 pointer_size:u8
//!              functions:u64 files:u64 [text_start:u64] names:u64 units:u64 files:u64 pcs:u64 table:u64    offsets from the start
//! table      = { entry function }                 pairs of u32 relative to text_start; before Go 1.18 of u64, absolute
//! function   = entry:u32 (u64) name:i32 …         at table + its offset; the name ends with a zero byte
//! ```

use std::ops::Range;

const GO_1_16: u32 = 0xffff_fffa;
const GO_1_18: u32 = 0xffff_fff0;
const GO_1_20: u32 = 0xffff_fff1;

/// The table's section, and that of position-independent programs.
pub const GO_TABLES: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];

/// A function of a Go program, at its virtual addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoFunction<'a> {
    /// Its address range.
    pub code: Range<u64>,
    /// Its name, including its package.
    pub name: &'a str,
}

/// Functions in which the runtime switches stacks: none has a caller on its own stack.
const STACK_STARTS: [&str; 8] = [
    "runtime.goexit",
    "runtime.mstart",
    "runtime.rt0_go",
    "runtime.mcall",
    "runtime.systemstack",
    "runtime.morestack",
    "runtime.asmcgocall",
    "runtime.gogo",
];

impl GoFunction<'_> {
    /// Whether stacks start in it.
    pub(crate) fn starts_stack(&self) -> bool {
        STACK_STARTS.contains(&self.name)
    }
}

/// The functions in a table, sorted by address; empty if it is damaged. `text` is the address range of the
/// program's code.
pub fn go_functions(table: &[u8], text: Range<u64>) -> Vec<GoFunction<'_>> {
    parse(table, text.start, text.end).unwrap_or_default()
}

fn parse(table: &[u8], text_start: u64, text_end: u64) -> Option<Vec<GoFunction<'_>>> {
    let magic = u32_at(table, 0)?;
    if *table.get(7)? != 8 {
        return None;
    }
    let (first_offset, relative) = match magic {
        GO_1_16 => (24, false),
        GO_1_18 | GO_1_20 => (32, true),
        _ => return None,
    };
    let count = usize::try_from(u64_at(table, 8)?).ok()?;
    let offset = |index: usize| usize::try_from(u64_at(table, first_offset + 8 * index)?).ok();
    let (names, functions) = (table.get(offset(0)?..)?, table.get(offset(4)?..)?);
    // A position-independent program has the start only after it is loaded.
    let start =
        if relative { u64_at(table, 24).filter(|start| *start != 0).unwrap_or(text_start) } else { 0 };
    let width = if relative { 4 } else { 8 };
    let number = |at: usize| {
        if relative { u32_at(functions, at).map(u64::from) } else { u64_at(functions, at) }
    };
    let mut rows = Vec::with_capacity(count.min(functions.len() / (2 * width)));
    for index in 0..count {
        let Some(entry) = number(index.checked_mul(2 * width)?) else { break };
        let Some(at) = number(index * 2 * width + width) else { break };
        let name = usize::try_from(at).ok().and_then(|at| u32_at(functions, at.checked_add(width)?));
        let name = name.and_then(|name| text_at(names, name as usize)).unwrap_or("");
        let address = start.wrapping_add(entry);
        if !name.is_empty() && address < text_end {
            rows.push(GoFunction { code: address..text_end, name });
        }
    }
    rows.sort_by_key(|row| row.code.start);
    for index in 1..rows.len() {
        rows[index - 1].code.end = rows[index].code.start;
    }
    Some(rows)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn text_at(bytes: &[u8], at: usize) -> Option<&str> {
    let rest = bytes.get(at..)?;
    let end = rest.iter().position(|&byte| byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of two functions, `main.main` at +0 and `main.work` at +64.
    fn table(magic: u32) -> Vec<u8> {
        let relative = magic != GO_1_16;
        let header = if relative { 72 } else { 64 };
        let mut bytes = magic.to_le_bytes().to_vec();
        bytes.extend([0, 0, 1, 8]);
        let mut numbers = vec![2_u64, 0];
        if relative {
            numbers.push(0x1000);
        }
        let names = b"\0main.main\0main.work\0";
        numbers.extend([header, 0, 0, 0, header + names.len() as u64]);
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        bytes.extend(names);
        let entries = if relative { [0_u64, 64] } else { [0x1000, 0x1040] };
        let put = |bytes: &mut Vec<u8>, number: u64| {
            bytes.extend(&number.to_le_bytes()[..if relative { 4 } else { 8 }]);
        };
        let width = if relative { 4 } else { 8 };
        let first = 5 * width;
        for (entry, at) in entries.into_iter().zip([first, first + width + 4]) {
            put(&mut bytes, entry);
            put(&mut bytes, at);
        }
        put(&mut bytes, entries[1] + 32);
        for (entry, name) in entries.into_iter().zip([1_u32, 11]) {
            put(&mut bytes, entry);
            bytes.extend(name.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn the_tables_of_each_version_give_the_same_names() {
        for magic in [GO_1_16, GO_1_18, GO_1_20] {
            let bytes = table(magic);
            let rows = parse(&bytes, 0x1000, 0x1060).unwrap();
            let row = |start, end, name| GoFunction { code: start..end, name };
            assert_eq!(rows, [row(0x1000, 0x1040, "main.main"), row(0x1040, 0x1060, "main.work")]);
        }
    }

    #[test]
    fn a_damaged_table_gives_its_intact_functions() {
        let bytes = table(GO_1_20);
        for cut in 0..bytes.len() {
            assert!(parse(&bytes[..cut], 0x1000, 0x1060).is_none_or(|rows| rows.len() <= 2));
        }
        assert_eq!(parse(b"\x7fELF\0\0\x01\x08", 0, 0), None);
    }
}
