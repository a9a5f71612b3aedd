//! A table for other documents: Markdown, AsciiDoc, Emacs org-mode. Names are complete.

use super::cell::Value;
use super::{Cell, Column, Shown, Table};
use crate::sanitize::clean;

impl Table {
    /// Renders the table as Markdown.
    pub fn markdown(&self) -> String {
        let columns = self.columns_of_people();
        let title = |(_, column): &(usize, &Column)| match column.title_is_name {
            true => markdown_code(&clean(&column.title)),
            false => markdown_text(&column.title),
        };
        let mut out = markdown_row(columns.iter().map(title).collect());
        let line = |(_, column): &(usize, &Column)| if column.at_right { "---:" } else { ":---" };
        out.push_str(&format!("|{}|\n", columns.iter().map(line).collect::<Vec<_>>().join("|")));
        for row in &self.rows {
            out.push_str(&markdown_row(
                columns.iter().map(|(at, _)| markdown_cell(&row.cells[*at])).collect(),
            ));
        }
        if let Some(more) = &self.more {
            out.push_str(&format!("\nand {more}\n"));
        }
        out
    }

    /// Renders the table as AsciiDoc.
    pub fn asciidoc(&self) -> String {
        let columns = self.columns_of_people();
        let sides = columns.iter().map(|(_, column)| if column.at_right { ">" } else { "<" });
        let titles = columns.iter().map(|(_, column)| column.title.as_str());
        let mut out = format!(
            "[cols=\"{}\", options=\"header\"]\n|===\n| {}\n",
            sides.collect::<Vec<_>>().join(","),
            titles.collect::<Vec<_>>().join(" | ")
        );
        for row in &self.rows {
            for (at, _) in &columns {
                let cell = &row.cells[*at];
                let words = cell.words().replace('|', "\\|");
                let words = if cell.value.is_verbatim() { format!("`+{words}+`") } else { words };
                out.push_str(&format!("{}| {words}\n", if *at == columns[0].0 { "\n" } else { "" }));
            }
        }
        out + "|===\n"
    }

    /// Renders the table for Emacs org-mode.
    pub fn orgmode(&self) -> String {
        let columns = self.columns_of_people();
        let titles = columns.iter().map(|(_, column)| column.title.as_str());
        let mut out = format!("| {} |\n", titles.collect::<Vec<_>>().join(" | "));
        out.push_str(&format!("|{}|\n", vec!["--"; columns.len()].join("+")));
        for row in &self.rows {
            let cells = columns.iter().map(|(at, _)| {
                let cell = &row.cells[*at];
                let words = cell.words().replace('|', "\\vert{}");
                if cell.value.is_verbatim() { format!("={words}=") } else { words }
            });
            out.push_str(&format!("| {} |\n", cells.collect::<Vec<_>>().join(" | ")));
        }
        out
    }

    /// The columns that have something to show.
    fn columns_of_people(&self) -> Vec<(usize, &Column)> {
        let is_used = |at: usize| self.rows.iter().any(|row| row.cells[at].value != Value::Nothing);
        let columns = self.columns.iter().enumerate();
        columns
            .filter(|(at, column)| {
                column.shown != Shown::InData && (!column.title.is_empty() || is_used(*at))
            })
            .collect()
    }
}

fn markdown_row(cells: Vec<String>) -> String {
    format!("| {} |\n", cells.join(" | "))
}

fn markdown_cell(cell: &Cell) -> String {
    let words = cell.words();
    match cell.value {
        _ if cell.repeats || words.is_empty() => String::new(),
        // In a table, `\\|` in code would end the cell.
        _ if cell.value.is_verbatim() && !words.contains("\\|") => markdown_code(&words),
        _ if cell.is_strong => format!("**{}**", markdown_text(&words)),
        _ => markdown_text(&words),
    }
}

/// Escapes words for Markdown.
pub(crate) fn markdown_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if "\\`*_<|[#@".contains(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

/// Formats any text as Markdown inline code.
fn markdown_code(text: &str) -> String {
    let ticks = "`".repeat(text.split(|c| c != '`').map(str::len).max().unwrap_or(0) + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{ticks}{pad}{}{pad}{ticks}", text.replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_always_code() {
        assert_eq!(markdown_code("a `b` | c"), "``a `b` \\| c``");
        assert_eq!(markdown_text("a|b <c>"), "a\\|b \\<c>");
    }
}
