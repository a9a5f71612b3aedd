//! Columns, colours and wrapped paragraphs.

use anstyle::{AnsiColor, Style};
use whyslow_analyze::is_counted;
use whyslow_analyze::{CallTree, Grade, Label, Severity};
use whyslow_profile::{CodeKind, Profile, Unit};

use crate::sanitize::clean;
use crate::units::{Count, value};

/// How a view is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Columns of the terminal.
    pub width: usize,
    /// The metric: a row of `Profile::metrics`.
    pub metric: usize,
    /// What values count.
    pub unit: Unit,
    /// Whether every value was counted, and none is a sample.
    pub counted: bool,
}

impl Page {
    /// Narrower pages are laid out for this width and wrap.
    const NARROWEST: usize = 60;

    /// A page for one metric of a profile.
    pub fn new(profile: &Profile, metric: usize, width: usize) -> Self {
        let unit = profile.metrics.get(metric).map_or(Unit::Nanoseconds, |metric| metric.unit);
        Self { width: width.max(Self::NARROWEST), metric, unit, counted: is_counted(profile, metric) }
    }

    /// A sum over the whole selection: `2.00 s`, `1.19 MiB of live-at-peak`.
    pub(super) fn whole(self, profile: &Profile, sum: u64) -> String {
        let sum = value(sum, self.unit);
        match profile.metrics.get(self.metric) {
            Some(metric) if self.counted => format!("{sum} of {}", clean(profile.text(metric.name))),
            _ => sum,
        }
    }
}

pub(super) const BOLD: Style = Style::new().bold();
pub(super) const DIM: Style = Style::new().dimmed();

/// The colour of a kind of code.
pub(super) fn kind_style(kind: CodeKind) -> Style {
    match kind {
        CodeKind::Yours => AnsiColor::Green.on_default().bold(),
        CodeKind::Dependency => AnsiColor::Cyan.on_default(),
        CodeKind::Std => AnsiColor::Blue.on_default(),
        CodeKind::Allocator => AnsiColor::Yellow.on_default(),
        CodeKind::Kernel => AnsiColor::Magenta.on_default(),
        CodeKind::Runtime | CodeKind::Unknown => DIM,
    }
}

pub(super) fn severity_style(severity: Severity) -> Style {
    match severity {
        Severity::Serious => AnsiColor::Red.on_default().bold(),
        Severity::Warning => AnsiColor::Yellow.on_default(),
        Severity::Note => DIM,
    }
}

pub(super) fn grade_style(grade: Grade) -> Style {
    match grade {
        Grade::Poor => severity_style(Severity::Serious),
        Grade::Fair => severity_style(Severity::Warning),
        Grade::Good => AnsiColor::Green.on_default(),
    }
}

/// The text in a style; the caller's stream takes the style away where it is not wanted.
pub(super) fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// The name of a label, safe to print.
pub(super) fn label_name(profile: &Profile, label: Label) -> String {
    clean(&CallTree::name(profile, label)).into_owned()
}

/// Columns that a text takes.
pub(super) fn columns(text: &str) -> usize {
    text.chars().count()
}

/// The text and spaces up to a width.
pub(super) fn left(text: &str, width: usize) -> String {
    format!("{text:<width$}")
}

/// Spaces up to a width, and the text.
pub(super) fn right(text: &str, width: usize) -> String {
    format!("{text:>width$}")
}

/// The end of a text that is too wide gives way to `…`.
pub(super) fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut kept = text.chars().take(width.saturating_sub(1)).collect::<String>();
    kept.push('…');
    kept
}

/// Breaks a text at spaces into lines of at most `width` columns; longer words stand alone.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    flow(text.split_whitespace().map(|word| (word.to_owned(), columns(word))), " ", width)
}

/// Puts pieces, each with its width, on as few lines as they fit, with a gap between them.
pub(super) fn flow(pieces: impl Iterator<Item = (String, usize)>, gap: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<(String, usize)> = Vec::new();
    for (piece, piece_width) in pieces {
        match lines.last_mut() {
            Some((line, used)) if *used + columns(gap) + piece_width <= width => {
                line.push_str(gap);
                line.push_str(&piece);
                *used += columns(gap) + piece_width;
            }
            _ => lines.push((piece, piece_width)),
        }
    }
    lines.into_iter().map(|(line, _)| line).collect()
}

/// Lines after a title, in its indentation.
pub(super) fn push_titled(out: &mut String, title: &str, style: Style, lines: &[String]) {
    for (index, line) in lines.iter().enumerate() {
        let lead = if index == 0 { styled(style, title) } else { " ".repeat(columns(title)) };
        push_line(out, &format!("{lead}{line}"));
    }
}

/// `1 block`, `20,008 blocks`.
pub(super) fn number_of(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", Count(count), if count == 1 { one } else { many })
}

/// Ends every line of a text, and leaves no spaces before its end.
pub(super) fn push_line(out: &mut String, line: &str) {
    out.push_str(line.trim_end());
    out.push('\n');
}
