//! The widths of columns on a page.
//!
//! ```text
//! room     = page - gaps - natural columns, after spare ones were left out until names have their least
//! part     = at most of/whole of the room and its own gap, and what its cells need
//! leftover = what is left without what names need, but at least 7/16 of it
//! rest     = what is left
//! ```

use super::{Column, Room, Shown, Table};
use crate::names::columns;

/// Text that wraps has at least this.
pub(super) const LEAST_WRAPPED: usize = 20;

/// The width of each column, `None` for a column that is left out; and the columns that are left out although
/// nothing says that they are spare.
pub(super) fn widths(table: &Table, texts: &[Vec<String>], page: usize) -> (Vec<Option<usize>>, Vec<usize>) {
    let mut layout = Layout::new(table, texts, page);
    layout.leave_out();
    layout.divide();
    (layout.widths, layout.missing)
}

struct Layout<'a> {
    table: &'a Table,
    texts: &'a [Vec<String>],
    page: usize,
    /// The widest cell of each column.
    widest: Vec<usize>,
    widths: Vec<Option<usize>>,
    missing: Vec<usize>,
}

impl<'a> Layout<'a> {
    fn new(table: &'a Table, texts: &'a [Vec<String>], page: usize) -> Self {
        let widest_cell = |at: usize| {
            let cells = table.rows.iter().zip(texts).map(|(row, texts)| {
                let behind = row.cells[at].words_behind();
                columns(&texts[at]) + behind.map_or(0, |behind| columns(&behind))
            });
            cells.max().unwrap_or(0)
        };
        let widest: Vec<usize> = (0..table.columns.len()).map(widest_cell).collect();
        let width = |(column, widest): (&Column, &usize)| {
            let title = if column.heads_next { 0 } else { columns(&column.title) };
            let is_empty = match column.room {
                Room::Part(..) | Room::Leftover => *widest == 0,
                _ => *widest == 0 && column.title.is_empty(),
            };
            match column.room {
                _ if is_empty || column.shown == Shown::InData => None,
                Room::Natural => {
                    let width = (*widest).min(column.most).max(title).max(column.least);
                    // Names that nothing else limits leave half of the page to the others.
                    Some(width.min(page / 2))
                }
                // Until it is known.
                _ => Some(0),
            }
        };
        let mut widths: Vec<Option<usize>> = table.columns.iter().zip(&widest).map(width).collect();
        for at in 1..widths.len() {
            if widths[at].is_none() && table.columns[at - 1].heads_next {
                widths[at - 1] = None;
            }
        }
        Self { table, texts, page, widest, widths, missing: Vec::new() }
    }

    /// What the columns leave of the page; negative if they do not fit.
    fn room(&self) -> isize {
        let taken = self.table.columns.iter().zip(&self.widths);
        let taken = taken.filter_map(|(column, width)| Some(column.gap + (*width)?)).sum::<usize>();
        self.page as isize - taken as isize
    }

    /// The least that flexible columns need.
    fn needed(&self) -> isize {
        let flexible = self.table.columns.iter().zip(&self.widest).zip(&self.widths);
        let flexible = flexible.filter(|((column, _), width)| column.is_flexible() && width.is_some());
        flexible.map(|((column, widest), _)| column.least.min(*widest) as isize).sum()
    }

    /// Leaves out spare columns while names have too little room, then whatever does not fit at all.
    fn leave_out(&mut self) {
        let mut ranks: Vec<u8> = self.table.columns.iter().filter_map(|column| column.spare).collect();
        ranks.sort_unstable();
        ranks.dedup();
        for rank in ranks {
            if self.room() >= self.needed() {
                break;
            }
            for at in 0..self.widths.len() {
                if self.table.columns[at].spare == Some(rank) {
                    self.widths[at] = None;
                }
            }
        }
        for at in (1..self.widths.len()).rev() {
            if self.room() >= self.reserved() as isize {
                return;
            }
            if !self.table.columns[at].is_flexible() && self.widths[at].is_some() {
                self.hide(at);
                self.missing.insert(0, at);
            }
        }
    }

    /// Leaves a column out, and the one that has its title.
    fn hide(&mut self, at: usize) {
        self.widths[at] = None;
        if let Some(before) = at.checked_sub(1)
            && self.table.columns[before].heads_next
        {
            self.widths[before] = None;
        }
    }

    /// Divides the room among the flexible columns.
    fn divide(&mut self) {
        let room = self.room().max(0) as usize;
        for at in 0..self.widths.len() {
            let column = &self.table.columns[at];
            let left = (self.room().max(0) as usize).saturating_sub(self.reserved());
            let limit = match column.room {
                _ if self.widths[at].is_none() => continue,
                Room::Part(..) | Room::Leftover if room < column.from => 0,
                Room::Part(of, whole) => ((room + column.gap) * of / whole).min(column.most).min(left),
                Room::Leftover => {
                    let head = self.head(at);
                    let both = left + head;
                    let limit = both - self.rest_needs().min(both * 9 / 16);
                    if limit < column.least { 0 } else { limit.saturating_sub(head) }
                }
                Room::Natural | Room::Rest | Room::Wrapped => continue,
            };
            self.give(at, limit);
        }
        if let Some(at) = self.rest() {
            let left = self.room().max(0) as usize;
            self.give(at, left);
        }
    }

    /// The column that takes the rest.
    fn rest(&self) -> Option<usize> {
        let takes_rest = |column: &Column| matches!(column.room, Room::Rest | Room::Wrapped);
        let at = self.table.columns.iter().position(takes_rest)?;
        self.widths[at].map(|_| at)
    }

    /// What other flexible columns leave to text that wraps.
    fn reserved(&self) -> usize {
        let wraps = self.rest().filter(|at| self.table.columns[*at].room == Room::Wrapped);
        wraps.map_or(0, |at| LEAST_WRAPPED.min(self.widest[at]))
    }

    /// The columns that the one with the same title takes, before this one.
    fn head(&self, at: usize) -> usize {
        let before = at.checked_sub(1).filter(|before| self.table.columns[*before].heads_next);
        before.and_then(|before| self.widths[before]).map_or(0, |width| width + self.table.columns[at].gap)
    }

    fn rest_needs(&self) -> usize {
        self.rest().map_or(0, |at| self.widest[at])
    }

    /// Sets the width of a column to what its cells need when they fit `limit`; without any, hides it.
    fn give(&mut self, at: usize, limit: usize) {
        let column = &self.table.columns[at];
        if column.room == Room::Wrapped {
            self.widths[at] = Some(limit);
            return;
        }
        let rows = self.table.rows.iter().zip(self.texts);
        let fitted = rows.map(|(row, texts)| {
            let (text, behind) = row.cells[at].fitted(&texts[at], limit, self.table.full_names);
            columns(&text) + columns(&behind)
        });
        let widest = fitted.max().unwrap_or(0);
        if widest == 0 && column.room != Room::Rest {
            return self.hide(at);
        }
        let title = if column.heads_next { 0 } else { columns(&column.title) };
        self.widths[at] = Some(widest.max(title.min(limit)));
    }
}
