//! Reads criterion's files: a folder per benchmark, in it one per baseline (`new`, `base`, or a name), in it
//! `benchmark.json` and `sample.json`.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use whyslow_stats::median;

/// A benchmark that criterion measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// Its full name, as in `--list`.
    pub name: String,
    /// Nanoseconds per iteration of each sample.
    pub samples_ns: Vec<f64>,
}

impl Stored {
    /// One value for the whole run. It is the median, since a few samples during which another program had
    /// the CPU move criterion's slope and mean.
    pub fn median_ns(&self) -> f64 {
        median(&self.samples_ns)
    }
}

#[derive(Deserialize)]
struct Benchmark {
    full_id: String,
}

#[derive(Deserialize)]
struct Sample {
    iters: Vec<f64>,
    times: Vec<f64>,
}

/// Reads the two files of a benchmark; `None` if they are damaged or hold no times.
pub fn read(benchmark: &str, sample: &str) -> Option<Stored> {
    let benchmark: Benchmark = serde_json::from_str(benchmark).ok()?;
    let sample: Sample = serde_json::from_str(sample).ok()?;
    if sample.iters.len() != sample.times.len() {
        return None;
    }
    let samples = sample.times.iter().zip(&sample.iters).map(|(time, iterations)| time / iterations);
    let samples_ns = samples.filter(|ns| ns.is_finite() && *ns > 0.0).collect::<Vec<_>>();
    (!samples_ns.is_empty()).then_some(Stored { name: benchmark.full_id, samples_ns })
}

/// All benchmarks in criterion's folder that have this baseline, sorted by name.
pub fn read_folder(home: &Path, baseline: &str) -> Vec<Stored> {
    /// Group, function and value are a folder each; names with a slash are not.
    const DEEPEST: usize = 5;
    let mut found = Vec::new();
    let mut folders = vec![(home.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let file = |name: &str| fs::read_to_string(folder.join(baseline).join(name)).ok();
        found.extend(
            file("benchmark.json")
                .zip(file("sample.json"))
                .and_then(|(benchmark, sample)| read(&benchmark, &sample)),
        );
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        let inner = entries
            .flatten()
            .filter(|entry| depth < DEEPEST && entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.extend(inner.map(|entry| (entry.path(), depth + 1)));
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    // As criterion 0.7 wrote them.
    const BENCHMARK: &str = r#"{"group_id":"group/a","function_id":"sum","value_str":"100","throughput":null,"full_id":"group/a/sum/100","directory_name":"group_a/sum/100","title":"group/a/sum/100"}"#;
    const SAMPLE: &str = r#"{"sampling_mode":"Linear","iters":[49499.0,98998.0,148497.0],"times":[3910153.0,11899337.0,15825005.0]}"#;

    #[test]
    fn sample_is_time_per_iteration() {
        let stored = read(BENCHMARK, SAMPLE).unwrap();
        assert_eq!(stored.name, "group/a/sum/100");
        assert!(
            (stored.samples_ns[0] - 78.994).abs() < 1e-3 && (stored.median_ns() - 106.568).abs() < 1e-3,
            "{stored:?}"
        );
        assert_eq!(read(BENCHMARK, &SAMPLE.replace("49499.0,", "")), None);
        assert_eq!(read("{}", SAMPLE), None);
        for cut in 0..SAMPLE.len() {
            assert_eq!(read(BENCHMARK, &SAMPLE[..cut]), None);
        }
    }
}
