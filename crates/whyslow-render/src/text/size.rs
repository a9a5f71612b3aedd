//! The space in a file as text.

use whyslow_analyze::size::{Alike, FunctionSize, Grouping, LongText, SizeRow, Sizes};
use whyslow_profile::size::Part;
use whyslow_words::Remark;

use super::layout::{BOLD, DIM, PLAIN, push_line, push_wrapped, styled};
use super::remark::remark_lines;
use crate::sanitize::clean;
use crate::table::{Cell, Column, Table};
use crate::units::{Count, bytes};

/// The contents of `whyslow size`.
#[derive(Debug, Clone, Copy)]
pub struct SizeView<'a> {
    /// The file.
    pub file: &'a str,
    /// The tables.
    pub sizes: &'a Sizes,
    /// Functions with the same machine code.
    pub alike: &'a [Alike],
    /// Long texts in read-only data.
    pub texts: &'a [LongText],
    /// Memory that the file only reserves.
    pub zeros: u64,
    /// What to do about it.
    pub remarks: &'a [Remark],
}

/// A table of a file's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeTable {
    /// Code, data, debug information and so on.
    Parts,
    /// Sections.
    Sections,
    /// Crates, packages, namespaces or folders.
    Crates,
    /// Functions over all instances.
    Functions,
    /// Variables and constants with a name.
    Variables,
    /// Source files.
    Files,
    /// Functions with the same machine code.
    Duplicates,
    /// Long texts.
    Texts,
}

/// Rows of crates and functions on the first screen.
const FIRST_ROWS: usize = 10;

/// Renders the first screen: what the file is made of, the largest crates and functions, what to do.
pub fn size(view: &SizeView<'_>, limit: Option<usize>, width: usize) -> String {
    let mut out = String::new();
    let sizes = view.sizes;
    let in_memory = match view.zeros {
        0 => String::new(),
        zeros => format!("; {} more in memory, zeros that the file does not hold", bytes(zeros)),
    };
    let head = format!("{} ({} bytes){in_memory}", bytes(sizes.total), Count(sizes.total));
    push_line(&mut out, &format!("{}: {head}", styled(BOLD, clean(view.file))));
    let for_people = sizes.part(Part::Debug) + sizes.part(Part::Symbols);
    if for_people > 0 {
        let loaded = bytes(sizes.total - for_people);
        push_line(&mut out, &format!("{loaded} without debug information and symbol table"));
    }
    let rows = limit.unwrap_or(FIRST_ROWS);
    for what in [SizeTable::Parts, SizeTable::Crates, SizeTable::Functions] {
        let rows = if what == SizeTable::Parts { usize::MAX } else { rows };
        let table = match what {
            // The parts of the file that belong to no crate are above.
            SizeTable::Crates => by_bytes(sizes, &sizes.groups_of_code(), rows),
            _ => size_table(view, what, rows),
        };
        if !table.is_empty() {
            out.push('\n');
            out.push_str(&table.text(width));
        }
    }
    purposes(&mut out, sizes, width);
    if !view.remarks.is_empty() {
        out.push('\n');
    }
    view.remarks.iter().for_each(|remark| out.push_str(&remark_lines(remark, width)));
    out
}

/// Renders one table of it.
pub fn size_rows(view: &SizeView<'_>, what: SizeTable, limit: usize, width: usize) -> String {
    let table = size_table(view, what, limit);
    if !table.is_empty() {
        return table.text(width);
    }
    let mut out = String::new();
    let why = match what {
        SizeTable::Files => "no source files: the file has no line tables",
        SizeTable::Duplicates => "no functions with the same machine code",
        SizeTable::Texts => "no long texts",
        _ => "nothing with a name",
    };
    push_line(&mut out, why);
    out
}

fn purposes(out: &mut String, sizes: &Sizes, width: usize) {
    if sizes.purposes.is_empty() {
        return;
    }
    let each = sizes.purposes.iter().map(|(purpose, size)| {
        let share = whyslow_words::Percent(*size as f64 / sizes.total.max(1) as f64);
        format!("{} {} ({share})", purpose.label(), bytes(*size))
    });
    let words = format!("of these: {}", each.collect::<Vec<_>>().join(", "));
    out.push('\n');
    push_wrapped(out, PLAIN, &words, width);
}

/// One of the tables.
pub fn size_table(view: &SizeView<'_>, what: SizeTable, limit: usize) -> Table {
    let sizes = view.sizes;
    match what {
        SizeTable::Parts => parts(sizes, limit),
        SizeTable::Sections => sections(sizes, limit),
        SizeTable::Crates => by_bytes(sizes, &sizes.groups.iter().collect::<Vec<_>>(), limit),
        SizeTable::Files => files(sizes, limit),
        SizeTable::Functions => {
            let rows: Vec<&FunctionSize> = sizes.functions.iter().filter(|row| row.is_function).collect();
            functions(sizes, &rows, "function", limit)
        }
        SizeTable::Variables => {
            let rows: Vec<&FunctionSize> = sizes.functions.iter().filter(|row| !row.is_function).collect();
            functions(sizes, &rows, "variable", limit)
        }
        SizeTable::Duplicates => duplicates(view.alike, limit),
        SizeTable::Texts => texts(view.texts, limit),
    }
}

fn size_columns() -> Vec<Column> {
    vec![Column::number("bytes", "size").gap(0).least(9), Column::share("share", "share")]
}

fn size_cells(size: u64, sizes: &Sizes) -> Vec<Cell> {
    vec![Cell::bytes(size), Cell::part(size, sizes.total)]
}

fn parts(sizes: &Sizes, limit: usize) -> Table {
    let mut columns = size_columns();
    columns.extend([
        Column::words("part", "part of the file"),
        Column::rest("sections", "its sections", 10).for_people(),
    ]);
    let mut table = Table::new(columns);
    for row in sizes.parts.iter().take(limit) {
        let mut cells = size_cells(row.bytes.total(), sizes);
        let sections = sizes.sections.iter().filter(|section| section.part == row.part);
        let mut names: Vec<&str> = sections.map(|section| section.name.as_str()).collect();
        let more = names.len().saturating_sub(4);
        names.truncate(4);
        let mut words = names.join(" ");
        if more > 0 {
            words.push_str(&format!(" and {more} more"));
        }
        cells.extend([Cell::text(&row.name), Cell::verbatim(words).style(DIM)]);
        table.push(cells);
    }
    table.limited(sizes.parts.len(), limit, "more part", "more parts")
}

fn sections(sizes: &Sizes, limit: usize) -> Table {
    let mut columns = size_columns();
    columns.extend([Column::words("part", "part"), Column::rest("section", "section", 20)]);
    let mut table = Table::new(columns);
    for row in sizes.sections.iter().take(limit) {
        let mut cells = size_cells(row.bytes.total(), sizes);
        let part = row.part.map_or("", |part| part.label());
        cells.extend([Cell::text(part).style(DIM), Cell::verbatim(&row.name)]);
        table.push(cells);
    }
    table.limited(sizes.sections.len(), limit, "more section", "more sections")
}

/// The word for one group, and for several.
pub(super) fn group_words(sizes: &Sizes) -> (&'static str, &'static str) {
    match sizes.groups_are() {
        Grouping::Crates => ("crate", "crates"),
        Grouping::Packages => ("package", "packages"),
        Grouping::Namespaces => ("namespace or folder", "namespaces or folders"),
    }
}

fn by_bytes(sizes: &Sizes, rows: &[&SizeRow], limit: usize) -> Table {
    let (one, many) = group_words(sizes);
    let mut columns = size_columns();
    let number = |id: &str, title: &str| Column::number(id, title).spare(1);
    columns.extend([
        number("code_bytes", "code"),
        number("data_bytes", "data"),
        number("unwind_bytes", "unwind"),
        number("relocation_bytes", "relocs"),
        Column::rest("crate", one, 20),
    ]);
    let mut table = Table::new(columns);
    for row in rows.iter().take(limit) {
        let mut cells = size_cells(row.bytes.total(), sizes);
        let each = [row.bytes.code, row.bytes.data, row.bytes.unwind, row.bytes.relocations];
        cells.extend(
            each.map(|size| Cell::bytes(size).shown(if size == 0 { String::new() } else { bytes(size) })),
        );
        cells.push(Cell::verbatim(&row.name));
        table.push(cells);
    }
    table.limited(rows.len(), limit, &format!("more {one}"), &format!("more {many}"))
}

fn files(sizes: &Sizes, limit: usize) -> Table {
    let mut columns = size_columns();
    columns.push(Column::rest("file", "source file of code, also where it is inlined", 20));
    let mut table = Table::new(columns);
    for row in sizes.files.iter().take(limit) {
        let mut cells = size_cells(row.bytes.total(), sizes);
        cells.push(Cell::path(&row.name));
        table.push(cells);
    }
    table.limited(sizes.files.len(), limit, "more file", "more files")
}

fn functions(sizes: &Sizes, rows: &[&FunctionSize], what: &str, limit: usize) -> Table {
    let mut columns = size_columns();
    columns.extend([
        Column::number("instances", "instances"),
        Column::number("code_bytes", "code").in_data(),
        Column::number("data_bytes", "data").in_data(),
        Column::number("unwind_bytes", "unwind").in_data(),
        Column::number("relocation_bytes", "relocations").in_data(),
        Column::rest("name", what, 20),
        Column::words("crate", group_words(sizes).0).most(24).spare(1),
    ]);
    let mut table = Table::new(columns);
    for row in rows.iter().take(limit) {
        let mut cells = size_cells(row.bytes.total(), sizes);
        let instances = Cell::count(row.instances);
        cells.extend([
            if row.instances == 1 { instances.shown("") } else { instances },
            Cell::bytes(row.bytes.code),
            Cell::bytes(row.bytes.data),
            Cell::bytes(row.bytes.unwind),
            Cell::bytes(row.bytes.relocations),
            Cell::name(&row.name),
            Cell::verbatim(&row.group).style(DIM),
        ]);
        table.push(cells);
    }
    table.limited(rows.len(), limit, &format!("more {what}"), &format!("more {what}s"))
}

fn duplicates(rows: &[Alike], limit: usize) -> Table {
    let mut table = Table::new(vec![
        Column::number("wasted_bytes", "wasted").gap(0).least(9),
        Column::number("copies", "copies"),
        Column::number("bytes", "of"),
        Column::rest("name", "functions with the same machine code", 20),
        Column::number("names", "names"),
    ]);
    for row in rows.iter().take(limit) {
        table.push(vec![
            Cell::bytes(row.wasted()),
            Cell::count(row.copies),
            Cell::bytes(row.len),
            Cell::name(row.names.first().map_or("", String::as_str)),
            Cell::count(row.names.len() as u64),
        ]);
    }
    table.limited(rows.len(), limit, "more group", "more groups")
}

fn texts(rows: &[LongText], limit: usize) -> Table {
    let mut table = Table::new(vec![
        Column::number("bytes", "size").gap(0).least(9),
        Column::words("section", "section"),
        Column::rest("start", "text", 20),
    ]);
    for row in rows.iter().take(limit) {
        let one_line = row.start.split_whitespace().collect::<Vec<_>>().join(" ");
        table.push(vec![Cell::bytes(row.len), Cell::verbatim(&row.section), Cell::verbatim(one_line)]);
    }
    table.limited(rows.len(), limit, "more text", "more texts")
}
