//! The text form of all remarks.

use anstyle::{AnsiColor, Style};
use whyslow_words::{Remark, Severity};

use super::layout::{BOLD, DIM, columns, push_titled, wrap};
use crate::sanitize::clean;

/// The colour of a severity.
pub fn severity_style(severity: Severity) -> Style {
    match severity {
        Severity::Serious => AnsiColor::Red.on_default().bold(),
        Severity::Warning => AnsiColor::Yellow.on_default(),
        Severity::Note => DIM,
        Severity::Fine => AnsiColor::Green.on_default(),
    }
}

/// A remark and its fix, wrapped.
pub fn remark_lines(remark: &Remark, width: usize) -> String {
    let mut out = String::new();
    push_remark(&mut out, remark.severity, &clean(&remark.text), width);
    push_fix(&mut out, remark, width);
    out
}

/// Appends the fix of a remark, if it has one.
pub(super) fn push_fix(out: &mut String, remark: &Remark, width: usize) {
    if let Some(fix) = &remark.fix {
        let label = "  fix: ";
        push_titled(out, label, BOLD, &wrap(&clean(fix), width.saturating_sub(columns(label))));
    }
}

/// Appends wrapped words after the label of their severity.
pub(super) fn push_remark(out: &mut String, severity: Severity, words: &str, width: usize) {
    let label = format!("{}: ", severity.label());
    push_titled(out, &label, severity_style(severity), &wrap(words, width.saturating_sub(columns(&label))));
}

/// A remark on one line without colours: `note: the text; fix: what to do`.
pub fn remark_line(remark: &Remark) -> String {
    let fix = remark.fix.as_ref().map(|fix| format!("; fix: {}", clean(fix))).unwrap_or_default();
    format!("{}: {}{fix}", remark.severity.label(), clean(&remark.text))
}

#[cfg(test)]
mod tests {
    use whyslow_words::About;

    use super::*;

    #[test]
    fn a_remark_is_escaped_and_has_its_fix() {
        let remark = Remark::note("an-id", About::Heap, "\x1b[31mred").or("type\x07 this");
        let line = remark_line(&remark);
        assert!(line.starts_with("note: ") && line.contains("; fix: type"), "{line}");
        assert!(!line.contains(['\x1b', '\x07']), "{line:?}");
        let lines = remark_lines(&Remark { severity: Severity::Warning, ..remark }, 20);
        assert!(lines.contains("warning: ") && !lines.contains("\x1b[31m"), "{lines:?}");
    }
}
