//! Columns, colours and wrapped paragraphs.

use anstyle::{AnsiColor, Style};
use whyslow_analyze::is_counted;
use whyslow_analyze::{CallTree, Grade, Label};
use whyslow_profile::{CodeKind, Metric, MetricId, Origin, Profile, Subject, Unit};
use whyslow_words::Severity;
pub(crate) use whyslow_words::number_of;

use super::remark::severity_style;
use crate::names::{beginning, shorten};
pub(crate) use crate::names::{columns, cut, place};
use crate::sanitize::clean;
use crate::units::{bytes, value};

/// The layout of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Columns of the terminal.
    pub width: usize,
    /// The metric: a row of `Profile::metrics`.
    pub metric: MetricId,
    /// The unit of the values.
    pub unit: Unit,
    /// Whether values are exact counts instead of samples.
    pub counted: bool,
    /// Whether to show names in full even where they do not fit.
    pub full_names: bool,
}

impl Page {
    /// Narrower pages are laid out for this width and wrap.
    const NARROWEST: usize = 60;

    /// A page that is not about a profile.
    pub fn of_width(width: usize) -> Self {
        let (metric, unit) = (MetricId(0), Unit::Nanoseconds);
        Self { width: width.max(Self::NARROWEST), metric, unit, counted: false, full_names: false }
    }

    /// Creates a page for one metric of a profile.
    pub fn new(profile: &Profile, metric: MetricId, width: usize) -> Self {
        let unit = profile.metrics.get(metric.index()).map_or(Unit::Nanoseconds, |metric| metric.unit);
        Self {
            width: width.max(Self::NARROWEST),
            metric,
            unit,
            counted: is_counted(profile, metric),
            full_names: false,
        }
    }

    /// The same page with full names.
    #[must_use]
    pub fn with_full_names(self, full_names: bool) -> Self {
        Self { full_names, ..self }
    }

    /// A function's name in at most this many columns, unless names are shown in full.
    pub(crate) fn fit(self, name: &str, width: usize) -> String {
        if self.full_names { name.to_owned() } else { shorten(name, width) }
    }

    /// Formats a sum over the whole selection: `2.00 s`, `1.19 MiB of live-at-peak`, `382 page-faults`.
    pub(crate) fn whole(self, profile: &Profile, sum: u64) -> String {
        let count = sum;
        let sum = value(sum, self.unit);
        match profile.metrics.get(self.metric.index()) {
            Some(metric) if is_event(metric) && self.unit == Unit::Count => {
                let name = clean(profile.text(metric.name));
                let touched = fresh_memory(&name, count).unwrap_or_default();
                format!("{sum} {name}{touched}")
            }
            Some(metric) if is_event(metric) => {
                format!("{sum} of {}", clean(profile.text(metric.name)))
            }
            Some(metric) if metric.origin == Origin::Simulated => {
                format!("{sum} simulated {}", clean(profile.text(metric.name)))
            }
            Some(metric) if self.counted => format!("{sum} of {}", clean(profile.text(metric.name))),
            _ => sum,
        }
    }
}

/// Whether a metric counts real events; simulators count under their own names.
fn is_event(metric: &Metric) -> bool {
    metric.of == Subject::Event && metric.origin != Origin::Simulated
}

/// The memory that page faults stand for.
fn fresh_memory(name: &str, faults: u64) -> Option<String> {
    /// No supported processor has smaller pages.
    const PAGE: u64 = 4096;
    let (plain, _) = name.split_once(':').unwrap_or((name, ""));
    let memory = bytes(faults.saturating_mul(PAGE));
    match plain {
        "page-faults" | "minor-faults" => Some(format!(", {memory} of new memory with 4 KiB pages")),
        "major-faults" => Some(format!(", at least {memory} read from disk while the program waited")),
        _ => None,
    }
}

pub(crate) const PLAIN: Style = Style::new();
pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();

/// The colour of a kind of code.
pub(crate) fn kind_style(kind: CodeKind) -> Style {
    match kind {
        CodeKind::Yours => AnsiColor::Green.on_default().bold(),
        CodeKind::Dependency => AnsiColor::Cyan.on_default(),
        CodeKind::Std => AnsiColor::Blue.on_default(),
        CodeKind::Allocator => AnsiColor::Yellow.on_default(),
        CodeKind::Kernel => AnsiColor::Magenta.on_default(),
        CodeKind::Runtime | CodeKind::Unknown => DIM,
    }
}

pub(crate) fn grade_style(grade: Grade) -> Style {
    match grade {
        Grade::Poor => severity_style(Severity::Serious),
        Grade::Fair => severity_style(Severity::Warning),
        Grade::Good => severity_style(Severity::Fine),
    }
}

/// Adds a style to text; the caller's stream removes styles where they are not wanted.
pub(crate) fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// The name of a label, safe to print.
pub(crate) fn label_name(profile: &Profile, label: Label) -> String {
    clean(&CallTree::name(profile, label)).into_owned()
}

/// Pads text on the right up to a width.
pub(crate) fn left(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(columns(text))))
}

/// Pads text on the left up to a width.
pub(crate) fn right(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(width.saturating_sub(columns(text))))
}

/// Breaks text into lines of at most `width` columns, at spaces and inside words that are wider.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let words = unbroken(text.split_whitespace());
    let pieces = words.iter().flat_map(|word| {
        let (mut word, mut pieces) = (word.as_str(), Vec::new());
        while columns(word) > width {
            let (piece, rest) = word.split_at(beginning(word, width).len());
            if piece.is_empty() {
                break;
            }
            pieces.push(piece);
            word = rest;
        }
        pieces.push(word);
        pieces
    });
    flow(pieces.map(|word| (word.to_owned(), columns(word))), " ", width)
}

/// Words, those that must stay on one line together: a number and its unit.
fn unbroken<'a>(words: impl Iterator<Item = &'a str>) -> Vec<String> {
    const UNITS: &[&str] =
        &["%", "ns", "µs", "ms", "s", "min", "h", "B", "KB", "MB", "GB", "KiB", "MiB", "GiB"];
    let mut joined: Vec<String> = Vec::new();
    for word in words {
        let is_unit = UNITS.contains(&word.trim_end_matches(['.', ',', ';', ':', ')']));
        match joined.last_mut() {
            Some(number) if is_unit && number.ends_with(|last: char| last.is_ascii_digit()) => {
                number.push(' ');
                number.push_str(word);
            }
            _ => joined.push(word.to_owned()),
        }
    }
    joined
}

/// Puts pieces, each with its width, on as few lines as possible, with a gap between them.
pub(crate) fn flow(pieces: impl Iterator<Item = (String, usize)>, gap: &str, width: usize) -> Vec<String> {
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

/// Appends lines after a title, indented by its width.
pub(crate) fn push_titled(out: &mut String, title: &str, style: Style, lines: &[String]) {
    for (index, line) in lines.iter().enumerate() {
        let lead = if index == 0 { styled(style, title) } else { " ".repeat(columns(title)) };
        push_line(out, &format!("{lead}{line}"));
    }
}

/// Appends wrapped text in a style.
pub(crate) fn push_wrapped(out: &mut String, style: Style, text: &str, width: usize) {
    wrap(text, width).iter().for_each(|line| push_line(out, &styled(style, line)));
}

/// Appends a line without trailing spaces.
pub(crate) fn push_line(out: &mut String, line: &str) {
    out.push_str(line.trim_end());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn a_number_stays_with_its_unit() {
        assert_eq!(wrap("it takes 12.5 % of it", 11), ["it takes", "12.5 % of", "it"]);
        assert_eq!(wrap("waits (at most 3 ms), then", 16), ["waits (at most", "3 ms), then"]);
        assert_eq!(wrap("a % sign", 3), ["a %", "sig", "n"], "no number");
    }
}
