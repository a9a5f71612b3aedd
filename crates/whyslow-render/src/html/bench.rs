//! The viewer's payload for results of `whyslow bench`. `viewer/PAYLOAD.md` describes the header.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde::Serialize;
use whyslow_bench::run::MetricUnit;
use whyslow_bench::stored::{Stored, StoredRemark};
use whyslow_bench::{Comparison, Metric, Summary};
use whyslow_profile::Unit;

use super::container::{Columns, Description};
use super::page::{push_paragraph, push_title};
use super::payload::SCHEMA;
use crate::bench::{BenchView, ratio_words};
use crate::flame::text::{push_xml, visible};

/// Width of the sentences in columns; names are cut to half of it.
const WIDTH: usize = 200;

/// Results of `whyslow bench`.
#[derive(Debug, Clone, Copy)]
pub struct BenchPage<'a> {
    /// The results.
    pub stored: &'a Stored,
    /// The name of their file.
    pub file: &'a str,
}

#[derive(Serialize)]
struct Header<'a> {
    schema: &'static str,
    bench: Head<'a>,
    columns: Description,
}

#[derive(Serialize)]
struct Head<'a> {
    file: &'a str,
    answers: Vec<AnswerHead>,
    /// Further sentences about all commands.
    more: Vec<String>,
    commands: Vec<CommandHead<'a>>,
    margin: f64,
    began_unix_s: u64,
    cpu: &'a str,
    machine: String,
    remarks: Vec<RemarkHead<'a>>,
    metrics: Vec<MetricHead<'a>>,
}

/// A verdict in a sentence.
#[derive(Serialize)]
struct AnswerHead {
    verdict: &'static str,
    sentence: String,
    basis: String,
}

#[derive(Serialize)]
struct CommandHead<'a> {
    name: &'a str,
    command: &'a str,
}

#[derive(Serialize)]
struct RemarkHead<'a> {
    severity: &'a str,
    message: &'a str,
    fix: Option<&'a str>,
}

/// One metric: each command's runs and their summary, then the comparisons.
#[derive(Serialize)]
struct MetricHead<'a> {
    name: &'a str,
    unit: u8,
    decides: bool,
    runs: Vec<Vec<Option<f64>>>,
    summaries: Vec<Option<[f64; 5]>>,
    comparisons: Vec<ComparisonHead>,
}

#[derive(Serialize)]
struct ComparisonHead {
    baseline: usize,
    candidate: usize,
    ratio: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    words: String,
    pairs: usize,
    verdict: &'static str,
    /// The ratio of candidate to baseline in each pair.
    dots: Vec<f64>,
}

impl ComparisonHead {
    fn of(comparison: &Comparison) -> Self {
        let ratio = comparison.ratio;
        let known = ratio.filter(|ratio| ratio.high.is_finite());
        Self {
            baseline: comparison.baseline,
            candidate: comparison.candidate,
            ratio: ratio.map(|ratio| ratio.estimate),
            low: known.map(|ratio| ratio.low),
            high: known.map(|ratio| ratio.high),
            words: ratio_words(comparison),
            pairs: comparison.pairs,
            verdict: comparison.word(),
            dots: comparison.differences.iter().map(|difference| difference.exp()).collect(),
        }
    }
}

impl<'a> BenchPage<'a> {
    fn view(&self) -> BenchView<'a> {
        let Stored { measured, answer, reference, margin, .. } = self.stored;
        BenchView {
            measured,
            answer,
            reference: *reference,
            margin: *margin,
            remarks: &[],
            shown: crate::bench::Shown::default(),
        }
    }

    /// The names of the commands.
    pub(super) fn title(&self) -> String {
        let view = self.view();
        match self.stored.measured.commands.len() {
            0 => self.file.to_owned(),
            1 => view.name(0).to_owned(),
            2 => format!("{} or {}", view.name(0), view.name(1)),
            more => format!("{} and {} others", view.name(self.stored.reference), more - 1),
        }
    }

    fn answers(&self) -> Vec<AnswerHead> {
        let view = self.view();
        let answer = |comparison: &Comparison| {
            let [sentence, basis] = view.verdict_words(comparison, WIDTH);
            let mut letters = sentence.chars();
            let sentence = letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect();
            AnswerHead { verdict: comparison.word(), sentence, basis }
        };
        view.deciding().map(answer).collect()
    }

    fn more(&self) -> Vec<String> {
        let view = self.view();
        [view.fastest_words(WIDTH), view.detectable_words()].into_iter().flatten().collect()
    }

    /// The verdicts and the comparisons, for readers without scripts.
    pub(super) fn without_scripts(&self) -> String {
        let view = self.view();
        let mut html = String::new();
        push_title(&mut html, &self.title());
        for AnswerHead { sentence, basis, .. } in self.answers() {
            push_paragraph(&mut html, &format!("{sentence}. {basis}"));
        }
        for sentence in self.more() {
            push_paragraph(&mut html, &sentence);
        }
        push_paragraph(&mut html, "The viewer needs JavaScript, which is off here. The comparisons:");
        html.push_str("<table>\n<tr><th>command</th><th>metric</th><th>ratio</th><th></th></tr>\n");
        for comparison in &self.stored.answer.comparisons {
            html.push_str("<tr>");
            let words = ratio_words(comparison);
            for cell in
                [view.name(comparison.candidate), comparison.metric.label(), &words, comparison.word()]
            {
                html.push_str("<td>");
                push_xml(&mut html, &visible(cell));
                html.push_str("</td>");
            }
            let _ = writeln!(html, "</tr>");
        }
        html.push_str("</table>\n");
        html
    }

    /// Writes the container, which consists of the header only.
    pub(super) fn write_container(&self, out: &mut dyn Write) -> io::Result<()> {
        let Stored { measured, margin, remarks, .. } = self.stored;
        let head = |columns| Header {
            schema: SCHEMA,
            bench: Head {
                file: self.file,
                answers: self.answers(),
                more: self.more(),
                commands: measured
                    .commands
                    .iter()
                    .map(|command| CommandHead {
                        name: &command.contender.name,
                        command: &command.contender.command,
                    })
                    .collect(),
                margin: *margin,
                began_unix_s: measured.began_unix_s,
                cpu: &measured.host.cpu,
                machine: self.view().surroundings(),
                remarks: remarks
                    .iter()
                    .map(|StoredRemark { severity, message, fix }| RemarkHead {
                        severity,
                        message,
                        fix: fix.as_deref(),
                    })
                    .collect(),
                metrics: self.metrics(),
            },
            columns,
        };
        Columns::default().write(head, out)
    }

    /// The metrics of the commands, the deciding one first.
    fn metrics(&self) -> Vec<MetricHead<'a>> {
        let Stored { measured, answer, .. } = self.stored;
        let view = self.view();
        let mut known: Vec<&Metric> = Vec::new();
        for summary in answer.summaries.iter().flatten() {
            if !known.contains(&&summary.metric) {
                known.push(&summary.metric);
            }
        }
        let decides = |metric: &Metric| *metric == view.witness();
        known.sort_by_key(|metric| !decides(metric));
        let of = |metric: &'a Metric| MetricHead {
            name: metric.label(),
            unit: match metric.unit() {
                MetricUnit::Nanoseconds => Unit::Nanoseconds,
                MetricUnit::Bytes => Unit::Bytes,
                MetricUnit::Count => Unit::Count,
            }
            .code(),
            decides: decides(metric),
            runs: measured
                .commands
                .iter()
                .map(|command| command.runs.iter().map(|run| metric.of(run)).collect())
                .collect(),
            summaries: (0..measured.commands.len())
                .map(|command| view.summary(command, metric).map(numbers))
                .collect(),
            comparisons: answer
                .comparisons
                .iter()
                .filter(|comparison| comparison.metric == *metric)
                .map(ComparisonHead::of)
                .collect(),
        };
        known.into_iter().map(of).collect()
    }
}

/// Median, mean, standard deviation, min, max.
fn numbers(summary: &Summary) -> [f64; 5] {
    [summary.median, summary.mean, summary.deviation, summary.min, summary.max]
}
