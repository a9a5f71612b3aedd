//! The space in a program's file: tables from the profile that `whyslow-size` makes.

mod change;
mod note;
mod purpose;

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};
use whyslow_profile::size::{METRIC, Part};
use whyslow_profile::{CodeKind, MetricId, Profile, bracketed};

use crate::generic::generic_name;

pub use change::{Changed, SizeChange};
pub use note::SizeNote;
pub use purpose::Purpose;

/// Functions with the same machine code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alike {
    /// The bytes of one.
    pub len: u64,
    /// How many there are.
    pub copies: u64,
    /// Their names, each once.
    pub names: Vec<String>,
}

impl Alike {
    /// The bytes of all but one.
    pub fn wasted(&self) -> u64 {
        self.len.saturating_mul(self.copies.saturating_sub(1))
    }
}

/// A long text in read-only data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongText {
    /// Its bytes.
    pub len: u64,
    /// Its section.
    pub section: String,
    /// How it begins.
    pub start: String,
}

/// Bytes by what they are. Their sum is the size.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Bytes {
    /// Machine code.
    pub code: u64,
    /// Constants, variables and tables.
    pub data: u64,
    /// Unwind tables.
    pub unwind: u64,
    /// Relocations.
    pub relocations: u64,
    /// Everything else.
    pub other: u64,
}

impl Bytes {
    /// The sum.
    pub fn total(&self) -> u64 {
        self.code + self.data + self.unwind + self.relocations + self.other
    }

    fn add(&mut self, part: Part, bytes: u64) {
        match part {
            Part::Code => self.code += bytes,
            Part::ReadOnly | Part::Data => self.data += bytes,
            Part::Unwind => self.unwind += bytes,
            Part::Relocations => self.relocations += bytes,
            _ => self.other += bytes,
        }
    }
}

/// Bytes with a name: a part, a section, a crate, a source file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeRow {
    /// The name.
    pub name: String,
    /// The part of the file, in a table of sections.
    pub part: Option<Part>,
    /// The bytes.
    pub bytes: Bytes,
}

/// A function or variable, or all instances of a generic one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionSize {
    /// Its name, without the arguments of generic functions.
    pub name: String,
    /// Its crate, namespace or folder.
    pub group: String,
    /// Who wrote it.
    pub kind: CodeKind,
    /// Its bytes, with its unwind tables and relocations.
    pub bytes: Bytes,
    /// How many instances it has at addresses of their own.
    pub instances: u64,
    /// Whether any of them is code.
    pub is_function: bool,
    /// Whether it has a name; otherwise, it is called by its address, which is another one in the next build.
    pub is_named: bool,
}

/// Bytes that belong to no function and no variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unowned {
    /// The section, or what they are.
    pub name: String,
    /// The part of the file, in brackets.
    pub group: String,
    /// The bytes.
    pub bytes: u64,
}

/// What functions are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// Crates of Rust.
    Crates,
    /// Packages of Go.
    Packages,
    /// Namespaces of C++, folders of source files for C.
    Namespaces,
}

/// The tables of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Sizes {
    /// The file's size.
    pub total: u64,
    /// The parts of the file, largest first.
    pub parts: Vec<SizeRow>,
    /// The sections, largest first.
    pub sections: Vec<SizeRow>,
    /// Crates, packages, namespaces or folders, and bracketed names for what belongs to none, largest first.
    pub groups: Vec<SizeRow>,
    /// Functions over all their instances, and variables, largest first. What has no name is not here.
    pub functions: Vec<FunctionSize>,
    /// What belongs to no function and no variable, largest first.
    pub unowned: Vec<Unowned>,
    /// The source files that code comes from, largest first; inlined code counts for the file it is written in.
    pub files: Vec<SizeRow>,
    /// Code by what it is for.
    pub purposes: Vec<(Purpose, u64)>,
}

impl Sizes {
    /// Builds the tables; `None` if the profile is of something else.
    pub fn of(profile: &Profile) -> Option<Self> {
        let metric = profile.metric_named(METRIC)?;
        Some(Self::of_metric(profile, metric))
    }

    fn of_metric(profile: &Profile, metric: MetricId) -> Self {
        let samples = &profile.samples[metric.index()];
        let mut parts: FxHashMap<Part, Bytes> = FxHashMap::default();
        let mut sections: FxHashMap<(Part, &str), Bytes> = FxHashMap::default();
        let mut groups: FxHashMap<&str, Bytes> = FxHashMap::default();
        let mut files: FxHashMap<&str, Bytes> = FxHashMap::default();
        let mut by_function: FxHashMap<u32, (Bytes, FxHashSet<u64>)> = FxHashMap::default();
        let mut unowned: FxHashMap<(&str, &str), u64> = FxHashMap::default();
        let mut total = 0_u64;
        for row in 0..samples.len() {
            let bytes = samples.value[row];
            total = total.saturating_add(bytes);
            let thread = &profile.threads[samples.thread[row].index()];
            let part = Part::from_code(profile.processes[thread.process.index()].pid.into());
            parts.entry(part).or_default().add(part, bytes);
            sections.entry((part, profile.text(thread.name))).or_default().add(part, bytes);
            let location = profile.stacks.location(samples.stack[row]);
            let Some(frame) = profile.frames.of(location).last() else { continue };
            let function = &profile.functions[frame.function.index()];
            let group = function.crate_name.map_or("", |name| profile.text(name));
            groups.entry(group).or_default().add(part, bytes);
            if part == Part::Code
                && let Some(file) = frame.file
            {
                files.entry(profile.text(file)).or_default().add(part, bytes);
            }
            if profile.locations.module[location.index()].is_some() {
                let (sum, addresses) = by_function.entry(frame.function.0).or_default();
                sum.add(part, bytes);
                addresses.insert(profile.locations.address[location.index()].0);
            } else {
                *unowned.entry((profile.text(function.name), group)).or_insert(0) += bytes;
            }
        }
        let functions = functions(profile, by_function);
        let purposes = purposes(&functions);
        let named = |rows: FxHashMap<&str, Bytes>| {
            sorted(rows.into_iter().map(|(name, bytes)| SizeRow { name: name.to_owned(), part: None, bytes }))
        };
        Self {
            total,
            parts: sorted(parts.into_iter().map(|(part, bytes)| SizeRow {
                name: part.label().to_owned(),
                part: Some(part),
                bytes,
            })),
            sections: sorted(sections.into_iter().map(|((part, name), bytes)| SizeRow {
                name: name.to_owned(),
                part: Some(part),
                bytes,
            })),
            groups: named(groups),
            functions,
            unowned: unowned_rows(unowned),
            files: named(files),
            purposes,
        }
    }

    /// The bytes of a part of the file.
    pub fn part(&self, part: Part) -> u64 {
        self.parts.iter().find(|row| row.part == Some(part)).map_or(0, |row| row.bytes.total())
    }

    /// The bytes of a crate, package, namespace or folder; `None` if there is nothing of this name.
    pub fn group(&self, name: &str) -> Option<u64> {
        self.groups.iter().find(|row| row.name == name).map(|row| row.bytes.total())
    }

    /// The groups that code and variables belong to: crates, packages, namespaces, folders, and the file itself for
    /// those that belong to none of these.
    pub fn groups_of_code(&self) -> Vec<&SizeRow> {
        let parts: Vec<String> = Part::ALL.iter().map(|part| bracketed(part.label())).collect();
        self.groups.iter().filter(|row| !parts.contains(&row.name)).collect()
    }

    /// What the groups of this program are.
    pub fn groups_are(&self) -> Grouping {
        let has = |name: &str| self.functions.iter().any(|row| row.name == name);
        if self.groups.iter().any(|row| row.name == "core")
            && self.functions.iter().any(|row| row.name.starts_with("core::"))
        {
            Grouping::Crates
        } else if has("runtime.main") || has("runtime.mallocgc") {
            Grouping::Packages
        } else {
            Grouping::Namespaces
        }
    }
}

fn sorted(rows: impl Iterator<Item = SizeRow>) -> Vec<SizeRow> {
    let mut rows: Vec<SizeRow> = rows.collect();
    rows.sort_by(|a, b| (Reverse(a.bytes.total()), &a.name).cmp(&(Reverse(b.bytes.total()), &b.name)));
    rows
}

fn unowned_rows(rows: FxHashMap<(&str, &str), u64>) -> Vec<Unowned> {
    let row = |((name, group), bytes): ((&str, &str), u64)| Unowned {
        name: name.to_owned(),
        group: group.to_owned(),
        bytes,
    };
    let mut rows: Vec<Unowned> = rows.into_iter().map(row).collect();
    rows.sort_by(|a, b| (Reverse(a.bytes), &a.name, &a.group).cmp(&(Reverse(b.bytes), &b.name, &b.group)));
    rows
}

fn functions(profile: &Profile, by_function: FxHashMap<u32, (Bytes, FxHashSet<u64>)>) -> Vec<FunctionSize> {
    let mut rows: FxHashMap<(String, &str), FunctionSize> = FxHashMap::default();
    for (row, (bytes, addresses)) in by_function {
        let function = &profile.functions[row as usize];
        let name = profile.text(function.name);
        let group = function.crate_name.map_or("", |name| profile.text(name));
        let generic = generic_name(name).unwrap_or_else(|| name.to_owned());
        let size = rows.entry((generic.clone(), group)).or_insert_with(|| FunctionSize {
            name: generic,
            group: group.to_owned(),
            kind: function.kind,
            bytes: Bytes::default(),
            instances: 0,
            is_function: false,
            is_named: !profile.text(function.raw_name).is_empty(),
        });
        let sum = &mut size.bytes;
        sum.code += bytes.code;
        sum.data += bytes.data;
        sum.unwind += bytes.unwind;
        sum.relocations += bytes.relocations;
        sum.other += bytes.other;
        size.instances += addresses.len() as u64;
        size.is_function |= bytes.code > 0;
    }
    let mut rows: Vec<FunctionSize> = rows.into_values().collect();
    rows.sort_by(|a, b| {
        let key = |row: &FunctionSize| Reverse(row.bytes.total());
        key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name)).then_with(|| a.group.cmp(&b.group))
    });
    rows
}

fn purposes(functions: &[FunctionSize]) -> Vec<(Purpose, u64)> {
    let mut sums: FxHashMap<Purpose, u64> = FxHashMap::default();
    for function in functions {
        for purpose in Purpose::of(&function.name, function.kind) {
            *sums.entry(purpose).or_insert(0) += function.bytes.total();
        }
    }
    Purpose::ALL.iter().filter_map(|purpose| Some((*purpose, *sums.get(purpose)?))).collect()
}
