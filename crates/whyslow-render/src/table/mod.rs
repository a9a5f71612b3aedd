//! A table is a value: columns, rows of typed cells, and how many rows were left out.
//!
//! ```text
//! table  = columns, rows, how many rows more there are
//! column = id (in data), title (for people), alignment, how it gets its width
//! cell   = value, and where it differs from the value's usual form: text, style
//! ```
//! A view builds a table; a writer shows it. In text and Markdown, numbers have units and names are shortened
//! to fit. In CSV and JSON, numbers are plain numbers in base units (shares from 0 to 1, nanoseconds, bytes),
//! and names are complete. Every writer cleans names, so cells hold them as recorded.

mod cell;
mod data;
mod layout;
mod markup;
#[cfg(test)]
mod tests;
mod text;

use anstyle::Style;
use whyslow_profile::Unit;
use whyslow_words::number_of;

pub(crate) use cell::Cell;
pub(crate) use markup::markdown_text;

use crate::text::layout::{BOLD, PLAIN};

/// Rows of cells in columns.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Row>,
    /// How many rows more there are, in words: `12 more functions`.
    more: Option<String>,
    heading: Style,
    full_names: bool,
    /// Notes start at this column, and so many spaces to the right.
    notes_at: (usize, usize),
}

impl Table {
    pub(crate) fn new(columns: Vec<Column>) -> Self {
        Self { columns, rows: Vec::new(), more: None, heading: BOLD, full_names: false, notes_at: (0, 0) }
    }

    /// Sets the style of the titles.
    pub(crate) fn heading(self, heading: Style) -> Self {
        Self { heading, ..self }
    }

    /// Shows names in full even where they do not fit.
    pub(crate) fn full_names(self, full_names: bool) -> Self {
        Self { full_names, ..self }
    }

    /// Starts the notes below rows at a column, and so many spaces to the right.
    pub(crate) fn notes_at(self, column: usize, spaces: usize) -> Self {
        Self { notes_at: (column, spaces), ..self }
    }

    /// Adds a row with one cell per column.
    pub(crate) fn push(&mut self, cells: Vec<Cell>) -> &mut Row {
        debug_assert_eq!(cells.len(), self.columns.len(), "one cell per column");
        let at = self.rows.len();
        self.rows.push(Row { cells, notes: Vec::new() });
        &mut self.rows[at]
    }

    /// Adds a row with one cell, in the column with this id.
    pub(crate) fn push_only(&mut self, id: &str, cell: Cell) -> &mut Row {
        let cells = self.columns.iter().map(|column| match column.id == id {
            true => cell.clone(),
            false => Cell::nothing(),
        });
        self.push(cells.collect())
    }

    /// Says how many rows more there are than the first `limit`.
    pub(crate) fn limited(mut self, all: usize, limit: usize, one: &str, many: &str) -> Self {
        self.more = (all > limit).then(|| number_of((all - limit) as u64, one, many));
        self
    }

    /// Does not say how many rows more there are.
    pub(crate) fn without_more(self) -> Self {
        Self { more: None, ..self }
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// The cells of a row.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    cells: Vec<Cell>,
    /// Sentences below the row, for text only.
    notes: Vec<Note>,
}

#[derive(Debug, Clone)]
struct Note {
    text: String,
    style: Style,
}

impl Row {
    /// Adds a sentence below the row. It is for people: whatever it says must also be in a cell.
    pub(crate) fn note(&mut self, style: Style, text: impl Into<String>) {
        self.notes.push(Note { text: text.into(), style });
    }

    /// Shows the whole row in a style.
    pub(crate) fn styled(&mut self, style: Style) {
        self.cells.iter_mut().for_each(|cell| cell.style = style);
    }
}

/// A column: its names, its alignment and its share of the page.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    /// Its name in CSV and JSON. The line of a place has a name of its own.
    id: String,
    line_id: Option<String>,
    /// Its title for people; several columns can share one.
    title: String,
    at_right: bool,
    /// Spaces before it.
    gap: usize,
    /// Its smallest and its largest width.
    least: usize,
    most: usize,
    room: Room,
    /// The room from which on it is shown, if its width depends on the room.
    from: usize,
    /// Columns with the smallest number are left out first where the page is too narrow.
    spare: Option<u8>,
    /// Whether its title is a name, such as that of a branch.
    title_is_name: bool,
    /// Whether its title is also that of the next column, which has none.
    heads_next: bool,
    shown: Shown,
}

/// How a column gets its width in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    /// As much as its cells need.
    Natural,
    /// At most this part of what the natural columns leave.
    Part(usize, usize),
    /// What the cells of the column that takes the rest do not need, and a little more.
    Leftover,
    /// All that is left. One column of a table takes the rest.
    Rest,
    /// The same; what does not fit continues on the next line.
    Wrapped,
}

/// The writers that show a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Everywhere,
    /// Text and Markdown.
    ToPeople,
    /// CSV and JSON.
    InData,
}

impl Column {
    fn new(id: &str, title: &str, at_right: bool) -> Self {
        Self {
            id: id.to_owned(),
            line_id: None,
            title: title.to_owned(),
            at_right,
            gap: 2,
            least: 0,
            most: usize::MAX,
            from: 0,
            room: Room::Natural,
            spare: None,
            title_is_name: false,
            heads_next: false,
            shown: Shown::Everywhere,
        }
    }

    /// A column of numbers, aligned at the right.
    pub(crate) fn number(id: &str, title: &str) -> Self {
        Self::new(id, title, true)
    }

    /// A column of shares: `100.0 %` and a space.
    pub(crate) fn share(id: &str, title: &str) -> Self {
        Self::number(id, title).gap(1).least(7)
    }

    /// A column of words, as wide as they are.
    pub(crate) fn words(id: &str, title: &str) -> Self {
        Self::new(id, title, false)
    }

    /// The column that takes the rest of the page: names, as a rule. Others give way until it has `least` columns.
    pub(crate) fn rest(id: &str, title: &str, least: usize) -> Self {
        Self { room: Room::Rest, least, ..Self::new(id, title, false) }
    }

    /// The column that takes the rest of the page, on as many lines as needed.
    pub(crate) fn wrapped(id: &str, title: &str) -> Self {
        Self { room: Room::Wrapped, ..Self::new(id, title, false) }
    }

    /// A column of values of a metric: `ID_ns`, or `ID_value` for metrics that are no times.
    pub(crate) fn amount(id: &str, title: &str, unit: Unit) -> Self {
        let suffix = if unit == Unit::Nanoseconds { "ns" } else { "value" };
        Self::number(&format!("{id}_{suffix}"), title)
    }

    /// A column of places in source files, beside the column of names. In data, file and line are two fields.
    pub(crate) fn place(file: &str, line: &str, title: &str) -> Self {
        let place = Self { line_id: Some(line.to_owned()), ..Self::words(file, title) };
        place.part(2, 5).least(20).most(40).from(30)
    }

    /// Gives the column at most `of / whole` of what the natural columns leave.
    pub(crate) fn part(self, of: usize, whole: usize) -> Self {
        Self { room: Room::Part(of, whole), ..self }
    }

    /// Gives the column what names do not need.
    pub(crate) fn leftover(self) -> Self {
        Self { room: Room::Leftover, ..self }
    }

    pub(crate) fn gap(self, gap: usize) -> Self {
        Self { gap, ..self }
    }

    pub(crate) fn least(self, least: usize) -> Self {
        Self { least, ..self }
    }

    pub(crate) fn most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Leaves the column out where natural columns leave less room.
    pub(crate) fn from(self, from: usize) -> Self {
        Self { from, ..self }
    }

    /// Lets a narrow page leave the column out: the smallest rank first.
    pub(crate) fn spare(self, rank: u8) -> Self {
        Self { spare: Some(rank), ..self }
    }

    /// Shows the title as code in Markdown.
    pub(crate) fn title_is_name(self) -> Self {
        Self { title_is_name: true, ..self }
    }

    /// Aligns the title at the left and lets it reach over the next column, which has none. The column is left
    /// out with the next one.
    pub(crate) fn heads_next(self) -> Self {
        Self { heads_next: true, ..self }
    }

    /// Shows the column in CSV and JSON only.
    pub(crate) fn in_data(self) -> Self {
        Self { shown: Shown::InData, ..self }
    }

    /// Shows the column in text and Markdown only.
    pub(crate) fn for_people(self) -> Self {
        Self { shown: Shown::ToPeople, ..self }
    }

    /// Whether its width depends on the page.
    fn is_flexible(&self) -> bool {
        self.room != Room::Natural
    }
}
