//! What changed between the sizes of two files: rows matched by name, so that a rebuilt program compares with its old
//! build.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{FunctionSize, SizeRow, Sizes};

/// The size of something before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Its name.
    pub name: String,
    /// Its crate, for functions.
    pub group: String,
    /// Its bytes before; 0 if it is new.
    pub before: u64,
    /// Its bytes after; 0 if it is gone.
    pub after: u64,
    /// How many instances it has before and after, for functions.
    pub instances: [u64; 2],
}

impl Changed {
    /// How many bytes more there are.
    pub fn change(&self) -> i64 {
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        signed(self.after).saturating_sub(signed(self.before))
    }
}

/// What changed between two files. Each table holds only what changed, largest change first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeChange {
    /// The size of the file before and after.
    pub total: [u64; 2],
    /// The parts of the file.
    pub parts: Vec<Changed>,
    /// Crates, packages, namespaces or folders.
    pub groups: Vec<Changed>,
    /// Functions over all their instances, and variables.
    pub functions: Vec<Changed>,
}

/// Functions that are called by their addresses cannot be matched one by one.
const NAMELESS: &str = "[functions without a name]";

impl SizeChange {
    /// Compares two files.
    pub fn of(before: &Sizes, after: &Sizes) -> Self {
        let of_rows = |rows: [&[SizeRow]; 2]| {
            let named = |row: &SizeRow| ((row.name.clone(), String::new()), row.bytes.total(), 0);
            changed(rows.map(|rows| rows.iter().map(named).collect()))
        };
        let of_functions = |rows: &[FunctionSize]| {
            let named = |row: &FunctionSize| match row.is_named {
                true => ((row.name.clone(), row.group.clone()), row.bytes.total(), row.instances),
                false => ((NAMELESS.to_owned(), String::new()), row.bytes.total(), row.instances),
            };
            rows.iter().map(named).collect::<Vec<_>>()
        };
        Self {
            total: [before.total, after.total],
            parts: of_rows([&before.parts, &after.parts]),
            groups: of_rows([&before.groups, &after.groups]),
            functions: changed([of_functions(&before.functions), of_functions(&after.functions)]),
        }
    }
}

type Row = ((String, String), u64, u64);

fn changed(sides: [Vec<Row>; 2]) -> Vec<Changed> {
    let mut all: BTreeMap<(String, String), ([u64; 2], [u64; 2])> = BTreeMap::new();
    for (side, rows) in sides.into_iter().enumerate() {
        for (key, bytes, instances) in rows {
            let sum = all.entry(key).or_default();
            sum.0[side] += bytes;
            sum.1[side] += instances;
        }
    }
    let row = |((name, group), ([before, after], instances)): (_, ([u64; 2], _))| {
        (before != after).then_some(Changed { name, group, before, after, instances })
    };
    let mut rows: Vec<Changed> = all.into_iter().filter_map(row).collect();
    rows.sort_by_key(|row| Reverse(row.change().unsigned_abs()));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size::Bytes;
    use whyslow_profile::CodeKind;

    fn sizes(functions: &[(&str, u64, bool)]) -> Sizes {
        let functions: Vec<FunctionSize> = functions
            .iter()
            .map(|&(name, code, is_named)| FunctionSize {
                name: name.to_owned(),
                group: "app".to_owned(),
                kind: CodeKind::Yours,
                bytes: Bytes { code, ..Bytes::default() },
                instances: 1,
                is_function: true,
                is_named,
            })
            .collect();
        Sizes {
            total: functions.iter().map(|row| row.bytes.total()).sum(),
            parts: Vec::new(),
            sections: Vec::new(),
            groups: Vec::new(),
            functions,
            unowned: Vec::new(),
            files: Vec::new(),
            purposes: Vec::new(),
        }
    }

    #[test]
    fn functions_are_matched_by_name_and_the_largest_change_is_first() {
        let before = sizes(&[("a", 10, true), ("b", 20, true), ("gone", 5, true), ("same", 7, true)]);
        let after = sizes(&[("same", 7, true), ("b", 40, true), ("a", 9, true), ("new", 6, true)]);
        let change = SizeChange::of(&before, &after);
        let rows: Vec<_> = change.functions.iter().map(|row| (row.name.as_str(), row.change())).collect();
        assert_eq!(rows, [("b", 20), ("new", 6), ("gone", -5), ("a", -1)]);
        assert_eq!(change.total, [42, 62]);
    }

    #[test]
    fn functions_without_names_are_one_row() {
        let before = sizes(&[("app+0x10", 10, false), ("app+0x20", 10, false)]);
        let after = sizes(&[("app+0x30", 10, false), ("app+0x50", 15, false)]);
        let change = SizeChange::of(&before, &after);
        let [row] = &change.functions[..] else { panic!("{:?}", change.functions) };
        assert_eq!((row.name.as_str(), row.change()), (NAMELESS, 5));
    }
}
