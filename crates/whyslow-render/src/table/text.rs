//! A table as text for terminals.

use anstyle::Style;

use super::layout::{LEAST_WRAPPED, widths};
use super::{Room, Row, Table};
use crate::names::{columns, cut};
use crate::sanitize::clean;
use crate::text::layout::{DIM, PLAIN, push_line, styled, wrap};

impl Table {
    /// Renders the table in at most `width` columns; only full names are wider.
    pub fn text(&self, width: usize) -> String {
        let texts: Vec<Vec<String>> = self.rows.iter().map(Row::words).collect();
        let (widths, missing) = widths(self, &texts, width);
        let mut out = String::new();
        self.push_titles(&mut out, &widths);
        for (row, texts) in self.rows.iter().zip(&texts) {
            self.push_row(&mut out, row, texts, &widths);
            for note in &row.notes {
                let indent = self.note_indent(&widths);
                for line in wrap(&clean(&note.text), width.saturating_sub(indent).max(LEAST_WRAPPED)) {
                    push_line(&mut out, &format!("{}{}", " ".repeat(indent), paint(note.style, &line)));
                }
            }
        }
        if let Some(more) = &self.more {
            push_line(&mut out, &styled(DIM, format!("and {more}")));
        }
        let missing = missing.into_iter().map(|at| self.columns[at].title.as_str());
        let missing = missing.filter(|title| !title.is_empty()).collect::<Vec<_>>();
        if !missing.is_empty() {
            let words = format!("not shown, for lack of width: {}", missing.join(", "));
            wrap(&words, width).iter().for_each(|line| push_line(&mut out, &styled(DIM, line)));
        }
        out
    }

    /// Where notes start.
    fn note_indent(&self, widths: &[Option<usize>]) -> usize {
        let (column, spaces) = self.notes_at;
        let before = self.columns.iter().zip(widths).take(column);
        let before: usize = before.filter_map(|(column, width)| Some(column.gap + (*width)?)).sum();
        before + self.columns.get(column).map_or(0, |column| column.gap) + spaces
    }

    fn push_titles(&self, out: &mut String, widths: &[Option<usize>]) {
        if self.columns.iter().all(|column| column.title.is_empty()) {
            return;
        }
        let mut line = Line::default();
        for (at, column) in self.columns.iter().enumerate() {
            let Some(mut width) = widths[at] else { continue };
            let has_title_before = at > 0 && self.columns[at - 1].heads_next && widths[at - 1].is_some();
            if has_title_before {
                continue;
            }
            if let (true, Some(Some(next))) = (column.heads_next, widths.get(at + 1)) {
                width += self.columns[at + 1].gap + next;
            }
            line.skip(column.gap);
            let title = cut(&column.title, width);
            line.put(column.at_right && !column.heads_next, width, &title, columns(&title));
        }
        push_line(out, &styled(self.heading, line.text));
    }

    fn push_row(&self, out: &mut String, row: &Row, texts: &[String], widths: &[Option<usize>]) {
        let mut line = Line::default();
        let mut below = Vec::new();
        for (at, (column, cell)) in self.columns.iter().zip(&row.cells).enumerate() {
            let Some(width) = widths[at] else { continue };
            line.skip(column.gap);
            let start = line.used;
            if column.room == Room::Wrapped {
                let mut lines = wrap(&texts[at], width.max(LEAST_WRAPPED)).into_iter();
                let first = lines.next().unwrap_or_default();
                line.put(false, width, &styled(cell.style, &first), columns(&first));
                below.extend(lines.map(|line| format!("{}{}", " ".repeat(start), styled(cell.style, line))));
                continue;
            }
            let (text, behind) = cell.fitted(&texts[at], width, self.full_names);
            let used = columns(&text) + columns(&behind);
            let behind = if behind.is_empty() { behind } else { styled(DIM, behind) };
            line.put(column.at_right, width, &format!("{}{behind}", paint(cell.style, &text)), used);
        }
        push_line(out, &line.text);
        below.iter().for_each(|line| push_line(out, line));
    }
}

/// Text in a style; nothing stays nothing.
fn paint(style: Style, text: &str) -> String {
    if text.is_empty() || style == PLAIN { text.to_owned() } else { styled(style, text) }
}

impl Row {
    /// The whole texts of the cells.
    pub(super) fn words(&self) -> Vec<String> {
        let words = |cell: &super::Cell| if cell.repeats { String::new() } else { cell.words() };
        self.cells.iter().map(words).collect()
    }
}

/// A line under construction. Spaces are written only before text, so no line ends with them.
#[derive(Default)]
struct Line {
    text: String,
    /// Columns so far, with the spaces to come.
    used: usize,
    spaces: usize,
}

impl Line {
    fn skip(&mut self, spaces: usize) {
        self.spaces += spaces;
        self.used += spaces;
    }

    /// Puts a text of `wide` columns at the left or right of a cell.
    fn put(&mut self, at_right: bool, width: usize, text: &str, wide: usize) {
        let padding = width.saturating_sub(wide);
        if at_right {
            self.skip(padding);
        }
        if wide > 0 {
            self.text.extend(std::iter::repeat_n(' ', self.spaces));
            self.text.push_str(text);
            self.spaces = 0;
            self.used += wide;
        }
        if !at_right {
            self.skip(padding);
        }
    }
}
