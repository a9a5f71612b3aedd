//! The growth plot: size and cost on logarithmic axes, where a power law is a straight line and a constant bends it.

use std::fmt::Write as _;

use whyslow_analyze::scale::{FURTHER, Grown, Growth};
use whyslow_stats::growth::Exponent;

use crate::flame::text::push_xml;
use crate::names::cut;
use crate::svg::label;
use crate::text::size_words;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 560.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 290.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 50.0;
/// Number of lines in addition to the whole program's.
const LINES: usize = 7;

/// Colours that people with colour blindness can distinguish.
const COLOURS: [&str; LINES] = ["#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d00"];

const STYLE: &str = "\
svg{font:13px system-ui,sans-serif;background:#fff;color:#1b1f24}text{fill:currentColor}.dim{fill:#57606a}.title{font-size:16px;font-weight:600}\
.name{font-family:ui-monospace,monospace;font-size:12px}.axis{stroke:#8c959f}.grid{stroke:#8c959f;opacity:.25}.whole{stroke:currentColor;fill:currentColor}\
.fit{fill:none;stroke-width:1.6}.ahead{stroke-dasharray:4 4}\
@media(prefers-color-scheme:dark){svg{background:#0d1117;color:#e6edf3}.dim{fill:#9198a1}}";

/// Draws each run as a dot and each function as a line, up to ten times the largest size.
pub fn growth_plot(growth: &Growth) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\">\n<style>{STYLE}</style>\n"
    );
    label(&mut out, "title", LEFT, 26.0, "start", "How it grows");
    let unit = if growth.sampled { "samples" } else { growth.metric.as_str() };
    let what = format!(
        "{unit} by size, both on logarithmic axes; dashed: up to ten times the largest size, if the trend holds"
    );
    label(&mut out, "dim", LEFT, 46.0, "start", &what);
    let mut rows = vec![&growth.whole];
    // Steep functions come first, whatever their share.
    for row in growth.steep().into_iter().chain(&growth.functions).chain(&growth.with_callees) {
        if rows.len() <= LINES && !rows.contains(&row) {
            rows.push(row);
        }
    }
    let (Some(first), Some(last)) = (growth.sizes.first(), growth.sizes.last()) else {
        out.push_str("</svg>\n");
        return out;
    };
    let values =
        rows.iter().flat_map(|row| row.costs.iter().map(|cost| cost.value)).filter(|value| *value > 0.0);
    let end_of = |row: &Grown| match (row.exponent, row.projected_share) {
        (Some(exponent), Some(_)) => exponent.cost_at(last * FURTHER),
        _ => row.at_top,
    };
    let ahead = rows.iter().map(|row| end_of(row)).filter(|value| *value > 0.0);
    let (low, high) = values
        .chain(ahead)
        .fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
    if !low.is_finite() || high <= 0.0 || *first <= 0.0 {
        out.push_str("</svg>\n");
        return out;
    }
    let axes = Axes {
        x: [first.ln(), (last * FURTHER).ln()],
        y: [low.max(0.5).min(high / 2.0).ln(), (high * 1.2).ln()],
    };
    axes.draw(&mut out);
    let mut labels = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let colour = if at == 0 { "currentColor" } else { COLOURS[at - 1] };
        axes.row(&mut out, row, colour, [*first, *last]);
        let end = end_of(row);
        let power =
            row.exponent.map_or(String::new(), |exponent| format!("n^{:.2} ", exponent.interval.estimate));
        labels.push((axes.y_of(end), format!("{power}{}", cut(&row.name, 26)), colour));
    }
    // Move overlapping names apart.
    labels.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut free = TOP;
    for (y, text, colour) in labels {
        let y = y.max(free);
        free = y + 16.0;
        let _ = write!(
            out,
            "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" style=\"fill:{colour}\">",
            WIDTH - RIGHT + 8.0,
            y + 4.0
        );
        push_xml(&mut out, &text);
        out.push_str("</text>\n");
    }
    out.push_str("</svg>\n");
    out
}

/// The ends of both axes, as logarithms.
struct Axes {
    x: [f64; 2],
    y: [f64; 2],
}

impl Axes {
    fn x_of(&self, size: f64) -> f64 {
        LEFT + (size.ln() - self.x[0]) / (self.x[1] - self.x[0]) * (WIDTH - LEFT - RIGHT)
    }

    fn y_of(&self, value: f64) -> f64 {
        let share = (value.max(f64::MIN_POSITIVE).ln() - self.y[0]) / (self.y[1] - self.y[0]);
        HEIGHT - BOTTOM - share.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
    }

    /// The part of a curve between the two ends of the vertical axis.
    fn curve(&self, exponent: &Exponent, from: f64, to: f64) -> Option<String> {
        const STEPS: u32 = 48;
        let size = |step: u32| from * (to / from).powf(f64::from(step) / f64::from(STEPS));
        let points = (0..=STEPS).map(|step| (size(step), exponent.cost_at(size(step))));
        let inside = points.filter(|(_, cost)| *cost > 0.0 && (self.y[0]..=self.y[1]).contains(&cost.ln()));
        let words = inside.map(|(size, cost)| format!("{:.1} {:.1}", self.x_of(size), self.y_of(cost)));
        let words = words.collect::<Vec<_>>();
        (words.len() > 1).then(|| format!("M{}", words.join("L")))
    }

    fn draw(&self, out: &mut String) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for power in powers(self.x) {
            let x = self.x_of(power);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>"
            );
            label(out, "dim", x, bottom + 18.0, "middle", &size_words(power));
        }
        for power in powers(self.y) {
            let y = self.y_of(power);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
            );
            label(out, "dim", LEFT - 8.0, y + 4.0, "end", &size_words(power));
        }
        let _ = writeln!(
            out,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>"
        );
        let _ =
            writeln!(out, "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{LEFT}\" y1=\"{TOP}\" y2=\"{bottom}\"/>");
    }

    fn row(&self, out: &mut String, row: &Grown, colour: &str, [first, last]: [f64; 2]) {
        for cost in row.costs.iter().filter(|cost| cost.value > 0.0) {
            let _ = writeln!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\" opacity=\".7\"/>",
                self.x_of(cost.size),
                self.y_of(cost.value)
            );
        }
        let Some(exponent) = row.exponent else { return };
        for (from, to, class) in [(first, last, "fit"), (last, last * FURTHER, "fit ahead")] {
            // Only what fits is drawn beyond the sizes that were measured.
            if class != "fit" && row.projected_share.is_none() {
                continue;
            }
            // A line ends where it leaves the plot.
            let Some(path) = self.curve(&exponent, from, to) else { continue };
            let _ = writeln!(out, "<path class=\"{class}\" stroke=\"{colour}\" d=\"{path}\"/>");
        }
    }
}

/// The powers of ten between two logarithms.
fn powers([low, high]: [f64; 2]) -> Vec<f64> {
    let ten = std::f64::consts::LN_10;
    let (from, to) = ((low / ten).ceil() as i32, (high / ten).floor() as i32);
    (from..=to).map(|power| 10f64.powi(power)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_is_a_dot_and_every_row_a_line() {
        let growth = crate::text::growth_for_tests();
        let svg = growth_plot(&growth);
        assert_eq!(svg.matches("class=\"fit\"").count(), 4, "{svg}");
        let dots = growth
            .functions
            .iter()
            .chain(&growth.with_callees)
            .chain([&growth.whole])
            .flat_map(|row| &row.costs)
            .filter(|cost| cost.value > 0.0)
            .count();
        assert_eq!(svg.matches("<circle").count(), dots);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        let nothing = growth_plot(&Growth::of(String::new(), true, &[]));
        assert!(nothing.ends_with("</svg>\n"));
    }
}
