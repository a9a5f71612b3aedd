//! Benchmarks of two builds as text.

use whyslow_bench::suite::{BASE, Benchmark, HEAD, Suite};

use super::cells::NAME;
use super::layout::{BOLD, DIM, number_of, push_line, push_wrapped, styled};
use crate::bench::suite::{
    confidence_words, has_targets, median_words, outcome_words, spread_words, standing_words,
    suite_ratio_words,
};
use crate::sanitize::clean;
use crate::table::{Cell, Column, Table};

const NARROWEST: usize = 60;

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
        out.push_str(&table(suite, of_target, width).text(width));
    }
    if suite.base.is_some() {
        out.push('\n');
        push_wrapped(&mut out, BOLD, &outcome_words(suite), width);
        push_wrapped(&mut out, DIM, &confidence_words(suite), width);
    }
    out
}

fn table(suite: &Suite, benchmarks: &[Benchmark], width: usize) -> Table {
    let titles = match &suite.base {
        Some(_) => ["base", "now", "ratio", ""],
        None => ["median", "± 1 σ", "rounds", ""],
    };
    let mut columns = vec![Column::rest("benchmark", "", NAME).gap(0)];
    columns.extend(titles.map(|title| Column::number(title, title).most(width / 2)));
    let mut table = Table::new(columns).heading(DIM);
    for benchmark in benchmarks {
        let of = |side: usize| &benchmark.series.sides_ns[side];
        let standing = standing_words(benchmark);
        let numbers = match &suite.base {
            Some(_) => {
                [median_words(of(BASE)), median_words(of(HEAD)), suite_ratio_words(benchmark), standing]
            }
            None => [
                median_words(of(HEAD)),
                spread_words(of(HEAD)),
                of(HEAD).len().to_string(),
                if benchmark.series.failed.is_some() { standing } else { String::new() },
            ],
        };
        table.push([Cell::verbatim(&benchmark.name)].into_iter().chain(numbers.map(Cell::text)).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use crate::bench::suite::tests::suite;
    use crate::text::plain;

    #[test]
    fn a_table_with_verdicts() {
        let built = suite(&[[100.0, 90.0], [5.0, 5.0], [1000.0, 1100.0]]);
        insta::assert_snapshot!(plain(&super::suite(&built, 100)));
    }

    #[test]
    fn without_a_base_the_table_shows_the_spread() {
        let mut built = suite(&[[100.0, 90.0]]);
        (built.base, built.benchmarks[0].standing) = (None, whyslow_bench::suite::Standing::Alone);
        built.benchmarks[1].target = "other".to_owned();
        insta::assert_snapshot!(plain(&super::suite(&built, 100)));
    }
}
