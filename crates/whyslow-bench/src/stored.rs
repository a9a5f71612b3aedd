//! Reads result files with their verdicts. Files of `--save` hold only the runs, which are judged when read.

use std::collections::HashMap;

use serde::Deserialize;
use whyslow_stats::pairs::{Interval, log_ratios};
use whyslow_stats::verdict::{Needed, Verdict};
use whyslow_stats::witness::{Reason, Witness};

use crate::document::{Measured, ReadError, read};
use crate::judge::{Answer, Comparison, Options, judge, summary};
use crate::rounds::Series;
use crate::run::{Metric, known, known_pairs};

/// The margin where the file has none.
const USUAL_MARGIN: f64 = 0.01;

/// Results with their verdicts.
#[derive(Debug, Clone)]
pub struct Stored {
    /// The runs.
    pub measured: Measured,
    /// The verdicts; its notes are in `remarks`.
    pub answer: Answer,
    /// The command that the others are compared with.
    pub reference: usize,
    /// A difference below this share does not matter.
    pub margin: f64,
    /// The remarks.
    pub remarks: Vec<StoredRemark>,
}

/// A remark in a file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct StoredRemark {
    /// How serious it is.
    pub severity: String,
    /// The message.
    pub message: String,
    /// What to do.
    pub fix: Option<String>,
}

/// The part of a file after the runs.
#[derive(Deserialize)]
struct Said {
    witness: Option<SaidWitness>,
    margin: Option<f64>,
    comparisons: Option<Vec<SaidComparison>>,
    fastest: Option<String>,
    #[serde(default)]
    detectable: Vec<SaidDetectable>,
    #[serde(default)]
    remarks: Vec<StoredRemark>,
}

#[derive(Deserialize)]
struct SaidDetectable {
    pairs: usize,
    share: f64,
}

#[derive(Deserialize)]
struct SaidWitness {
    metric: String,
}

#[derive(Deserialize)]
struct SaidComparison {
    baseline: String,
    candidate: String,
    metric: String,
    ratio: Option<f64>,
    ratio_low: Option<f64>,
    ratio_high: Option<f64>,
    confidence: f64,
    pairs: usize,
    verdict: String,
    decides: bool,
    pairs_needed: Option<[usize; 2]>,
}

/// Reads a file.
pub fn read_stored(text: &str) -> Result<Stored, ReadError> {
    let measured = read(text)?;
    let said: Said = serde_json::from_str(text)?;
    let margin = said.margin.filter(|margin| *margin > 0.0 && *margin < 1.0).unwrap_or(USUAL_MARGIN);
    let Some(comparisons) = said.comparisons else { return Ok(judged_now(measured, margin)) };
    let command = |name: &str| measured.commands.iter().position(|command| command.contender.name == name);
    let mut turns = HashMap::new();
    let comparisons = comparisons.into_iter().filter_map(|one| {
        let baseline = command(&one.baseline)?;
        // Commands may share a name: the second row of a name and a metric belongs to the second such
        // command.
        let turn = turns.entry((one.candidate.clone(), one.metric.clone())).or_insert(0);
        let mut named = (0..measured.commands.len())
            .filter(|at| *at != baseline && measured.commands[*at].contender.name == one.candidate);
        let candidate = named.nth(*turn);
        *turn += 1;
        Some(one.into_comparison(&measured, baseline, candidate?))
    });
    let comparisons = comparisons.collect::<Vec<_>>();
    let witness = said.witness.map(|witness| match Metric::of_label(&witness.metric) {
        Metric::Cpu => (Witness::Cpu, Reason::Asked),
        _ => (Witness::Wall, Reason::Asked),
    });
    let answer = Answer {
        witness,
        summaries: (0..measured.commands.len()).map(|command| summaries(&measured, command)).collect(),
        fastest: said.fastest.as_deref().and_then(command),
        comparisons,
        detectable: said.detectable.iter().map(|found| (found.pairs, found.share)).collect(),
        notes: Vec::new(),
    };
    let reference = answer.comparisons.first().map_or(0, |comparison| comparison.baseline);
    Ok(Stored { answer, reference, margin, remarks: said.remarks, measured })
}

/// Judges runs without verdicts. Runs with the same index belong to the same round.
fn judged_now(measured: Measured, margin: f64) -> Stored {
    let rounds = measured.commands.iter().map(|command| command.runs.len()).min().unwrap_or(0);
    let round = |at: usize| measured.commands.iter().map(|command| command.runs[at].clone()).collect();
    let series = Series::of_rounds((0..rounds).map(round).collect(), None);
    let contenders = measured.commands.iter().map(|command| command.contender.clone()).collect::<Vec<_>>();
    let exact = measured.commands.iter().map(|command| command.exact.clone()).collect::<Vec<_>>();
    let options = Options { contenders: &contenders, reference: 0, margin, exact: &exact, itself: false };
    let answer = match contenders.is_empty() {
        false => judge(&series, options),
        true => Answer {
            witness: None,
            summaries: Vec::new(),
            comparisons: Vec::new(),
            fastest: None,
            detectable: Vec::new(),
            notes: Vec::new(),
        },
    };
    let remarks = answer.notes.iter().map(|note| {
        let remark = whyslow_words::Fact::remark(note);
        StoredRemark { severity: remark.severity.label().to_owned(), message: remark.text, fix: remark.fix }
    });
    Stored { remarks: remarks.collect(), answer, reference: 0, margin, measured }
}

fn summaries(measured: &Measured, command: usize) -> Vec<crate::judge::Summary> {
    let command = &measured.commands[command];
    let events = command.runs.first().into_iter().flat_map(|run| run.counts.keys());
    let metrics = Metric::USUAL.into_iter().chain(events.map(|name| Metric::Event(name.clone())));
    let of_runs = metrics.filter_map(|metric| {
        let values = known(command.runs.iter(), &metric)?;
        summary(metric, &values)
    });
    let exact =
        command.exact.iter().filter_map(|(name, value)| summary(Metric::Event(name.clone()), &[*value]));
    of_runs.chain(exact).collect()
}

impl SaidComparison {
    fn into_comparison(self, measured: &Measured, baseline: usize, candidate: usize) -> Comparison {
        let metric = Metric::of_label(&self.metric);
        let [first, second] = [baseline, candidate].map(|command| &measured.commands[command].runs);
        // Runs of another day are not paired.
        let differences = (self.pairs > 0 && first.len() == second.len())
            .then(|| known_pairs(first.iter().zip(second), &metric))
            .flatten();
        let differences =
            differences.and_then(|(first, second)| log_ratios(&first, &second)).unwrap_or_default();
        let verdict = match self.verdict.as_str() {
            "faster" | "less" => Verdict::Less,
            "slower" | "more" => Verdict::More,
            "equivalent" => Verdict::Equivalent,
            _ => Verdict::Undecided,
        };
        let interval = |estimate| Interval {
            estimate,
            low: self.ratio_low.unwrap_or(0.0),
            high: self.ratio_high.unwrap_or(f64::INFINITY),
        };
        Comparison {
            baseline,
            candidate,
            metric,
            ratio: self.ratio.map(interval),
            confidence: self.confidence,
            pairs: self.pairs,
            verdict,
            decides: self.decides,
            needed: self.pairs_needed.map(|[if_as_seen, for_margin]| Needed { if_as_seen, for_margin }),
            differences,
        }
    }
}
