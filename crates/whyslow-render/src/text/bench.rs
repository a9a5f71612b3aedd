//! Results of `whyslow bench` and `whyslow gate` as text.

use whyslow_bench::gate::Outcome;
use whyslow_bench::run::MetricUnit;
use whyslow_bench::{Comparison, Metric};
use whyslow_stats::verdict::Verdict;

use super::cells::NAME;
use super::layout::{BOLD, DIM, cut, number_of, push_line, push_wrapped, styled, wrap};
use super::remark::{remark_lines, severity_style};
use crate::bench::{BenchView, GateView, amount, change, gate, ratio_words};
use crate::sanitize::clean;
use crate::table::{Cell, Column, Table};
use crate::units::Percent;

const NARROWEST: usize = 60;

/// Renders the commands, the verdicts, the other metrics and the remarks.
pub fn bench(view: &BenchView<'_>, width: usize) -> String {
    let width = width.max(NARROWEST);
    let mut out = String::new();
    head(&mut out, view, width);
    commands(&mut out, view, width);
    let mut others = view.deciding().peekable();
    if others.peek().is_some() {
        out.push('\n');
    }
    for comparison in others {
        verdict(&mut out, view, comparison, width);
    }
    if let Some(words) = view.fastest_words(width) {
        push_wrapped(&mut out, BOLD, &words, width);
    }
    details(&mut out, view, width);
    if let Some(words) = view.detectable_words() {
        out.push('\n');
        push_wrapped(&mut out, BOLD, &words, width);
    }
    out.push('\n');
    push_wrapped(&mut out, DIM, &view.surroundings(), width);
    for remark in view.remarks {
        out.push_str(&remark_lines(remark, width));
    }
    out
}

/// Renders the result of a gate.
pub fn gate(view: &GateView<'_>, width: usize) -> String {
    let severity = match view.outcome {
        Outcome::Pass => whyslow_words::Severity::Fine,
        Outcome::Regression => whyslow_words::Severity::Serious,
        Outcome::Undecided => whyslow_words::Severity::Warning,
    };
    let mut out = String::new();
    out.push_str(&gate::table(view).heading(DIM).text(width.max(NARROWEST)));
    out.push('\n');
    push_wrapped(&mut out, severity_style(severity), &gate::headline(view), width.max(NARROWEST));
    for change in view.rule_changes {
        push_wrapped(
            &mut out,
            severity_style(whyslow_words::Severity::Warning),
            &gate::rule_words(change),
            width.max(NARROWEST),
        );
    }
    for file in view.artefacts {
        push_line(&mut out, &styled(DIM, format!("see what changed: {}", clean(file))));
    }
    out
}

fn head(out: &mut String, view: &BenchView<'_>, width: usize) {
    let Some(first) = view.measured.commands.first() else { return };
    let rounds = number_of(first.runs.len() as u64, "round", "rounds");
    let what = match view.measured.commands.len() {
        1 => number_of(first.runs.len() as u64, "run", "runs"),
        count => format!("{rounds} of {count} commands, in random order in each round"),
    };
    let before = match first.warmup.len() {
        0 => String::new(),
        count => {
            format!("; {} not counted", number_of(count as u64, "warm-up run is", "warm-up runs are"))
        }
    };
    push_wrapped(out, DIM, &format!("{what}{before}"), width);
    out.push('\n');
}

fn name(view: &BenchView<'_>, command: usize, width: usize) -> String {
    cut(&clean(view.name(command)), (width / 2).max(20))
}

fn commands(out: &mut String, view: &BenchView<'_>, width: usize) {
    let mut columns = vec![Column::rest("command", "", NAME).gap(0)];
    let titles = ["wall, median", "± 1 σ", "min", "max", "CPU", "memory"];
    columns.extend(titles.map(|title| Column::number(title, title)));
    let mut table = Table::new(columns).heading(DIM);
    for command in view.order() {
        let of = |metric: Metric| view.summary(command, &metric);
        let time = |value: f64| Cell::text(view.amount(value, MetricUnit::Nanoseconds));
        let mut cells = vec![Cell::verbatim(view.name(command))];
        match of(Metric::Wall) {
            Some(wall) => cells.extend([
                time(wall.median),
                Cell::share(wall.deviation / wall.mean),
                time(wall.min),
                time(wall.max),
            ]),
            None => cells.extend(["-"; 4].map(Cell::text)),
        }
        cells.push(of(Metric::Cpu).map_or_else(|| Cell::text("-"), |cpu| time(cpu.median)));
        let memory = of(Metric::MaxResident).map(|memory| amount(memory.median, MetricUnit::Bytes));
        cells.push(Cell::text(memory.unwrap_or_else(|| "small".to_owned())));
        table.push(cells);
    }
    out.push_str(&table.text(width));
}

/// Prints the verdict of a comparison.
fn verdict(out: &mut String, view: &BenchView<'_>, comparison: &Comparison, width: usize) {
    let style = match comparison.verdict {
        _ if comparison.ratio.is_none() => BOLD,
        Verdict::Less => severity_style(whyslow_words::Severity::Fine),
        Verdict::More => severity_style(whyslow_words::Severity::Serious),
        Verdict::Equivalent => BOLD,
        Verdict::Undecided => severity_style(whyslow_words::Severity::Warning),
    };
    let [sentence, basis] = view.verdict_words(comparison, width);
    push_wrapped(out, style, &sentence, width);
    for line in wrap(&basis, width.saturating_sub(2)) {
        push_line(out, &styled(DIM, format!("  {line}")));
    }
}

/// Prints the other metrics that changed or are undecided.
fn details(out: &mut String, view: &BenchView<'_>, width: usize) {
    for comparison in view.deciding() {
        let mut columns = vec![Column::words("metric", "").gap(0)];
        columns.extend(["baseline", "this", "ratio", ""].map(|title| Column::number(title, title)));
        let mut table = Table::new(columns).heading(DIM);
        let is_of = |one: &&Comparison| one.candidate == comparison.candidate;
        let others = view.answer.comparisons.iter().filter(is_of);
        for one in others.filter(|one| !one.decides && one.ratio.is_some()) {
            let of = |command: usize| {
                let summary = view.summary(command, &one.metric);
                summary
                    .map_or_else(|| "-".to_owned(), |summary| view.amount(summary.median, one.metric.unit()))
            };
            table.push(
                [
                    one.metric.label().to_owned(),
                    of(one.baseline),
                    of(one.candidate),
                    ratio_words(one),
                    one.word().to_owned(),
                ]
                .map(Cell::text)
                .to_vec(),
            );
        }
        if table.is_empty() {
            continue;
        }
        out.push('\n');
        if view.measured.commands.len() > 2 {
            push_line(out, &styled(BOLD, name(view, comparison.candidate, width)));
        }
        out.push_str(&table.text(width));
    }
}

impl BenchView<'_> {
    /// A sentence that names the command that beats all others; `None` unless one clearly does.
    pub(crate) fn fastest_words(&self, width: usize) -> Option<String> {
        let fastest = self.answer.fastest.filter(|_| self.measured.commands.len() > 2)?;
        Some(format!("`{}` is the fastest: it beats every other command.", name(self, fastest, width)))
    }

    /// A sentence about the smallest differences that this machine can detect; `None` unless requested.
    pub(crate) fn detectable_words(&self) -> Option<String> {
        let found = self.answer.detectable.iter();
        let found = found.map(|(pairs, share)| format!("{pairs} pairs detect {}", Percent(*share)));
        let found = found.collect::<Vec<_>>();
        let words =
            || format!("Differences that this machine detects in 4 of 5 cases: {}.", found.join(", "));
        (!found.is_empty()).then(words)
    }

    /// The verdict, and its basis; the basis is empty if there is nothing to compare.
    pub(crate) fn verdict_words(&self, comparison: &Comparison, width: usize) -> [String; 2] {
        let (candidate, baseline) =
            (name(self, comparison.candidate, width), name(self, comparison.baseline, width));
        let what = match comparison.metric {
            Metric::Cpu => "CPU time",
            _ => "wall time",
        };
        let Some(ratio) = comparison.ratio else {
            let sentence =
                format!("`{candidate}` cannot be compared with `{baseline}`: no {what} was measured.");
            return [sentence, String::new()];
        };
        let interval = if ratio.high.is_finite() {
            format!("{} to {}", change(ratio.low), change(ratio.high))
        } else {
            "no interval".to_owned()
        };
        let margin = Percent(self.margin);
        let sentence = match comparison.verdict {
            Verdict::Less => format!(
                "`{candidate}` is faster than `{baseline}`: {} {what} ({interval}){}",
                change(ratio.estimate),
                factor_words(1.0 / ratio.estimate, "fast")
            ),
            Verdict::More => format!(
                "`{candidate}` is slower than `{baseline}`: {} {what} ({interval}){}",
                change(ratio.estimate),
                factor_words(ratio.estimate, "long")
            ),
            Verdict::Equivalent => format!(
                "`{candidate}` and `{baseline}` are equivalent: their {what}s differ by less than {margin} ({interval})"
            ),
            Verdict::Undecided => format!(
                "undecided: `{candidate}` has {} {what} compared with `{baseline}` ({interval})",
                change(ratio.estimate)
            ),
        };
        let pairs = number_of(comparison.pairs as u64, "pair", "pairs");
        let confidence = format!("{pairs}, {:.3} % confidence", comparison.confidence * 100.0)
            .replace(".000", "")
            .replace("00 %", " %");
        let needed = comparison.needed.map(|needed| {
            let (few, many) = (needed.if_as_seen.min(needed.for_margin), needed.for_margin);
            let range = match many / few.max(1) {
                _ if few == many => format!("about {few} pairs in all would decide it"),
                0..=20 => format!("about {few} to {many} pairs in all would decide it"),
                _ => format!("if the estimate holds, about {few} pairs in all would decide it"),
            };
            format!("; {range} (--runs {few}, or --until-decided)")
        });
        [sentence, format!("{confidence}{}", needed.unwrap_or_default())]
    }

    /// A line about how busy the machine was.
    pub(crate) fn surroundings(&self) -> String {
        let around = &self.measured.surroundings;
        let mut parts = Vec::new();
        if let Some(pressure) = around.cpu_pressure {
            parts.push(format!("processes were queued for a CPU {} of the time", Percent(pressure)));
        }
        if let Some(steal) = around.steal.filter(|steal| *steal > 0.0005) {
            parts.push(format!("the hypervisor took {} of the CPU time", Percent(steal)));
        }
        if let Some(governor) = &around.governor {
            parts.push(format!("governor {}", clean(governor)));
        }
        if let Some([low, high]) = around.mhz.filter(|[low, high]| high - low > 100.0) {
            parts.push(format!("CPU clock {low:.0} to {high:.0} MHz"));
        }
        if parts.is_empty() {
            "machine: no data on its load".to_owned()
        } else {
            format!("machine: {}", parts.join(", "))
        }
    }
}

/// `, 23 times as fast`, where a percentage says little.
fn factor_words(factor: f64, how: &str) -> String {
    if factor < 2.0 { String::new() } else { format!(", {} times as {how}", crate::units::times(factor)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::testing::with_view;
    use crate::text::plain;

    fn shown(times_ns: &[f64], rounds: usize) -> String {
        with_view(times_ns, rounds, |view| plain(&bench(view, 100)))
    }

    #[test]
    fn the_faster_of_two_commands() {
        insta::assert_snapshot!(shown(&[1e8, 0.9e8], 12));
    }

    #[test]
    fn undecided_comparisons_name_the_pairs_they_need() {
        let text = shown(&[1e8, 0.997e8], 8);
        assert!(
            text.contains("undecided: `./app-1 <in|put>` has")
                && text.contains("pairs in all would decide it"),
            "{text}"
        );
        let equal = shown(&[1e8, 1e8], 60);
        assert!(equal.contains("are equivalent: their wall times differ by less than 1.0 %"), "{equal}");
    }

    #[test]
    fn large_differences_are_also_factors() {
        let shown = |times_ns: &[f64]| shown(times_ns, 12).replace('\n', " ");
        let text = shown(&[1e8, 0.043e8]);
        assert!(text.contains("-95.7 % ") && text.contains(", 23 times as fast"), "{text}");
        assert!(shown(&[1e8, 5e8]).contains(", 5.0 times as long"));
        assert!(!shown(&[1e8, 0.9e8]).contains("times as"));
    }

    #[test]
    fn three_commands_have_a_fastest_and_one_has_no_verdict() {
        assert!(shown(&[1e8, 0.9e8, 0.8e8], 12).contains("`./app-2 <in|put>` is the fastest"));
        let one = shown(&[1e8], 12);
        assert!(one.starts_with("12 runs\n") && !one.contains("faster"), "{one}");
    }
}
