//! Benchmarks of two builds as a Markdown table, and the phrases that the terminal text shares with it.

use whyslow_bench::suite::{BASE, Benchmark, HEAD, Standing, Suite};
use whyslow_stats::{mean, median, variance};
use whyslow_words::{duration, number_of};

use crate::sanitize::clean;
use crate::table::{Cell, Column, Table};
use crate::units::Percent;

/// Formats a time per iteration, which can be a fraction of a nanosecond: `0.339 ns`, `73.74 ns`, `1.2 ms`.
pub(crate) fn per_iteration(ns: f64) -> String {
    match ns {
        ns if ns < 9.9995 => format!("{ns:.3} ns"),
        ns if ns < 99.995 => format!("{ns:.2} ns"),
        ns if ns < 999.95 => format!("{ns:.1} ns"),
        ns => duration(ns.round() as u64),
    }
}

/// The median of one side's values.
pub(crate) fn median_words(values_ns: &[f64]) -> String {
    if values_ns.is_empty() { "-".to_owned() } else { per_iteration(median(values_ns)) }
}

/// The standard deviation as a share of the mean.
pub(crate) fn spread_words(values_ns: &[f64]) -> String {
    variance(values_ns)
        .map_or_else(|| "-".to_owned(), |variance| Percent(variance.sqrt() / mean(values_ns)).to_string())
}

/// Formats a ratio with its interval: `0.884 (0.871 to 0.897)`.
pub(crate) fn suite_ratio_words(benchmark: &Benchmark) -> String {
    match benchmark.standing.judged().and_then(|judged| judged.ratio) {
        None => "-".to_owned(),
        Some(ratio) if ratio.high.is_finite() => {
            format!("{:.3} ({:.3} to {:.3})", ratio.estimate, ratio.low, ratio.high)
        }
        Some(ratio) => format!("{:.3} (too few pairs)", ratio.estimate),
    }
}

/// The verdict, with the number of rounds that would decide it or the reason why there is no verdict.
pub(crate) fn standing_words(benchmark: &Benchmark) -> String {
    let word = benchmark.standing.word();
    match &benchmark.standing {
        Standing::Failed(why) => format!("{word}: {}", clean(why)),
        Standing::Compared(judged) => match judged.needed {
            Some(needed) => format!("{word} (about {} rounds)", needed.if_as_seen),
            None => word.to_owned(),
        },
        _ => word.to_owned(),
    }
}

/// Whether benchmarks need the names of their targets to be distinct.
pub(crate) fn has_targets(suite: &Suite) -> bool {
    suite.benchmarks.windows(2).any(|two| two[0].target != two[1].target)
}

/// A sentence that lists the changed benchmarks, or says that none changed.
pub(crate) fn outcome_words(suite: &Suite) -> String {
    let count =
        |word: &str| suite.benchmarks.iter().filter(|benchmark| benchmark.standing.word() == word).count();
    let words = ["faster", "slower", "equivalent", "undecided", "new", "vanished", "failed"];
    let counts = words.map(|word| (word, count(word))).into_iter().filter(|(_, count)| *count > 0);
    let counts = counts.map(|(word, count)| format!("{count} {word}")).collect::<Vec<_>>();
    format!(
        "Of {}: {}.",
        number_of(suite.benchmarks.len() as u64, "benchmark", "benchmarks"),
        counts.join(", ")
    )
}

/// A sentence about the confidence of all verdicts together.
pub(crate) fn confidence_words(suite: &Suite) -> String {
    let sure = format!("{:.3}", suite.confidence * 100.0);
    let sure = sure.trim_end_matches('0').trim_end_matches('.');
    if suite.of_another_day {
        return format!(
            "The base was measured on another day: its values are not pairs, each interval ({sure} %) is wider by the 15 % that days differ by, and no benchmark is equivalent."
        );
    }
    format!(
        "Each interval has {sure} % confidence; on average at most 5 % of the verdicts faster and slower are wrong (Benjamini and Hochberg over all benchmarks)."
    )
}

/// Renders a suite as a Markdown table for a pull request.
pub fn suite_markdown(suite: &Suite) -> String {
    let targets = has_targets(suite);
    let name = |benchmark: &Benchmark| {
        let of = if targets { format!("{}: ", benchmark.target) } else { String::new() };
        Cell::verbatim(format!("{of}{}", benchmark.name))
    };
    let of = |id: &str, title: &str| Column::number(id, title);
    let Some(base) = &suite.base else {
        let columns =
            vec![Column::words("benchmark", "benchmark"), of("median", "median"), of("spread", "spread")];
        let mut table = Table::new(columns);
        for benchmark in &suite.benchmarks {
            let values = &benchmark.series.sides_ns[HEAD];
            let words = [median_words(values), spread_words(values)].map(Cell::text);
            table.push([name(benchmark)].into_iter().chain(words).collect());
        }
        return table.markdown();
    };
    let mut table = Table::new(vec![
        Column::words("benchmark", "benchmark"),
        of("base", base).title_is_name(),
        of("head", &suite.head).title_is_name(),
        of("ratio", "ratio"),
        Column::words("verdict", "verdict"),
    ]);
    for benchmark in &suite.benchmarks {
        let [before, after] = [BASE, HEAD].map(|side| median_words(&benchmark.series.sides_ns[side]));
        let words = [before, after, suite_ratio_words(benchmark), standing_words(benchmark)].map(Cell::text);
        table.push([name(benchmark)].into_iter().chain(words).collect());
    }
    format!("{}\n{} {}\n", table.markdown(), outcome_words(suite), confidence_words(suite))
}

#[cfg(test)]
pub(crate) mod tests {
    use whyslow_bench::suite::{Series, judge};
    use whyslow_stats::random::Random;

    use super::*;

    /// Benchmarks with these times and 1 % noise; one is new, one was removed, one failed.
    pub(crate) fn suite(times_ns: &[[f64; 2]]) -> Suite {
        let mut random = Random::new(3);
        let mut noisy = |ns: f64| (0..10).map(|_| ns * (0.01 * random.normal()).exp()).collect::<Vec<_>>();
        let all = times_ns
            .iter()
            .map(|[before, after]| Series { sides_ns: [noisy(*before), noisy(*after)], failed: None })
            .collect::<Vec<_>>();
        let (judged, level) = judge(&all.iter().collect::<Vec<_>>(), 0.01);
        let benchmark = |name: &str, series: Series, standing| Benchmark {
            target: "speed".to_owned(),
            name: name.to_owned(),
            harness: "criterion",
            series,
            standing,
        };
        let mut benchmarks = all
            .into_iter()
            .zip(judged)
            .enumerate()
            .map(|(at, (series, judged))| benchmark(&format!("sum|{at}"), series, Standing::Compared(judged)))
            .collect::<Vec<_>>();
        benchmarks.push(benchmark("added", Series::default(), Standing::New));
        benchmarks.push(benchmark("removed", Series::default(), Standing::Vanished));
        benchmarks.push(benchmark("broken", Series::default(), Standing::Failed("it panicked".to_owned())));
        Suite {
            began_unix_s: 1,
            host: whyslow_profile::Host::default(),
            surroundings: whyslow_bench::document::Surroundings::default(),
            base: Some("main".to_owned()),
            head: "working tree".to_owned(),
            of_another_day: false,
            rounds: 10,
            interrupted: false,
            margin: 0.01,
            confidence: 1.0 - level,
            benchmarks,
        }
    }

    #[test]
    fn fractions_of_nanoseconds_are_shown() {
        assert_eq!(
            [0.339, 9.9996, 73.744, 932.94].map(per_iteration),
            ["0.339 ns", "10.00 ns", "73.74 ns", "932.9 ns"]
        );
        assert_eq!(per_iteration(2417.4), "2.42 µs");
    }

    #[test]
    fn a_table_for_a_pull_request() {
        insta::assert_snapshot!(suite_markdown(&suite(&[[100.0, 90.0], [5.0, 5.0]])));
        let mut alone = suite(&[[1.0, 2.0]]);
        alone.base = None;
        assert!(suite_markdown(&alone).contains("| benchmark | median | spread |"));
    }
}
