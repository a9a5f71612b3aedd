//! Writes the SVG document: header, legend, frames as paths, labels, data and script.

use std::fmt::Write as _;

use whyslow_analyze::CallTree;
use whyslow_profile::{Profile, Unit};
use whyslow_words::{Percent, number_of};

use super::functions::Functions;
use super::kinds::{self, KINDS};
use super::layout::{Layout, Placed};
use super::text::{cut, push_json, push_xml, visible};
use super::{Drawn, FlameChanges, FlameOptions, changes, data, times};
use crate::names::columns;
use crate::text::repeat_note;

const STYLE: &str = include_str!("flame.css");
const SCRIPT: &str = include_str!("flame.js");
/// Regular expressions in bounded time, as in the viewer.
const PATTERN: &str = include_str!("../../../../viewer/dist/pattern.js");

/// Height of a row; the frame in it leaves one pixel free.
const ROW: u32 = 18;
/// Space left and right of the frames.
const MARGIN: u32 = 12;
/// Height of the title, legend and status lines.
const HEADER: u32 = 98;
/// Width of a character of the frames' font (11.5 px, fixed pitch), a little generous: fonts differ.
const COLUMN: f64 = 7.05;
/// Space between a frame's edge and its label.
const PAD: f64 = 4.0;
/// Width that the search box takes away from the title.
const SEARCH: u32 = 410;
/// Width that the before and after buttons take in addition.
const SIDES: u32 = 190;
/// Average width of a character of the header's font, generous.
const HEADER_COLUMN: f64 = 6.9;

pub(super) struct Document<'a> {
    drawn: Drawn<'a>,
    tree: &'a CallTree,
    /// The unfolded tree and its layout, stored in the data for the "whole" button.
    whole: Option<(Drawn<'a>, Layout)>,
    profile: &'a Profile,
    options: &'a FlameOptions,
    layout: Layout,
    /// Width of the frames.
    width: u32,
    out: String,
}

impl<'a> Document<'a> {
    pub(super) fn new(
        drawn: Drawn<'a>,
        whole: Option<Drawn<'a>>,
        profile: &'a Profile,
        options: &'a FlameOptions,
    ) -> Self {
        let tree = drawn.tree;
        let width = options.width.clamp(400, 20_000) - 2 * MARGIN;
        let total = tree.total_value[0];
        let minimum = (options.min_width_px.max(0.0) * total as f64 / f64::from(width)).ceil() as u64;
        let layout = Layout::new(tree, minimum.max(1));
        let whole = whole.map(|whole| (whole, Layout::new(whole.tree, minimum.max(1))));
        let out = String::with_capacity(
            SCRIPT.len() + PATTERN.len() + STYLE.len() + 4096 + 48 * layout.frames.len(),
        );
        Self { drawn, tree, whole, profile, options, layout, width, out }
    }

    pub(super) fn write(mut self) -> String {
        let width = self.width + 2 * MARGIN;
        let height = HEADER + self.rows() * ROW + MARGIN;
        let _ = write!(
            self.out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"name about\">\n<title id=\"name\">",
        );
        push_xml(&mut self.out, &visible(&self.options.title));
        self.out.push_str("</title>\n<desc id=\"about\">");
        self.push_summary();
        let _ = write!(
            self.out,
            "</desc>\n<style><![CDATA[\n{}]]></style>\n<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n",
            compact(STYLE),
        );
        let mut functions = Functions::new(self.profile);
        let mut rows_of = |drawn: Drawn<'_>, layout: &Layout| -> Vec<u32> {
            let label = |node: u32| drawn.tree.label[node as usize];
            layout
                .frames
                .iter()
                .map(|frame| functions.row(label(frame.node), drawn.fold(frame.node)))
                .collect()
        };
        let rows = rows_of(self.drawn, &self.layout);
        let whole_rows = self.whole.as_ref().map(|(whole, layout)| rows_of(*whole, layout));
        self.push_frames(&functions, &rows);
        self.push_header();
        self.push_data(&functions, &rows, whole_rows.as_deref());
        let _ = write!(self.out, "<script><![CDATA[\n{PATTERN}{}]]></script>\n</svg>\n", compact(SCRIPT));
        self.out
    }

    /// Number of rows drawn.
    fn rows(&self) -> u32 {
        self.rows_of(&self.layout)
    }

    /// The unfolded tree, which has every function's own time.
    fn whole_tree(&self) -> &'a CallTree {
        self.whole.as_ref().map_or(self.tree, |(whole, _)| whole.tree)
    }

    fn rows_of(&self, layout: &Layout) -> u32 {
        layout.rows.clamp(1, self.options.max_rows.clamp(10, 1000))
    }

    /// The vertical middle of the row at this depth.
    fn middle(&self, depth: u32) -> u32 {
        let row = if self.options.inverted { depth } else { self.rows() - 1 - depth };
        row * ROW + ROW / 2
    }

    fn push_frames(&mut self, functions: &Functions<'_>, rows: &[u32]) {
        let drawn = self.rows();
        let mut paths: [String; changes::CLASSES] = Default::default();
        let mut inlined = String::new();
        let mut folded = String::new();
        let mut labels = String::new();
        for (frame, &row) in self.layout.frames.iter().zip(rows) {
            if frame.depth >= drawn {
                continue;
            }
            let function = &functions.rows()[row as usize];
            let middle = self.middle(frame.depth);
            let (left, right) = self.edges(frame);
            if left == right {
                continue; // too narrow to see; in the data for zooming
            }
            let class = self.options.changes.as_ref().map(|changes| changes.class(frame.node));
            match self.drawn.times {
                None if class.is_some() => {
                    class.iter().for_each(|class| push_line(&mut paths[*class], left, right, middle));
                }
                None => push_line(&mut paths[kinds::class(function.kind)], left, right, middle),
                Some(split) => {
                    let end = (right - gap(right - left)).max(left + 1);
                    for (class, from, to) in times::parts(&split.of_node[frame.node as usize], left, end) {
                        times::push_part(&mut paths[class], from, to, middle);
                    }
                }
            }
            if self.tree.inlined[frame.node as usize] {
                push_line(&mut inlined, left, right, middle);
            }
            if function.folded {
                push_line(&mut folded, left, right, middle);
            }
            let fit = ((right - left) as f64 / 10.0 - 2.0 * PAD) / COLUMN;
            if fit >= 2.0
                && let Some(label) = fitting(&function.name, &function.short, fit as usize)
            {
                let repeat = repeat_note(self.drawn.repeat(frame.node));
                let label =
                    if columns(&label) + columns(&repeat) <= fit as usize { label + &repeat } else { label };
                labels.push_str("<text x=\"");
                push_tenths(&mut labels, left);
                let _ = write!(labels, "\" y=\"{middle}\">");
                push_xml(&mut labels, &label);
                labels.push_str("</text>\n");
            }
        }
        let _ = write!(
            self.out,
            "<g id=\"frames\" transform=\"translate({MARGIN} {HEADER})\">\n<g id=\"lit\">\n"
        );
        let used = match (&self.options.changes, self.drawn.times) {
            (Some(_), _) => changes::CLASSES,
            (None, Some(_)) => times::CLASSES,
            (None, None) => times::FIRST_CLASS,
        };
        for (class, path) in paths.iter().enumerate().take(used) {
            let _ = writeln!(self.out, "<path class=\"k{class}\" d=\"{path}\"/>");
        }
        // The dashed edge is where an inlined frame meets the frame it was inlined into, below the labels'
        // underscores.
        let edge = if self.options.inverted != self.options.callers { -8 } else { 8 };
        let _ = write!(
            self.out,
            "</g>\n<path id=\"inlined\" class=\"pale\" d=\"{inlined}\"/>\n\
             <path id=\"inlined-edge\" class=\"dash\" \
             transform=\"translate(0 {edge})\" d=\"{inlined}\"/>\n\
             <path id=\"folded\" class=\"several\" transform=\"translate(0 -8)\" d=\"{folded}\"/>\n\
             <path id=\"folded-edge\" class=\"several\" transform=\"translate(0 8)\" d=\"{folded}\"/>\n<g id=\"labels\" transform=\"translate({PAD} 4)\">\n",
        );
        self.out.push_str(&labels);
        self.out.push_str("</g>\n</g>\n");
    }

    /// Left and right edge in tenths of a pixel. Rounding keeps the order of edges, so children never leave
    /// their parents.
    fn edges(&self, frame: &Placed) -> (u64, u64) {
        let scale = f64::from(self.width) * 10.0 / self.layout.total.max(1) as f64;
        let edge = |value: u64| (value as f64 * scale).round() as u64;
        (edge(frame.start), edge(frame.start + frame.value))
    }

    fn push_header(&mut self) {
        let bar = if self.options.changes.is_some() { SEARCH + SIDES } else { SEARCH };
        let room = f64::from(self.width - bar.min(self.width / 2));
        let right = self.width + 2 * MARGIN;
        let _ = write!(
            self.out,
            "<g id=\"header\">\n<rect class=\"bg\" width=\"{right}\" height=\"{HEADER}\"/>\n\
             <text class=\"title\" x=\"{MARGIN}\" y=\"27\">"
        );
        self.push_cut(&self.options.title, room / 9.5);
        let _ = write!(self.out, "</text>\n<text id=\"subtitle\" class=\"quiet\" x=\"{MARGIN}\" y=\"47\">");
        // The search is in the row above.
        self.push_cut(&self.options.subtitle, f64::from(self.width) / HEADER_COLUMN);
        self.out.push_str("</text>\n");
        self.push_legend();
        let _ = write!(self.out, "<text id=\"note\" class=\"quiet\" x=\"{MARGIN}\" y=\"89\">");
        let note = self.note(&self.layout);
        push_xml(&mut self.out, &note);
        self.out.push_str("</text>\n</g>\n");
    }

    fn push_cut(&mut self, text: &str, columns: f64) {
        push_xml(&mut self.out, &cut(&visible(text), columns as usize).unwrap_or_default());
    }

    fn push_legend(&mut self) {
        let word = match (&self.options.changes, self.drawn.times) {
            (Some(_), _) => "change",
            (None, Some(_)) => "time",
            (None, None) => "self",
        };
        let mut legend = format!("<text class=\"quiet\" x=\"{MARGIN}\" y=\"70\">{word}</text>\n");
        let mut x = f64::from(MARGIN) + if word == "change" { 52.0 } else { 32.0 };
        for (class, text) in self.legend_entries() {
            let _ = write!(
                legend,
                "<g class=\"kind\"><path class=\"k{class} swatch\" d=\"M{x:.0} 66h13\"/><text x=\"{:.0}\" y=\"70\">",
                x + 18.0,
            );
            push_xml(&mut legend, &text);
            legend.push_str("</text></g>\n");
            x += 18.0 + legend_width(&text) + 16.0;
        }
        if self.tree.inlined.contains(&true) {
            // The paler colour of the user's code looks like "more" beside colours of changes.
            let class = if self.options.changes.is_some() { changes::SAME_CLASS } else { 0 };
            let _ = writeln!(
                legend,
                "<path class=\"k{class} swatch\" d=\"M{x:.0} 66h13\"/><path class=\"pale swatch\" d=\"M{x:.0} 66h13\"/>\
                 <path class=\"dash\" d=\"M{x:.0} 72h13\"/><text x=\"{:.0}\" y=\"70\">inlined</text>",
                x + 18.0,
            );
            x += 18.0 + legend_width("inlined");
        }
        // Shrink the legend in a narrow picture.
        let shrunk = (f64::from(self.width) / (x - f64::from(MARGIN))).min(1.0);
        let (right, down) = (f64::from(MARGIN) * (1.0 - shrunk), 66.0 * (1.0 - shrunk));
        let _ = writeln!(
            self.out,
            "<g id=\"legend\" transform=\"translate({right:.1} {down:.1}) scale({shrunk:.3})\">\n{legend}</g>"
        );
    }

    /// The legend entries: class and words.
    fn legend_entries(&self) -> Vec<(usize, String)> {
        if let Some(split) = self.drawn.times {
            return times::legend(&split.of_node[0], self.layout.total);
        }
        if let Some(changes) = &self.options.changes {
            return changes.legend(&self.layout);
        }
        let values = kinds::self_values(self.whole_tree(), self.profile, self.options.callers);
        let kinds = KINDS.iter().zip(values).enumerate();
        kinds
            .filter_map(|(class, ((_, word), value))| Some((class, format!("{word} {}", self.share(value?)))))
            .collect()
    }

    /// A note about the frames that a layout does not show.
    fn note(&self, layout: &Layout) -> String {
        let mut notes = Vec::new();
        if layout.total == 0 {
            notes.push("There are no samples.".to_owned());
        }
        if layout.hidden > 0 {
            notes.push(format!(
                "{} narrower than {} px ({} of the total) {} left out.",
                frames(layout.hidden),
                self.options.min_width_px,
                self.share(layout.hidden_value),
                if layout.hidden == 1 { "is" } else { "are" },
            ));
        }
        let (all, drawn) = (layout.rows, self.rows_of(layout));
        if all > drawn {
            notes.push(format!("{drawn} of {all} rows are drawn: click a frame to see the others."));
        }
        notes.join(" ")
    }

    /// Appends a text summary of the picture for screen readers.
    fn push_summary(&mut self) {
        let parts: Vec<String> = self.legend_entries().into_iter().map(|(_, text)| text).collect();
        let text = format!(
            "Flame graph of {} in {} rows. {}",
            frames(self.layout.frames.len() as u64),
            self.layout.rows,
            parts.join(", ")
        );
        push_xml(&mut self.out, &text);
    }

    fn push_data(&mut self, functions: &Functions<'_>, rows: &[u32], whole_rows: Option<&[u32]>) {
        let unit = match self.options.unit {
            Unit::Nanoseconds => "ns",
            Unit::Bytes => "bytes",
            Unit::Count => "count",
        };
        let _ = write!(
            self.out,
            "<script type=\"application/json\" id=\"data\"><![CDATA[{{\"row\":{ROW},\"margin\":{MARGIN},\
             \"header\":{HEADER},\"rows\":{},\"inverted\":{},\"callers\":{},\"unit\":\"{unit}\",\"functions\":",
            self.rows(),
            self.options.inverted,
            self.options.callers,
        );
        data::push_functions(&mut self.out, functions.rows());
        self.out.push_str(",\n\"frames\":");
        data::push_frames(&mut self.out, &self.layout, self.drawn, rows);
        if let (Some((whole, layout)), Some(rows)) = (&self.whole, whole_rows) {
            let _ = write!(self.out, ",\n\"wholeRows\":{},\"wholeNote\":", self.rows_of(layout));
            let note = self.note(layout);
            push_json(&mut self.out, &note);
            self.out.push_str(",\n\"whole\":");
            data::push_frames(&mut self.out, layout, *whole, rows);
        }
        if self.drawn.times.is_some() {
            self.out.push_str(",\n\"timeKinds\":");
            times::push_words(&mut self.out);
            self.out.push_str(",\n\"times\":");
            times::push_splits(&mut self.out, &self.layout, self.drawn);
            if let Some((whole, layout)) = &self.whole {
                self.out.push_str(",\n\"wholeTimes\":");
                times::push_splits(&mut self.out, layout, *whole);
            }
        }
        if let Some(changes) = &self.options.changes {
            let _ = write!(self.out, ",\n\"firstChange\":{},\"verdicts\":", changes::FIRST_CLASS);
            FlameChanges::push_words(&mut self.out);
            self.out.push_str(",\n\"changes\":");
            changes.push_frames(&mut self.out, &self.layout);
        }
        self.out.push_str("}]]></script>\n");
    }

    fn share(&self, value: u64) -> Percent {
        Percent(value as f64 / self.layout.total.max(1) as f64)
    }
}

/// Formats a count: `1 frame`, `12,345 frames`.
fn frames(count: u64) -> String {
    number_of(count, "frame", "frames")
}

/// Strips indentation and comment lines from our style sheet or script.
fn compact(source: &str) -> String {
    let mut lines = String::with_capacity(source.len());
    let kept = source.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
    for line in kept {
        lines.push_str(line);
        lines.push('\n');
    }
    lines
}

/// The name if it fits, else its short form, else the last part of the short form, cut if needed.
fn fitting(name: &str, short: &str, fit: usize) -> Option<String> {
    // The type of a conversion operator is no path.
    let is_whole = |last: &&str| !last.contains('}') && !short.contains("operator ");
    let last = short.rsplit("::").next().filter(is_whole).unwrap_or(short);
    match [name, short, last].into_iter().find(|text| columns(text) <= fit && !text.is_empty()) {
        Some(text) => Some(text.to_owned()),
        None => cut(last, fit),
    }
}

/// The approximate width of a legend text: letters of its font differ in width.
fn legend_width(text: &str) -> f64 {
    text.chars().map(|c| if " .fijlrt".contains(c) { 4.5 } else { 7.4 }).sum()
}

/// The gap between a frame of this width and its right neighbour, in tenths of a pixel.
fn gap(width: u64) -> u64 {
    if width > 15 { 6 } else { width * 3 / 10 }
}

/// Appends a frame as a line with a gap to its right neighbour. The style sheet makes the line as thick as a
/// row.
fn push_line(path: &mut String, left: u64, right: u64, middle: u32) {
    let width = right - left;
    let gap = gap(width);
    path.push('M');
    push_tenths(path, left);
    let _ = write!(path, " {middle}h");
    push_tenths(path, (width - gap).max(1));
}

/// Appends a number of tenths as a decimal: 123 is `12.3`.
fn push_tenths(out: &mut String, tenths: u64) {
    let _ = match tenths % 10 {
        0 => write!(out, "{}", tenths / 10),
        rest if tenths < 10 => write!(out, ".{rest}"),
        rest => write!(out, "{}.{rest}", tenths / 10),
    };
}
