//! Helpers for small SVG plots.

use std::fmt::Write as _;

use crate::flame::text::push_xml;

/// Appends a text label at a position.
pub(crate) fn label(out: &mut String, class: &str, x: f64, y: f64, anchor: &str, text: &str) {
    let _ = write!(out, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">");
    push_xml(out, text);
    out.push_str("</text>\n");
}
