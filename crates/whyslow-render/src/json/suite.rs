//! Benchmarks of two builds as JSON; `docs/bench-json.md` describes it.

use serde::Serialize;
use whyslow_bench::document::Surroundings;
use whyslow_bench::suite::{BASE, Benchmark, HEAD, Judged, Standing, Suite};
use whyslow_profile::Host;
use whyslow_stats::median;
use whyslow_stats::verdict::Needed;

/// The name and version of the schema.
pub const SUITE_SCHEMA: &str = "whyslow-benchmarks/1";

#[derive(Serialize)]
struct SuiteJson<'a> {
    schema: &'static str,
    began_unix_s: u64,
    host: &'a Host,
    surroundings: &'a Surroundings,
    base: Option<&'a str>,
    head: &'a str,
    of_another_day: bool,
    rounds: usize,
    interrupted: bool,
    margin: f64,
    confidence: f64,
    benchmarks: Vec<BenchmarkJson<'a>>,
}

#[derive(Serialize)]
struct BenchmarkJson<'a> {
    target: &'a str,
    name: &'a str,
    harness: &'static str,
    base_median_ns: Option<f64>,
    head_median_ns: Option<f64>,
    ratio: Option<f64>,
    ratio_low: Option<f64>,
    ratio_high: Option<f64>,
    pairs: usize,
    verdict: &'static str,
    pairs_needed: Option<[usize; 2]>,
    failure: Option<&'a str>,
    base_ns: &'a [f64],
    head_ns: &'a [f64],
}

/// Everything: every value, the ratios, the verdicts.
pub fn suite(suite: &Suite) -> impl Serialize {
    SuiteJson {
        schema: SUITE_SCHEMA,
        began_unix_s: suite.began_unix_s,
        host: &suite.host,
        surroundings: &suite.surroundings,
        base: suite.base.as_deref(),
        head: &suite.head,
        of_another_day: suite.of_another_day,
        rounds: suite.rounds,
        interrupted: suite.interrupted,
        margin: suite.margin,
        confidence: suite.confidence,
        benchmarks: suite.benchmarks.iter().map(benchmark).collect(),
    }
}

fn benchmark(benchmark: &Benchmark) -> BenchmarkJson<'_> {
    let judged = benchmark.standing.judged();
    let ratio = judged.and_then(|judged| judged.ratio);
    let interval = ratio.filter(|ratio| ratio.high.is_finite());
    let sides = &benchmark.series.sides_ns;
    let median_of = |side: usize| (!sides[side].is_empty()).then(|| median(&sides[side]));
    BenchmarkJson {
        target: &benchmark.target,
        name: &benchmark.name,
        harness: benchmark.harness,
        base_median_ns: median_of(BASE),
        head_median_ns: median_of(HEAD),
        ratio: ratio.map(|ratio| ratio.estimate),
        ratio_low: interval.map(|ratio| ratio.low),
        ratio_high: interval.map(|ratio| ratio.high),
        pairs: judged.map_or(0, |judged: &Judged| judged.pairs),
        verdict: benchmark.standing.word(),
        pairs_needed: judged
            .and_then(|judged| judged.needed)
            .map(|Needed { if_as_seen, for_margin }| [if_as_seen, for_margin]),
        failure: match &benchmark.standing {
            Standing::Failed(why) => Some(why),
            _ => None,
        },
        base_ns: &sides[BASE],
        head_ns: &sides[HEAD],
    }
}

#[cfg(test)]
mod tests {
    use crate::bench::suite::tests::suite;

    #[test]
    fn every_benchmark_has_its_row() {
        let built = suite(&[[100.0, 90.0], [5.0, 5.0]]);
        let json = serde_json::to_value(super::suite(&built)).unwrap();
        assert_eq!(json["schema"], "whyslow-benchmarks/1");
        let rows = json["benchmarks"].as_array().unwrap();
        let verdicts = rows.iter().map(|row| row["verdict"].as_str().unwrap()).collect::<Vec<_>>();
        assert_eq!(verdicts[0], "faster");
        assert_eq!(verdicts[2..], ["new", "vanished", "failed"]);
        assert!(
            rows[0]["ratio_low"].as_f64() < rows[0]["ratio"].as_f64()
                && rows[0]["ratio"].as_f64() < rows[0]["ratio_high"].as_f64()
        );
        assert_eq!((rows[0]["pairs"].as_u64(), rows[0]["base_ns"].as_array().unwrap().len()), (Some(10), 10));
        assert!(rows[2]["ratio"].is_null() && rows[4]["failure"] == "it panicked");
    }
}
