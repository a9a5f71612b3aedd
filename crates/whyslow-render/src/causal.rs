//! The curves of causal profiling: what each speed-up of a line saves, with its interval as a band.

use std::fmt::Write as _;

use whyslow_causal::words::{per_visit, sentence, with_interval};
use whyslow_causal::{Estimates, PointEstimates, Row, Verdict};
use whyslow_profile::{Profile, TargetKind};

use crate::flame::text::push_xml;
use crate::names::{cut, place, shorten};
use crate::sanitize::clean;
use crate::svg::label;

const WIDTH: f64 = 940.0;
const MARGIN: f64 = 24.0;
/// A panel with its words above and its axis below.
const PANEL: f64 = 210.0;
const GAP: f64 = 36.0;
const WORDS: f64 = 46.0;
const AXIS: f64 = 24.0;
/// Room for the numbers of the vertical axis.
const NUMBERS: f64 = 44.0;
const HEAD: f64 = 62.0;
/// Panels of a progress point.
const PANELS: usize = 12;
/// Columns of text above a panel.
const NAME: usize = 34;
const PLACE: usize = 22;
const SENTENCE: usize = 60;

const STYLE: &str = "\
svg{font:13px system-ui,sans-serif;background:#fff;color:#1b1f24}\
text{fill:currentColor}.dim{fill:#57606a}.small{fill:#57606a;font-size:12px}.title{font-size:16px;font-weight:600}\
.name{font-family:ui-monospace,monospace}.band{fill:#0072b2;opacity:.16}.curve{fill:none;stroke:#0072b2;stroke-width:2}\
.dot{fill:#0072b2}.none .band,.undecided .band{fill:#57606a}.none .curve,.undecided .curve{stroke:#57606a}\
.none .dot,.undecided .dot{fill:#57606a}.undecided .curve{stroke-dasharray:4 3}.axis{stroke:#8c959f}.grid{stroke:#8c959f;opacity:.25}\
@media(prefers-color-scheme:dark){svg{background:#0d1117;color:#e6edf3}.dim,.small{fill:#9198a1}.band{fill:#56b4e9;opacity:.25}\
.curve{stroke:#56b4e9}.dot{fill:#56b4e9}.none .band,.undecided .band{fill:#9198a1}.none .curve,.undecided .curve{stroke:#9198a1}\
.none .dot,.undecided .dot{fill:#9198a1}}";

/// Draws a panel per target, and the placebo at the end; for each progress point.
pub fn curves(found: &Estimates, profile: &Profile) -> String {
    let mut body = String::new();
    let mut top = 12.0;
    for point in &found.points {
        top = point_panels(&mut body, point, profile, top);
    }
    if found.points.iter().all(|point| point.rows.iter().all(|row| row.curve.is_empty())) {
        let why = match found.refused {
            Some(_) => "no answer: the machine was overloaded",
            None => "no answer: not enough experiments",
        };
        label(&mut body, "dim", MARGIN, top + 24.0, "start", why);
        top += 48.0;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {top}\" width=\"{WIDTH}\" height=\"{top}\" role=\"img\">\n\
         <title>What speeding up a line would buy</title>\n<style>{STYLE}</style>\n{body}</svg>\n"
    )
}

/// Draws the panels of a progress point in two columns. Returns where they end.
fn point_panels(out: &mut String, found: &PointEstimates, profile: &Profile, top: f64) -> f64 {
    let point = &profile.causal.points[found.point.index()];
    let name = clean(profile.text(point.name));
    let title = format!("If a line were faster: time saved {} of {name}", per_visit(point.kind));
    label(out, "title", MARGIN, top + 22.0, "start", &cut(&title, 96));
    let about =
        "across: how much faster the line is; up: how much less time the program takes; band: 95 % interval";
    label(out, "dim", MARGIN, top + 42.0, "start", about);
    let rows = found.rows.iter().take(PANELS).chain(&found.placebo).filter(|row| !row.curve.is_empty());
    let rows = rows.collect::<Vec<_>>();
    let scale = Scale::of(&rows);
    for (at, row) in rows.iter().enumerate() {
        let width = (WIDTH - 2.0 * MARGIN - GAP) / 2.0;
        let left = MARGIN + (at % 2) as f64 * (width + GAP);
        let panel = Panel { left, top: top + HEAD + (at / 2) as f64 * PANEL, width, scale };
        panel.draw(out, row, profile);
    }
    top + HEAD + rows.len().div_ceil(2) as f64 * PANEL
}

/// The vertical axis, the same for all panels.
#[derive(Debug, Clone, Copy)]
struct Scale {
    low: f64,
    high: f64,
    step: f64,
}

impl Scale {
    fn of(rows: &[&Row]) -> Self {
        /// Intervals of few experiments can be very wide; what is beyond is cut off.
        const WIDEST: (f64, f64) = (-1.0, 1.0);
        let points = || rows.iter().flat_map(|row| &row.curve);
        let low = points().map(|point| point.low).fold(-0.05, f64::min).max(WIDEST.0);
        let high = points().map(|point| point.high).fold(0.1, f64::max).min(WIDEST.1);
        let step = [0.05, 0.1, 0.25, 0.5].into_iter().find(|step| (high - low) / step <= 6.0).unwrap_or(0.5);
        Self { low: (low / step).floor() * step, high: (high / step).ceil() * step, step }
    }
}

struct Panel {
    left: f64,
    top: f64,
    width: f64,
    scale: Scale,
}

impl Panel {
    fn x(&self, speedup: f64) -> f64 {
        self.left + NUMBERS + speedup * (self.width - NUMBERS)
    }

    fn y(&self, effect: f64) -> f64 {
        let Scale { low, high, .. } = self.scale;
        let (from, to) = (self.top + PANEL - AXIS - 18.0, self.top + WORDS);
        from - (effect.clamp(low, high) - low) / (high - low) * (from - to)
    }

    fn draw(&self, out: &mut String, row: &Row, profile: &Profile) {
        let target = &profile.causal.targets[row.target.index()];
        let function = clean(profile.text(target.function));
        let file = target.file.map(|file| clean(profile.text(file)));
        let words = match target.kind {
            TargetKind::Placebo => "code that never runs: it must not have an effect".to_owned(),
            _ => sentence(row, target),
        };
        let _ = writeln!(out, "<g class=\"{}\"><title>", row.verdict.label());
        push_xml(out, &function);
        for point in &row.curve {
            push_xml(out, &format!("\n{:.0} % faster → {}", point.speedup * 100.0, with_interval(point)));
        }
        out.push_str("</title>\n");
        label(out, "name", self.left, self.top + 14.0, "start", &shorten(&function, NAME));
        if let Some(file) = file {
            let place = place(&file, target.line, PLACE);
            label(out, "small", self.left + self.width, self.top + 14.0, "end", &place);
        }
        let class = if row.verdict == Verdict::Effect { "" } else { "dim" };
        label(out, class, self.left, self.top + 32.0, "start", &cut(&words, SENTENCE));
        self.axes(out);
        self.curve(out, row);
        out.push_str("</g>\n");
    }

    fn axes(&self, out: &mut String) {
        let Scale { low, high, step } = self.scale;
        let steps = ((high - low) / step).round() as usize;
        for at in 0..=steps {
            let value = low + at as f64 * step;
            let is_zero = value.abs() < step / 2.0;
            let _ = writeln!(
                out,
                "<line class=\"{0}\" x1=\"{1:.1}\" x2=\"{2:.1}\" y1=\"{3:.1}\" y2=\"{3:.1}\"/>",
                if is_zero { "axis" } else { "grid" },
                self.x(0.0),
                self.x(1.0),
                self.y(value)
            );
            let text = format!("{:.0} %", if is_zero { 0.0 } else { value * 100.0 });
            label(out, "small", self.x(0.0) - 6.0, self.y(value) + 4.0, "end", &text);
        }
        for speedup in [0.0, 0.25, 0.5, 0.75, 1.0] {
            let anchor = if speedup == 1.0 { "end" } else { "middle" };
            let text = format!("{:.0} %", speedup * 100.0);
            label(out, "small", self.x(speedup), self.y(low) + 17.0, anchor, &text);
        }
    }

    /// Without a speed-up nothing changes, so the curve starts at 0.
    fn curve(&self, out: &mut String, row: &Row) {
        let at = |speedup: f64, effect: f64| format!("{:.1},{:.1} ", self.x(speedup), self.y(effect));
        let start = at(0.0, 0.0);
        let upper = row.curve.iter().map(|point| at(point.speedup, point.high)).collect::<String>();
        let lower = row.curve.iter().rev().map(|point| at(point.speedup, point.low)).collect::<String>();
        let middle = row.curve.iter().map(|point| at(point.speedup, point.effect)).collect::<String>();
        let _ = writeln!(out, "<polygon class=\"band\" points=\"{start}{upper}{}\"/>", lower.trim_end());
        let _ = writeln!(out, "<polyline class=\"curve\" points=\"{start}{}\"/>", middle.trim_end());
        for point in &row.curve {
            let (x, y) = (self.x(point.speedup), self.y(point.effect));
            let _ = writeln!(out, "<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>");
        }
    }
}

#[cfg(test)]
mod tests {
    use whyslow_causal::estimate;
    use whyslow_causal::testing::add_experiments;

    use super::*;

    fn profile(blocks: usize) -> Profile {
        let mut profile = Profile::default();
        let lines: [whyslow_causal::testing::Line<'_>; 4] = [
            ("app::json::parse", "/app/src/json.rs", 120, 0.35, |speedup| (0.5 * speedup).min(0.3)),
            ("app::store::hash<\x1b&>", "/app/src/store.rs", 44, 0.4, |_| 0.0),
            ("app::page::render", "/app/src/page.rs", 9, 0.02, |_| 0.0),
            ("app::log::lock", "/app/src/log.rs", 7, 0.06, |speedup| -0.1 * speedup),
        ];
        add_experiments(&mut profile, "app::handle_request", &lines, blocks);
        profile
    }

    #[test]
    fn every_line_and_the_placebo_have_a_panel() {
        let profile = profile(8);
        let svg = curves(&estimate(&profile.causal, 2), &profile);
        let mut reader = quick_xml::Reader::from_str(&svg);
        let mut texts = 0;
        loop {
            match reader.read_event().unwrap() {
                quick_xml::events::Event::Start(start) if start.name().as_ref() == b"text" => texts += 1,
                quick_xml::events::Event::Eof => break,
                _ => {}
            }
        }
        assert_eq!((svg.matches("<polygon").count(), svg.matches("<circle").count()), (5, 20));
        assert!(texts > 50 && !svg.contains("NaN") && !svg.contains('\x1b'), "{svg}");
        assert!(svg.contains("25 % faster → 1"), "{svg}");
    }

    #[test]
    fn nothing_to_draw_says_why() {
        let mut profile = profile(1);
        profile.causal.experiments.iter_mut().for_each(|row| row.queued = 0.9);
        assert!(curves(&estimate(&profile.causal, 2), &profile).contains("overloaded"));
        assert!(curves(&Estimates::default(), &profile).contains("not enough experiments"));
    }
}
