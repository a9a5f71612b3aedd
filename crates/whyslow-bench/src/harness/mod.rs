//! Benchmark executables that cargo builds: which harness they contain, what it lists, how to drive it, what
//! it prints.

mod divan;

use std::time::Duration;

/// A harness that can be driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harness {
    /// criterion. Versions before 0.4 have no `--exact` and filter only by regular expression.
    Criterion {
        /// Whether it has `--exact`.
        exact: bool,
    },
    /// divan.
    Divan,
    /// The harness that comes with Rust, for `#[bench]`.
    Libtest,
}

/// How long each turn of a benchmark measures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effort {
    /// The warm-up time.
    pub warm_up: Duration,
    /// The measured time.
    pub measured: Duration,
}

impl Harness {
    /// Recognises the harness by the output of `EXE --help`.
    pub fn of_help(help: &str) -> Option<Self> {
        if help.contains("--save-baseline") {
            Some(Self::Criterion { exact: help.contains("--exact") })
        } else if help.contains("--skip-ext-time") {
            Some(Self::Divan)
        } else if help.contains("--test-threads") {
            Some(Self::Libtest)
        } else {
            None
        }
    }

    /// Recognises the harness of an executable that prints no help, by the output of `EXE --bench --list`, if it
    /// prints one, and by the libraries that its package depends on: names with their version requirement.
    pub fn of_list(list: Option<&str>, dependencies: &[(&str, &str)]) -> Option<Self> {
        let requirement =
            |name: &str| dependencies.iter().find(|(known, _)| *known == name).map(|(_, req)| *req);
        let has_benchmarks = list.is_some_and(|list| list.lines().any(|line| listed_name(line).is_some()));
        if has_benchmarks && list.is_some_and(|list| list.lines().any(is_libtest_count)) {
            return Some(Self::Libtest);
        }
        match (requirement("criterion"), requirement("divan")) {
            (Some(requirement), _) if has_benchmarks => {
                Some(Self::Criterion { exact: has_exact(requirement) })
            }
            (_, Some(_)) if list.is_some() && !has_benchmarks => Some(Self::Divan),
            _ => None,
        }
    }

    /// The arguments that list the functions of an executable one by one, where running all of them fails. `None` if
    /// the harness lists its benchmarks without running them.
    pub fn functions_args(self) -> Option<&'static [&'static str]> {
        matches!(self, Self::Divan).then_some(&["--bench", "--color", "never", "--list"])
    }

    /// The functions in that output.
    pub fn functions(printed: &str) -> Vec<String> {
        divan::functions(printed)
    }

    /// The arguments that list the benchmarks of one function.
    pub fn list_function_args(self, function: &str) -> Vec<String> {
        let all = self.list_args().iter().map(|word| (*word).to_owned());
        all.chain([format!("^{}(::.*)?$", escaped(function))]).collect()
    }

    /// Its name.
    pub fn label(self) -> &'static str {
        match self {
            Self::Criterion { .. } => "criterion",
            Self::Divan => "divan",
            Self::Libtest => "libtest",
        }
    }

    /// The arguments that list all its benchmarks.
    pub fn list_args(self) -> &'static [&'static str] {
        match self {
            Self::Criterion { .. } | Self::Libtest => &["--bench", "--list"],
            // Its own list leaves out the arguments of benchmarks; the table of a run has them.
            Self::Divan => &["--bench", "--color", "never", "--sample-count", "1", "--sample-size", "1"],
        }
    }

    /// The benchmarks in its output, in its order.
    pub fn listed(self, printed: &str) -> Vec<String> {
        match self {
            Self::Criterion { .. } | Self::Libtest => {
                printed.lines().filter_map(listed_name).map(str::to_owned).collect()
            }
            Self::Divan => divan::medians_ns(printed).into_iter().map(|(name, _)| name).collect(),
        }
    }

    /// The arguments that measure one benchmark.
    pub fn measuring_args(self, benchmark: &str, effort: Effort) -> Vec<String> {
        let mut args = self.only(benchmark);
        let seconds = |time: Duration| match self {
            // Before 0.4, criterion takes whole seconds.
            Self::Criterion { exact: false } => time.as_secs_f64().ceil().max(1.0).to_string(),
            _ => time.as_secs_f64().to_string(),
        };
        let (warm_up, measured) = (seconds(effort.warm_up), seconds(effort.measured));
        let how: &[&str] = match self {
            // The smallest values that it accepts without a warning. Its own intervals are not used: they
            // cover one run only.
            Self::Criterion { .. } => &[
                "--noplot",
                "--sample-size",
                "10",
                "--nresamples",
                "1001",
                "--warm-up-time",
                &warm_up,
                "--measurement-time",
                &measured,
            ],
            Self::Divan => &["--color", "never", "--min-time", &measured, "--max-time", &measured],
            // It chooses the measuring time itself.
            Self::Libtest => &[],
        };
        args.extend(how.iter().map(|word| (*word).to_owned()));
        args
    }

    /// The arguments that run one benchmark for about this long, for a profiler.
    pub fn profiling_args(self, benchmark: &str, time: Duration) -> Vec<String> {
        let mut args = self.only(benchmark);
        let seconds = time.as_secs().max(1).to_string();
        let how: &[&str] = match self {
            Self::Criterion { .. } => &["--profile-time", &seconds],
            Self::Divan => &["--min-time", &seconds, "--max-time", &seconds],
            Self::Libtest => &[],
        };
        args.extend(how.iter().map(|word| (*word).to_owned()));
        args
    }

    /// The arguments that select one benchmark.
    fn only(self, benchmark: &str) -> Vec<String> {
        let filter = match self {
            Self::Criterion { exact: false } => {
                return vec!["--bench".to_owned(), format!("^{}$", escaped(benchmark))];
            }
            Self::Divan => divan::filter(benchmark),
            Self::Criterion { exact: true } | Self::Libtest => benchmark,
        };
        vec!["--bench".to_owned(), "--exact".to_owned(), filter.to_owned()]
    }

    /// Nanoseconds per iteration, from the output of a run. criterion writes files instead:
    /// [`crate::foreign::criterion`] reads them.
    pub fn printed_ns(self, benchmark: &str, printed: &str) -> Option<f64> {
        match self {
            Self::Criterion { .. } => None,
            Self::Divan => {
                divan::medians_ns(printed).into_iter().find(|(name, _)| name == benchmark).map(|(_, ns)| ns)
            }
            Self::Libtest => printed.lines().find_map(|line| libtest_ns(line, benchmark)),
        }
    }
}

/// The benchmark of a line: `name: benchmark`, or `name: bench` in criterion before 0.4.
fn listed_name(line: &str) -> Option<&str> {
    line.strip_suffix(": benchmark").or_else(|| line.strip_suffix(": bench"))
}

/// `1 test, 2 benchmarks`
fn is_libtest_count(line: &str) -> bool {
    let mut words = line.split(' ');
    let is_count = |word: Option<&str>| word.is_some_and(|word| word.parse::<u64>().is_ok());
    is_count(words.next())
        && words.next().is_some_and(|word| word.starts_with("test"))
        && is_count(words.next())
        && words.next().is_some_and(|word| word.starts_with("benchmark"))
}

/// Whether a version of criterion has `--exact`: since 0.4.
fn has_exact(requirement: &str) -> bool {
    let version = requirement.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    let mut numbers = version.split(|letter: char| !letter.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(0)), Some(Ok(minor))) => minor >= 4,
        _ => true,
    }
}

/// `test inner::slow ... bench:       6,694.48 ns/iter (+/- 5,724.04)`
fn libtest_ns(line: &str, benchmark: &str) -> Option<f64> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... bench:")?;
    let (number, _) = rest.split_once(" ns/iter")?;
    (name.trim_end() == benchmark).then(|| number.trim().replace(',', "").parse().ok())?
}

/// A regular expression that matches exactly this text.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(character) {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRITERION: Harness = Harness::Criterion { exact: true };
    const EFFORT: Effort =
        Effort { warm_up: Duration::from_millis(100), measured: Duration::from_millis(500) };

    #[test]
    fn recognises_a_harness_by_its_help() {
        // criterion 0.7, divan 0.1, Rust 1.95, criterion 0.3.
        let criterion = "  -s, --save-baseline <save-baseline>\n          Save results\n      --exact\n          Run benchmarks that exactly match";
        let divan = "      --exact                          Filter benchmarks\n      --skip-ext-time [<true|false>]   When";
        let libtest = "        --logfile PATH  Write logs\n        --test-threads n_threads\n        --exact         Exactly match filters";
        let old = "    -s, --save-baseline <save-baseline>            Save results under a named baseline";
        assert_eq!(Harness::of_help(criterion), Some(CRITERION));
        assert_eq!(Harness::of_help(divan), Some(Harness::Divan));
        assert_eq!(Harness::of_help(libtest), Some(Harness::Libtest));
        assert_eq!(Harness::of_help(old), Some(Harness::Criterion { exact: false }));
        assert_eq!(Harness::of_help("my own benchmark: 3 ms"), None);
    }

    #[test]
    fn recognises_a_harness_without_help_by_its_list_and_dependencies() {
        let criterion = Some("fib 10: benchmark\n\ng/fib 12: benchmark\n\n");
        let of = |list, dependencies: &[(&str, &str)]| Harness::of_list(list, dependencies);
        assert_eq!(of(criterion, &[("criterion", "=0.5.1")]), Some(CRITERION));
        assert_eq!(of(criterion, &[("criterion", "^0.3")]), Some(Harness::Criterion { exact: false }));
        assert_eq!(of(Some("a: benchmark\nt: test\n\n1 test, 1 benchmark\n"), &[]), Some(Harness::Libtest));
        assert_eq!(of(Some("div\n├─ fib\n"), &[("divan", "^0.1")]), Some(Harness::Divan));
        // Both libraries in one package.
        let both = [("criterion", "^0.5"), ("divan", "^0.1")];
        assert_eq!(of(criterion, &both), Some(CRITERION));
        assert_eq!(of(Some("div\n├─ fib\n"), &both), Some(Harness::Divan));
        assert_eq!(of(Some("my own benchmark: 3 ms"), &[]), None);
        assert_eq!(of(None, &both), None);
    }

    #[test]
    fn lists_benchmarks_but_not_tests() {
        let criterion = "sum small: benchmark\n\ngroup/a/sum/10: benchmark\ngroup/a/sum/100: benchmark\n\n";
        assert_eq!(CRITERION.listed(criterion), ["sum small", "group/a/sum/10", "group/a/sum/100"]);
        // criterion 0.3.
        let old = "WARNING: HTML report generation will become optional.\n\nallocate/small/1000: bench\n";
        assert_eq!(Harness::Criterion { exact: false }.listed(old), ["allocate/small/1000"]);
        let libtest = "fast: benchmark\ninner::slow: benchmark\nt: test\n\n1 test, 2 benchmarks\n";
        assert_eq!(Harness::Libtest.listed(libtest), ["fast", "inner::slow"]);
    }

    #[test]
    fn libtest_prints_nanoseconds_with_separators() {
        let printed = "\nrunning 3 tests\ntest t ... ignored\ntest fast        ... bench:           0.66 ns/iter (+/- 0.33)\n\
            test inner::slow ... bench:       6,910.20 ns/iter (+/- 7,386.06)\n\ntest result: ok. 0 passed\n";
        assert_eq!(Harness::Libtest.printed_ns("fast", printed), Some(0.66));
        assert_eq!(Harness::Libtest.printed_ns("inner::slow", printed), Some(6910.2));
        assert_eq!(Harness::Libtest.printed_ns("slow", printed), None);
        // Rust 1.7x printed whole numbers.
        let whole = "test slow ... bench:       1,234 ns/iter (+/- 56) = 12 MB/s";
        assert_eq!(Harness::Libtest.printed_ns("slow", whole), Some(1234.0));
    }

    #[test]
    fn each_harness_gets_its_own_arguments() {
        let words = |harness: Harness| harness.measuring_args("a/b (1)", EFFORT).join(" ");
        let how = "--noplot --sample-size 10 --nresamples 1001 --warm-up-time 0.1 --measurement-time 0.5";
        assert_eq!(words(CRITERION), format!("--bench --exact a/b (1) {how}"));
        let whole = "--noplot --sample-size 10 --nresamples 1001 --warm-up-time 1 --measurement-time 1";
        assert_eq!(words(Harness::Criterion { exact: false }), format!(r"--bench ^a/b \(1\)$ {whole}"));
        assert_eq!(words(Harness::Libtest), "--bench --exact a/b (1)");
        assert_eq!(
            words(Harness::Divan),
            "--bench --exact a/b (1) --color never --min-time 0.5 --max-time 0.5"
        );
        let profiled = CRITERION.profiling_args("a", Duration::from_secs(5));
        assert_eq!(profiled.join(" "), "--bench --exact a --profile-time 5");
    }
}
