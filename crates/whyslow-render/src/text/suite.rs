//! Benchmarks of two builds as text.

use whyslow_bench::suite::{BASE, Benchmark, HEAD, Suite};

use super::layout::{BOLD, DIM, cut, number_of, push_line, push_rows, push_wrapped, styled};
use crate::bench::suite::{
    confidence_words, has_targets, median_words, outcome_words, spread_words, standing_words,
    suite_ratio_words,
};
use crate::sanitize::clean;

const NARROWEST: usize = 60;
/// Width of the columns after the name.
const COLUMNS: usize = 64;

/// Renders the benchmarks, target by target, and the confidence of the verdicts.
pub fn suite(suite: &Suite, width: usize) -> String {
    let width = width.max(NARROWEST);
    let mut out = String::new();
    let rounds = number_of(suite.rounds as u64, "round", "rounds");
    let benchmarks = number_of(suite.benchmarks.len() as u64, "benchmark", "benchmarks");
    let order = match &suite.base {
        Some(base) if !suite.of_another_day => {
            format!("; {} and {} interleaved in random order", clean(base), clean(&suite.head))
        }
        _ => String::new(),
    };
    let stopped = if suite.interrupted { "; stopped early" } else { "" };
    push_wrapped(&mut out, DIM, &format!("{rounds} of {benchmarks}{order}{stopped}"), width);
    let several = has_targets(suite);
    for of_target in suite.benchmarks.chunk_by(|one, other| one.target == other.target) {
        out.push('\n');
        if several {
            push_line(&mut out, &styled(BOLD, clean(&of_target[0].target)));
        }
        push_rows(&mut out, &rows(suite, of_target, width), 1);
    }
    if suite.base.is_some() {
        out.push('\n');
        push_wrapped(&mut out, BOLD, &outcome_words(suite), width);
        push_wrapped(&mut out, DIM, &confidence_words(suite), width);
    }
    out
}

fn rows(suite: &Suite, benchmarks: &[Benchmark], width: usize) -> Vec<Vec<String>> {
    let heads: &[&str] = match &suite.base {
        Some(_) => &["", "base", "now", "ratio", ""],
        None => &["", "median", "± 1 σ", "rounds", ""],
    };
    let mut rows = vec![heads.iter().map(|head| (*head).to_owned()).collect::<Vec<_>>()];
    for benchmark in benchmarks {
        let of = |side: usize| &benchmark.series.sides_ns[side];
        let name = cut(&clean(&benchmark.name), width.saturating_sub(COLUMNS).max(24));
        let standing = cut(&standing_words(benchmark), width / 2);
        rows.push(match &suite.base {
            Some(_) => {
                vec![
                    name,
                    median_words(of(BASE)),
                    median_words(of(HEAD)),
                    suite_ratio_words(benchmark),
                    standing,
                ]
            }
            None => {
                let standing = if benchmark.series.failed.is_some() { standing } else { String::new() };
                vec![
                    name,
                    median_words(of(HEAD)),
                    spread_words(of(HEAD)),
                    of(HEAD).len().to_string(),
                    standing,
                ]
            }
        });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::bench::tests::without_colours;
    use crate::bench::suite::tests::suite;

    #[test]
    fn a_table_with_verdicts() {
        let built = suite(&[[100.0, 90.0], [5.0, 5.0], [1000.0, 1100.0]]);
        insta::assert_snapshot!(without_colours(&super::suite(&built, 100)));
    }

    #[test]
    fn without_a_base_the_table_shows_the_spread() {
        let mut built = suite(&[[100.0, 90.0]]);
        (built.base, built.benchmarks[0].standing) = (None, whyslow_bench::suite::Standing::Alone);
        built.benchmarks[1].target = "other".to_owned();
        insta::assert_snapshot!(without_colours(&super::suite(&built, 100)));
    }
}
