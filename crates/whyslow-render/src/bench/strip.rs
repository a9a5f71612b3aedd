//! The strip plot: each pair is a dot, the estimate a line, its interval a band.

use std::fmt::Write as _;

use super::{BenchView, amount, change};
use crate::names::cut;
use crate::svg::label;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 24.0;
const RIGHT: f64 = 24.0;
const HEAD: f64 = 64.0;
const STRIP: f64 = 120.0;
const AXIS: f64 = 34.0;
/// Names longer than this many columns are cut.
const NAME: usize = 88;

const STYLE: &str = "\
svg{font:13px system-ui,sans-serif;background:#fff;color:#1b1f24}\
text{fill:currentColor}.dim{fill:#57606a}.title{font-size:16px;font-weight:600}.name{font-family:ui-monospace,monospace}\
.band{fill:#0072b2;opacity:.16}.estimate{stroke:#0072b2;stroke-width:2}.none{stroke:#57606a;stroke-dasharray:4 3}\
.margin{fill:#57606a;opacity:.10}.dot{fill:#1b1f24;opacity:.55}.axis{stroke:#8c959f}\
@media(prefers-color-scheme:dark){svg{background:#0d1117;color:#e6edf3}.dim{fill:#9198a1}.dot{fill:#e6edf3}.band{fill:#56b4e9;opacity:.25}.estimate{stroke:#56b4e9}}";

/// Draws one strip per comparison, or the runs alone if there is only one command.
pub fn strip_plot(view: &BenchView<'_>) -> String {
    let strips = strips(view);
    let height = HEAD + strips.len().max(1) as f64 * (STRIP + AXIS) + 12.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n\
         <style>{STYLE}</style>\n"
    );
    let rounds = view.measured.commands.first().map_or(0, |command| command.runs.len());
    let title = match view.deciding().next() {
        Some(_) => format!("{} relative to {}", view.witness().label(), view.name(view.reference)),
        None => format!("{} of {}", view.witness().label(), view.name(view.reference)),
    };
    label(&mut out, "title", LEFT, 26.0, "start", &cut(&title, NAME));
    let what = match view.deciding().next() {
        Some(_) => format!(
            "{rounds} rounds; each dot is a pair, left is less; line and band: estimate and interval; grey: the margin of {}",
            change(1.0 + view.margin).trim_start_matches('+')
        ),
        None => format!("{rounds} rounds; each dot is a run, the first at the top"),
    };
    label(&mut out, "dim", LEFT, 46.0, "start", &what);
    for (at, strip) in strips.iter().enumerate() {
        strip.draw(&mut out, HEAD + at as f64 * (STRIP + AXIS), view.margin);
    }
    out.push_str("</svg>\n");
    out
}

/// Dots along one axis.
struct Strip {
    name: String,
    words: String,
    /// Positions of the dots: logarithms of ratios, or values.
    dots: Vec<f64>,
    /// The estimate and its interval, in the same units.
    interval: Option<[f64; 3]>,
    /// Formats a position on the axis.
    tick: fn(f64) -> String,
    is_ratio: bool,
}

fn strips(view: &BenchView<'_>) -> Vec<Strip> {
    let compared = view.deciding().map(|comparison| Strip {
        name: view.name(comparison.candidate).to_owned(),
        words: match comparison.ratio {
            Some(ratio) if ratio.high.is_finite() => format!(
                "{}: {} ({} to {})",
                comparison.word(),
                change(ratio.estimate),
                change(ratio.low),
                change(ratio.high)
            ),
            _ => comparison.word().to_owned(),
        },
        dots: comparison.differences.clone(),
        interval: comparison
            .ratio
            .filter(|ratio| ratio.high.is_finite())
            .map(|ratio| [ratio.estimate.ln(), ratio.low.ln(), ratio.high.ln()]),
        tick: |place| change(place.exp()),
        is_ratio: true,
    });
    let compared = compared.collect::<Vec<_>>();
    if !compared.is_empty() {
        return compared;
    }
    let metric = view.witness();
    let alone = view.measured.commands.iter().enumerate().map(|(at, command)| Strip {
        name: command.contender.name.clone(),
        words: view.summary(at, &metric).map_or(String::new(), |summary| {
            format!(
                "median {}, {} to {}",
                amount(summary.median, metric.unit()),
                amount(summary.min, metric.unit()),
                amount(summary.max, metric.unit())
            )
        }),
        dots: command.runs.iter().filter_map(|run| metric.of(run)).collect(),
        interval: None,
        tick: |place| amount(place, whyslow_bench::run::MetricUnit::Nanoseconds),
        is_ratio: false,
    });
    alone.collect()
}

impl Strip {
    fn draw(&self, out: &mut String, top: f64, margin: f64) {
        let ends = self.dots.iter().chain(self.interval.iter().flatten()).copied();
        let (mut low, mut high) =
            ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), end| (low.min(end), high.max(end)));
        if !(low.is_finite() && high.is_finite()) {
            return;
        }
        if self.is_ratio {
            (low, high) = (low.min(-margin.ln_1p()), high.max(margin.ln_1p()));
        }
        let room = ((high - low) * 0.04).max(high.abs() * 1e-6).max(f64::MIN_POSITIVE);
        (low, high) = (low - room, high + room);
        let x = |place: f64| LEFT + (place - low) / (high - low) * (WIDTH - LEFT - RIGHT);
        label(out, "name", LEFT, top + 14.0, "start", &cut(&self.name, NAME / 2));
        label(out, "", WIDTH - RIGHT, top + 14.0, "end", &self.words);
        let (up, down) = (top + 24.0, top + STRIP);
        let box_of = |out: &mut String, class: &str, from: f64, to: f64| {
            let _ = writeln!(
                out,
                "<rect class=\"{class}\" x=\"{:.1}\" y=\"{up}\" width=\"{:.1}\" height=\"{}\"/>",
                x(from),
                (x(to) - x(from)).max(0.5),
                down - up
            );
        };
        let line = |out: &mut String, class: &str, at: f64| {
            let _ = writeln!(
                out,
                "<line class=\"{class}\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{up}\" y2=\"{down}\"/>",
                x(at)
            );
        };
        if self.is_ratio {
            box_of(out, "margin", -margin.ln_1p(), margin.ln_1p());
            line(out, "none", 0.0);
        }
        if let Some([estimate, from, to]) = self.interval {
            box_of(out, "band", from, to);
            line(out, "estimate", estimate);
        }
        let count = self.dots.len().max(1) as f64;
        for (at, dot) in self.dots.iter().enumerate() {
            let y = up + 6.0 + (at as f64 + 0.5) / count * (down - up - 12.0);
            let _ = writeln!(out, "<circle class=\"dot\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"3\"/>", x(*dot));
        }
        let _ = writeln!(
            out,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{down}\" y2=\"{down}\"/>",
            WIDTH - RIGHT
        );
        let mut places = vec![low + room, high - room];
        if self.is_ratio && places.iter().all(|place| (x(*place) - x(0.0)).abs() > 60.0) {
            places.push(0.0);
        }
        for place in places {
            let anchor = if x(place) < LEFT + 60.0 {
                "start"
            } else if x(place) > WIDTH - RIGHT - 60.0 {
                "end"
            } else {
                "middle"
            };
            label(out, "dim", x(place), down + 16.0, anchor, &(self.tick)(place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::with_view;
    use super::*;

    fn elements(svg: &str, name: &str) -> usize {
        let mut reader = quick_xml::Reader::from_str(svg);
        let mut count = 0;
        loop {
            match reader.read_event().unwrap() {
                quick_xml::events::Event::Empty(start) if start.name().as_ref() == name.as_bytes() => {
                    count += 1;
                }
                quick_xml::events::Event::Eof => return count,
                _ => {}
            }
        }
    }

    #[test]
    fn every_pair_is_a_dot() {
        with_view(&[1e8, 0.9e8, 1.1e8], 12, |view| {
            let svg = strip_plot(view);
            assert_eq!((elements(&svg, "circle"), elements(&svg, "rect")), (24, 4), "{svg}");
            assert!(svg.contains("./app-1 &lt;in|put>") || svg.contains("./app-1 &lt;in|put&gt;"), "{svg}");
        });
        with_view(&[1e8], 12, |view| assert_eq!(elements(&strip_plot(view), "circle"), 12));
        // One run, and no run.
        with_view(&[1e8], 1, |view| assert_eq!(elements(&strip_plot(view), "circle"), 1));
        with_view(&[1e8, 1e8], 0, |view| assert_eq!(elements(&strip_plot(view), "circle"), 0));
    }
}
