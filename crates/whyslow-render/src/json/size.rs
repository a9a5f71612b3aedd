//! The space in a file as JSON; `docs/size-json.md` describes it.

use serde::Serialize;
use whyslow_analyze::size::{Bytes, Changed, SizeRow};

use super::RemarkJson;
use crate::text::{SizeChangeView, SizeView};

/// The name and version of the schema of `whyslow size`.
pub const SIZE_SCHEMA: &str = "whyslow-size/1";

#[derive(Serialize)]
struct SizeJson<'a> {
    schema: &'static str,
    file: &'a str,
    bytes: u64,
    zero_bytes_in_memory: u64,
    parts: Vec<NamedJson<'a>>,
    sections: Vec<SectionJson<'a>>,
    crates: Vec<RowJson<'a>>,
    functions: Vec<FunctionJson<'a>>,
    variables: Vec<FunctionJson<'a>>,
    files: Vec<NamedJson<'a>>,
    purposes: Vec<NamedJson<'a>>,
    duplicates: Vec<AlikeJson<'a>>,
    texts: Vec<TextJson<'a>>,
    remarks: Vec<RemarkJson>,
}

#[derive(Serialize)]
struct NamedJson<'a> {
    name: &'a str,
    bytes: u64,
}

#[derive(Serialize)]
struct SectionJson<'a> {
    name: &'a str,
    part: &'static str,
    bytes: u64,
}

#[derive(Serialize)]
struct RowJson<'a> {
    name: &'a str,
    bytes: u64,
    code_bytes: u64,
    data_bytes: u64,
    unwind_bytes: u64,
    relocation_bytes: u64,
    other_bytes: u64,
}

#[derive(Serialize)]
struct FunctionJson<'a> {
    #[serde(flatten)]
    row: RowJson<'a>,
    #[serde(rename = "crate")]
    group: &'a str,
    kind: &'static str,
    instances: u64,
}

#[derive(Serialize)]
struct AlikeJson<'a> {
    bytes: u64,
    copies: u64,
    wasted_bytes: u64,
    names: &'a [String],
}

#[derive(Serialize)]
struct TextJson<'a> {
    bytes: u64,
    section: &'a str,
    start: &'a str,
}

fn row<'a>(name: &'a str, bytes: &Bytes) -> RowJson<'a> {
    RowJson {
        name,
        bytes: bytes.total(),
        code_bytes: bytes.code,
        data_bytes: bytes.data,
        unwind_bytes: bytes.unwind,
        relocation_bytes: bytes.relocations,
        other_bytes: bytes.other,
    }
}

/// Everything that is known of a file's size.
pub fn size<'a>(view: &SizeView<'a>) -> impl Serialize + use<'a> {
    let sizes = view.sizes;
    let named = |rows: &'a [SizeRow]| {
        rows.iter().map(|row| NamedJson { name: &row.name, bytes: row.bytes.total() }).collect()
    };
    let functions = |code: bool| {
        let rows = sizes.functions.iter().filter(move |row| row.is_function == code);
        let json = rows.map(|function| FunctionJson {
            row: row(&function.name, &function.bytes),
            group: &function.group,
            kind: function.kind.label(),
            instances: function.instances,
        });
        json.collect()
    };
    SizeJson {
        schema: SIZE_SCHEMA,
        file: view.file,
        bytes: sizes.total,
        zero_bytes_in_memory: view.zeros,
        parts: named(&sizes.parts),
        sections: sizes
            .sections
            .iter()
            .map(|section| SectionJson {
                name: &section.name,
                part: section.part.map_or("", |part| part.label()),
                bytes: section.bytes.total(),
            })
            .collect(),
        crates: sizes.groups.iter().map(|group| row(&group.name, &group.bytes)).collect(),
        functions: functions(true),
        variables: functions(false),
        files: named(&sizes.files),
        purposes: sizes
            .purposes
            .iter()
            .map(|(purpose, bytes)| NamedJson { name: purpose.label(), bytes: *bytes })
            .collect(),
        duplicates: view
            .alike
            .iter()
            .map(|alike| AlikeJson {
                bytes: alike.len,
                copies: alike.copies,
                wasted_bytes: alike.wasted(),
                names: &alike.names,
            })
            .collect(),
        texts: view
            .texts
            .iter()
            .map(|text| TextJson { bytes: text.len, section: &text.section, start: &text.start })
            .collect(),
        remarks: view.remarks.iter().cloned().map(RemarkJson::from).collect(),
    }
}

/// The name and version of the schema of `whyslow size --diff`.
pub const SIZE_DIFF_SCHEMA: &str = "whyslow-size-diff/1";

#[derive(Serialize)]
struct ChangeJson<'a> {
    schema: &'static str,
    files: [&'a str; 2],
    bytes: [u64; 2],
    parts: Vec<ChangedJson<'a>>,
    crates: Vec<ChangedJson<'a>>,
    functions: Vec<ChangedJson<'a>>,
}

#[derive(Serialize)]
struct ChangedJson<'a> {
    name: &'a str,
    #[serde(rename = "crate", skip_serializing_if = "str::is_empty")]
    group: &'a str,
    bytes: [u64; 2],
    instances: [u64; 2],
}

/// What changed between two files.
pub fn size_change<'a>(view: &SizeChangeView<'a>) -> impl Serialize + use<'a> {
    let rows = |rows: &'a [Changed]| {
        let json = rows.iter().map(|row| ChangedJson {
            name: &row.name,
            group: &row.group,
            bytes: [row.before, row.after],
            instances: row.instances,
        });
        json.collect()
    };
    ChangeJson {
        schema: SIZE_DIFF_SCHEMA,
        files: view.files,
        bytes: view.change.total,
        parts: rows(&view.change.parts),
        crates: rows(&view.change.groups),
        functions: rows(&view.change.functions),
    }
}
